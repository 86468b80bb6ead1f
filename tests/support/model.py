"""The real embedding model, as tests load it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from memproxy.models.embed import FastembedEmbedder
from memproxy.ports import Embedder
from memproxy.settings import EmbeddingSettings
from tests.support.shared import MODEL_PATH, needs_model

One = TypeVar("One", bound=Embedder)
Test = TypeVar("Test", bound=Callable[..., object])

WITH_AND_WITHOUT = ["words", pytest.param("model", marks=[needs_model, pytest.mark.model])]
"""What memories are found by, as parameters of a fixture."""


def of_model(test: Test) -> Test:
    """Mark a test of the real model."""
    marked: Test = needs_model(pytest.mark.model(test))
    return marked


async def until_ready(embedder: Embedder) -> None:
    """Until the embedder is no longer loading."""
    while embedder.state == "loading":
        await asyncio.sleep(0.01)
    assert embedder.state == "ready", embedder.state


@asynccontextmanager
async def ready(embedder: One) -> AsyncIterator[One]:
    """Started, and loaded."""
    await embedder.start()
    try:
        await until_ready(embedder)
        yield embedder
    finally:
        await embedder.close()


@asynccontextmanager
async def found_by(by: str, cache: Path, **settings: Any) -> AsyncIterator[Embedder | None]:
    """The real model; None where memories are found by words."""
    if by == "words":
        yield None
        return
    async with ready(FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH, **settings), cache)) as made:
        yield made
