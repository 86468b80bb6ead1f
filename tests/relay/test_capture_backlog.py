"""Turns whose journal does not work for a while: kept beside it, and written in their order."""

import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memproxy.errors import StateUnavailable
from memproxy.ports import JournalEntry
from memproxy.relay.capture import MOST_BYTES, CaptureBacklog, Waiting
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.rig import Rig, Running
from tests.stores.making import entry
from tests.support.waiting import eventually


async def rows_of(state: SqliteState, number: int) -> bool:
    """Whether so many are in the journal."""
    return (await state.queue_sizes())["index"]["waiting"] == number


async def rows_in(state: SqliteState, number: int) -> bool:
    """As `rows_of`, also while the state is not open yet."""
    with suppress(StateUnavailable):
        return await rows_of(state, number)
    return False


async def said(state: SqliteState) -> list[str]:
    """What is in the journal, in its order."""
    rows = await state.claim("index", limit=10, now=datetime.now(UTC), run=10)
    return [
        number for row in rows for number in ("one", "two", "three") if f"number {number}".encode() in row.entry.body
    ]


async def said_until(file: Path) -> list[str]:
    """What the next start finds in the journal."""
    again = SqliteState(file, sync="normal")
    await again.open()
    try:
        return await said(again)
    finally:
        await again.close()


async def talk(relay: Rig) -> set[str]:
    """Three messages of one conversation while the state's file is away; its sessions."""
    texts = [f"my message, number {number}" for number in ("one", "two", "three")]
    answers = [await relay.chat(*texts[:length]) for length in (1, 2, 3)]
    assert {answer.status_code for answer in answers} == {200}
    assert (await relay.client.get("/readyz")).json()["parts"]["state"].startswith("degraded: ")
    return {answer.headers["x-memproxy-session"] for answer in answers}


async def test_what_is_said_while_the_state_is_away_is_one_conversation_and_written_when_it_is_back(
    running: Running, state: SqliteState, tmp_path: Path
) -> None:
    async with running() as relay:
        state_file = tmp_path / "state.db"
        state_file.rename(tmp_path / "away")
        assert len(await talk(relay)) == 1
        (tmp_path / "away").rename(state_file)
        await eventually(lambda: rows_of(state, 3), what="the turns are written")
        assert await said(state) == ["one", "two", "three"]
        await eventually(lambda: relay.engine.captured, what="the engine is told of the turns")

        async def is_well() -> bool:
            return "state" not in (await relay.client.get("/readyz")).json()["parts"]

        await eventually(is_well, what="none waits any more")


async def test_a_state_that_takes_small_writes_and_no_turns_is_told(
    running: Running, state: SqliteState, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(_entry: JournalEntry) -> int:
        raise StateUnavailable("Free some space.")

    async with running() as relay:
        with monkeypatch.context() as full:
            full.setattr(state, "append", refuses)
            assert (await relay.chat("my message, number one")).status_code == 200
            assert (await relay.client.get("/readyz")).json()["parts"]["state"] == "degraded: Free some space."
        await eventually(lambda: rows_of(state, 1), what="it is written when there is room")


async def test_what_waits_is_tried_once_more_at_the_end(running: Running, state: SqliteState, tmp_path: Path) -> None:
    async with running() as relay:
        state_file = tmp_path / "state.db"
        state_file.rename(tmp_path / "away")
        await talk(relay)
        (tmp_path / "away").rename(state_file)
    assert relay.engine.captured, "and the engine is told of it"
    assert await said_until(tmp_path / "state.db") == ["one", "two", "three"]


async def test_what_waits_when_the_relay_ends_is_written_by_the_next_start(
    running: Running, state: SqliteState, tmp_path: Path
) -> None:
    state_file = tmp_path / "state.db"
    async with running() as relay:
        state_file.rename(tmp_path / "away")
        await talk(relay)
    (tmp_path / "away").rename(state_file)
    assert await said_until(tmp_path / "state.db") == ["one", "two", "three"]


async def test_a_state_of_a_later_version_is_opened_when_that_is_put_right(
    running: Running, state: SqliteState, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        db.execute("PRAGMA user_version = 9999")
    async with running() as relay:
        assert (await relay.chat("my message, number one")).status_code == 200
        (tmp_path / "state.db").unlink()
        await eventually(lambda: rows_in(state, 1), what="the turn is written")


async def test_what_the_journal_has_by_now_is_not_set_aside_for_the_next_start(
    state: SqliteState, tmp_path: Path
) -> None:
    await state.open()
    unwritten, waiting = CaptureBacklog(state), Waiting(entry(), 1, lambda: None)
    await state.append(waiting.entry)
    await unwritten.written(waiting)
    assert await unwritten.spill(waiting)
    await unwritten.close()
    await state.close()
    assert not any(b'"scope"' in file.read_bytes() for file in tmp_path.glob("state.db-aside-*"))


async def test_what_is_too_much_for_memory_is_written_in_its_order_when_the_journal_is_back(
    state: SqliteState, tmp_path: Path
) -> None:
    await state.open()
    unwritten = CaptureBacklog(state)
    (tmp_path / "state.db").rename(tmp_path / "away")
    for number in ("one", "two", "three"):
        body = f"number {number}".encode().ljust(MOST_BYTES // 2 - 1)
        await unwritten.add(Waiting(entry(body=body + b" " * 2), 1, lambda: None), why="away")
    (tmp_path / "away").rename(tmp_path / "state.db")
    await unwritten.close()
    await state.close()
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        written = [body[:12].split()[1] for (body,) in db.execute("SELECT body FROM journal ORDER BY number")]
    assert written == [b"one", b"two", b"three"]
    assert not any(b'"scope"' in file.read_bytes() for file in tmp_path.glob("state.db-aside-*"))
