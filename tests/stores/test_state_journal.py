"""The embedded state: journal, slots, sessions, and a file shared by several processes."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memproxy.core.scope import Scope
from memproxy.errors import NotFound, RequestError
from memproxy.ports import JournalEntry, JournalKind, KnownSession, Recovered, SessionProgress, SlotChange
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_journal import MOST_PLAN_BYTES, MOST_RUN_BYTES
from tests.stores.making import ANN, BEN, NOON, entry, session
from tests.stores.states import opened_again, opened_state

LATER = NOON + timedelta(days=1)


async def claimed(state: SqliteState, lane: str = "index", limit: int = 100) -> list[int]:
    return [row.number for row in await state.claim(lane, limit=limit, now=NOON)]


async def test_a_row_comes_back_as_it_was_appended(state: SqliteState) -> None:
    scope = Scope(tenant="acme", user="ann", project="p", agent="a", session="s")
    written = JournalEntry(kind=JournalKind.PLAN, scope=scope, body=b"\x00\xff", request_id="r", version=3)
    number = await state.append(written)
    (row,) = await state.claim("index", limit=5, now=NOON)
    assert (row.number, row.entry, row.attempts, row.plan) == (number, written, 0, None)


async def test_large_rows_are_claimed_alone(state: SqliteState) -> None:
    large = b"x" * MOST_RUN_BYTES
    numbers = [await state.append(entry(body=body)) for body in (b"{}", b"{}", large, b"{}")]
    for together in ([0, 1], [2], [3]):
        rows = await state.claim("index", limit=5, now=NOON, run=10)
        assert [row.number for row in rows] == [numbers[place] for place in together]
        for row in rows:
            await state.finish(row.number)


async def test_large_plans_are_claimed_together_up_to_a_limit_and_turns_not_with_them(state: SqliteState) -> None:
    large, most = b"x" * MOST_RUN_BYTES, b"x" * (MOST_PLAN_BYTES - 2 * MOST_RUN_BYTES)
    plans = [entry(kind=JournalKind.PLAN, body=body) for body in (large, large, large, most)]
    numbers = [await state.append(one) for one in (*plans, entry())]
    for together in ([0, 1, 2], [3], [4]):
        rows = await state.claim("index", limit=5, now=NOON, run=10)
        assert [row.number for row in rows] == [numbers[place] for place in together]
        for row in rows:
            await state.finish(row.number)


async def test_learning_waits_for_what_was_to_be_indexed_before_it(state: SqliteState) -> None:
    turns = await state.append(entry())
    learn = await state.append(entry(kind=JournalKind.LEARN))
    later = await state.append(entry())
    assert await claimed(state, "learn") == []
    assert await claimed(state) == [turns]
    assert await claimed(state, "learn") == []
    await state.finish(turns)
    assert await claimed(state, "learn") == [learn]
    assert await claimed(state) == [later]


async def test_rows_of_one_owner_and_lane_are_claimed_one_at_a_time_in_order(state: SqliteState) -> None:
    first, second = await state.append(entry()), await state.append(entry(kind=JournalKind.PLAN))
    other = await state.append(entry(BEN))
    learn = await state.append(entry(Scope(tenant="acme", user="cid"), kind=JournalKind.LEARN))
    assert await claimed(state) == [first, other]
    assert await claimed(state, "learn") == [learn]
    assert await claimed(state) == []
    await state.finish(first)
    assert await claimed(state) == [second]


async def test_a_row_that_waits_for_its_time_holds_back_those_behind_it(state: SqliteState) -> None:
    first, second = await state.append(entry()), await state.append(entry())
    assert await claimed(state) == [first]
    await state.retry(first, error="outage", due=LATER, counted=False)
    assert await claimed(state) == []
    (row,) = await state.claim("index", limit=5, now=LATER)
    assert (row.number, row.attempts) == (first, 0)
    await state.retry(first, error="failed", due=NOON, counted=True)
    (row,) = await state.claim("index", limit=5, now=NOON)
    assert (row.number, row.attempts) == (first, 1)
    await state.finish(first)
    assert await claimed(state) == [second]


async def test_a_parked_row_is_listed_and_lets_the_next_one_go_on(state: SqliteState) -> None:
    first, second = await state.append(entry()), await state.append(entry())
    await claimed(state)
    await state.park(first, error="unreadable")
    assert await claimed(state) == [second]
    (row,) = await state.parked(ANN, limit=10)
    assert (row.number, row.kind, row.scope, row.error, row.attempts) == (
        first,
        JournalKind.TURNS,
        ANN,
        "unreadable",
        1,
    )
    assert await state.parked(BEN, limit=10) == []
    assert [one.number for one in await state.parked(None, limit=10)] == [first]


async def test_the_age_of_a_lane_is_that_of_its_oldest_row_that_is_not_done(state: SqliteState) -> None:
    began = datetime.now(UTC)
    assert await state.queue_ages(began) == {"index": 0.0, "learn": 0.0}
    first = await state.append(entry(ANN))
    between = datetime.now(UTC)
    second = await state.append(entry(BEN))
    later = datetime.now(UTC) + timedelta(hours=1)
    age_s = (await state.queue_ages(later))["index"]
    assert (later - between).total_seconds() <= age_s <= (later - began).total_seconds()
    await claimed(state)  # one that runs is not done
    assert (await state.queue_ages(later))["index"] == age_s
    await state.finish(first)
    assert 3600 <= (await state.queue_ages(later))["index"] <= (later - between).total_seconds()
    await state.park(second, error="x")
    assert await state.queue_ages(later) == {"index": 0.0, "learn": 0.0}


async def test_rows_are_counted_by_lane_and_state(state: SqliteState) -> None:
    for scope in (ANN, ANN, BEN):
        await state.append(entry(scope))
    await state.append(entry(kind=JournalKind.LEARN))
    await claimed(state)
    await state.park(1, error="x")
    assert await state.queue_sizes() == {
        "index": {"waiting": 1, "running": 1, "parked": 1},
        "learn": {"waiting": 1, "running": 0, "parked": 0},
    }
    await state.finish(3, error="refused")
    assert await state.refused() == {"index": 1}


async def test_rows_of_a_dead_engine_are_claimed_again_with_their_plan(state: SqliteState, file: Path) -> None:
    number = await state.append(entry(kind=JournalKind.LEARN))
    await claimed(state, "learn")
    assert await state.save_plan(number, b"plan", [SlotChange(slot="s", expected=None, new="m1")])
    async with opened_again(state, file) as successor:
        assert await claimed(successor, "learn") == []
        assert await successor.recover(max_attempts=5, now=NOON) == Recovered(again=1)
        (row,) = await successor.claim("learn", limit=5, now=NOON)
        assert (row.number, row.plan, row.attempts) == (number, b"plan", 1)


async def test_parked_rows_wait_again_behind_the_others_with_all_their_tries(state: SqliteState) -> None:
    numbers = [await state.append(entry(ANN)) for _ in range(3)] + [await state.append(entry(BEN))]
    await state.save_plan(numbers[0], b"{}", [])
    await state.park(numbers[0], error="x")
    await state.park(numbers[3], error="x")
    assert await state.unpark(ANN) == 1
    assert await state.unpark(ANN) == 0
    assert [row.scope for row in await state.parked(None, limit=5)] == [BEN]
    claimed = []
    while rows := await state.claim("index", limit=9, now=NOON):
        assert len(rows) == 1
        claimed += rows
        await state.finish(rows[0].number)
    assert [row.number for row in claimed[:2]] == numbers[1:3]
    assert (claimed[2].attempts, claimed[2].plan) == (0, b"{}")
    assert await state.unpark(None) == 1
    assert len(await state.claim("index", limit=9, now=NOON)) == 1


async def test_a_row_that_kills_the_engine_each_time_is_parked_and_the_next_goes_on(state: SqliteState) -> None:
    killer, after = await state.append(entry()), await state.append(entry())
    other = await state.append(entry(BEN))
    now, deaths = NOON, 0
    while (rows := await state.claim("index", limit=5, now=now)) and killer in {row.number for row in rows}:
        for row in rows:
            if row.number != killer:
                await state.finish(row.number)
        deaths += 1
        taken = await state.recover(max_attempts=3, now=now)
        now += timedelta(minutes=5)
    assert (deaths, taken.parked) == (3, {killer: 3})
    (parked,) = await state.parked(None, limit=5)
    assert (parked.number, parked.attempts) == (killer, 3)
    assert "engine ended" in parked.error
    assert [row.number for row in rows] == [after]
    assert other not in {row.number for row in rows}


async def test_a_row_at_which_engines_died_is_tried_again_hours_later_a_few_times(state: SqliteState) -> None:
    await state.park(await state.append(entry(BEN)), error="the model's answers")
    await state.append(entry())
    now = NOON
    for tries, hours in enumerate((1, 4, 16, None)):
        (row,) = await state.claim("index", limit=5, now=now)
        assert row.attempts == tries
        assert (await state.recover(max_attempts=1, now=now)).parked == {row.number: tries + 1}
        if hours:
            assert await state.unpark_killed(now + timedelta(hours=hours, seconds=-1)) == 0
            now += timedelta(hours=hours)
            assert await state.unpark_killed(now) == 1
    assert await state.unpark_killed(now + timedelta(days=900)) == 0
    assert {row.attempts for row in await state.parked(None, limit=5)} == {1, 4}


async def test_rows_whose_claim_was_not_heard_of_wait_again_and_held_ones_and_those_of_other_lanes_do_not(
    state: SqliteState,
) -> None:
    held, lost = await state.append(entry()), await state.append(entry(BEN))
    await state.append(entry(BEN, kind=JournalKind.LEARN))
    assert len(await state.claim("index", limit=5, now=NOON)) == 2
    assert await state.give_back("learn", []) == 0
    assert await state.give_back("index", [held]) == 1
    (row,) = await state.claim("index", limit=5, now=NOON)
    assert (row.number, row.attempts) == (lost, 0)


async def test_a_row_that_only_waits_is_not_blamed_for_a_dead_engine_and_is_due_after_it(state: SqliteState) -> None:
    number = await state.append(entry(kind=JournalKind.LEARN))
    await claimed(state, "learn")
    await state.retry(number, error="no key", due=LATER, counted=False)
    assert await state.recover(max_attempts=1, now=NOON) == Recovered()
    (row,) = await state.claim("learn", limit=5, now=NOON)
    assert (row.number, row.attempts) == (number, 0)


async def test_what_ran_at_several_deaths_waits_so_that_others_go_first(state: SqliteState) -> None:
    await state.append(entry())
    for _ in range(2):
        assert len(await state.claim("index", limit=5, now=NOON)) == 1
        await state.recover(max_attempts=5, now=NOON)
    assert await state.claim("index", limit=5, now=NOON) == []
    assert len(await state.claim("index", limit=5, now=NOON + timedelta(seconds=2))) == 1


async def test_a_plan_is_saved_only_together_with_all_its_slots(state: SqliteState) -> None:
    number = await state.append(entry(kind=JournalKind.LEARN))
    await state.change_slots(ANN, [SlotChange(slot="budget", expected=None, new="m1")])
    changes = [SlotChange(slot="home", expected=None, new="m2"), SlotChange(slot="budget", expected="m0", new="m3")]
    assert not await state.save_plan(number, b"plan", changes)
    assert await state.slots(ANN, ["home", "budget"]) == {"budget": "m1"}
    (row,) = await state.claim("learn", limit=1, now=NOON)
    assert row.plan is None
    assert await state.save_plan(number, b"plan", [SlotChange(slot="budget", expected="m1", new="m3")])
    assert await state.slots(ANN, ["budget"]) == {"budget": "m3"}
    assert await state.slots(BEN, ["budget"]) == {}
    assert await state.change_slots(ANN, [SlotChange(slot="budget", expected="m3", new=None)])
    assert await state.slots(ANN, ["budget"]) == {}


async def test_a_plan_for_an_erased_row_is_refused(state: SqliteState) -> None:
    number = await state.append(entry(kind=JournalKind.LEARN))
    await claimed(state, "learn")
    await state.forget(ANN, session=None)
    with pytest.raises(NotFound):
        await state.save_plan(number, b"plan", [])
    await state.finish(number)
    await state.retry(number, error="x", due=NOON, counted=True)
    await state.park(number, error="x")
    assert await claimed(state, "learn") == []


async def test_one_of_many_concurrent_writers_gets_a_slot(state: SqliteState, file: Path) -> None:
    async with opened_again(state, file) as other:
        won: list[str] = []

        async def take(which: SqliteState, name: str) -> None:
            while True:
                held = (await which.slots(ANN, ["slot"])).get("slot")
                if held is not None and int(held) >= 10:
                    return
                new = str(int(held or 0) + 1)
                if await which.change_slots(ANN, [SlotChange(slot="slot", expected=held, new=new)]):
                    won.append(f"{new} by {name}")

        await asyncio.gather(*(take((state, other)[place % 2], str(place)) for place in range(50)))
        assert sorted(int(one.split()[0]) for one in won) == list(range(1, 11))


async def test_appends_that_come_together_all_get_their_own_number(state: SqliteState) -> None:
    numbers = await asyncio.gather(*(state.append(entry(body=str(place).encode())) for place in range(200)))
    assert numbers == sorted(set(numbers))
    for number, place in zip(numbers, range(200), strict=True):
        (row,) = await state.claim("index", limit=1, now=NOON)
        assert (row.number, row.entry.body) == (number, str(place).encode())
        await state.finish(number)


async def test_an_entry_that_cannot_be_written_does_not_take_others_with_it(state: SqliteState) -> None:
    bad = entry(Scope(tenant="acme", user="lone \ud800 surrogate"))
    results = await asyncio.gather(*map(state.append, [entry(), bad, entry(BEN)]), return_exceptions=True)
    assert [type(one) for one in results] == [int, RequestError, int]
    assert len(await claimed(state)) == 2


async def test_a_caller_that_leaves_does_not_hurt_those_that_wait_with_it(state: SqliteState) -> None:
    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(state.append(entry()))
        staying = group.create_task(state.append(entry(BEN)))
        await asyncio.sleep(0)
        leaving.cancel()
    assert staying.result() in await claimed(state)


async def test_two_processes_share_one_file(state: SqliteState, file: Path) -> None:
    program = f"""
import asyncio
from pathlib import Path
from tests.stores.making import BEN, entry
from tests.stores.states import opened_state

async def main():
    async with opened_state(Path({str(file)!r}), {"sealed" if state.seals else "sqlite"!r}) as state:
        for _ in range(100):
            await state.append(entry(BEN))

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    mine = [await state.append(entry()) for _ in range(100)]
    assert await process.wait() == 0
    handled: list[int] = []
    while rows := await state.claim("index", limit=10, now=NOON):
        assert len({row.entry.scope.owner for row in rows}) == len(rows)
        for row in rows:
            handled.append(row.number)
            await state.finish(row.number)
    assert len(handled) == 200
    assert set(mine) < set(handled)


async def test_a_session_is_due_by_its_turns_or_its_silence_and_not_while_learning(state: SqliteState) -> None:
    one, two = session("one"), session("two")
    await state.note_turns(one, count=6, at=NOON)
    await state.note_turns(one, count=5, at=NOON - timedelta(seconds=9))
    await state.note_turns(two, count=1, at=NOON)
    await state.note_turns(session("one", BEN), count=1, at=LATER)
    due = await state.due_sessions(every=10, idle_before=NOON - timedelta(hours=1), limit=10)
    assert due == [SessionProgress(scope=one, unlearned=11, last_turn_at=NOON)]
    idle = await state.due_sessions(every=10, idle_before=NOON, limit=10)
    assert {found.scope.session for found in idle} == {"one", "two"}
    number = await state.begin_learning(entry(one, JournalKind.LEARN), unlearned=11)
    assert number is not None
    assert await state.begin_learning(entry(one, JournalKind.LEARN), unlearned=1) is None
    await state.note_turns(one, count=20, at=NOON)
    assert [found.scope for found in await state.due_sessions(every=1, idle_before=NOON, limit=1)] == [two]
    await state.finish(number)
    (found, *_) = [item for item in await state.due_sessions(every=20, idle_before=NOON, limit=9) if item.scope == one]
    assert found.unlearned == 20


async def test_a_session_that_somebody_ended_is_over_until_something_is_said_in_it(state: SqliteState) -> None:
    names = ["one", "two", "never said"]
    for name in ("one", "two"):
        await state.note_turns(session(name), count=1, at=NOON)
    await state.note_turns(session("one", BEN), count=1, at=NOON)
    for name in ("one", "never said"):
        await state.note_end(session(name), at=LATER)
    assert await state.ended(ANN, names) == {"one"}
    assert await state.ended(BEN, names) == set()
    await state.note_turns(session("one"), count=1, at=NOON)
    assert await state.ended(ANN, names) == set()


async def test_a_session_is_silent_until_it_is_over_and_not_while_learning(state: SqliteState) -> None:
    one, two = session("one"), session("two")
    await state.note_turns(one, count=1, at=NOON)
    await state.note_turns(two, count=1, at=LATER)
    await state.note_turns(session("one", BEN), count=1, at=NOON - timedelta(hours=1))

    async def silent(before: datetime = NOON, limit: int = 9) -> list[Scope]:
        return [found.scope for found in await state.silent_sessions(silent_before=before, limit=limit)]

    assert await silent() == [session("one", BEN), one]
    assert await silent(LATER) == [session("one", BEN), one, two]
    assert await silent(limit=1) == [session("one", BEN)]
    await state.note_end(session("one", BEN), at=LATER)
    number = await state.begin_learning(entry(one, JournalKind.LEARN), unlearned=1)
    assert number is not None
    assert await silent() == []
    await state.finish(number)
    assert await silent() == [one]


async def test_a_parked_extraction_does_not_stop_a_session_from_learning(state: SqliteState) -> None:
    await state.note_turns(ANN, count=3, at=NOON)
    number = await state.begin_learning(entry(kind=JournalKind.LEARN), unlearned=2)
    assert number is not None
    await state.park(number, error="x")
    (found,) = await state.due_sessions(every=1, idle_before=NOON, limit=5)
    assert found.unlearned == 1
    assert await state.begin_learning(entry(kind=JournalKind.LEARN), unlearned=1) is not None


async def test_sessions_are_found_by_their_prefixes_newest_first(state: SqliteState) -> None:
    for place, name in enumerate("abcdefg"):
        known = KnownSession(session=name, said_at=NOON + timedelta(seconds=place))
        await state.remember_session(ANN, ["k1", f"only-{name}"], known)
    found = await state.find_session(ANN, ["k1", "only-g", "unknown", *(f"x{place}" for place in range(1200))])
    assert [one.session for one in found["k1"]] == ["g", "f", "e", "d", "c"]
    assert [one.session for one in found["only-g"]] == ["g"]
    assert found.keys() == {"k1", "only-g"}
    assert await state.find_session(BEN, ["k1"]) == {}


async def test_a_repeated_request_keeps_its_first_time_and_takes_the_newest_answer(state: SqliteState) -> None:
    for known in (
        KnownSession(session="s", said_at=NOON, answer="one"),
        KnownSession(session="s", said_at=LATER),
        KnownSession(session="s", said_at=LATER, answer="two"),
    ):
        await state.remember_session(ANN, ["k"], known)
    assert await state.find_session(ANN, ["k"]) == {"k": [KnownSession(session="s", said_at=NOON, answer="two")]}


async def test_prefixes_of_long_silent_conversations_are_forgotten(state: SqliteState, file: Path) -> None:
    old = KnownSession(session="old", said_at=NOON - timedelta(days=91))
    new = KnownSession(session="new", said_at=NOON)
    await state.remember_session(ANN, ["k-old"], old)
    await state.close()
    async with opened_again(state, file) as again:
        await again.remember_session(ANN, ["k-new"], new)
        assert (await again.find_session(ANN, ["k-old", "k-new"])).keys() == {"k-new"}


async def test_facts_about_the_installation_are_kept(state: SqliteState) -> None:
    assert await state.get_meta("store_id") is None
    await state.set_meta("store_id", "one")
    await state.set_meta("store_id", "two")
    assert await state.get_meta("store_id") == "two"


async def test_what_is_forgotten_is_in_no_byte_of_the_files(state: SqliteState, file: Path) -> None:
    marked = b"MARKED " * 2000
    for scope in (ANN, session("s2"), BEN):
        await state.append(entry(scope, body=marked if scope is not BEN else b"kept"))
        await state.note_turns(scope, count=2, at=NOON)
        await state.remember_session(scope, ["MARKED-key"], KnownSession(session="MARKED", said_at=NOON))
    await state.change_slots(ANN, [SlotChange(slot="MARKED", expected=None, new="m")])
    assert _holding(file, b"MARKED")
    await state.forget(ANN, session="s2")
    assert len(await claimed(state)) == 2
    assert await state.slots(ANN, ["MARKED"]) == {"MARKED": "m"}
    await state.forget(BEN, session="MARKED")
    await state.forget(ANN, session=None)
    assert _holding(file, b"MARKED") == []
    assert (await state.queue_sizes())["index"] == {"waiting": 0, "running": 1, "parked": 0}


async def test_a_finished_body_is_overwritten_in_the_file(file: Path) -> None:
    async with opened_state(file) as state:
        number = await state.append(entry(body=b"MARKED " * 2000))
        await state.finish(number)
    assert _holding(file, b"MARKED") == []


def _holding(file: Path, text: bytes) -> list[str]:
    return [path.name for path in file.parent.iterdir() if text in path.read_bytes()]
