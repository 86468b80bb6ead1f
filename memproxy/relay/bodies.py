"""Work on large and compressed request bodies in a few threads, for as long as a request waits for it."""

import asyncio
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import brotli
import zstandard

from memproxy.auth.headers import Headers
from memproxy.errors import Overloaded
from memproxy.wire.encoding import BodyDecoder
from memproxy.wire.splice import Unreadable

OFF_LOOP_BYTES = 256 * 1024
"""Smaller bodies are read in the event loop: that takes a millisecond or two, and a thread costs some of that too."""

THREADS = 2

PATIENCE_S = 5.0
"""The longest that a request waits for its body to be read; then it goes on untouched, and the work ends."""

_BROTLI_QUALITY = 4
"""Brotli's default quality takes a hundred times as long for a tenth less bytes."""

Result = TypeVar("Result")


class Stopped(Exception):
    """Nobody waits for the work any more."""


class Stop(threading.Event):
    """Tells work in a thread, between its steps, whether to go on; it is set when nobody waits any more."""

    def check(self) -> None:
        """Return to go on; raise `Stopped` when nobody waits any more."""
        if self.is_set():
            raise Stopped


class BodyWork:
    """The threads. Work whose request gave up before a thread was free never begins."""

    def __init__(self, *, threads: int = THREADS, patience_s: float = PATIENCE_S) -> None:
        self._pool = ThreadPoolExecutor(threads, "bodies")
        self._patience_s = patience_s

    async def read(self, work: Callable[[Stop], Result]) -> Result:
        """The result of the work, stopped when its time is over (`Overloaded`) or its request cancelled."""
        stop = Stop()
        try:
            async with asyncio.timeout(self._patience_s):
                return await asyncio.get_running_loop().run_in_executor(self._pool, work, stop)
        except TimeoutError as error:
            raise Overloaded(f"Reading the body took over {self._patience_s:g} s.") from error
        finally:
            stop.set()

    async def run(self, work: Callable[[], Result], size: int) -> Result:
        """The result of work on ``size`` bytes, however long it takes: in the event loop where they are few."""
        if size <= OFF_LOOP_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """End the threads; what has not begun never will."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def encoding_of(headers: Headers) -> str | None:
    """The name of the body's compression; None: it is not compressed."""
    named = ", ".join(headers.all(b"content-encoding")).strip().lower()
    return named if named not in {"", "identity"} else None


def decompressed(body: bytes, encoding: str, limit: int, stop: Stop) -> bytes:
    """The plain body, of ``limit`` bytes at the most. Blocking.

    Raises:
        Unreadable: the encoding is not known (several are none that we know), or the body is not in it, is longer, or
            has too many members.
        Stopped: nobody waits for it.
    """
    if encoding not in COMPRESS:
        raise Unreadable("encoding")
    decoder, parts = BodyDecoder(encoding, limit), []
    for part in decoder.parts(body):
        stop.check()
        parts.append(part)
    if not decoder.usable:
        raise Unreadable("encoding")
    return b"".join(parts)


def _deflate(wbits: int, plain: bytes) -> bytes:
    closing = zlib.compressobj(zlib.Z_BEST_SPEED, wbits=wbits)
    return closing.compress(plain) + closing.flush()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": partial(_deflate, zlib.MAX_WBITS | 16),
    "x-gzip": partial(_deflate, zlib.MAX_WBITS | 16),
    "deflate": partial(_deflate, zlib.MAX_WBITS),
    "br": lambda plain: bytes(brotli.compress(plain, quality=_BROTLI_QUALITY)),  # type: ignore[no-untyped-call]
    "zstd": lambda plain: zstandard.ZstdCompressor().compress(plain),
}
"""What writes a body in each encoding that `decompressed` knows."""
