"""The deadline of one recall: how much of it is left, what each stage took, and what was done without."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from memproxy.core.scope import Scope
from memproxy.errors import ModelError, ModelRefused, StateUnavailable
from memproxy.metrics import metrics

log = logging.getLogger(__name__)

Indexed = Callable[[Scope, float], Awaitable[bool]]
"""Waits up to the given number of seconds until all turns of an owner are indexed; answers whether they are."""

OWN_WORDS_SHARE = 0.5
"""The part of the deadline that may pass until the user's last words are indexed: the rest is for the search."""


class Deadline:
    """Begins now. Only what runs within `in_time` uses it up: models have limits of their own."""

    def __init__(self, deadline_s: float) -> None:
        self.notes: list[str] = []
        self._start = time.perf_counter()
        self._remaining_s = deadline_s
        self._stages: dict[str, float] = {}

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Runs the block within what is left of the deadline.

        Raises:
            TimeoutError: nothing is left.
        """
        start = time.perf_counter()
        try:
            async with asyncio.timeout(max(0.0, self._remaining_s)):
                yield
        finally:
            self._remaining_s -= time.perf_counter() - start

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times the block, also when it fails; the metric too. A stage that runs twice has the sum of both."""
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self._stages[name] = round(self._stages.get(name, 0.0) + seconds * 1000, 3)
            metrics().recall_stage.labels(name).observe(seconds)

    def note_missing_model(self, stage: str, error: ModelError) -> None:
        """Tell the receipt, the metrics and the log that recall goes on without a model. A tenant whose way to its
        model is not known yet is no failure.
        """
        reason = "timeout" if isinstance(error.__cause__, TimeoutError) else error.code.removeprefix("model_")
        self.notes.append(f"{stage}: {reason}")
        if not isinstance(error, ModelRefused):
            metrics().internal_errors.labels(where=f"recall.{stage}").inc()
            log.warning("recall goes on without its %s model: %s", stage, error.message)

    def timings(self) -> dict[str, float]:
        """Milliseconds of all stages, and from the beginning until now (``recall``)."""
        return {**self._stages, "recall": round((time.perf_counter() - self._start) * 1000, 3)}


class OwnWords:
    """Waits until the caller's own latest messages can be found; turns of other users cause no wait."""

    def __init__(self, deadline_s: float) -> None:
        self._most_s = OWN_WORDS_SHARE * deadline_s
        self._indexed: Indexed | None = None

    def wait_with(self, indexed: Indexed) -> None:
        """Set how to wait for indexing; without it `wait` returns at once."""
        self._indexed = indexed

    async def wait(self, scope: Scope, deadline: Deadline) -> None:
        """Return when the owner's turns are indexed, or that takes too long: then what is indexed is searched.

        Raises:
            TimeoutError: the deadline is over.
        """
        if self._indexed is None:
            return
        try:
            with deadline.stage("own_words"):
                async with deadline.in_time():
                    if not await self._indexed(scope, self._most_s):
                        deadline.notes.append("own_words: timeout")
        except StateUnavailable:
            metrics().internal_errors.labels(where="recall.own_words").inc()
            deadline.notes.append("own_words: state")
