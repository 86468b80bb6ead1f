"""The memory API of a real engine."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.engine import Api, make_engine, serve_engine
from tests.support.folders import Folders


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(folders: Folders) -> AsyncIterator[Api]:
    """One engine for a module's tests: opening a store takes longer than most of them."""
    with folders.new("engine") as folder:
        async with serve_engine(make_engine(folder)) as api:
            yield api


@pytest.fixture
def api(served: Api) -> Api:
    """The module's engine, as a tenant of the test's own. Needs ``pytest.mark.asyncio(loop_scope="module")``."""
    return Api(served.client, served.engine, tenant=f"tenant-{uuid.uuid4().hex}")


@pytest.fixture
async def own_api(tmp_path: Path) -> AsyncIterator[Api]:
    """An engine of the test's own."""
    async with serve_engine(make_engine(tmp_path)) as served:
        yield served
