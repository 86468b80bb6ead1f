"""Working memory of one user with very many keys: ``python -m tests.bench.working [--keys 1000000] [--state sqlite]``.

The state is filled in namespaces of fifty, then each call is timed, and beside the long ones the longest write of
another user. ``--state postgres`` starts a server of its own (the package `pgserver`), or takes ``--postgres URL``;
``--state redis`` starts one, too, and writes all keys one by one.
"""

import asyncio
import contextlib
import json
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import psycopg
import typer

from memproxy.api.working import READ_AT_ONCE
from memproxy.core.scope import Scope
from memproxy.core.working_memory import WorkingEntry, WorkingPage, words_of
from memproxy.ports import WorkingStore
from memproxy.stores.postgres_state import PostgresState
from memproxy.stores.postgres_state_database import SCHEMA
from memproxy.stores.redis_working import RedisWorking
from memproxy.stores.sqlite_state import SqliteState
from memproxy.wiring.cache import OwnersColumns
from tests.support.opening import opening
from tests.support.postgres import databases
from tests.support.redis import connected, redis_process

ANN, BEN = (Scope(tenant="bench", user=user) for user in ("ann", "ben"))
NAMESPACE = 50
AT_ONCE = 50
PATIENCE_S = 10.0
"""A busy machine takes longer than Redis is waited for; here nothing is to be done without."""
WRITTEN = 2_000
"""Keys that are written one by one in SQL; the others are copies of the first, made by a statement."""
YEAR = timedelta(days=365)


def entry(key: str, at: datetime, *, data: bytes = b'{"n": 1}', life: timedelta = timedelta(days=1)) -> WorkingEntry:
    """An entry that was written then."""
    words = words_of(key, None, [], "one")
    return WorkingEntry(
        key=key, created_at=at, updated_at=at, expires_at=at + life, size=len(data), data=data, words=words
    )


Multiply = Callable[[int, int], None]
"""Writes the keys of these numbers by a statement."""


class Entries(WorkingStore, Protocol):
    """Working memory, and its erasure with its user."""

    async def forget(self, scope: Scope, *, session: str | None) -> Any:
        """As `OwnerStore.forget`."""


class InRedis(RedisWorking):
    """Working memory in Redis, erased as `learn.index` does it."""

    async def forget(self, scope: Scope, *, session: str | None) -> None:
        await self.forget_working(scope, session)


async def pages(state: Entries, prefix: str, at: datetime) -> list[WorkingEntry]:
    """All entries of a prefix, as a search with a filter reads them."""
    found: list[WorkingEntry] = []
    page = WorkingPage(after=("", ""))
    while page.after is not None:
        page = await state.working_page(ANN, prefix, at, after=page.after, most=READ_AT_ONCE)
        found += page.entries
    return found


class Timed:
    """Times calls, in milliseconds, and keeps what they took."""

    def __init__(self, state: Entries, at: datetime) -> None:
        self.figures: dict[str, float] = {}
        self._state = state
        self._at = at

    async def call(self, what: str, work: Awaitable[Any], *, beside: bool = False) -> Any:
        """Time a call; ``beside``: and the longest write of another user meanwhile."""
        other = asyncio.get_running_loop().create_task(self._write_beside(what)) if beside else None
        began = time.perf_counter()
        result = await work
        self._note(what, time.perf_counter() - began)
        if other is not None:
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)
        return result

    async def _write_beside(self, what: str) -> None:
        """One that is still waiting when the call is over counts as long as it has waited."""
        longest, number, began = 0.0, 0, 0.0
        try:
            while True:
                began = time.perf_counter()
                await self._state.put_working(BEN, entry(f"run/b{number}/x", self._at), most=NAMESPACE)
                longest, number, began = max(longest, time.perf_counter() - began), number + 1, 0.0
                await asyncio.sleep(0.005)
        finally:
            self._note(
                f"{what}: longest write of another user", max(longest, time.perf_counter() - began if began else 0)
            )

    def _note(self, what: str, seconds: float) -> None:
        self.figures[what] = round(seconds * 1000, 2)
        typer.echo(f"{what:70} {seconds * 1000:12,.2f} ms")


async def measure(state: Entries, keys: int, multiply: Multiply | None) -> dict[str, float]:
    """Fill it, and time every call."""
    now = datetime.now(UTC)
    timed = Timed(state, now)
    began, written = time.perf_counter(), min(keys, WRITTEN) if multiply else keys
    for start in range(0, written, AT_ONCE):
        names = [f"run/r{number // NAMESPACE}/k{number}" for number in range(start, min(start + AT_ONCE, written))]
        at = now + timedelta(microseconds=start)
        await asyncio.gather(*(state.put_working(ANN, entry(name, at), most=NAMESPACE) for name in names))
    timed.figures["keys a second"] = round(written / (time.perf_counter() - began))
    typer.echo(f"{written:,} keys, {timed.figures['keys a second']:,.0f} a second")
    if multiply is not None:
        await asyncio.to_thread(multiply, written, keys)
    full, large = "run/r0/one-more", entry("big/one/x", now, data=json.dumps("x" * 1_000_000).encode())
    assert await timed.call("write into a full namespace", state.put_working(ANN, entry(full, now), most=50)) is None
    assert await timed.call("write a new key", state.put_working(ANN, entry("a/b/c", now), most=50)) is True
    assert await timed.call("replace a key", state.put_working(ANN, entry("a/b/c", now), most=50)) is False
    assert await timed.call("write a megabyte", state.put_working(ANN, large, most=50)) is True
    assert await timed.call("read one", state.working(ANN, "run/r0/k7", now)) is not None
    assert await timed.call("read a megabyte", state.working(ANN, "big/one/x", now)) is not None
    assert await timed.call("read none", state.working(ANN, "run/r0/none", now)) is None
    assert await timed.call("delete one", state.drop_working(ANN, "a/b/c", now)) is True
    assert len(await timed.call("list a namespace", pages(state, "run/r0/", now))) == min(50, keys)
    first = state.working_page(ANN, "", now, after=None, most=51)
    assert len((await timed.call("the first page of 50", first)).entries) == min(51, keys + 1)
    middle = state.working_page(ANN, "run/", now, after=(f"run/r{keys // NAMESPACE // 2}/", ""), most=51)
    await timed.call("a page of 50 in the middle", middle)
    newest = state.newest_working(ANN, now, words=True, most=2_000)
    assert len(await timed.call("the newest 2,000, to search them", newest, beside=True)) == min(2_000, keys + 1)
    listed = pages(state, "run/", now)
    assert len(await timed.call("all, in pages of 1,000", listed, beside=True)) == keys
    back = await timed.call("read after the clock went back a year", state.working(ANN, "run/r0/k7", now - YEAR))
    assert back is not None
    gone = await timed.call("read after it went a year ahead", state.working(ANN, "run/r0/k7", now + YEAR))
    assert gone is None
    half = state.sweep_working(now + timedelta(days=1, microseconds=keys // 2))
    await timed.call("sweep half of them", half, beside=True)
    await timed.call("erase the user", state.forget(ANN, session=None), beside=True)
    assert await pages(state, "", now) == []
    return timed.figures


_COPY = """
INSERT INTO working SELECT tenant, {user}, 'run/r' || (n / {namespace}) || '/k' || n, project,
    'run/r' || (n / {namespace}), created_at, updated_at + n * {micro}, expires_at + n * {micro}, size, head, words,
    data
FROM {numbers}, (SELECT * FROM working WHERE name = 'run/r0/k0') AS first
"""
"""Writes keys like the first one, from one number to another: as many as a program would write in an hour."""


def multiply_sqlite(path: Path, first: int, end: int) -> None:
    """Write the keys of these numbers."""
    up = f"WITH RECURSIVE up(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM up WHERE n + 1 < {end})"
    numbers = f"({up} SELECT n FROM up)"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        if first < end:
            db.execute(_COPY.format(user="user", namespace=NAMESPACE, micro=1, numbers=numbers))


def multiply_postgres(url: str, first: int, end: int) -> None:
    numbers = f"generate_series({first}::bigint, {end - 1}::bigint) AS up(n)"
    with psycopg.connect(url) as db:
        db.execute(f"SET search_path TO {SCHEMA}")
        db.execute(_COPY.format(user="user_id", namespace=NAMESPACE, micro="interval '1 microsecond'", numbers=numbers))
        db.execute("ANALYZE working")  # as the server does by itself while rows come one by one


@contextlib.asynccontextmanager
async def opened(kind: str, url: str | None) -> AsyncIterator[tuple[Entries, Multiply | None]]:
    """A new state, and what multiplies the keys in it."""
    if kind == "redis":
        async with _in_redis() as entries:
            yield entries, None
        return
    with contextlib.ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        state: SqliteState | PostgresState
        multiply: Multiply
        if kind == "sqlite":
            state = SqliteState(folder / "state.db", sync="normal")
            multiply = partial(multiply_sqlite, folder / "state.db")
        else:
            url = url or held.enter_context(databases()).new()
            state = PostgresState(url, folder / "spill", sync="normal")
            multiply = partial(multiply_postgres, url)
        async with opening(state):
            yield state, multiply


@contextlib.asynccontextmanager
async def _in_redis() -> AsyncIterator[InRedis]:
    with contextlib.ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        redis = held.enter_context(redis_process())
        async with (
            opening(SqliteState(folder / "state.db", sync="normal")) as state,
            connected(redis.url, "bench", patience_s=PATIENCE_S) as server,
        ):
            yield InRedis(server, state, OwnersColumns(state))
            typer.echo(f"{(await server.client.info('memory'))['used_memory_peak'] / 1e6:,.0f} MB at most")


def main(
    keys: Annotated[int, typer.Option(min=1)] = 1_000_000,
    state: Annotated[Literal["sqlite", "postgres", "redis"], typer.Option()] = "sqlite",
    postgres: Annotated[str | None, typer.Option(help="postgresql://… of an empty database.")] = None,
    out: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    """Measure, print the figures, write them where ``--json`` says."""

    async def run() -> dict[str, float]:
        async with opened(state, postgres) as (store, multiply):
            return await measure(store, keys, multiply)

    figures = asyncio.run(run())
    if out is not None:
        out.write_text(json.dumps({"state": state, "keys": keys, "figures": figures}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    typer.run(main)
