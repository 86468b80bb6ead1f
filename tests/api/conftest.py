"""The memory API of a real engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.engine import Api, make_engine, serve_engine


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A fresh engine."""
    async with serve_engine(make_engine(tmp_path)) as served:
        yield served
