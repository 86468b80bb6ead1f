"""Find and change parts of a JSON text without decoding and encoding the rest.

Number forms, key order, white space, escapes and unknown fields stay as they are (docs/decisions/0004). `msgspec.Raw`
gives the raw text of every member at C speed, a walk over the bytes between them gives the offsets, and an edit cuts
and joins the original.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])

_SPACE = re.compile(rb"[ \t\n\r]*")
_KEY = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_COLON = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*")
_ESCAPE = re.compile(
    rb"\\(?:(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_COMMA, _CLOSE_OBJECT = b",}"

Value = TypeVar("Value")


class Unreadable(Exception):
    """The body cannot be read (and so not be spliced) safely; it goes on untouched.

    An internal signal, never shown to a client. ``reason`` is one word for logs: ``json``, ``not_an_object``,
    ``not_an_array``, ``duplicate_keys``, ``encoding``, ``too_deep``, ``too_long``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Edit(NamedTuple):
    """Replace ``start:end`` of the original by ``text``; an insertion has ``start == end``."""

    start: int
    end: int
    text: bytes = b""


class Member(NamedTuple):
    """One member of an object: its name, its raw value, and where the two stand in the text."""

    name: str
    key_start: int
    value_start: int
    value_end: int
    raw: msgspec.Raw


def check_encoding(body: bytes) -> None:
    """JSON is UTF-8; raises `Unreadable` for bytes that are not."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("encoding") from error


def without_half_surrogates(body: bytes) -> bytes:
    r"""A stand-in of the same length to look into, or the very same object when there is nothing to replace.

    Clients that cut a string inside an emoji send half a surrogate pair (``\ud83d`` alone), which a strict decoder
    refuses. The stand-in has ``\ufffd`` there, so offsets in it are offsets in the original.
    """
    replaced = _ESCAPE.sub(lambda match: b"\\ufffd" if match[2] else match[0], body)
    return body if replaced == body else replaced


def decode_array(text: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The raw values of an array, in order; raises `Unreadable` where it is no JSON array."""
    return _decode(_ARRAY, text, "not_an_array")


def _decode(decoder: msgspec.json.Decoder[Value], text: bytes | msgspec.Raw, other_type: str) -> Value:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise Unreadable(other_type) from error
    except RecursionError as error:
        raise Unreadable("too_deep") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable("json") from error


class ObjectSpans:
    """The members of one JSON object within a larger text, in order, with their offsets.

    ``text[start:end]`` must be the object, white space around it allowed. Attributes: ``members`` (in order) and
    ``by_name``.

    Raises:
        Unreadable: no JSON object there, or one with two members of the same name.
    """

    __slots__ = ("by_name", "members")

    def __init__(self, text: bytes, start: int = 0, end: int | None = None) -> None:
        whole = start == 0 and (end is None or end == len(text))
        part = text if whole else memoryview(text)[start:end]
        values = _decode(_OBJECT, part, "not_an_object")  # type: ignore[arg-type]
        self.members = _walk_object(text, start, values)
        self.by_name = {member.name: member for member in self.members}

    def remove(self, names: Iterable[str]) -> list[Edit]:
        """The edits that take these members out, each with its comma; names that are not there are ignored."""
        unwanted = frozenset(names)
        edits: list[Edit] = []
        index, last = 0, len(self.members) - 1
        while index <= last:
            if self.members[index].name not in unwanted:
                index += 1
                continue
            run_end = index
            while run_end < last and self.members[run_end + 1].name in unwanted:
                run_end += 1
            edits.append(self._cut(index, run_end))
            index = run_end + 1
        return edits

    def _cut(self, begin: int, end: int) -> Edit:
        """Cut neighbouring members together with the comma before them, or after them at the object's beginning."""
        members = self.members
        if begin > 0:
            return Edit(members[begin - 1].value_end, members[end].value_end)
        if end < len(members) - 1:
            return Edit(members[0].key_start, members[end + 1].key_start)
        return Edit(members[0].key_start, members[end].value_end)


def append_element(text: bytes, start: int, end: int, value: bytes) -> Edit:
    """The edit that adds an element to the JSON array ``text[start:end]``; ``value`` is JSON."""
    position = start + len(text[start : end - 1].rstrip(b" \t\n\r"))
    is_empty = position == start + 1
    return Edit(position, position, value if is_empty else b"," + value)


def apply(text: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with these edits done, which must not overlap; without any, the very same object. Insertions at one
    place stand in the order in which they were given.
    """
    ordered = sorted(edits, key=lambda edit: edit[:2])
    if not ordered:
        return text
    view, done = memoryview(text), 0
    parts: list[bytes | memoryview] = []
    for edit in ordered:
        if edit.start < done:
            raise ValueError(f"edits overlap at offset {edit.start}")
        parts += (view[done : edit.start], edit.text)
        done = edit.end
    parts.append(view[done:])
    return b"".join(parts)


def _walk_object(text: bytes, start: int, values: dict[str, msgspec.Raw]) -> list[Member]:
    """Offsets of the members, proved against the text.

    The decoder keeps the last of two members with one name. Then either a value differs from the text at its place,
    or the text goes on after the last member, so that duplicates never pass.
    """
    view = memoryview(text)
    position = past_space(text, start) + 1
    members: list[Member] = []
    for name, raw in values.items():
        key_start = past_space(text, position)
        value_start = _past_key(text, key_start)
        value_end = value_start + len(raw)
        if msgspec.Raw(view[value_start:value_end]) != raw:
            raise Unreadable("duplicate_keys")
        members.append(Member(name, key_start, value_start, value_end, raw))
        position = past_space(text, value_end)
        if text[position] != (_COMMA if len(members) < len(values) else _CLOSE_OBJECT):
            raise Unreadable("duplicate_keys")
        position += 1
    return members


def past_space(text: bytes, position: int) -> int:
    """The next offset, ``position`` itself or after it, that holds no white space."""
    if text[position] > 32:  # the usual case in compact JSON, without a call
        return position
    return _SPACE.match(text, position).end()  # type: ignore[union-attr]


def _past_key(text: bytes, position: int) -> int:
    key = _KEY.match(text, position)
    colon = _COLON.match(text, key.end()) if key else None
    if colon is None:
        raise Unreadable("duplicate_keys")
    return colon.end()


MOST_CANDIDATES = 64
"""After this many candidates (some 5 microseconds) the byte is not rare here, and the usual search takes over.

CPython looks for a substring at some 2 GB/s, for a single byte (by the C library's ``memchr``) thirty times as fast. So
a rare byte of what is looked for is found first, and what stands around it compared.
"""


def contains(body: bytes, needle: bytes, rare: bytes, *, any_case: bool = False) -> bool:
    """The same as ``needle in body`` (``any_case``: in ``body.lower()``); ``rare`` is the byte of ``needle`` that few
    bodies have many of, and that has no case.
    """
    offset = needle.index(rare)
    position = body.find(rare)
    for _ in range(MOST_CANDIDATES):
        if position < 0:
            return False
        start = position - offset
        if start >= 0 and body.startswith(needle, start):
            return True
        if any_case and start >= 0 and body[start : start + len(needle)].lower() == needle:
            return True
        position = body.find(rare, position + 1)
    if position < 0:
        return False
    start = max(0, position - offset)
    return needle in body[start:].lower() if any_case else body.find(needle, start) >= 0


def escapes_small_letters(body: bytes, start: int = 0, end: int | None = None) -> bool:
    r"""Whether small letters or underscores may be written as escapes in it (``\u0063``), as no client does.

    Only then a name can be there without its own bytes.
    """
    stop = len(body) if end is None else end
    position = body.find(b"\\", start, stop)
    for _ in range(MOST_CANDIDATES):
        if position < 0:
            return False
        if body.startswith(_ESCAPED, position, stop):
            return True
        position = body.find(b"\\", position + 2, stop)
    position = body.find(_ANY_ESCAPED, position, stop) if position >= 0 else position
    return position >= 0 and any(body.find(escaped, position, stop) >= 0 for escaped in _ESCAPED)


_ANY_ESCAPED = b"\\u00"
_ESCAPED = (b"\\u005", b"\\u006", b"\\u007")
