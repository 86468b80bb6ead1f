"""The state as the engine uses it: read here, written by calls over a socket."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from memproxy.stores.apart_state import ApartState, Writing
from memproxy.stores.sqlite_state import SqliteState

BOTH = ["own", "apart"]
"""Ways to open a state: for fixtures whose tests hold for either."""


@asynccontextmanager
async def opened_state(file: Path, way: str = "own") -> AsyncIterator[SqliteState]:
    """A state on this file, open until the end of the block."""
    if way == "own":
        state = SqliteState(file, sync="normal")
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
