"""How many recalls are sent to the engine at once: as many as it answers in time, which their answers tell."""

import time
from typing import NamedTuple

AT_ONCE = 16.0
"""Recalls at once at the beginning: so many an engine answers in time that needs 3 to 7 ms for each."""

MOST_AT_ONCE = 1_000.0

LESS = 0.8
"""What is left of the number after an answer that came later."""


class Run(NamedTuple):
    """A recall that was sent at ``began``. ``full``: no more were allowed beside it, so it tells if more would do."""

    began: float
    full: bool


class Pace:
    """Counts the recalls under way, and tells whether one more may be sent.

    As with TCP's window: each round of answers in time makes room for one more, a late one takes a part away, once for
    all that were sent before. That asks neither why an answer was late (the engine, whoever else asks it, or this
    process) nor how long one takes alone. There is always room for one: nothing else would tell that times are better.
    """

    def __init__(self, deadline_s: float, *, at_once: float = AT_ONCE) -> None:
        """An answer is in time within ``deadline_s``; ``at_once`` are sent at the beginning."""
        self._in_time_s = deadline_s
        self._at_once = max(1.0, at_once)
        self._running = 0
        self._shrunk_at = 0.0

    @property
    def admits(self) -> bool:
        """Whether one more may be sent."""
        return self._running < int(self._at_once)

    def begin(self) -> "Run":
        """One is sent."""
        self._running += 1
        return Run(began=time.monotonic(), full=not self.admits)

    def end(self, run: "Run", *, answered: bool) -> None:
        """It is over. Learned from are answers, however late, and what was given up because none came."""
        self._running -= 1
        if answered:
            self._learn(run.began, full=run.full)

    def _learn(self, began: float, *, full: bool) -> None:
        now = time.monotonic()
        if now - began > self._in_time_s:
            if began >= self._shrunk_at:
                self._at_once, self._shrunk_at = max(1.0, self._at_once * LESS), now
        elif full:
            self._at_once = min(MOST_AT_ONCE, self._at_once + 1 / self._at_once)
