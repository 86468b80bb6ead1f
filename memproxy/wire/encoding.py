"""Decode a copy of a compressed body for the capture; the body itself goes on compressed."""

import zlib

MAX_DECODED = 64 * 1024 * 1024
_AUTOMATIC = zlib.MAX_WBITS | 32  # gzip or zlib, told by the header
_GZIP = b"\x1f\x8b"
_COMPRESSED = frozenset({b"gzip", b"x-gzip", b"deflate"})


class BodyDecoder:
    """Decodes a body as it comes: identity, gzip or deflate (with or without zlib's header).

    ``supported`` is false for other encodings, ``broken`` after data that does not decode, ``truncated`` once
    ``limit`` decoded bytes came out (a bomb); from then on nothing more comes out.
    """

    __slots__ = ("_decoder", "_encoding", "_header", "_left", "broken", "supported", "truncated")

    def __init__(self, encoding: bytes | None, limit: int = MAX_DECODED) -> None:
        self._encoding = (encoding or b"").strip().lower()
        self.supported = self._encoding in _COMPRESSED or self._encoding in {b"", b"identity"}
        self.broken = False
        self.truncated = False
        self._left = limit
        self._header = b"" if self._encoding == b"deflate" else None
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
        if self._header is not None:
            chunk = self._begin(self._header + chunk)
        while chunk and not self.truncated:
            data, chunk = self._step(chunk)
            parts.append(self._take(data))
        return b"".join(parts)

    def _begin(self, body: bytes) -> bytes:
        """Deflate comes with or without zlib's header, which its two bytes tell (RFC 1950, section 2.2)."""
        if len(body) < 2:
            self._header = body
            return b""
        self._header = None
        if not body.startswith(_GZIP) and (body[0] & 15 != 8 or (body[0] << 8 | body[1]) % 31):
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
        return body

    def _step(self, chunk: bytes) -> tuple[bytes, bytes]:
        """Decode at most one byte more than there is room for, and give what is left of the input."""
        if self._decoder is None or self._decoder.eof:  # a gzip body may have several members, or padding at its end
            if not _GZIP.startswith(chunk[:2]):
                return b"", b""
            self._decoder = zlib.decompressobj(_AUTOMATIC)
        data = self._decoder.decompress(chunk, self._left + 1)
        return data, self._decoder.unused_data or self._decoder.unconsumed_tail
