"""Records of dreams as any state keeps them: one open at a time, newest first, taken up again, gone with their user."""

from datetime import timedelta

from memproxy.core.dream import DONE, Action, Change, Dream
from memproxy.ports import StateStore
from tests.stores.making import ANN, BEN, NOON

LATER = NOON + timedelta(minutes=3)


def dream(name: str) -> Dream:
    return Dream(id=name, trigger="call", created_at=NOON, notes=["told"], counts={"merge": 2})


async def test_a_user_has_one_open_dream_and_the_record_is_read_as_it_was_put(state: StateStore) -> None:
    first = dream("dream_1")
    assert await state.begin_dream(ANN, first)
    assert not await state.begin_dream(ANN, dream("dream_2"))
    assert await state.begin_dream(BEN, dream("dream_1")), "of another user"
    first.state, first.ended_at, first.cursor, first.tokens = DONE, LATER, "there", (5, 7)
    first.changes = [Change(action=Action.MERGE, reason="near", memory_id="mem_1", sources=("mem_2", "mem_3"))]
    assert await state.put_dream(ANN, first)
    assert await state.dream(ANN, "dream_1") == first
    assert await state.begin_dream(ANN, dream("dream_2"))
    assert not await state.put_dream(ANN, dream("dream_9")), "it was never begun"
    assert (await state.dream(BEN, "dream_2"), await state.dream(ANN, "dream_9")) == (None, None)


async def test_dreams_are_listed_newest_first_by_user(state: StateStore) -> None:
    for number in range(3):
        one = dream(f"dream_{number}")
        await state.begin_dream(ANN, one)
        one.state = DONE
        await state.put_dream(ANN, one)
    assert [one.id for one in await state.dreams(ANN, after=0, limit=9)] == ["dream_2", "dream_1", "dream_0"]
    assert [one.id for one in await state.dreams(ANN, after=1, limit=1)] == ["dream_1"]
    assert await state.dreams(BEN, after=0, limit=9) == []


async def test_an_open_dream_is_taken_up_by_one_when_nobody_works_on_it(state: StateStore) -> None:
    one = dream("dream_1")
    await state.begin_dream(ANN, one)
    await state.put_dream(ANN, one, due=LATER)
    assert await state.take_up_dreams(NOON, LATER) == [], "somebody works on it"
    (scope,) = await state.take_up_dreams(LATER, LATER + timedelta(minutes=3))
    assert scope.owner == ANN.owner
    assert await state.take_up_dreams(LATER, LATER + timedelta(minutes=3)) == [], "it is taken up already"
    one.state = DONE
    await state.put_dream(ANN, one)
    assert await state.take_up_dreams(LATER + timedelta(days=9), LATER + timedelta(days=10)) == []


async def test_a_users_records_go_with_the_user(state: StateStore) -> None:
    for scope in (ANN, BEN):
        await state.begin_dream(scope, dream("dream_1"))
    await state.forget(ANN, session=None)
    assert await state.dream(ANN, "dream_1") is None
    assert await state.dream(BEN, "dream_1") is not None
    assert await state.begin_dream(ANN, dream("dream_1")), "what was open is over"
