"""The memory API of a real engine."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from memproxy.core.protocol import Identity
from memproxy.settings import LearnSettings, RecallSettings, Settings
from tests.support.engine import Api, make_engine, serve_engine
from tests.support.folders import Folders

APOLLO = Identity(
    tenant="acme",
    default_user="alice",
    bound_user=True,
    project="apollo",
    bound_project=True,
    permissions=frozenset({"memory:read", "memory:write"}),
)
"""A key of Alice's in one project."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(folders: Folders) -> AsyncIterator[Api]:
    """One engine for a module's tests: opening a store takes longer than most of them."""
    with folders.new("engine") as folder:
        async with serve_engine(make_engine(folder)) as api:
            yield api


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def learning(folders: Folders) -> AsyncIterator[Api]:
    """An engine that learns by rules, when it is asked to."""
    settings = Settings(
        learn=LearnSettings(mode="verbatim", every_turns=200, idle_s=3600), recall=RecallSettings(deadline_ms=60_000)
    )
    with folders.new("learning") as folder:
        async with serve_engine(make_engine(folder, settings=settings)) as served:
            yield served


@pytest.fixture
def api(served: Api) -> Api:
    """The module's engine, as a tenant of the test's own. Needs ``pytest.mark.asyncio(loop_scope="module")``."""
    return Api(served.client, served.engine, tenant=f"tenant-{uuid.uuid4().hex}")


@pytest.fixture
async def own_api(tmp_path: Path) -> AsyncIterator[Api]:
    """An engine of the test's own."""
    async with serve_engine(make_engine(tmp_path)) as served:
        yield served
