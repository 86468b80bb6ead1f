"""A store by words and one with the model, for tests of both."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memproxy.evals.vectors import until_ready
from memproxy.models.embed import FastembedEmbedder
from memproxy.settings import EmbeddingSettings
from tests.recall.making import Bench, bench
from tests.support.shared import MODEL_PATH, needs_model


@pytest.fixture(params=["words", pytest.param("model", marks=[needs_model, pytest.mark.model])])
async def side(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, Bench]]:
    """ "words" or "model", and the store that goes by it."""
    embedder = None
    if request.param == "model":
        embedder = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=True), tmp_path / "cache")
        await until_ready(embedder)
    async with bench(tmp_path / "store", embedder=embedder) as known:
        yield request.param, known
    if embedder is not None:
        await embedder.close()
