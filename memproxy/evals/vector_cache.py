"""Vectors kept on disk between evaluations, so that only the first run pays for the embedding model.

What is kept is the embedding of stored texts. Queries are always embedded anew: what that takes is one of the figures.
"""

import asyncio
import hashlib
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from memproxy.errors import ConfigError
from memproxy.models.dimensions import DEFAULT as DIMENSION
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.embedding import NoEmbedder
from memproxy.ports import Embedder, Passage, Question
from memproxy.settings import EmbeddingSettings
from memproxy.settings.home import home_dir

_SCHEMA_VERSION = 1
_BATCH = 64
"""Texts embedded and stored in one go: what a stopped run loses at most."""

_MOST_VARIABLES = 500
"""Keys asked for in one statement; SQLite takes at least 999."""

_READY_POLL_S = 0.02

_PROBE = " ".join(
    f"The quick brown fox number {place} jumps over the lazy dog, sleeping in a box." for place in range(60)
)
"""Long enough for several parts."""


class VectorCache:
    """A SQLite file of vectors by key; several processes may use it at once. Blocking.

    A row is ``key`` (32 bytes), the number of ``parts`` and ``data``, their vectors as consecutive float32; in the
    second table ``data`` are the packed vectors of the tokens (`core.vectors`, whose format is in them).
    """

    def __init__(self, folder: Path) -> None:
        folder = folder.expanduser()
        path = folder / f"vectors-{_SCHEMA_VERSION}.db"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            with self._connection:
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, parts INTEGER, data BLOB) WITHOUT ROWID"
                )
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS tokens (key BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID"
                )
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"--cache {folder} cannot be used ({error}); name a folder that can be written"
            ) from error

    def close(self) -> None:
        self._connection.close()

    def known(self, keys: Sequence[bytes]) -> dict[bytes, Passage]:
        rows = self._rows("SELECT key, parts, vectors.data, tokens.data FROM vectors JOIN tokens USING (key)", keys)
        return {
            key: Passage(parts=np.frombuffer(data, np.float32).reshape(parts, -1).tolist(), tokens=tokens)
            for key, parts, data, tokens in rows
        }

    def missing(self, keys: Sequence[bytes]) -> set[bytes]:
        return set(keys).difference(
            key for (key,) in self._rows("SELECT key FROM vectors JOIN tokens USING (key)", keys)
        )

    def _rows(self, select: str, keys: Sequence[bytes]) -> Iterator[Any]:
        for start in range(0, len(keys), _MOST_VARIABLES):
            batch = keys[start : start + _MOST_VARIABLES]
            yield from self._connection.execute(f"{select} WHERE key IN ({','.join('?' * len(batch))})", batch)

    def add(self, passages: Iterable[tuple[bytes, Passage]]) -> None:
        encoded = list(passages)
        rows = [(key, len(passage.parts), np.asarray(passage.parts, np.float32).tobytes()) for key, passage in encoded]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            self._connection.executemany(
                "INSERT OR REPLACE INTO tokens VALUES (?, ?)", [(key, passage.tokens) for key, passage in encoded]
            )


class CachedEmbedder:
    """`ports.Embedder` in front of another one: texts from the cache where they are there, queries always anew.

    A key stands for the text and the model: its name, and what it makes of a probe, so that other files under the same
    name, or another way of cutting long texts into parts, are another model.
    """

    def __init__(self, inner: Embedder, cache: VectorCache) -> None:
        self._inner = inner
        self._cache = cache
        self._lock = asyncio.Lock()
        self._model = b""
        self._query_ms: dict[str, float] = {}
        self._spent_ms = 0.0
        self._cost_ms = 0.0

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dimension(self) -> int | None:
        return self._inner.dimension

    @property
    def state(self) -> str:
        return self._inner.state

    async def start(self) -> None:
        """Load the model and wait for it: there is nothing to measure before.

        Raises:
            ConfigError: it cannot be loaded.
        """
        await until_ready(self._inner)
        (probed,) = await self._inner.embed_passages([_PROBE])
        probe = np.asarray(probed.parts).round(2) + 0.0
        self._model = hashlib.blake2b(self.name.encode() + probe.astype(np.float32).tobytes()).digest()

    async def close(self) -> None:
        await self._inner.close()

    def key(self, text: str) -> bytes:
        """What the text's vectors are kept under."""
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32, key=self._model).digest()

    async def embed_question(self, text: str) -> Question:
        start = time.perf_counter()
        question = await self._inner.embed_question(text)
        spent = (time.perf_counter() - start) * 1000
        self._spent_ms += spent
        self._cost_ms += self._query_ms.setdefault(text, spent)
        return question

    def meter(self) -> tuple[float, float]:
        """Milliseconds since the last call that embedding queries took, and would have taken without memory of
        earlier ones (the same question is asked of several recipes).
        """
        spent = self._spent_ms, self._cost_ms
        self._spent_ms = self._cost_ms = 0.0
        return spent

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        keys = [self.key(text) for text in texts]
        async with self._lock:
            stored = await asyncio.to_thread(self._cache.known, keys)
        absent = {key: text for key, text in zip(keys, texts, strict=True) if key not in stored}
        if absent:
            encoded = dict(zip(absent, await self._inner.embed_passages(list(absent.values())), strict=True))
            async with self._lock:
                await asyncio.to_thread(self._cache.add, encoded.items())
            stored |= encoded
        return [stored[key] for key in keys]

    async def missing(self, texts: Iterable[str]) -> list[str]:
        """Those texts that are not in the cache, each once, short ones first: texts of one length make good batches."""
        keys = {self.key(text): text for text in texts}
        absent = await asyncio.to_thread(self._cache.missing, list(keys))
        return sorted((keys[key] for key in absent), key=lambda text: (len(text), text))

    async def fill(self, texts: Sequence[str], by: Embedder, step: Callable[[int], None]) -> None:
        """Embed texts with ``by`` (the same model, for bulk work) into the cache; ``step`` hears of characters done."""
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            passages = await by.embed_passages(batch)
            await asyncio.to_thread(self._cache.add, list(zip(map(self.key, batch), passages, strict=True)))
            step(sum(map(len, batch)))


async def until_ready(embedder: Embedder) -> None:
    """Start an embedder and wait until its model is there.

    Raises:
        ConfigError: it cannot be loaded.
    """
    await embedder.start()
    while embedder.state == "loading":  # noqa: ASYNC110 - the port has a state and no event
        await asyncio.sleep(_READY_POLL_S)
    if embedder.state != "ready":
        raise ConfigError(
            f"the embedding model is {embedder.state}; name its folder with --model-path, or evaluate with --lexical"
        )


def local_model(model_path: Path | None, *, threads: int | None = None) -> FastembedEmbedder:
    """The product's model with these files (None: those that fastembed fetches)."""
    chosen = {} if threads is None else {"threads": threads}
    return FastembedEmbedder(
        EmbeddingSettings(model_path=model_path, token_vectors=True, **chosen), home_dir() / "models"
    )


@asynccontextmanager
async def opened_embedder(model_path: Path | None, cache: Path) -> AsyncIterator[Embedder]:
    """The model of these files with its cache, closed afterwards; None: by words alone."""
    if model_path is None:
        yield NoEmbedder(DIMENSION)
        return
    async with opened_model(model_path, cache) as embedder:
        yield embedder


@asynccontextmanager
async def opened_model(
    model_path: Path | None, cache: Path, *, threads: int | None = None
) -> AsyncIterator[CachedEmbedder]:
    """As `local_model`, with its cache, closed afterwards."""
    vectors = VectorCache(cache)
    embedder = CachedEmbedder(local_model(model_path, threads=threads), vectors)
    try:
        await embedder.start()
        yield embedder
    finally:
        await embedder.close()
        vectors.close()
