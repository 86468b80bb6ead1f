"""What most of this room's tests stand on: the state, and a relay that gives memories and is in no hurry."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import Memories, numbered
from tests.relay.rig import Rig, Running, running_relay
from tests.support.upstream import ScriptedUpstream


@pytest.fixture
def state(tmp_path: Path) -> SqliteState:
    """The journal, sessions and blocks, in a file of the test's own."""
    return SqliteState(tmp_path / "state.db", sync="normal")


@pytest.fixture
def running(upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path) -> Running:
    """Starts a relay with the settings that a test asks for."""
    return partial(running_relay, upstream.base_url, state, tmp_path)


@pytest.fixture
async def relay(running: Running) -> AsyncIterator[Rig]:
    """A relay whose engine has a hundred memories and gives two new ones for each question."""
    async with running() as rig:
        rig.engine.recall = Memories(numbered(100))
        yield rig
