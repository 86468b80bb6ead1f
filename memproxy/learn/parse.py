"""Reads what a model answered to the extraction prompt, in whatever shape: fences, prose, cut short, other names.

Tolerant of form, strict in the end: an answer in which no JSON can be found is an error that is tried again, never
"nothing to learn".
"""

import ast
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from memproxy.core.memory import Kind
from memproxy.errors import ModelUnreadable
from memproxy.learn.candidates import Extracted

MOST_CANDIDATES = 50
"""Candidates read from one answer; one window of a conversation holds far fewer facts."""

_MOST_CHARACTERS = 200_000
_MOST_CONTENT = 2_000
_MOST_NAME = 300
_MOST_LABELS = 20

_CONTAINERS = ("candidates", "memories", "facts", "items", "results", "data", "memory", "statements", "output")
_CONTENT = ("content", "text", "memory", "fact", "statement")
_KIND = ("kind", "type", "memory_type")
_EVIDENCE = ("evidence", "quote", "source_text")
_KINDS = {
    **{kind.value: kind for kind in (Kind.SEMANTIC, Kind.PROCEDURAL, Kind.EPISODIC)},
    "procedure": Kind.PROCEDURAL,
    "how-to": Kind.PROCEDURAL,
    "workflow": Kind.PROCEDURAL,
    "episode": Kind.EPISODIC,
    "event": Kind.EPISODIC,
}
_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*")
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")
_PLACEHOLDERS = frozenset({"", "null", "none", "n/a", "unknown", "undefined", "string", "..."})


def parse(text: str) -> list[Extracted]:
    """The candidates in a model's answer; an empty list when it says that there are none.

    Raises:
        ModelUnreadable: there is no JSON in it that could be an answer.
    """
    found = _find(text)
    if found is None:
        raise ModelUnreadable("the model's answer to the extraction prompt holds no JSON; try again or another model")
    items = _items(found)
    if items is None:
        raise ModelUnreadable("the model's answer to the extraction prompt has no candidates; it is tried again")
    read = [candidate for item in items[:MOST_CANDIDATES] if (candidate := _candidate(item)) is not None]
    if items and not read:
        raise ModelUnreadable("no candidate in the model's answer has any content; it is tried again")
    return read


def _find(text: str) -> Any | None:
    """The first JSON value in the text that is an object or a list of any, whole or cut short."""
    plain = _FENCE.sub("\n", _THINKING.sub("", text[:_MOST_CHARACTERS]))
    for start in _openings(plain):
        value = _decode(plain[start:])
        if value is not None and _items(value) is not None:
            return value
    return None


def _openings(text: str) -> Iterator[int]:
    """Where a value may begin: the first few brackets (more would only cost time)."""
    for count, match in enumerate(re.finditer(r"[\[{]", text)):
        if count == 20:
            return
        yield match.start()


def _decode(text: str) -> Any | None:
    for attempt in (text, _TRAILING_COMMA.sub(r"\1", text)):
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(attempt)
        except (ValueError, RecursionError):
            continue
        return value
    return _python_literal(text) or _cut_short(_TRAILING_COMMA.sub(r"\1", text))


def _python_literal(text: str) -> Any | None:
    """A dict or list written with single quotes, as small models do."""
    end = max(text.rfind("}"), text.rfind("]")) + 1
    if not end or end > 50_000 or "'" not in text[:end]:
        return None
    plain = re.sub(r"(?<=[:\[,\s])(null|true|false)(?=[,\s\]}])", _python_name, text[:end])
    try:
        value = ast.literal_eval(plain)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return value if isinstance(value, dict | list) else None


def _python_name(match: re.Match[str]) -> str:
    return {"null": "None", "true": "True", "false": "False"}[match.group()]


def _cut_short(text: str) -> Any | None:
    """The complete items of a list whose end is missing (the token limit was reached)."""
    outer = re.match(r"\s*(?:\{\s*\"[^\"]*\"\s*:\s*)?\[", text)
    if outer is None:
        return None
    decoder = json.JSONDecoder(strict=False)
    items: list[Any] = []
    place = outer.end()
    while True:
        begin = re.compile(r"[\s,]*").match(text, place)
        try:
            item, place = decoder.raw_decode(text, begin.end() if begin else place)
        except (ValueError, RecursionError):
            return items or None
        items.append(item)


def _items(value: Any) -> list[Any] | None:
    """The list of candidates in a decoded answer, or None when it has no such shape."""
    if isinstance(value, list):
        usable = [item for item in value if isinstance(item, dict | str)]
        return usable if usable or not value else None
    return _items_of_object(value) if isinstance(value, dict) else None


def _items_of_object(value: dict[Any, Any]) -> list[Any] | None:
    for name in _CONTAINERS:
        held = value.get(name)
        if isinstance(held, list | dict):
            return _items(held)
        if name in value and held is None:
            return []
    if any(isinstance(value.get(name), str) for name in _CONTENT):
        return [value]
    if any(isinstance(value.get(name), list) for name in _KINDS):
        return _by_kind(value)
    return None if value else []


def _by_kind(value: dict[str, Any]) -> list[Any]:
    """Candidates sorted into one list for each kind."""
    found: list[Any] = []
    for kind in _KINDS:
        held = value.get(kind)
        items = held if isinstance(held, list) else []
        found += [{"kind": kind, **(item if isinstance(item, dict) else {"content": item})} for item in items]
    return found


def _candidate(item: Any) -> Extracted | None:
    fields = {"content": item} if isinstance(item, str) else _lowered(item)
    content = _text(fields, _CONTENT, _MOST_CONTENT)
    if content is None or not _is_statement(content):
        return None
    return Extracted(
        content=content,
        kind=_KINDS.get((_text(fields, _KIND, 50) or "").lower(), Kind.SEMANTIC),
        subject=_text(fields, ("subject",), _MOST_NAME),
        predicate=_text(fields, ("predicate", "relation"), _MOST_NAME),
        object=_text(fields, ("object", "value"), _MOST_CONTENT),
        aspect=_text(fields, ("aspect",), _MOST_NAME),
        category=_text(fields, ("category",), _MOST_NAME),
        tags=_labels(fields.get("tags")),
        entities=_labels(fields.get("entities")),
        confidence=_unit(fields.get("confidence"), 0.8),
        importance=_unit(fields.get("importance"), 0.5),
        valid_from=_time(fields.get("valid_from")),
        valid_to=_time(fields.get("valid_to")),
        evidence=_quotes(fields),
    )


def _is_statement(content: str) -> bool:
    """At least three words (of a script without spaces, six characters): a lone label is no statement."""
    return len(content.split()) >= 3 or (not content.isascii() and len(content) >= 6)


def _lowered(item: dict[Any, Any]) -> dict[str, Any]:
    return {str(name).lower(): value for name, value in item.items()}


def _text(fields: dict[str, Any], names: tuple[str, ...], most: int) -> str | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            value = "; ".join(value)
        if isinstance(value, str) and value.strip().lower() not in _PLACEHOLDERS:
            return value.strip()[:most]
    return None


def _labels(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return ()
    labels = (str(label).strip()[:100] for label in value if isinstance(label, str | int | float))
    return tuple(dict.fromkeys(label for label in labels if label.lower() not in _PLACEHOLDERS))[:_MOST_LABELS]


def _unit(value: Any, default: float) -> float:
    """A share in [0, 1], also when given as text, as a percentage or in words."""
    named = {"high": 0.9, "medium": 0.6, "low": 0.3}
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in named:
            return named[lowered]
        percent = lowered.endswith("%")
        try:
            value = float(lowered.rstrip("% ")) / (100 if percent else 1)
        except ValueError:
            return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return default
    share = value / 10 if 1 < value <= 10 else value / 100 if value > 10 else value
    return float(min(1.0, max(0.0, share)))


def _time(value: Any) -> datetime | None:
    """An ISO date or time; without a zone it is UTC. Anything else is no time."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _quotes(fields: dict[str, Any]) -> tuple[str, ...]:
    for name in _EVIDENCE:
        value = fields.get(name)
        quotes = value if isinstance(value, list) else [value]
        texts = tuple(quote.strip()[:_MOST_CONTENT] for quote in quotes if isinstance(quote, str))
        if kept := tuple(text for text in texts if text.lower() not in _PLACEHOLDERS):
            return kept
    return ()
