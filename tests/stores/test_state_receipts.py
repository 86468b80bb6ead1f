"""Receipts in the embedded state: parts in any order, owners apart, bounded, erased, and in files of older versions."""

import sqlite3
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from memproxy.core.receipt import Cited, Decided, Outcome, Recalled, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.ports import JournalKind
from memproxy.stores import state_receipts
from memproxy.stores.sqlite_db import SqliteDb, driven
from memproxy.stores.sqlite_state import SqliteState
from tests.stores.making import ANN, BEN, FOREIGN_ANN, NOON, entry, session

RECALLED = Recalled(
    result="injected",
    verdict="personal",
    query="what is my budget",
    tokens=12,
    memories=[Cited(memory_id="m1", turn_id="t1", score=0.9)],
    candidates=[{"memory_id": "m1", "score": 0.9, "signals": {"bm25": 3.0}, "injected": True, "rejected": None}],
    timings={"recall": 1.5},
)
DECIDED = Decided(result="injected", mode="on", status=200, model="gpt", turn_ids=["t1"])


def part(request: str = "req_1", scope: Scope = ANN, *, seconds: float = 0, **kinds: Recalled | Decided) -> ReceiptPart:
    at = NOON + timedelta(seconds=seconds)
    return ReceiptPart(request_id=request, scope=scope, at=at, **kinds)  # type: ignore[arg-type]


async def learn_row(state: SqliteState, scope: Scope = ANN) -> int:
    return await state.append(entry(scope, JournalKind.LEARN))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_parts_come_in_any_order_and_make_one_receipt_of_their_owner(
    state: SqliteState, order: tuple[int, int]
) -> None:
    parts = [part(recalled=RECALLED), part(decided=DECIDED, seconds=5)]
    for place in order:
        await state.note_receipts([parts[place]])
    found = await state.receipt(ANN, "req_1")
    assert found is not None
    assert (found.recalled, found.decided, found.scope) == (RECALLED, DECIDED, ANN)
    assert await state.receipt(BEN, "req_1") is None
    assert await state.receipt(FOREIGN_ANN, "req_1") is None
    assert await state.receipt(session("another", ANN), "req_1") is not None


async def test_receipts_are_listed_newest_first_by_session_and_by_what_was_given(state: SqliteState) -> None:
    other = session("another", ANN)
    await state.note_receipts(
        [
            part("req_1", recalled=RECALLED),
            part("req_2", other, seconds=5, decided=DECIDED),
            part("req_3", seconds=5, decided=msgspec.structs.replace(DECIDED, memories=[Cited(memory_id='m"2')])),
            part("req_4", BEN, seconds=9, recalled=RECALLED),
        ]
    )

    async def listed(*, session: str | None = None, memory_id: str | None = None, limit: int = 9) -> list[str]:
        found = await state.receipts(ANN, session=session, memory_id=memory_id, before=None, limit=limit)
        return [one.request_id for one in found]

    assert await listed() == ["req_3", "req_2", "req_1"]
    assert await listed(session="another") == ["req_2"]
    assert await listed(memory_id="m1") == ["req_1"]
    assert await listed(memory_id='m"2') == ["req_3"]
    (first,) = await state.receipts(ANN, session=None, memory_id=None, before=None, limit=1)
    rest = await state.receipts(ANN, session=None, memory_id=None, before=(first.at, first.request_id), limit=9)
    assert [one.request_id for one in rest] == ["req_2", "req_1"]
    assert rest[1].recalled == RECALLED


async def test_what_was_learned_comes_with_the_receipts_of_its_requests_once(state: SqliteState) -> None:
    await state.note_receipts([part("req_1", decided=DECIDED), part("req_2", decided=DECIDED)])
    stored = Outcome(result="stored", request_ids=["req_1"], memory_id="m2")
    rejected = Outcome(result="rejected", reason="evidence", request_ids=["req_1", "req_2"], content="made up")
    number = await learn_row(state)
    for _ in range(2):
        await state.note_outcomes(number, [stored, rejected], NOON)
    (first, second) = [await state.receipt(ANN, request) for request in ("req_1", "req_2")]
    assert first is not None
    assert second is not None
    assert (first.outcomes, second.outcomes) == ([stored, rejected], [rejected])
    noted = await state.outcomes(ANN, session=None, limit=10)
    assert [one.outcome for one in noted] == [rejected, stored]
    assert await state.outcomes(BEN, session=None, limit=10) == []
    assert await state.outcomes(ANN, session="another", limit=10) == []


async def test_that_nothing_was_found_is_not_said_of_turns_that_gave_something_before(state: SqliteState) -> None:
    await state.note_receipts([part("req_1", decided=DECIDED), part("req_2", decided=DECIDED)])
    stored = Outcome(result="stored", request_ids=["req_1"], memory_id="m2")
    await state.note_outcomes(await learn_row(state), [stored], NOON)
    await state.note_outcomes(await learn_row(state), [Outcome(result="nothing", request_ids=["req_1", "req_2"])], NOON)
    (first, second) = [await state.receipt(ANN, request) for request in ("req_1", "req_2")]
    assert first is not None
    assert second is not None
    assert first.outcomes == [stored]
    assert [one.result for one in second.outcomes] == ["nothing"]
    assert [one.outcome for one in await state.outcomes(ANN, session=None, limit=10)] == [stored]


async def test_forgetting_takes_the_receipts_and_what_comes_late_is_not_written(state: SqliteState, file: Path) -> None:
    secret = Recalled(result="empty", query="MARKED-QUERY")
    outcome = Outcome(result="rejected", reason="trust", request_ids=["req_1"], content="MARKED-CONTENT")
    number = await learn_row(state)
    await state.note_receipts([part(recalled=secret), part("req_9", session("s9"), recalled=RECALLED)])
    await state.note_outcomes(number, [outcome], NOON)
    await state.forget(ANN, session="s1")
    await state.note_outcomes(number, [outcome], NOON)
    assert await state.receipt(ANN, "req_1") is None
    assert await state.receipt(ANN, "req_9") is not None
    assert await state.outcomes(ANN, session=None, limit=10) == []
    await state.forget(ANN, session=None)
    assert await state.receipt(ANN, "req_9") is None
    assert not [path for path in file.parent.iterdir() if b"MARKED" in path.read_bytes()]


async def test_old_receipts_and_those_beyond_the_bound_are_pruned(state: SqliteState, file: Path) -> None:
    week = state_receipts.RECEIPTS_KEPT.total_seconds()
    number = await learn_row(state)
    old = Outcome(result="stored", request_ids=["old"], memory_id="m")
    await state.note_receipts([part("old", recalled=RECALLED)])
    await state.note_outcomes(number, [old], NOON)
    await state.note_receipts([part(f"new{place}", recalled=RECALLED, seconds=week + place) for place in range(5)])
    with sqlite3.connect(file, factory=SqliteDb) as db:
        db.execute("PRAGMA foreign_keys = ON")
        driven(state_receipts.prune(db, NOON + timedelta(seconds=week + 5), most=3))
        assert db.execute("SELECT count(*) FROM outcome_requests").fetchone() == (0,)
    db.close()
    kept = [name for name in ("old", *(f"new{place}" for place in range(5))) if await state.receipt(ANN, name)]
    assert kept == ["new2", "new3", "new4"]
    assert await state.outcomes(ANN, session=None, limit=10) == []


async def test_a_busy_tenant_loses_its_own_oldest_receipts_first(state: SqliteState, file: Path) -> None:
    other = msgspec.structs.replace(part("other", recalled=RECALLED), scope=Scope(tenant="other", user="ben"))
    await state.note_receipts([other, *(part(f"r{place}", recalled=RECALLED, seconds=place + 1) for place in range(5))])
    with sqlite3.connect(file, factory=SqliteDb) as db:
        driven(state_receipts.prune(db, NOON, most_of_a_tenant=2))
    db.close()
    assert [name for name in (f"r{place}" for place in range(5)) if await state.receipt(ANN, name)] == ["r3", "r4"]
    assert await state.receipt(other.scope, "other") is not None


async def test_pruning_happens_by_itself(state: SqliteState) -> None:
    week = state_receipts.RECEIPTS_KEPT.total_seconds()
    await state.note_receipts([part("old", recalled=RECALLED)])
    for _ in range(10):
        await state.note_receipts(
            [part(f"new{place}", recalled=Recalled(result="empty"), seconds=week + 1) for place in range(60)]
        )
    assert await state.receipt(ANN, "old") is None


async def test_the_backlog_is_the_owners_alone(state: SqliteState) -> None:
    for scope in (ANN, ANN, BEN):
        number = await state.append(entry(scope))
    await state.append(entry(ANN, JournalKind.LEARN))
    await state.park(number, error="no")
    assert await state.backlog(ANN) == {
        "index": {"waiting": 2, "running": 0, "parked": 0},
        "learn": {"waiting": 1, "running": 0, "parked": 0},
    }
    assert (await state.backlog(BEN))["index"] == {"waiting": 0, "running": 0, "parked": 1}


async def test_a_projects_receipts_and_outcomes_go_alone(state: SqliteState) -> None:
    atlas, other = (msgspec.structs.replace(ANN, project=name, session="s") for name in ("atlas", "other"))
    await state.note_receipts([part("req_1", atlas, recalled=RECALLED), part("req_2", other, recalled=RECALLED)])
    for scope in (atlas, other):
        outcome = Outcome(result="rejected", reason="trust", content="said", request_ids=["req_1"])
        await state.note_outcomes(await learn_row(state, scope), [outcome], NOON)
    await state.forget_receipts(ANN, ["atlas"], ["elsewhere"])
    assert await state.receipt(ANN, "req_1") is not None, "another conversation of the project is meant"
    await state.forget_receipts(ANN, ["atlas"], [])
    assert await state.receipt(ANN, "req_1") is None
    assert await state.receipt(ANN, "req_2") is not None
    assert [noted.scope.project for noted in await state.outcomes(ANN, session=None, limit=5)] == ["other"]
