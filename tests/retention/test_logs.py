"""A whole session leaves no content, no key and no token in the log at its default level, also where things fail."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.talk import chat, extract_by_rules, found, say
from tests.retention.residue import forms
from tests.support.answers import Received
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "sk-Zq9logsZq9logsZq9"
MODEL_KEY = "sk-modelZq8modelZq8"
MASTER = "n6Sx0yJqv3m2m0m1h7Y3k1r5b8T4w9Qe2c6U0d1fA_o="
SAID = "My budget for Quokkaville is $10,000"
ANSWER = "Ouagadougou noted it down"
STORED = "Zebulonia plays the theremin"
SECRET = "AKIAQ3EGZQZQZQZQZQZQ"
TEXTS = (SAID, ANSWER, STORED, "Quokkaville", "Zebulonia", "theremin", "Xylophonist", "nonsense-extraction")
KEYS = (KEY, MODEL_KEY, MASTER, SECRET)


def unreadable(received: Received) -> dict[str, Any]:
    """An extraction that says something else than was asked for, in words of its own."""
    return {"nonsense-extraction": "Xylophonist from Quokkaville"}


async def session(proxy: Proxy, upstream: ScriptedUpstream) -> None:
    """Chat, memory calls good and bad, foreign keys, learning that works and learning that cannot be read."""
    async with proxy.client(KEY) as client:
        assert (await chat(client, SAID, model="test-model")).status == 200
        await eventually(lambda: found(proxy, SAID, key=KEY), what="the turn is indexed")
        stored = await client.post("/v1/memory", json={"content": STORED, "subject": "Zebulonia"})
        name = stored.json()["id"]
        await chat(client, "What does Zebulonia play?", headers={"x-memproxy-session": "next"})
        await client.post("/v1/memory/search", json={"query": "Zebulonia theremin"})
        await client.post("/v1/memory", json={"content": "Zebulonia\x00", "kind": "turn"})
        await client.post("/v1/memory", content=b'{"content": "Zebulonia', headers={"content-type": "application/json"})
        await client.patch(f"/v1/memory/{name}", json={"content": f"theremin {SECRET}", "confidence": "Zebulonia"})
        await client.patch(f"/v1/memory/{name}", json={"content": f"theremin {SECRET}"})
        await client.get("/v1/memory/Zebulonia%20theremin")
        await client.get("/v1/memory", params={"cursor": "Zebulonia"})
        said = b'"messages": [{"role": "user", "content": "Zebulonia"}]'
        twice = b'{"model": "m", ' + said + b", " + said + b"}"
        await client.post("/v1/chat/completions", content=twice, headers={"content-type": "application/json"})
        upstream.extractor = unreadable
        await chat(client, "My dentist is Xylophonist from Quokkaville", headers={"x-memproxy-session": "odd"})
        await client.post("/v1/memory/sessions/odd/end")
        await client.get("/v1/memory/activity")
        await client.delete(f"/v1/memory/{name}")
        await client.delete("/v1/memory/users/default")


@pytest.mark.parametrize("form", ["text", "json"])
async def test_neither_content_nor_keys_are_logged(upstream: ScriptedUpstream, tmp_path: Path, form: str) -> None:
    upstream.extractor = extract_by_rules
    changes: dict[str, Any] = {
        "telemetry": {"log_format": form},
        "privacy": {"encrypt": form == "json"},
        "models": {"extract": {"api_key": MODEL_KEY, "model": "test-model", "base_url": upstream.base_url}},
        "learn": {"max_attempts": 2, "every_turns": 1},
        "retention": {"max_per_user": 3},
    }
    secrets = {"MEMPROXY_MASTER_KEY": MASTER}
    async with running_proxy(upstream.base_url, tmp_path / "home", changes, environment=secrets) as proxy:
        await session(proxy, upstream)
        engine = await proxy.engine()
        engine.kill()
        await proxy.memory_ready()
        await say(proxy, SAID, key=KEY)
    log = proxy.log.encode()
    assert log.count(b"\n") > 3, "it does log"
    wrong = [(what, where) for what in (*TEXTS, *KEYS) for where, data in forms(what) if data in log]
    assert wrong == []
