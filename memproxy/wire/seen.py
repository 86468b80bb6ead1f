"""What any answer comes to, whatever its format: its text within a bound, how it ended, what it cost."""

MAX_TEXT = 4 * 1024 * 1024
"""Characters of an answer that are captured; what is longer is cut and flagged."""

MAX_JSON_BYTES = 64 * 1024 * 1024
"""Bytes of a whole (not streamed) answer that are read; a longer one is not captured."""

FEW_BYTES = 256 * 1024
MOST_VALUES = 200_000
"""Of larger JSON so many values are made into objects, which takes a tenth of a second and keeps all others waiting."""


class SeenAnswer:
    """What an answer said, filled in as it comes; a subclass for each format reads it.

    ``text`` is the content without reasoning and refusals. ``error`` means that the upstream reported one within the
    answer; ``truncated`` that the text went over the bound; ``unreadable`` counts events that were no JSON.
    ``response_id`` is what a later request may go on from; ``begun`` says that the answer is still being made, and
    fetched by that later. ``user_fields`` are the API's own fields that name the user, where the answer repeats them.
    Token counts are 0 until the upstream states them.
    """

    __slots__ = (
        "_parts",
        "_size",
        "begun",
        "cached_tokens",
        "done",
        "error",
        "finish_reason",
        "has_tool_calls",
        "input_tokens",
        "max_text",
        "model",
        "output_tokens",
        "response_id",
        "truncated",
        "unreadable",
        "user_fields",
    )

    def __init__(self, max_text: int = MAX_TEXT) -> None:
        self.max_text = max_text
        self.model: str | None = None
        self.finish_reason: str | None = None
        self.response_id: str | None = None
        self.done = False
        self.error = False
        self.has_tool_calls = False
        self.truncated = False
        self.unreadable = 0
        self.begun = False
        self.user_fields: dict[str, str] = {}
        self.cached_tokens = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self._parts: list[str] = []
        self._size = 0

    @property
    def held(self) -> int:
        """About how many bytes of it are in memory."""
        return self._size + self._kept

    @property
    def _kept(self) -> int:
        """Bytes that are not read yet."""
        return 0

    @property
    def ending(self) -> bool:
        """Whether the event that has begun may be the answer's end."""
        return False

    @property
    def text(self) -> str:
        """The answer's text so far; half surrogates that met across pieces are joined, others replaced."""
        joined = "".join(self._parts)
        self._parts = [joined]
        try:
            joined.encode()
        except UnicodeEncodeError:
            return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return joined

    def _add_text(self, text: str) -> None:
        room = self.max_text - self._size
        if len(text) > room:
            self.truncated = True
            text = text[:room]
        if text:
            self._parts.append(text)
            self._size += len(text)

    def _forget_text(self) -> None:
        self._parts.clear()
        self._size = 0


def is_soon_read(data: bytes, *, objects_only: bool = False) -> bool:
    """Whether it holds at most `MOST_VALUES` values (or objects, where a reader makes nothing of the others)."""
    marks = (b"{",) if objects_only else (b"{", b"[", b",")
    return len(data) <= FEW_BYTES or sum(map(data.count, marks)) <= MOST_VALUES


class WholeBody:
    """The bytes of one body as they come, ``max_bytes`` of them at most."""

    __slots__ = ("_chunks", "_received", "max_bytes")

    def __init__(self, max_bytes: int = MAX_JSON_BYTES) -> None:
        self.max_bytes = max_bytes
        self._chunks: list[bytes] = []
        self._received = 0

    @property
    def held(self) -> int:
        """Bytes that are kept."""
        return 0 if self.too_long else self._received

    @property
    def too_long(self) -> bool:
        """Whether more came than is kept; then nothing is."""
        return self._received > self.max_bytes

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        self._received += len(chunk)
        if self.too_long:
            self._chunks.clear()
        else:
            self._chunks.append(chunk)

    def take(self) -> bytes:
        """All of it, once."""
        body = b"".join(self._chunks)
        self._chunks.clear()
        return body
