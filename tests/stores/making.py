"""Memories, points and stores for the tests of this room."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from qdrant_client import AsyncQdrantClient

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.ports import MemoryStore, Point, SparseVector
from memproxy.stores.edge import EdgeStore
from memproxy.stores.qdrant import QdrantStore

DIMENSION = 4
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ANN = Scope(tenant="acme", user="ann", session="s1")
BEN = Scope(tenant="acme", user="ben", session="s1")
FOREIGN_ANN = Scope(tenant="umbrella", user="ann", session="s1")
WORDS = SparseVector([7], [1.0])

OpenStore = Callable[..., AbstractAsyncContextManager[MemoryStore]]


def memory(name: str, scope: Scope = ANN, *, seconds: float = 0, **fields: Any) -> Memory:
    """A fact of ``scope``, learned ``seconds`` after noon."""
    at = NOON + timedelta(seconds=seconds)
    defaults: dict[str, Any] = {
        "kind": Kind.SEMANTIC,
        "content": f"content of {name}",
        "session_id": scope.session,
        "project_id": scope.project,
        "agent_id": scope.agent,
        "created_at": at,
        "updated_at": at,
    }
    return Memory(id=name, tenant=scope.tenant, user_id=scope.user, **(defaults | fields))


def turn(name: str, scope: Scope = ANN, *, seconds: float = 0, seq: int = 0, **fields: Any) -> Memory:
    """A verbatim turn."""
    return memory(
        name, scope, seconds=seconds, **{"kind": Kind.TURN, "turn_ids": [name], "metadata": {"seq": seq}} | fields
    )


def point(one: Memory, *dense: list[float], words: SparseVector = WORDS) -> Point:
    """A point with as many parts as vectors are given."""
    return Point(memory=one, dense=list(dense), bm25=words)


def stores_under(backend: str, folder: Path) -> OpenStore:
    """Opens stores of a backend: each call of the answer opens the same place again."""
    if backend == "edge":
        return _edge(folder)
    if backend == "local":
        return _qdrant(lambda: AsyncQdrantClient(path=str(folder / "qdrant")))
    url = os.environ.get("MEMPROXY_TEST_QDRANT_URL")
    if not url:
        pytest.skip("MEMPROXY_TEST_QDRANT_URL names no Qdrant server")
    return _qdrant(None, url=url)


def _edge(folder: Path) -> OpenStore:
    @asynccontextmanager
    async def opened(
        *, expected_id: str | None = None, dimension: int = DIMENSION, embedder: str | None = "test:model"
    ) -> AsyncIterator[MemoryStore]:
        store = EdgeStore(folder / "store", dimension=dimension, embedder_name=embedder)
        try:
            await store.open(expected_id)
            yield store
        finally:
            await store.close()

    return opened


def _qdrant(connect: Callable[[], AsyncQdrantClient] | None, url: str | None = None) -> OpenStore:
    collection = f"memproxy_test_{uuid4().hex}"

    @asynccontextmanager
    async def opened(
        *, expected_id: str | None = None, dimension: int = DIMENSION, embedder: str | None = "test:model"
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
            await store.open(expected_id)
            yield store
        finally:
            await store.close()
            if client is not None:
                await client.close()

    return opened
