"""`memproxy reindex`: on the store itself, through the running server, through one whose store was refused."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memproxy.commands import app, upkeep
from memproxy.commands.installation import installation
from memproxy.core.protocol import READY_PATH
from memproxy.errors import ConfigError, MemproxyError
from memproxy.settings import EmbeddingSettings, LearnSettings, Settings
from tests.house.test_cli_upkeep import served

pytestmark = pytest.mark.usefixtures("home")

SAID = ("My name is Ann", "I live in Berlin", "I have a dog named Biscuit")


def settings(dimension: int) -> Settings:
    embedding = EmbeddingSettings(provider="none", dimension=dimension)
    return Settings(embedding=embedding, learn=LearnSettings(enabled=False))


async def say(*texts: str, dimension: int) -> None:
    async with installation(settings(dimension)) as here:
        body = {"session_id": "s1", "messages": [{"role": "user", "content": text} for text in texts]}
        await here.call("POST", "/v1/memory/turns", user="ann", json=body)


async def contents(dimension: int) -> set[str]:
    async with installation(settings(dimension)) as here:
        page = await here.call("GET", "/v1/memory", user="ann")
    return {memory["content"] for memory in page["data"]}


def silent(done: int, total: int) -> None:
    assert done <= total


def test_without_a_server_the_refused_store_is_opened_and_rebuilt(home: Path) -> None:
    asyncio.run(say(*SAID, dimension=384))
    with pytest.raises(ConfigError, match="memproxy reindex"):
        asyncio.run(contents(8))
    config = home / "config.yaml"
    config.write_text("embedding: {provider: none, dimension: 8}\nlearn: {enabled: false}\n")
    done = CliRunner().invoke(app, ["reindex", "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert "3 memories reindexed; the new collection is in use." in done.output
    assert asyncio.run(contents(8)) == set(SAID)


async def test_a_server_whose_store_was_refused_rebuilds_and_then_serves_it(home: Path) -> None:
    await say(*SAID, dimension=384)
    async with served(home, settings(8)) as engine:
        assert engine.readiness()["store"].startswith("refused")
        await upkeep.reindex(settings(8), silent)
        async with installation(settings(8)) as here:
            assert (await here.call("GET", READY_PATH))["worker"] == "ready"
        await say("I work as a nurse", dimension=8)
        assert await contents(8) == {*SAID, "I work as a nurse"}
    assert await contents(8) == {*SAID, "I work as a nurse"}


async def test_a_serving_server_rebuilds_while_it_takes_writes_and_deletes(home: Path) -> None:
    async with served(home, settings(8)):
        await say(*SAID, dimension=8)
        reindexing = asyncio.get_running_loop().create_task(upkeep.reindex(settings(8), silent))
        for number in range(5):
            await say(f"I counted to {number}", dimension=8)
        async with installation(settings(8)) as here:
            page = await here.call("GET", "/v1/memory", user="ann")
            (gone,) = (one["id"] for one in page["data"] if one["content"] == SAID[0])
            await here.call("DELETE", f"/v1/memory/{gone}", user="ann")
        assert (await reindexing).state == "done"
        expected = {*SAID[1:], *(f"I counted to {number}" for number in range(5))}
        assert await contents(8) == expected
    assert await contents(8) == expected


async def test_a_server_with_another_embedder_is_not_told_what_to_embed_with(home: Path) -> None:
    async with served(home, settings(8)):
        await say(*SAID, dimension=8)
        with pytest.raises(MemproxyError, match="Start the server anew with this configuration"):
            await upkeep.reindex(settings(16), silent)
        assert await contents(8) == set(SAID)


async def test_an_embedder_that_is_away_changes_nothing_and_is_named() -> None:
    await say(*SAID, dimension=384)
    away = EmbeddingSettings(provider="openai", base_url="http://127.0.0.1:9/v1", model="any", dimension=8)
    with pytest.raises(MemproxyError, match=r"127\.0\.0\.1"):
        await upkeep.reindex(settings(8).model_copy(update={"embedding": away}), silent)
    assert await contents(384) == set(SAID)
