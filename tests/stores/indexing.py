"""What the tests of indexes in memory share: a store with and one without, made-up memories, and a comparison."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from memproxy.core.memory import Kind
from memproxy.core.scope import Scope
from memproxy.metrics import metrics
from memproxy.ports import Candidate, HybridQuery, MemoryFilter, Point, SparseVector
from memproxy.stores.edge import EdgeStore
from memproxy.stores.owner_index import SEARCHES, OwnerIndexes
from tests.stores.making import ANN, NOON, memory
from tests.support.emptied import EmptiedStore
from tests.support.opening import opening

DIMENSION = 70
"""More than one word of signs, and not a whole number of them."""

EVERYTHING = 10_000
CLOSE = 1e-4


def indexes_of(store: EdgeStore) -> OwnerIndexes:
    made = store._indexes
    assert made is not None
    return made


def indexed(store: EdgeStore, scope: Scope = ANN) -> bool:
    return scope.owner in indexes_of(store)._indexes


def answered_from_memory() -> float:
    value: float = metrics().store_searches.labels(answered_by="index")._value.get()
    return value


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[EdgeStore]:
    async with opening(EmptiedStore(dimension=DIMENSION, embedder_name="test:model", **options), None) as store:
        yield store


@asynccontextmanager
async def both() -> AsyncIterator[tuple[EdgeStore, EdgeStore]]:
    """A store with indexes, and one without."""
    async with opened() as one, opened(index_bytes=0) as other:
        yield one, other


async def warm(store: EdgeStore, scope: Scope = ANN) -> None:
    """Search until the owner has an index."""
    for _ in range(SEARCHES):
        await store.search(scope, HybridQuery(bm25=SparseVector([1], [1.0])))
    await store.settle()


def vector(seed: int) -> list[float]:
    drawn: list[float] = np.random.default_rng(seed).standard_normal(DIMENSION).tolist()
    return drawn


def words(seed: int) -> SparseVector:
    random = np.random.default_rng(seed)
    terms = random.choice(12, size=random.integers(0, 6), replace=False)
    return SparseVector(terms.tolist(), (random.random(len(terms)) + 0.1).astype(np.float32).tolist())


def made(seed: int, scope: Scope) -> Point:
    """A memory of few names, places and times, with no, one or several vectors."""
    random = np.random.default_rng(seed)
    kind = list(Kind)[random.integers(5)]
    times = [None, *(NOON + timedelta(seconds=int(at), microseconds=1) for at in random.integers(-3, 4, size=3))]
    one = memory(
        f"m{random.integers(25)}",
        scope,
        seconds=float(random.integers(6)),
        kind=kind,
        content=f"text {seed}",
        project_id=[None, "p", "q"][random.integers(3)],
        agent_id=[None, "a"][random.integers(2)],
        session_id=[None, "s1", "s2"][random.integers(3)],
        active=bool(random.random() < 0.8),
        quarantined=bool(random.random() < 0.2),
        valid_from=times[random.integers(4)],
        valid_to=times[random.integers(4)],
        expires_at=times[random.integers(4)],
        tags=["red"] if random.random() < 0.5 else [],
        metadata={"drawn": seed},
    )
    dense = [vector(seed + part) for part in range(random.integers(0, 4))]
    if random.random() < 0.4:
        one.content = "Where do I live?"
    return Point(memory=one, dense=dense, bm25=words(seed))


def simple(count: int, scope: Scope = ANN) -> list[Point]:
    """So many facts, each with a vector of its own."""
    return [
        Point(memory=memory(f"m{n}", scope, seconds=n, slot=f"slot{n}"), dense=[vector(n)], bm25=words(n))
        for n in range(count)
    ]


def asked(seed: int) -> tuple[Scope, MemoryFilter]:
    """Where a question is asked, and what it is narrowed to."""
    random = np.random.default_rng(seed)

    def some(value: Any) -> Any:
        return value if random.random() < 0.3 else None

    scope = msgspec.structs.replace(ANN, project=some("p"), agent=some("a"))
    at = NOON + timedelta(seconds=int(random.integers(-3, 4)), microseconds=1)
    return scope, MemoryFilter(
        ids=some(("m1", "m2", "m3", "nobody")) or (),
        kinds=some((Kind.TURN, Kind.SEMANTIC)) or tuple(Kind),
        session_ids=some(("s1", "unknown")) or (),
        project_ids=some(("q",)) or (),
        agent_ids=some(("a",)) or (),
        tags=some(("red",)) or (),
        active=some(True),
        quarantined=some(False),
        telling=bool(some(True)),
        as_of=some(at),
        now=some(at),
    )


def told(found: Sequence[Candidate]) -> dict[Any, tuple[str, float, float]]:
    """By what no change of a memory takes from it: two turns may have one id, and one session after a change."""
    rows = {
        (one.memory.id, one.memory.session_id, one.memory.kind is Kind.TURN, one.memory.metadata.get("drawn")): (
            one.memory.content,
            -9.0 if one.cosine is None else one.cosine,
            -9.0 if one.bm25 is None else one.bm25,
        )
        for one in found
    }
    assert len(rows) == len(found)
    return rows


def same(some: Sequence[Candidate], others: Sequence[Candidate]) -> None:
    """The same memories with the same scores."""
    one, other = told(some), told(others)
    assert one.keys() == other.keys()
    for key, (content, *scores) in one.items():
        assert content == other[key][0]
        assert scores == pytest.approx(other[key][1:], abs=CLOSE)


async def compare(one: EdgeStore, other: EdgeStore, scope: Scope, where: MemoryFilter, seed: int) -> None:
    """Everything that matches has the same scores; the best few of a side are the same, but for equal scores."""
    query = HybridQuery(dense=vector(seed), bm25=words(seed), limit=EVERYTHING, where=where)
    for rest in (query, msgspec.structs.replace(query, dense=None)):
        same(await one.search(scope, rest), await other.search(scope, rest))
    for name in ("dense", "bm25"):
        side = msgspec.structs.replace(query, limit=3, **{"bm25" if name == "dense" else "dense": None})
        scores = [sorted(told(await store.search(scope, side)).values()) for store in (one, other)]
        assert [row[1:] for row in sorted(scores[0], key=lambda row: row[1:])] == [
            pytest.approx(row[1:], abs=CLOSE) for row in sorted(scores[1], key=lambda row: row[1:])
        ]
        with_facts = msgspec.structs.replace(side, facts=2)
        best = [best_facts(await store.search(scope, with_facts), name)[:2] for store in (one, other)]
        assert best[0] == pytest.approx(best[1], abs=CLOSE)


def best_facts(found: Sequence[Candidate], side: str) -> list[float]:
    """The scores of the facts by one side, the best first."""
    scores = [one.cosine if side == "dense" else one.bm25 for one in found if one.memory.kind is not Kind.TURN]
    return sorted((score for score in scores if score), reverse=True)


CHANGES: list[dict[str, Any]] = [
    {"active": False, "superseded_by": "n", "valid_to": "2024-05-01T12:00:01.000001Z"},
    {"quarantined": True},
    {"active": True, "valid_to": None},
    {"expires_at": "2024-05-01T12:00:02Z"},
    {"session_id": None, "content": "changed"},
    {"project_id": "q", "agent_id": None, "kind": "semantic"},
    {"access_count": 3},
]
DELETES = [
    MemoryFilter(ids=("m1", "m2")),
    MemoryFilter(session_ids=("s1",)),
    MemoryFilter(tags=("red",)),
    MemoryFilter(active=False),
    MemoryFilter(),
]
STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 10_000)),
    st.tuples(st.just("put"), st.integers(0, 10_000)),
    st.tuples(st.just("change"), st.integers(0, len(CHANGES) - 1)),
    st.tuples(st.just("delete"), st.integers(0, len(DELETES) - 1)),
    st.tuples(st.just("ask"), st.integers(0, 10_000)),
)


async def step(store: EdgeStore, action: str, number: int) -> None:
    if action == "put":
        await store.upsert(ANN, [made(number + more, ANN) for more in range(1 + number % 7)])
    elif action == "change":
        await store.set_fields(ANN, {f"m{place}": CHANGES[number] for place in range(number, 25, 3)})
    elif action == "delete":
        await store.delete(ANN, DELETES[number])
