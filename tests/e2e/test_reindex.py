"""Another embedding model in the configuration of a real proxy: chat goes on, and one command brings memory back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from memproxy.commands.installation import installation
from memproxy.settings import EmbeddingSettings, LearnSettings, Settings
from tests.e2e.talk import say
from tests.support.proxy import Proxy, memproxy, running_proxy
from tests.support.upstream import scripted_upstream
from tests.support.waiting import eventually


async def _embeddings(request: web.Request) -> web.Response:
    body = await request.json()
    size = body["dimensions"]
    rows = [[1.0 + (sum(text.encode()) >> place) % 2 for place in range(size)] for text in body["input"]]
    data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return web.json_response({"object": "list", "model": body["model"], "data": data, "usage": usage})


@asynccontextmanager
async def embedding_server() -> AsyncIterator[str]:
    """A server of the embeddings API, for any dimension; its address."""
    server = web.Application()
    server.router.add_post("/v1/embeddings", _embeddings)
    runner = web.AppRunner(server, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def embedding(url: str, model: str, dimension: int) -> dict[str, Any]:
    return {"provider": "openai", "base_url": url, "model": model, "dimension": dimension, "api_key": "none"}


async def told_before(url: str, text: str) -> None:
    """What the installation remembers from the time of the other model, of callers without a key."""
    before = Settings(
        embedding=EmbeddingSettings(**embedding(url, "small", 8)), learn=LearnSettings(enabled=False, mode="verbatim")
    )
    async with installation(before) as here:
        body = {"session_id": "s1", "messages": [{"role": "user", "content": text}]}
        await here.call("POST", "/v1/memory/turns", user="default", json=body)


async def test_after_another_model_chat_goes_on_and_one_command_brings_memory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMPROXY_HOME", str(tmp_path))
    async with scripted_upstream() as upstream, embedding_server() as url:
        await told_before(url, "My cat is called Whiskers")
        changes = {"embedding": embedding(url, "large", 16), "learn": {"enabled": False}}
        async with running_proxy(upstream.base_url, tmp_path, changes, memory=False) as proxy:
            await eventually(lambda: is_refused(proxy))
            answer = await say(proxy, "I also keep a parrot called Coco", key=None)
            assert (answer.status, answer.recall) == (200, "degraded; reason=store")
            done = await asyncio.to_thread(memproxy, tmp_path, "reindex", "--config", str(proxy.config_file))
            assert done.returncode == 0, done.stderr
            assert "1 memories reindexed; the new collection is in use." in done.stdout
            await eventually(lambda: remembered(proxy, "Coco"))
            (cat,) = await remembered(proxy, "Whiskers")
            assert "cosine" in cat["signals"]


async def is_refused(proxy: Proxy) -> bool:
    """Whether the store of the other model was refused by now."""
    return "memproxy reindex" in str((await proxy.readiness())[1])


async def remembered(proxy: Proxy, word: str) -> list[dict[str, Any]]:
    """What is found with this word in it, of callers without a key."""
    answer = await proxy.call("POST", "/v1/memory/search", None, json={"query": word, "limit": 50})
    return [hit for hit in answer.json().get("data", []) if word in hit["memory"]["content"]]
