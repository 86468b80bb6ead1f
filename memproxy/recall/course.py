"""The course of one recall: what each stage took, how much of the deadline is left, and what was done without."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from memproxy.metrics import metrics


class Course:
    """Begins now. Only what runs within `in_time` uses the deadline up: a model's time is its own."""

    def __init__(self, deadline_s: float) -> None:
        self.notes: list[str] = []
        self._start = time.perf_counter()
        self._left = deadline_s
        self._stages: dict[str, float] = {}

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Runs the block within what is left of the deadline.

        Raises:
            TimeoutError: nothing is left.
        """
        start = time.perf_counter()
        try:
            async with asyncio.timeout(max(0.0, self._left)):
                yield
        finally:
            self._left -= time.perf_counter() - start

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

    def timings(self) -> dict[str, float]:
        """Milliseconds of all stages, and from the beginning until now (``recall``)."""
        return {**self._stages, "recall": round((time.perf_counter() - self._start) * 1000, 3)}
