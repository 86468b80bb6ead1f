"""Learning goes on in steps, between what requests wait for.

A session that is learned from takes some 25 ms of the event loop: reading what is known, comparing, planning, writing.
Beside a hundred exchanges a second that is time which their recalls wait for. So learning asks before every step (a
candidate that is compared, a read of what is known, a plan that is applied) whether it may go on.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memproxy.core.scope import OwnerKey
from memproxy.tasks import happens

STEP_EVERY_S = 0.05  # while requests wait one step of some 2 ms is let through this often: learning has 5 % of the time
LATELY_S = 1.0
BUSY_FROM = 20  # requests and writes within `LATELY_S` from which on there is traffic; one person's chat is none
_LOOK_S = 0.02  # how often a step that waits looks whether somebody waits for its owner's lock


class Scheduler:
    """Says when learning's next step may run: at once, where somebody waits for its owner's lock (``has_waiters``)."""

    def __init__(self, has_waiters: Callable[[OwnerKey], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._has_waiters = has_waiters
        self._clock = clock
        self._serving = 0
        self._quiet = asyncio.Event()
        self._lately: deque[float] = deque(maxlen=BUSY_FROM)
        self._hurrying: Counter[OwnerKey] = Counter()
        self.has_ended = False
        self._next_at = clock()
        self._stepped = False

    @contextmanager
    def serving(self) -> Iterator[None]:
        """A request waits within it, or what was told is made findable: learning comes after that."""
        self._serving += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._serving -= 1
            self._lately.append(self._clock())
            if not self._serving:
                self._quiet.set()

    async def step(self, owner: OwnerKey) -> None:
        """Return when learning from this owner may take its next step: one in a turn of the event loop."""
        while True:
            await asyncio.sleep(0)
            if self._stepped:
                continue
            if not self._serving or self.has_ended or self._hurries(owner):
                break
            wait_s = self._next_at - self._clock()
            if wait_s <= 0:
                self._next_at = self._clock() + STEP_EVERY_S
                break
            await happens(self._quiet, min(wait_s, _LOOK_S))
        self._stepped = True
        asyncio.get_running_loop().call_soon(self._turned)

    def _turned(self) -> None:
        self._stepped = False

    def is_patient(self, owner: OwnerKey) -> bool:
        """Whether this owner's learning may wait for others' flushes: there is traffic, and no caller waits for it."""
        traffic = len(self._lately) == BUSY_FROM and self._clock() - self._lately[0] < LATELY_S
        return traffic and not self.has_ended and not self._hurries(owner)

    @contextmanager
    def hurrying(self, owner: OwnerKey) -> Iterator[None]:
        """A context in which this owner's steps do not wait."""
        self._hurrying[owner] += 1
        try:
            yield
        finally:
            self._hurrying[owner] -= 1
            if not self._hurrying[owner]:
                del self._hurrying[owner]

    def end(self) -> None:
        """The worker ends: no step waits any more."""
        self.has_ended = True

    def _hurries(self, owner: OwnerKey) -> bool:
        return owner in self._hurrying or self._has_waiters(owner)
