"""A store by words and one with the model, for tests of both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from memproxy.evals.vector_cache import until_ready
from memproxy.models.embed import FastembedEmbedder
from memproxy.ports import Embedder
from memproxy.settings import EmbeddingSettings
from tests.recall.making import Bench, bench
from tests.support.folders import Folders
from tests.support.shared import MODEL_PATH, needs_model


@pytest.fixture(scope="module", params=["words", pytest.param("model", marks=[needs_model, pytest.mark.model])])
def by(request: pytest.FixtureRequest) -> str:
    """What memories are found by."""
    return str(request.param)


@asynccontextmanager
async def loaded(by: str, folders: Folders, *, token_vectors: bool = False) -> AsyncIterator[Embedder | None]:
    """The real model; None where memories are found by words."""
    if by == "words":
        yield None
        return
    with folders.new("cache") as cache:
        made = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=token_vectors), cache)
        await until_ready(made)
        yield made
        await made.close()


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
