"""A recall that comes right behind a statement waits until the statement can be found."""

from collections.abc import Awaitable, Callable

from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.recall.course import Course

Indexed = Callable[[Scope, float], Awaitable[bool]]
"""Waits so many seconds at most until all turns of an owner are indexed; answers at once when they are."""

SHARE = 0.5
"""The part of the deadline that may pass so: the rest is for the search itself."""


class OwnWords:
    """Waits for the turns of the user who asks; those of others delay nobody."""

    def __init__(self, deadline_s: float) -> None:
        self._most_s = SHARE * deadline_s
        self._indexed: Indexed | None = None

    def found_by(self, indexed: Indexed) -> None:
        """Who knows what is not indexed yet; until this is told nothing is waited for."""
        self._indexed = indexed

    async def wait(self, scope: Scope, course: Course) -> None:
        """Return when the owner's turns are indexed, or when that takes too long: what is there is searched then.

        Raises:
            TimeoutError: the deadline is over.
        """
        if self._indexed is None:
            return
        try:
            with course.stage("own_words"):
                async with course.in_time():
                    if not await self._indexed(scope, self._most_s):
                        course.notes.append("own_words: timeout")
        except StateUnavailable:
            metrics().internal_errors.labels(where="recall.own_words").inc()
            course.notes.append("own_words: state")
