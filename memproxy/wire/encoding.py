"""Decode compressed bodies in linear time: in small windows, with bounds on members and on the decoded size."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

import brotli
import zstandard

MAX_DECODED = 64 * 1024 * 1024

MOST_EXPANSION = 100
SURELY_EXPANDED = 1024 * 1024
"""A body may decode to a hundred times its bytes, or to a mebibyte; one that holds more is a bomb."""

MOST_MEMBERS = 1_024
"""Members of a gzip body, or frames of a zstd body, that are decoded. Each costs a decoder of its own, and a body of
empty ones is nothing but that: 64 MiB would hold three million.
"""

WINDOW = 8 * 1024
"""Compressed bytes that a decoder is given at once. zlib copies what a member leaves of them, and it gives at most a
thousand times as much, so that neither takes long before the caller may stop.
"""

_PART = 1024 * 1024
"""Decoded bytes that brotli, whose expansion has no bound, gives at once."""

_AUTOMATIC = zlib.MAX_WBITS | 32  # gzip or zlib, told by the header
_GZIP = b"\x1f\x8b"
_ZSTD_SLICE = 1024
"""Bytes that zstd is given at once, which has no bound of its own: a slice grows by 32 MiB at the most (a block of
128 KiB for every 4 bytes, RFC 8878 section 3.1.1.2).
"""

_ZSTD_WINDOW = 8 * 1024 * 1024
"""Memory that a zstd frame may ask its decoder for: what RFC 9659 allows in HTTP."""


class TooManyMembers(Exception):
    """A body has more than `MOST_MEMBERS`."""


class Decoder(Protocol):
    """One compressed format. Raises one of `_ERRORS` for data that does not decode."""

    def decode(self, window: bytes, room: int) -> Iterator[bytes]:
        """The decoded bytes, in parts of little more than ``room`` bytes; the caller stops when it has enough."""


class _Identity:
    def decode(self, window: bytes, room: int) -> Iterator[bytes]:  # noqa: ARG002 - as the protocol has it
        yield window


class _Inflate:
    """gzip and deflate (with or without zlib's header)."""

    def __init__(self, *, is_deflate: bool) -> None:
        self._header = b"" if is_deflate else None
        self._decoder = zlib.decompressobj(_AUTOMATIC)
        self._members = 1

    def decode(self, window: bytes, room: int) -> Iterator[bytes]:
        if self._header is not None:
            window = self._begin(self._header + window)
        while window:
            data, window = self._step(window, room)
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

    def _step(self, window: bytes, room: int) -> tuple[bytes, bytes]:
        """Decode at most one byte more than there is room for; returns it and the rest of the window."""
        if self._decoder.eof:  # a gzip body may have several members, or padding at its end
            if not _GZIP.startswith(window[:2]):
                return b"", b""
            self._members = _one_more(self._members)
            self._decoder = zlib.decompressobj(_AUTOMATIC)
        data = self._decoder.decompress(window, room + 1)
        return data, self._decoder.unused_data or self._decoder.unconsumed_tail


class _Brotli:
    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    def decode(self, window: bytes, room: int) -> Iterator[bytes]:
        most = min(room, _PART) + 1
        yield self._decoder.process(window, output_buffer_limit=most)
        while not self._decoder.can_accept_more_data():
            yield self._decoder.process(b"", output_buffer_limit=most)


class _Zstd:
    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._decoder = self._zstd.decompressobj()
        self._frames = 1

    def decode(self, window: bytes, room: int) -> Iterator[bytes]:  # noqa: ARG002 - as the protocol has it
        for start in range(0, len(window), _ZSTD_SLICE):
            rest = window[start : start + _ZSTD_SLICE]
            while rest:
                if self._decoder.eof:
                    self._frames = _one_more(self._frames)
                    self._decoder = self._zstd.decompressobj()
                yield self._decoder.decompress(rest)
                rest = self._decoder.unused_data if self._decoder.eof else b""


def _one_more(members: int) -> int:
    if members >= MOST_MEMBERS:
        raise TooManyMembers
    return members + 1


_DECODERS: Mapping[str, Callable[[], Decoder]] = MappingProxyType(
    {
        "": _Identity,
        "identity": _Identity,
        "gzip": lambda: _Inflate(is_deflate=False),
        "x-gzip": lambda: _Inflate(is_deflate=False),
        "deflate": lambda: _Inflate(is_deflate=True),
        "br": _Brotli,
        "zstd": _Zstd,
    }
)
_ERRORS = (zlib.error, brotli.error, zstandard.ZstdError, TooManyMembers)


class BodyDecoder:
    """Decodes a body as it comes: identity, gzip, deflate, br or zstd.

    ``supported`` is false for other encodings, ``broken`` after data that does not decode, ``truncated`` once
    ``limit`` decoded bytes came out, or more than bytes that were not packed to be unpacked give (a bomb); from then on
    nothing more comes out.
    """

    __slots__ = ("_bytes_in", "_bytes_out", "_decoder", "_limit", "_room", "broken", "supported", "truncated")

    def __init__(self, encoding: str | None, limit: int = MAX_DECODED) -> None:
        make = _DECODERS.get((encoding or "").strip().lower())
        self.supported = make is not None
        self.broken = False
        self.truncated = False
        self._limit = self._room = limit
        self._bytes_in = self._bytes_out = 0
        self._decoder = make() if make is not None else None

    @property
    def usable(self) -> bool:
        """Whether all bytes so far were decoded."""
        return self.supported and not self.broken and not self.truncated

    def feed(self, chunk: bytes) -> bytes:
        parts = list(self.parts(chunk))
        return b"" if self.broken else parts[0] if len(parts) == 1 else b"".join(parts)

    def parts(self, chunk: bytes) -> Iterator[bytes]:
        """Decode in parts of some milliseconds each at the most: the caller may stop between two."""
        if self._decoder is None:
            return
        self._bytes_in += len(chunk)
        self._room = min(self._limit, max(SURELY_EXPANDED, MOST_EXPANSION * self._bytes_in)) - self._bytes_out
        window = len(chunk) if isinstance(self._decoder, _Identity) else WINDOW
        try:
            for start in range(0, len(chunk), window or 1):
                for data in self._decoder.decode(chunk[start : start + window], self._room):
                    if not self.usable:
                        return
                    yield self._take(data)
        except _ERRORS:
            self.broken = True

    def _take(self, data: bytes) -> bytes:
        if len(data) > self._room:
            self.truncated = True
            data = data[: self._room]
        self._room -= len(data)
        self._bytes_out += len(data)
        return data
