"""Turns that only ask are stored and shown as all others, but do not count where they are not asked for."""

from typing import Any

import msgspec
import pytest

from memproxy.core.memory import Memory
from memproxy.ports import Candidate, HybridQuery, MemoryFilter, MemoryStore, Point
from memproxy.stores.filters import readable
from memproxy.stores.qdrant import QdrantStore
from tests.stores.making import ANN, WORDS, memory, turn

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
    if not isinstance(store, QdrantStore) or store.connection.counts_within:  # else a word is as rare as over everybody
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
