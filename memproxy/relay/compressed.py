"""Requests whose bodies are compressed: opened to be read, closed again in the same way when they were changed."""

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

import brotli
import zstandard

from memproxy.auth import Headers
from memproxy.relay.work import Stop
from memproxy.wire.encoding import BodyDecoder
from memproxy.wire.splice import Unreadable

_FAST_BROTLI = 4
"""Brotli's own default takes a hundred times as long, for a tenth less."""


def encoding_of(headers: Headers) -> str | None:
    """The name of the body's compression; None: it is not compressed."""
    named = ", ".join(headers.all(b"content-encoding")).strip().lower()
    return named if named not in {"", "identity"} else None


def opened(body: bytes, encoding: str, limit: int, stop: Stop) -> bytes:
    """The body itself, of ``limit`` bytes at the most. Blocking.

    Raises:
        Unreadable: we do not know the encoding (several are none that we know), or the body is not in it, is longer, or
            has too many members.
        Stopped: nobody waits for it.
    """
    decoder = BodyDecoder(encoding.encode("utf-8", "replace"), limit) if encoding in _CLOSING else None
    if decoder is None:
        raise Unreadable("encoding")
    parts = []
    for part in decoder.parts(body):
        stop.check()
        parts.append(part)
    if not decoder.usable:
        raise Unreadable("encoding")
    return b"".join(parts)


def closed(plain: bytes, encoding: str) -> bytes:
    """A body in the encoding that it was `opened` from."""
    return _CLOSING[encoding](plain)


def _gzip(plain: bytes) -> bytes:
    return _deflated(plain, zlib.MAX_WBITS | 16)


def _deflate(plain: bytes) -> bytes:
    return _deflated(plain, zlib.MAX_WBITS)


def _deflated(plain: bytes, form: int) -> bytes:
    closing = zlib.compressobj(zlib.Z_BEST_SPEED, wbits=form)
    return closing.compress(plain) + closing.flush()


def _brotli(plain: bytes) -> bytes:
    return bytes(brotli.compress(plain, quality=_FAST_BROTLI))  # type: ignore[no-untyped-call]


def _zstd(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(plain)


_CLOSING: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate, "br": _brotli, "zstd": _zstd}
)
