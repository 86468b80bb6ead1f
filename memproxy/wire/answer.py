"""What memory reads of any answer, from a copy of its bytes: its text within a bound, how it ended, whose it is."""

from abc import ABC, abstractmethod

import msgspec

from memproxy.wire.sse import SseEvent, SseParser

MAX_TEXT = 4 * 1024 * 1024
"""Characters of an answer that are captured; the rest is cut."""

MAX_JSON_BYTES = 64 * 1024 * 1024
"""Bytes of a whole (not streamed) answer that are read; a longer one is not captured."""

FEW_BYTES = 256 * 1024
MOST_VALUES = 200_000
"""Most values of larger JSON that are decoded, which takes a tenth of a second and keeps all others waiting."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens of a request and its answer, as the upstream counts them; ``cached`` ones of the input it had already."""

    input: int = 0
    output: int = 0
    cached: int = 0


class Answer(ABC):
    """What an answer said, collected by `feed` and completed by `finish`: of a stream event by event, of a whole body
    at its end. One subclass for each format. ``done`` says that a stream named its own end. ``error`` means that the
    upstream reported one within the answer. ``response_id`` is what a later request may go on from, where the format
    has that; ``begun`` says that the answer is still being made, and fetched by it later. ``user_fields`` are the API's
    own fields that name the user, where the answer repeats them. ``usage`` is what the upstream says that it cost; None
    until it does.
    """

    __slots__ = (
        "_chunks",
        "_parser",
        "_parts",
        "_received",
        "_size",
        "_whole",
        "begun",
        "done",
        "error",
        "finish_reason",
        "model",
        "response_id",
        "usage",
        "user_fields",
    )

    def __init__(self, *, streamed: bool) -> None:
        self._parser = SseParser() if streamed else None
        self._chunks: list[bytes] = []
        self._received = 0
        self.model: str | None = None
        self.finish_reason: str | None = None
        self.response_id: str | None = None
        self.done = False
        self.error = False
        self.begun = False
        self.user_fields: dict[str, str] = {}
        self.usage: Usage | None = None
        self._whole = False
        self._parts: list[str] = []
        self._size = 0

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether the answer is whole and reports no error."""

    @property
    def held(self) -> int:
        """About how many bytes of it are in memory."""
        if self._parser is not None:
            return self._size + self._parser.held
        return self._size + (self._received if self._chunks else 0)

    @property
    def ending(self) -> bool:
        """Whether the event that has begun may be the answer's end."""
        return False

    def feed(self, chunk: bytes) -> None:
        """Look at the next bytes of the (decoded) answer, which may be cut anywhere; a body that is too long is not
        kept.
        """
        if self._parser is not None:
            for event in self._parser.feed(chunk):
                self._event(event)
            return
        self._received += len(chunk)
        if self._received > MAX_JSON_BYTES:
            self._chunks.clear()
        else:
            self._chunks.append(chunk)

    def finish(self) -> None:
        """The answer is over. An event without its closing blank line is still read; a body that is no answer leaves
        everything empty and ``complete`` false.
        """
        if self._parser is not None:
            for event in self._parser.close():
                self._event(event)
            return
        body = b"".join(self._chunks)
        self._chunks.clear()
        if self._received <= MAX_JSON_BYTES:
            self._body(body)

    @abstractmethod
    def _event(self, event: SseEvent) -> None:
        """Read one event of a stream."""

    @abstractmethod
    def _body(self, data: bytes) -> None:
        """Read a whole body."""

    @property
    def text(self) -> str:
        """The content so far, no reasoning or refusals; half surrogates are joined where they met, else replaced."""
        joined = "".join(self._parts)
        self._parts = [joined]
        try:
            joined.encode()
        except UnicodeEncodeError:
            return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return joined

    def _add_text(self, text: str) -> None:
        text = text[: MAX_TEXT - self._size]
        if text:
            self._parts.append(text)
            self._size += len(text)

    def _spent(self, *tokens: int | None) -> None:
        """Note its tokens: input, output and cached ones; a stream may report growing numbers several times."""
        previous = msgspec.structs.astuple(self.usage or Usage())
        self.usage = Usage(*(max(old, new or 0) for old, new in zip(previous, tokens, strict=True)))


def is_soon_read(data: bytes, *, objects_only: bool = False) -> bool:
    """Whether the JSON holds at most `MOST_VALUES` values (or objects, where a reader skips other values)."""
    marks = (b"{",) if objects_only else (b"{", b"[", b",")
    return len(data) <= FEW_BYTES or sum(map(data.count, marks)) <= MOST_VALUES


def count_of(value: object) -> int | None:
    """An upstream's value as a whole number; None where it is none."""
    return int(value) if isinstance(value, int | float) else None
