"""Messages of a chat request: their role and their text, read without touching images, audio or tool arguments."""

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from memproxy.wire.splice import ObjectSpans, decode_array, escapes_small_letters, past_space

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_NOTHING = frozenset({b"", b"null", b"[]", b"{}", b'""', b"false"})
NOT_THERE = msgspec.Raw()
"""Stands for a member that is not there: a type that may be None, too, would take ``null`` and nothing else."""


class Part(msgspec.Struct, gc=False):
    """One part of list content; what is not text is skipped unread."""

    type: str = ""
    text: str | None = None


class FunctionCall(msgspec.Struct, gc=False):
    """The older way to call a tool; some providers always send it, empty when there is none."""

    name: str | None = None
    arguments: str | None = None


class ChatMessage(msgspec.Struct, gc=False, rename={"start": "start in body", "end": "end in body"}):
    """One message: what it says, and where it stands in the body (``body[start:end]`` is its JSON object).

    It is decoded straight from the request, which is why the two offsets, set afterwards, go by names that no message
    has. Everything else in a message is skipped at C speed. ``content`` may be null, or not there (``UNSET``).
    """

    role: str = ""
    content: str | list[Part] | msgspec.UnsetType | None = msgspec.UNSET
    name: str | None = None
    tool_calls: msgspec.Raw = NOT_THERE
    function_call: FunctionCall | None = None
    start: int = 0
    end: int = 0

    @property
    def text(self) -> str:
        """String content, or the text parts of list content joined by line breaks, else empty."""
        content = self.content
        if isinstance(content, str):
            return content
        if not content:
            return ""
        return "\n".join(part.text for part in content if part.text is not None and part.type in _TEXT_PARTS)

    @property
    def has_tool_calls(self) -> bool:
        """Whether it calls tools (``tool_calls``, or the older ``function_call``)."""
        older = self.function_call
        return is_filled(self.tool_calls) or (older is not None and bool(older.name or older.arguments))


_MESSAGES = msgspec.json.Decoder(list[ChatMessage])
_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def read_messages(text: bytes, start: int, array: msgspec.Raw) -> list[ChatMessage]:
    """All messages of the array that begins at ``start`` of ``text``; none if it is no array.

    A message that is not shaped as the API says is read as far as it goes: the upstream judges it, not we.

    Raises:
        Unreadable: a message says twice what its role or content is.
    """
    if not text.startswith(b"[", start):
        return []
    messages: list[ChatMessage] | None = None
    with contextlib.suppress(msgspec.ValidationError):
        messages = _MESSAGES.decode(array)
    if messages is not None and not is_spaced(text, start) and (lengths := lengths_by_members(array)) is not None:
        position = start + 1
        for message, length in zip(messages, lengths, strict=True):
            message.start, message.end = position, position + length
            position += length + 1
        return messages
    elements = decode_array(array)
    if messages is None:
        messages = [_lenient(element) for element in elements]
    for message, (begin, end) in zip(messages, spans(text, start, elements), strict=True):
        message.start, message.end = begin, end
    _refuse_duplicates(text, messages)
    return messages


def is_spaced(text: bytes, start: int) -> bool:
    """Whether white space follows the array's first colon, as in all that is written by Python's own defaults."""
    return text.startswith(b" ", text.find(b":", start) + 1)


def lengths_by_members(array: msgspec.Raw) -> list[int] | None:
    """How long each object of an array is, by its members: none can be shorter, and of a name that is there twice one
    is counted. So if together they are as long as the array, no object has a name twice, and between them are only
    commas. None where that cannot be told.
    """
    try:
        objects = _OBJECTS.decode(array)
    except msgspec.ValidationError:
        return None
    lengths = [
        1 + 4 * len(members) + sum(map(len, members)) + sum(map(len, members.values())) if members else len("{}")
        for members in objects
    ]
    return lengths if sum(lengths) + len(lengths) + 1 == len(array) else None


def spans(text: bytes, start: int, elements: Iterable[msgspec.Raw]) -> Iterator[tuple[int, int]]:
    """Where each element of the array at ``start`` stands: between their raw values are only white space and commas."""
    position = start + 1
    for raw in elements:
        begin = past_space(text, position)
        end = begin + len(raw)
        yield begin, end
        position = past_space(text, end) + 1


def _refuse_duplicates(text: bytes, messages: list[ChatMessage]) -> None:
    """Duplicate members of a message have no agreed meaning, so such a body is not ours to read.

    Counting the two names in the whole array is many times cheaper than walking every message: within a string their
    quotation marks are escaped. Only where a count is too high, or a name may be written with escapes, the messages in
    question are walked.
    """
    if not messages:
        return
    start, end = messages[0].start, messages[-1].end
    contents = sum(message.content is not msgspec.UNSET for message in messages)
    roles = sum(message.role != "" for message in messages)
    escaped = escapes_small_letters(text, start, end)
    if not escaped and not _says_often(text, start, end, contents, roles):
        return
    for message in messages:
        start, end = message.start, message.end
        twice = _says_often(text, start, end, 1, 1) or (escaped and escapes_small_letters(text, start, end))
        if twice and text.startswith(b"{", start):
            ObjectSpans(text, start, end)


def _says_often(text: bytes, start: int, end: int, contents: int, roles: int) -> bool:
    """Whether one of the two names is there more often than this."""
    return text.count(b'"content"', start, end) > contents or text.count(b'"role"', start, end) > roles


def is_filled(raw: msgspec.Raw | None) -> bool:
    """Whether a raw JSON value is there and is neither null, false nor empty."""
    return raw is not None and (len(raw) > 8 or bytes(raw).translate(None, b" \t\r\n") not in _NOTHING)


def _lenient(raw: msgspec.Raw) -> ChatMessage:
    try:
        value = json.loads(bytes(raw))
    except ValueError:  # an integer of more digits than Python reads
        value = None
    if not isinstance(value, dict):
        return ChatMessage()
    role, name, function_call = value.get("role"), value.get("name"), value.get("function_call")
    called = any(function_call.values()) if isinstance(function_call, dict) else function_call
    return ChatMessage(
        role=role if isinstance(role, str) else "",
        content=lenient_text(value["content"]) if "content" in value else msgspec.UNSET,
        name=name if isinstance(name, str) else None,
        tool_calls=msgspec.Raw(b"[true]") if value.get("tool_calls") or called else NOT_THERE,
    )


def lenient_text(content: Any) -> str:
    """The text of any decoded ``content``: a string, or a list with strings and text parts among other things."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(text for text in map(_part_text, content) if text is not None)


def _part_text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    kind, text = part.get("type"), part.get("text")
    return text if isinstance(kind, str) and kind in _TEXT_PARTS and isinstance(text, str) else None
