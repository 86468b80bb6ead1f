"""What is PostgreSQL's own: rows of others that a statement cannot see, plans, and what is said when it fails."""

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from memproxy.core.scope import Scope
from memproxy.errors import StoreUnavailable
from memproxy.ports import HybridQuery, MemoryFilter, SparseVector
from memproxy.stores.backend import Ranking
from memproxy.stores.filters import OneOf, Where, readable
from memproxy.stores.postgres import PostgresStore
from tests.stores.making import ANN, BEN, DIMENSION, WORDS, memory, point
from tests.stores.opening import stores_under
from tests.support.postgres import Databases, PostgresServer, postgres_server

EAST = [1.0, 0.0, 0.0, 0.0]
BOTH = HybridQuery(dense=EAST, bm25=WORDS, limit=10)


@asynccontextmanager
async def opened(url: str, collection: str | None = None, **settings: int) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(
        url=url,
        collection=collection or f"t_{uuid4().hex}",
        dimension=DIMENSION,
        embedder_name="test:model",
        **settings,
    )
    try:
        await store.open(None)
        yield store
    finally:
        await store.close()


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


async def test_beyond_a_number_of_vectors_an_index_nominates(
    postgres_url: str,
) -> None:
    async with opened(postgres_url, exact_up_to=3) as store:
        await store.upsert(ANN, [point(memory(f"m{number}"), [1.0, number / 10, 0, 0]) for number in range(8)])
        await store.upsert(BEN, [point(memory("other", BEN), EAST)])
        found = await store.search(ANN, HybridQuery(dense=EAST, limit=2))
    assert {one.memory.id for one in found} == {"m0", "m1"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"port": "1"}, "cannot be opened.*Check that PostgreSQL runs, and store.url"),
        ({"user": "nobody-here"}, "role .nobody-here. does not exist"),
        ({"dbname": "not_there"}, "database .not_there. does not exist"),
    ],
)
async def test_an_address_that_is_wrong_is_told_with_its_cause(
    postgres_url: str, change: dict[str, str], said: str
) -> None:
    address = psycopg.conninfo.conninfo_to_dict(postgres_url) | change
    url = "postgresql://{user}@{host}:{port}/{dbname}".format(**address)
    with pytest.raises(StoreUnavailable, match=said):
        async with opened(url):
            pass


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
        assert [one.memory.id for one in await store.search(ANN, BOTH)] == ["m"]
