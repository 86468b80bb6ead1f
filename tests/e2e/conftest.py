"""A scripted upstream and a real proxy before it, shared by the tests of one module that break neither."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.folders import Folders
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream, scripted_upstream


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_upstream() -> AsyncIterator[ScriptedUpstream]:
    """The module's upstream."""
    async with scripted_upstream() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_proxy(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    """The module's proxy, with memory ready."""
    with folders.new("home") as home:
        async with running_proxy(shared_upstream.base_url, home) as proxy:
            yield proxy


@pytest_asyncio.fixture(loop_scope="module")
async def model(shared_upstream: ScriptedUpstream) -> ScriptedUpstream:
    """The module's upstream with nothing recorded or queued."""
    shared_upstream.reset()
    return shared_upstream
