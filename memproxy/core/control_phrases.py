"""What a user says to memory itself, and what it answers; ``control_phrases.json`` has both. A whole message is one of
these, or it is for the model. ``{x}`` in a phrase is what is to be forgotten: by ``forget`` phrases, which speak of
memory or the user's own things, in messages too; by ``forget_known`` (a bare "forget Hawaii") in facts alone.
"""

import functools
import json
import unicodedata
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Literal

import msgspec

Name = Literal["about", "forget", "unremember", "stop", "start"]
_WHOLE: tuple[Name, ...] = ("about", "unremember", "stop", "start")

MOST_CHARACTERS = 120  # of a message; longer ones are for the model
MOST_NAMED = 60  # characters of what is to be forgotten
MOST_ITEMS = 8  # memories that an answer names
MOST_OF_ITEM = 80  # characters of each
_ENDS = " \t.!?¡¿。！？…,，、~〜\"'“”„«»「」"
_SENTENCES = frozenset('.!?;:。！？；：,，、\n"“”')
_PLAIN = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "\u00a0": " "})
_INERT = str.maketrans({"[": "(", "]": ")", "<": "‹", ">": "›", "`": "'", "{": "(", "}": ")"})
"""What a client that renders Markdown or HTML would obey: an answer must not make it fetch a picture."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One message to memory. ``target`` is what is to be forgotten; ``in_messages``: looked for in messages, too."""

    name: Name
    language: str
    target: str = ""
    in_messages: bool = False


def command_in(text: str) -> Command | None:
    """The command that the whole of a message is; None where it is for the model."""
    if len(text) > MOST_CHARACTERS or "\n" in text.strip():
        return None
    plain = _plain(text)
    candidates: list[tuple[int, Command, bool]] = []
    for language, phrases in _data().items():
        for bare in (_without_politeness(plain, phrases["polite"]), plain):  # of equals the first one counts
            for name in _WHOLE:
                if bare in phrases[name]:
                    return Command(name=name, language=language)
            for kind in ("forget", "forget_known"):
                for template in phrases[kind]:
                    if (target := _slot(bare, template)) is not None:
                        command = Command(name="forget", language=language, target=target, in_messages=kind == "forget")
                        candidates.append((len(template), command, target not in phrases["nothing_named"]))
    _, best, names_something = max(candidates, key=lambda entry: entry[0], default=(0, None, False))
    if best is None or not names_something:
        return None
    # the name of one thing: short, and no further sentence begins in it
    is_name = len(best.target) <= MOST_NAMED and not _SENTENCES & set(best.target)
    return best if is_name and any(map(str.isalnum, best.target)) else None


def line(command: Command, which: str, items: Sequence[str] = (), *, count: int | None = None) -> str:
    """The answer in the command's language: which of the data's, with these memories (the best first) of ``count``."""
    phrases = _data()[command.language]["say"]
    count = len(items) if count is None else count
    shown = "; ".join(f"“{shortened(item)}”" for item in items[:MOST_ITEMS])
    unnamed = count - min(len(items), MOST_ITEMS)
    if unnamed > 0 and which == "about":
        shown = phrases["more"].format(items=shown, m=unnamed)
    return str(phrases[which].format(items=shown, n=count))


def shortened(text: str) -> str:
    """A memory on one line, within its room, and nothing in it that a client would render."""
    whole = " ".join("".join(c if c.isprintable() else " " for c in text).split()).translate(_INERT).rstrip(".。")
    return whole if len(whole) <= MOST_OF_ITEM else whole[: MOST_OF_ITEM - 1].rstrip() + "…"


@functools.cache
def _data() -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = json.loads(
        files("memproxy.core").joinpath("control_phrases.json").read_text("utf-8")
    )
    for phrases in data.values():
        phrases |= {name: [_plain(phrase) for phrase in listed] for name, listed in phrases.items() if name != "say"}
    return data


def _plain(text: str) -> str:
    normal = unicodedata.normalize("NFKC", text).translate(_PLAIN).casefold()
    return " ".join(normal.split()).strip(_ENDS)


def _without_politeness(text: str, polite: Sequence[str]) -> str:
    """Without one courtesy before, one behind the first word ("vergiss bitte …"), and one at the end."""
    for word in polite:
        if text.startswith(word) and (rest := text[len(word) :]) and not (rest[0].isalpha() and word[-1].isascii()):
            text = rest.strip(_ENDS)
            break
    first, _, rest = text.partition(" ")
    second, _, tail = rest.partition(" ")
    if tail and second.strip(_ENDS) in polite:
        text = f"{first} {tail}"
    for word in polite:
        if text.endswith(word) and (rest := text[: -len(word)]) and not (rest[-1].isalpha() and word[0].isascii()):
            return rest.strip(_ENDS)
    return text


def _slot(text: str, template: str) -> str | None:
    """What stands in a template's place."""
    head, _, tail = template.partition("{x}")
    if len(text) <= len(head) + len(tail) or not (text.startswith(head) and text.endswith(tail)):
        return None
    return text[len(head) : len(text) - len(tail)].strip()
