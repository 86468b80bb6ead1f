"""Finds the JSON values in what a model answered: fences, prose, single quotes, trailing commas, a missing end."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

_MOST_CHARACTERS = 200_000
_MOST_PYTHON = 50_000
_MOST_OPENINGS = 60
_MOST_FAILURES = 20
_THINKING = re.compile(r"<(think(?:ing)?|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*")
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")
_SEPARATOR = re.compile(r"[\s,]*")
_LIST_AHEAD = re.compile(r"\s*(?:\{\s*\"(?P<name>[^\"]*)\"\s*:\s*)?\[")


def values(text: str) -> Iterator[Any]:
    """The objects and lists in the text, in order, none within another; the last one may have been cut short."""
    plain = _FENCE.sub("\n", _THINKING.sub("", text[:_MOST_CHARACTERS]))
    place = failures = 0
    for _ in range(_MOST_OPENINGS):
        opening = re.compile(r"[\[{]").search(plain, place)
        if opening is None or failures == _MOST_FAILURES:
            break
        value, length = _decoded(plain[opening.start() :])
        failures += value is None
        place = opening.start() + max(1, length)
        if value is not None:
            yield value


def nested(text: str) -> Any | None:
    """The one object or list that a string holds as JSON text, or None: models encode arguments twice."""
    stripped = text.strip()
    return next(values(stripped), None) if stripped[:1] in {"{", "["} else None


def _decoded(text: str) -> tuple[Any | None, int]:
    """The value that begins here, and how many characters it took."""
    decoder = _decoder()
    for attempt in (text, _TRAILING_COMMA.sub(r"\1", text)):
        try:
            value, length = decoder.raw_decode(attempt)
        except (ValueError, RecursionError):
            continue
        return value, length
    found = _python_literal(text) or _cut_short(_TRAILING_COMMA.sub(r"\1", text))
    return (None, 1) if found is None else (found, len(text))


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(strict=False, object_pairs_hook=_merged)


def _merged(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose repeated names lose nothing: lists are joined, else the last value that says something counts."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        former = found.get(name)
        if isinstance(former, list) and isinstance(value, list):
            found[name] = former + value
        elif former is None or value is not None:
            found[name] = value
    return found


def _python_literal(text: str) -> Any | None:
    """A dict or list written with single quotes, as small models do."""
    end = max(text.rfind("}"), text.rfind("]")) + 1
    if not end or end > _MOST_PYTHON or "'" not in text[:end]:
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
    outer = _LIST_AHEAD.match(text)
    if outer is None:
        return None
    decoder = _decoder()
    items: list[Any] = []
    place = outer.end()
    while True:
        begin = _SEPARATOR.match(text, place)
        try:
            item, place = decoder.raw_decode(text, begin.end() if begin else place)
        except (ValueError, RecursionError):
            break
        items.append(item)
    if not items:
        return None
    return {outer["name"]: items} if outer["name"] else items
