"""Reads what a model answered to the extraction prompt, in whatever shape: other names, other containers, cut short.

Tolerant of form, strict in the end: an answer in which no candidates can be found is an error that is tried again,
never "nothing to learn".
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Relation
from memproxy.core.predicates import OTHER
from memproxy.errors import ModelUnreadable
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.decode import nested, values
from memproxy.learn.fields import MOST_CONTENT, MOST_NAME, labels, lowered, moment, quotes, share, text_of

MOST_CANDIDATES = 50
"""Candidates read from one answer; one window of a conversation holds far fewer facts."""

_MOST_RELATIONS = 20
_DEEPEST = 6
_CONTAINERS = ("candidates", "memories", "facts", "items", "results", "data", "memory", "statements", "output")
_INTENT_CONTAINERS = {
    **dict.fromkeys(("forget", "forgotten", "retractions", "deletions"), Intent.FORGET),
    **dict.fromkeys(("corrections", "updates"), Intent.CORRECT),
}
_WRAPPERS = ("arguments", "parameters", "input", "function", "tool_calls", "function_call", "response", "answer")
_CONTENT = ("content", "text", "memory", "fact", "statement")
_KIND = ("kind", "type", "memory_type")
_INTENT = ("intent", "operation", "event", "action")
_KINDS = {
    **{kind.value: kind for kind in (Kind.SEMANTIC, Kind.PROCEDURAL, Kind.EPISODIC)},
    "procedure": Kind.PROCEDURAL,
    "how-to": Kind.PROCEDURAL,
    "workflow": Kind.PROCEDURAL,
    "episode": Kind.EPISODIC,
    "event": Kind.EPISODIC,
}
_INTENTS = {
    **dict.fromkeys(("correct", "correction", "update", "replace", "change", "changed"), Intent.CORRECT),
    **dict.fromkeys(("forget", "delete", "remove", "retract", "retraction"), Intent.FORGET),
}
_ORDER = re.compile(
    r"\W*(?:(?:please|ok(?:ay)?|you can|can you|could you|just|actually)\W+)*(?:forget|do(?:n't| not) remember\b"
    r"(?! (?:where|when|who|why|how|if|whether)))\b"
    r"(?! to\b)[^,;:.!?\n]{3,60}\W*",
    re.IGNORECASE,
)
"""A quote that is nothing but an order to forget something: what rests on it states nothing."""

_NOTHING = frozenset({"none", "noop", "no_change", "unchanged", "keep"})
_STANCES = {
    **dict.fromkeys(("positive", "like", "likes", "love", "loves", "pro", "favorable"), "positive"),
    **dict.fromkeys(("negative", "dislike", "dislikes", "hate", "hates", "con", "unfavorable"), "negative"),
    **dict.fromkeys(("mixed", "ambivalent"), "mixed"),
    **dict.fromkeys(("neutral", "indifferent"), "neutral"),
}


class Answer(msgspec.Struct, frozen=True):
    """What an answer holds: the candidates, and how many items of it were none."""

    candidates: list[Extracted]
    dropped: int


def parse(text: str) -> Answer:
    """The candidates in a model's answer; none when it says that there are none.

    Raises:
        ModelUnreadable: there is no JSON in it that could be an answer.
    """
    items = _answered(text)
    if items is None:
        raise ModelUnreadable("the model's answer to the extraction prompt holds no JSON with candidates; tried again")
    read = [candidate for item in items[:MOST_CANDIDATES] if (candidate := _candidate(item)) is not None]
    if items and not read and not all(_says_nothing(item) for item in items):
        raise ModelUnreadable("no candidate in the model's answer has any content; it is tried again")
    return Answer(read, len(items) - len(read))


def _answered(text: str) -> list[Any] | None:
    """The items of the answer: of the last value that has a container for them (models repeat the prompt or reason
    first), else of all values together (one object a line).
    """
    whole = nested(_unquoted(text))
    loose: list[Any] | None = None
    contained: list[Any] | None = None
    for value in values(text) if whole is None else [whole]:
        items = _items(value)
        if items is None:
            continue
        if isinstance(value, dict) and not _is_candidate(value):
            contained = items or contained or items
        else:
            loose = [*(loose or ()), *items]
    return loose if contained is None else contained


def _unquoted(text: str) -> str:
    """The text that a JSON string holds, when the answer is one string and nothing else."""
    stripped = text.strip()
    if not (stripped.startswith('"') and stripped.endswith('"')):
        return ""
    try:
        value = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return value if isinstance(value, str) else ""


def _items(value: Any, depth: int = 0) -> list[Any] | None:
    """The list of candidates in a decoded answer, or None when it has no such shape."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        held = nested(value)
        return None if held is None else _items(held, depth + 1)
    if isinstance(value, list):
        usable = [item for item in value if isinstance(item, dict | str)]
        if usable and all(isinstance(item, dict) and _is_wrapper(item) for item in usable):
            return [found for item in usable for found in _items(item, depth + 1) or []]
        return value if usable or not value else None
    return _items_of_object(value, depth) if isinstance(value, dict) else None


def _items_of_object(value: dict[Any, Any], depth: int) -> list[Any] | None:
    if _is_candidate(value):
        return [value]
    others = list(_by_intent(value))
    for name in _CONTAINERS:
        held = value.get(name)
        if isinstance(held, list | dict) or (isinstance(held, str) and nested(held) is not None):
            found = _items(held, depth + 1)
            return found if found is None else [*found, *others]
        if name in value and held is None:
            return others
    return others or _by_kind(value) or _unwrapped(value, depth)


def _unwrapped(value: dict[Any, Any], depth: int) -> list[Any] | None:
    """What stands within the call of a tool, or under a name that says nothing."""
    for name in _WRAPPERS:
        if name in value and (found := _items(value[name], depth + 1)) is not None:
            return found
    said_by_kind = any(isinstance(value.get(name), list) for name in _KINDS)
    return [] if said_by_kind or not value else None


def _is_candidate(value: dict[Any, Any]) -> bool:
    fields = lowered(value)
    return any(isinstance(fields.get(name), str) and nested(fields[name]) is None for name in _CONTENT)


def _is_wrapper(value: dict[Any, Any]) -> bool:
    return not _is_candidate(value) and any(name in value for name in (*_WRAPPERS, *_CONTAINERS))


def _by_intent(value: dict[str, Any]) -> Iterator[Any]:
    """Candidates that stand in a list of their own for what is done with them."""
    for name, intent in _INTENT_CONTAINERS.items():
        held = value.get(name)
        for item in held if isinstance(held, list) else ():
            yield {"intent": intent.value, **(item if isinstance(item, dict) else {"content": item})}


def _by_kind(value: dict[str, Any]) -> list[Any]:
    """Candidates sorted into one list for each kind."""
    found: list[Any] = []
    for kind in _KINDS:
        held = value.get(kind)
        items = held if isinstance(held, list) else []
        found += [{"kind": kind, **(item if isinstance(item, dict) else {"content": item})} for item in items]
    return found


def _candidate(item: Any) -> Extracted | None:
    if isinstance(item, str):
        item = nested(item) or {"content": item}
    if not isinstance(item, dict):
        return None
    fields = lowered(item)
    evidence = quotes(fields)
    content, intent = text_of(fields, _CONTENT, MOST_CONTENT), _intent(fields)
    if intent is Intent.STATE and evidence and all(_ORDER.fullmatch(quote) for quote in evidence):
        intent = Intent.FORGET
    if content is None or intent is None or not (intent is Intent.FORGET or _is_statement(content)):
        return None
    begins, ends = moment(fields.get("valid_from")), moment(fields.get("valid_to"), end=True)
    return Extracted(
        content=content,
        intent=intent,
        kind=_KINDS.get((text_of(fields, _KIND, 50) or "").lower(), Kind.SEMANTIC),
        subject=text_of(fields, ("subject",), MOST_NAME),
        predicate=_predicate(fields),
        object=text_of(fields, ("object", "value"), MOST_CONTENT),
        aspect=text_of(fields, ("aspect",), MOST_NAME),
        stance=_STANCES.get((text_of(fields, ("stance", "sentiment"), 50) or "").lower()),
        replaces=text_of(fields, ("replaces", "old_memory", "old_value"), MOST_CONTENT),
        category=text_of(fields, ("category",), MOST_NAME),
        tags=labels(fields.get("tags")),
        entities=labels(fields.get("entities")),
        relations=_relations(fields.get("relations")),
        confidence=share(fields.get("confidence"), 0.8),
        importance=share(fields.get("importance"), 0.5),
        valid_from=begins,
        valid_to=ends if ends is None or begins is None or begins < ends else None,
        until=text_of(fields, ("valid_to",), MOST_NAME) if ends is None else None,
        evidence=evidence,
    )


def _predicate(fields: dict[str, Any]) -> str | None:
    """One of the predicates that are offered, or the model's own name for one beside `OTHER`."""
    named = text_of(fields, ("predicate", "relation"), MOST_NAME)
    if named is None or named.casefold() == OTHER:
        return text_of(fields, ("other_predicate",), MOST_NAME)
    return named


def _says_nothing(item: Any) -> bool:
    """Whether an item only says that nothing changes."""
    return isinstance(item, dict) and _intent(lowered(item)) is None


def _intent(fields: dict[str, Any]) -> Intent | None:
    """What is done with the statement; None when nothing is."""
    named = next((value.strip().lower() for name in _INTENT if isinstance(value := fields.get(name), str)), "")
    return None if named in _NOTHING else _INTENTS.get(named, Intent.STATE)


def _is_statement(content: str) -> bool:
    """At least three words (of a script without spaces, six characters): a lone label is no statement."""
    return len(content.split()) >= 3 or (not content.isascii() and len(content) >= 6)


def _relations(value: Any) -> tuple[Relation, ...]:
    """Edges, as objects (in any of the usual words) or as triples."""
    items = value if isinstance(value, list) else []
    return tuple(found for item in items[:_MOST_RELATIONS] if (found := _relation(item)) is not None)


def _relation(item: Any) -> Relation | None:
    if isinstance(item, list | tuple) and len(item) == 3:
        item = dict(zip(("subject", "predicate", "object"), item, strict=True))
    if not isinstance(item, dict):
        return None
    fields = lowered(item)
    parts: Sequence[str | None] = (
        text_of(fields, ("subject", "source", "from"), MOST_NAME),
        text_of(fields, ("predicate", "relation", "relationship"), MOST_NAME),
        text_of(fields, ("object", "target", "destination", "to"), MOST_NAME),
    )
    subject, predicate, target = parts
    if subject is None or predicate is None or target is None:
        return None
    return Relation(
        subject=subject,
        predicate=predicate,
        object=target,
        valid_from=moment(fields.get("valid_from")),
        valid_to=moment(fields.get("valid_to"), end=True),
    )
