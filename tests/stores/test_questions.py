"""Turns that only ask are stored and shown as all others, but do not count where they are not asked for."""

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memproxy.core.memory import Memory
from memproxy.ports import Candidate, HybridQuery, MemoryFilter, MemoryStore, Point
from memproxy.stores.edge import EdgeStore
from memproxy.stores.edge_files import MARKER
from memproxy.stores.filters import TELLS_NOTHING, readable
from memproxy.stores.qdrant import QdrantStore
from memproxy.stores.sealed_state import SealedState
from memproxy.stores.sealing import MasterKeys
from memproxy.stores.vector_store import VectorStore
from tests.stores.making import ANN, DIMENSION, WORDS, memory, turn
from tests.stores.opening import OpenStore
from tests.support.disk import TestDisk

EAST, NEAR, FAR = [1.0, 0.0, 0.0, 0.0], [1.0, 0.2, 0.0, 0.0], [0.2, 1.0, 0.0, 0.0]
EVERYTHING = readable(ANN, MemoryFilter())


def asked(name: str) -> Memory:
    return turn(name, content="Where do I work?")


def told(name: str) -> Memory:
    return turn(name, content="I work at a bakery in Porto.")


def point(one: Memory, dense: list[float] = NEAR) -> Point:
    return Point(memory=one, dense=[dense], bm25=WORDS)


async def search(store: MemoryStore, *, telling: bool, **options: Any) -> dict[str, Candidate]:
    query = HybridQuery(dense=EAST, bm25=WORDS, where=MemoryFilter(telling=telling))
    found = await store.search(ANN, msgspec.structs.replace(query, **options))
    return {one.memory.id: one for one in found}


def scores(found: dict[str, Candidate]) -> list[float | None]:
    return [found[name].bm25 for name in sorted(found)]


async def test_a_question_neither_is_found_nor_counts_unless_it_is_asked_for(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory("f1")), point(told("t1")), Point(memory=memory("f2"), bm25=WORDS)])
    before = await search(store, telling=True)
    questions = [asked(f"q{number}") for number in range(5)]
    await store.upsert(ANN, [point(one) for one in questions])
    assert scores(await search(store, telling=True)) == pytest.approx(scores(before), abs=1e-5)
    everything = await search(store, telling=False)
    assert set(everything) == {"f1", "f2", "t1", *(one.id for one in questions)}
    assert (everything["f1"].bm25 or 0.0) < (before["f1"].bm25 or 0.0)  # eight have the word now
    page = await store.page(ANN, MemoryFilter(ids=tuple(one.id for one in questions)), limit=9)
    assert sorted(page.memories, key=lambda one: one.id) == questions
    await store.delete(ANN, MemoryFilter(ids=("q0", "q1", "q2", "q3")))
    await store.upsert(ANN, [point(told("q4"))])
    assert set(await search(store, telling=True)) == {"f1", "f2", "t1", "q4"}


async def test_what_a_question_is_changed_into_counts(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory("f1")), point(asked("q1")), point(asked("q2"))])
    await store.set_fields(ANN, {"q1": {"content": "I work at Arup."}, "q2": {"active": False}})
    assert set(await search(store, telling=True)) == {"f1", "q1"}


@pytest.mark.parametrize("side", ["dense", "bm25"])
async def test_facts_are_candidates_however_many_turns_are_nearer(store: MemoryStore, side: str) -> None:
    heavy = msgspec.structs.replace(WORDS, values=[3.0])
    nearer = [Point(memory=told(f"t{number}"), dense=[NEAR], bm25=heavy) for number in range(6)]
    await store.upsert(ANN, [*nearer, point(memory("f1"), FAR), point(memory("f2"), FAR)])
    one_side: dict[str, Any] = {"dense" if side == "bm25" else "bm25": None}
    assert not {"f1", "f2"} & set(await search(store, telling=True, limit=3, **one_side))
    found = await search(store, telling=True, limit=3, facts=1, **one_side)
    assert len({"f1", "f2"} & set(found)) == 1
    assert len(found) == 4


async def points(backend: Any) -> dict[str, dict[str, Any]]:
    """The payloads as the engine has them, by memory."""
    found = await backend.scroll(EVERYTHING, limit=99)
    return {one.payload["id"]: {"place": one.id} | one.payload for one in found}


@asynccontextmanager
async def opening(store: EdgeStore) -> AsyncIterator[EdgeStore]:
    await store.open(None)
    yield store
    await store.close()


async def flagged(store: VectorStore) -> set[str]:
    return {name for name, payload in (await points(store._backend)).items() if payload.get(TELLS_NOTHING)}


async def make_old(store: MemoryStore, folder: Path) -> None:
    """As an earlier version left it: no flags, and a marker that knows none."""
    assert isinstance(store, EdgeStore | QdrantStore)
    backend = store._backend
    assert backend is not None
    flags = {name: payload["place"] for name, payload in (await points(backend)).items() if TELLS_NOTHING in payload}
    await backend.set_payload(list(flags.values()), {TELLS_NOTHING: None})
    if isinstance(store, QdrantStore):
        assert store._opened is not None
        marker = await store._opened.identity()
        assert marker is not None
        await store._opened.set_identity(msgspec.structs.replace(marker, questions=0), replace=True)
    else:
        await store.flush()
        path = folder / "store" / MARKER
        path.write_text(
            json.dumps({key: one for key, one in json.loads(path.read_text()).items() if key != "questions"})
        )


async def test_the_questions_of_an_older_store_are_flagged_once_it_is_opened(
    open_store: OpenStore, tmp_path: Path
) -> None:
    # more than are looked at together
    written: Sequence[Memory] = [*(asked(f"q{number}") for number in range(70)), told("t1"), memory("f1")]
    questions = {one.id for one in written[:70]}
    async with open_store() as store:
        await store.upsert(ANN, [point(one) for one in written])
        await make_old(store, tmp_path)
        assert isinstance(store, VectorStore)
        assert not await flagged(store)
    async with open_store() as store:
        assert isinstance(store, VectorStore)
        await store.settle()
        assert await flagged(store) == questions
        assert set(await search(store, telling=True)) == {"t1", "f1"}
        page = await store.page(ANN, MemoryFilter(), limit=99)
        assert sorted(page.memories, key=lambda one: one.id) == sorted(written, key=lambda one: one.id)
    async with open_store() as store:
        assert isinstance(store, VectorStore)
        assert store._flags is None  # there is nothing left to look at
        assert await flagged(store) == questions


async def test_the_questions_of_an_older_store_are_not_flagged_on_a_full_disk(tmp_path: Path) -> None:
    disk = TestDisk()

    def opened() -> EdgeStore:
        return EdgeStore(tmp_path / "store", dimension=DIMENSION, embedder_name=None, disk=disk)

    async with opening(opened()) as store:
        await store.upsert(ANN, [point(asked("q1"))])
        await make_old(store, tmp_path)
    disk.mib = 0
    for expected in (set[str](), {"q1"}):
        async with opening(opened()) as store:
            await store.settle()
            assert await flagged(store) == expected
        disk.mib = 100


async def test_encrypted_questions_are_flagged_too(tmp_path: Path) -> None:
    keys = MasterKeys.read(base64.b64encode(b"k" * 32).decode())
    state = SealedState(tmp_path / "state.db", sync="normal", masters=keys)
    await state.open()
    for opening in range(2):
        store = EdgeStore(tmp_path / "store", dimension=DIMENSION, embedder_name=None, lull_s=0)
        store.seal_with(state)
        await store.open(None)
        if not opening:
            await store.upsert(ANN, [point(asked("q1")), point(told("t1"))])
            await make_old(store, tmp_path)
        await store.settle()
        assert await flagged(store) == ({"q1"} if opening else set())
        await store.close()
    await state.close()
