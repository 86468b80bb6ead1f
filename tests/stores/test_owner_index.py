"""Searches that are answered from memory find what the engine finds, after whatever was written."""

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memproxy.ports import HybridQuery, MemoryFilter, Point, SparseVector
from memproxy.stores.backend import Scores, Stored
from memproxy.stores.edge import EdgeStore
from memproxy.stores.filters import Where
from memproxy.stores.owner_index import NotHere, OwnerIndex, _best
from tests.stores.indexing import STEPS, answered_from_memory, asked, compare, indexed, made, step, told, vector, warm
from tests.stores.making import ANN, NOON, turn


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate),
)
@given(first=st.integers(0, 10_000), steps=st.lists(STEPS, min_size=4, max_size=14))
async def test_after_any_writes_a_search_finds_the_same_with_and_without_an_index(
    stores: tuple[EdgeStore, EdgeStore], first: int, steps: list[tuple[str, int]]
) -> None:
    one, other = stores
    for store in stores:
        await store.delete(ANN, MemoryFilter())
        await store.upsert(ANN, [made(first + place, ANN) for place in range(40)])
    await warm(one)
    assert indexed(one)
    for number, (action, what) in enumerate(steps):
        for store in stores:
            await step(store, action, what)
        scope, where = asked(what) if action == "ask" else (ANN, MemoryFilter())
        await compare(one, other, scope, where, first + number)
    await warm(one)
    before = answered_from_memory()
    await compare(one, other, ANN, MemoryFilter(active=True, quarantined=False, now=NOON), first)
    assert answered_from_memory() > before or not await one.count(ANN, MemoryFilter())


async def test_two_turns_of_one_id_and_session_are_compared_each_with_itself(
    stores: tuple[EdgeStore, EdgeStore],
) -> None:
    for store in stores:
        turns = [turn("m1", ANN, session_id=f"s{number}", metadata={"drawn": number}) for number in range(2)]
        weights = SparseVector(list(range(12)), [1.0] * 12)
        await store.upsert(
            ANN,
            [Point(memory=one, dense=dense, bm25=weights) for one, dense in zip(turns, ([vector(1)], []), strict=True)],
        )
        await store.set_fields(msgspec.structs.replace(ANN, session=None), {"m1": {"session_id": None}})
    await warm(stores[0])
    assert len(told(await stores[0].search(ANN, HybridQuery(bm25=weights)))) == 2
    for seed in range(3):
        await compare(*stores, ANN, MemoryFilter(), seed)


def test_the_greatest_come_first_and_of_equal_ones_the_first() -> None:
    random = np.random.default_rng(5)
    for _ in range(50):
        scores = random.integers(0, 30, random.integers(0, 300)).astype(np.float32)
        allowed, count = random.random(len(scores)) < 0.8, int(random.integers(1, 20))
        best = sorted((row for row in range(len(scores)) if allowed[row]), key=lambda row: (-scores[row], row))
        assert _best(scores, allowed, count) == best[:count]


def test_what_is_written_again_and_again_is_made_anew_before_old_rows_take_much() -> None:
    index = OwnerIndex(ANN.owner, 4)
    one = Stored("p", {"tenant": "acme", "user_id": "ann", "id": "m"}, [[1.0, 0, 0, 0]], SparseVector([3], [1.0]))
    for _ in range(514):
        index.put([one])
        assert index.mask(Where(())).sum() == 1
    with pytest.raises(NotHere):
        index.put([one])


def test_of_what_is_gone_by_now_no_scores_are_left() -> None:
    scores = Scores(point_ids=["a", "b", "c"], dense=[0.1, None, 0.3], bm25=[1.0, 2.0, None])
    assert scores.of({"a", "c"}) == Scores(point_ids=["a", "c"], dense=[0.1, 0.3], bm25=[1.0, None])
