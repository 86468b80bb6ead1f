"""The pipeline over the real model."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from memproxy.evals.vector_cache import CachedEmbedder, VectorCache
from memproxy.models.embed import FastembedEmbedder
from memproxy.ports import Embedder
from memproxy.settings import EmbeddingSettings
from tests.recall.making import Bench, bench
from tests.support.folders import Folders
from tests.support.shared import MODEL_PATH


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def loaded_model(folders: Folders) -> AsyncIterator[Embedder]:
    """The model, loaded once for a module's tests; a text that several of them store is embedded once."""
    with folders.new("model") as folder:
        made = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=True), folder / "cache")
        vectors = VectorCache(folder / "vectors")
        cached = CachedEmbedder(made, vectors)
        await cached.start()
        yield cached
        await cached.close()
        vectors.close()


@pytest.fixture
async def it() -> AsyncIterator[Bench]:
    """Nothing is known yet; recall goes by words."""
    async with bench() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def with_model(loaded_model: Embedder) -> AsyncIterator[Bench]:
    """Nothing is known yet; recall has prepared what it makes of the model. Needs
    ``pytest.mark.asyncio(loop_scope="module")``.
    """
    async with bench(embedder=loaded_model) as made:
        await made.recall.prepare()
        yield made
