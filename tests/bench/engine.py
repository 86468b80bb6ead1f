"""Recall inside of the engine, without a server around it: ``python -m tests.bench.engine``.

Memories of a made-up world (short and long turns, every tenth a fact) go straight into an embedded store in a temporary
folder, with vectors of the texts and of their tokens that are drawn, not computed; what is measured is `Recall.recall`
by the default recipe, from the question to the block. With ``--model-path`` the questions are embedded by a model, and
its share of each time is told apart; with ``--lexical`` nothing is embedded.

All questions are asked twice: first while nobody has an index in memory, so that the engine answers, then of users who
were searched just before (docs/decisions/0026).
"""

import asyncio
import json
import math
import re
import sys
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.protocol import RecallRequest
from memproxy.core.scope import Scope
from memproxy.core.vectors import pack
from memproxy.evals.output import progress
from memproxy.evals.throwaway import temporary_folder
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.embedding import Floats, NoEmbedder
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Embedder, HybridQuery, MemoryStore, Passage, Point, Question
from memproxy.recall.documents import bm25_text
from memproxy.recall.pipeline import Recall
from memproxy.settings import EmbeddingSettings, RecallSettings, Settings
from memproxy.stores.edge import INDEX_BYTES, EdgeStore
from memproxy.stores.owner_index import SEARCHES
from memproxy.wiring.engine_parts import SystemClock
from tests.bench import payloads
from tests.bench.figures import Times
from tests.bench.plan import Population
from tests.support.model import ready
from tests.support.opening import opening

DIMENSION = 384
CLUSTERS = 200
"""Topics that the drawn vectors lie around: real ones are no even cloud."""

SESSION_TURNS = 20
_BATCH = 1_000
WARMUP = 20
_MOST_ASKED = 20
"""Users who ask."""

_BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
_DEADLINE_MS = 60_000
_STANDARD = tuple(Population(memories=size, users=users) for size in (10_000, 100_000) for users in (1, 10))
_FULL = tuple(
    Population(memories=size, users=users)
    for size in (1_000, 10_000, 100_000, 1_000_000)
    for users in (1, 10, 1_000)
    if users < size
)
"""All users of a population are one tenant's."""

_NOISE_ROWS = 5_000
"""Rows drawn once and used again with other centres: drawing all would take longer than storing them."""

_WORD = re.compile(r"[a-z]+")


class Drawn:
    """`ports.Embedder` that draws a vector for each text, near one of `CLUSTERS` centres, and one for each word, nearly
    the same wherever the word stands.
    """

    name = "drawn"
    state = "ready"
    dimension = DIMENSION

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        self._centres = self._random.standard_normal((CLUSTERS, DIMENSION), np.float32)
        self._noise = self._random.standard_normal((_NOISE_ROWS, DIMENSION), np.float32)

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to release."""

    async def embed_question(self, text: str) -> Question:
        """One drawn vector, and those of the words."""
        tokens, words = self.tokens(text)
        return Question(vector=self.draw(len(text), 1)[0], tokens=tokens, words=words)

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        """One drawn vector for each text, and those of its words."""
        return [
            Passage(parts=self.draw(place, 1), tokens=pack(self.tokens(text)[0])) for place, text in enumerate(texts)
        ]

    def tokens(self, text: str) -> tuple[Floats, list[str]]:
        """A unit vector for each word, and the words."""
        words = _WORD.findall(text.lower())
        drawn = self._random.integers(_NOISE_ROWS, size=len(words))
        own = [zlib.crc32(word.encode()) % _NOISE_ROWS for word in words]
        rows = self._noise[own] + np.float32(0.4) * self._noise[drawn]
        return rows / np.sqrt((rows * rows).sum(axis=1, keepdims=True)), words

    def draw(self, topic: int, parts: int) -> list[list[float]]:
        """So many unit vectors of one topic."""
        drawn = self._random.integers(_NOISE_ROWS, size=parts)
        rows = np.float32(0.6) * self._centres[topic % CLUSTERS] + self._noise[drawn]
        rows /= np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        result: list[list[float]] = rows.tolist()
        return result


class EngineRow(msgspec.Struct, frozen=True, kw_only=True):
    """Recall in one population, from the question to the block: ``recall`` without the time of the stage ``embed``,
    ``with_embedding`` with it (None: the vectors were drawn), ``cold`` as ``recall`` of users who have no index in
    memory, and the medians of all stages, in milliseconds (``look`` of general questions, which end there). ``cpu_ms``
    and ``cold_cpu_ms`` are processor milliseconds of a recall, in the mean; ``build_s`` what it took to make the
    indexes, and ``index_bytes`` about what they take.
    """

    memories: int
    users: int
    recall: Times
    cold: Times
    with_embedding: Times | None
    stages: dict[str, float]
    cpu_ms: float
    cold_cpu_ms: float
    build_s: float
    index_bytes: int


class Asked(msgspec.Struct):
    """The stages' milliseconds of each answer, and processor milliseconds of one in the mean."""

    answers: list[dict[str, float]]
    cpu_ms: float

    def without_embedding(self) -> Times:
        return Times.of([timings["recall"] - timings["embed"] for timings in self.answers])


def _memories(user: str, first: int, count: int) -> Iterator[Memory]:
    for number in range(first, first + count):
        at = _BEGINNING + timedelta(minutes=number)
        text = payloads.fact(number)
        owned: dict[str, Any] = {"tenant": "bench", "user_id": user, "created_at": at, "updated_at": at}
        session = f"s{number // SESSION_TURNS}"
        if number % 10 == 9:
            yield Memory(id=f"f{number}", kind=Kind.SEMANTIC, content=text, session_id=session, **owned)
            continue
        long = number % 4 == 1
        yield Memory(
            id=f"t{number}",
            kind=Kind.TURN,
            content=f"{text} {payloads.FILLER * (1 + number % 7)}" if long else text,
            session_id=session,
            trust=Trust.USER if number % 2 else Trust.ASSISTANT,
            turn_ids=[f"t{number}"],
            metadata={"role": "user" if number % 2 else "assistant", "seq": number % SESSION_TURNS},
            **owned,
        )


async def fill(
    store: MemoryStore, population: Population, embedder: Drawn, console: Console, *, most_s: float = math.inf
) -> int:
    """Put the population in, one user after another; after ``most_s`` seconds no further one. Answers how many memories
    are in.
    """
    ends, done = time.perf_counter() + most_s, 0
    lexical, each = Bm25Encoder(), population.memories // population.users
    with progress(console, f"{population.memories:,} memories in", population.memories) as step:
        for user in range(population.users):
            if time.perf_counter() > ends:
                break
            scope, points = Scope(tenant="bench", user=f"u{user}"), list[Point]()
            for memory in _memories(scope.user, user * each, each):
                dense = embedder.draw(len(points), 1 + len(memory.content) // 900)
                bm25 = lexical.encode_document(bm25_text(memory, None, None))
                packed = pack(embedder.tokens(memory.content)[0])
                points.append(Point(memory=memory, dense=dense, bm25=bm25, tokens=packed))
            for start in range(0, len(points), _BATCH):
                await store.upsert(scope, points[start : start + _BATCH])
            step(each)
            done += each
    await store.optimize()
    return done


async def measure(
    population: Population, questions: int, console: Console, *, model_path: Path | None = None, lexical: bool = False
) -> EngineRow:
    """Fill a throw-away store with the population and ask so many questions, of at most twenty of its users. With
    ``lexical`` they are searched by words alone.

    Raises:
        ConfigError, EmbedderUnavailable: the model cannot be loaded.
    """
    drawn = Drawn()
    default = NoEmbedder(DIMENSION) if lexical else drawn
    with tempfile.TemporaryDirectory(prefix="memproxy-bench-", dir=temporary_folder()) as folder:
        path = Path(folder, "store")
        async with _open(path, drawn, 0) as store:
            await fill(store, population, drawn, console)
        # an embedder of its own for each pass: it keeps the vectors of questions that it was asked
        async with _open(path, drawn, 0) as store, _embedder(model_path, Path(folder, "model")) as embedder:
            cold = await ask_all(recall_over(store, embedder or default), population, questions)
        async with _open(path, drawn, INDEX_BYTES) as store, _embedder(model_path, Path(folder, "model")) as embedder:
            recall = recall_over(store, embedder or default)
            build_s = await _indexed(store, population, drawn)
            warm = await ask_all(recall, population, questions)
            general = await ask_all(recall, population, questions, of=_general)
            index_bytes = store.index_bytes
    names = sorted({name for timings in warm.answers for name in timings})
    times = {name: Times.of([timings.get(name, 0.0) for timings in warm.answers]) for name in names}
    times["look"] = Times.of([timings["look"] for timings in general.answers])
    return EngineRow(
        memories=population.memories,
        users=population.users,
        recall=warm.without_embedding(),
        cold=cold.without_embedding(),
        with_embedding=None if model_path is None else times["recall"],
        stages={name: some.p50_ms for name, some in times.items()},
        cpu_ms=warm.cpu_ms,
        cold_cpu_ms=cold.cpu_ms,
        build_s=build_s,
        index_bytes=index_bytes,
    )


def _open(path: Path, drawn: Drawn, index_bytes: int) -> AbstractAsyncContextManager[EdgeStore]:
    store = EdgeStore(path, dimension=DIMENSION, embedder_name=drawn.name, lull_s=0, index_bytes=index_bytes)
    return opening(store, None)


async def _indexed(store: EdgeStore, population: Population, drawn: Drawn) -> float:
    """Search for each user who will be asked until there is an index, where one fits; answers the seconds it took."""
    begin = time.perf_counter()
    for user in range(min(_MOST_ASKED, population.users)):
        for _ in range(SEARCHES):
            query = HybridQuery(dense=drawn.draw(user, 1)[0], limit=1)
            await store.search(Scope(tenant="bench", user=f"u{user}"), query)
    await store.settle()
    return time.perf_counter() - begin


@asynccontextmanager
async def _embedder(model_path: Path | None, cache: Path) -> AsyncIterator[FastembedEmbedder | None]:
    """The model, loaded; None without a path."""
    if model_path is None:
        yield None
        return
    settings = EmbeddingSettings(model_path=str(model_path), token_vectors=True)
    async with ready(FastembedEmbedder(settings, cache)) as embedder:
        yield embedder


def recall_over(store: MemoryStore, embedder: Embedder) -> Recall:
    settings = Settings(recall=RecallSettings(deadline_ms=_DEADLINE_MS))
    return Recall(settings=settings, store=store, embedder=embedder, lexical=Bm25Encoder(), clock=SystemClock())


def _general(number: int) -> str:
    return f"What is the capital of country number {number}, and how many people live there?"


async def ask_all(
    recall: Recall, population: Population, questions: int, *, of: Callable[[int], str] | None = None
) -> Asked:
    """Questions of several users; ``recall`` in their stages is all of it, as its caller sees it. ``of`` makes
    questions that look general, in place of those about the memories.
    """
    answers: list[dict[str, float]] = []
    each, spent = population.memories // population.users, 0.0
    for place in range(questions + WARMUP):
        user = place % min(_MOST_ASKED, population.users)
        number = user * each + place * 37 % each
        text = payloads.question(number) if of is None else of(number)
        scope = Scope(tenant="bench", user=f"u{user}")
        begin, begun = time.perf_counter(), time.process_time()
        answer = await recall.recall(
            RecallRequest(request_id="bench", scope=scope, queries=[text], nonce="0" * 12, only_if_told=of is not None)
        )
        if place >= WARMUP:
            spent += time.process_time() - begun
            answers.append({**answer.timings, "recall": (time.perf_counter() - begin) * 1000})
    return Asked(answers=answers, cpu_ms=spent * 1000 / max(1, questions))


def main(
    *,
    full: Annotated[bool, typer.Option("--full", help="From 1,000 to 1,000,000 memories, to 1,000 users.")] = False,
    most: Annotated[int, typer.Option(min=1_000, help="No population of more memories than this.")] = 1_000_000,
    questions: Annotated[int, typer.Option(min=1, help="Questions for each population.")] = 400,
    model_path: Annotated[
        Path | None,
        typer.Option(help="Folder of an ONNX embedding model of 384 dimensions: the questions are embedded by it."),
    ] = None,
    lexical: Annotated[bool, typer.Option("--lexical", help="By words alone.")] = False,
    out: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
) -> None:
    """Measure recall in the engine, embedding excluded and included, by how many memories the tenant has."""
    console = Console(stderr=True)
    populations = [one for one in (_FULL if full else _STANDARD) if one.memories <= most]
    rows = [
        asyncio.run(measure(one, questions, console, model_path=model_path, lexical=lexical)) for one in populations
    ]
    Console(width=None if sys.stdout.isatty() else 160).print(_table(rows))
    if out is not None:
        out.write_text(json.dumps(msgspec.to_builtins(rows), indent=2))


_STAGES = ("embed", "search", "look", "rank", "assemble")


def _table(rows: Sequence[EngineRow]) -> Table:
    heads = ("memories", "users", "p50 / p95 / p99", "cold", "processor, cold", "with embedding", *_STAGES, "index")
    table = Table(*heads, title="recall, milliseconds")
    for row in rows:
        stages = (f"{row.stages.get(name, 0.0):.2f}" for name in _STAGES)
        times = (_shown(row.recall), _shown(row.cold), f"{row.cpu_ms:.2f}, {row.cold_cpu_ms:.2f}")
        index = f"{row.index_bytes / 1e6:.0f} MB in {row.build_s:.1f} s"
        table.add_row(f"{row.memories:,}", f"{row.users:,}", *times, _shown(row.with_embedding), *stages, index)
    return table


def _shown(times: Times | None) -> str:
    return "" if times is None else f"{times.p50_ms:.2f} / {times.p95_ms:.2f} / {times.p99_ms:.2f}"


if __name__ == "__main__":
    typer.run(main)
