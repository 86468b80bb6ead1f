"""Threads of one's own: for libraries that block and have a single owner."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from time import monotonic
from typing import TypeVar

Result = TypeVar("Result")

Apart = AbstractContextManager[bool]
"""A `threading.Lock`: what is held while something runs that another thread's work must not run beside."""


class OwnThread:
    """Runs blocking calls one after the other in a single thread, in the order they were asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        """Wait for ``work()``. A cancelled caller leaves; work that has begun is finished."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Let the thread end after what was asked for; does not wait. A later call has a new thread."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


class Lull:
    """Lets work that nobody waits for wait until nobody is served: until a use is ``quiet_s`` seconds past, though no
    longer than ``longest_s``.
    """

    def __init__(self, quiet_s: float, longest_s: float) -> None:
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._used = 0
        self._until = 0.0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Somebody is served within this block."""
        self._used += 1
        try:
            yield
        finally:
            self._used -= 1
            self._until = monotonic() + self._quiet_s

    async def wait(self) -> None:
        """Returns at once where nothing was used lately."""
        latest = monotonic() + self._longest_s
        left = self._left(latest)
        while left > 0:
            await asyncio.sleep(left)
            left = self._left(latest)

    def _left(self, latest: float) -> float:
        now = monotonic()
        return min(now + self._quiet_s if self._used else self._until, latest) - now


class SharedFlush:
    """Flushes in a thread beside the store's own, and lets callers that wait meanwhile share the next flush.

    In the same thread every write would wait for it. A flush is disk time (tens to hundreds of milliseconds) in which
    the engine holds Python's lock, so it begins in a lull of the searches: the next one would miss its deadline.
    """

    def __init__(self, flush: Callable[[OwnThread], Awaitable[None]], lull: Lull) -> None:
        self._flush = flush
        self._lull = lull
        self._thread = OwnThread("memproxy-flush")
        self._lock = asyncio.Lock()
        self._begun = 0
        self._done = 0

    async def flush(self) -> None:
        """Returns when a flush that began after this call has ended."""
        wanted = self._begun + 1
        async with self._lock:
            if self._done >= wanted:
                return
            await self._lull.wait()
            self._begun += 1
            number = self._begun
            await self._flush(self._thread)
            self._done = number

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Within it nothing is flushed; who wants to waits."""
        async with self._lock:
            yield

    async def close(self) -> None:
        """Let a flush that is under way end."""
        async with self._lock:
            self._thread.close()
