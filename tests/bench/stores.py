"""The stores side by side, in one run: ``python -m tests.bench.stores --qdrant http://127.0.0.1:6333 --postgres URL``.

Each is given the same made-up memories of a thousand users, and asked the same questions of twenty of them: from the
question to the block, without a model (`tests.bench.engine`). With ``--locomo FILE`` and ``--model-path`` LoCoMo is
recalled through each of them too. What is written is removed again. The disk and the memory of a server are
looked at by hand: only who runs it knows where they are.
"""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import httpx
import psycopg
import typer
from psycopg import sql
from rich.console import Console

from memproxy.evals import locomo
from memproxy.evals.retrieval import run, texts_of
from memproxy.evals.scoring import Outcome, turn_recall
from memproxy.evals.throwaway import settings_for, temporary_folder, throwaway_memory
from memproxy.evals.vector_cache import CachedEmbedder, VectorCache, local_model, until_ready
from memproxy.ports import MemoryStore
from memproxy.settings import Settings
from memproxy.stores.edge import EdgeStore
from memproxy.stores.postgres import PostgresStore
from memproxy.stores.qdrant import QdrantStore
from tests.bench.engine import DIMENSION, Drawn, ask_all, fill, recall_over
from tests.bench.figures import Times
from tests.bench.plan import Population

Make = Callable[[str, Path], MemoryStore]
"""A store for vectors of this embedder, in a folder where it has files of its own."""


class Places:
    """The stores that are compared, each with a collection of its own."""

    def __init__(self, qdrant: str | None, postgres: str | None, *, rest_too: bool) -> None:
        self.collection = f"bench_{uuid4().hex[:12]}"
        self._qdrant, self._postgres = qdrant, postgres
        self.stores: dict[str, Make] = {
            "edge": lambda name, path: EdgeStore(path / "store", dimension=DIMENSION, embedder_name=name, lull_s=0)
        }
        if qdrant is not None:
            self.stores["qdrant"] = lambda name, _: self._of_qdrant(name, grpc_port=None)
        if qdrant is not None and rest_too:
            self.stores["qdrant by REST"] = lambda name, _: self._of_qdrant(name, grpc_port=0)
        if postgres is not None:
            self.stores["postgres"] = lambda name, _: PostgresStore(
                url=postgres, collection=self.collection, dimension=DIMENSION, embedder_name=name
            )

    def _of_qdrant(self, name: str, grpc_port: int | None) -> QdrantStore:
        return QdrantStore(
            url=self._qdrant,
            api_key=None,
            collection=self.collection,
            dimension=DIMENSION,
            embedder_name=name,
            grpc_port=grpc_port,
        )

    def remove(self) -> None:
        """Remove the collection from the servers."""
        if self._qdrant is not None:
            httpx.delete(f"{self._qdrant}/collections/{self.collection}", timeout=60)
        if self._postgres is not None:
            with contextlib.suppress(psycopg.errors.UndefinedTable), psycopg.connect(self._postgres) as connection:
                for end in ("parts", "points"):
                    table = sql.Identifier(f"{self.collection}_{end}")
                    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
                connection.execute("DELETE FROM memproxy_collections WHERE name = %s", [self.collection])


async def measure(make: Make, population: Population, questions: int, console: Console) -> dict[str, Any]:
    """Put the population in, and ask."""
    drawn = Drawn()
    with tempfile.TemporaryDirectory(prefix="memproxy-bench-", dir=temporary_folder()) as folder:
        store = make(drawn.name, Path(folder))
        await store.open(None)
        try:
            began, begun = time.perf_counter(), time.process_time()
            await fill(store, population, drawn, console)
            seconds, spent = time.perf_counter() - began, time.process_time() - begun
            asked = await ask_all(recall_over(store, drawn), population, questions)
        finally:
            await store.close()
        disk = sum(path.stat().st_blocks * 512 for path in Path(folder).rglob("*") if path.is_file())
    times = Times.of([one["recall"] for one in asked.answers])
    searches = Times.of([one["search"] for one in asked.answers])
    return {
        "memories": population.memories,
        "users": population.users,
        "p50_ms": round(times.p50_ms, 2),
        "p95_ms": round(times.p95_ms, 2),
        "search_p50_ms": round(searches.p50_ms, 2),
        "cpu_ms": round(asked.cpu_ms, 2),
        "ingest_per_s": round(population.memories / seconds),
        "ingest_cpu_ms": round(spent * 1000 / population.memories, 3),
        "disk_mb": round(disk / 1e6, 1) or None,
    }


async def of_locomo(make: Make, data: Path, model_path: Path, cache: Path, console: Console) -> dict[str, Any]:
    """Recall of LoCoMo's gold turns through a store."""
    dataset = locomo.load_dataset(data, pooled=False)
    vectors = VectorCache(cache)
    embedder = CachedEmbedder(local_model(model_path, threads=1), vectors)
    try:
        await embedder.start()
        if missing := await embedder.missing(texts_of(dataset)):
            bulk = local_model(model_path, threads=2)
            await until_ready(bulk)
            await embedder.fill(missing, bulk, lambda _: None)
            await bulk.close()
        with tempfile.TemporaryDirectory(dir=temporary_folder()) as folder:
            store = make(embedder.name, Path(folder))
            settings = settings_for(Settings(), "off")
            async with throwaway_memory(settings, embedder, ["default"], other_store=store) as memory:
                outcomes = (await run(memory, dataset, ["default"], console))["default"]
    finally:
        await embedder.close()
        vectors.close()
    scored = [one for one in outcomes if one.question.scored]
    found: dict[str, Any] = {"questions": len(scored)}
    return found | {f"turn@{k}": round(_share(scored, k), 4) for k in (5, 10)}


def _share(outcomes: list[Outcome], k: int) -> float:
    parts = [turn_recall(k)(one) for one in outcomes]
    return sum(part for part, _ in parts) / sum(whole for _, whole in parts)


def main(
    *,
    qdrant: Annotated[str | None, typer.Option(help="Address of a Qdrant server; no key.")] = None,
    postgres: Annotated[str | None, typer.Option(help="postgresql://… of a database with pgvector.")] = None,
    rest_too: Annotated[bool, typer.Option("--rest", help="Qdrant by REST as well.")] = False,
    memories: Annotated[list[int] | None, typer.Option(help="How many, of a thousand users; 0: none.")] = None,
    questions: Annotated[int, typer.Option(min=1)] = 200,
    data: Annotated[Path | None, typer.Option("--locomo", help="A LoCoMo file; needs --model-path.")] = None,
    model_path: Annotated[Path | None, typer.Option(help="Folder of an ONNX embedding model.")] = None,
    cache: Annotated[Path, typer.Option(help="Where embedded texts are kept.")] = Path("~/.cache/memproxy/eval"),
) -> None:
    """Compare the stores; a line of JSON for each figure."""
    console = Console(stderr=True)

    def told(store: str, figures: dict[str, Any]) -> None:
        typer.echo(json.dumps({"store": store, **figures}))

    for count in memories or [10_000, 100_000]:
        for name in Places(qdrant, postgres, rest_too=rest_too).stores if count else ():
            places = Places(qdrant, postgres, rest_too=rest_too)
            try:
                population = Population(memories=count, users=min(1000, count))
                told(name, asyncio.run(measure(places.stores[name], population, questions, console)))
            finally:
                places.remove()
    if data is not None and model_path is not None:
        for name in Places(qdrant, postgres, rest_too=rest_too).stores:
            places = Places(qdrant, postgres, rest_too=rest_too)
            try:
                told(name, asyncio.run(of_locomo(places.stores[name], data, model_path, cache.expanduser(), console)))
            finally:
                places.remove()


if __name__ == "__main__":
    typer.run(main)
