"""Flushes that are shared by all who wait."""

import asyncio
from pathlib import Path

import pytest

from memproxy.errors import RequestError, StoreUnavailable
from memproxy.stores.sqlite_file import SqliteDatabase, SqliteFile
from memproxy.stores.state_part import Db
from memproxy.stores.thread import OwnThread, SharedFlush
from memproxy.tasks import Lull, TaskOwner


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


async def test_callers_that_wait_for_a_running_flush_share_the_next_one() -> None:
    disk = Disk()
    shared = SharedFlush(disk.flush, Lull(0, 0))
    loop = asyncio.get_running_loop()
    first = loop.create_task(shared.flush())
    while disk.begun == 0:
        await asyncio.sleep(0)
    waiting = [loop.create_task(shared.flush()) for _ in range(20)]
    await asyncio.sleep(0)
    disk.may_end.set()
    await asyncio.gather(first, *waiting)
    assert disk.begun == 2
    await shared.close()


async def test_each_caller_gets_a_flush_that_began_after_its_call() -> None:
    disk = Disk()
    disk.may_end.set()
    shared = SharedFlush(disk.flush, Lull(0, 0))
    for count in range(1, 4):
        await shared.flush()
        assert disk.begun == count
    await shared.close()


async def test_a_flush_that_failed_is_nobody_elses_success() -> None:
    disk = Disk()
    disk.fails = True
    disk.may_end.set()
    shared = SharedFlush(disk.flush, Lull(0, 0))
    results = await asyncio.gather(*(shared.flush() for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, StoreUnavailable) for result in results)
    await shared.close()


async def test_a_flush_waits_while_searches_run_and_begins_when_they_pause() -> None:
    disk = Disk()
    disk.may_end.set()
    lull = Lull(0.01, 60)
    shared = SharedFlush(disk.flush, lull)
    with lull.used():
        waiting = asyncio.get_running_loop().create_task(shared.flush())
        await asyncio.wait([waiting], timeout=0.1)
        assert disk.begun == 0
    await waiting
    assert disk.begun == 1
    await shared.close()


async def test_a_flush_does_not_wait_for_searches_for_ever() -> None:
    disk = Disk()
    disk.may_end.set()
    lull = Lull(60, 0.01)
    shared = SharedFlush(disk.flush, lull)
    with lull.used():
        await shared.flush()
    assert disk.begun == 1
    await shared.close()


async def test_a_flush_that_somebody_waits_for_hurries_however_much_is_searched() -> None:
    disk = Disk()
    disk.may_end.set()
    lull = Lull(60, 60)
    shared = SharedFlush(disk.flush, lull)
    with lull.used():
        waiting = asyncio.get_running_loop().create_task(shared.flush())
        await asyncio.wait([waiting], timeout=0.05)
        assert disk.begun == 0
        lull.hurry()
        await waiting
    assert disk.begun == 1
    await shared.close()


@pytest.mark.parametrize("error", [RequestError("not this one"), KeyError("a mistake of ours")])
async def test_a_write_that_fails_takes_no_other_with_it(tmp_path: Path, error: Exception) -> None:
    file = SqliteFile(tmp_path / "state.db", sync="normal")
    await file.open()
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
    await file.close()
