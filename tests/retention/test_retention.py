"""Time to live, limits and pruning through a real server: one for all tests, and its second life."""

import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from memproxy.auth.modes import key_hash
from memproxy.settings.home import secret
from tests.e2e.talk import chat, found, listed
from tests.retention.residue import residue
from tests.support.folders import Folders
from tests.support.proxy import Proxy, memproxy, merged, running_proxy
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

OURS = frozenset({"test-config.yaml"})
TENANTS = ("short", "long", "limited", "crowded", "counted")
"""Those of `key_of`: a test has the ones that it names to itself."""

PLAYS = "Zebulonia plays the theremin in Ouagadougou"
ASKED = "what does Zebulonia play in Ouagadougou?"


def key_of(tenant: str) -> str:
    return f"sk-{tenant}"


async def store(client: httpx.AsyncClient, content: str, **fields: Any) -> str:
    stored = await client.post("/v1/memory", json={"content": content, **fields})
    assert stored.status_code == 201, stored.text
    return str(stored.json()["id"])


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with scripted_upstream() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    """Without a time to live, and with a limit for ``limited`` alone."""
    with folders.new("home") as home:
        hashes = {key_hash(secret(None, home), key_of(name)): name for name in TENANTS}
        changes: dict[str, Any] = {
            "learn": {"enabled": False},
            "auth": {"tenants": hashes},
            "retention": {"tenants": {"limited": {"max_per_user": 5}}},
        }
        async with running_proxy(upstream.base_url, home, changes) as it:
            yield it


@dataclass(frozen=True)
class Pruned:
    """What ``memproxy prune`` said between two lives of the server: first in dry runs."""

    names: list[str]
    """Ids of what ``crowded`` had, those with the lowest score first."""

    told: subprocess.CompletedProcess[str]
    told_again: subprocess.CompletedProcess[str]
    done: subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Asked:
    """A memory of ``counted`` that was recalled three times."""

    before: dict[str, Any]


@dataclass(frozen=True)
class SecondLife:
    """The server after an orderly stop, and what its first life was told."""

    proxy: Proxy
    pruned: Pruned
    asked: Asked


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def again(proxy: Proxy) -> SecondLife:
    """The same home with times to live for ``short`` and for all others."""
    await had_before(proxy, "short")
    await had_before(proxy, "long")
    asked = await recalled_thrice(proxy)
    async with proxy.client(key_of("crowded")) as client:
        names = [await store(client, f"number {number}", confidence=number / 10) for number in range(1, 6)]
        assert (await client.post("/v1/memory/prune", json={"dry_run": True})).json()["pruned"] == 0
    assert await proxy.stop() == 0
    pruned = pruned_by_command(proxy.home, names)
    times = {"ttl_days": 30, "tenants": {"short": {"ttl_days": 2}}, "prune_every_s": 0.5}
    proxy.config = merged(proxy.config, {"retention": times})
    await proxy.restart()
    return SecondLife(proxy, pruned, asked)


async def had_before(proxy: Proxy, tenant: str) -> None:
    old = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    said = {"session_id": "s", "messages": [{"role": "user", "content": "Ouagadougou was hot", "timestamp": old}]}
    async with proxy.client(key_of(tenant)) as client:
        assert (await client.post("/v1/memory/turns", json=said)).status_code == 201
        await store(client, "fresh")
        await store(client, "kept on purpose", expires_at=soon(3600))


async def recalled_thrice(proxy: Proxy) -> Asked:
    async with proxy.client(key_of("counted")) as client:
        name = await store(client, PLAYS)
        before = (await client.get(f"/v1/memory/{name}")).json()
        for session in ("one", "two"):
            answer = await chat(client, ASKED, headers={"x-memproxy-session": session})
            assert answer.recall.startswith("injected")
        await found(proxy, PLAYS, key=key_of("counted"))
    return Asked(before)


def pruned_by_command(home: Path, names: list[str]) -> Pruned:
    config = home / "limited.yaml"
    limits = "retention: {tenants: {crowded: {max_per_user: 3}}}"
    config.write_text(f"embedding: {{provider: none}}\n{limits}\nserver: {{port: 0}}\n")

    def prune(*options: str) -> subprocess.CompletedProcess[str]:
        return memproxy(home, "prune", *options, "--config", str(config))

    return Pruned(names, prune("--dry-run"), prune("--dry-run"), prune())


async def test_an_expired_memory_is_nowhere_from_that_moment_on(proxy: Proxy, upstream: ScriptedUpstream) -> None:
    async with proxy.client() as client:

        def over() -> bool:
            return datetime.now(UTC) > datetime.fromisoformat(until)

        for tries in range(1, 5):
            until = soon(2 * 3**tries / 3)
            name = await store(client, PLAYS, expires_at=until)
            headers = {"x-memproxy-session": f"s{tries}"}
            answer = await chat(client, ASKED, headers=headers)
            block = upstream.received[-1].messages
            if not over():  # else the machine is busy: the next one lives for longer
                break
        assert answer.recall.startswith("injected")
        assert any(PLAYS in str(message["content"]) for message in block)
        await eventually(over, what="it has expired")
        assert (await client.get(f"/v1/memory/{name}")).status_code == 404
        assert await listed(proxy, kind="semantic") == []
        assert await found(proxy, PLAYS) == []
        recalled = (await client.post("/v1/memory/recall", json={"query": ASKED})).json()
        assert PLAYS not in recalled["context"]
        await chat(client, ASKED, "The theremin.", "And since when does she play?", headers=headers)
        assert PLAYS not in upstream.received[-1].body.decode(), "no sticky block repeats it"
        assert (await client.post("/v1/memory/prune", json={})).json()["pruned"] == tries


async def test_a_user_stays_within_the_limit_and_history_goes_first(proxy: Proxy) -> None:
    key, ended = key_of("limited"), soon(-60)
    async with proxy.client(key) as client:
        await store(client, "Timbuktu lies upriver from Xanthippe", valid_to=ended)
        await store(client, "Llanfairpwll has a long station sign", confidence=0.1)
        kept = [await store(client, f"kept {number}") for number in range(5)]

        async def within() -> bool:
            return len(await listed(proxy, key=key)) == 5

        await eventually(within, what="the limit holds")
        assert sorted(one["id"] for one in await listed(proxy, key=key)) == sorted(kept)
        events = (await client.get("/v1/memory/activity")).json()["data"]
        assert [event["reason"] for event in events if event["result"] == "deleted"] == ["limit", "limit"]
        await erased(proxy)
        assert residue(["Timbuktu lies upriver", "Llanfairpwll has a long"], proxy.home, ignored=OURS) == []
        assert (await client.get("/v1/memory/activity")).status_code == 200


async def test_a_tenant_s_time_to_live_holds_for_what_was_there_before(again: SecondLife) -> None:
    proxy = again.proxy
    left = {name: await listed(proxy, key=key_of(name)) for name in ("short", "long")}
    assert sorted(one["content"] for one in left["short"]) == ["fresh", "kept on purpose"]
    assert len(left["long"]) == 3
    fresh = next(one for one in left["short"] if one["content"] == "fresh")
    ends = datetime.fromisoformat(fresh["expires_at"]) - datetime.fromisoformat(fresh["created_at"])
    assert ends == timedelta(days=2)
    assert await found(proxy, "Ouagadougou was hot", key=key_of("short")) == []

    async def pruned() -> list[dict[str, Any]]:
        events = (await proxy.call("GET", "/v1/memory/activity", key_of("short"))).json()["data"]
        return [event for event in events if event.get("reason") == "expired"]

    (event,) = await eventually(pruned, what="the pass lists what it erased")
    assert (event["result"], event["content"]) == ("deleted", None)

    async def counted() -> bool:
        return 'memproxy_memories_pruned_total{reason="expired"} 1.0' in (await proxy.call("GET", "/metrics")).text

    await eventually(counted, what="it is counted")
    assert "Ouagadougou" not in proxy.log


async def test_a_dry_run_tells_and_changes_nothing(again: SecondLife) -> None:
    for told in (again.pruned.told, again.pruned.told_again):
        assert (told.returncode, told.stdout) == (0, "2 memories would go (2 limit).\n"), told.stderr
    done = again.pruned.done
    assert (done.returncode, done.stdout) == (0, "2 memories pruned (2 limit).\n"), done.stderr
    left = await listed(again.proxy, key=key_of("crowded"))
    assert sorted(one["id"] for one in left) == sorted(again.pruned.names[2:])


async def test_retrievals_are_counted_behind_the_answers(again: SecondLife) -> None:
    before = again.asked.before
    assert (before["access_count"], before["last_accessed_at"]) == (0, None)
    after = (await again.proxy.call("GET", f"/v1/memory/{before['id']}", key_of("counted"))).json()
    assert after["access_count"] == 3, "an orderly stop writes what waits"
    assert after["last_accessed_at"] > before["created_at"]
    assert after["updated_at"] == before["updated_at"]


async def erased(proxy: Proxy) -> None:
    async def done() -> bool:
        return bool((await proxy.call("GET", "/v1/memory/stats")).json()["erasure"] == "complete")

    await eventually(done, what="the erasure is complete")
