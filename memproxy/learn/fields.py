"""Fields of a candidate as models write them: text, labels, shares, times and quotes, cleaned and bounded."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

MOST_CONTENT = 2_000
"""Characters of a statement or a quote."""

MOST_NAME = 300
"""Characters of a subject, a predicate, a category."""

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
        if isinstance(value, str) and _cleaned(value).lower() not in _PLACEHOLDERS:
            return _cleaned(value)[:most]
    return None


def _cleaned(text: str) -> str:
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
    texts = (_cleaned(str(label))[:100] for label in named if isinstance(label, str | int | float))
    return tuple(dict.fromkeys(label for label in texts if label.lower() not in _PLACEHOLDERS))[:_MOST_LABELS]


def share(value: Any, default: float) -> float:
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
    part = value / 10 if 1 < value <= 10 else value / 100 if value > 10 else value
    return float(min(1.0, max(0.0, part)))


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
        given = value if isinstance(value, list) else [value]
        named = [item.get("quote", item.get("text")) if isinstance(item, dict) else item for item in given]
        texts = tuple(_cleaned(quote)[:MOST_CONTENT] for quote in named if isinstance(quote, str))
        if kept := tuple(text for text in texts if text.lower() not in _PLACEHOLDERS):
            return kept
    return ()
