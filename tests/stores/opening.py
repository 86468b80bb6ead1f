"""Stores of every backend, opened again and again at one place."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from qdrant_client import AsyncQdrantClient

from memproxy.core.scope import Scope
from memproxy.ports import Candidate, HybridQuery, MemoryStore
from memproxy.stores.edge import EdgeStore
from memproxy.stores.owner_indexes import SEARCHES
from memproxy.stores.postgres import PostgresStore
from memproxy.stores.qdrant import QdrantStore
from tests.stores.making import DIMENSION

OpenStore = Callable[..., AbstractAsyncContextManager[MemoryStore]]


def stores_under(backend: str, folder: Path, postgres_url: str | None = None) -> OpenStore:
    """Opens stores of a backend: each call of the answer opens the same place again."""
    if backend == "edge":
        return _edge(folder, EdgeStore)
    if backend == "indexed":
        return _edge(folder, IndexedFirst)
    if backend == "local":
        return _qdrant(lambda: AsyncQdrantClient(path=str(folder / "qdrant")))
    if backend == "postgres":
        assert postgres_url is not None
        return _postgres(postgres_url)
    url = os.environ.get("MEMPROXY_TEST_QDRANT_URL")
    if not url:
        pytest.skip("MEMPROXY_TEST_QDRANT_URL names no Qdrant server")
    return _qdrant(None, url=url)


class IndexedFirst(EdgeStore):
    """An embedded store that answers each search from the owner's index in memory: it is made before, if need be."""

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        for _ in range(SEARCHES):
            await super().search(scope, query)
        await self.settle()
        return await super().search(scope, query)


def _edge(folder: Path, kind: type[EdgeStore]) -> OpenStore:
    @asynccontextmanager
    async def opened(
        *,
        expected_id: str | None = None,
        dimension: int = DIMENSION,
        embedder: str | None = "test:model",
        told: list[str] | None = None,
        open_it: bool = True,
    ) -> AsyncIterator[MemoryStore]:
        store = kind(folder / "store", dimension=dimension, embedder_name=embedder)
        try:
            if open_it:
                name = await store.open(expected_id)
                if told is not None:
                    told.append(name)
            yield store
        finally:
            await store.close()

    return opened


def _postgres(url: str) -> OpenStore:
    collection = f"t_{uuid4().hex}"

    @asynccontextmanager
    async def opened(
        *,
        expected_id: str | None = None,
        dimension: int = DIMENSION,
        embedder: str | None = "test:model",
        told: list[str] | None = None,
        open_it: bool = True,
    ) -> AsyncIterator[MemoryStore]:
        store = PostgresStore(url=url, collection=collection, dimension=dimension, embedder_name=embedder)
        try:
            if open_it:
                name = await store.open(expected_id)
                if told is not None:
                    told.append(name)
            yield store
        finally:
            await store.close()

    return opened


def _qdrant(connect: Callable[[], AsyncQdrantClient] | None, url: str | None = None) -> OpenStore:
    collection = f"memproxy_test_{uuid4().hex}"

    @asynccontextmanager
    async def opened(
        *,
        expected_id: str | None = None,
        dimension: int = DIMENSION,
        embedder: str | None = "test:model",
        told: list[str] | None = None,
        open_it: bool = True,
    ) -> AsyncIterator[MemoryStore]:
        client = connect() if connect else None
        store = QdrantStore(
            url=url,
            api_key=os.environ.get("MEMPROXY_TEST_QDRANT_API_KEY"),
            collection=collection,
            dimension=dimension,
            embedder_name=embedder,
            client=client,
        )
        try:
            if open_it:
                name = await store.open(expected_id)
                if told is not None:
                    told.append(name)
            yield store
        finally:
            await store.close()
            if client is not None:
                await client.close()

    return opened
