"""Recall goes before indexing: what was captured is indexed when no request waits for its memories."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 0.03
"""So long after the last recall, turns are indexed: beside one, both would take twice as long."""

LONGEST_S = 0.5
"""Under a load without pauses turns wait so long at most; then many are indexed together, which costs each less."""


class Yielding:
    """Has ``work`` done in a lull of recalls, once for all that asked for it meanwhile."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._recalls = 0
        self._last = 0.0
        self._latest = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def recalling(self) -> Iterator[None]:
        """A request waits within this block."""
        self._recalls += 1
        try:
            yield
        finally:
            self._recalls -= 1
            self._last = time.monotonic()

    def soon(self) -> None:
        """There is something to do."""
        if self._timer is None:
            self._latest = time.monotonic() + LONGEST_S
            self._look()

    def close(self) -> None:
        """What was asked for is not done any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now = time.monotonic()
        left = min((now if self._recalls else self._last) + QUIET_S, self._latest) - now
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self._look)
            return
        self._timer = None
        self._work()
