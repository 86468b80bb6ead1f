"""Reads on the caller's own thread: they see every commit, wait for nobody, and tell trouble as any other read."""

import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memproxy.errors import StateUnavailable
from memproxy.stores.sqlite_file import SqliteFile
from tests.support.opening import opening


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[SqliteFile]:
    async with opening(SqliteFile(tmp_path / "state.db", sync="normal")) as opened:
        yield opened


def facts(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT key, value FROM meta WHERE key IN ('a', 'b')").fetchall())


async def test_it_sees_what_another_connection_committed_also_an_erasure(file: SqliteFile) -> None:
    await file.write(lambda db: db.execute("INSERT INTO meta VALUES ('a', '1')"))
    assert await file.glance(facts) == {"a": "1"}
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("DELETE FROM meta WHERE key = 'a'")
    other.close()
    assert await file.glance(facts) == {}


async def test_it_runs_on_the_callers_thread_and_does_not_wait_for_one_who_writes(file: SqliteFile) -> None:
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO meta VALUES ('b', '2')")
    assert await file.glance(lambda db: (threading.get_ident(), facts(db))) == (threading.get_ident(), {})
    other.execute("COMMIT")
    other.close()
    assert await file.glance(facts) == {"b": "2"}


async def test_it_cannot_write(file: SqliteFile) -> None:
    db = file._glances
    assert db is not None
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("INSERT INTO meta VALUES ('a', '1')")


async def test_after_trouble_the_files_own_thread_reads(file: SqliteFile) -> None:
    threads: list[int] = []

    def broken_at_first(_db: sqlite3.Connection) -> None:
        threads.append(threading.get_ident())
        if len(threads) == 1:
            raise sqlite3.OperationalError("disk I/O error")

    await file.glance(broken_at_first)
    await file.glance(broken_at_first)
    assert threads[0] == threading.get_ident()
    assert threading.get_ident() not in threads[1:]


async def test_a_file_that_was_replaced_or_is_not_open_is_told(file: SqliteFile, tmp_path: Path) -> None:
    with pytest.raises(StateUnavailable, match="not open"):
        await SqliteFile(tmp_path / "other.db", sync="normal").glance(facts)
    copy = tmp_path / "copy"
    copy.write_bytes(file.path.read_bytes())
    copy.replace(file.path)
    with pytest.raises(StateUnavailable, match="replaced"):
        await file.glance(facts)
