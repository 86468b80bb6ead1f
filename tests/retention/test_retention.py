"""Time to live, limits and pruning through a real server."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.talk import chat, found, listed
from tests.retention.residue import residue
from tests.support.proxy import Proxy, environment, memproxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(180)]

OURS = frozenset({"test-config.yaml"})
QUIET: dict[str, Any] = {"learn": {"enabled": False}}


async def store(client: httpx.AsyncClient, content: str, **fields: Any) -> str:
    stored = await client.post("/v1/memory", json={"content": content, **fields})
    assert stored.status_code == 201, stored.text
    return str(stored.json()["id"])


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def test_an_expired_memory_is_nowhere_from_that_moment_on(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    async with running_proxy(upstream.base_url, tmp_path / "home", QUIET) as proxy, proxy.client() as client:
        said = "Zebulonia plays the theremin in Ouagadougou"
        until = soon(6)
        name = await store(client, said, expires_at=until)
        headers = {"x-memproxy-session": "s"}
        answer = await chat(client, "what does Zebulonia play in Ouagadougou?", headers=headers)
        assert answer.recall.startswith("injected")
        block = upstream.received[-1].messages
        assert any(said in str(message["content"]) for message in block)

        async def over() -> bool:
            return datetime.now(UTC) > datetime.fromisoformat(until)

        await eventually(over, what="it has expired")
        assert (await client.get(f"/v1/memory/{name}")).status_code == 404
        assert await listed(proxy, kind="semantic") == []
        assert await found(proxy, said) == []
        question = "what does Zebulonia play in Ouagadougou?"
        recalled = (await client.post("/v1/memory/recall", json={"query": question})).json()
        assert said not in recalled["context"]
        await chat(client, question, "The theremin.", "And since when does she play?", headers=headers)
        assert said not in upstream.received[-1].body.decode(), "no sticky block repeats it"


async def test_a_tenant_s_time_to_live_holds_for_what_was_there_before(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    keys = {name: f"sk-{name}" for name in ("short", "long")}
    hashes = {name: hash_of(home, key) for name, key in keys.items()}
    tenants = {"auth": {"tenants": {digest: name for name, digest in hashes.items()}}}
    old = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    said = {"session_id": "s", "messages": [{"role": "user", "content": "Ouagadougou was hot", "timestamp": old}]}
    async with running_proxy(upstream.base_url, home, QUIET | tenants) as proxy:
        for key in keys.values():
            async with proxy.client(key) as client:
                assert (await client.post("/v1/memory/turns", json=said)).status_code == 201
                await store(client, "fresh")
                await store(client, "kept on purpose", expires_at=soon(3600))
    retention = {"retention": {"ttl_days": 30, "tenants": {"short": {"ttl_days": 2}}, "prune_every_s": 0.5}}
    async with running_proxy(upstream.base_url, home, QUIET | tenants | retention) as proxy:
        left = {name: await listed(proxy, key=key) for name, key in keys.items()}
        assert sorted(one["content"] for one in left["short"]) == ["fresh", "kept on purpose"]
        assert len(left["long"]) == 3
        fresh = next(one for one in left["short"] if one["content"] == "fresh")
        ends = datetime.fromisoformat(fresh["expires_at"]) - datetime.fromisoformat(fresh["created_at"])
        assert ends == timedelta(days=2)
        assert await found(proxy, "Ouagadougou", key=keys["short"]) == []

        async def pruned() -> list[dict[str, Any]]:
            async with proxy.client(keys["short"]) as client:
                events = (await client.get("/v1/memory/activity")).json()["data"]
            return [event for event in events if event.get("reason") == "expired"]

        (event,) = await eventually(pruned, what="the pass lists what it erased")
        assert (event["result"], event["content"]) == ("deleted", None)

        async def counted() -> bool:
            async with proxy.client() as client:
                return 'memproxy_memories_pruned_total{reason="expired"} 1.0' in (await client.get("/metrics")).text

        await eventually(counted, what="it is counted")
        assert "Ouagadougou" not in proxy.log


def hash_of(home: Path, key: str) -> str:
    command = [sys.executable, "-m", "memproxy.cli", "keys", "hash"]
    done = subprocess.run(
        command, env=environment(home), input=key, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


async def test_a_user_stays_within_the_limit_and_history_goes_first(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    home = tmp_path / "home"
    limit = {"retention": {"max_per_user": 5}}
    ended = soon(-60)
    async with running_proxy(upstream.base_url, home, QUIET | limit) as proxy, proxy.client() as client:
        await store(client, "Ouagadougou lies upriver from Zebulonia", valid_to=ended)
        await store(client, "Llanfairpwll has a long station sign", confidence=0.1)
        kept = [await store(client, f"kept {number}") for number in range(5)]

        async def within() -> bool:
            return len(await listed(proxy)) == 5

        await eventually(within, what="the limit holds")
        assert sorted(one["id"] for one in await listed(proxy)) == sorted(kept)
        events = (await client.get("/v1/memory/activity")).json()["data"]
        assert [event["reason"] for event in events if event["result"] == "deleted"] == ["limit", "limit"]
        await erased(proxy)
        assert residue(["Ouagadougou lies upriver", "Llanfairpwll has a long"], home, ignored=OURS) == []
        assert (await client.get("/v1/memory/activity")).status_code == 200


async def test_a_dry_run_tells_and_changes_nothing(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    home = tmp_path / "home"
    limit = {"retention": {"tenants": {"other": {"max_per_user": 1}}}}
    async with running_proxy(upstream.base_url, home, QUIET | limit) as proxy, proxy.client() as client:
        names = [await store(client, f"number {number}", confidence=number / 10) for number in range(1, 6)]
        assert (await client.post("/v1/memory/prune", json={"dry_run": True})).json()["pruned"] == 0
    proxy = Proxy(home, {}, {})
    config = home / "limited.yaml"
    config.write_text("embedding: {provider: none}\nretention: {max_per_user: 3}\nserver: {port: 0}\n")
    told = memproxy(home, "prune", "--dry-run", "--config", str(config))
    assert (told.returncode, told.stdout) == (0, "2 memories would go (2 limit).\n"), told.stderr
    async with running_proxy(upstream.base_url, home, QUIET) as proxy, proxy.client() as client:
        assert sorted(one["id"] for one in await listed(proxy)) == sorted(names)
    done = memproxy(home, "prune", "--config", str(config))
    assert done.returncode == 0, done.stderr
    async with running_proxy(upstream.base_url, home, QUIET) as proxy, proxy.client() as client:
        assert sorted(one["id"] for one in await listed(proxy)) == sorted(names[2:])


async def test_retrievals_are_counted_behind_the_answers(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    async with running_proxy(upstream.base_url, tmp_path / "home", QUIET) as proxy, proxy.client() as client:
        said = "Zebulonia plays the theremin in Ouagadougou"
        name = await store(client, said)
        before = (await client.get(f"/v1/memory/{name}")).json()
        assert (before["access_count"], before["last_accessed_at"]) == (0, None)
        for session in ("one", "two"):
            answer = await chat(
                client, "what does Zebulonia play in Ouagadougou?", headers={"x-memproxy-session": session}
            )
            assert answer.recall.startswith("injected")
        await found(proxy, said)
    async with running_proxy(upstream.base_url, tmp_path / "home", QUIET) as proxy, proxy.client() as client:
        after = (await client.get(f"/v1/memory/{name}")).json()
        assert after["access_count"] == 3, "an orderly stop writes what waits"
        assert after["last_accessed_at"] > before["created_at"]
        assert after["updated_at"] == before["updated_at"]


async def erased(proxy: Proxy) -> None:
    async def done() -> bool:
        async with proxy.client() as client:
            return bool((await client.get("/v1/memory/stats")).json()["erasure"] == "complete")

    await eventually(done, what="the erasure is complete")
