"""Threads of one's own: for libraries that block and have a single owner."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


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


class SharedFlush:
    """Flushes in a thread beside the store's own, and lets callers that wait meanwhile share the next flush.

    A flush is disk time (tens of milliseconds) in which the engine can search and write; in the same thread every
    search would wait for it.
    """

    def __init__(self, flush: Callable[[OwnThread], Awaitable[None]]) -> None:
        self._flush = flush
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
            self._begun += 1
            number = self._begun
            await self._flush(self._thread)
            self._done = number

    async def close(self) -> None:
        """Let a flush that is under way end."""
        async with self._lock:
            self._thread.close()
