"""Whether the engine is worth a call just now."""

import time

FAILURES_TO_OPEN = 3
OPEN_S = 1.0
"""After this many failures in a row the engine is left alone for a second, so that a hung one costs no request."""

REFUSED_OPEN_S = 0.1
"""The same of one that cannot be connected to: that is known at once, and it is being started again."""


class Breaker:
    """Remembers whether the engine answered lately."""

    def __init__(self) -> None:
        self._failures = 0
        self._open_until = 0.0
        self._pause_s = OPEN_S

    @property
    def open(self) -> bool:
        """Whether calls are not worth trying just now."""
        return self._failures >= FAILURES_TO_OPEN and time.monotonic() < self._open_until

    def may_try(self) -> bool:
        """Whether a call that tells how it went (`failed`, `succeeded`) may be tried now: each pause is followed by
        another, until one succeeded.
        """
        if self.open:
            return False
        if self._failures >= FAILURES_TO_OPEN:
            self._open_until = time.monotonic() + self._pause_s
        return True

    def failed(self, *, refused: bool = False) -> bool:
        """A call failed; ``refused``: it was not even taken. Whether calls are not worth trying since just now."""
        self._failures += 1
        self._pause_s = REFUSED_OPEN_S if refused else OPEN_S
        if self._failures >= FAILURES_TO_OPEN:
            self._open_until = time.monotonic() + self._pause_s
        return self._failures <= FAILURES_TO_OPEN

    def succeeded(self) -> None:
        """A call was answered."""
        self._failures = 0
