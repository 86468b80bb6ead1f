"""What all embedders have in common: queries that wait together are embedded together, and the last ones are kept. And
the embedder of a deployment that has none. Here no library of a model is imported: that takes half a second.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from memproxy.core.bounded import BoundedCache
from memproxy.core.text import split_parts
from memproxy.errors import EmbedderUnavailable
from memproxy.ports import Passage, Question
from memproxy.tasks import TaskOwner

TEXT_BATCH = 4  # parts of texts embedded in one go: a query that arrives meanwhile waits for one such batch

Floats = npt.NDArray[np.float32]
Vectors = list[list[float]]


class Encoder(Protocol):
    """A loaded model: texts to vectors, blocking. Raises whatever the library does."""

    def __call__(self, texts: Sequence[str]) -> list[Question]:
        """For each text its vector, of length 1, and those of its tokens."""


def unit(vector: "np.ndarray[Any, Any]") -> list[float]:
    """The vector at length 1; nothing but zeros stay so."""
    length = float(np.linalg.norm(vector))
    result: list[float] = (vector / length if length else vector).astype(np.float32).tolist()
    return result


class NoEmbedder:
    """`ports.Embedder` that has none: recall by words alone, as configured (``embedding.provider: none``)."""

    name = "none"
    state = "off"

    def __init__(self, dimension: int | None = None) -> None:
        self.dimension = dimension

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to release."""

    async def embed_question(self, text: str) -> Question:  # noqa: ARG002 - the port's signature
        raise EmbedderUnavailable("embedding.provider is none: recall goes by words")

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:  # noqa: ARG002 - the port's signature
        raise EmbedderUnavailable("embedding.provider is none: recall goes by words")


MAX_BATCH = 32  # queries embedded in one go
CACHED_BYTES = 32_000_000
"""What the queries that are kept may take: 1.5 KB for each token at 384 dimensions, and 12 KB for the vector of the
whole (a Python list of floats). So about a thousand questions of a sentence, or 80 of the greatest length.
"""

_FLOAT_BYTES = 32  # a number of a list: a Python float and the pointer to it


def _bytes(question: Question) -> int:
    tokens = question.tokens.nbytes if question.tokens is not None else 0
    return len(question.vector) * _FLOAT_BYTES + tokens


class Batcher:
    """Collects single texts while the model is busy and hands them to ``encode`` as one batch. An idle model is never
    waited for: the first text goes at once, the next ones form the next batch. A failure reaches all of its batch. The
    last questions are kept, ``most_bytes`` of them; ``spent`` hears of each text that was not.
    """

    def __init__(
        self,
        tasks: TaskOwner,
        encode: Callable[[Sequence[str]], Awaitable[list[Question]]],
        spent: Callable[[str], None] = lambda _: None,
        *,
        most_bytes: int = CACHED_BYTES,
    ) -> None:
        self._tasks = tasks
        self._encode = encode
        self._spent = spent
        self._cache: BoundedCache[bytes, Question] = BoundedCache(most_bytes, _bytes)
        self._waiting: list[tuple[str, asyncio.Future[Question]]] = []
        self._running: asyncio.Task[None] | None = None

    async def submit(self, text: str) -> Question:
        """The question made of one text; a caller that stops waiting does not disturb the others."""
        # a text may be erased elsewhere: its words are not kept
        name = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if (cached := self._cache.get(name)) is not None:
            return cached
        part = split_parts(text, max_parts=1)[0]
        future: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
        self._waiting.append((part, future))
        if self._running is None or self._running.done():
            self._running = self._tasks.start(self._run(), "queries")
        try:
            question = await future
        except asyncio.CancelledError:
            self._spent(part)  # nobody waits any more, and yet it was asked
            raise
        self._spent(part)
        self._cache.put(name, question)
        return question

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            requests = [(text, future) for text, future in batch if not future.done()]
            if not requests:
                continue
            texts = list(dict.fromkeys(text for text, _ in requests))
            try:
                encoded = dict(zip(texts, await self._encode(texts), strict=True))
            except asyncio.CancelledError:
                for _, future in requests:
                    future.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - not handled here: it is raised where each text was asked for
                for _, future in requests:
                    if not future.done():
                        future.set_exception(error)
                continue
            for text, future in requests:
                if not future.done():
                    future.set_result(encoded[text])
