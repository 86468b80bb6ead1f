"""Recall inside of the engine, without a server around it: ``python -m memproxy.evals.bench.engine``.

Memories of a made-up world (short and long turns, every tenth a fact) go straight into an embedded store in a temporary
folder, with vectors that are drawn, not computed; what is measured is `Recall.recall`, from the question to the block.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
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
from memproxy.evals.bench import payloads
from memproxy.evals.bench.figures import Times
from memproxy.evals.bench.plan import Population
from memproxy.evals.local import temporary_folder
from memproxy.evals.progress import progress
from memproxy.models.lexical import Bm25Encoder
from memproxy.models.plain import WithoutTokens
from memproxy.ports import Point
from memproxy.recall.documents import bm25_text
from memproxy.recall.pipeline import Recall
from memproxy.settings import RecallSettings, Settings
from memproxy.stores.edge import EdgeStore
from memproxy.wiring.engine import SystemClock

DIMENSION = 384
CLUSTERS = 200
"""Topics that the drawn vectors lie around: real ones are no even cloud."""

SESSION_TURNS = 20
_BATCH = 1_000
_WARMUP = 20
_BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
_DEADLINE_MS = 60_000
_EACH = (1_000, 10_000, 100_000)
_FULL = 1_000_000
_USERS = (1, 10, 1_000)


class Drawn(WithoutTokens):
    """`ports.Embedder` that draws a vector for each text, near one of `CLUSTERS` centres."""

    name = "drawn"
    state = "ready"
    dimension = DIMENSION

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        self._centres = self._random.normal(size=(CLUSTERS, DIMENSION))

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to release."""

    async def embed_query(self, text: str) -> list[float]:
        """One drawn vector."""
        return self.draw(len(text), 1)[0]

    async def embed_texts(self, texts: Sequence[str]) -> list[list[list[float]]]:
        """One drawn vector for each text."""
        return [self.draw(place, 1) for place, _ in enumerate(texts)]

    def draw(self, topic: int, parts: int) -> list[list[float]]:
        """So many unit vectors of one topic."""
        rows = 0.6 * self._centres[topic % CLUSTERS] + self._random.normal(size=(parts, DIMENSION))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        result: list[list[float]] = rows.astype(np.float32).tolist()
        return result


class EngineRow(msgspec.Struct, frozen=True, kw_only=True):
    """Recall in one population: from the question to the block, and its stages' medians, in milliseconds."""

    memories: int
    users: int
    recall: Times
    stages: dict[str, float]


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


async def _fill(store: EdgeStore, population: Population, embedder: Drawn, console: Console) -> None:
    lexical, each = Bm25Encoder(), population.memories // population.users
    with progress(console, f"{population.memories:,} memories in", population.memories) as step:
        for user in range(population.users):
            scope, points = Scope(tenant="bench", user=f"u{user}"), list[Point]()
            for memory in _memories(scope.user, user * each, each):
                dense = embedder.draw(len(points), 1 + len(memory.content) // 900)
                bm25 = lexical.encode_document(bm25_text(memory, None, None))
                points.append(Point(memory=memory, dense=dense, bm25=bm25))
            for start in range(0, len(points), _BATCH):
                await store.upsert(scope, points[start : start + _BATCH])
            step(each)
    await store.optimize()


async def measure(population: Population, questions: int, console: Console) -> EngineRow:
    """Fill a throw-away store with the population and ask so many questions, of at most twenty of its users."""
    embedder, each = Drawn(), population.memories // population.users
    settings = Settings(recall=RecallSettings(deadline_ms=_DEADLINE_MS))
    with tempfile.TemporaryDirectory(prefix="memproxy-bench-", dir=temporary_folder()) as folder:
        store = EdgeStore(Path(folder, "store"), dimension=DIMENSION, embedder_name=embedder.name, lull_s=0)
        await store.open(None)
        try:
            await _fill(store, population, embedder, console)
            lexical, clock = Bm25Encoder(), SystemClock()
            recall = Recall(settings=settings, store=store, embedder=embedder, lexical=lexical, clock=clock)
            times, stages = await _asked(recall, population, each, questions)
        finally:
            await store.close()
    medians = {name: Times.of(some).p50_ms for name, some in stages.items()}
    return EngineRow(memories=population.memories, users=population.users, recall=Times.of(times), stages=medians)


async def _asked(
    recall: Recall, population: Population, each: int, questions: int
) -> tuple[list[float], dict[str, list[float]]]:
    times: list[float] = []
    stages: dict[str, list[float]] = {}
    for place in range(questions + _WARMUP):
        user = place % min(20, population.users)
        text = payloads.question(user * each + place * 37 % each)
        scope = Scope(tenant="bench", user=f"u{user}")
        begin = time.perf_counter()
        answer = await recall.recall(RecallRequest(request_id="bench", scope=scope, queries=[text], nonce="0" * 12))
        if place >= _WARMUP:
            times.append((time.perf_counter() - begin) * 1000)
            for name, milliseconds in answer.timings.items():
                stages.setdefault(name, []).append(milliseconds)
    return times, stages


def main(
    *,
    full: Annotated[bool, typer.Option("--full", help="Also 1,000,000 memories.")] = False,
    most: Annotated[int, typer.Option(min=1_000, help="No population of more memories than this.")] = _FULL,
    questions: Annotated[int, typer.Option(min=1, help="Questions for each population.")] = 400,
    out: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
) -> None:
    """Measure recall in the engine, embedding excluded, by how many memories there are and of how many users."""
    console = Console(stderr=True)
    sizes = [size for size in (*_EACH, *([_FULL] if full else [])) if size <= most]
    populations = [Population(memories=size, users=users) for size in sizes for users in _USERS if users < size]
    rows = [asyncio.run(measure(population, questions, console)) for population in populations]
    table = Table("memories", "users", "p50 ms", "p95 ms", "p99 ms", "search", "rank", "assemble", title="recall")
    for row in rows:
        shown = (row.recall.p50_ms, row.recall.p95_ms, row.recall.p99_ms)
        parts = (row.stages.get(name, 0.0) for name in ("search", "rank", "assemble"))
        table.add_row(f"{row.memories:,}", f"{row.users:,}", *(f"{one:.2f}" for one in (*shown, *parts)))
    Console().print(table)
    if out is not None:
        out.write_text(json.dumps(msgspec.to_builtins(rows), indent=2))


if __name__ == "__main__":
    typer.run(main)
