"""Server-sent events, sans-IO: bytes in whatever pieces they come, events out.

Follows the parsing rules of the HTML standard (section 9.2.6, "Interpreting an event stream"), except that an event
that the stream's end cut off before its blank line is still given by `SseParser.close`, because real upstreams end so.
"""

from typing import NamedTuple

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Most bytes of one event's data: a whole response with its pictures has some megabytes."""

_SHORT = 256
_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event: its type (None when the stream does not name one) and its data, lines joined by a line feed."""

    event: str | None
    data: bytes


class SseParser:
    """Takes a stream apart. CRLF, LF and CR end a line, alone or mixed; pieces may be cut anywhere.

    Memory is bounded: an event with more than ``max_event_bytes`` of data lines is dropped and counted in ``dropped``.
    """

    __slots__ = ("_after_cr", "_data", "_event", "_partial", "_size", "_started", "dropped", "max_event_bytes")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self.dropped = 0
        self._partial = bytearray()
        self._after_cr = False
        self._started = False
        self._event: str | None = None
        self._data: bytearray | None = None
        self._size = 0

    @property
    def held(self) -> int:
        """Bytes of the event that is not complete yet."""
        return len(self._partial) + len(self._data or b"")

    def may_become(self, data: bytes) -> bool:
        """Whether the event that has begun may still turn out to have this data, but for blanks around it."""
        if (self._data is None and not self._partial) or self.held > _SHORT:
            return False
        line = bytes(self._partial)
        begun = line[5:] if line.startswith(b"data:") else b""
        return data.startswith((bytes(self._data or b"") + b"\n" + begun).strip())

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that these bytes complete."""
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        if not data:
            return []
        self._after_cr = data.endswith(b"\r")
        lines = data.splitlines()
        rest = b"" if self._after_cr or data.endswith(b"\n") else lines.pop()
        events: list[SseEvent] = []
        if lines and self._partial:
            lines[0] = self._joined(lines[0])
        for line in lines:
            self._line(line, events)
        if rest:
            self._keep(rest)
        return events

    def close(self) -> list[SseEvent]:
        """The stream is over: the event that was not finished, if there is one."""
        events: list[SseEvent] = []
        if self._partial:
            self._line(self._joined(b""), events)
        self._dispatch(events)
        return events

    def _keep(self, rest: bytes) -> None:
        """Keep an unfinished line, up to one byte over the bound, by which its event is dropped."""
        self._partial += rest[: self.max_event_bytes + 1 - len(self._partial)]

    def _joined(self, end: bytes) -> bytes:
        self._keep(end)
        line = bytes(self._partial)
        self._partial = bytearray()
        return line

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if line.startswith(b"data:"):
            self._size += len(line)
            self._add_data(line[6:] if line.startswith(b" ", 5) else line[5:])
        elif not line:
            self._dispatch(events)
        elif line.startswith(b"event:"):
            self._event = line[6:].removeprefix(b" ").decode("utf-8", "replace")
        elif line == b"data":
            self._size += len(line)
            self._add_data(b"")
        elif line == b"event":
            self._event = None

    def _add_data(self, value: bytes) -> None:
        if self._size > self.max_event_bytes:
            self._data = bytearray()
        elif self._data is None:
            self._data = bytearray(value)
        else:
            self._data += b"\n"
            self._data += value

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data is not None:
            if self._size > self.max_event_bytes:
                self.dropped += 1
            else:
                events.append(SseEvent(self._event or None, bytes(self._data)))
            self._data = None
        self._event = None
        self._size = 0
