"""The blocks that sessions were given: whose they are, what an erasure takes out of them, and their bounds."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from memproxy.core.history import RESTS_ON, STATE
from memproxy.core.scope import Scope
from memproxy.ports import BlockLine
from memproxy.stores import state_sessions
from memproxy.stores.sqlite_db import SqliteDb, driven
from memproxy.stores.sqlite_state import SqliteState
from tests.stores.making import ANN, BEN, FOREIGN_ANN, NOON, entry

LINES = [
    BlockLine(text="<open>"),
    BlockLine(text="- one [m:1]", memory_id="m1"),
    BlockLine(text="- two [m:2]", memory_id="m2"),
    BlockLine(text="<close>"),
]
OTHER_SESSION = Scope(tenant=ANN.tenant, user=ANN.user, session="s2")
SECRET = [BlockLine(text="- the word is xyzzy [m:3]", memory_id="m3")]


@pytest.fixture
async def state(state: SqliteState) -> SqliteState:
    for scope in (ANN, BEN, FOREIGN_ANN):  # of whom nothing is known, no blocks are kept
        await state.append(entry(scope))
    return state


async def save(state: SqliteState, scope: Scope, message: str, lines: list[BlockLine] | None = None) -> bool:
    erasures = (await state.find_blocks(scope, [])).erasures
    return await state.save_block(scope, message, LINES if lines is None else lines, erasures=erasures, at=NOON)


async def found(state: SqliteState, scope: Scope, *messages: str) -> dict[str, list[BlockLine]]:
    return (await state.find_blocks(scope, messages)).blocks


async def test_a_block_comes_back_line_by_line_to_its_owner_and_session_alone(state: SqliteState) -> None:
    many = [BlockLine(text=f"- line {number} [m:{number}]", memory_id=f"m{number}") for number in range(70)]
    assert await save(state, ANN, "a")
    assert await save(state, ANN, "many", many)
    assert await found(state, ANN, "a", "many", "b") == {"a": LINES, "many": many}
    for other in (BEN, FOREIGN_ANN, OTHER_SESSION):
        assert await found(state, other, "a", "many") == {}


async def test_a_later_block_of_a_message_takes_its_place_and_an_empty_one_removes_it(state: SqliteState) -> None:
    await save(state, ANN, "a")
    await save(state, ANN, "a", SECRET)
    assert await found(state, ANN, "a") == {"a": SECRET}
    await save(state, ANN, "a", [])
    assert await found(state, ANN, "a") == {}


async def test_an_erased_memorys_line_leaves_every_block_of_its_owner(state: SqliteState) -> None:
    for scope in (ANN, OTHER_SESSION, BEN):
        await save(state, scope, "a")
    assert await state.drop_from_blocks(ANN, ["m1", "unknown"]) == 2
    left = [line for line in LINES if line.memory_id != "m1"]
    for scope, lines in ((ANN, left), (OTHER_SESSION, left), (BEN, LINES)):
        assert await found(state, scope, "a") == {"a": lines}
    await state.drop_from_blocks(ANN, ["m2"])
    assert await found(state, ANN, "a") == {}, "a frame without lines is no block"


async def test_all_blocks_of_an_owner_can_be_dropped(state: SqliteState) -> None:
    for scope in (ANN, BEN):
        await save(state, scope, "a")
    await state.drop_from_blocks(ANN, None)
    assert [await found(state, scope, "a") for scope in (ANN, BEN)] == [{}, {"a": LINES}]


async def test_a_block_read_before_an_erasure_is_not_kept_after_it(state: SqliteState) -> None:
    erasures = (await state.find_blocks(ANN, ["a"])).erasures
    await state.drop_from_blocks(ANN, ["m1"])
    assert not await state.save_block(ANN, "a", LINES, erasures=erasures, at=NOON)
    assert await found(state, ANN, "a") == {}


@pytest.mark.parametrize("session", ["s1", None])
async def test_forgetting_is_an_erasure(state: SqliteState, session: str | None) -> None:
    await save(state, ANN, "a")
    erasures = (await state.find_blocks(ANN, ["a"])).erasures
    await state.forget(ANN, session=session)
    assert await found(state, ANN, "a") == {}
    assert not await state.save_block(ANN, "a", LINES, erasures=erasures, at=NOON)


async def test_erased_lines_are_not_left_in_the_files(state: SqliteState, file: Path) -> None:
    await save(state, ANN, "a", SECRET)
    await state.forget(ANN, session=None)
    assert all(b"xyzzy" not in path.read_bytes() for path in file.parent.iterdir())


async def test_a_session_keeps_its_newest_blocks_only(state: SqliteState) -> None:
    count = state_sessions.BLOCKS_PER_SESSION + 3
    for number in range(count):
        at = NOON + timedelta(seconds=number)
        await state.save_block(ANN, f"b{number}", SECRET, erasures=0, at=at)
    left = await found(state, ANN, *(f"b{number}" for number in range(count)))
    assert set(left) == {f"b{number}" for number in range(3, count)}


async def test_old_blocks_are_pruned(state: SqliteState, file: Path) -> None:
    await save(state, ANN, "a")
    await state.save_block(ANN, "b", LINES, erasures=0, at=NOON + timedelta(days=2))
    with closing(sqlite3.connect(file, isolation_level=None, factory=SqliteDb)) as db:
        driven(state_sessions.prune_blocks(db, NOON + state_sessions.BLOCKS_KEPT + timedelta(days=1)))
    assert set(await found(state, ANN, "a", "b")) == {"b"}


async def test_a_state_goes_as_a_whole_with_the_first_turn_that_it_rests_on(state: SqliteState) -> None:
    rests_on = [BlockLine(text=RESTS_ON, memory_id=f"t{number}") for number in range(40)]
    kept = [BlockLine(text='{"topic":"xyzzy"}'), *rests_on]
    for scope, lines in ((ANN, kept), (BEN, kept), (OTHER_SESSION, [kept[0], rests_on[1]])):
        assert await save(state, scope, STATE, lines)
    await save(state, ANN, "a")
    await state.drop_from_blocks(ANN, ["t7"])
    assert await found(state, ANN, STATE, "a") == {"a": LINES}
    assert await found(state, OTHER_SESSION, STATE) == {STATE: [kept[0], rests_on[1]]}
    assert await found(state, BEN, STATE) == {STATE: kept}
    await state.drop_from_blocks(ANN, ["t1"])
    assert await found(state, OTHER_SESSION, STATE) == {}
