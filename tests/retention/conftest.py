"""A scripted upstream that finds facts, shared by the tests of one module."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.e2e.talk import extract_by_rules
from tests.support.upstream import ScriptedUpstream, scripted_upstream


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_upstream() -> AsyncIterator[ScriptedUpstream]:
    async with scripted_upstream() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def upstream(shared_upstream: ScriptedUpstream) -> ScriptedUpstream:
    """The module's upstream, which finds facts."""
    shared_upstream.reset()
    shared_upstream.extractor = extract_by_rules
    return shared_upstream
