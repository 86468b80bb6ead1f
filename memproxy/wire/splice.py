"""Find and change parts of a JSON text without decoding and encoding the rest.

A request that memory adds something to must differ from the client's own only there: number forms, key order, white
space, escapes and unknown fields stay as they are. So nothing is re-encoded. `msgspec.Raw` gives the raw text of every
member at C speed, a walk over the bytes between them gives the offsets, and an edit cuts and joins the original.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

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


class Element(NamedTuple):
    """One element of an array: its raw value and where it stands in the text."""

    start: int
    end: int
    raw: msgspec.Raw


def check_encoding(body: bytes) -> None:
    """JSON is UTF-8.

    Raises:
        Unreadable: the bytes are not.
    """
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
    replaced = _ESCAPE.sub(_whole_or_replacement, body)
    return body if replaced == body else replaced


def _whole_or_replacement(match: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if match[2] else match[0]


def decode_object(text: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The raw values of an object by name; of duplicate names the last.

    Raises:
        Unreadable: it is no JSON object.
    """
    try:
        return _OBJECT.decode(text)
    except msgspec.ValidationError as error:
        raise Unreadable("not_an_object") from error
    except RecursionError as error:
        raise Unreadable("too_deep") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable("json") from error


def decode_array(text: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The raw values of an array, in order.

    Raises:
        Unreadable: it is no JSON array.
    """
    try:
        return _ARRAY.decode(text)
    except msgspec.ValidationError as error:
        raise Unreadable("not_an_array") from error
    except RecursionError as error:
        raise Unreadable("too_deep") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable("json") from error


class ObjectSpans:
    """The members of one JSON object within a larger text, in order, with their offsets.

    ``text[start:end]`` must be the object, white space around it allowed. Attributes: ``members`` (in order) and
    ``by_name``; ``first`` is the offset right after the opening brace.

    Raises:
        Unreadable: no JSON object there, or one with two members of the same name.
    """

    __slots__ = ("by_name", "first", "members")

    def __init__(self, text: bytes, start: int = 0, end: int | None = None) -> None:
        whole = start == 0 and (end is None or end == len(text))
        values = decode_object(text if whole else memoryview(text)[start:end])  # type: ignore[arg-type]
        self.members = _walk_object(text, start, values)
        self.by_name = {member.name: member for member in self.members}
        self.first = _SPACE.match(text, start).end() + 1  # type: ignore[union-attr]

    def remove(self, names: Iterable[str]) -> list[Edit]:
        """The edits that take these members out, each with its comma; names that are not there are ignored."""
        unwanted = frozenset(names)
        edits: list[Edit] = []
        place, last = 0, len(self.members) - 1
        while place <= last:
            if self.members[place].name not in unwanted:
                place += 1
                continue
            run_end = place
            while run_end < last and self.members[run_end + 1].name in unwanted:
                run_end += 1
            edits.append(self._cut(place, run_end))
            place = run_end + 1
        return edits

    def _cut(self, begin: int, end: int) -> Edit:
        """Cut neighbouring members together with the comma before them, or after them at the object's beginning."""
        members = self.members
        if begin > 0:
            return Edit(members[begin - 1].value_end, members[end].value_end)
        if end < len(members) - 1:
            return Edit(members[0].key_start, members[end + 1].key_start)
        return Edit(members[0].key_start, members[end].value_end)

    def append(self, name: str, value: bytes) -> Edit:
        """The edit that adds a member at the object's end; ``value`` is JSON."""
        member = msgspec.json.encode(name) + b":" + value
        if not self.members:
            return Edit(self.first, self.first, member)
        place = self.members[-1].value_end
        return Edit(place, place, b"," + member)


class ArraySpans:
    """The elements of one JSON array within a larger text, in order, with their offsets.

    ``text[start:end]`` must be the array. ``first`` is the offset right after the opening bracket.

    Raises:
        Unreadable: no JSON array there.
    """

    __slots__ = ("elements", "first")

    def __init__(self, text: bytes, start: int = 0, end: int | None = None) -> None:
        whole = start == 0 and (end is None or end == len(text))
        values = decode_array(text if whole else memoryview(text)[start:end])  # type: ignore[arg-type]
        self.elements = _walk_array(text, start, values)
        self.first = _SPACE.match(text, start).end() + 1  # type: ignore[union-attr]

    def insert(self, place: int, value: bytes) -> Edit:
        """The edit that puts ``value`` (JSON) before element ``place``; past the last one it goes to the end."""
        elements = self.elements
        if not elements:
            return Edit(self.first, self.first, value)
        if place >= len(elements):
            return Edit(elements[-1].end, elements[-1].end, b"," + value)
        return Edit(elements[place].start, elements[place].start, value + b",")


def apply(text: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with these edits done, which must not overlap; without any, the very same object."""
    ordered = sorted(edits)
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


def _walk_array(text: bytes, start: int, values: list[msgspec.Raw]) -> list[Element]:
    """Offsets of an array's elements, given their raw texts in order (nothing is lost in decoding an array)."""
    position = past_space(text, start) + 1
    elements: list[Element] = []
    for raw in values:
        position = past_space(text, position)
        end = position + len(raw)
        elements.append(Element(position, end, raw))
        position = past_space(text, end) + 1
    return elements


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
