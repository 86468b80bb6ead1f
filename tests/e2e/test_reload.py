"""SIGHUP: what a running server takes of its changed configuration, while everything under way goes on."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
import pytest_asyncio
import yaml

from memproxy.commands import keys
from tests.e2e.talk import body, chat, say
from tests.support.answers import chat_events, stream
from tests.support.folders import Folders
from tests.support.proxy import Proxy, merged, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = [pytest.mark.usefixtures("hangup_not_ignored"), pytest.mark.asyncio(loop_scope="session")]

TAKEN = "goes on with the reloaded configuration"


def key_for(tenant: str) -> tuple[str, dict[str, Any]]:
    """A key, and its entry in ``auth.keys``."""
    key, record = keys.make_key(tenant=tenant)
    return key, {"id": record.id, "hash": record.hash, "tenant": tenant}


def hang_up(proxy: Proxy, text: str) -> None:
    """Write this configuration and ask for it."""
    proxy.config_file.write_text(text, encoding="utf-8")
    os.kill(proxy.process.pid, signal.SIGHUP)


async def reloaded(proxy: Proxy, changes: Mapping[str, Any]) -> None:
    """Lay ``changes`` over the configuration, and wait until every process says that it goes on with it."""
    told, processes = proxy.log.count(TAKEN), len(proxy.family())
    hang_up(proxy, yaml.safe_dump(merged(proxy.config, changes)))
    await eventually(lambda: proxy.log.count(TAKEN) == told + processes, what=lambda: proxy.log[-3000:])


def pids(proxy: Proxy) -> set[int]:
    return {child.pid for child in proxy.family()}


async def status(proxy: Proxy, key: str) -> int:
    return (await say(proxy, "What is a monad?", key=key)).status


(FIRST, FIRST_ENTRY), (SECOND, SECOND_ENTRY) = key_for("acme"), key_for("zeta")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(shared_upstream: ScriptedUpstream, folders: Folders, hangup_not_ignored: None) -> AsyncIterator[Proxy]:
    """The proxy that the tests of this module reload in turn."""
    with folders.new("home") as home:
        keys = {"auth": {"mode": "keys", "keys": [FIRST_ENTRY]}}
        async with running_proxy(shared_upstream.base_url, home, keys, memory=False) as proxy:
            await proxy.served()
            yield proxy


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(served: Proxy) -> Proxy:
    """It, with the configuration that it was started with."""
    await reloaded(served, {})
    return served


async def test_keys_are_taken_and_taken_away_while_a_stream_goes_on(model: ScriptedUpstream, proxy: Proxy) -> None:
    first, *rest = chat_events("one", " two")
    go_on = asyncio.Event()
    before, logged = pids(proxy), len(proxy.log)
    assert await status(proxy, SECOND) == 401
    model.script(stream([first, go_on, *rest]))
    async with (
        proxy.client(FIRST) as client,
        client.stream("POST", "/v1/chat/completions", content=body("Talk slowly", stream=True)) as answer,
    ):
        chunks = answer.aiter_raw()
        assert await anext(chunks) == first
        await reloaded(proxy, {"auth": {"keys": [SECOND_ENTRY]}})
        assert (await status(proxy, SECOND), await status(proxy, FIRST)) == (200, 401)
        go_on.set()
        assert b"".join([chunk async for chunk in chunks]) == b"".join(rest)
        assert (await chat(client, "Again, over a connection from before")).status == 401
    assert pids(proxy) == before
    assert "changed auth.keys" in proxy.log[logged:]
    assert SECOND_ENTRY["hash"] not in proxy.log


async def test_requests_without_a_pause_never_fail_while_it_is_reloaded(model: ScriptedUpstream, proxy: Proxy) -> None:
    done, statuses = asyncio.Event(), list[int]()

    async def ask() -> None:
        async with proxy.client(FIRST) as client:
            while not done.is_set():
                statuses.append((await chat(client, "What is a monad?")).status)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(ask())
        for number in range(3):
            await reloaded(proxy, {"auth": {"keys": [FIRST_ENTRY, SECOND_ENTRY][: 1 + number % 2]}})
        done.set()
    assert statuses
    assert set(statuses) == {200}


async def test_the_log_has_its_new_level_and_format(model: ScriptedUpstream, proxy: Proxy) -> None:
    logged = len(proxy.log)
    async with proxy.client(FIRST) as client:
        await client.post("/v1/chat/completions", content=b"{unreadable")
        assert "goes on untouched" not in proxy.log[logged:]
        await reloaded(proxy, {"telemetry": {"log_level": "debug", "log_format": "json"}})
        await client.post("/v1/chat/completions", content=b"{unreadable")
    await eventually(lambda: "goes on untouched" in proxy.log[logged:], what="a line of level debug")
    lines = [line for line in proxy.log[logged:].splitlines() if TAKEN in line]
    processes = {yaml.safe_load(line)["process"] for line in lines}
    assert processes == {"relay", "engine", "state"}


async def test_a_configuration_that_cannot_be_used_changes_nothing(model: ScriptedUpstream, proxy: Proxy) -> None:
    before, taken = pids(proxy), proxy.log.count(TAKEN)
    for broken, named in (
        ("server: [", "test-config.yaml"),
        ("telemetry: {log_levle: debug}", "telemetry.log_level"),
        ("auth: {mode: jwt, jwt: {key_file: /nowhere/key.pem}}", "/nowhere/key.pem"),
        ("server: {host: 0.0.0.0}", "auth.allow_remote"),
    ):
        logged = len(proxy.log)
        hang_up(proxy, broken)
        await eventually(lambda: "was not reloaded, the one before goes on" in proxy.log[logged:], what=broken)  # noqa: B023
        assert named in proxy.log[logged:]
        assert (await status(proxy, FIRST), pids(proxy)) == (200, before)
    assert proxy.log.count(TAKEN) == taken


async def test_limits_are_taken_and_what_needs_a_restart_is_named(model: ScriptedUpstream, proxy: Proxy) -> None:
    logged, (key, entry) = len(proxy.log), key_for("omega")
    wanted = {
        "auth": {"keys": [entry]},
        "server": {"max_concurrent_requests": 1, "workers": 2},
        "limits": {"user": {"memories": 1, "model_tokens_per_hour": 5}},
        "recall": {"limit": 3},
    }
    await reloaded(proxy, wanted)
    line = next(line for line in proxy.log[logged:].splitlines() if "not before a restart" in line)
    for path in ("server.workers", "limits.user.model_tokens_per_hour", "recall.limit"):
        assert path in line
    assert len(proxy.family("_relay")) == 1
    async with proxy.client(key) as client:
        stored = [
            (await client.post("/v1/memory", json={"content": text})).status_code
            for text in ("Ann likes tea.", "Ann has a dog.")
        ]
        assert stored == [201, 429]
        first, *rest = chat_events("one", " two")
        go_on = asyncio.Event()
        model.script(stream([first, go_on, *rest]))
        async with client.stream("POST", "/v1/chat/completions", content=body("Slowly", stream=True)) as answer:
            chunks = answer.aiter_raw()
            assert await anext(chunks) == first
            assert await status(proxy, key) == 503
            go_on.set()
            assert b"".join([chunk async for chunk in chunks]) == b"".join(rest)


async def test_a_process_that_is_started_again_has_the_reloaded_settings(model: ScriptedUpstream, proxy: Proxy) -> None:
    await reloaded(proxy, {"auth": {"keys": [SECOND_ENTRY]}, "server": {"workers": 2}})
    (relay,) = proxy.family("_relay")
    relay.kill()
    await eventually(lambda: (found := proxy.family("_relay")) and found[0].pid != relay.pid, what="another relay")
    assert (await status(proxy, SECOND), await status(proxy, FIRST)) == (200, 401)  # the socket kept its queue


async def test_a_key_file_that_was_replaced_is_read_again(model: ScriptedUpstream, tmp_path: Path) -> None:
    file, keys = tmp_path / "key", ("a" * 32, "b" * 32)
    claims = {"sub": "ann", "tenant": "acme", "exp": int(time.time()) + 3600}
    old, new = (jwt.encode(claims, key, "HS256") for key in keys)
    file.write_text(keys[0])
    tokens = {"auth": {"mode": "jwt", "jwt": {"algorithms": ["HS256"], "key_file": str(file)}}}
    async with running_proxy(model.base_url, tmp_path / "home", tokens, memory=False) as proxy:
        assert (await status(proxy, old), await status(proxy, new)) == (200, 401)
        file.write_text(keys[1])
        await reloaded(proxy, {})
        assert (await status(proxy, old), await status(proxy, new)) == (401, 200)
        assert "nothing changed" in proxy.log
