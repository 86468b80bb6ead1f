"""The stores side by side, in one run: ``python -m tests.bench.stores --qdrant own --postgres own``.

Each is given the same made-up memories of a thousand users, and asked the same questions of twenty of them: from the
question to the block, without a model (`tests.bench.engine`). Then their nearest vectors are asked for, and how many of
the ten nearest are among ten found: where a user has so many that an index nominates, that is the price of it
(``--users 1``). With ``--locomo FILE`` and ``--model-path`` LoCoMo is recalled through each of them too.

A server is one that runs (its address; what is written is removed again), or ``own``: one that is started here, whose
memory and files are measured as well.
"""

import asyncio
import contextlib
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import httpx
import msgspec
import numpy as np
import psutil
import psycopg
import typer
from psycopg import sql
from rich.console import Console

from memproxy.core.scope import Scope
from memproxy.evals import locomo
from memproxy.evals.retrieval import run, texts_of
from memproxy.evals.scoring import Outcome, turn_recall
from memproxy.evals.throwaway import settings_for, temporary_folder, throwaway_memory
from memproxy.evals.vector_cache import CachedEmbedder, VectorCache, local_model, until_ready
from memproxy.ports import HybridQuery, MemoryStore
from memproxy.settings import Settings
from memproxy.stores.edge import EdgeStore
from memproxy.stores.postgres import PostgresStore
from memproxy.stores.qdrant import QdrantStore
from tests.bench.engine import DIMENSION, WARMUP, Drawn, ask_all, fill, recall_over
from tests.bench.figures import Times
from tests.bench.plan import Population
from tests.support.postgres import postgres_server
from tests.support.qdrant import qdrant_server

Make = Callable[[str, Path], MemoryStore]
"""A store for vectors of this embedder, in a folder where it has files of its own."""


OWN = "own"


class Server(msgspec.Struct, frozen=True):
    """Where a server is; of one of our own, its files and its first process as well."""

    url: str
    files: Path | None = None
    process: int | None = None

    def memory_mb(self) -> float | None:
        """Megabytes of its processes, pages that they share counted once."""
        if self.process is None:
            return None
        first = psutil.Process(self.process)
        return sum(one.memory_full_info().pss for one in (first, *first.children(recursive=True))) / 1e6

    def cpu_s(self) -> float:
        """Seconds of processor time of its processes so far; those that have ended are not counted."""
        if self.process is None:
            return 0.0
        first = psutil.Process(self.process)
        return sum(sum(one.cpu_times()[:2]) for one in (first, *first.children(recursive=True)))


@contextlib.contextmanager
def served(
    qdrant: str | None, postgres: str | None, folder: Path | None
) -> Iterator[tuple[Server | None, Server | None]]:
    """The servers, started where they are to be our own."""
    with contextlib.ExitStack() as stack:
        of_qdrant = Server(qdrant) if qdrant else None
        if qdrant == OWN:
            own = stack.enter_context(qdrant_server(folder))
            own.stop()
            own.grpc_port = own.port + 1  # where the store looks for it
            own.start()
            assert own.process is not None
            of_qdrant = Server(own.url, own.folder / "storage", own.process.pid)
        of_postgres = Server(postgres) if postgres else None
        if postgres == OWN:
            database = stack.enter_context(postgres_server())
            database.stop("fast")
            database.start(fsync="on")
            files = database.folder / "data" / "base"  # its log is as long as it is set to be
            of_postgres = Server(database.database(), files, database.first_process())
        yield of_qdrant, of_postgres


class Places:
    """The stores that are compared, each with a collection of its own."""

    def __init__(self, qdrant: str | None, postgres: str | None, *, rest_too: bool, exact_too: bool) -> None:
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

        if postgres is not None and exact_too:
            self.stores["postgres exact"] = lambda name, _: PostgresStore(
                url=postgres,
                collection=self.collection,
                dimension=DIMENSION,
                embedder_name=name,
                exact_up_to=sys.maxsize,
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


async def measure(
    make: Make,
    population: Population,
    questions: int,
    console: Console,
    *,
    most_s: float = math.inf,
    folder: Path | None = None,
    server: Server | None = None,
) -> dict[str, Any]:
    """Put the population in, for ``most_s`` seconds at most, and ask."""
    drawn = Drawn()
    with tempfile.TemporaryDirectory(prefix="memproxy-bench-", dir=folder or temporary_folder()) as here:
        own = Server("", Path(here), os.getpid()) if server is None else server
        before_mb = own.memory_mb() or 0.0
        store = make(drawn.name, Path(here))
        await store.open(None)
        try:
            began, begun, theirs = time.perf_counter(), time.process_time(), own.cpu_s()
            held = await fill(store, population, drawn, console, most_s=most_s)
            seconds, spent = time.perf_counter() - began, time.process_time() - begun
            theirs = own.cpu_s() - theirs
            settling = time.perf_counter()
            await _settled(store)
            settling = time.perf_counter() - settling
            recall = recall_over(store, drawn)
            asking = own.cpu_s()
            asked = await ask_all(recall, population, questions)
            asking = own.cpu_s() - asking
            nearest = await _nearest(store, drawn)
            memory_mb = own.memory_mb()
        finally:
            await store.close()
        files = own.files.rglob("*") if own.files is not None else ()
        disk = sum(_size(path) for path in files)
    times = Times.of([one["recall"] for one in asked.answers])
    searches = Times.of([one["search"] for one in asked.answers])
    return {
        "memories": held,
        "users": held * population.users // population.memories,
        "p50_ms": round(times.p50_ms, 2),
        "p95_ms": round(times.p95_ms, 2),
        "search_p50_ms": round(searches.p50_ms, 2),
        "cpu_ms": round(asked.cpu_ms, 2),
        "server_cpu_ms": None if server is None else round(asking * 1000 / (questions + WARMUP), 2),
        "ingest_per_s": round(held / seconds),
        "ingest_cpu_ms": round(spent * 1000 / held, 3),
        "server_ingest_cpu_ms": None if server is None else round(theirs * 1000 / held, 3),
        "settled_s": round(settling, 1),
        "disk_mb": round(disk / 1e6, 1) or None,
        "memory_mb": None if memory_mb is None else round(memory_mb),
        "memory_before_mb": round(before_mb),
        **nearest,
    }


_SETTLED_S = 600.0


async def _settled(store: MemoryStore) -> None:
    """Wait until a Qdrant server has sorted what was written, which takes its processor; `_SETTLED_S` at most."""
    if not isinstance(store, QdrantStore) or store.collection is None:
        return
    ends = time.perf_counter() + _SETTLED_S
    while (await store.collection.information()).status != "green" and time.perf_counter() < ends:
        await asyncio.sleep(1)


def _size(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512 if path.is_file() else 0
    except FileNotFoundError:  # a server goes on to work on its files
        return 0


_ASKED_NEAREST = 60


async def _nearest(store: MemoryStore, drawn: Drawn) -> dict[str, Any]:
    """How long the ten nearest vectors of a user take, and which share of the really nearest is found."""
    scope, owners, parts = Scope(tenant="bench", user="u0"), list[str](), list[np.ndarray[Any, np.dtype[np.float32]]]()
    cursor = None
    while True:
        page = await store.point_page(scope, limit=1000, cursor=cursor)
        owners += [point.memory.id for point in page.points for _ in point.dense]
        parts += [np.array(part, np.float32) for point in page.points for part in point.dense]
        if (cursor := page.next_cursor) is None:
            break
    vectors = np.array(parts)
    took, shares = [], []
    for number in range(_ASKED_NEAREST):
        asked = drawn.draw(number * 7, 1)[0]
        scores: dict[str, float] = {}
        for name, score in zip(owners, (vectors @ np.array(asked, np.float32)).tolist(), strict=True):
            scores[name] = max(score, scores.get(name, -1.0))
        best = set(sorted(scores, key=lambda name: -scores[name])[:10])
        begin = time.perf_counter()
        found = await store.search(scope, HybridQuery(dense=asked, limit=10))
        took.append((time.perf_counter() - begin) * 1000)
        shares.append(len(best & {one.memory.id for one in found}) / 10)
    times = Times.of(took)
    return {
        "nearest_p50_ms": round(times.p50_ms, 2),
        "nearest_p95_ms": round(times.p95_ms, 2),
        "nearest_found": round(sum(shares) / len(shares), 3),
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
    qdrant: Annotated[str | None, typer.Option(help="Address of a Qdrant server without a key, or `own`.")] = None,
    postgres: Annotated[str | None, typer.Option(help="postgresql://… of a database with pgvector, or `own`.")] = None,
    rest_too: Annotated[bool, typer.Option("--rest", help="Qdrant by REST as well.")] = False,
    exact_too: Annotated[bool, typer.Option("--exact", help="PostgreSQL without an index of vectors as well.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="These stores alone.")] = None,
    memories: Annotated[list[int] | None, typer.Option(help="How many; 0: none.")] = None,
    users: Annotated[int, typer.Option(min=1, help="Of how many users.")] = 1000,
    most_minutes: Annotated[float, typer.Option(help="Put memories in for so long.")] = math.inf,
    questions: Annotated[int, typer.Option(min=1)] = 200,
    folder: Annotated[Path | None, typer.Option(help="Where the files of stores are; default: main memory.")] = None,
    data: Annotated[Path | None, typer.Option("--locomo", help="A LoCoMo file; needs --model-path.")] = None,
    model_path: Annotated[Path | None, typer.Option(help="Folder of an ONNX embedding model.")] = None,
    cache: Annotated[Path, typer.Option(help="Where embedded texts are kept.")] = Path("~/.cache/memproxy/eval"),
) -> None:
    """Compare the stores; a line of JSON for each figure."""
    console = Console(stderr=True)
    there = list(Places("", "", rest_too=rest_too, exact_too=exact_too).stores)
    if unknown := set(only or ()) - set(there):
        raise typer.BadParameter(f"no store is called {', '.join(sorted(unknown))}; there are {', '.join(there)}")

    def each(work: Callable[[Make, Server | None], Coroutine[Any, Any, dict[str, Any]]]) -> None:
        # each store has fresh servers, so that nobody measures what another one left
        for name in only or there:
            wanted = (qdrant if "qdrant" in name else None, postgres if "postgres" in name else None)
            if not any(wanted) and name != "edge":
                continue
            with served(*wanted, folder) as servers:
                urls = [None if one is None else one.url for one in servers]
                places = Places(*urls, rest_too=rest_too, exact_too=exact_too)
                try:
                    figures = asyncio.run(work(places.stores[name], servers[0] or servers[1]))
                finally:
                    places.remove()
            typer.echo(json.dumps({"store": name, **figures}))

    for count in memories or [10_000, 100_000]:
        population = Population(memories=count, users=max(1, min(users, count)))

        async def filled(make: Make, server: Server | None, population: Population = population) -> dict[str, Any]:
            most_s = most_minutes * 60
            return await measure(make, population, questions, console, most_s=most_s, folder=folder, server=server)

        if count:
            each(filled)
    if data is not None and model_path is not None:
        each(lambda make, _: of_locomo(make, data, model_path, cache.expanduser(), console))


if __name__ == "__main__":
    typer.run(main)
