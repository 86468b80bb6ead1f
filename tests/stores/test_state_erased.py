"""What was asked before an erasure and comes behind it leaves nothing in the state: no turn, no receipt, no key."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from memproxy.core.audit import AuditEntry
from memproxy.core.receipt import Decided, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.ports import BlockLine, JournalEntry, JournalKind, KnownSession
from memproxy.stores.sealing import Unreadable
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_sealed import SealedState
from tests.stores.states import opened_state

PLACE = Scope(tenant="acme", user="zebulon", session="talk", project="apollo", agent="cook")
OWNER = Scope(tenant="acme", user="zebulon")


@pytest.fixture(params=["sqlite", "sealed"])
async def state(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteState]:
    """An open state."""
    async with opened_state(tmp_path / "state.db", request.param) as opened:
        yield opened


async def come(state: SqliteState, asked_at: datetime) -> None:
    """All that a request leaves in the state, when its answer has ended."""
    turns = JournalEntry(kind=JournalKind.TURNS, scope=PLACE, body=b'"hello"', captured_at=asked_at)
    await state.append(turns)
    known = KnownSession(session="talk", said_at=asked_at)
    await state.remember_session(PLACE, ["c:1"], known, asked_at=asked_at)
    decided = Decided(result="empty")
    await state.note_receipts([ReceiptPart(request_id="r", scope=PLACE, at=asked_at, decided=decided)])
    await state.save_block(PLACE, "m", [BlockLine(text="x", memory_id="1")], erasures=0, at=datetime.now(UTC))


async def here(state: SqliteState) -> set[str]:
    """What of it is there."""
    blocks = await state.find_blocks(PLACE, ["m"])
    kept = {
        "turns": (await state.backlog(OWNER))["index"]["waiting"],
        "session": await state.find_session(PLACE, ["c:1"]),
        "receipt": await state.receipt(PLACE, "r"),
        "block": blocks.blocks,
    }
    return {name for name, found in kept.items() if found}


async def test_nothing_of_a_request_that_came_before_its_users_erasure_is_kept_after_it(
    state: SqliteState, tmp_path: Path
) -> None:
    asked_at = datetime.now(UTC)
    await state.forget(OWNER, session=None)
    await come(state, asked_at)
    assert await here(state) == set()
    await state.wipe()
    assert not any(b"zebulon" in path.read_bytes() for path in tmp_path.iterdir())
    await come(state, datetime.now(UTC))
    assert {"turns", "session", "receipt"} <= await here(state)


@pytest.mark.parametrize(
    "erased",
    [
        OWNER,
        msgspec.structs.replace(OWNER, session="talk"),
        msgspec.structs.replace(OWNER, project="apollo"),
        msgspec.structs.replace(OWNER, agent="cook"),
        PLACE,
    ],
    ids=["user", "session", "project", "agent", "all of these"],
)
async def test_an_erasure_counts_from_when_it_is_in_the_journal(state: SqliteState, erased: Scope) -> None:
    """Turns that come while it is carried out stand behind its row, which takes only what stands before it."""
    asked_at = datetime.now(UTC)
    deletion = JournalEntry(kind=JournalKind.PLAN, scope=OWNER, body=b"{}", erases=(erased,))
    await state.append(deletion)
    await come(state, asked_at)
    assert await here(state) <= {"turns", "block"}
    assert (await state.backlog(OWNER))["index"]["waiting"] == 1, "the deletion alone"


@pytest.mark.parametrize(
    "erased",
    [
        msgspec.structs.replace(OWNER, user="ben"),
        msgspec.structs.replace(OWNER, session="another"),
        msgspec.structs.replace(OWNER, session="apollo"),
        msgspec.structs.replace(PLACE, agent="driver"),
    ],
    ids=["another user", "another session", "a session named as the project", "another agent"],
)
async def test_an_erasure_elsewhere_takes_nothing(state: SqliteState, erased: Scope) -> None:
    asked_at = datetime.now(UTC)
    await state.append(JournalEntry(kind=JournalKind.PLAN, scope=OWNER, body=b"{}", erases=(erased,)))
    await come(state, asked_at)
    assert {"turns", "session", "receipt"} <= await here(state)


async def test_who_was_erased_is_not_named_by_what_his_own_token_did(state: SqliteState, tmp_path: Path) -> None:
    def did(by: str) -> AuditEntry:
        return AuditEntry(at=datetime.now(UTC), tenant="acme", by=by, action="memory.forget", scope={"user_id": "ben"})

    await state.note_audit([did("jwt:zebulon"), did("jwt:ann")])
    await state.forget(OWNER, session=None)
    await state.note_audit([did("jwt:zebulon")])
    told = [one.entry.by for one in await state.audit("acme", before=2**53, limit=10)]
    assert told[1] == "jwt:ann"
    assert told[0] == told[2]
    assert told[0].startswith("jwt:erased:")
    await state.wipe()
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        assert not db.execute("SELECT 1 FROM audit WHERE entry LIKE '%zebulon%'").fetchall()
    assert not any(b"zebulon" in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("state", ["sealed"], indirect=True)
async def test_a_users_key_goes_in_the_commit_that_makes_the_erasure_durable(state: SqliteState) -> None:
    """Killed between the two, nobody would carry it out, and nobody could read what is left."""
    await come(state, datetime.now(UTC))
    assert isinstance(state, SealedState)
    before = await state.data_key(OWNER.owner, make=False)
    assert before is not None
    sealed = before.seal(b"text", "x")
    erasure = JournalEntry(kind=JournalKind.PLAN, scope=OWNER, body=b'"erase"', erases=(OWNER,))
    number, gone = await state.begin_erasure(erasure)
    assert len(gone) == 1
    (row,) = await state.claim("index", limit=10, now=datetime.now(UTC), run=10)
    assert (row.number, row.entry.body) == (number, b'"erase"')
    after = await state.data_key(OWNER.owner, make=False)
    assert after is not None
    with pytest.raises(Unreadable):
        after.open(sealed, "x")
