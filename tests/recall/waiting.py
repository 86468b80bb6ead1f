"""Waiting for a model to load."""

import asyncio

from memproxy.ports import Embedder


async def until_ready(embedder: Embedder) -> None:
    """Until the embedder is no longer loading."""
    while embedder.state == "loading":
        await asyncio.sleep(0.01)
    assert embedder.state == "ready", embedder.state
