"""How many recalls are sent to the engine at once: as many as it answers in time, which their answers tell.

The others wait for their turn, if it comes early enough to be answered in time as well. To refuse them at once would
leave the engine idle between the answers of one round and the requests of the next.
"""

import asyncio
import time
from typing import NamedTuple

AT_ONCE = 16.0
"""Recalls at once at the beginning: an engine that needs 3 to 7 ms for each answers as many in time."""

MOST_AT_ONCE = 1_000.0

NEWEST = 0.1
"""The weight of the newest answer in how long they usually take."""

LESS = 0.8
"""The part of the number that is left after a late answer."""


class Run(NamedTuple):
    """A recall that was sent at ``began``. ``full``: no more were allowed beside it, so it tells if more would do."""

    began: float
    full: bool


class Pace:
    """Counts the recalls under way, and tells whether one more may be sent.

    As with TCP's window: each round of answers in time makes room for one more, a late one takes a part away, once for
    all that were sent before. That asks neither why an answer was late (the engine, its other callers, or this
    process) nor how long one takes alone. There is always room for one: nothing else would tell that times are better.
    """

    def __init__(self, deadline_s: float, *, at_once: float = AT_ONCE) -> None:
        """An answer is in time within ``deadline_s``; ``at_once`` are sent at the beginning."""
        self._in_time_s = deadline_s
        self._at_once = max(1.0, at_once)
        self._running = 0
        self._shrunk_at = 0.0
        self._usual_s = 0.0
        self._waiting: dict[asyncio.Future[Run | None], None] = {}

    @property
    def admits(self) -> bool:
        """Whether one more may be sent."""
        return self._running < int(self._at_once)

    @property
    def load(self) -> int:
        """Recalls that are under way, or wait for their turn."""
        return self._running + len(self._waiting)

    async def enter(self, within_s: float) -> Run | None:
        """Begin a recall that is to be answered within this time, when it is its turn. None: it would not be."""
        if self.admits and not self._waiting:
            return self.begin()
        if self._expected_s(len(self._waiting) + 1) > within_s:
            return None
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Run | None] = loop.create_future()
        self._waiting[turn] = None
        late = loop.call_later(max(0.0, within_s - self._usual_s), _give_up, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and (run := turn.result()) is not None:
                self.end(run, answered=False)
            raise
        finally:
            late.cancel()
            self._waiting.pop(turn, None)

    def _expected_s(self, place: int) -> float:
        """How long until the answer to the one at this place in the queue, if all goes on as it usually does."""
        return self._usual_s * (1 + place / int(self._at_once))

    def begin(self) -> Run:
        """One is sent."""
        self._running += 1
        return Run(began=time.monotonic(), full=not self.admits)

    def end(self, run: Run, *, answered: bool) -> None:
        """It is over. Learned from are answers, however late, and what was given up because none came."""
        self._running -= 1
        if answered:
            self._learn(run.began, full=run.full)
        while self._waiting and self.admits:
            turn = next(iter(self._waiting))
            del self._waiting[turn]
            if not turn.done():
                turn.set_result(self.begin())

    def _learn(self, began: float, *, full: bool) -> None:
        now = time.monotonic()
        took = now - began
        self._usual_s += NEWEST * (took - self._usual_s) if self._usual_s else took
        if now - began > self._in_time_s:
            if began >= self._shrunk_at:
                self._at_once, self._shrunk_at = max(1.0, self._at_once * LESS), now
        elif full:
            self._at_once = min(MOST_AT_ONCE, self._at_once + 1 / self._at_once)


def _give_up(turn: asyncio.Future[Run | None]) -> None:
    """It is too late for its turn."""
    if not turn.done():
        turn.set_result(None)
