"""A store by words and one with the model, for tests of both."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from memproxy.evals.vector_cache import until_ready
from memproxy.models.embed import FastembedEmbedder
from memproxy.ports import Embedder
from memproxy.settings import EmbeddingSettings
from tests.recall.making import Bench, bench
from tests.support.folders import Folders
from tests.support.shared import MODEL_PATH, needs_model


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["words", pytest.param("model", marks=[needs_model, pytest.mark.model])]
)
async def model(request: pytest.FixtureRequest, folders: Folders) -> AsyncIterator[Embedder | None]:
    """The real model, loaded once for a module's tests; None where they go by words."""
    if request.param == "words":
        yield None
        return
    with folders.new("cache") as cache:
        made = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=True), cache)
        await until_ready(made)
        yield made
        await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def side(model: Embedder | None) -> AsyncIterator[tuple[str, Bench]]:
    """ "words" or "model", and a store that goes by it. Needs ``pytest.mark.asyncio(loop_scope="module")``."""
    async with bench(embedder=model) as known:
        yield "model" if model is not None else "words", known
