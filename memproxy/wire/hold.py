"""Hold back the very end of an answer until its turn is in the journal; everything before passes at once.

What was sent, and then `release`, is always exactly what came in, in order.
"""

from collections.abc import Callable

_DONE = b"[DONE]"
_FIELDS = (b"data: ", b"data:")
_MARKS = tuple(field + _DONE for field in _FIELDS)
_LONGEST = max(map(len, _MARKS))


class Holder:
    """Passes bytes on, but holds back the end of an answer. This one holds nothing: a body without a length ends by a
    signal of its own.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """The bytes that may be sent now, perhaps none."""
        return chunk

    def release(self) -> bytes:
        """Return what was held back; nothing is held back afterwards."""
        rest = b"".join(self._held)
        self._held.clear()
        return rest


class TailHolder(Holder):
    """For event streams: holds everything from the line ``data: [DONE]`` on, wherever pieces are cut.

    A piece that ends with the beginning of such a line (at most 11 bytes) keeps those back until the next one decides.
    ``has_end`` says that the end mark was seen, ``held`` how much was kept since. Other pieces pass as the very same
    object. A reader of the stream may know better, and sets ``may_end`` before a piece: while it is False, what looks
    like the mark passes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_end = False
        self.may_end = True
        self.held = 0
        self._undecided = b""
        self._at_line_start = True

    def feed(self, chunk: bytes) -> bytes:
        if not self.may_end:
            chunk = self.release() + chunk if self.has_end or self._undecided else chunk
            self.has_end, self.held = False, 0
            return self._keep_beginning(chunk)
        if self.has_end:
            self._held.append(chunk)
            self.held += len(chunk)
            return b""
        if self._undecided:
            chunk = self._undecided + chunk
            self._undecided = b""
        if _DONE in chunk:
            end_line = self._find(chunk)
            if end_line >= 0:
                self.has_end = True
                self._held.append(chunk[end_line:])
                self.held = len(chunk) - end_line
                return chunk[:end_line]
        return self._keep_beginning(chunk)

    def release(self) -> bytes:
        undecided, self._undecided = self._undecided, b""
        return undecided + super().release()

    def _find(self, chunk: bytes) -> int:
        """Where the end mark's line begins, or -1."""
        position = chunk.find(_DONE)
        while position >= 0:
            for field in _FIELDS:
                line = position - len(field)
                if chunk.startswith(field, max(line, 0)) and self._starts_line(chunk, line):
                    return line
            position = chunk.find(_DONE, position + 1)
        return -1

    def _starts_line(self, chunk: bytes, position: int) -> bool:
        return chunk[position - 1] in b"\r\n" if position > 0 else position == 0 and self._at_line_start

    def _keep_beginning(self, chunk: bytes) -> bytes:
        """Pass all but an unfinished last line that may become the end mark."""
        if chunk.endswith((b"\n", b"\r")):
            self._at_line_start = True
            return chunk
        tail = chunk[-_LONGEST:]
        line = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
        begins_line = line > 0 or (len(chunk) == len(tail) and self._at_line_start)
        beginning = tail[line:]
        if begins_line and beginning and any(mark.startswith(beginning) for mark in _MARKS):
            self._undecided = beginning
            self._at_line_start = True
            return chunk[: len(chunk) - len(beginning)]
        self._at_line_start = self._at_line_start and not chunk
        return chunk


class LengthHolder(Holder):
    """For bodies of a known length: holds the last byte, so that the body's end is not seen too early."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._remaining = length

    def feed(self, chunk: bytes) -> bytes:
        self._remaining -= len(chunk)
        if self._remaining > 0 or not chunk:
            return chunk
        if self._held:
            self._held.append(chunk)
            return b""
        keep = max(0, len(chunk) + self._remaining - 1)
        self._held.append(chunk[keep:])
        return chunk[:keep]


class PieceHolder(Holder):
    """For streams whose end the bytes do not show (compressed, or an event): keeps all from when ``ended`` says so."""

    def __init__(self, ended: Callable[[], bool]) -> None:
        super().__init__()
        self._ended = ended

    def feed(self, chunk: bytes) -> bytes:
        if not self._ended():
            return chunk
        self._held.append(chunk)
        return b""


class HolderPair(Holder):
    """Two holders: the second may hold back what the first passes on."""

    def __init__(self, first: Holder, second: Holder) -> None:
        super().__init__()
        self._first = first
        self._second = second

    def feed(self, chunk: bytes) -> bytes:
        return self._second.feed(self._first.feed(chunk))

    def release(self) -> bytes:
        return self._second.release() + self._first.release()
