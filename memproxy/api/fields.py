"""The kinds of values that API fields hold, with their bounds. Every check raises a `ValueError` that says what is
allowed instead.

No text may hold NUL: not every store can keep it, and a memory must be the same in all of them. Lone surrogates and
integers that are not signed ones of 64 bits are refused for the same reason.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, FailFast, Field, WithJsonSchema

from memproxy.core.text import STEPS

MAX_CONTENT = 100_000
MAX_QUERY = 10_000
MAX_MESSAGES = 2_000
MAX_METADATA_BYTES = 16_384
MAX_METADATA_DEPTH = 8
TEXT_PART_TYPES = frozenset({"text", "input_text", "output_text"})

CALL_NAMES = frozenset(
    """
    activity audit categories conflicts dream dreams entities export feedback import palace prune receipts recall
    reflect search sessions settings stats turns users working
    """.split()  # noqa: SIM905
)
"""Words of the API's own paths directly below ``/v1/memory/``: they cannot be ids of memories."""

UNREACHABLE = CALL_NAMES | STEPS
"""Ids of memories that no path can name."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?")
_SECONDS = re.compile(r"-?\d{9,15}(?:\.\d{1,9})?")
_DATE_IN_DIGITS = re.compile(r"(?:19|20|21)\d\d(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))?")
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def check_text(value: str) -> str:
    """Text that every store can keep."""
    if "\x00" in value:
        raise ValueError("must not hold NUL characters (U+0000): remove them")
    if _SURROGATE.search(value):
        raise ValueError("must not hold lone surrogates: send valid Unicode")
    return value


def check_not_blank(value: str) -> str:
    """Text that is not blank."""
    if not value.strip():
        raise ValueError("must not be empty")
    return check_text(value)


def check_id(value: str) -> str:
    """An id or a name: no control characters."""
    if not value.strip():
        raise ValueError("must not be empty")
    if _CONTROL.search(value):
        raise ValueError("must not hold control characters or lone surrogates")
    return value


def check_name(value: str) -> str:
    """The name of a user, project, agent or session: without the blanks around it, as headers give it."""
    value = check_id(value).strip()
    if value in STEPS:
        raise ValueError("must not be . or .., which clients take out of a path: no path would lead to it")
    return value


def check_reachable_id(value: str) -> str:
    """The id of a memory that a caller chooses, by which it is read, changed and forgotten: a piece of a path."""
    if value in UNREACHABLE:
        raise ValueError(
            "must not be . or .. or a word of the API's own paths (stats, search, ...), for no path would lead to the "
            "memory: give another id"
        )
    return check_id(value)


def parse_time(value: object) -> datetime | None:
    """An instant: RFC 3339 text (without an offset it is UTC) or Unix seconds, as a number or (in a query string there
    are no others) as text of nine digits or more. Shorter ones may be meant as a date: 20230508, 2023; a number that
    reads as one is refused, too.
    """
    if value is None:
        return None
    if _may_be_a_date(value):
        raise ValueError("may be a date or a number of seconds: write 2023-05-08, or a time as RFC 3339")
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    with suppress(ValueError, OverflowError, OSError):  # the message below says what is taken
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            instant = datetime.fromisoformat(value)
            return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    raise ValueError("must be a time: RFC 3339 (2026-03-01T09:30:00Z) or Unix seconds")


def _may_be_a_date(value: object) -> bool:
    if isinstance(value, str):
        return bool(_NUMBER.fullmatch(value)) and not _SECONDS.fullmatch(value)
    return isinstance(value, int) and bool(_DATE_IN_DIGITS.fullmatch(str(value)))


def parse_content(value: object, *, may_be_empty: bool) -> object:
    """A message's content: a string, or OpenAI's list of parts, of which the texts are joined by newlines and images,
    audio and files are passed over, as chat does. ``may_be_empty``: it may say nothing; None then says just that.
    """
    value = "" if value is None else value
    if isinstance(value, list):
        texts = [_part_text(part, index) for index, part in enumerate(value)]
        present = [text for text in texts if text is not None]
        may_be_empty, value = may_be_empty or len(present) < len(texts), "\n".join(present)
    if isinstance(value, str) and not may_be_empty and not value.strip():
        raise ValueError("must not be empty")
    return value


def _part_text(part: object, index: int) -> str | None:
    """A part's text; None of what is a picture, or anything else without a text, which would be lost."""
    if isinstance(part, str):
        return part
    kind, text = (part.get("type"), part.get("text")) if isinstance(part, Mapping) else (None, None)
    if isinstance(kind, str):
        if kind in TEXT_PART_TYPES and isinstance(text, str):
            return text
        if kind not in TEXT_PART_TYPES and text is None:
            return None
    raise ValueError(f'part {index} is no text, picture or sound: send {{"type": "text", "text": "…"}} or a string')


def readable_text(value: object) -> object:
    """What of a chat message's content is text: images, audio and absent content count as none."""
    if value is None:
        return ""
    if not isinstance(value, list):
        return value
    texts = [part["text"] for part in value if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
    return "\n".join(texts)


def as_list(value: object) -> object:
    """One value or a list of them, as a list."""
    return value if value is None or isinstance(value, list) else [value]


def check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    """A small JSON object."""
    with suppress(OverflowError, UnicodeEncodeError):  # which value it is, is told below
        if len(msgspec.json.encode(value)) > MAX_METADATA_BYTES:
            raise ValueError(f"must not be larger than {MAX_METADATA_BYTES} bytes of JSON")
    _check_json(value, MAX_METADATA_DEPTH)
    return value


def _check_json(value: object, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"must not be nested deeper than {MAX_METADATA_DEPTH} levels")
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("must not hold integers outside of -2^63 to 2^63-1 (signed 64 bits): send them as text")
    elif isinstance(value, dict):
        for key, inner in value.items():
            check_text(key)
            _check_json(inner, depth - 1)
    elif isinstance(value, list):
        for inner in value:
            _check_json(inner, depth - 1)


_TIME = "RFC 3339, or Unix seconds."
_TIMES = [{"type": "string", "format": "date-time"}, {"type": "number"}]
_TIMES_OR_NULL = [*_TIMES, {"type": "null"}]
_CONTENT_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": MAX_CONTENT},
        {
            "type": "array",
            "minItems": 1,
            "items": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "required": ["type", "text"],
                        "properties": {"type": {"enum": sorted(TEXT_PART_TYPES)}, "text": {"type": "string"}},
                    },
                    {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": {"type": "string", "not": {"enum": sorted(TEXT_PART_TYPES)}}},
                    },
                ]
            },
        },
        {"type": "null"},
    ],
    "description": "Texts are kept; images, audio and files are passed over.",
}

_NOT_EMPTY: dict[str, Any] = {"minLength": 1}
"""In the description only: the check refuses blanks, too, in one sentence for both."""
Id = Annotated[str, Field(max_length=256, json_schema_extra=_NOT_EMPTY), AfterValidator(check_id)]
Name = Annotated[
    str,
    Field(max_length=256, json_schema_extra=_NOT_EMPTY | {"not": {"enum": sorted(STEPS)}}),
    AfterValidator(check_name),
]
ReachableId = Annotated[
    str,
    Field(max_length=256, json_schema_extra=_NOT_EMPTY | {"not": {"enum": sorted(UNREACHABLE)}}),
    AfterValidator(check_reachable_id),
]
Label = Annotated[str, Field(max_length=200, json_schema_extra=_NOT_EMPTY), AfterValidator(check_id)]
Phrase = Annotated[str, Field(max_length=1_000, json_schema_extra=_NOT_EMPTY), AfterValidator(check_not_blank)]
Content = Annotated[str, Field(max_length=MAX_CONTENT, json_schema_extra=_NOT_EMPTY), AfterValidator(check_not_blank)]
MessageContent = Annotated[
    str, Field(max_length=MAX_CONTENT), AfterValidator(check_text), WithJsonSchema(_CONTENT_SCHEMA)
]
ReadableContent = Annotated[str, BeforeValidator(readable_text), WithJsonSchema({})]
Query = Annotated[str, Field(max_length=MAX_QUERY, json_schema_extra=_NOT_EMPTY), AfterValidator(check_not_blank)]
Time = Annotated[datetime, BeforeValidator(parse_time), WithJsonSchema({"anyOf": _TIMES, "description": _TIME})]
OptionalTime = Annotated[
    datetime | None, BeforeValidator(parse_time), WithJsonSchema({"anyOf": _TIMES_OR_NULL, "description": _TIME})
]
AsOf = Annotated[
    datetime | None,
    BeforeValidator(parse_time),
    WithJsonSchema(
        {
            "anyOf": _TIMES_OR_NULL,
            "description": "Only what held at this instant: messages said by then, and facts within `valid_from` and "
            "`valid_to` where they have them, also those that were superseded since. The same in lists and searches; "
            "without it a list shows what is and what was, and a search what is. RFC 3339, or Unix seconds of nine "
            "digits or more.",
        }
    ),
]
Unit = Annotated[float, Field(ge=0, le=1)]
Metadata = Annotated[dict[str, Any], AfterValidator(check_metadata)]
Labels = Annotated[list[Label], FailFast(), Field(max_length=100)]
"""Checking stops at the first wrong one: a report of millions would take minutes."""
Limit = Annotated[int, Field(ge=1, le=200)]
FactKind = Literal["semantic", "procedural", "episodic", "reflective"]
AnyKind = Literal["semantic", "procedural", "episodic", "reflective", "turn"]
Trusted = Literal["user", "assistant", "tool", "document"]
Role = Literal["user", "assistant", "system", "developer", "tool", "function", "document"]
