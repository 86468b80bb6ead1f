"""What the state keeps about callers: a file of before it, counting by several processes, and news of choices."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memproxy.core.choices import NOTHING_CHOSEN, Choices
from memproxy.core.scope import Scope
from memproxy.ports import Charge, GivenAnswer
from memproxy.stores.sqlite_state import SqliteState
from tests.stores.states import opened_state

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
ANN = Scope(tenant="acme", user="ann")
TURNS = Charge(tenant="acme", user="ann", what="turns", seconds=60, limit=3)


@pytest.fixture
async def states(tmp_path: Path) -> AsyncIterator[list[SqliteState]]:
    """The same file, opened as by three processes, one of which lets another one write."""
    async with AsyncExitStack() as open_ones:
        ways = ("sqlite", "apart", "sqlite")
        yield [await open_ones.enter_async_context(opened_state(tmp_path / "state.db", way)) for way in ways]


async def test_processes_count_together(states: list[SqliteState]) -> None:
    over = await asyncio.gather(*(states[n % 3].spend([TURNS], NOW) for n in range(12)))
    assert sum(one is None for one in over) == 3
    assert {(one.charge.what, one.used, one.wait_s) for one in over if one} == {("turns", 3, 60)}


async def test_a_window_begins_with_its_first_use_and_ends(states: list[SqliteState]) -> None:
    state = states[0]
    assert await state.spend([TURNS], NOW) is None
    later = NOW + timedelta(seconds=59)
    assert ((await state.spent(TURNS, later)).used, (await state.spent(TURNS, later)).wait_s) == (1, 1)
    assert (await state.spent(TURNS, NOW + timedelta(seconds=60))).used == 0
    many = Charge(tenant="acme", user="ann", what="turns", seconds=60, amount=3, limit=3)
    assert await state.spend([many], later) is not None
    assert await state.spend([many], NOW + timedelta(seconds=60)) is None


async def test_charges_count_all_or_none(states: list[SqliteState]) -> None:
    wide = Charge(tenant="acme", what="turns", seconds=60, limit=100)
    for _ in range(3):
        assert await states[0].spend([wide, TURNS], NOW) is None
    assert await states[0].spend([wide, TURNS], NOW) is not None
    assert (await states[0].spent(wide, NOW)).used == 3
    other = Charge(tenant="acme", user="ben", what="turns", seconds=60, limit=3)
    assert await states[0].spend([other], NOW) is None


async def test_every_process_knows_changed_choices_at_once(states: list[SqliteState]) -> None:
    coder = Scope(tenant="acme", user="ann", agent="coder")
    for n, mode in enumerate(["off", "read", "write", "on", None, "off"] * 5):
        await states[n % 3].choose(ANN, Choices(mode=mode), NOW)
        assert [(await state.choices(ANN)).mode for state in states] == [mode] * 3
        assert [(await state.choices(coder)).mode for state in states] == [mode] * 3
    await states[0].choose(coder, Choices(mode="on"), NOW)
    assert [(await state.choices(coder)).mode for state in states] == ["on"] * 3
    assert (await states[1].choices(ANN)).mode == "off"


async def test_sessions_of_whom_nothing_may_be_learned_are_not_due(states: list[SqliteState]) -> None:
    state = states[0]
    coder = Scope(tenant="acme", user="ann", agent="coder", session="s2")
    for scope in (Scope(tenant="acme", user="ann", session="s1"), coder):
        await state.note_turns(scope, count=3, at=NOW)

    async def due() -> set[str | None]:
        found = await state.due_sessions(every=1, idle_before=NOW, limit=10)
        return {one.scope.session for one in found}

    assert await due() == {"s1", "s2"}
    await state.choose(ANN, Choices(learning=False), NOW)
    assert await due() == set()
    await state.choose(Scope(tenant="acme", user="ann", agent="coder"), Choices(learning=True), NOW)
    assert await due() == {"s2"}
    await state.choose(ANN, NOTHING_CHOSEN, NOW)
    assert await due() == {"s1", "s2"}


async def test_old_answers_go(states: list[SqliteState]) -> None:
    state = states[0]
    await state.keep_answer(ANN, "a", GivenAnswer(request_digest="x", at=NOW, answer=b"1"))
    await state.keep_answer(ANN, "b", GivenAnswer(request_digest="x", at=NOW + timedelta(hours=25), answer=b"2"))
    assert await state.given_answer(ANN, "a") is None
    assert await state.given_answer(Scope(tenant="acme", user="ben"), "b") is None
    await state.erase_answers(ANN)
    kept = await state.given_answer(ANN, "b")
    assert kept is not None
    assert (kept.answer, kept.erased) == (None, True)
    await state.forget(ANN, session=None)
    assert await state.given_answer(ANN, "b") is None


async def test_what_an_experiment_counted_is_told_by_digest_and_goes_with_its_user(states: list[SqliteState]) -> None:
    counts = [
        Charge(tenant=tenant, user=user, what=what, seconds=10**8, amount=amount)
        for tenant, user, what, amount in (
            ("acme", "ann", "arm/0.1/memory/requests", 3),
            ("acme", "ben", "arm/0.1/holdout/requests", 2),
            ("acme", "ben", "arm/0.2/holdout/requests", 5),
            ("other", "ann", "arm/0.1/memory/requests", 7),
            ("acme", "ann", "turns", 1),
        )
    ]
    for _ in range(2):
        assert await states[1].spend(counts, NOW) is None
    found = await states[0].uses("acme", "arm/0.1/")
    assert sorted((use.what, use.used) for use in found) == [
        ("arm/0.1/holdout/requests", 4),
        ("arm/0.1/memory/requests", 6),
    ]
    assert not {use.who for use in found} & {"ann", "ben"}
    await states[1].forget(ANN, session=None)
    assert [use.what for use in await states[0].uses("acme", "arm/0.1/")] == ["arm/0.1/holdout/requests"]
    assert [use.used for use in await states[0].uses("other", "arm/")] == [14]
    assert (await states[0].spent(TURNS, NOW)).used == 2
