"""Which memories go first: by the documented score, history before what holds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.memory import Kind, Memory
from memproxy.core.retention import EXPIRED, OVER_LIMIT, Policy, batches, due, is_history, score

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def memory(name: str = "m", **fields: Any) -> Memory:
    base: dict[str, Any] = {
        "id": name,
        "tenant": "acme",
        "user_id": "ann",
        "kind": Kind.SEMANTIC,
        "content": name,
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Memory(**(base | fields))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0.40 + 0.35),
        ({"confidence": 0.5}, 0.20 + 0.35),
        ({"updated_at": NOON - timedelta(hours=24)}, 0.40 + 0.175),
        ({"updated_at": NOON - timedelta(hours=48)}, 0.40 + 0.0875),
        ({"updated_at": NOON - timedelta(hours=48), "last_accessed_at": NOON - timedelta(hours=24)}, 0.40 + 0.175),
        ({"access_count": 5}, 0.40 + 0.35 + 0.125),
        ({"access_count": 10}, 0.40 + 0.35 + 0.25),
        ({"access_count": 1000}, 0.40 + 0.35 + 0.25),
        ({"importance": 1.0}, 0.75 + 0.10),
        ({"importance": 0.0}, 0.75 - 0.10),
        ({"metadata": {"feedback": {"helpful": 3}}}, 0.75 + 0.20 * 3 / 4),
        ({"metadata": {"feedback": {"wrong": 1}}}, 0.75 - 0.20 / 2),
        ({"metadata": {"feedback": "not ours"}}, 0.75),
        ({"kind": Kind.TURN}, 0.20 + 0.35),
    ],
)
def test_the_score_is_the_documented_one(fields: dict[str, Any], expected: float) -> None:
    assert score(memory(**fields), now=NOON) == pytest.approx(expected)


def test_history_goes_before_what_holds_however_low_that_scores() -> None:
    memories = [
        memory("low", confidence=0.1, updated_at=NOON - timedelta(days=400)),
        memory("ended", active=False),
        memory("stale turn", kind=Kind.TURN, superseded_by="x"),
        memory("fresh"),
    ]
    gone = due(memories, Policy(most=2), now=NOON)
    assert [(one.memory.id, one.reason) for one in gone] == [("stale turn", OVER_LIMIT), ("ended", OVER_LIMIT)]
    assert [one.memory.id for one in due(memories, Policy(most=1), now=NOON)][-1] == "low"


def test_what_has_expired_goes_whatever_the_limit() -> None:
    memories = [memory("old", expires_at=NOON), memory("later", expires_at=NOON + timedelta(seconds=1)), memory("ever")]
    gone = due(memories, Policy(), now=NOON)
    assert [(one.memory.id, one.reason) for one in gone] == [("old", EXPIRED)]
    assert len(due(memories, Policy(most=2), now=NOON)) == 1, "what has expired is not counted"


some_memories = st.lists(
    st.builds(
        lambda number, **fields: memory(str(number), **fields),
        st.integers(),
        confidence=st.floats(0, 1),
        importance=st.floats(0, 1),
        access_count=st.integers(0, 30),
        active=st.booleans(),
        updated_at=st.integers(0, 10_000).map(lambda hours: NOON - timedelta(hours=hours)),
        expires_at=st.none() | st.integers(-5, 5).map(lambda hours: NOON + timedelta(hours=hours)),
    ),
    max_size=40,
    unique_by=lambda one: one.id,
)


@given(some_memories, st.integers(0, 40))
def test_exactly_what_is_over_the_limit_goes(memories: list[Memory], most: int) -> None:
    gone = due(memories, Policy(most=most), now=NOON)
    names = {one.memory.id for one in gone}
    assert len(names) == len(gone)
    expired = {one.id for one in memories if one.expires_at is not None and one.expires_at <= NOON}
    assert {one.memory.id for one in gone if one.reason == EXPIRED} == expired
    left = [one for one in memories if one.id not in names]
    assert len(left) == min(most, len(memories) - len(expired))
    if any(is_history(one) for one in left):
        assert all(is_history(one.memory) for one in gone if one.reason == OVER_LIMIT)


@given(some_memories)
def test_batches_hold_each_once_and_no_two_reasons(memories: list[Memory]) -> None:
    gone = due(memories, Policy(most=3), now=NOON)
    made = batches(gone, 7)
    assert sorted(one.memory.id for batch in made for one in batch) == sorted(one.memory.id for one in gone)
    assert all(len(batch) <= 7 and len({one.reason for one in batch}) == 1 for batch in made)
