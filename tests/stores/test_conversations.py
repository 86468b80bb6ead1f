"""A user's conversations, a page at a time: whole, in order, and without reading what stands elsewhere."""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.errors import RequestError
from memproxy.ports import Conversation, MemoryFilter, MemoryStore
from memproxy.stores.backend import Backend, FoundPoint
from memproxy.stores.filters import Where, readable
from memproxy.stores.paging import conversations
from memproxy.stores.payload import Points, point_id_of
from tests.stores.making import ANN, BEN, memory, point, session, turn
from tests.support.emptied import EmptiedStore
from tests.support.opening import opening

ALL = MemoryFilter()
EVERYWHERE = Scope(tenant="acme", user="ann")


def written(seed: int) -> list[Memory]:
    """Conversations that overlap, are of one time, of facts alone, of a project; and memories of none."""
    chance = random.Random(seed)
    found: list[Memory] = []
    for number in range(14):
        scope = session(f"s{number}")
        project = chance.choice([None, None, "kitchen", "garden"])
        begun, step = chance.randrange(6), chance.choice([0, 0, 1, 3])
        if number % 4:
            found += [
                turn(
                    f"t{number}-{place}",
                    scope,
                    seconds=begun + place * step,
                    project_id=project,
                    content=f"{place} of {number} " * (1 + place % 2 * 40),
                )
                for place in range(chance.choice([1, 2, 5, 70]))
            ]
        found += [
            memory(f"m{number}-{place}", scope, seconds=chance.randrange(12), project_id=project)
            for place in range(chance.choice([0, 1, 4]) if number % 4 else 2)
        ]
    return [*found, memory("alone", session_id=None)]


def expected(memories: Sequence[Memory]) -> list[Conversation]:
    """As the port says, told from all memories at once."""
    told: list[tuple[Any, Conversation]] = []
    for name in {one.session_id for one in memories if one.session_id is not None}:
        there = [one for one in memories if one.session_id == name]
        turns = [one for one in there if one.kind is Kind.TURN]
        order = sorted(turns or there, key=lambda one: (-one.created_at.timestamp(), point_id_of(one)))
        one = Conversation(
            id=name,
            project_id=order[0].project_id,
            agent_id=order[0].agent_id,
            begun_at=order[-1].created_at,
            last_turn_at=order[0].created_at if turns else None,
            turns=len(turns),
            memories=len(there) - len(turns),
            last_words=order[0].content[:200],
        )
        told.append(((-order[0].created_at.timestamp(), point_id_of(order[0])), one))
    return [one for _, one in sorted(told, key=lambda pair: pair[0])]


async def pages(store: MemoryStore, scope: Scope, where: MemoryFilter, limit: int) -> list[list[Conversation]]:
    """All pages of so many."""
    found, cursor = [], None
    while True:
        page = await store.conversations(scope, where, limit=limit, cursor=cursor)
        found.append(page.conversations)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_every_conversation_comes_once_in_its_place_whatever_a_page_holds(store: MemoryStore) -> None:
    memories = written(0)
    await store.upsert(ANN, [point(one) for one in memories])
    await store.upsert(BEN, [point(turn("bens", BEN))])
    whole = expected(memories)
    assert len(whole) == 14
    for limit in (4, 13, 14, 200):
        read = await pages(store, EVERYWHERE, ALL, limit)
        assert [one for page in read for one in page] == whole, limit
        assert {len(page) for page in read[:-1]} <= {limit}
    kitchen = Scope(tenant="acme", user="ann", project="kitchen")
    seen = expected([one for one in memories if one.project_id in {None, "kitchen"}])
    assert 0 < len(seen) < len(whole)
    assert [one for page in await pages(store, kitchen, ALL, 2) for one in page] == seen


async def test_a_page_goes_on_where_it_was_when_conversations_come_and_go(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(turn(f"t{number}", session(f"s{number}"), seconds=number)) for number in range(6)])
    first = await store.conversations(EVERYWHERE, ALL, limit=3)
    await store.upsert(
        ANN, [point(turn("new", session("new"), seconds=99)), point(turn("t", session("s1"), seconds=98))]
    )
    await store.delete(ANN, MemoryFilter(session_ids=("s3",)))
    rest = await store.conversations(EVERYWHERE, ALL, limit=3, cursor=first.next_cursor)
    assert [one.id for one in first.conversations] == ["s5", "s4", "s3"]
    assert [one.id for one in rest.conversations] == ["s2", "s0"]  # s1 stands at the top by now
    assert rest.next_cursor is None
    with pytest.raises(RequestError) as refused:
        await store.conversations(EVERYWHERE, ALL, limit=3, cursor="x")
    assert refused.value.param == "cursor"


@pytest.mark.parametrize("seed", range(12))
async def test_any_conversations_are_told_as_all_memories_tell_them(seed: int) -> None:
    async with opening(EmptiedStore(dimension=4, embedder_name=None), None) as store:
        memories = written(seed)
        await store.upsert(ANN, [point(one) for one in memories])
        for limit in (1, 2, 5):
            assert [one for page in await pages(store, EVERYWHERE, ALL, limit) for one in page] == expected(memories)


class Counting:
    """An engine that counts the points it was asked to read."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self.read = 0
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def scroll(self, where: Where, **asked: Any) -> list[FoundPoint]:
        found = await self._engine.scroll(where, **asked)
        self.read += len(found)
        self.calls += 1
        return found


async def test_a_page_reads_no_more_where_there_are_more_memories() -> None:
    async with opening(EmptiedStore(dimension=4, embedder_name=None), None) as store:
        costs = []
        for sessions, turns in ((12, 100), (12, 200), (24, 200)):
            for number in range(sessions):
                scope = session(f"s{number}")
                said = [turn(f"{number}-{place}", scope, seconds=number * 1000 + place) for place in range(turns)]
                facts = [
                    memory(f"m{number}-{place}", scope, seconds=number * 1000 + 500 + place) for place in range(20)
                ]
                await store.upsert(scope, [point(one) for one in (*said, *facts)])
            engine = Counting(store.engine)
            page, cursor = await conversations(Points(engine), readable(EVERYWHERE, ALL), limit=5, cursor=None)
            following, _ = await conversations(Points(engine), readable(EVERYWHERE, ALL), limit=5, cursor=cursor)
            assert [one.turns for one in (*page, *following)] == [turns] * 10
            costs.append((engine.calls, engine.read))
        assert all(later <= first for first, later in pairwise(costs)), costs
