"""Searches that are answered from memory find what the engine finds, after whatever was written."""

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memproxy.ports import HybridQuery, MemoryFilter, Point, SparseVector
from memproxy.stores.backend import Scores
from memproxy.stores.edge import EdgeStore
from memproxy.stores.owner_index import Vectors, greatest, unit
from tests.stores.indexing import (
    CLOSE,
    STEPS,
    answered_from_memory,
    asked,
    compare,
    indexed,
    made,
    step,
    told,
    vector,
    warm,
)
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


@pytest.mark.parametrize("dimension", [384, 100])
def test_the_nearest_of_thousands_are_those_that_a_comparison_of_all_finds(dimension: int) -> None:
    random, vectors = np.random.default_rng(5), Vectors()
    centres = random.standard_normal((40, dimension))
    rows = np.arange(12_000) % 10_000  # some have two
    drawn = centres[rows % 40] + 0.5 * random.standard_normal((len(rows), dimension))
    vectors.put(rows.tolist(), drawn.tolist())
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    allowed = rows[:10_000] % 11 != 0
    for place in range(10):
        query = unit((centres[place] + 0.5 * random.standard_normal(dimension)).tolist())
        best = np.full(10_000, -1.0)
        np.maximum.at(best, rows, drawn @ query)
        found = vectors.nearest(query, allowed, 20)
        assert allowed[list(found)].all()
        nearest = np.sort(np.where(allowed, best, -1))[::-1][:20]
        assert [best[row] for row in found] == pytest.approx(nearest.tolist(), abs=2e-5)
        assert list(found.values()) == pytest.approx([best[row] for row in found], abs=CLOSE)
        some = vectors.of([1, 2, 9_999], query)
        assert some == pytest.approx({row: best[row] for row in (1, 2, 9_999)}, abs=CLOSE)


@given(st.lists(st.integers(0, 30), max_size=300), st.integers(1, 20))
def test_the_greatest_come_first_and_of_equal_ones_the_first(values: list[int], count: int) -> None:
    scores = np.array(values, np.float32)
    chosen = greatest(scores, count)
    assert scores[chosen].tolist() == sorted(values, reverse=True)[:count]
    assert len(set(chosen.tolist())) == min(count, len(values))


def test_of_what_is_gone_by_now_no_scores_are_left() -> None:
    scores = Scores(places=["a", "b", "c"], dense=[0.1, None, 0.3], bm25=[1.0, 2.0, None])
    assert scores.of({"a", "c"}) == Scores(places=["a", "c"], dense=[0.1, 0.3], bm25=[1.0, None])
