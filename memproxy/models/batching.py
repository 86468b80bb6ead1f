"""Queries that wait together are embedded together, and the last ones are kept."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence

from memproxy.core.bounded import BoundedCache
from memproxy.ports import Question
from memproxy.tasks import TaskOwner

MAX_BATCH = 32
"""Queries embedded in one go."""

CACHED_BYTES = 32_000_000
"""What the queries that are kept may take: 1.5 KB for each token at 384 dimensions, and 12 KB for the vector of the
whole (a Python list of floats). So about a thousand questions of a sentence, or 80 of the greatest length.
"""

_FLOAT_BYTES = 32
"""A number of a list: a Python float and the pointer to it."""


class QueryCache:
    """What was made of the last queries, by text."""

    def __init__(self, most_bytes: int = CACHED_BYTES) -> None:
        self._questions: BoundedCache[bytes, Question] = BoundedCache(most_bytes, _bytes)

    def get(self, text: str) -> Question | None:
        """What was made of a text that was asked for before, None if it is not (or no longer) there."""
        return self._questions.get(_name(text))

    def put(self, text: str, question: Question) -> None:
        """Keep it; those that were not asked for longest go when it is too much."""
        self._questions.put(_name(text), question)


def _name(text: str) -> bytes:
    """Stands for a text that may be erased elsewhere: the words themselves are not kept."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _bytes(question: Question) -> int:
    tokens = question.tokens.nbytes if question.tokens is not None else 0
    return len(question.vector) * _FLOAT_BYTES + tokens


class Batcher:
    """Collects single texts while the model is busy and hands them over as one batch.

    ``encode`` embeds several texts at once. An idle model is never waited for: the first text goes at once, those that
    arrive meanwhile form the next batch. A failure reaches everybody in its batch.
    """

    def __init__(self, tasks: TaskOwner, encode: Callable[[Sequence[str]], Awaitable[list[Question]]]) -> None:
        self._tasks = tasks
        self._encode = encode
        self._waiting: list[tuple[str, asyncio.Future[Question]]] = []
        self._running: asyncio.Task[None] | None = None

    async def submit(self, text: str) -> Question:
        """What is made of one text; whoever stops waiting does not disturb the others."""
        future: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
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

    async def _embed(self, wanted: list[tuple[str, "asyncio.Future[Question]"]]) -> None:
        texts = list(dict.fromkeys(text for text, _ in wanted))
        try:
            made = dict(zip(texts, await self._encode(texts), strict=True))
        except asyncio.CancelledError:
            for _, future in wanted:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - not handled here: it is raised where each text was asked for
            _fail(wanted, error)
            return
        for text, future in wanted:
            if not future.done():
                future.set_result(made[text])


def _fail(wanted: list[tuple[str, "asyncio.Future[Question]"]], error: Exception) -> None:
    for _, future in wanted:
        if not future.done():
            future.set_exception(error)
