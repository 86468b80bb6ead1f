"""A store and a state of each backend for the contract tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memproxy.ports import MemoryStore
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState
from tests.stores.indexing import both
from tests.stores.opening import OpenStore, server_for, stores_under
from tests.stores.states import BACKENDS, opened_state


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a state is kept."""
    return tmp_path / "home" / "state.db"


@pytest.fixture(params=BACKENDS)
async def state(file: Path, request: pytest.FixtureRequest) -> AsyncIterator[SqliteState]:
    """An open state of each kind."""
    async with opened_state(file, request.param) as opened:
        yield opened


@pytest.fixture(params=["edge", "indexed", "local", "postgres", "qdrant", "qdrant by REST"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens the same store again at each call."""
    return stores_under(request.param, tmp_path, server_for(request))


@pytest.fixture
async def store(open_store: OpenStore) -> AsyncIterator[MemoryStore]:
    """An empty store."""
    async with open_store() as opened:
        yield opened


@pytest.fixture
async def stores() -> AsyncIterator[tuple[EdgeStore, EdgeStore]]:
    async with both() as two:
        yield two
