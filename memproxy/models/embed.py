"""Embedders: a local ONNX model through fastembed, a remote one that speaks OpenAI's API, and none."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openai

from memproxy.core.payer import payer
from memproxy.core.text import split_parts
from memproxy.core.tokens import estimate
from memproxy.core.tokenvectors import MOST_TOKENS, pack
from memproxy.errors import ConfigError, EmbedderUnavailable
from memproxy.metrics import metrics
from memproxy.models.batching import Batcher, QueryCache
from memproxy.models.encoder import TEXT_BATCH, Encoder, Floats, load_fastembed, unit
from memproxy.models.plain import WithoutTokens
from memproxy.models.precision import for_questions
from memproxy.ports import Passage, Question
from memproxy.settings import EmbeddingSettings
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

RETRY_SECONDS = 300.0
"""How long after a failed load the model is tried again."""

Vectors = list[list[float]]


class FastembedEmbedder:
    """`ports.Embedder` on a local ONNX model: loaded in the background, one session, one worker thread.

    ``start`` returns at once, also without network, where fastembed retries for 39 s. Until the model is there (and
    again ``retry_s`` after a failure) both calls raise `EmbedderUnavailable` at once. Queries that wait
    together are embedded together; the last ones are cached. ``precision`` says by which weights they are:
    `models.precision.Questions`.
    """

    def __init__(
        self,
        settings: EmbeddingSettings,
        cache_dir: Path,
        load: Callable[[EmbeddingSettings, Path], tuple[Encoder, int]] = load_fastembed,
        *,
        retry_s: float = RETRY_SECONDS,
    ) -> None:
        """``load`` makes the encoder, in a thread; ``retry_s`` are the seconds between a failed load and the next."""
        self._settings = settings
        self._cache_dir = cache_dir
        self._load = load
        self._retry_s = retry_s
        self._tasks = TaskOwner("embedder")
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="embedder-load")
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="embedder")
        self._dimension = settings.dimension
        self._encoder: Encoder | None = None
        self._asked: Encoder | None = None
        self._precision = ""
        self._state = "loading"
        self._cache = QueryCache()
        self._queries = Batcher(self._tasks, self._questions)

    @property
    def name(self) -> str:
        return f"fastembed:{self._settings.model}"

    @property
    def dimension(self) -> int | None:
        return self._dimension

    @property
    def state(self) -> str:
        return self._state

    @property
    def precision(self) -> str:
        """Of the weights that questions are embedded with: ``int8``, ``fp32`` or ``fp32: why``; empty until loaded."""
        return self._precision

    async def start(self) -> None:
        self._tasks.start(self._keep_loading(), "load")

    async def close(self) -> None:
        """Stop loading and release the model. A download under way ends with its thread, which nobody waits for."""
        await self._tasks.cancel()
        self._loader.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._worker.shutdown, wait=True, cancel_futures=True)
        self._encoder = self._asked = None
        self._state = "unavailable: closed"

    async def embed_query(self, text: str) -> list[float]:
        return (await self.embed_question(text)).vector

    async def embed_texts(self, texts: Sequence[str]) -> list[Vectors]:
        return [passage.parts for passage in await self.embed_passages(texts)]

    async def embed_question(self, text: str) -> Question:
        self._require()
        if (cached := self._cache.get(text)) is not None:
            return cached
        question = await self._queries.submit(split_parts(text, max_parts=1)[0])
        self._cache.put(text, question)
        return question

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        self._require()
        parts = [split_parts(text) for text in texts]
        made = [_Making(len(own)) for own in parts]
        due = [(making, part) for making, own in zip(made, parts, strict=True) for part in own]
        for start in range(0, len(due), TEXT_BATCH):
            some = due[start : start + TEXT_BATCH]
            encoded = await self._run(self._require(), [part for _, part in some])
            for (making, _), one in zip(some, encoded, strict=True):
                making.add(one)
        return [making.passage() for making in made]

    async def _questions(self, texts: Sequence[str]) -> list[Question]:
        return await self._run(self._asked or self._require(), texts)

    async def _run(self, encoder: Encoder, texts: Sequence[str]) -> list[Question]:
        return await asyncio.get_running_loop().run_in_executor(self._worker, encoder, texts)

    def _require(self) -> Encoder:
        if self._encoder is None:
            raise EmbedderUnavailable(f"the embedding model is not there: {self._state}; recall goes on by words")
        return self._encoder

    async def _keep_loading(self) -> None:
        told = False
        while not await self._try_load(told):
            told = True
            await asyncio.sleep(self._retry_s)

    async def _try_load(self, told: bool) -> bool:
        """Load once; the first failure is a warning, repeated ones are not."""
        loop = asyncio.get_running_loop()
        try:
            encoder, dimension = await loop.run_in_executor(self._loader, self._load, self._settings, self._cache_dir)
            self._check(dimension)
            asked = await loop.run_in_executor(self._loader, for_questions, encoder, self._settings, self._cache_dir)
        except (EmbedderUnavailable, ConfigError) as error:
            self._state = f"unavailable: {error.message}"
            log.log(logging.DEBUG if told else logging.WARNING, "recall is lexical only for now: %s", error.message)
            return False
        except Exception as error:  # the runtime raises its own types; whatever it is, recall goes on by words
            metrics().internal_errors.labels(where="embedder").inc()
            self._state = f"unavailable: {type(error).__name__}: {error}"
            log.log(logging.DEBUG if told else logging.WARNING, "the embedding model failed to load", exc_info=error)
            return False
        self._asked, self._precision = asked
        self._dimension, self._encoder, self._state = dimension, encoder, "ready"
        model = self._settings.model
        log.info("embedding model %s is ready, %d dimensions; questions: %s", model, dimension, self._precision)
        return True

    def _check(self, dimension: int) -> None:
        if self._settings.dimension not in (None, dimension):
            raise ConfigError(
                f"embedding.dimension is {self._settings.dimension}, but {self._settings.model} has {dimension}; "
                f"set embedding.dimension: {dimension} or leave it out"
            )


class OpenAIEmbedder(WithoutTokens):
    """`ports.Embedder` on a remote model that speaks OpenAI's embeddings API.

    ``spent`` hears of each question that goes there for a tenant (`core.payer`), with the tenant; of those that are
    answered from memory it does not, and of stored texts whoever stores them counts.
    """

    def __init__(
        self,
        settings: EmbeddingSettings,
        *,
        timeout_s: float = 10.0,
        spent: Callable[[str, str], None] | None = None,
    ) -> None:
        self._settings = settings
        self._spent = spent
        key = settings.api_key.get_secret_value() if settings.api_key else "none"
        self._client = openai.AsyncOpenAI(base_url=settings.base_url, api_key=key, timeout=timeout_s, max_retries=1)
        self._tasks = TaskOwner("embedder")
        self._dimension = settings.dimension
        self._state = "ready"
        self._cache = QueryCache()
        self._queries = Batcher(self._tasks, self._questions)

    @property
    def name(self) -> str:
        return f"openai:{self._settings.model}"

    @property
    def dimension(self) -> int | None:
        return self._dimension

    @property
    def state(self) -> str:
        return self._state

    async def start(self) -> None:
        """Ask once in the background, so that the dimension and the state are known."""
        self._tasks.start(self._probe(), "probe")

    async def _probe(self) -> None:
        try:
            await self._encode(["dimension"])
        except EmbedderUnavailable as error:
            log.warning("recall is lexical only for now: %s", error.message)

    async def close(self) -> None:
        await self._tasks.cancel()
        await self._client.close()

    async def embed_query(self, text: str) -> list[float]:
        if (cached := self._cache.get(text)) is not None:
            return cached.vector
        part = split_parts(text, max_parts=1)[0]
        try:
            question = await self._queries.submit(part)
        except asyncio.CancelledError:
            self._count(part)  # nobody waits any more, and yet it was asked
            raise
        self._count(part)
        self._cache.put(text, question)
        return question.vector

    def _count(self, text: str) -> None:
        if self._spent is not None and (tenant := payer()) is not None:
            self._spent(tenant, text)

    async def _questions(self, texts: Sequence[str]) -> list[Question]:
        return [Question(vector=vector) for vector in await self._encode(texts)]

    async def embed_texts(self, texts: Sequence[str]) -> list[Vectors]:
        parts = [split_parts(text) for text in texts]
        flat = [part for own in parts for part in own]
        vectors: Vectors = []
        for start in range(0, len(flat), 4 * TEXT_BATCH):
            vectors.extend(await self._encode(flat[start : start + 4 * TEXT_BATCH]))
        return _regroup(vectors, parts)

    async def _encode(self, texts: Sequence[str]) -> Vectors:
        options: dict[str, Any] = {"dimensions": self._settings.dimension} if self._settings.dimension else {}
        try:
            # The API refuses empty input; a space stands for it.
            inputs = [text if text.strip() else " " for text in texts]
            answer = await self._client.embeddings.create(
                model=self._settings.model, input=inputs, encoding_format="float", **options
            )
        except openai.OpenAIError as error:
            self._state = f"unavailable: {type(error).__name__} from {self._client.base_url.host}"
            raise EmbedderUnavailable(
                f"the embedding service at {self._client.base_url.host} failed ({type(error).__name__}); check "
                "embedding.base_url, embedding.api_key and embedding.model"
            ) from error
        usage: Any = getattr(answer, "usage", None)  # not every service that speaks this API tells
        given = usage.prompt_tokens if usage else sum(estimate(text) for text in inputs)
        metrics().model_tokens.labels(source="embed", direction="input").inc(given)
        return self._read(answer, len(texts))

    def _read(self, answer: openai.types.CreateEmbeddingResponse, expected: int) -> Vectors:
        rows = sorted(answer.data or [], key=lambda row: row.index)
        vectors = [unit(np.asarray(row.embedding, dtype=np.float32)) for row in rows]
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != expected or lengths != {self._dimension or max(lengths, default=0)}:
            self._state = "unavailable: unexpected answer"
            raise EmbedderUnavailable(
                f"the embedding service answered {len(vectors)} vectors of {sorted(lengths)} numbers, expected "
                f"{expected} of {self._dimension}; check embedding.model and embedding.dimension"
            )
        self._dimension, self._state = lengths.pop(), "ready"
        return vectors


class NoEmbedder(WithoutTokens):
    """`ports.Embedder` that has none: recall by words alone, as configured (``embedding.provider: none``)."""

    name = "none"
    state = "off"

    def __init__(self, dimension: int | None = None) -> None:
        self._dimension = dimension

    @property
    def dimension(self) -> int | None:
        return self._dimension

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to release."""

    async def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 - the port's signature
        raise EmbedderUnavailable("embedding.provider is none: recall goes by words")

    async def embed_texts(self, texts: Sequence[str]) -> list[Vectors]:  # noqa: ARG002 - the port's signature
        raise EmbedderUnavailable("embedding.provider is none: recall goes by words")


def _regroup(vectors: Vectors, parts: Sequence[Sequence[str]]) -> list[Vectors]:
    remaining = iter(vectors)
    return [[next(remaining) for _ in own] for own in parts]


class _Making:
    """A passage whose parts are encoded one after another."""

    def __init__(self, parts: int) -> None:
        self._expected = parts
        self._parts: Vectors = []
        self._tokens: list[Floats] = []
        self._packed = b""

    def add(self, part: Question) -> None:
        """The next part; with the last one the tokens are packed, so that of few texts they are held in full."""
        self._parts.append(part.vector)
        if part.tokens is not None and sum(map(len, self._tokens)) < MOST_TOKENS:
            self._tokens.append(part.tokens)
        if len(self._parts) == self._expected and self._tokens:
            self._packed = pack(np.concatenate(self._tokens))
            self._tokens.clear()

    def passage(self) -> Passage:
        """The whole, when all parts are there."""
        return Passage(parts=self._parts, tokens=self._packed)
