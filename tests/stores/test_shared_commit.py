"""Writes that share a commit: what one of them raises is its own."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from memproxy.errors import RequestError
from memproxy.stores.sqlite_file import SharedWork, SqliteFile
from memproxy.tasks import TaskOwner


@pytest.mark.parametrize("error", [RequestError("not this one"), KeyError("a mistake of ours")])
async def test_a_write_that_fails_takes_no_other_with_it(tmp_path: Path, error: Exception) -> None:
    file = SqliteFile(tmp_path / "state.db", sync="normal")
    await file.open()
    works = SharedWork(file, TaskOwner("test"))

    def fails(db: sqlite3.Connection) -> int:
        db.execute("INSERT INTO meta VALUES ('b', '2')")
        raise error

    told = await asyncio.gather(
        works.add(lambda db: db.execute("INSERT INTO meta VALUES ('a', '1')").rowcount),
        works.add(fails),
        works.add(lambda db: db.execute("INSERT INTO meta VALUES ('c', '3')").rowcount),
        return_exceptions=True,
    )
    assert list(told) == [1, error, 1]
    written = await file.read(lambda db: db.execute("SELECT key FROM meta WHERE key IN ('a', 'b', 'c')").fetchall())
    assert sorted(written) == [("a",), ("c",)]
    await file.close()
