"""Opening a memory store again: the same one, another one, another embedder."""

from typing import Any

import pytest

from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.ports import HybridQuery
from tests.stores.making import ANN, WORDS, memory, point
from tests.stores.opening import OpenStore

EAST = [1.0, 0.0, 0.0, 0.0]


async def test_what_is_flushed_is_there_after_reopening_under_the_same_name(open_store: OpenStore) -> None:
    async with open_store() as first:
        await first.upsert(ANN, [point(memory("m"), EAST)])
        await first.flush()
    async with open_store() as again:
        (found,) = await again.search(ANN, HybridQuery(dense=EAST, bm25=WORDS))
        assert found.memory == memory("m")
        assert await again.points() == 1


async def test_opening_again_what_is_open_finds_what_was_there(open_store: OpenStore) -> None:
    told: list[str] = []
    async with open_store(told=told) as store:
        await store.upsert(ANN, [point(memory("m"), EAST)])
        assert await store.open(told[0]) == told[0]  # as an engine does when what comes after the opening failed
        assert await store.points() == 1


async def test_a_stores_name_stays_and_another_is_refused(open_store: OpenStore) -> None:
    told: list[str] = []
    for _ in range(2):
        async with open_store(told=told, expected_id=told[0] if told else None):
            pass
    assert len(set(told)) == 1
    with pytest.raises(StoreUnavailable, match="remove the state file"):
        async with open_store(expected_id="another"):
            pass


async def test_an_expected_store_that_is_not_there_is_not_replaced_by_an_empty_one(open_store: OpenStore) -> None:
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="remove the state file"):
            async with open_store(expected_id="was-here"):
                pass


@pytest.mark.parametrize("other", [{"dimension": 8}, {"embedder": "test:other"}, {"dimension": 8, "embedder": None}])
async def test_another_embedder_is_refused_with_the_command_that_helps(
    open_store: OpenStore, other: dict[str, Any]
) -> None:
    async with open_store():
        pass
    with pytest.raises(ConfigError, match="memproxy reindex"):
        async with open_store(**other):
            pass


async def test_no_embedder_is_no_mismatch_and_the_first_one_is_remembered(open_store: OpenStore) -> None:
    async with open_store(embedder=None):
        pass
    async with open_store(embedder="test:model"):
        pass
    async with open_store(embedder=None):
        pass
    with pytest.raises(ConfigError, match="test:model"):
        async with open_store(embedder="test:other"):
            pass
