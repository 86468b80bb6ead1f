"""Rows that wait behind what is not flushed.

A row is claimed when those of its owner before it are acknowledged, which a flush comes before, and a flush waits for
searches to pause. While others are served all the time that took two seconds; what is told is to be found within one.
"""

import asyncio
import time
from collections.abc import Callable

from memproxy.learn.writes import Writes
from memproxy.ports import JournalStore

MOST_S = 0.5
"""So long a captured row waits; then the flush that it waits for waits for no pause any more."""


class Blocked:
    """Has a flush hurry when rows of turns have waited for it long enough.

    Args:
        wake: has `look` called again.
    """

    def __init__(self, state: JournalStore, writes: Writes, *, wake: Callable[[], None]) -> None:
        self._state = state
        self._writes = writes
        self._wake = wake
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """It wakes nobody any more."""
        if self._timer is not None:
            self._timer.cancel()

    async def look(self, *, held: int) -> None:
        """After as many rows were claimed as could be; ``held`` are claimed and not acknowledged.

        Raises:
            StateUnavailable: the state does not answer.
        """
        now = time.monotonic()
        if not held or not (await self._state.queue_sizes()).get("index", {}).get("waiting"):
            self._since = None
        elif self._since is None:
            self._since = now
            self._timer = asyncio.get_running_loop().call_later(MOST_S + 0.02, self._wake)
        elif now - self._since >= MOST_S:
            self._since = None
            self._writes.press()
