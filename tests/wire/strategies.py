"""Random JSON texts and chat requests as clients really write them: spacing, escapes, number forms, key order."""

import json
from typing import Any

from hypothesis import strategies as st

SPACES = st.text(alphabet=" \t\n\r", max_size=3)
ROLES = st.sampled_from(["user", "assistant", "system", "developer", "tool", "function", "critic"])
NUMBERS = st.sampled_from(["0", "-0", "1.0", "1e-6", "1E+2", "123456789012345678901234567890", "-1.50", "1e5"])
TEXTS = st.text(max_size=30)


def text_of(value: str, *, ascii_only: bool, slashes: bool) -> str:
    """One way to write a string in JSON."""
    written = json.dumps(value, ensure_ascii=ascii_only)
    return written.replace("/", "\\/") if slashes else written


@st.composite
def strings(draw: st.DrawFn, value: str | None = None) -> str:
    return text_of(draw(TEXTS) if value is None else value, ascii_only=draw(st.booleans()), slashes=draw(st.booleans()))


@st.composite
def objects(draw: st.DrawFn, members: list[tuple[str, str]]) -> str:
    """An object with these members (name, JSON), spaced in some way."""
    written = [
        f"{draw(SPACES)}{draw(strings(name))}{draw(SPACES)}:{draw(SPACES)}{value}{draw(SPACES)}"
        for name, value in members
    ]
    return "{" + (",".join(written) or draw(SPACES)) + "}"


@st.composite
def arrays(draw: st.DrawFn, values: list[str]) -> str:
    """An array of these JSON values, spaced in some way."""
    written = [f"{draw(SPACES)}{value}{draw(SPACES)}" for value in values]
    return "[" + (",".join(written) or draw(SPACES)) + "]"


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.lists(TEXTS, max_size=3, unique=True)
    return st.lists(inner, max_size=3).flatmap(arrays) | names.flatmap(
        lambda keys: st.tuples(*(inner for _ in keys)).flatmap(
            lambda values: objects(list(zip(keys, values, strict=True)))
        )
    )


VALUES: st.SearchStrategy[str] = st.recursive(
    NUMBERS | strings() | st.sampled_from(["true", "false", "null", "[]", "{}"]), _nested, max_leaves=6
)
"""Any JSON value, as text."""


@st.composite
def messages(draw: st.DrawFn) -> str:
    members = [("role", draw(strings(draw(ROLES))))]
    parts = [
        draw(objects([("type", '"text"'), ("text", draw(strings()))])),
        draw(objects([("type", '"image_url"'), ("image_url", draw(VALUES))])),
    ]
    content = draw(st.sampled_from(["string", "parts", "null", "none"]))
    if content == "string":
        members.append(("content", draw(strings())))
    elif content == "parts":
        members.append(("content", draw(arrays(draw(st.lists(st.sampled_from(parts), max_size=3))))))
    elif content == "null":
        members.append(("content", "null"))
    if draw(st.booleans()):
        members.append(("tool_calls", draw(st.sampled_from(["[]", "null", '[{"id":"x","function":{}}]']))))
    if draw(st.booleans()):
        members.append(("x_unknown", draw(VALUES)))
    return draw(objects(draw(st.permutations(members))))


@st.composite
def chat_bodies(draw: st.DrawFn, *, ours: bool | None = None) -> bytes:
    """A whole chat request, as bytes; ``ours`` says whether our own fields are in it (None: perhaps)."""
    members = [("model", '"m"'), ("messages", draw(arrays(draw(st.lists(messages(), max_size=5)))))]
    names = draw(st.lists(st.sampled_from(["temperature", "seed", "é\u2028", "stop", "metadata", "x"]), unique=True))
    members += [(name, draw(VALUES)) for name in names]
    own = [("memory_context", '{"user_id": "u"}'), ("memory_config", '{"max_tokens" : 5}')]
    if ours is not False:
        members += draw(st.lists(st.sampled_from(own), unique=True, min_size=1 if ours else 0))
    return (draw(SPACES) + draw(objects(draw(st.permutations(members)))) + draw(SPACES)).encode()


def exactly(text: bytes | str) -> Any:
    """The document with the order of its members and the form of its numbers kept, to compare with."""
    return json.loads(
        text, object_pairs_hook=list, parse_float=lambda form: ("number", form), parse_int=lambda form: ("number", form)
    )


@st.composite
def splits(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes in some pieces, empty ones among them."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
