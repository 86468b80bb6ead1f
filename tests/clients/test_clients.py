"""Every client in every case, directly and through the proxy: its user gets the same, and memory is in the request."""

import json
import os
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.clients.driving import NODE_CLIENTS, PYTHON_CLIENTS, Driven, driven, missing
from tests.clients.script import answer
from tests.support.answers import Received
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import eventually

WANTED = "MEMPROXY_TEST_CLIENTS"
MARK = "<recalled-memory"
CASES = [
    "chat",
    "stream",
    "tools",
    "tools_stream",
    "error_400",
    "error_401",
    "error_429",
    "broken",
    "stream_error",
    "cancel",
]
QUESTION = "what should I pack for my trip to Paris in case it rains there?"
REMEMBERED = [
    "The trip to Paris begins on 3 May and lasts five days.",
    "Never pack more than one small bag for a trip.",
]
RANDOM = {"prompt_cache_key", "safety_identifier"}

pytestmark = [
    pytest.mark.skipif(not os.environ.get(WANTED), reason=f"real clients are tested by `make test-clients` ({WANTED})"),
    pytest.mark.asyncio(loop_scope="module"),
]
CLIENTS = [(name, False) for name in PYTHON_CLIENTS] + [(name, True) for name in NODE_CLIENTS]


class Setting(NamedTuple):
    client: Driven
    name: str
    upstream: ScriptedUpstream
    proxy: Proxy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with scripted_upstream() as server:
        server.default = answer
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxy]:
    changes = {
        "gate": {"enabled": False},
        "learn": {"enabled": False},
        "recall": {"similarity_threshold": 0.0, "min_confidence": 0.0, "deadline_ms": 20_000},
    }
    async with running_proxy(upstream.base_url, tmp_path_factory.mktemp("proxy"), changes) as running:
        async with running.client() as client:
            for content in REMEMBERED:
                stored = await client.post("/v1/memory", json={"content": content})
                assert stored.status_code == 201, stored.text
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CLIENTS, ids=[name for name, _ in CLIENTS])
async def setting(
    request: pytest.FixtureRequest, upstream: ScriptedUpstream, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Setting]:
    name, node = request.param
    if reason := missing(name, node=node):
        pytest.skip(reason)
    async with driven(name, tmp_path_factory.mktemp("client") / "log", node=node) as client:
        yield Setting(client, name, upstream, proxy)


@pytest.mark.parametrize("case", CASES)
async def test_a_client_gets_through_the_proxy_what_it_gets_directly(setting: Setting, case: str) -> None:
    directly, asked = await run(setting, case, setting.upstream.base_url)
    through, carried = await run(setting, case, setting.proxy.base_url)
    assert through == directly
    assert expected(case, json.dumps(directly, ensure_ascii=False)), directly
    assert any(MARK in one.body.decode() for one in carried)
    assert_same_requests(asked, carried)
    setting.proxy.assert_clean()


async def run(setting: Setting, case: str, base_url: str) -> tuple[Any, list[Received]]:
    """What the client got, and what reached the upstream; of a client that left, its call there ended too."""
    before = len(setting.upstream.received)
    question = f"For {setting.name}, case {case}: {QUESTION}"
    result = await setting.client.run(case, base_url, question)
    asked = setting.upstream.received[before:]
    if case == "cancel":
        await eventually(asked[-1].left.is_set, what="the upstream's call ended when the client left")
    return result, asked


def expected(case: str, shown: str) -> bool:
    """Whether the client really did what the case is about."""
    if case.startswith("error") or case == "broken":
        return '"raised"' in shown
    if case in {"cancel", "stream_error"}:  # some clients pass an error event by in silence
        return "Pack" in shown and "go." not in shown
    said = ("It rains", "Paris.") if case.startswith("tools") else ("umbrella", "na\u00efve", "\U0001f600", "go.")
    return all(words in shown for words in said)


def assert_same_requests(asked: list[Received], carried: list[Received]) -> None:
    """The same requests but for our block; what was refused with it came again without it."""
    plain = [one.json for one in carried if MARK not in one.body.decode()]
    blocked = [without_block(one.json) for one in carried if MARK in one.body.decode()]
    direct = [without_random(one.json) for one in asked]
    assert [without_random(one) for one in blocked] == direct
    assert all(without_random(one) in direct for one in plain)
    for one, other in zip(asked, carried, strict=False):
        assert headers_of(one) == headers_of(other)


def without_block(body: dict[str, Any]) -> dict[str, Any]:
    """A request as it was before the block was put in."""
    body = {name: value for name, value in body.items() if not (name == "instructions" and MARK in str(value)[:20])}
    for name in ("messages", "input"):
        if isinstance(body.get(name), list):
            body[name] = [one for one in body[name] if MARK not in str(one.get("content"))]
    return body


def without_random(body: dict[str, Any]) -> dict[str, Any]:
    """A request without what the client draws anew for each, and a text input as the list it stands for."""
    body = {name: value for name, value in body.items() if name not in RANDOM}
    if isinstance(body.get("input"), str):
        body["input"] = [{"role": "user", "content": body["input"]}]
    return body


def headers_of(received: Received) -> list[tuple[str, str]]:
    """The client's headers that do not depend on the connection or on the time."""
    dropped = {"host", "content-length", "connection", "keep-alive", "transfer-encoding", "traceparent"}
    return sorted((name.lower(), value) for name, value in received.headers if name.lower() not in dropped)
