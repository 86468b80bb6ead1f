"""The proxy's own answers: too large, too many, no upstream, an upstream that is silent."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.talk import Exchange, body, chat, exchange
from tests.support.answers import Answer, chat_events, stream
from tests.support.folders import Folders
from tests.support.proxy import KEY, Proxy, free_port, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = {"max_body_bytes": 100_000, "max_concurrent_requests": 4}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_proxy(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    """A proxy with small limits."""
    changes = {"server": LIMITS, "upstream": {"timeout_s": 1.0, "connect_timeout_s": 1.0}}
    with folders.new("home") as home:
        async with running_proxy(shared_upstream.base_url, home, changes, memory=False) as proxy:
            yield proxy


def shaped(answer: Exchange, status: int) -> str:
    """The message of an OpenAI-shaped error with this status."""
    assert answer.status == status, answer
    error = json.loads(answer.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert KEY not in answer.body.decode()
    return str(error["message"])


async def test_a_body_over_the_limit_is_refused(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    async with shared_proxy.client() as client:
        assert "max_body_bytes" in shaped(await chat(client, "x" * 200_000), 413)
        assert (await chat(client, "x" * 50_000)).status == 200
    assert len(model.received) == 1


async def test_a_body_over_the_limit_is_refused_without_a_declared_length(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 10_000

    async with shared_proxy.client() as client:
        shaped(await exchange(client, "POST", "/v1/chat/completions", content=pieces()), 413)
    assert not model.received


async def test_an_upstream_that_is_silent_is_a_504(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(Answer([b"{}"], wait=asyncio.Event()))
    async with shared_proxy.client() as client:
        assert "127.0.0.1" in shaped(await chat(client, "Are you there at all?"), 504)


async def test_more_requests_than_allowed_are_told_to_come_back(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    go_on = asyncio.Event()
    first, *rest = chat_events("one")
    model.default = lambda _received: stream([first, go_on, *rest])
    async with shared_proxy.client() as client, asyncio.TaskGroup() as group:
        held = [group.create_task(chat(client, f"Hold number {n}", stream=True)) for n in range(4)]
        await eventually(lambda: len(model.received) == 4, what="four requests are open")
        refused = await chat(client, "One more please")
        go_on.set()
    shaped(refused, 503)
    assert refused.header("retry-after")
    assert {task.result().status for task in held} == {200}


async def test_an_upstream_that_refuses_connections_is_a_502(tmp_path: Path) -> None:
    port = free_port()
    async with (
        running_proxy(f"http://127.0.0.1:{port}/v1", tmp_path, memory=False) as proxy,
        proxy.client() as client,
    ):
        message = shaped(await chat(client, "Is anybody there at all?"), 502)
        shaped(await exchange(client, "GET", "/v1/models"), 502)
        streamed = await exchange(client, "POST", "/v1/chat/completions", content=body("And now?", stream=True))
    assert f"127.0.0.1:{port}" in message
    shaped(streamed, 502)
