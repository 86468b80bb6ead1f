"""Beside a process that holds the file and does not let go."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memproxy.errors import StateUnavailable
from memproxy.stores.sqlite_file import SqliteFile
from memproxy.tasks import TaskOwner


def write(file: SqliteFile) -> "asyncio.Task[object]":
    return TaskOwner("test").start(file.write(lambda db: db.execute("INSERT INTO meta VALUES ('a', '1')")), "write")


async def test_who_found_it_held_does_not_wait_as_long_again_although_it_can_be_read(tmp_path: Path) -> None:
    """As long as one waits who has not found it held yet; twelve wait in a queue, each behind the other's wait."""
    first, later = (SqliteFile(tmp_path / "state.db", sync="normal") for _ in range(2))
    await first.open()
    await later.open()
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        first._held_up.add("write")  # it has waited in vain
        patient = write(later)
        assert await first.read(lambda db: db.execute("SELECT 1").fetchone()) == (1,)
        for failed in [write(first) for _ in range(12)]:
            with pytest.raises(StateUnavailable, match="another process holds it"):
                await failed
        assert not patient.done()
        other.execute("ROLLBACK")
    await patient
    assert first._held_up == {"write"}
    await first.write(lambda db: db.execute("DELETE FROM meta WHERE key = 'a'"))
    assert not first._held_up
    await first.close()
    await later.close()
