"""What all streamed answers have in common: their events are looked at as their bytes pass."""

from abc import ABC, abstractmethod

from memproxy.wire.sse import SseEvent, SseParser


class Streamed(ABC):
    """Takes a stream of events apart. Feed it every chunk as it passes; it may be cut anywhere and keeps no copy."""

    __slots__ = ()

    _parser: SseParser

    @property
    def _kept(self) -> int:
        return self._parser.held

    def feed(self, chunk: bytes) -> None:
        """Look at the next bytes of the (decoded) stream."""
        for event in self._parser.feed(chunk):
            self._event(event)

    def finish(self) -> None:
        """The stream is over; an event without its closing blank line is still read."""
        for event in self._parser.close():
            self._event(event)

    @abstractmethod
    def _event(self, event: SseEvent) -> None:
        """Look at one event."""
