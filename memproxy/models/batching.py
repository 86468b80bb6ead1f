"""Queries that wait together are embedded together, and the last ones are kept."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from memproxy.tasks import TaskOwner

MAX_BATCH = 32
"""Queries embedded in one go."""

CACHED_QUERIES = 1024
"""Query vectors kept: 1.5 MB of floats at 384 dimensions (about ten times that as Python lists)."""

Vector = list[float]


class QueryCache:
    """The vectors of the last queries, by text."""

    def __init__(self, size: int = CACHED_QUERIES) -> None:
        self._size = size
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    def get(self, text: str) -> Vector | None:
        """The vector of a text that was asked for before, None if it is not (or no longer) there."""
        if text in self._vectors:
            self._vectors.move_to_end(text)
        return self._vectors.get(text)

    def put(self, text: str, vector: Vector) -> None:
        """Keep it; the one that was not asked for longest goes when there are too many."""
        self._vectors[text] = vector
        self._vectors.move_to_end(text)
        if len(self._vectors) > self._size:
            self._vectors.popitem(last=False)


class Batcher:
    """Collects single texts while the model is busy and hands them over as one batch.

    ``encode`` embeds several texts at once. An idle model is never waited for: the first text goes at once, those that
    arrive meanwhile form the next batch. A failure reaches everybody in its batch.
    """

    def __init__(self, tasks: TaskOwner, encode: Callable[[Sequence[str]], Awaitable[list[Vector]]]) -> None:
        self._tasks = tasks
        self._encode = encode
        self._waiting: list[tuple[str, asyncio.Future[Vector]]] = []
        self._running: asyncio.Task[None] | None = None

    async def submit(self, text: str) -> Vector:
        """The vector of one text; whoever stops waiting does not disturb the others."""
        future: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, future))
        if self._running is None or self._running.done():
            self._running = self._tasks.start(self._run(), "queries")
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            wanted = [(text, future) for text, future in batch if not future.done()]
            if wanted:
                await self._embed(wanted)

    async def _embed(self, wanted: list[tuple[str, "asyncio.Future[Vector]"]]) -> None:
        texts = list(dict.fromkeys(text for text, _ in wanted))
        try:
            vectors = dict(zip(texts, await self._encode(texts), strict=True))
        except asyncio.CancelledError:
            for _, future in wanted:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - not handled here: it is raised where each text was asked for
            _fail(wanted, error)
            return
        for text, future in wanted:
            if not future.done():
                future.set_result(vectors[text])


def _fail(wanted: list[tuple[str, "asyncio.Future[Vector]"]], error: Exception) -> None:
    for _, future in wanted:
        if not future.done():
            future.set_exception(error)
