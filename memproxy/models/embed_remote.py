"""The embedder on a remote model that speaks OpenAI's embeddings API."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import openai

from memproxy.core.scope import payer
from memproxy.core.text import estimate, split_parts
from memproxy.errors import EmbedderUnavailable
from memproxy.metrics import metrics
from memproxy.models.chat_client import retry_after
from memproxy.models.embedding import TEXT_BATCH, Batcher, Vectors, unit
from memproxy.ports import Passage, Question
from memproxy.settings import EmbeddingSettings
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

REST_S = 3.0
"""How long a service that is away (no connection, no answer in time, 5xx) is left alone; then one call alone tries it,
because callers that wait for each other's timeouts could have gone on without vectors.
"""

PROBE_EVERY_S = 10.0  # how often to look whether a service that is away is back, even without calls
PAUSE_S = 0.5
MOST_PAUSE_S = 60.0
"""Before a failed call is repeated, once: what the service says itself (Retry-After) up to the second, else the first.
"""


class OpenAIEmbedder:
    """`ports.Embedder` on a remote model that speaks OpenAI's embeddings API; gives no vectors of tokens. A call waits
    ``timeout_s`` at most, because a write may wait for it. ``spent`` is called with the tenant (`core.scope.payer`) for
    each question that goes to the service; what stored texts cost their writer counts.
    """

    def __init__(
        self, settings: EmbeddingSettings, *, timeout_s: float = 10.0, spent: Callable[[str, str], None] | None = None
    ) -> None:
        self._settings = settings
        self._spent = spent
        key = settings.api_key.get_secret_value() if settings.api_key else "none"
        self._client = openai.AsyncOpenAI(base_url=settings.base_url, api_key=key, timeout=timeout_s, max_retries=0)
        self._tasks = TaskOwner("embedder")
        self.name = f"openai:{settings.model}"
        self.dimension = settings.dimension
        self.state = "ready"
        self._away_until: float | None = None
        self._trying = False
        self._queries = Batcher(self._tasks, self._questions, self._count)

    async def start(self) -> None:
        """Ask in the background, so that the dimension and the state are known."""
        self._tasks.start(self._probe(), "probe")

    async def _probe(self) -> None:
        is_logged, is_tried = False, False
        while True:
            if self.state != "ready" or not is_tried:
                is_tried = True
                try:
                    await self._encode(["dimension"])
                    is_logged = False
                except EmbedderUnavailable as error:
                    if not is_logged:
                        log.warning("recall is lexical only for now: %s", error.message)
                    is_logged = True
            await asyncio.sleep(PROBE_EVERY_S)

    async def close(self) -> None:
        await self._tasks.cancel()
        await self._client.close()

    async def embed_question(self, text: str) -> Question:
        return await self._queries.submit(text)

    def _count(self, text: str) -> None:
        if self._spent is not None and (tenant := payer()) is not None:
            self._spent(tenant, text)

    async def _questions(self, texts: Sequence[str]) -> list[Question]:
        return [Question(vector=vector) for vector in await self._encode(texts)]

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        parts = [split_parts(text) for text in texts]
        flat = [part for of_text in parts for part in of_text]
        vectors: Vectors = []
        for start in range(0, len(flat), 4 * TEXT_BATCH):
            vectors.extend(await self._encode(flat[start : start + 4 * TEXT_BATCH]))
        next_vectors = iter(vectors)
        return [Passage(parts=[next(next_vectors) for _ in of_text]) for of_text in parts]

    async def _encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of texts; at once unavailable where the service was away a moment ago, or another call is trying."""
        away = self._away_until
        if away is not None and (self._trying or time.monotonic() < away):
            raise EmbedderUnavailable(f"the embedding service at {self._client.base_url.host} was away a moment ago")
        self._trying = tries = away is not None
        try:
            vectors = await self._request(texts)
        finally:
            if tries:
                self._trying = False
        self._away_until = None
        return vectors

    async def _request(self, texts: Sequence[str]) -> Vectors:
        try:
            # The API refuses empty input; a space stands for it.
            inputs = [text if text.strip() else " " for text in texts]
            answer = await self._answer(inputs)
        except (openai.OpenAIError, ValueError) as error:  # ValueError: what it answers is no JSON
            self.state = f"unavailable: {type(error).__name__} from {self._client.base_url.host}"
            if isinstance(error, openai.APIConnectionError | openai.InternalServerError):
                self._away_until = time.monotonic() + REST_S
            raise EmbedderUnavailable(
                f"the embedding service at {self._client.base_url.host} failed ({type(error).__name__}); check "
                "embedding.base_url, embedding.api_key and embedding.model"
            ) from error
        try:
            vectors = self._read(answer, len(texts))
        except (AttributeError, TypeError, ValueError) as error:  # the client checks no answer's shape
            self.state = "unavailable: unexpected answer"
            raise EmbedderUnavailable(
                f"what the embedding service at {self._client.base_url.host} answered cannot be read "
                f"({type(error).__name__}); check embedding.base_url"
            ) from error
        usage: Any = getattr(answer, "usage", None)  # not every service that speaks this API tells
        prompt_tokens = getattr(usage, "prompt_tokens", None)
        spent = prompt_tokens if isinstance(prompt_tokens, int) else sum(estimate(text) for text in inputs)
        metrics().model_tokens.labels(source="embed", direction="input").inc(max(spent, 0))
        return vectors

    async def _answer(self, inputs: list[str]) -> openai.types.CreateEmbeddingResponse:
        """The service's answer; asked once more where it failed, but not where it was silent."""
        options: dict[str, Any] = {"dimensions": self._settings.dimension} if self._settings.dimension else {}
        ask = partial(
            self._client.embeddings.create, model=self._settings.model, input=inputs, encoding_format="float", **options
        )
        try:
            return await ask()
        except (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError) as error:
            if isinstance(error, openai.APITimeoutError):
                raise
            asked_s = retry_after(error.response.headers) if isinstance(error, openai.APIStatusError) else None
        await asyncio.sleep(PAUSE_S if asked_s is None else min(asked_s, MOST_PAUSE_S))
        return await ask()

    def _read(self, answer: openai.types.CreateEmbeddingResponse, expected: int) -> Vectors:
        rows = sorted(answer.data or [], key=lambda row: row.index)
        vectors = [unit(np.asarray(row.embedding, dtype=np.float32)) for row in rows]
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != expected or lengths != {self.dimension or max(lengths, default=0)}:
            self.state = "unavailable: unexpected answer"
            raise EmbedderUnavailable(
                f"the embedding service answered {len(vectors)} vectors of {sorted(lengths)} numbers, expected "
                f"{expected} of {self.dimension}; check embedding.model and embedding.dimension"
            )
        self.dimension, self.state = lengths.pop(), "ready"
        return vectors
