"""What every memory store must do, whatever engine is behind it."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memproxy.core.memory import Kind, Memory, Relation, Source, Trust
from memproxy.core.scope import Scope
from memproxy.errors import ConfigError, RequestError, StoreUnavailable
from memproxy.ports import HybridQuery, MemoryFilter, MemoryStore, SparseVector
from memproxy.stores.qdrant import QdrantStore
from memproxy.stores.vector_store import COLUMN_BATCH
from tests.stores.making import ANN, BEN, FOREIGN_ANN, NOON, WORDS, memory, point, turn
from tests.stores.opening import OpenStore

EAST, NORTH = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
ALL = MemoryFilter()


async def ids(store: MemoryStore, scope: Scope = ANN, where: MemoryFilter = ALL) -> set[str]:
    return {one.id for one in (await store.page(scope, where, limit=200)).memories}


async def test_a_memory_comes_back_as_it_was_written(store: MemoryStore) -> None:
    written = memory(
        "m",
        Scope(tenant="acme", user="ann", project="p", agent="a", session="s"),
        seconds=0.123456,
        category="user-preferences/timezone",
        tags=["one", "two"],
        entities=["Hawaii"],
        subject="user",
        predicate="lives in",
        object="Berlin",
        slot="user/lives in",
        confidence=0.25,
        trust=Trust.TOOL,
        source=Source.IMPORT,
        quarantined=True,
        turn_ids=["t1"],
        valid_from=NOON - timedelta(days=400),
        valid_to=NOON,
        active=False,
        access_count=3,
        relations=[Relation(subject="user", predicate="owns", object="Biscuit", valid_from=NOON)],
        metadata={"nested": {"list": [1, 2.5, "x", None]}, "empty": []},
        content="Grüße 你好 🏝️ \x00 line\nbreak",
    )
    await store.upsert(ANN, [point(written, EAST)])
    await store.flush()
    assert await store.get(ANN, ["m", "unknown"]) == {"m": written}


async def test_other_owners_are_never_seen_changed_or_deleted(store: MemoryStore) -> None:
    for scope in (ANN, BEN, FOREIGN_ANN):
        await store.upsert(scope, [point(turn("same-id", scope, content=f"of {scope.owner}"), EAST)])
    for scope in (ANN, BEN, FOREIGN_ANN):
        mine = f"of {scope.owner}"
        assert (await store.get(scope, ["same-id"]))["same-id"].content == mine
        assert [one.content for one in (await store.page(scope, ALL, limit=10)).memories] == [mine]
        found = await store.search(scope, HybridQuery(dense=EAST, bm25=WORDS, limit=10))
        assert [one.memory.content for one in found] == [mine]
        assert await store.count(scope, ALL) == 1
    assert await store.neighbours(ANN, [turn("other", seconds=1)], reach=5) == [
        turn("same-id", content=f"of {ANN.owner}")
    ]
    await store.set_fields(BEN, {"same-id": {"content": "changed"}})
    assert await store.delete(FOREIGN_ANN, ALL) == 1
    assert (await store.get(ANN, ["same-id"]))["same-id"].content == f"of {ANN.owner}"
    assert (await store.get(BEN, ["same-id"]))["same-id"].content == "changed"
    assert await store.points() == 2


async def test_a_memory_is_not_written_into_another_owners_scope(store: MemoryStore) -> None:
    with pytest.raises(RequestError):
        await store.upsert(BEN, [point(memory("m", ANN))])
    assert await store.points() == 0
    await store.upsert(ANN, [point(memory("m", ANN))])
    for whose in ({"user_id": BEN.user}, {"tenant": FOREIGN_ANN.tenant}, {"id": "n"}):
        with pytest.raises(RequestError):
            await store.set_fields(ANN, {"m": {"content": "moved", **whose}})
    assert await store.count(BEN, ALL) == await store.count(FOREIGN_ANN, ALL) == 0
    assert (await store.get(ANN, ["m"]))["m"].content != "moved"


async def test_a_project_sees_its_own_and_what_has_none(store: MemoryStore) -> None:
    places: list[tuple[str | None, str | None]] = [(None, None), ("p", None), ("q", None), (None, "a"), ("p", "a")]
    for project, agent in places:
        await store.upsert(ANN, [point(memory(f"{project}/{agent}", project_id=project, agent_id=agent), EAST)])
    scope = Scope(tenant="acme", user="ann", project="p", agent="a")
    seen = {"None/None", "p/None", "None/a", "p/a"}
    assert await ids(store, scope) == seen
    assert await ids(store, ANN) == {*seen, "q/None"}
    found = await store.search(scope, HybridQuery(dense=EAST, bm25=WORDS, limit=10))
    assert {one.memory.id for one in found} == seen
    assert await store.get(scope, ["q/None"]) == {}
    assert await store.delete(Scope(tenant="acme", user="ann", project="p"), ALL) == 2
    assert await ids(store, ANN) == {"None/None", "q/None", "None/a"}


FILTERS = (
    (MemoryFilter(ids=("a", "b", "zzz")), "ab"),
    (MemoryFilter(kinds=(Kind.SEMANTIC,)), "ab"),
    (MemoryFilter(kinds=(Kind.SEMANTIC, Kind.EPISODIC)), "abc"),
    (MemoryFilter(session_ids=("s1",)), "ab"),
    (MemoryFilter(session_ids=("s1", "s2")), "abc"),
    (MemoryFilter(project_ids=("p",)), "a"),
    (MemoryFilter(agent_ids=("x",)), "b"),
    (MemoryFilter(categories=("food/likes",)), "c"),
    (MemoryFilter(tags=("red",)), "ab"),
    (MemoryFilter(tags=("blue", "red")), "abc"),
    (MemoryFilter(slots=("user/home",)), "b"),
    (MemoryFilter(turn_ids=("t2",)), "c"),
    (MemoryFilter(active=True), "abc"),
    (MemoryFilter(active=False), "d"),
    (MemoryFilter(quarantined=True), "b"),
    (MemoryFilter(quarantined=False), "acd"),
    (MemoryFilter(as_of=NOON), "abc"),
    (MemoryFilter(as_of=NOON - timedelta(seconds=1)), "bcd"),
    (MemoryFilter(now=NOON), "abc"),
    (MemoryFilter(now=NOON - timedelta(seconds=1)), "abcd"),
    (MemoryFilter(now=NOON, tags=("red",), active=True, kinds=(Kind.SEMANTIC,), session_ids=("s1",)), "ab"),
)


async def test_a_filter_narrows_lists_searches_counts_and_deletions(store: MemoryStore) -> None:
    owners = [Scope(tenant="acme", user=f"filter {number}") for number in range(len(FILTERS))]
    for owner in owners:
        await store.upsert(owner, [point(one, EAST) for one in of_several_kinds(owner)])
    for owner, (where, expected) in zip(owners, FILTERS, strict=True):
        assert await ids(store, owner, where) == set(expected), where
        assert await store.count(owner, where) == len(expected), where
        found = await store.search(owner, HybridQuery(dense=EAST, bm25=WORDS, limit=10, where=where))
        assert {one.memory.id for one in found} == set(expected), where
        assert await store.delete(owner, where) == len(expected), where
        assert await ids(store, owner) == set("abcd") - set(expected), where


async def test_columns_tell_some_fields_of_all_that_a_scope_sees(store: MemoryStore) -> None:
    many = [memory(f"m{number}", session_id="s1") for number in range(COLUMN_BATCH + 50)]
    await store.upsert(ANN, [point(one) for one in (*many, memory("p", session_id="s2", project_id="other"))])
    await store.upsert(BEN, [point(memory("bens", BEN))])
    everything = await store.columns(ANN, ALL, ["id", "session_id", "nothing"])
    assert sorted(everything) == sorted([*((one.id, "s1", None) for one in many), ("p", "s2", None)])
    within = Scope(tenant="acme", user="ann", project="mine")
    assert {name for (name,) in await store.columns(within, ALL, ["id"])} == {one.id for one in many}
    assert await store.columns(ANN, MemoryFilter(session_ids=("s2",)), ["id"]) == [("p",)]
    told = await store.columns(ANN, MemoryFilter(session_ids=("s2",)), ["id", "kind", "created_at", "valid_to"])
    assert told == [("p", "semantic", msgspec.to_builtins(NOON), None)]


def of_several_kinds(owner: Scope) -> list[Memory]:
    first: dict[str, Any] = {"session_id": "s1", "project_id": "p", "tags": ["red"], "subject": "user"}
    second: dict[str, Any] = {"session_id": "s1", "agent_id": "x", "tags": ["red", "blue"], "slot": "user/home"}
    third: dict[str, Any] = {"session_id": "s2", "category": "food/likes", "tags": ["blue"], "turn_ids": ["t1", "t2"]}
    return [
        memory("a", owner, **first, valid_from=NOON),
        memory("b", owner, **second, quarantined=True),
        memory("c", owner, **third, kind=Kind.EPISODIC),
        memory("d", owner, session_id=None, kind=Kind.REFLECTIVE, active=False, valid_to=NOON, expires_at=NOON),
    ]


async def test_as_of_a_time_there_are_no_messages_that_were_said_later(store: MemoryStore) -> None:
    said = [turn("before", seconds=-5), turn("then", seconds=0), turn("later", seconds=5)]
    await store.upsert(ANN, [point(one, EAST) for one in said])
    assert await ids(store, ANN, MemoryFilter(as_of=NOON)) == {"before", "then"}


async def test_pages_are_newest_first_and_neither_skip_nor_repeat_among_equal_times(store: MemoryStore) -> None:
    written = [memory(f"m{place}", seconds=place // 7 * 1e-6) for place in range(30)]
    await store.upsert(ANN, [point(one) for one in written])
    for limit in (1, 3, 7, 10, 30, 31):
        pages, cursor = [], None
        while True:
            page = await store.page(ANN, ALL, limit=limit, cursor=cursor)
            pages.append(page.memories)
            cursor = page.next_cursor
            if cursor is None:
                break
        read = [one for memories in pages for one in memories]
        assert sorted(one.id for one in read) == sorted(one.id for one in written)
        assert [one.created_at for one in read] == sorted((one.created_at for one in written), reverse=True)
        assert {len(memories) for memories in pages[:-1]} <= {limit}
        assert pages[-1]


async def test_a_page_goes_on_where_it_was_when_memories_come_and_go(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory(f"m{place}", seconds=place)) for place in range(6)])
    first = await store.page(ANN, ALL, limit=3)
    await store.upsert(ANN, [point(memory("new", seconds=99))])
    await store.delete(ANN, MemoryFilter(ids=("m3",)))
    rest = await store.page(ANN, ALL, limit=3, cursor=first.next_cursor)
    assert [one.id for one in rest.memories] == ["m2", "m1", "m0"]


async def test_a_cursor_that_is_none_is_the_callers_mistake(store: MemoryStore) -> None:
    for cursor in ("", "x", "%%%", "bm90IGpzb24", "WzEsMl0", "é"):
        with pytest.raises(RequestError) as raised:
            await store.page(ANN, ALL, limit=3, cursor=cursor)
        assert raised.value.param == "cursor", cursor


async def test_a_search_fills_both_scores_of_every_candidate(store: MemoryStore) -> None:
    await store.upsert(
        ANN,
        [
            point(memory("near"), EAST, words=SparseVector([1], [1.0])),
            point(memory("said"), NORTH, words=SparseVector([2, 3], [1.0, 1.0])),
            point(memory("far"), [0.0, 0.0, 1.0, 0.0], words=SparseVector([1], [1.0])),
        ],
    )
    query = HybridQuery(dense=[0.8, 0.6, 0.0, 0.0], bm25=SparseVector([2, 3], [1.0, 1.0]), limit=1)
    found = {one.memory.id: one for one in await store.search(ANN, query)}
    assert found.keys() == {"near", "said"}
    assert found["near"].cosine == pytest.approx(0.8, abs=1e-5)
    assert found["said"].cosine == pytest.approx(0.6, abs=1e-5)
    assert found["near"].bm25 == 0
    assert (found["said"].bm25 or 0) > 0


async def test_one_sided_searches_leave_the_other_score_open(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory("m"), EAST)])
    (by_vector,) = await store.search(ANN, HybridQuery(dense=EAST))
    (by_words,) = await store.search(ANN, HybridQuery(bm25=WORDS))
    assert (by_vector.bm25, by_words.cosine) == (None, None)
    assert by_vector.cosine == pytest.approx(1.0)
    assert (by_words.bm25 or 0) > 0
    for nothing in (HybridQuery(), *(HybridQuery(bm25=SparseVector(*words)) for words in (([99], [1.0]), ([], [])))):
        assert await store.search(ANN, nothing) == [], "neither without a question nor by words that nobody said"


async def test_a_memory_without_vector_is_found_by_words_alone(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory("not embedded")), point(memory("embedded"), EAST)])
    found = {one.memory.id: one for one in await store.search(ANN, HybridQuery(dense=EAST, bm25=WORDS))}
    assert found["not embedded"].cosine is None
    assert (found["not embedded"].bm25 or 0) > 0
    assert found["embedded"].cosine == pytest.approx(1.0)
    await store.upsert(ANN, [point(memory("embedded"))])
    again = await store.search(ANN, HybridQuery(dense=EAST, bm25=WORDS))
    assert [one.cosine for one in again] == [None, None], "a vector that is no longer given is gone"


async def test_a_long_memory_is_scored_by_its_best_part(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory("long"), [-1.0, 0.0, 0.0, 0.0], NORTH, [0.6, 0.8, 0.0, 0.0])])
    (found,) = await store.search(ANN, HybridQuery(dense=EAST))
    assert found.cosine == pytest.approx(0.6, abs=1e-5)


async def test_idf_is_counted_over_the_owners_own_memories(store: MemoryStore) -> None:
    if isinstance(store, QdrantStore) and not store.connection.counts_within:
        pytest.skip("this Qdrant counts over its whole collection")
    rare = SparseVector([1], [1.0])
    await store.upsert(ANN, [point(memory("m"), words=rare), point(memory("n"), words=SparseVector([2], [1.0]))])
    (alone,) = await store.search(ANN, HybridQuery(bm25=rare))
    await store.upsert(BEN, [point(memory(f"b{place}", BEN), words=rare) for place in range(20)])
    (beside,) = await store.search(ANN, HybridQuery(bm25=rare))
    assert beside.bm25 == pytest.approx(alone.bm25)


async def test_neighbours_are_the_turns_right_before_and_after_in_the_session(store: MemoryStore) -> None:
    turns = [turn(f"t{place}", seconds=place) for place in range(9)]
    other = [turn(f"o{place}", seconds=place, session_id="s2") for place in range(9)]
    await store.upsert(ANN, [point(one) for one in (*turns, *other, memory("fact", seconds=4))])
    near = await store.neighbours(ANN, [turns[4]], reach=2)
    assert [one.id for one in near] == ["t2", "t3", "t5", "t6"]
    assert [one.id for one in await store.neighbours(ANN, [turns[0]], reach=1)] == ["t1"]
    both = await store.neighbours(ANN, [turns[4], turns[5]], reach=1)
    assert {one.id for one in both} == {"t3", "t6"}
    assert await store.neighbours(ANN, turns[:1], reach=0) == []
    assert await store.neighbours(ANN, [], reach=3) == []


async def test_neighbours_of_one_time_keep_the_order_they_were_said_in(store: MemoryStore) -> None:
    turns = [turn(f"t{place:02}", seq=place) for place in range(60)]
    later = [turn("later", seconds=1)]
    await store.upsert(ANN, [point(one) for one in reversed([*turns, *later])])
    near = await store.neighbours(ANN, [turns[58]], reach=2)
    assert [one.id for one in near] == ["t56", "t57", "t59", "later"]


async def test_one_turn_id_in_two_sessions_is_two_turns(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(turn("t", content="first", session_id="s1"))])
    await store.upsert(ANN, [point(turn("t", content="second", session_id="s2", seconds=1))])
    assert await store.count(ANN, ALL) == 2
    for session, content in (("s1", "first"), ("s2", "second")):
        scope = Scope(tenant="acme", user="ann", session=session)
        assert (await store.get(scope, ["t"]))["t"].content == content
        await store.set_fields(scope, {"t": {"superseded_by": session}})
    read = (await store.page(ANN, ALL, limit=5)).memories
    assert {one.session_id: one.superseded_by for one in read} == {"s1": "s1", "s2": "s2"}


async def test_a_turn_that_is_named_as_a_statement_is_hides_it_in_its_session_alone(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory("m", content="the statement"))])
    await store.upsert(ANN, [point(turn("m", content="the turn", session_id="s2", seconds=1))])
    anywhere, there = Scope(tenant="acme", user="ann"), Scope(tenant="acme", user="ann", session="s2")
    assert (await store.get(anywhere, ["m"]))["m"].content == "the statement"
    await store.set_fields(anywhere, {"m": {"category": "new"}})
    found = (await store.get(there, ["m"]))["m"]
    assert (found.content, found.category) == ("the turn", None)


async def test_writing_again_replaces_and_a_facts_place_does_not_depend_on_its_session(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory("m", session_id="s1", category="old"), EAST)])
    await store.upsert(ANN, [point(memory("m", session_id="s2"), NORTH)])
    assert (await store.get(ANN, ["m"]))["m"] == memory("m", session_id="s2")
    assert await store.count(ANN, ALL) == 1


async def test_changed_fields_are_merged_and_vectors_stay(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory("m", tags=["x"], category="c", valid_from=NOON), EAST), point(memory("n"))])
    changes: dict[str, dict[str, Any]] = {
        "m": {"active": False, "superseded_by": "n", "valid_to": "2024-05-02T00:00:00Z", "category": None, "tags": []},
        "n": {"access_count": 4},
        "unknown": {"active": False},
    }
    await store.set_fields(ANN, changes)
    expected = memory(
        "m", active=False, superseded_by="n", valid_from=NOON, valid_to=NOON + timedelta(hours=12), category=None
    )
    assert await store.get(ANN, ["m", "n"]) == {"m": expected, "n": memory("n", access_count=4)}
    assert await ids(store, ANN, MemoryFilter(active=False)) == {"m"}
    (found,) = await store.search(ANN, HybridQuery(dense=EAST))
    assert found.cosine == pytest.approx(1.0)


async def test_a_delete_answers_exactly_how_many_it_took(store: MemoryStore) -> None:
    await store.upsert(ANN, [point(memory(f"m{place}", tags=["odd"] if place % 2 else [])) for place in range(600)])
    assert await store.delete(ANN, MemoryFilter(tags=("odd",))) == 300
    assert await store.delete(ANN, MemoryFilter(tags=("odd",))) == 0
    assert await store.count(ANN, ALL) == await store.points() == 300
    assert len(await store.get(ANN, [f"m{place}" for place in range(600)])) == 300
    assert await store.delete(ANN, ALL) == 300
    assert await store.points() == 0


async def test_vectors_of_another_length_are_refused(store: MemoryStore) -> None:
    with pytest.raises(ConfigError, match="memproxy reindex"):
        await store.upsert(ANN, [point(memory("m"), [1.0, 0.0])])
    with pytest.raises(ConfigError, match="memproxy reindex"):
        await store.search(ANN, HybridQuery(dense=[1.0, 0.0]))
    assert await store.points() == 0


@pytest.mark.parametrize("content", ["lone \ud800 surrogate"])
async def test_text_that_cannot_be_stored_is_the_callers_mistake_not_an_outage(
    store: MemoryStore, content: str
) -> None:
    with pytest.raises(RequestError):
        await store.upsert(ANN, [point(memory("m", content=content), EAST)])
    await store.upsert(ANN, [point(memory("m"))])
    with pytest.raises(RequestError):
        await store.set_fields(ANN, {"m": {"content": content}})
    assert await store.get(ANN, ["m"]) == {"m": memory("m")}


async def test_a_closed_store_is_unavailable(open_store: OpenStore) -> None:
    async with open_store() as store:
        pass
    with pytest.raises(StoreUnavailable):
        await store.get(ANN, ["m"])


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    places=st.lists(
        st.tuples(st.sampled_from(["p", "q", None]), st.sampled_from(["a", None]), st.sampled_from([ANN, BEN])),
        max_size=12,
    )
)
async def test_what_a_scope_sees_is_what_its_rule_says(
    store: MemoryStore, places: list[tuple[str | None, str | None, Scope]]
) -> None:
    for scope in (ANN, BEN):
        await store.delete(scope, ALL)
    written: list[tuple[Scope, Memory]] = [
        (scope, memory(f"m{place}", scope, project_id=project, agent_id=agent))
        for place, (project, agent, scope) in enumerate(places)
    ]
    for scope, one in written:
        await store.upsert(scope, [point(one)])
    for project in ("p", None):
        reader = Scope(tenant="acme", user="ann", project=project)
        expected = {
            one.id for scope, one in written if scope is ANN and (project is None or one.project_id in {project, None})
        }
        assert await ids(store, reader) == expected


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
