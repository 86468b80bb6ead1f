"""What most of this room's tests stand on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.learn.rig import Rig, rig


@pytest.fixture
async def r(tmp_path: Path) -> AsyncIterator[Rig]:
    """A rig whose worker runs, with default settings."""
    async with rig(tmp_path) as made:
        yield made
