"""Memory breaks under load: every request is answered, says so, and memory comes back by itself."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.load import Load, under_load
from tests.e2e.talk import chat, found, say
from tests.support.folders import Folders
from tests.support.proxy import Proxy, free_port, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

FACT = "My budget for the Hawaii vacation is $10,000."


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def proxy(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    """A proxy that knows one fact. Each test ends when memory is back, but for the last one."""
    with folders.new("home") as home:
        async with running_proxy(shared_upstream.base_url, home, {"recall": {"deadline_ms": 500}}) as it:
            assert (await say(it, FACT)).status == 200
            await eventually(lambda: found(it, FACT), what="the fact is searchable")
            yield it


async def until_recall(load: Load, wanted: str) -> None:
    """Wait for an answer from now on whose recall header says ``wanted``."""
    begin = len(load.answers)
    await eventually(lambda: wanted in load.recalls_since(begin), what=f"an answer whose recall is {wanted}")


async def says_degraded(proxy: Proxy) -> bool:
    """Chat is served, and some part of memory is not well."""
    status, body = await proxy.readiness()
    return status == 200 and "degraded" in str(body["parts"])


def all_answered(load: Load) -> None:
    assert set(load.statuses) == {200}
    assert all(b"[DONE]" in answer.body for answer in load.answers)


@pytest.mark.parametrize("hangs", [False, True])
async def test_an_engine_that_is_killed_or_hangs_costs_memory_and_never_a_request(proxy: Proxy, *, hangs: bool) -> None:
    engine = await proxy.engine()
    async with under_load(proxy) as load:
        await until_recall(load, "injected")
        if hangs:
            engine.suspend()
        else:
            engine.kill()
        await until_recall(load, "degraded")
        if hangs:
            engine.resume()
        await until_recall(load, "injected")
    all_answered(load)


async def test_a_killed_relay_is_started_again(proxy: Proxy) -> None:
    (relay,) = proxy.family("_relay")
    relay.kill()

    async def answers() -> bool:
        return (await proxy.readiness())[0] == 200 and proxy.family("_relay") != [relay]

    await eventually(answers, what="another relay serves")

    async def recalls() -> bool:
        return (await say(proxy, "What is my budget for the Hawaii vacation?")).recall == "injected"

    await eventually(recalls, what="with memory")


async def test_a_store_whose_files_are_gone_costs_memory_and_never_a_request(proxy: Proxy) -> None:
    """The last one: nothing brings this memory back."""
    async with under_load(proxy) as load:
        await until_recall(load, "injected")
        shutil.rmtree(proxy.home / "store")
        await until_recall(load, "degraded")
        await eventually(lambda: says_degraded(proxy), what="/readyz calls a part degraded")
    all_answered(load)


async def test_a_remote_store_that_is_down_at_start_costs_memory_only(
    shared_upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    store = {"store": {"backend": "qdrant", "url": f"http://127.0.0.1:{free_port()}"}}
    async with running_proxy(shared_upstream.base_url, tmp_path / "home", store, memory=False) as proxy:
        await proxy.engine()

        async def measured() -> dict[str, str]:
            """The engine's own word: a busy one that did not answer in time has no parts."""
            parts: dict[str, str] = (await proxy.readiness())[1]["parts"]
            return parts if parts.get("store", "").startswith("degraded") else {}

        parts = await eventually(measured, what="/readyz calls the store degraded")
        assert (parts["engine"], parts["state"]) == ("ready", "ready")
        assert (parts["store"][:10], parts["worker"]) == ("degraded: ", "degraded: it waits for the store")
        async with proxy.client() as client:
            answer = await chat(client, "What is my budget for the Hawaii vacation?")
            api = await client.post("/v1/memory/search", json={"query": "budget"})
        assert (answer.status, answer.recall.split(";")[0]) == (200, "degraded")
        assert api.status_code == 503
        assert set(api.json()["error"]) == {"message", "type", "param", "code"}
