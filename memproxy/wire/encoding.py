"""Decode a copy of a compressed body for the capture; the body itself goes on compressed."""

import zlib

MAX_DECODED = 64 * 1024 * 1024
_AUTOMATIC = zlib.MAX_WBITS | 32  # gzip or zlib, told by the header
_RAW = -zlib.MAX_WBITS
_COMPRESSED = frozenset({b"gzip", b"x-gzip", b"deflate"})


class BodyDecoder:
    """Decodes a body as it comes: identity, gzip or deflate (with or without zlib's header).

    ``supported`` is false for other encodings, ``broken`` after data that does not decode, ``truncated`` once
    ``limit`` decoded bytes came out (a bomb); from then on nothing more comes out.
    """

    __slots__ = ("_decoder", "_encoding", "_fresh", "_left", "broken", "supported", "truncated")

    def __init__(self, encoding: bytes | None, limit: int = MAX_DECODED) -> None:
        self._encoding = (encoding or b"").strip().lower()
        self.supported = self._encoding in _COMPRESSED or self._encoding in {b"", b"identity"}
        self.broken = False
        self.truncated = False
        self._left = limit
        self._fresh = True
        self._decoder = zlib.decompressobj(_AUTOMATIC) if self._encoding in _COMPRESSED else None

    @property
    def usable(self) -> bool:
        """Whether all that came so far was decoded."""
        return self.supported and not self.broken and not self.truncated

    def feed(self, chunk: bytes) -> bytes:
        """The decoded bytes that this piece gives."""
        if not self.usable:
            return b""
        if self._decoder is None:
            return self._take(chunk)
        try:
            return self._decompress(chunk)
        except zlib.error:
            self.broken = True
            return b""

    def _take(self, data: bytes) -> bytes:
        if len(data) > self._left:
            self.truncated = True
            data = data[: self._left]
        self._left -= len(data)
        return data

    def _decompress(self, chunk: bytes) -> bytes:
        parts = []
        while chunk and not self.truncated:
            data, chunk = self._step(chunk)
            parts.append(self._take(data))
        return b"".join(parts)

    def _step(self, chunk: bytes) -> tuple[bytes, bytes]:
        """Decode at most one byte more than there is room for, and give what is left of the input."""
        if self._decoder is None or self._decoder.eof:  # a gzip body may have several members
            self._decoder = zlib.decompressobj(_AUTOMATIC)
            self._fresh = True
        decoder = self._decoder
        try:
            data = decoder.decompress(chunk, self._left + 1)
        except zlib.error:
            if not self._fresh or self._encoding != b"deflate":
                raise
            decoder = self._decoder = zlib.decompressobj(_RAW)
            data = decoder.decompress(chunk, self._left + 1)
        self._fresh = False
        return data, decoder.unused_data or decoder.unconsumed_tail
