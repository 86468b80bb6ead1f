"""Whose memories have an index, when it is made, told, dropped, and what of it answers a search."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memproxy.core.scope import Scope
from memproxy.errors import StoreUnavailable
from memproxy.ports import HybridQuery, MemoryFilter, Point, SparseVector
from memproxy.stores.edge import EdgeStore
from memproxy.stores.filters import readable
from memproxy.stores.owner_index import CHUNK, SEARCHES
from memproxy.stores.payload import RecentMemories, point_id_of
from memproxy.tasks import TaskOwner
from tests.stores.indexing import (
    DIMENSION,
    EVERYTHING,
    answered_from_memory,
    compare,
    indexed,
    indexes_of,
    made,
    opened,
    same,
    simple,
    vector,
    warm,
    words,
)
from tests.stores.making import ANN, BEN, FOREIGN_ANN, NOON, memory, turn
from tests.stores.reindexing import Lengths, fill, people, reindexed
from tests.stores.states import encrypted
from tests.support.emptied import EmptiedStore
from tests.support.opening import opening


async def test_owners_with_the_same_memories_never_see_each_others() -> None:
    async with opened() as store:
        for scope in (ANN, BEN, FOREIGN_ANN):
            await store.upsert(
                scope, [Point(memory=turn("t", scope, content=f"of {scope.owner}"), dense=[vector(1)], bm25=words(3))]
            )
            await warm(store, scope)
        before = answered_from_memory()
        for scope in (ANN, BEN, FOREIGN_ANN):
            found = await store.search(scope, HybridQuery(dense=vector(1), bm25=words(3), limit=9))
            assert [one.memory.content for one in found] == [f"of {scope.owner}"]
        assert answered_from_memory() == before + 3
        await store.set_fields(BEN, {"t": {"active": False}})
        active = HybridQuery(dense=vector(1), where=MemoryFilter(active=True))
        assert [len(await store.search(scope, active)) for scope in (ANN, BEN, FOREIGN_ANN)] == [1, 0, 1]


async def test_what_is_written_while_an_index_is_made_is_in_it(stores: tuple[EdgeStore, EdgeStore]) -> None:
    one = stores[0]
    points = simple(12 * CHUNK)
    for store in stores:
        await store.upsert(ANN, points)
    owner, during = TaskOwner("test"), 0
    indexes_of(one)._chunk = 4
    for _ in range(SEARCHES):
        await one.search(ANN, HybridQuery(bm25=SparseVector([1], [1.0])))
    settling = owner.start(one.settle(), "settle")
    for store in stores:
        for place in range(0, 300, 30):
            await store.upsert(ANN, [msgspec.structs.replace(points[place], dense=[vector(-place - 1 + 10**6)])])
            await store.upsert(ANN, [Point(memory=memory(f"new{place}"), dense=[vector(place + 7)], bm25=words(place))])
            await store.set_fields(ANN, {f"m{at}": {"active": False} for at in range(place, 12 * CHUNK, 31)})
            await store.delete(ANN, MemoryFilter(ids=(f"m{place + 1}", f"m{place + 400}")))
            during += store is one and not settling.done()
    await settling
    assert during
    assert indexed(one)
    for seed, where in enumerate((MemoryFilter(), MemoryFilter(active=True), MemoryFilter(active=False))):
        await compare(*stores, ANN, where, seed)


@pytest.mark.parametrize("action", ["put", "change", "delete"])
async def test_a_write_whose_caller_leaves_does_not_leave_the_index_wrong(action: str) -> None:
    async with opened() as store:
        for scope in (BEN, ANN):
            await store.upsert(scope, simple(40, scope))
            await warm(store, scope)
        backend, mine = store._points, readable(ANN, MemoryFilter(ids=("m1",)))
        assert backend is not None
        (place,) = [one.id for one in await backend.scroll(mine, limit=9, fields=["id"])]
        writes: dict[str, Coroutine[Any, Any, Any]] = {
            "put": backend.upsert([store.written(msgspec.structs.replace(simple(2)[1], dense=[vector(99)]))]),
            "change": backend.set_payload([place], {"active": False}, ANN.owner),
            "delete": backend.delete(mine),
        }
        task = TaskOwner("test").start(writes.pop(action), "write")
        for other in writes.values():
            other.close()
        await asyncio.sleep(0)  # it waits for the engine now
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not indexed(store)
        assert indexed(store, BEN)
        query = HybridQuery(dense=vector(1), bm25=words(2), limit=EVERYTHING, where=MemoryFilter(active=True))
        await store.count(ANN, MemoryFilter())  # what the engine has begun is done before this
        from_engine = await store.search(ANN, query)
        await warm(store)
        assert indexed(store)
        same(await store.search(ANN, query), from_engine)


async def test_those_searched_longest_ago_make_room() -> None:
    async with opened(index_bytes=400_000) as store:
        indexes_of(store)._keep_s = 0.0
        people_ = [Scope(tenant="acme", user=f"u{number}") for number in range(4)]
        for scope in people_:
            await store.upsert(scope, simple(150, scope))
        for scope in people_:
            await warm(store, scope)
            assert indexed(store, scope)
            assert indexes_of(store).nbytes <= 400_000
        assert not indexed(store, people_[0])
        indexes_of(store)._keep_s = 60.0
        await warm(store, people_[0])
        assert not indexed(store, people_[0])  # all others were searched just now


async def test_an_owner_who_is_too_much_is_left_to_the_engine() -> None:
    async with opened(index_bytes=100_000) as store:
        points = simple(200)
        await store.upsert(ANN, points[:60])
        await warm(store)
        assert indexed(store)
        await store.upsert(ANN, points)
        assert not indexed(store)
        await warm(store)
        assert not indexed(store)
        assert len(await store.search(ANN, HybridQuery(dense=vector(1), limit=EVERYTHING))) == 200
        assert await store.delete(ANN, MemoryFilter()) == 200
        await store.upsert(ANN, points[:60])
        await warm(store)
        assert indexed(store)


async def test_conditions_that_are_not_indexed_are_the_engines(stores: tuple[EdgeStore, EdgeStore]) -> None:
    for store in stores:
        await store.upsert(ANN, [made(seed, ANN) for seed in range(60)])
    await warm(stores[0])
    before = answered_from_memory()
    await compare(*stores, ANN, MemoryFilter(tags=("red",)), 3)
    assert answered_from_memory() == before
    await compare(*stores, ANN, MemoryFilter(active=True), 3)
    assert answered_from_memory() > before


@pytest.mark.parametrize("where", [MemoryFilter(), MemoryFilter(ids=tuple(f"m{n}" for n in range(99)))])
async def test_after_an_erasure_nothing_of_the_user_is_held(where: MemoryFilter) -> None:
    async with opened() as store:
        await store.upsert(ANN, [made(seed, ANN) for seed in range(40)])
        await warm(store)
        await store.search(BEN, HybridQuery(dense=vector(1)))
        await store.delete(ANN, where)
        assert await store.search(ANN, HybridQuery(dense=vector(1), bm25=words(1))) == []
        held = indexes_of(store)
        assert ANN.owner not in held._indexes
        if where == MemoryFilter():
            await store.delete(ANN, MemoryFilter())
            assert ANN.owner not in {**held._searches, **held._queue}


async def test_after_a_reindex_the_new_points_are_searched(tmp_path: Path) -> None:
    async with opening(EdgeStore(tmp_path / "store", dimension=4, embedder_name="test:4", lull_s=0), None) as store:
        await fill(store, people(), Lengths(4))
        await warm(store)
        assert indexed(store)
        await reindexed(store, Lengths(4))
        assert not indexed(store)
        await warm(store)
        dense = (await Lengths(4).embed_question("word3")).vector
        before = answered_from_memory()
        found = await store.search(ANN, HybridQuery(dense=dense, limit=EVERYTHING))
        assert len(found) == await store.count(ANN, MemoryFilter())
        assert answered_from_memory() == before + 1


async def test_files_that_are_gone_are_noticed_by_a_search_in_memory_too(tmp_path: Path) -> None:
    async with opening(EdgeStore(tmp_path / "store", dimension=DIMENSION, embedder_name=None, lull_s=0), None) as store:
        await store.upsert(ANN, [made(seed, ANN) for seed in range(40)])
        await warm(store)
        await store.search(ANN, HybridQuery(dense=vector(1)))  # nothing need be read again
        (tmp_path / "store").rename(tmp_path / "away")
        with pytest.raises(StoreUnavailable, match="gone"):
            await store.search(ANN, HybridQuery(dense=vector(1)))
        (tmp_path / "away").rename(tmp_path / "store")


async def test_what_expires_by_its_tenants_time_is_not_found_in_memory() -> None:
    store = EmptiedStore(dimension=DIMENSION, embedder_name=None)
    store.expire_after(lambda _: timedelta(seconds=10))
    await store.open(None)
    await store.upsert(ANN, simple(8))
    await warm(store)
    before = answered_from_memory()
    where = MemoryFilter(now=NOON + timedelta(seconds=14))
    found = await store.search(ANN, HybridQuery(dense=vector(1), where=where))
    assert {one.memory.id for one in found} == {"m5", "m6", "m7"}
    assert answered_from_memory() == before + 1
    await store.close()


async def test_encrypted_memories_are_found_in_memory_and_read_in_the_clear(tmp_path: Path) -> None:
    async with encrypted(EmptiedStore(dimension=DIMENSION, embedder_name=None), tmp_path) as (store, _):
        await store.upsert(ANN, simple(8))
        await warm(store)
        before = answered_from_memory()
        found = await store.search(ANN, HybridQuery(dense=vector(1), limit=1))
        assert [one.memory.content for one in found] == ["content of m1"]
        assert answered_from_memory() == before + 1
        by_slot = await store.search(ANN, HybridQuery(dense=vector(1), where=MemoryFilter(slots=("slot2",))))
        assert [one.memory.id for one in by_slot] == ["m2"]


async def test_memories_of_an_index_are_read_before_they_are_found() -> None:
    async with opened() as store:
        await store.upsert(ANN, simple(3 * CHUNK + 1))
        assert not store._lately.get(places := [point_id_of(one.memory) for one in simple(3 * CHUNK + 1)])
        await warm(store)
        assert sorted(store._lately.get(places)) == sorted(places)


async def test_reading_ahead_leaves_what_others_read() -> None:
    async with opened() as store:
        store._lately = store._recent = RecentMemories(most=3 * CHUNK)
        await store.upsert(BEN, [Point(memory=memory("his", BEN), dense=[vector(1)], bm25=words(1))])
        await store.search(BEN, HybridQuery(dense=vector(1)))
        await store.upsert(ANN, simple(3 * CHUNK))
        await warm(store)
        ahead = store._lately.get([point_id_of(one.memory) for one in simple(3 * CHUNK)])
        assert CHUNK < len(ahead) < 3 * CHUNK - 1
        assert store._lately.get([point_id_of(memory("his", BEN))])
