"""A store by words and one with the model, for tests of both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from memproxy.ports import Embedder
from tests.recall.making import Bench, bench
from tests.support.folders import Folders
from tests.support.model import WITH_AND_WITHOUT, found_by


@pytest.fixture(scope="module", params=WITH_AND_WITHOUT)
def by(request: pytest.FixtureRequest) -> str:
    """What memories are found by."""
    return str(request.param)


@asynccontextmanager
async def loaded(by: str, folders: Folders, *, token_vectors: bool = False) -> AsyncIterator[Embedder | None]:
    """The real model; None where memories are found by words."""
    with folders.new("cache") as cache:
        async with found_by(by, cache, token_vectors=token_vectors) as made:
            yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(by: str, folders: Folders) -> AsyncIterator[Embedder | None]:
    """Loaded once for a module's tests."""
    async with loaded(by, folders, token_vectors=True) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def side(by: str, model: Embedder | None) -> AsyncIterator[tuple[str, Bench]]:
    """ "words" or "model", and a store that goes by it. Needs ``pytest.mark.asyncio(loop_scope="module")``."""
    async with bench(embedder=model) as known:
        yield by, known
