"""Fixtures that every room's tests may use."""

from collections.abc import AsyncIterator

import pytest

from tests.support.upstream import ScriptedUpstream, scripted_upstream


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """A scripted upstream of the test's own."""
    async with scripted_upstream() as server:
        yield server
