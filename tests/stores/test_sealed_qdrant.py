"""Encryption above a Qdrant collection (the client's local mode): no text in its files, all of it read back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from qdrant_client import AsyncQdrantClient

from memproxy.core.memory import Memory, Relation
from memproxy.ports import HybridQuery, MemoryFilter
from memproxy.stores.qdrant import QdrantStore
from memproxy.stores.state_sealed import SealedState
from tests.retention.residue import residue
from tests.stores.making import ANN, BEN, DIMENSION, WORDS, memory, point
from tests.stores.states import encrypted

EAST, NORTH = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
TEXT = "Zebulonia plays the theremin in Ouagadougou"
SAID = ("theremin-lessons", "Zebulonia Quarterly", "ouagadougou-trip", TEXT)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[QdrantStore, SealedState]]:
    client = AsyncQdrantClient(path=str(folder / "qdrant"))
    store = QdrantStore(url=None, api_key=None, collection="m", dimension=DIMENSION, embedder_name=None, client=client)
    async with encrypted(store, folder) as both:
        yield both
    await client.close()


def said() -> Memory:
    relation = Relation(subject="Zebulonia Quarterly", predicate="prints", object=TEXT)
    return memory(
        "m1",
        content=TEXT,
        tags=["theremin-lessons"],
        entities=["Zebulonia Quarterly"],
        category="ouagadougou-trip",
        subject="Zebulonia Quarterly",
        slot="zebulonia|theremin",
        relations=[relation],
    )


async def test_encrypted_memories_on_qdrant_are_read_filtered_and_found_as_plain_ones(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, _):
        other = memory("m2", content="tea", tags=["drinks"], category="kitchen")
        await store.upsert(ANN, [point(said(), EAST), point(other, NORTH)])
        await store.upsert(BEN, [point(memory("b1", BEN, content=TEXT, tags=["theremin-lessons"]), EAST)])
    async with opened(tmp_path) as (store, _):  # the data keys come from the state's file
        assert (await store.get(ANN, ["m1"]))["m1"] == said()
        filters = (
            MemoryFilter(tags=("theremin-lessons",)),
            MemoryFilter(entities=("Zebulonia Quarterly",)),
            MemoryFilter(categories=("ouagadougou-trip",)),
            MemoryFilter(slots=("zebulonia|theremin",)),
        )
        for where in filters:
            page = await store.page(ANN, where, limit=10)
            assert [one.id for one in page.memories] == ["m1"], where
            found = await store.search(ANN, HybridQuery(dense=NORTH, bm25=WORDS, where=where))
            assert [one.memory for one in found] == [said()], where
        assert await store.count(BEN, filters[0]) == 1


async def test_a_change_of_an_encrypted_memory_on_qdrant_is_encrypted_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, _):
        await store.upsert(ANN, [point(memory("m1", content="tea", tags=["drinks"]), EAST)])
        await store.set_fields(ANN, {"m1": {"content": TEXT, "tags": ["theremin-lessons"], "confidence": 0.5}})
        (one,) = (await store.page(ANN, MemoryFilter(tags=("theremin-lessons",)), limit=10)).memories
        assert (one.content, one.confidence) == (TEXT, 0.5)
        assert await store.count(ANN, MemoryFilter(tags=("drinks",))) == 0
    assert residue(SAID, tmp_path) == []


async def test_without_its_users_key_nothing_of_a_collection_can_be_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, state):
        await store.upsert(ANN, [point(said(), EAST)])
        await store.upsert(BEN, [point(memory("b1", BEN, content="Ben likes tea"), EAST)])
        assert residue(SAID, tmp_path) == []
        await state.destroy_key(ANN)
        assert await store.get(ANN, ["m1"]) == {}
        assert [one.memory.id for one in await store.search(BEN, HybridQuery(dense=EAST))] == ["b1"]
        assert await store.search(ANN, HybridQuery(dense=EAST)) == []
