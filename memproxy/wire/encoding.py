"""Decode a copy of a compressed body for the capture; the body itself goes on compressed."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

import brotli
import zstandard

MAX_DECODED = 64 * 1024 * 1024
_AUTOMATIC = zlib.MAX_WBITS | 32  # gzip or zlib, told by the header
_GZIP = b"\x1f\x8b"
_ZSTD_SLICE = 1024
"""Bytes that zstd is given at once, which has no bound of its own: a slice grows by 32 MiB at the most (a block of
128 KiB for every 4 bytes, RFC 8878 section 3.1.1.2).
"""


class Decoder(Protocol):
    """One compressed format. Raises one of `_ERRORS` for data that does not decode."""

    def decode(self, chunk: bytes, room: int) -> Iterator[bytes]:
        """What this piece gives, in parts of little more than ``room`` bytes; the caller stops when it has enough."""


class _Identity:
    def decode(self, chunk: bytes, room: int) -> Iterator[bytes]:  # noqa: ARG002 - as the protocol has it
        yield chunk


class _Inflate:
    """gzip and deflate (with or without zlib's header)."""

    def __init__(self, *, is_deflate: bool) -> None:
        self._header = b"" if is_deflate else None
        self._decoder = zlib.decompressobj(_AUTOMATIC)

    def decode(self, chunk: bytes, room: int) -> Iterator[bytes]:
        if self._header is not None:
            chunk = self._begin(self._header + chunk)
        while chunk:
            data, chunk = self._step(chunk, room)
            yield data

    def _begin(self, body: bytes) -> bytes:
        """Deflate comes with or without zlib's header, which its two bytes tell (RFC 1950, section 2.2)."""
        if len(body) < 2:
            self._header = body
            return b""
        self._header = None
        if not body.startswith(_GZIP) and (body[0] & 15 != 8 or (body[0] << 8 | body[1]) % 31):
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
        return body

    def _step(self, chunk: bytes, room: int) -> tuple[bytes, bytes]:
        """Decode at most one byte more than there is room for, and give what is left of the input."""
        if self._decoder.eof:  # a gzip body may have several members, or padding at its end
            if not _GZIP.startswith(chunk[:2]):
                return b"", b""
            self._decoder = zlib.decompressobj(_AUTOMATIC)
        data = self._decoder.decompress(chunk, room + 1)
        return data, self._decoder.unused_data or self._decoder.unconsumed_tail


class _Brotli:
    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    def decode(self, chunk: bytes, room: int) -> Iterator[bytes]:
        yield self._decoder.process(chunk, output_buffer_limit=room + 1)
        while not self._decoder.can_accept_more_data():
            yield self._decoder.process(b"", output_buffer_limit=room + 1)


class _Zstd:
    def __init__(self) -> None:
        self._decoder = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)

    def decode(self, chunk: bytes, room: int) -> Iterator[bytes]:  # noqa: ARG002 - as the protocol has it
        for start in range(0, len(chunk), _ZSTD_SLICE):
            yield self._decoder.decompress(chunk[start : start + _ZSTD_SLICE])


_DECODERS: Mapping[bytes, Callable[[], Decoder]] = MappingProxyType(
    {
        b"": _Identity,
        b"identity": _Identity,
        b"gzip": lambda: _Inflate(is_deflate=False),
        b"x-gzip": lambda: _Inflate(is_deflate=False),
        b"deflate": lambda: _Inflate(is_deflate=True),
        b"br": _Brotli,
        b"zstd": _Zstd,
    }
)
_ERRORS = (zlib.error, brotli.error, zstandard.ZstdError)


class BodyDecoder:
    """Decodes a body as it comes: identity, gzip, deflate, br or zstd.

    ``supported`` is false for other encodings, ``broken`` after data that does not decode, ``truncated`` once
    ``limit`` decoded bytes came out (a bomb); from then on nothing more comes out.
    """

    __slots__ = ("_decoder", "_left", "broken", "supported", "truncated")

    def __init__(self, encoding: bytes | None, limit: int = MAX_DECODED) -> None:
        make = _DECODERS.get((encoding or b"").strip().lower())
        self.supported = make is not None
        self.broken = False
        self.truncated = False
        self._left = limit
        self._decoder = make() if make is not None else None

    @property
    def usable(self) -> bool:
        """Whether all that came so far was decoded."""
        return self.supported and not self.broken and not self.truncated

    def feed(self, chunk: bytes) -> bytes:
        """The decoded bytes that this piece gives."""
        if self._decoder is None or not self.usable:
            return b""
        parts = []
        try:
            for data in self._decoder.decode(chunk, self._left):
                parts.append(self._take(data))
                if self.truncated:
                    break
        except _ERRORS:
            self.broken = True
            return b""
        return b"".join(parts)

    def _take(self, data: bytes) -> bytes:
        if len(data) > self._left:
            self.truncated = True
            data = data[: self._left]
        self._left -= len(data)
        return data
