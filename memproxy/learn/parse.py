"""Reads what a model answered to the extraction prompt, in whatever shape: other names, other containers, cut short.

Tolerant of form, strict in the end: an answer in which no candidates can be found is an error that is tried again,
never "nothing to learn".
"""

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Relation
from memproxy.core.slots import OTHER
from memproxy.errors import ModelUnreadable
from memproxy.learn.candidates import Extracted, Intent

_MOST_CHARACTERS = 200_000
_MOST_PYTHON = 50_000
_MOST_OPENINGS = 60
_MOST_FAILURES = 20
_THINKING = re.compile(r"<(think(?:ing)?|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*")
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")
_SEPARATOR = re.compile(r"[\s,]*")
_PYTHON = {"null": "None", "true": "True", "false": "False"}
_LIST_AHEAD = re.compile(r"\s*(?:\{\s*\"(?P<name>[^\"]*)\"\s*:\s*)?\[")


def values(text: str) -> Iterator[Any]:
    """The objects and lists in the text, in order, none within another; the last one may have been cut short."""
    plain = _FENCE.sub("\n", _THINKING.sub("", text[:_MOST_CHARACTERS]))
    position = failures = 0
    for _ in range(_MOST_OPENINGS):
        opening = re.compile(r"[\[{]").search(plain, position)
        if opening is None or failures == _MOST_FAILURES:
            break
        value, length = _first_value(plain[opening.start() :])
        failures += value is None
        position = opening.start() + max(1, length)
        if value is not None:
            yield value


def nested(text: str) -> Any | None:
    """The one object or list that a string holds as JSON text, or None: models encode arguments twice."""
    stripped = text.strip()
    return next(values(stripped), None) if stripped[:1] in {"{", "["} else None


def _first_value(text: str) -> tuple[Any | None, int]:
    """The value that begins here, and how many characters it took."""
    without_trailing = _TRAILING_COMMA.sub(r"\1", text)
    for attempt in (text, without_trailing):
        try:
            return _DECODER.raw_decode(attempt)
        except (ValueError, RecursionError):
            continue
    repaired = _python_literal(text) or _cut_short(without_trailing)
    return (None, 1) if repaired is None else (repaired, len(text))


def _merge_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose repeated names lose nothing: lists are joined, else the last value that says something counts."""
    result: dict[str, Any] = {}
    for name, value in pairs:
        former = result.get(name)
        if isinstance(former, list) and isinstance(value, list):
            result[name] = former + value
        elif former is None or value is not None:
            result[name] = value
    return result


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_merge_names)


def _python_literal(text: str) -> Any | None:
    """A dict or list written with single quotes, as small models do."""
    end = max(text.rfind("}"), text.rfind("]")) + 1
    if not end or end > _MOST_PYTHON or "'" not in text[:end]:
        return None
    plain = re.sub(r"(?<=[:\[,\s])(null|true|false)(?=[,\s\]}])", lambda match: _PYTHON[match.group()], text[:end])
    try:
        value = ast.literal_eval(plain)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return value if isinstance(value, dict | list) else None


def _cut_short(text: str) -> Any | None:
    """The complete items of a list whose end is missing (the token limit was reached)."""
    outer = _LIST_AHEAD.match(text)
    if outer is None:
        return None
    items: list[Any] = []
    position = outer.end()
    while True:
        begin = _SEPARATOR.match(text, position)
        try:
            item, position = _DECODER.raw_decode(text, begin.end() if begin else position)
        except (ValueError, RecursionError):
            break
        items.append(item)
    if not items:
        return None
    return {outer["name"]: items} if outer["name"] else items


MOST_CONTENT = 2_000  # characters of a statement or a quote
MOST_NAME = 300  # characters of a subject, a predicate, a category
_MOST_LABELS = 20
_EVIDENCE = ("evidence", "quote", "quotes", "source_text")
_PLACEHOLDERS = frozenset({"", "null", "none", "n/a", "unknown", "undefined", "string", "..."})
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]+")
_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")


def lowered(item: dict[Any, Any]) -> dict[str, Any]:
    """The object with its names in lower case."""
    return {str(name).lower(): value for name, value in item.items()}


def text_of(fields: dict[str, Any], names: Sequence[str], most: int) -> str | None:
    """The first of these fields that holds text, a number, or a list of texts."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            value = str(value)
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            value = "; ".join(value)
        if isinstance(value, str) and _without_control(value).lower() not in _PLACEHOLDERS:
            return _without_control(value)[:most]
    return None


def _without_control(text: str) -> str:
    """Without control characters and halves of characters, which stores and other programs do not take."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub(" ", whole).strip()


def labels(value: Any) -> tuple[str, ...]:
    """Tags or entities: a list, or text with commas between; each once."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return ()
    named = (item.get("name") if isinstance(item, dict) else item for item in value)
    texts = (_without_control(str(label))[:100] for label in named if isinstance(label, str | int | float))
    return tuple(dict.fromkeys(label for label in texts if label.lower() not in _PLACEHOLDERS))[:_MOST_LABELS]


def _share(value: Any, default: float) -> float:
    """A share in [0, 1], also when given as text, as a percentage, out of ten or in words."""
    named = {"high": 0.9, "medium": 0.6, "low": 0.3}
    if isinstance(value, str):
        lower = value.strip().lower()
        if lower in named:
            return named[lower]
        percent = lower.endswith("%")
        try:
            value = float(lower.rstrip("% ")) / (100 if percent else 1)
        except ValueError:
            return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return default
    scale = 1 if value <= 1 else 10 if value <= 10 else 100
    return float(min(1.0, max(0.0, value / scale)))


def moment(value: Any, *, end: bool = False) -> datetime | None:
    """An ISO date or time; without a zone it is UTC. A day, month or year alone is its begin, or with ``end`` the
    begin of the next one ("until Friday" holds on Friday). Anything else is no time.
    """
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        if match := _DAY.fullmatch(text):
            return _whole(match, end=end)
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _whole(match: re.Match[str], *, end: bool) -> datetime:
    year, month, day = (int(part) if part else None for part in match.groups())
    begin = datetime(year or 1, month or 1, day or 1, tzinfo=UTC)
    if not end:
        return begin
    if day is not None:
        return begin + timedelta(days=1)
    following = begin + timedelta(days=366 if month is None else 31)
    return following.replace(month=1 if month is None else following.month, day=1)


def quotes(fields: dict[str, Any]) -> tuple[str, ...]:
    """The quotes that a candidate rests on: text, or a list of texts or of objects with one."""
    for name in _EVIDENCE:
        value = fields.get(name)
        items = value if isinstance(value, list) else [value]
        named = [item.get("quote", item.get("text")) if isinstance(item, dict) else item for item in items]
        texts = tuple(_without_control(quote)[:MOST_CONTENT] for quote in named if isinstance(quote, str))
        if usable := tuple(text for text in texts if text.lower() not in _PLACEHOLDERS):
            return usable
    return ()


MOST_CANDIDATES = 50  # candidates read from one answer; one window of a conversation holds far fewer facts
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
    """The candidates in a model's answer, if any. Raises `ModelUnreadable` where no JSON in it could be an answer."""
    items = _last_items(text)
    if items is None:
        raise ModelUnreadable("the model's answer to the extraction prompt holds no JSON with candidates; tried again")
    read = [candidate for item in items[:MOST_CANDIDATES] if (candidate := _candidate(item)) is not None]
    if not read and not all(isinstance(item, dict) and _intent(lowered(item)) is None for item in items):
        raise ModelUnreadable("no candidate in the model's answer has any content; it is tried again")
    return Answer(read, len(items) - len(read))


def _last_items(text: str) -> list[Any] | None:
    """The items of the last value with a container for them (models repeat the prompt first), else of all values."""
    whole = nested(_json_string(text))
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


def _json_string(text: str) -> str:
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
        wrapped = [item for item in usable if isinstance(item, dict) and {*_WRAPPERS, *_CONTAINERS} & item.keys()]
        if usable and len(wrapped) == len(usable) and not any(map(_is_candidate, wrapped)):
            return [candidate for item in usable for candidate in _items(item, depth + 1) or []]
        return value if usable or not value else None
    return _items_of_object(value, depth) if isinstance(value, dict) else None


def _items_of_object(value: dict[Any, Any], depth: int) -> list[Any] | None:
    if _is_candidate(value):
        return [value]
    others = _by_name(value, {name: {"intent": intent.value} for name, intent in _INTENT_CONTAINERS.items()})
    for name in _CONTAINERS:
        held = value.get(name)
        if isinstance(held, list | dict) or (isinstance(held, str) and nested(held) is not None):
            candidates = _items(held, depth + 1)
            return candidates if candidates is None else [*candidates, *others]
        if name in value and held is None:
            return others
    if candidates := others or _by_name(value, {kind: {"kind": kind} for kind in _KINDS}):
        return candidates
    for name in _WRAPPERS:  # within the call of a tool, or under a name that says nothing
        if name in value and (candidates := _items(value[name], depth + 1)) is not None:
            return candidates
    said_by_kind = any(isinstance(value.get(name), list) for name in _KINDS)
    return [] if said_by_kind or not value else None


def _is_candidate(value: dict[Any, Any]) -> bool:
    fields = lowered(value)
    return any(isinstance(fields.get(name), str) and nested(fields[name]) is None for name in _CONTENT)


def _by_name(value: dict[str, Any], lists: Mapping[str, dict[str, str]]) -> list[Any]:
    """Candidates that stand in lists whose names say something of them, for what is done with them or for each kind."""
    candidates: list[Any] = []
    for name, defaults in lists.items():
        held = value.get(name)
        items = held if isinstance(held, list) else []
        candidates += [defaults | (item if isinstance(item, dict) else {"content": item}) for item in items]
    return candidates


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
    if content is None or intent is None:
        return None
    # a lone label is no statement: it has three words, or of a script without spaces six characters
    is_statement = len(content.split()) >= 3 or (not content.isascii() and len(content) >= 6)
    if intent is not Intent.FORGET and not is_statement:
        return None
    begins, ends = moment(fields.get("valid_from")), moment(fields.get("valid_to"), end=True)
    named = text_of(fields, ("predicate", "relation"), MOST_NAME)
    relations = fields.get("relations")
    edges = map(_relation, relations[:_MOST_RELATIONS] if isinstance(relations, list) else ())
    return Extracted(
        content=content,
        intent=intent,
        kind=_KINDS.get((text_of(fields, _KIND, 50) or "").lower(), Kind.SEMANTIC),
        subject=text_of(fields, ("subject",), MOST_NAME),
        predicate=named if named and named.casefold() != OTHER else text_of(fields, ("other_predicate",), MOST_NAME),
        object=text_of(fields, ("object", "value"), MOST_CONTENT),
        aspect=text_of(fields, ("aspect",), MOST_NAME),
        stance=_STANCES.get((text_of(fields, ("stance", "sentiment"), 50) or "").lower()),
        replaces=text_of(fields, ("replaces", "old_memory", "old_value"), MOST_CONTENT),
        category=text_of(fields, ("category",), MOST_NAME),
        tags=labels(fields.get("tags")),
        entities=labels(fields.get("entities")),
        relations=tuple(edge for edge in edges if edge is not None),
        confidence=_share(fields.get("confidence"), 0.8),
        importance=_share(fields.get("importance"), 0.5),
        valid_from=begins,
        valid_to=ends if ends is None or begins is None or begins < ends else None,
        until=text_of(fields, ("valid_to",), MOST_NAME) if ends is None else None,
        evidence=evidence,
    )


def _intent(fields: dict[str, Any]) -> Intent | None:
    """What is done with the statement; None when nothing is."""
    named = next((value.strip().lower() for name in _INTENT if isinstance(value := fields.get(name), str)), "")
    return None if named in _NOTHING else _INTENTS.get(named, Intent.STATE)


def _relation(item: Any) -> Relation | None:
    """An edge, as an object (in any of the usual words) or as a triple."""
    if isinstance(item, list | tuple) and len(item) == 3:
        item = dict(zip(("subject", "predicate", "object"), item, strict=True))
    if not isinstance(item, dict):
        return None
    fields = lowered(item)
    subject = text_of(fields, ("subject", "source", "from"), MOST_NAME)
    predicate = text_of(fields, ("predicate", "relation", "relationship"), MOST_NAME)
    target = text_of(fields, ("object", "target", "destination", "to"), MOST_NAME)
    if subject is None or predicate is None or target is None:
        return None
    begin, end = moment(fields.get("valid_from")), moment(fields.get("valid_to"), end=True)
    return Relation(subject=subject, predicate=predicate, object=target, valid_from=begin, valid_to=end)
