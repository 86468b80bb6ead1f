"""Threads of one's own: for libraries that block and have a single owner."""

import asyncio
import atexit
import contextlib
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar, cast

from memproxy.tasks import Lull

Result = TypeVar("Result")


class _Work(NamedTuple):
    """Work, and the future of a loop that waits for it."""

    work: Callable[[], object]
    answer: "asyncio.Future[object]"
    loop: asyncio.AbstractEventLoop


class _Worker:
    """The thread and its queue. The interpreter's end waits for it, so that no work is cut off in the middle."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    def put(self, job: _Work) -> None:
        self._queue.put(job)

    def stop(self) -> None:
        """It ends after what was asked for until now."""
        self._queue.put(None)

    def _leave(self) -> None:
        self.stop()
        self._thread.join()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            if not job.answer.cancelled():
                _answer(job)
            del job  # what it refers to is not kept until something else is asked for
        atexit.unregister(self._leave)


def _answer(job: _Work) -> None:
    try:
        result = job.work()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the work is waited for
        _tell(job, job.answer.set_exception, error)
    else:
        _tell(job, job.answer.set_result, result)


def _tell(job: _Work, tell: Callable[[Any], None], value: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed, nobody waits any more
        job.loop.call_soon_threadsafe(_unless_left, job.answer, tell, value)


def _unless_left(answer: "asyncio.Future[object]", tell: Callable[[Any], None], value: object) -> None:
    """Answer, unless the caller was cancelled meanwhile."""
    if not answer.done():
        tell(value)


class OwnThread:
    """Runs blocking calls one after the other in a single thread, in the order they were asked for. A
    `ThreadPoolExecutor` does the same with two futures, two locks and a semaphore for each call, which takes the loop
    three times as long.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._worker: _Worker | None = None
        self._finalizer: weakref.finalize[[], OwnThread] | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        """Wait for ``work()``. A cancelled caller leaves; work that has begun is finished."""
        if self._worker is None:
            self._worker = _Worker(self._name)
            self._finalizer = weakref.finalize(self, self._worker.stop)
            self._finalizer.atexit = False  # the worker sees to that itself
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._worker.put(_Work(work, cast("asyncio.Future[object]", answer), loop))
        return await answer

    def close(self) -> None:
        """Let the thread end after what was asked for; does not wait. A later call has a new thread."""
        finalizer, self._finalizer, self._worker = self._finalizer, None, None
        if finalizer is not None:
            finalizer()


class SharedFlush:
    """Flushes in a thread beside the store's own, where every write would wait for it; who waits meanwhile shares the
    next one. A flush is disk time (tens to hundreds of milliseconds) in which the engine holds Python's lock, so it
    begins in a lull of the searches: the next one would miss its deadline.
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
        target = self._begun + 1
        async with self._lock:
            if self._done >= target:
                return
            await self._lull.wait()
            self._begun += 1
            number = self._begun
            await self._flush(self._thread)
            self._done = number

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Within it no flush begins."""
        async with self._lock:
            yield

    async def close(self) -> None:
        """Let a flush that is under way end."""
        async with self._lock:
            self._thread.close()
