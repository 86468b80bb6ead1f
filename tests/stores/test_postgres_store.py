"""What is PostgreSQL's own: rows of others that a statement cannot see, plans, and what is said when it fails."""

import math
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg
import pytest
from psycopg import sql

from memproxy.core.memory import Kind
from memproxy.core.scope import Scope
from memproxy.errors import StoreUnavailable
from memproxy.ports import HybridQuery, MemoryFilter, SparseVector
from memproxy.stores.backend import Ranking
from memproxy.stores.filters import OneOf, Where, readable
from memproxy.stores.postgres import PostgresStore
from memproxy.stores.postgres_collection import LOOKED_UP, NearestIndex
from tests.stores.making import ANN, BEN, DIMENSION, WORDS, memory, point
from tests.stores.opening import stores_under
from tests.support.opening import opening
from tests.support.postgres import Databases, PostgresServer, postgres_server
from tests.support.waiting import eventually

EAST = [1.0, 0.0, 0.0, 0.0]
BOTH = HybridQuery(dense=EAST, bm25=WORDS, limit=10)


def opened(url: str, collection: str | None = None, **options: Any) -> AbstractAsyncContextManager[PostgresStore]:
    name = collection or f"t_{uuid4().hex}"
    store = PostgresStore(url=url, collection=name, dimension=DIMENSION, embedder_name="test:model", **options)
    return opening(store, None)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may break."""
    with postgres_server() as server:
        yield server


async def test_a_statement_that_forgets_the_owner_sees_only_his_rows(postgres_url: str) -> None:
    async with opened(postgres_url, name := f"t_{uuid4().hex}") as store:
        for scope in (ANN, BEN):
            await store.upsert(scope, [point(memory("m", scope), EAST)])
        table = sql.Identifier(f"{name}_points")
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            nobody = await connection.execute(sql.SQL("SELECT user_id FROM {}").format(table))
            assert await nobody.fetchall() == []
            await connection.execute("SELECT set_config('memproxy.tenant', 'acme', true)")
            await connection.execute("SELECT set_config('memproxy.user_id', 'ben', true)")
            mine = await connection.execute(sql.SQL("SELECT user_id FROM {}").format(table))
            assert await mine.fetchall() == [("ben",)]
            gone = await connection.execute(sql.SQL("DELETE FROM {}").format(table))
            assert gone.rowcount == 1
            await connection.rollback()


async def test_a_search_that_forgets_the_user_finds_nothing(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        for scope in (ANN, BEN):
            await store.upsert(scope, [point(memory("m", scope), EAST)])
        collection = store.collection
        assert collection is not None
        forgotten = Where((OneOf("tenant", ("acme",)), OneOf("kind", ("semantic",))))
        assert await collection.scroll(forgotten, limit=9) == []
        assert await collection.count(forgotten) == 0
        assert await collection.delete(forgotten) == 0
        for side in (Ranking(where=forgotten, limit=9, dense=EAST), Ranking(where=forgotten, limit=9, bm25=WORDS)):
            assert await collection.rank([side]) == [[]]
        assert await store.points() == 2
        assert await store.count_tenant("acme") == 2


async def test_words_are_scored_as_by_the_embedded_store(postgres_url: str, tmp_path: Path) -> None:
    texts = {"a": [1, 2], "b": [1], "c": [3, 1, 2], "d": [4]}
    scores = []
    for backend in ("edge", "postgres"):
        async with stores_under(backend, tmp_path, postgres_url if backend == "postgres" else None)() as store:
            points = [
                point(memory(name), words=SparseVector(terms, [1.0 + place for place, _ in enumerate(terms)]))
                for name, terms in texts.items()
            ]
            await store.upsert(ANN, points)
            await store.upsert(BEN, [point(memory("other", BEN), words=SparseVector([1], [1.0]))])
            found = await store.search(ANN, HybridQuery(bm25=SparseVector([1, 2], [1.0, 1.0]), limit=10))
            scores.append({one.memory.id: one.bm25 for one in found})
    edge, postgres = scores
    assert postgres.keys() == edge.keys() == {"a", "b", "c"}
    assert all(math.isclose(postgres[name] or 0, edge[name] or 0, rel_tol=1e-5) for name in edge)


@pytest.mark.parametrize("words", [5, LOOKED_UP, LOOKED_UP + 1])
async def test_words_weigh_the_same_however_they_are_looked_up(postgres_url: str, words: int) -> None:
    """By the formula: of facts and turns, also where both sides of a search have no room for the facts."""
    kinds = [Kind.SEMANTIC if number % 5 == 0 else Kind.TURN for number in range(60)]
    ranges = [range(number % 9, 90, 1 + number % 7) for number in range(60)]
    held = {f"m{number}": {term: 1.0 + term / 7 for term in terms} for number, terms in enumerate(ranges)}
    asked = {term: 1.0 + term % 3 for term in range(3, 3 + words)}
    df = {term: sum(term in terms for terms in held.values()) for term in asked}
    idf = {term: math.log(1 + (len(held) - count + 0.5) / (count + 0.5)) for term, count in df.items()}
    scores = {
        name: sum(weight * idf[term] * terms[term] for term, weight in asked.items() if term in terms)
        for name, terms in held.items()
    }
    async with opened(postgres_url) as store:
        await store.upsert(
            ANN,
            [
                point(memory(name, kind=kind), EAST, words=SparseVector(list(terms), list(terms.values())))
                for (name, terms), kind in zip(held.items(), kinds, strict=True)
            ],
        )
        query = HybridQuery(dense=EAST, bm25=SparseVector(list(asked), list(asked.values())), limit=8, facts=6)
        found = {one.memory.id: one for one in await store.search(ANN, query)}
    best = sorted(scores, key=lambda name: -scores[name])
    facts = [name for name, kind in zip(held, kinds, strict=True) if kind is Kind.SEMANTIC]
    assert found.keys() >= {*best[:8], *sorted(facts, key=lambda name: -scores[name])[:6]}
    assert all(math.isclose(one.bm25 or 0, scores[name], rel_tol=1e-5) for name, one in found.items())


async def test_an_owners_memories_are_found_by_an_index(postgres_url: str) -> None:
    async with opened(postgres_url, name := f"t_{uuid4().hex}") as store:
        for user in range(40):
            scope = Scope(tenant="acme", user=f"u{user}", session="s")
            await store.upsert(scope, [point(memory(f"m{number}", scope), EAST) for number in range(50)])
        collection = store.collection
        assert collection is not None
        async with collection.connected() as connection:
            await connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(f"{name}_points")))
            await connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(f"{name}_parts")))
        where = readable(Scope(tenant="acme", user="u7"), MemoryFilter())
        for ranking in (
            Ranking(where=where, corpus=where, limit=10, bm25=WORDS),
            Ranking(where=where, corpus=where, limit=10, dense=EAST),
        ):
            plan = await collection.explained(ranking)
            assert "Seq Scan on" not in plan, plan


MANY = 3_000
HNSW, IVFFLAT = NearestIndex(), NearestIndex(lists=8, probes=8)


async def some(store: PostgresStore, count: int = MANY) -> None:
    """Many memories of Ann in a ring, a few of Ben's."""
    angles = [2 * math.pi * number / count for number in range(count)]
    await store.upsert(
        ANN, [point(memory(f"m{number}"), [math.cos(a), math.sin(a), 0, 0]) for number, a in enumerate(angles)]
    )
    await store.upsert(BEN, [point(memory("other", BEN), EAST)])


async def renewed(store: PostgresStore) -> None:
    """As at a start: one that is under way would be left to end it."""
    await store.settle()
    await store.renew_index()


async def indexes(url: str, name: str) -> list[tuple[str, list[str] | None, int]]:
    """Kind, options and rows of the indexes over vectors."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        found = await connection.execute(
            "SELECT amname, made.reloptions, made.reltuples::int FROM pg_index JOIN pg_class made "
            "ON made.oid = indexrelid JOIN pg_am ON pg_am.oid = made.relam WHERE indrelid = to_regclass(%s) AND "
            "amname IN ('hnsw', 'ivfflat')",
            [f"{name}_parts"],
        )
        return [(kind, options, rows) for kind, options, rows in await found.fetchall()]


@pytest.mark.parametrize("index", [HNSW, IVFFLAT])
async def test_beyond_a_number_of_vectors_an_index_nominates(postgres_url: str, index: NearestIndex) -> None:
    name = f"t_{uuid4().hex}"
    async with opened(postgres_url, name, exact_up_to=10, index=index) as store:
        await some(store)
        await renewed(store)
        where = readable(ANN, MemoryFilter())
        collection = store.collection
        assert collection is not None
        async with collection.connected() as connection:
            await connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(f"{name}_parts")))
            await connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(f"{name}_points")))
        plan = await collection.explained(Ranking(where=where, limit=10, dense=EAST), nominated=True)
        assert f"Index Scan using {name}_{index.kind} on" in plan, plan
        found = await store.search(ANN, HybridQuery(dense=EAST, limit=5))
    # an index may pass over one; what it nominates is near
    assert len(found) == 5
    assert all((int(one.memory.id[1:]) + 10) % MANY <= 20 for one in found)


async def test_the_index_holds_only_what_is_beyond_the_number(postgres_url: str) -> None:
    async with opened(postgres_url, name := f"t_{uuid4().hex}", exact_up_to=10, index=IVFFLAT) as store:
        for scope in (ANN, BEN):
            await store.upsert(scope, [point(memory(f"m{number}", scope), EAST) for number in range(10)])
        await renewed(store)
        assert await indexes(postgres_url, name) == []  # there is nothing that lists could be made from
        await store.upsert(ANN, [point(memory("one more"), EAST), point(memory("m1"), EAST)])
        await renewed(store)
        assert await indexes(postgres_url, name) == [("ivfflat", ["lists=8"], 1)]


async def test_another_index_is_made_at_the_next_start_and_finds_the_same(postgres_url: str) -> None:
    name = f"t_{uuid4().hex}"
    found: list[dict[str, float | None]] = []
    for index in (HNSW, IVFFLAT, NearestIndex(lists=4, probes=4), HNSW):
        async with opened(postgres_url, name, exact_up_to=10, index=index) as store:
            if not found:
                await some(store, 200)
            await renewed(store)
            assert [(kind, options) for kind, options, _ in await indexes(postgres_url, name)] == [
                (index.kind, index.options)
            ]
            answer = await store.search(ANN, HybridQuery(dense=EAST, limit=7))
            found.append({one.memory.id: one.cosine for one in answer})
    assert len(found[0]) == 7
    assert all(one == found[0] for one in found)


async def test_a_missing_extension_is_told_with_the_statement_that_makes_it(postgres: Databases) -> None:
    url = postgres.new()
    admin = url.replace("app@", "memproxy@")
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("DROP EXTENSION vector")
    with pytest.raises(StoreUnavailable, match="CREATE EXTENSION IF NOT EXISTS vector;"):
        async with opened(url):
            pass


async def test_a_store_goes_on_when_the_server_is_back(own_server: PostgresServer) -> None:
    async with opened(own_server.database()) as store:
        await store.upsert(ANN, [point(memory("m"), EAST)])
        own_server.stop("fast")
        with pytest.raises(StoreUnavailable):
            await store.search(ANN, BOTH)
        own_server.start()

        async def found() -> list[str]:
            try:
                return [one.memory.id for one in await store.search(ANN, BOTH)]
            except StoreUnavailable:
                return []

        assert await eventually(found, what="it is used again") == ["m"]


async def test_a_connection_that_broke_is_replaced_before_it_is_used(own_server: PostgresServer) -> None:
    url = own_server.database()
    async with opened(url) as store:
        await store.upsert(ANN, [point(memory("m"), EAST)])
        with psycopg.connect(url, autocommit=True) as other:
            ended = other.execute(
                "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'memproxy'"
            ).fetchall()
        await eventually(lambda: not any(psutil.pid_exists(pid) for pid, _ in ended), what="they are closed")
        assert [one.memory.id for one in await store.search(ANN, BOTH)] == ["m"]


async def test_a_server_that_is_cut_off_is_noticed(postgres_url: str) -> None:
    async with opened(postgres_url) as store, store._in_use().connected() as connection:
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
