"""Redis with very many keys: ``python -m tests.bench.redis_keys [--keys 1000000]``, on a server of its own.

Half of them count limits, a quarter are hot memories, a quarter working memory, each written as the proxy writes it.
Printed are the bytes of a key of each kind, how many of all keys have no end, and how soon names whose time is over are
gone. Then sessions begin with their stable facts, over memories in PostgreSQL: with facts that Redis keeps and without,
in turn, and where the store is away.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import typer
from rich.console import Console

from memproxy.core.changes import ChangeNotices
from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.core.scope import Scope
from memproxy.core.working_memory import WorkingEntry, words_of
from memproxy.errors import CacheUnavailable
from memproxy.evals.output import progress
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import STORE_ID, Charge
from memproxy.recall.hot import Hot
from memproxy.recall.pipeline import Recall
from memproxy.settings import RecallSettings, Settings
from memproxy.stores.postgres import PostgresStore
from memproxy.stores.redis_server import RedisServer
from memproxy.stores.redis_uses import RedisHot, RedisUses
from memproxy.stores.redis_working import RedisWorking
from memproxy.stores.sqlite_state import SqliteState
from memproxy.wiring.cache import OwnersColumns
from memproxy.wiring.engine_parts import SystemClock
from tests.bench import payloads
from tests.bench.engine import DIMENSION, Drawn, fill
from tests.bench.figures import Times
from tests.bench.plan import Population
from tests.bench.stores import Server
from tests.support.postgres import postgres_server
from tests.support.redis import redis_process
from tests.support.waiting import eventually

AT_ONCE = 16
WINDOWS = ("chat_per_minute", "turns_per_minute", "model_tokens_per_hour")
HOT_EACH, NAMESPACE = 20, 50
PATIENCE_S = 10.0
"""A busy machine takes longer than requests wait for Redis; here nothing is to be done without."""

LIFE_S = 3600
GONE_S = 900
"""To look at a million keys takes a busy machine minutes."""

SHORT = 300
"""Names of each kind whose time is short."""


class Kinds:
    """Writes keys of the three kinds, each name's time so many seconds."""

    def __init__(self, server: RedisServer, state: SqliteState, life_s: int) -> None:
        columns = OwnersColumns(state)
        self._life_s = life_s
        self._uses = RedisUses(server, state)
        self._hot = RedisHot(server, state, columns, ttl_s=life_s)
        self._working = RedisWorking(server, state, columns)

    async def ready(self) -> bool:
        """Whether it is known which hot memories are good: a busy machine's state may tell too late, once or twice."""
        try:
            await self._hot.generation(("bench", "nobody"))
        except CacheUnavailable:
            return False
        return True

    async def limits(self, number: int) -> None:
        """Three keys."""
        charges = [Charge(tenant="bench", user=f"u{number}", what=what, seconds=self._life_s) for what in WINDOWS]
        assert await self._uses.spend(charges, datetime.now(UTC)) is None

    async def hot(self, number: int) -> None:
        """Four keys: the generation, the places, the memories and their order."""
        owner, at = ("bench", f"u{number}"), datetime.now(UTC)
        kept = [
            Memory(
                id=f"m{place}",
                tenant=owner[0],
                user_id=owner[1],
                kind=Kind.SEMANTIC,
                content=payloads.fact(number * HOT_EACH + place),
                created_at=at,
                updated_at=at,
            )
            for place in range(HOT_EACH)
        ]
        scored = [(1 / (1 + place), one) for place, one in enumerate(kept)]
        assert await self._hot.write(owner, (None, None), scored, await self._hot.generation(owner))

    async def working(self, number: int) -> None:
        """A key of its own, and a part of its user's sets."""
        at, user = datetime.now(UTC), number // NAMESPACE
        key = f"run/r0/k{number % NAMESPACE}"
        entry = WorkingEntry(
            key=key,
            created_at=at,
            updated_at=at,
            expires_at=at + timedelta(seconds=self._life_s),
            size=8,
            data=b'{"n": 1}',
            words=words_of(key, None, [], "one"),
        )
        assert await self._working.put_working(Scope(tenant="bench", user=f"w{user}"), entry, most=NAMESPACE)


async def each(numbers: Iterable[int], work: Callable[[int], Awaitable[None]], step: Callable[[int], None]) -> None:
    """Do it for all numbers, some at once."""
    waiting = iter(numbers)

    async def go_on() -> None:
        for number in waiting:
            await work(number)
            step(1)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(go_on())


async def keys_of(url: str, keys: int, folder: Path, console: Console) -> dict[str, Any]:
    """Fill the server, and look at what is there."""

    async def installation() -> str:
        return "bench"

    state = SqliteState(folder / "state.db", sync="normal")
    await state.open()
    await state.set_meta(STORE_ID, uuid4().hex)
    server = RedisServer(url, installation, patience_s=PATIENCE_S)
    await server.start(PATIENCE_S)
    try:
        kinds, figures = Kinds(server, state, LIFE_S), dict[str, Any]()
        client, before = server.client, await _used(server.client)
        await eventually(kinds.ready, PATIENCE_S, what="the state tells")
        for name, work, count in (
            ("limits", kinds.limits, keys // 2 // len(WINDOWS)),
            ("hot", kinds.hot, keys // 4 // 4),
            ("working", kinds.working, keys // 4),
        ):
            there, begun = int(await client.dbsize()), time.perf_counter()
            with progress(console, f"{name}: {count:,} written", count) as step:
                await each(range(count), work, step)
            seconds, made, used = time.perf_counter() - begun, int(await client.dbsize()) - there, await _used(client)
            figures[name] = {
                "written": count,
                "keys": made,
                "bytes each written": round((used - before) / count),
                "bytes a key": round((used - before) / made),
                "written in a second": round(count / seconds),
            }
            before = used
        figures["keys"] = int(await client.dbsize())
        figures["MB"] = round(before / 1e6, 1)
        figures["MB resident"] = round((await client.info("memory"))["used_memory_rss"] / 1e6, 1)
        figures["keys without an end"] = await _endless(client)
        short = Kinds(server, state, 1)
        await eventually(short.ready, PATIENCE_S, what="the state tells")
        for work in (short.limits, short.hot, short.working):  # others than those that are there
            await each(range(keys, keys + SHORT), work, lambda _: None)
        begun = time.perf_counter()
        figures["keys whose time is a second"] = int(await client.dbsize()) - figures["keys"]

        async def gone() -> bool:
            await _endless(client)  # Redis removes them when they are looked at; else it comes to them in its own time
            return bool(await client.dbsize() <= figures["keys"])

        await eventually(gone, GONE_S, what="names whose time is over are gone")
        figures["s until they are gone"] = round(time.perf_counter() - begun, 1)
        return figures
    finally:
        await server.close()
        await state.close()


async def _used(client: Any) -> int:
    return int((await client.info("memory"))["used_memory"])


async def _endless(client: Any) -> int:
    """How many keys never go by themselves."""
    found = cursor = 0
    while True:
        cursor, names = await client.scan(cursor, count=1000)
        pipeline = client.pipeline(transaction=False)
        for name in names:
            pipeline.pttl(name)
        found += sum(int(left) == -1 for left in await pipeline.execute())
        if not cursor:
            return found


async def recalls(url: str, postgres: Server, users: int, each_has: int, rounds: int, folder: Path) -> dict[str, Any]:
    """First requests of sessions with and without what Redis keeps, in turn, and those whose store is away."""
    console, drawn = Console(stderr=True), Drawn()
    settings = Settings(recall=RecallSettings(deadline_ms=60_000, first_turn_facts=8))
    state = SqliteState(folder / "state.db", sync="normal")
    await state.open()
    store = PostgresStore(url=postgres.url, collection="hot", dimension=DIMENSION, embedder_name=drawn.name)
    await store.open(None)
    await fill(store, Population(memories=users * each_has, users=users), drawn, console)

    async def installation() -> str:
        return "recalls"

    server = RedisServer(url, installation, patience_s=PATIENCE_S)
    await server.start(PATIENCE_S)
    clock = SystemClock()
    kept = RedisHot(server, state, OwnersColumns(state), ttl_s=LIFE_S)
    hot = Hot(kept, store=store, settings=settings, clock=clock, changes=ChangeNotices())
    parts: dict[str, Any] = {"settings": settings, "embedder": drawn, "lexical": Bm25Encoder(), "clock": clock}
    without, with_hot = Recall(store=store, **parts), Recall(store=store, hot=hot, **parts)
    scopes = [Scope(tenant="bench", user=f"u{user}") for user in range(users)]
    for scope in scopes:
        hot.refresh_later(scope)

        async def is_kept(scope: Scope = scope) -> bool:
            return bool(await hot.memories(scope))

        await eventually(is_kept, 60, what="hot memories are kept")
    asked: dict[str, Callable[[RecallRequest], Awaitable[RecallAnswer]]] = {
        "without": without.recall,
        "with": with_hot.recall,
        "store away": with_hot.without_store,
    }
    took: dict[str, list[float]] = {name: [] for name in asked}
    facts: dict[str, list[float]] = {name: [] for name in asked}
    ours, theirs = dict.fromkeys(asked, 0.0), dict.fromkeys(asked, 0.0)
    results: dict[str, set[str]] = {name: set() for name in asked}
    for number in range(rounds):
        for name, ask in asked.items():
            cpu, server_cpu = time.process_time(), postgres.cpu_s()
            for place, scope in enumerate(scopes):
                question = payloads.question(place * each_has + number * 37 % each_has)
                request = RecallRequest(
                    request_id="bench", scope=scope, queries=[question], nonce="0" * 12, first_turn=True
                )
                begun = time.perf_counter()
                answer = await ask(request)
                took[name].append((time.perf_counter() - begun) * 1000)
                facts[name].append(answer.timings.get("first_turn", 0.0))
                results[name].add(f"{answer.result}{f' ({answer.reason})' if answer.reason else ''}")
            ours[name] += time.process_time() - cpu
            theirs[name] += postgres.cpu_s() - server_cpu
    await hot.close()
    await server.close()
    await store.close()
    await state.close()
    found: dict[str, Any] = {}
    for name in asked:
        count = len(took[name])
        found[name] = {
            "recall": msgspec.to_builtins(Times.of(took[name])),
            "its facts, p50 ms": round(Times.of(facts[name]).p50_ms, 2),
            "processor ms, ours": round(ours[name] * 1000 / count, 2),
            "processor ms, PostgreSQL": round(theirs[name] * 1000 / count, 2),
            "results": sorted(results[name]),
        }
    spent = {name: ours[name] + theirs[name] for name in asked}
    found["processor time, without : with"] = round(spent["without"] / spent["with"], 2)
    found["p50, without : with"] = round(Times.of(took["without"]).p50_ms / Times.of(took["with"]).p50_ms, 2)
    return found


def main(
    *,
    keys: Annotated[int, typer.Option(min=0, help="In all; 0: none.")] = 1_000_000,
    users: Annotated[int, typer.Option(min=0, help="Who begin sessions; 0: nobody.")] = 20,
    memories: Annotated[int, typer.Option(min=1, help="Of each of them.")] = 500,
    rounds: Annotated[int, typer.Option(min=1, help="Sessions of each.")] = 10,
) -> None:
    """Measure, and print a line of JSON for each part."""
    console = Console(stderr=True)
    with ExitStack() as held:
        redis = held.enter_context(redis_process())
        folders = [Path(held.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        if users:
            database = held.enter_context(postgres_server())
            postgres = Server(database.database(), None, database.first_process())
            measured = recalls(redis.url, postgres, users, memories, rounds, folders[0])
            typer.echo(json.dumps({"recalls": asyncio.run(measured)}))
        if keys:
            typer.echo(json.dumps({"keys": asyncio.run(keys_of(redis.url, keys, folders[1], console))}))


if __name__ == "__main__":
    typer.run(main)
