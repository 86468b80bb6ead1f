"""Owned background tasks: named, awaited at shutdown, and never silent when they fail; and when they may begin."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from memproxy.metrics import metrics

log = logging.getLogger(__name__)


def cancellations() -> int:
    """How often the current task was cancelled so far."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def heed_cancellation(since: int) -> None:
    """Raise the cancellation that came ``since`` (what `cancellations` was): Python 3.11's `asyncio.wait_for`, in
    which a pool of connections waits, forgets one that comes in the moment in which the connection does.
    """
    if cancellations() > since:
        raise asyncio.CancelledError


async def happens(event: asyncio.Event, within_s: float | None) -> bool:
    """Wait for an event; False when it does not happen within the time (None: however long it takes)."""
    try:
        async with asyncio.timeout(within_s):
            return await event.wait()
    except TimeoutError:
        return False


class TaskOwner:
    """Owns background tasks: whatever starts one closes its owner, and nothing outlives that."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``work`` in the background under ``name``; a failure is logged and counted when it happens."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._name}:{name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            metrics().internal_errors.labels(where=self._name).inc()
            log.error("background task %s failed: %r", task.get_name(), error, exc_info=error)

    async def drain(self, grace_s: float) -> None:
        """Wait until all tasks end, ``grace_s`` seconds at most, then cancel those left and wait for them."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        await self.cancel()

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Lull:
    """Delays background work until ``quiet_s`` seconds have passed since the last use, but by ``longest_s`` at most."""

    def __init__(self, quiet_s: float, longest_s: float) -> None:
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._used = 0
        self._until = 0.0
        self._hurried = asyncio.Event()

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
        while left > 0 and not self._hurried.is_set():
            await happens(self._hurried, left)  # mostly not: then a look whether the uses have paused
            left = self._left(latest)
        self._hurried.clear()

    def hurry(self) -> None:
        """Somebody waits for the work: the current wait for a lull, or else the next one, ends at once."""
        self._hurried.set()

    def _left(self, latest: float) -> float:
        now = monotonic()
        return min(now + self._quiet_s if self._used else self._until, latest) - now
