"""Whether something that did not answer is worth another call just now."""

import time

FAILURES_TO_OPEN = 3
OPEN_S = 1.0  # pause after `FAILURES_TO_OPEN` failures in a row, so that a hanging service costs no request
REFUSED_OPEN_S = 0.1  # the pause where connections are refused: that costs no wait, and it is being started again


class Breaker:
    """Whether a call is worth trying, by how the last ones went."""

    def __init__(self, open_s: float = OPEN_S) -> None:
        """``open_s`` is the pause after failures, unless connections are refused."""
        self._failures = 0
        self._open_until = 0.0
        self._open_s = self._pause_s = open_s

    @property
    def open(self) -> bool:
        """Whether calls are not worth trying."""
        return self._failures >= FAILURES_TO_OPEN and time.monotonic() < self._open_until

    def may_try(self) -> bool:
        """Whether to try a call, whose outcome is noted here: after each pause one try, until one succeeds."""
        if self.open:
            return False
        if self._failures >= FAILURES_TO_OPEN:
            self._open_until = time.monotonic() + self._pause_s
        return True

    def note_failure(self, *, refused: bool = False) -> None:
        """A call failed; ``refused``: there was nobody to connect to."""
        self._failures += 1
        self._pause_s = REFUSED_OPEN_S if refused else self._open_s
        if self._failures >= FAILURES_TO_OPEN:
            self._open_until = time.monotonic() + self._pause_s

    def note_success(self) -> None:
        """A call was answered."""
        self._failures = 0
