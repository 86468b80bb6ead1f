"""The switch of a reindex on a server whose answer is lost: writes must not go to the wrong collection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from memproxy.errors import StoreUnavailable
from memproxy.stores.postgres import PostgresStore
from memproxy.stores.qdrant import QdrantStore
from tests.stores.making import DIMENSION, memory
from tests.stores.opening import server_for
from tests.stores.reindexing import Lengths, everything, fill, named
from tests.support.qdrant import QdrantAt
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.services

BEFORE, AFTER = [memory("before")], [memory("after")]


class Place(NamedTuple):
    """A store by way of a proxy, another one on the same collection without it, and what a switch says to a server."""

    store: QdrantStore | PostgresStore
    beside: QdrantStore | PostgresStore
    proxy: TcpProxy
    switch: bytes


@pytest.fixture(params=["postgres", "qdrant", "qdrant by REST"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    server = server_for(request)
    port = _port(server, by_grpc=request.param == "qdrant")
    async with tcp_proxy(port) as proxy:
        collection = f"t_{uuid4().hex}"
        stores = [_store(server, collection), _store(server, collection, (port, proxy.port))]
        for one in stores:
            await one.open(None)
        try:
            await fill(stores[1], BEFORE, Lengths(DIMENSION))
            yield Place(stores[1], stores[0], proxy, b"COMMIT" if request.param == "postgres" else b"__current")
        finally:
            for one in stores:
                await one.close()


def _port(server: str | QdrantAt | None, *, by_grpc: bool) -> int:
    if isinstance(server, QdrantAt):
        port = urlsplit(server.url).port or 6333
        return (server.grpc_port or port + 1) if by_grpc else port
    return int(psycopg.conninfo.conninfo_to_dict(str(server))["port"] or 5432)


def _store(
    server: str | QdrantAt | None, collection: str, changed: tuple[int, int] = (0, 0)
) -> QdrantStore | PostgresStore:
    """A store at a server, of whose ports one is ``changed`` to another one."""
    before, after = map(str, changed)
    if not isinstance(server, QdrantAt):
        url = str(server).replace(f":{before}/", f":{after}/")
        return PostgresStore(url=url, collection=collection, dimension=DIMENSION, embedder_name="test:model")
    grpc_port = server.grpc_port or (urlsplit(server.url).port or 6333) + 1
    by_rest = server.url.endswith(f":{before}")
    return QdrantStore(
        url=server.url.replace(f":{before}", f":{after}"),
        api_key=server.api_key,
        grpc_port=0 if by_rest else int(str(grpc_port).replace(before, after)),
        collection=collection,
        dimension=DIMENSION,
        embedder_name="test:model",
    )


@asynccontextmanager
async def switching(place: Place, trouble: str) -> AsyncIterator["asyncio.Task[None]"]:
    """A switch that has begun, within a reindex that has copied nothing, and what the proxy does to it."""
    rebuild = await place.store.begin_rebuild(None)
    setattr(place.proxy, trouble, place.switch)
    async with rebuild.paused():
        yield asyncio.get_running_loop().create_task(rebuild.switch())
    await rebuild.close()


async def in_use(store: QdrantStore | PostgresStore) -> str:
    known = await store.existing()
    assert known is not None
    return known[0].name


async def test_a_switch_whose_answer_is_lost_is_looked_at_and_gone_on_with(place: Place) -> None:
    before = await in_use(place.beside)
    async with switching(place, "loses_answer_to") as switch:

        async def switched() -> bool:
            return await in_use(place.beside) != before

        await eventually(switched, what="the server has switched")
        assert not switch.done()
        place.proxy.loses_answer_to, place.proxy.answers = None, True
        await place.proxy.cut()
        await switch
    await fill(place.store, AFTER, Lengths(DIMENSION))
    assert await everything(place.store) == named(AFTER)  # nothing was copied: they are in the new one
    await place.beside.close()
    await place.beside.open(None)
    assert await everything(place.beside) == named(AFTER)


async def test_a_switch_that_did_not_reach_the_server_leaves_the_first_collection_in_use(place: Place) -> None:
    async with switching(place, "breaks_before") as switch:
        await eventually(lambda: switch.done() or place.proxy.broke)
        place.proxy.breaks_before = None
        with pytest.raises(StoreUnavailable, match="did not switch to the new collection; run `memproxy reindex`"):
            await switch
    await fill(place.store, AFTER, Lengths(DIMENSION))
    assert await everything(place.store) == named(BEFORE + AFTER)
    assert await everything(place.beside) == named(BEFORE + AFTER)


async def test_a_server_that_cannot_be_asked_whether_it_switched_gets_no_writes(place: Place) -> None:
    rebuild = await place.store.begin_rebuild(None)
    await place.proxy.stop()
    with pytest.raises(StoreUnavailable):
        await rebuild.switch()
    with pytest.raises(StoreUnavailable, match="not open"):
        await fill(place.store, AFTER, Lengths(DIMENSION))
    assert await everything(place.beside) == named(BEFORE)
