"""The embedded state's file: who may read it, its versions, damage, and a full disk."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from memproxy.errors import ConfigError, StateUnavailable
from memproxy.stores.sqlite_file import SqliteFile
from memproxy.stores.sqlite_schema import MIGRATIONS, VERSION, migrate
from memproxy.stores.sqlite_state import News, SqliteState
from memproxy.tasks import TaskOwner
from tests.stores.making import entry
from tests.stores.states import opened_state


@pytest.fixture
async def state(file: Path) -> AsyncIterator[SqliteState]:
    async with opened_state(file) as opened:
        yield opened


async def test_only_the_owner_of_the_process_may_read_the_files(state: SqliteState, file: Path) -> None:
    await state.append(entry())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    assert modes == dict.fromkeys(modes, 0o600)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_a_file_of_an_older_version_is_brought_up_to_date(state: SqliteState, file: Path) -> None:
    number = await state.append(entry())
    with sqlite3.connect(file, isolation_level=None) as db:
        migrate(db, (*MIGRATIONS, ("ALTER TABLE journal ADD COLUMN added TEXT DEFAULT 'new'",)))
        assert db.execute("SELECT number, added FROM journal").fetchall() == [(number, "new")]
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)
    db.close()


async def test_what_was_changed_last_of_working_memory_is_found_by_an_index(state: SqliteState, file: Path) -> None:
    with sqlite3.connect(file) as db:
        plan = db.execute(
            "EXPLAIN QUERY PLAN SELECT words FROM working WHERE tenant = 'a' AND user = 'b' AND expires_at > 1 "
            "ORDER BY updated_at DESC LIMIT 9"
        ).fetchall()
        assert any("working_newest" in str(step) for step in plan)
        assert not any("TEMP B-TREE" in str(step) for step in plan)
    db.close()


async def test_a_migration_that_fails_changes_nothing(state: SqliteState, file: Path) -> None:
    with sqlite3.connect(file, isolation_level=None) as db:
        with pytest.raises(sqlite3.OperationalError):
            migrate(db, (*MIGRATIONS, ("ALTER TABLE journal ADD COLUMN added TEXT", "NONSENSE")))
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
        migrate(db)
    db.close()


@pytest.mark.parametrize(("version", "what_to_do"), [(99, "newer"), (15, "memproxy export.*memproxy import")])
async def test_a_file_of_another_version_is_refused_with_what_to_do(file: Path, version: int, what_to_do: str) -> None:
    file.parent.mkdir()
    with sqlite3.connect(file) as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    state = SqliteState(file, sync="normal")
    with pytest.raises(ConfigError, match=f"version {version}.*{what_to_do}"):
        await state.open()
    await state.close()


async def test_many_processes_may_create_the_file_at_once(file: Path) -> None:
    states = [SqliteState(file, sync="normal") for _ in range(6)]
    await asyncio.gather(*(state.open() for state in states))
    numbers = await asyncio.gather(*(state.append(entry()) for state in states))
    assert len(set(numbers)) == 6
    for state in states:
        await state.close()


async def test_a_path_that_sqlite_cannot_take_is_refused_with_its_bound(tmp_path: Path) -> None:
    state = SqliteState(tmp_path.joinpath(*["d" * 200] * 3, "state.db"), sync="normal")
    with pytest.raises(StateUnavailable, match="fewer than 512 bytes"):
        await state.open()


@pytest.mark.parametrize("content", [b"this is no database at all " * 200, os.urandom(8192)], ids=["text", "random"])
async def test_a_damaged_file_is_refused_with_a_remedy(file: Path, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    state = SqliteState(file, sync="normal")
    with pytest.raises(StateUnavailable, match="restore a backup"):
        await state.open()
    file.unlink()
    await state.open()
    assert await state.append(entry()) == 1
    await state.close()


async def test_a_file_that_is_gone_while_running_makes_the_state_unavailable(state: SqliteState, file: Path) -> None:
    await state.append(entry())
    file.unlink()
    with pytest.raises(StateUnavailable):
        await state.append(entry())


async def test_a_state_that_is_not_open_is_unavailable(file: Path) -> None:
    state = SqliteState(file, sync="full")
    with pytest.raises(StateUnavailable):
        await state.append(entry())
    await state.close()


def test_a_full_disk_is_survived_and_the_state_goes_on_when_there_is_space(tmp_path: Path) -> None:
    """In a process of its own, whose files may not grow beyond a limit that is lifted later."""
    program = """
import asyncio, resource, sys
from pathlib import Path
from memproxy.errors import StateUnavailable
from memproxy.stores.sqlite_state import SqliteState
from tests.stores.making import BEN, NOON, entry

async def main():
    state = SqliteState(Path(sys.argv[1]), sync="normal")
    await state.open()
    first = await state.append(entry())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    written, failed = 1, 0
    for _ in range(40):
        try:
            await state.append(entry(BEN, body=b"x" * 20_000))
            written += 1
        except StateUnavailable as error:
            assert "space" in str(error), error
            failed += 1
    assert failed and written > 1, (failed, written)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await state.append(entry(BEN))
    sizes = await state.queue_sizes()
    assert sizes["index"]["waiting"] == written + 1, (sizes, written)
    (one, two) = await state.claim("index", limit=5, now=NOON)
    assert one.number == first
    await state.close()

asyncio.run(main())
"""
    command = [sys.executable, "-c", program, str(tmp_path / "state.db")]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr.decode()


def test_their_place_on_the_disk_is_taken_before_they_are_mapped(tmp_path: Path) -> None:
    """A mapped page without a place ends the process when it is touched on a full disk."""
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.truncate(8)  # as an earlier version made it
    for path in (tmp_path / "new", hole):
        news = News(path)
        news.open()
        assert path.stat().st_blocks > 0
        assert news.last == bytes(8)
        news.spread()
        assert news.last != bytes(8)
        news.close()


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
