"""State stores of every backend, for the tests of what each contract of `ports.state` promises."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from memproxy.ports import STORE_ID
from memproxy.stores.apart_state import ApartState, Writing
from memproxy.stores.edge import EdgeStore
from memproxy.stores.qdrant import QdrantStore
from memproxy.stores.sealing import MasterKeys
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_sealed import SealedState
from tests.support.opening import opening

BACKENDS = ["sqlite", "apart", "sealed"]
"""A file of one's own; read here and written by calls over a socket, as the engine uses it; with texts encrypted."""

MASTER = MasterKeys([b"k" * 32])

Store = TypeVar("Store", EdgeStore, QdrantStore)


def opened_again(state: SqliteState, file: Path) -> AbstractAsyncContextManager[SqliteState]:
    """The same state, opened as by another process."""
    return opened_state(file, "sealed" if state.seals else "sqlite")


@asynccontextmanager
async def opened_state(file: Path, backend: str = "sqlite") -> AsyncIterator[SqliteState]:
    """A state on this file, open until the end of the block."""
    if backend != "apart":
        sealed = backend == "sealed"
        state = SealedState(file, sync="normal", masters=MASTER) if sealed else SqliteState(file, sync="normal")
        async with opening(state):
            yield state
        return
    with tempfile.TemporaryDirectory(prefix="apart-") as folder:  # a socket's path is short
        socket = Path(folder) / "state.sock"
        writing = Writing(SqliteState(file, sync="normal"))
        server = await asyncio.start_unix_server(writing.serve, socket)
        apart = ApartState(file, sync="normal", reads_only=True)
        apart.writes_by(socket)
        async with opening(apart):
            yield apart
        server.close()
        await writing.close()


@asynccontextmanager
async def state_in(folder: Path, *, sealed: bool = False) -> AsyncIterator[SqliteState]:
    """The state of an installation with a name."""
    async with opened_state(folder / "state.db", "sealed" if sealed else "sqlite") as state:
        await state.set_meta(STORE_ID, uuid4().hex)
        yield state


@asynccontextmanager
async def encrypted(store: Store, folder: Path) -> AsyncIterator[tuple[Store, SealedState]]:
    """The store, open, with its texts encrypted by the keys of a state."""
    async with opening(SealedState(folder / "state.db", sync="normal", masters=MASTER)) as state:
        store.seal_with(state)
        async with opening(store, None):
            yield store, state
