"""A store is written anew for another embedder: nothing is lost, doubled or brought back, whatever happens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from memproxy.core.scope import Scope
from memproxy.errors import ConfigError, EmbedderUnavailable
from memproxy.ports import MemoryFilter, Point, RebuildableStore
from tests.stores.making import ANN, BEN, memory, turn
from tests.stores.making import WORDS as WORDS_OF_ALL
from tests.stores.opening import OpenStore, server_for, stores_under
from tests.stores.reindexing import NEW, OLD, Lengths, everything, expected_by, fill, found_by, named, people, reindexed

WORDS = [f"word{n}" for n in range(8)]


@pytest.fixture(params=["edge", "local", "postgres", "qdrant"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens the same place again at each call."""
    return stores_under(request.param, tmp_path, server_for(request))


@pytest.fixture
def local(tmp_path: Path) -> OpenStore:
    """The same of the backend whose files are made fastest, for what is the same for all."""
    return stores_under("local", tmp_path)


@asynccontextmanager
async def closed(at: OpenStore, **built: Any) -> AsyncIterator[RebuildableStore]:
    """The store of the place, configured so and not opened."""
    async with at(open_it=False, **built) as store:
        yield store  # type: ignore[misc]


async def filled(at: OpenStore) -> None:
    async with at(**OLD) as store:
        await fill(store, people(), Lengths(4))


async def assert_searchable(store: RebuildableStore, scope: Scope = ANN, *, dimension: int = 8) -> None:
    for word in WORDS:
        assert await found_by(store, scope, word, dimension=dimension) == await expected_by(store, scope, word)


async def test_everything_is_there_with_another_dimension_and_the_old_one_is_refused(local: OpenStore) -> None:
    await filled(local)
    async with closed(local, **NEW) as store:
        done = await reindexed(store, Lengths(8))
        assert (done.progress.done, done.progress.total) == (len(people()), len(people()))
        assert await everything(store) == named(people())
    async with local(**NEW) as store:
        assert await everything(store) == named(people())
        assert await store.points() == len(people())
        await assert_searchable(store)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="memproxy reindex"):
        async with local(**OLD):
            pass


async def test_turns_keep_their_neighbours_however_a_session_is_paged(local: OpenStore) -> None:
    await filled(local)
    async with closed(local, **NEW) as store:
        await reindexed(store, Lengths(8), page=3)
        for owner in (ANN, BEN):
            await assert_searchable(store, owner)


async def test_a_broken_off_reindex_goes_on_and_sees_what_changed_since(local: OpenStore) -> None:
    await filled(local)
    async with closed(local, **NEW) as store:
        with pytest.raises(EmbedderUnavailable, match="goes on where it was"):
            await reindexed(store, Lengths(8, most=40), page=10)
    async with local(**OLD) as store:
        await store.set_fields(BEN, {"fact2": {"tags": ["changed"]}})
        between = turn("between", seconds=1, seq=9, content="something altogether different")
        beside = [one for one in people() if one.id in {"t5", "t6"} and one.session_id == "s1" and one.user_id == "ann"]
        await fill(store, [between, *beside], Lengths(4))
        expected = await everything(store)
    async with closed(local, **NEW) as store:
        embedder = Lengths(8)
        again = await reindexed(store, embedder)
        assert again.progress.kept >= 30
        assert embedder.embedded < len(expected) / 2
        assert await everything(store) == expected
        await assert_searchable(store)


async def test_what_was_begun_for_another_embedder_is_not_gone_on_with(local: OpenStore) -> None:
    await filled(local)
    async with closed(local, dimension=16, embedder="test:third") as store:
        with pytest.raises(EmbedderUnavailable):
            await reindexed(store, Lengths(16, most=20))
    async with closed(local, **NEW) as store:
        done = await reindexed(store, Lengths(8))
        assert done.progress.kept == 0
        assert await everything(store) == named(people())


async def test_a_leftover_of_what_is_gone_does_not_come_back(local: OpenStore) -> None:
    await filled(local)
    async with closed(local, **NEW) as store:
        rebuild = await store.begin_rebuild(None)
        await rebuild.write([Point(memory=memory("gone"), dense=[[1.0] * 8], bm25=WORDS_OF_ALL)])
        await rebuild.close()
        await reindexed(store, Lengths(8))
        assert await everything(store) == named(people())


async def test_what_is_erased_does_not_live_on_in_an_unfinished_reindex(local: OpenStore) -> None:
    await filled(local)
    async with closed(local, **NEW) as store:
        with pytest.raises(EmbedderUnavailable):
            await reindexed(store, Lengths(8, most=40))
    async with local(**OLD) as store:
        await store.delete(ANN, MemoryFilter(ids=("fact1",)))
    async with closed(local, **NEW) as store:
        done = await reindexed(store, Lengths(8))
        assert done.progress.kept == 0


async def test_writes_and_deletes_meanwhile_are_in_the_new_one(at: OpenStore) -> None:
    await filled(at)
    same = {"dimension": 4, "embedder": "test:old"}
    async with at(**same) as store:
        embedder = Lengths(4)
        embedder.gate.clear()
        task = asyncio.get_running_loop().create_task(reindexed(store, embedder))  # type: ignore[arg-type]
        await embedder.asked.wait()
        await fill(store, [memory("meanwhile"), turn("late", seconds=99, content="word7 late")], Lengths(4))
        await store.set_fields(ANN, {"fact0": {"content": "another content"}})
        await store.delete(ANN, MemoryFilter(ids=("fact2",)))
        assert await store.delete(BEN, MemoryFilter(session_ids=("s2",))) == 8
        expected = await everything(store)
        assert named([memory("meanwhile")]).keys() <= expected.keys()
        embedder.gate.set()
        await task
        assert await everything(store) == expected
    async with at(**same) as store:
        assert await everything(store) == expected
        assert await found_by(store, ANN, "late", dimension=4) >= {"late"}


async def test_writes_wait_for_the_switch_and_land_behind_it(local: OpenStore) -> None:
    async with local(**OLD) as store:
        await fill(store, people(), Lengths(4))
        rebuild = await store.begin_rebuild(None)  # type: ignore[attr-defined]
        async with rebuild.paused():
            writing = asyncio.get_running_loop().create_task(fill(store, [memory("waited")], Lengths(4)))
            await asyncio.sleep(0)
            await rebuild.flush()
            assert named([memory("waited")]).keys().isdisjoint(await everything(store))
            await rebuild.switch()
        await writing
        await rebuild.close()
        # what was not copied is not there: the switch was real, and the write came behind it
        assert await everything(store) == named([memory("waited")])


async def test_without_an_embedder_words_are_enough(local: OpenStore) -> None:
    await filled(local)
    async with closed(local, dimension=8, embedder=None) as store:
        done = await reindexed(store, Lengths(8, state="off", most=0))
        assert done.owners == {("acme", "ann"), ("acme", "ben"), ("umbrella", "ann")}
        assert await everything(store) == named(people())
