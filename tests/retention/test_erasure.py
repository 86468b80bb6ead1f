"""After an erasure no byte of what was erased is in any file below the home of a serving proxy, its log included."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.talk import chat, found, listed
from tests.retention.residue import residue
from tests.support.folders import Folders
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream, no_facts
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

OURS = frozenset({"test-config.yaml"})
SAID = "My budget for Reykjavík is $10,000, says Zebulonia Quarkenstein"
CORRECTED = "Actually the budget for Reykjavík is $15,000 now, says Zebulonia"
STORED = "Zebulonia plays the theremin in Ouagadougou \u2014 on Thursdays"
EDITED = "Zebulonia gave up her hurdy-gurdy lessons in Ouagadougou"
QUERY = "which theremin do I hear in Ouagadougou on Thursdays"
OF_ANN = (SAID, CORRECTED, STORED, EDITED, QUERY)
OF_BEN = "Bartholomew collects pocket watches from Winterthur"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_proxy(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    with folders.new("home") as home:
        async with running_proxy(shared_upstream.base_url, home) as it:
            yield it
        # every test ended with its users erased: the stop has written nothing of them again
        assert residue([*OF_ANN, OF_BEN], home, ignored=OURS) == []


@pytest_asyncio.fixture(loop_scope="module")
async def proxy(shared_proxy: Proxy, upstream: ScriptedUpstream) -> AsyncIterator[Proxy]:
    """The module's proxy, of which each test has the texts to itself: nobody it met is there when the next begins."""
    yield shared_proxy
    async with shared_proxy.client() as client:
        for user in ("ann", "ben"):
            gone = await client.delete(f"/v1/memory/users/{user}")
            assert gone.status_code == 200, gone.text


async def fill(proxy: Proxy, user: str = "ann") -> str:
    """Turns, facts, a superseded one, an edited memory, receipts, blocks; the id of the edited memory."""
    who = {"x-memproxy-user": user, "x-memproxy-session": f"{user}-first"}
    async with proxy.client() as client:
        stored = await client.post("/v1/memory", json={"content": STORED, "user_id": user, "tags": ["music"]})
        memory: str = stored.json()["id"]
        await chat(client, SAID, headers=who)
        await eventually(lambda: found(proxy, SAID, user=user), what="the turn is indexed")
        await chat(client, SAID, "Noted.", CORRECTED, headers=who)
        other = {**who, "x-memproxy-session": f"{user}-second"}
        answer = await chat(client, QUERY, headers=other)
        assert answer.recall.startswith("injected"), answer.recall
        await chat(client, QUERY, "Music.", "And where do I go for it?", headers=other)
        edited = await client.patch(f"/v1/memory/{memory}?user_id={user}", json={"content": EDITED})
        assert edited.status_code == 200
        await client.post("/v1/memory/sessions/" + f"{user}-first" + "/end?wait=true", params={"user_id": user})
    return memory


async def fill_others(proxy: Proxy) -> None:
    async with proxy.client() as client:
        told = [{"content": f"{OF_BEN}, number {number}", "user_id": "ben"} for number in range(30)]
        await asyncio.gather(*(client.post("/v1/memory", json=one) for one in told))


async def test_a_user(proxy: Proxy, upstream: ScriptedUpstream) -> None:
    await fill_others(proxy)
    await fill(proxy)
    assert residue(OF_ANN, proxy.home, ignored=OURS)
    async with proxy.client() as client:
        gone = await client.delete("/v1/memory/users/ann")
        assert gone.status_code == 200
        assert gone.json()["deleted"] > 3
        assert residue(OF_ANN, proxy.home, ignored=OURS) == []
        assert len(await listed(proxy, user_id="ben")) == 30
        again = {"x-memproxy-user": "ann", "x-memproxy-session": "ann-second"}
        await chat(client, "Hello, is there a message for me about the theremin?", headers=again)
    last = json.dumps(upstream.received[-1].body.decode(), ensure_ascii=False)
    assert "Ouagadougou" not in last, "no sticky block repeats it"


async def test_users_at_once_while_others_write(proxy: Proxy) -> None:
    names = [f"user{number}" for number in range(6)]
    async with proxy.client() as client:
        texts = {name: f"{name} keeps {number} porcupines in Llanfairpwll" for number, name in enumerate(names)}
        for name, text in texts.items():
            assert (await client.post("/v1/memory", json={"content": text, "user_id": name})).status_code == 201
        writing = asyncio.gather(
            *(client.post("/v1/memory", json={"content": OF_BEN, "user_id": "ben"}) for _ in range(20))
        )
        gone = await asyncio.gather(*(client.delete(f"/v1/memory/users/{name}") for name in names))
        assert [one.json() for one in gone] == [{"deleted": 1}] * len(names)
        assert residue(texts.values(), proxy.home, ignored=OURS) == []
        assert {one.status_code for one in await writing} == {201}


async def test_a_session(proxy: Proxy) -> None:
    await fill_others(proxy)
    await fill(proxy)
    async with proxy.client() as client:
        gone = await client.delete("/v1/memory/sessions/ann-first", params={"user_id": "ann"})
        assert gone.status_code == 200
    await erased(proxy)
    assert residue([SAID, CORRECTED], proxy.home, ignored=OURS) == []
    assert await found(proxy, EDITED, user="ann")


async def test_a_memory_and_a_turn(proxy: Proxy, upstream: ScriptedUpstream) -> None:
    upstream.extractor = no_facts
    await fill_others(proxy)
    memory = await fill(proxy)
    async with proxy.client() as client:
        turns = [turn["id"] for turn in await found(proxy, "theremin do I hear", user="ann")]
        assert len(turns) == 2, "what was asked, and the answer that repeats it"
        for name in (memory, *turns):
            gone = await client.delete(f"/v1/memory/{name}", params={"user_id": "ann"})
            assert gone.json() == {"deleted": 1}
            assert gone.headers["x-memproxy-erasure"] == "pending"
    await erased(proxy)
    assert residue([STORED, EDITED, QUERY], proxy.home, ignored=OURS) == []
    assert await found(proxy, SAID, user="ann")


async def test_what_a_stop_left_is_erased_by_the_next_start(proxy: Proxy) -> None:
    async with proxy.client() as client:
        stored = await client.post("/v1/memory", json={"content": STORED, "user_id": "ann"})
        await fill_others(proxy)
        gone = await client.delete(f"/v1/memory/{stored.json()['id']}", params={"user_id": "ann"})
        assert gone.json() == {"deleted": 1}
    proxy.kill()
    await proxy.restart()
    await erased(proxy)
    assert residue([STORED], proxy.home, ignored=OURS) == []


async def erased(proxy: Proxy) -> None:
    """Wait until deleted text is out of the files, as ``/v1/memory/stats`` says."""

    async def done() -> bool:
        stats = await proxy.call("GET", "/v1/memory/stats", params={"user_id": "ann"})
        return bool(stats.json()["erasure"] == "complete")

    await eventually(done, what="the erasure is complete")


def audited(home: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(home / "state.db")) as db:
        return [json.loads(entry) for (entry,) in db.execute("SELECT entry FROM audit")]


async def test_an_erased_users_id_stands_in_no_file(upstream: ScriptedUpstream, folders: Folders) -> None:
    """Nor does it come back by what was asked for with the erasure: an idempotency key, a limit, the audit log."""
    user = "quarkenstein-4711@zebulonia.example"
    settings = {"limits": {"user": {"chat_per_minute": 1000}}}
    with folders.new("home") as home:
        async with running_proxy(upstream.base_url, home, settings) as proxy, proxy.client() as client:
            await fill(proxy, user)
            chosen = await client.put("/v1/memory/settings", params={"user_id": user}, json={"learning": False})
            assert chosen.status_code == 200, chosen.text
            assert (await client.get("/v1/memory/export", params={"user_id": user})).status_code == 200
            assert residue([user], home, ignored=OURS)
            erase = {"idempotency-key": "once"}
            first = await client.delete(f"/v1/memory/users/{user}", headers=erase)
            assert first.status_code == 200, first.text
            assert residue([user], home, ignored=OURS) == []
            again = await client.delete(f"/v1/memory/users/{user}", headers=erase)
            assert again.headers["idempotency-replayed"] == "true"
            actions = audited(home)
            assert {one["action"] for one in actions} == {"user.erase", "user.export"}
            (digest,) = {one["scope"]["user_id"] for one in actions}
            assert digest.startswith("erased:")
            kept = await client.get("/v1/memory/settings", params={"user_id": user})
            assert kept.json()["learning"] is False, "who switched it off does not want it on for having erased it"
            assert (await client.get("/v1/memory", params={"user_id": user})).json()["data"] == []
        assert residue([user], home, ignored=OURS) == []
