"""State stores of every backend, for the tests of what each contract of `ports.state` promises."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from memproxy.stores.apart_state import ApartState, Writing
from memproxy.stores.sealing import MasterKeys
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_sealed import SealedState

BACKENDS = ["sqlite", "apart", "sealed"]
"""A file of one's own; read here and written by calls over a socket, as the engine uses it; with texts encrypted."""

MASTER = MasterKeys([b"k" * 32])


def opened_again(state: SqliteState, file: Path) -> AbstractAsyncContextManager[SqliteState]:
    """The same state, opened as by another process."""
    return opened_state(file, "sealed" if state.seals else "sqlite")


@asynccontextmanager
async def opened_state(file: Path, backend: str = "sqlite") -> AsyncIterator[SqliteState]:
    """A state on this file, open until the end of the block."""
    if backend != "apart":
        sealed = backend == "sealed"
        state = SealedState(file, sync="normal", masters=MASTER) if sealed else SqliteState(file, sync="normal")
        await state.open()
        yield state
        await state.close()
        return
    with tempfile.TemporaryDirectory(prefix="apart-") as folder:  # a socket's path is short
        socket = Path(folder) / "state.sock"
        writing = Writing(SqliteState(file, sync="normal"))
        server = await asyncio.start_unix_server(writing.serve, socket)
        apart = ApartState(file, sync="normal", reads_only=True)
        apart.writes_by(socket)
        await apart.open()
        yield apart
        await apart.close()
        server.close()
        await writing.close()
