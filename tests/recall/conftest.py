"""The pipeline over the real model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memproxy.models.embed import FastembedEmbedder
from memproxy.settings import EmbeddingSettings
from tests.recall.making import PATIENT, Bench, bench
from tests.recall.waiting import until_ready
from tests.support.shared import MODEL_PATH


@pytest.fixture
async def with_model(tmp_path: Path) -> AsyncIterator[Bench]:
    """Nothing is known yet; the model is loaded, and all that recall prepares from it."""
    embedder = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=True), tmp_path / "cache")
    await embedder.start()
    await until_ready(embedder)
    async with bench(tmp_path / "store", embedder=embedder, settings=PATIENT) as made:
        await made.recall.prepare()
        yield made
    await embedder.close()
