"""Flushes that are shared by all who wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from memproxy.errors import RequestError, StoreUnavailable
from memproxy.stores.sqlite_file import SqliteDatabase, SqliteFile
from memproxy.stores.state_part import Db
from memproxy.stores.thread import OwnThread, SharedFlush
from memproxy.tasks import Lull, TaskOwner
from tests.support.opening import opening


class Disk:
    """Counts flushes; each ends when the test lets it."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()
        self.fails = False

    async def flush(self, _thread: OwnThread) -> None:
        self.begun += 1
        await self.may_end.wait()
        if self.fails:
            raise StoreUnavailable("The disk is full.")


@asynccontextmanager
async def sharing(lull: Lull | None = None) -> AsyncIterator[tuple[Disk, SharedFlush]]:
    """A disk whose flushes end at once, and what shares them."""
    disk = Disk()
    disk.may_end.set()
    shared = SharedFlush(disk.flush, lull or Lull(0, 0))
    yield disk, shared
    await shared.close()


async def test_callers_that_wait_for_a_running_flush_share_the_next_one() -> None:
    async with sharing() as (disk, shared):
        disk.may_end.clear()
        loop = asyncio.get_running_loop()
        first = loop.create_task(shared.flush())
        while disk.begun == 0:
            await asyncio.sleep(0)
        waiting = [loop.create_task(shared.flush()) for _ in range(20)]
        await asyncio.sleep(0)
        disk.may_end.set()
        await asyncio.gather(first, *waiting)
        assert disk.begun == 2


async def test_each_caller_gets_a_flush_that_began_after_its_call() -> None:
    async with sharing() as (disk, shared):
        for count in range(1, 4):
            await shared.flush()
            assert disk.begun == count


async def test_a_flush_that_failed_is_nobody_elses_success() -> None:
    async with sharing() as (disk, shared):
        disk.fails = True
        results = await asyncio.gather(*(shared.flush() for _ in range(3)), return_exceptions=True)
        assert all(isinstance(result, StoreUnavailable) for result in results)


@pytest.mark.parametrize("hurries", [False, True])
async def test_a_flush_waits_while_searches_run_until_they_pause_or_somebody_waits_for_it(*, hurries: bool) -> None:
    lull = Lull(60 if hurries else 0.01, 60)
    async with sharing(lull) as (disk, shared):
        with lull.used():
            waiting = asyncio.get_running_loop().create_task(shared.flush())
            await asyncio.wait([waiting], timeout=0.05 if hurries else 0.1)
            assert disk.begun == 0
            if hurries:
                lull.hurry()
                await waiting
        await waiting
        assert disk.begun == 1


async def test_a_flush_does_not_wait_for_searches_for_ever() -> None:
    lull = Lull(60, 0.01)
    async with sharing(lull) as (disk, shared):
        with lull.used():
            await shared.flush()
        assert disk.begun == 1


@pytest.mark.parametrize("error", [RequestError("not this one"), KeyError("a mistake of ours")])
async def test_a_write_that_fails_takes_no_other_with_it(tmp_path: Path, error: Exception) -> None:
    async with opening(SqliteFile(tmp_path / "state.db", sync="normal")) as file:
        database = SqliteDatabase(file, TaskOwner("test"))

        async def fails(db: Db) -> int:
            await db.run("INSERT INTO meta VALUES ('b', '2')")
            raise error

        told = await asyncio.gather(
            database.write(lambda db: db.run("INSERT INTO meta VALUES ('a', '1')")),
            database.write(fails),
            database.write(lambda db: db.run("INSERT INTO meta VALUES ('c', '3')")),
            return_exceptions=True,
        )
        assert list(told) == [1, error, 1]
        written = await file.read(lambda db: db.execute("SELECT key FROM meta WHERE key IN ('a', 'b', 'c')").fetchall())
        assert sorted(written) == [("a",), ("c",)]
