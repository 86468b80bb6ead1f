"""Stores of every backend, opened again and again at one place."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest
from qdrant_client import AsyncQdrantClient

from memproxy.core.scope import Scope
from memproxy.ports import Candidate, HybridQuery, MemoryStore
from memproxy.stores.edge import EdgeStore
from memproxy.stores.owner_index import SEARCHES
from memproxy.stores.postgres import PostgresStore
from memproxy.stores.qdrant import QdrantStore
from tests.stores.making import DIMENSION
from tests.support.qdrant import QdrantAt

OpenStore = Callable[..., AbstractAsyncContextManager[MemoryStore]]


def server_for(request: pytest.FixtureRequest) -> str | QdrantAt | None:
    """The server that a backend (the fixture's parameter) needs, or None; skips where there is none."""
    if request.param == "postgres":
        return cast("str", request.getfixturevalue("postgres_url"))
    return cast("QdrantAt", request.getfixturevalue("qdrant")) if request.param.startswith("qdrant") else None


def stores_under(backend: str, folder: Path, server: str | QdrantAt | None = None) -> OpenStore:
    """Opens stores of a backend: each call of the answer opens the same place again."""
    if isinstance(server, QdrantAt):
        return _qdrant(at=server if backend == "qdrant" else replace(server, grpc_port=0))
    if isinstance(server, str):
        return _postgres(server)
    if backend == "local":
        return _qdrant(lambda: AsyncQdrantClient(path=str(folder / "qdrant")))
    return _edge(folder, IndexedFirst if backend == "indexed" else EdgeStore)


class IndexedFirst(EdgeStore):
    """An embedded store that answers each search from the owner's index in memory: it is made before, if need be."""

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        for _ in range(SEARCHES):
            await super().search(scope, query)
        await self.settle()
        return await super().search(scope, query)


def _opens(
    make: Callable[[int, str | None], AbstractAsyncContextManager[EdgeStore | PostgresStore | QdrantStore]],
) -> OpenStore:
    """Opens stores that ``make`` makes for a dimension and an embedder."""

    @asynccontextmanager
    async def opened(
        *,
        expected_id: str | None = None,
        dimension: int = DIMENSION,
        embedder: str | None = "test:model",
        told: list[str] | None = None,
        open_it: bool = True,
    ) -> AsyncIterator[MemoryStore]:
        async with make(dimension, embedder) as store:
            try:
                if open_it:
                    name = await store.open(expected_id)
                    if told is not None:
                        told.append(name)
                yield store
            finally:
                await store.close()

    return opened


def _edge(folder: Path, kind: type[EdgeStore]) -> OpenStore:
    return _opens(
        lambda dimension, embedder: nullcontext(kind(folder / "store", dimension=dimension, embedder_name=embedder))
    )


def _postgres(url: str) -> OpenStore:
    collection = f"t_{uuid4().hex}"
    return _opens(
        lambda dimension, embedder: nullcontext(
            PostgresStore(url=url, collection=collection, dimension=dimension, embedder_name=embedder)
        )
    )


def _qdrant(connect: Callable[[], AsyncQdrantClient] | None = None, at: QdrantAt | None = None) -> OpenStore:
    collection = f"memproxy_test_{uuid4().hex}"

    @asynccontextmanager
    async def made(dimension: int, embedder: str | None) -> AsyncIterator[QdrantStore]:
        client = connect() if connect else None
        try:
            yield QdrantStore(
                url=at.url if at else None,
                api_key=at.api_key if at else None,
                grpc_port=at.grpc_port if at else None,
                collection=collection,
                dimension=dimension,
                embedder_name=embedder,
                client=client,
            )
        finally:
            if client is not None:
                await client.close()

    return _opens(made)
