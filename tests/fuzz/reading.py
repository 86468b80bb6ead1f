"""What a stream and a request say, read in another way than memproxy does: slowly, whole, with Python's own means."""

import json
import re
from typing import Any

_LINE_END = re.compile(rb"\r\n|\n|\r")
_DONE_LINE = re.compile(rb"(?:\A|[\r\n])data: ?\[DONE\]")


def events_of(stream: bytes) -> list[tuple[str | None, bytes]]:
    """The events of a whole stream, by the words of the HTML standard (9.2.6); an unfinished last one is given too."""
    lines = _LINE_END.split(stream.removeprefix(b"\xef\xbb\xbf"))
    found: list[tuple[str | None, bytes]] = []
    data, kind = b"", b""
    for line in [*lines, b""]:
        if not line:
            if data:
                found.append((kind.decode("utf-8", "replace") or None, data.removesuffix(b"\n")))
            data, kind = b"", b""
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data += value + b"\n"
        elif field == b"event":
            kind = value
    return found


def shows_end(sent: bytes) -> bool:
    """Whether a client that read this much has seen the end mark of a chat stream."""
    return _DONE_LINE.search(sent) is not None or any(data.strip() == b"[DONE]" for _, data in ended_events(sent))


def ended_events(sent: bytes) -> list[tuple[str | None, bytes]]:
    """The events whose blank line is there."""
    ends = [match.end() for match in re.finditer(rb"(?:\r\n|\n|\r)(?:\r\n|\n|\r)", sent)]
    return events_of(sent[: ends[-1]]) if ends else []


class Pairs(list[tuple[str, Any]]):
    """An object with its members in order, duplicates kept."""

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self]

    def get(self, name: str) -> Any:
        """The value of a name that is there once, or None."""
        return next((value for key, value in self if key == name), None)


class NoJson(ValueError):
    """Python reads it, the standard does not (NaN, Infinity)."""


def document(text: bytes) -> Any:
    """A JSON text with the order of its members, duplicates and the form of its numbers.

    Raises:
        ValueError: it is none.
        RecursionError: it is deeper than Python reads.
    """
    return json.loads(
        text.decode(),
        object_pairs_hook=Pairs,
        parse_float=lambda form: ("number", form),
        parse_int=lambda form: ("number", form),
        parse_constant=_refuse,
    )


def _refuse(name: str) -> Any:
    raise NoJson(name)


def whole(text: str) -> str:
    """A text whose half surrogates are replaced, as no UTF-8 holds them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
