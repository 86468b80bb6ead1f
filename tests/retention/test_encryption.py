"""With ``privacy.encrypt`` no text of a user is in any file of a serving proxy, and memory works as without."""

import base64
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.talk import chat, found, listed
from tests.retention.residue import residue
from tests.support.folders import Folders
from tests.support.proxy import KEY, READY_DEADLINE_S, Proxy, memproxy, merged, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENCRYPT: dict[str, Any] = {"privacy": {"encrypt": True}}
SAID = "My budget for Reykjavík is $10,000, says Zebulonia Quarkenstein"
STORED = "Zebulonia plays the theremin in Ouagadougou on Thursdays"
OBJECT = "theremin of Ouagadougou"
QUERY = "what does Zebulonia Quarkenstein do on Thursdays with me"
OURS = frozenset({"test-config.yaml"})


def new_master() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def masters(*keys: str) -> dict[str, str]:
    """The environment that gives a server these master keys, the newest first."""
    return {"MEMPROXY_MASTER_KEY": ",".join(keys)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sealed(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    """A server that encrypts. Each test has an API key to itself, which is a tenant, and leaves the server running."""
    with folders.new("home") as home:
        secrets = masters(new_master())
        async with running_proxy(shared_upstream.base_url, home, ENCRYPT, environment=secrets) as it:
            yield it


async def restarted(proxy: Proxy, secrets: Mapping[str, str], *, memory: bool = True) -> None:
    """Stopped, and started with other master keys."""
    await proxy.stop()
    proxy.extra_environment = secrets
    await proxy.restart(memory=memory)


async def fill(proxy: Proxy, key: str = KEY) -> None:
    """A captured turn, a learned fact, a memory by the API, a receipt, a block: each with words of its own."""
    async with proxy.client(key) as client:
        stored = await client.post(
            "/v1/memory",
            json={
                "content": STORED,
                "subject": "Zebulonia Quarkenstein",
                "predicate": "plays",
                "object": OBJECT,
                "category": "pastimes/theremin playing",
                "tags": ["thereminist"],
                "entities": ["Zebulonia", "Ouagadougou"],
                "metadata": {"note": "heard at the Ouagadougou bazaar"},
            },
        )
        assert stored.status_code == 201, stored.text
        assert (await chat(client, SAID)).status == 200
        await eventually(lambda: found(proxy, SAID, key=key), what="the turn is indexed")
        answer = await chat(client, QUERY)
        assert answer.recall.startswith("injected"), answer.recall
        await chat(client, QUERY, "Here it is.", "And where does she play the theremin in my city?")


TEXTS = (SAID, STORED, OBJECT, QUERY, "pastimes/theremin playing", "thereminist", "heard at the Ouagadougou bazaar")


async def test_no_text_is_in_a_file_while_memory_works(sealed: Proxy, upstream: ScriptedUpstream) -> None:
    await fill(sealed)
    asked = upstream.received[-1].body.decode()
    assert "Ouagadougou" in asked, "the block is injected in the clear"
    async with sealed.client() as client:
        for where in ({"tag": "thereminist"}, {"category": "pastimes/theremin playing"}, {"entity": "Zebulonia"}):
            assert [one["content"] for one in await listed(sealed, **where)] == [STORED], where
        memory = (await listed(sealed, tag="thereminist"))[0]
        edited = await client.patch(f"/v1/memory/{memory['id']}", json={"tags": ["ondist"], "object": None})
        assert edited.json()["tags"] == ["ondist"]
        assert await listed(sealed, tag="thereminist") == []
        assert (await listed(sealed, tag="ondist"))[0]["object"] is None
        palace = (await client.get("/v1/memory/palace")).json()["data"]
        assert any("zebulonia" in place["name"] for place in palace)
    assert residue(TEXTS, sealed.home, ignored=OURS) == []
    sealed.kill()
    await sealed.restart()
    assert await found(sealed, STORED)
    assert residue(TEXTS, sealed.home, ignored=OURS) == []


async def test_a_user_s_key_goes_with_the_user(sealed: Proxy, upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """What was copied before (a backup, a stolen disk) is of no use once the key is destroyed."""
    home, copy, key = sealed.home, tmp_path / "copy", "sk-who-leaves"
    others = keys_in(home / "state.db")
    await fill(sealed, key)
    shutil.copytree(home / "store", copy / "store")
    async with sealed.client(key) as client:
        gone = await client.delete("/v1/memory/users/default")
        assert gone.status_code == 200
    assert keys_in(home / "state.db") == others
    assert await listed(sealed, key=key) == []
    sealed.kill()
    shutil.rmtree(home / "store")
    shutil.copytree(copy / "store", home / "store")
    await sealed.restart()
    assert await listed(sealed, key=key) == []
    async with sealed.client(key) as client:
        again = await client.post("/v1/memory", json={"content": "something new after all"})
        assert again.status_code == 201
    assert [one["content"] for one in await listed(sealed, key=key)] == ["something new after all"]


async def contents(proxy: Proxy) -> dict[str, str]:
    return {one["id"]: one["content"] for one in await listed(proxy)}


def keys_in(state: Path) -> int:
    db = sqlite3.connect(state)
    try:
        return int(db.execute("SELECT count(*) FROM data_keys").fetchone()[0])
    finally:
        db.close()


async def test_without_a_master_key_the_start_is_refused_with_how_to_make_one(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("privacy: {encrypt: true}\nembedding: {provider: none}\nserver: {port: 0}\n")
    refused = memproxy(tmp_path / "home", "serve", "--config", str(config))
    assert refused.returncode == 1
    assert "MEMPROXY_MASTER_KEY" in refused.stderr
    assert "memproxy keys master" in refused.stderr
    made = memproxy(tmp_path / "home", "keys", "master")
    assert len(base64.urlsafe_b64decode(made.stdout.strip())) == 32


async def test_with_a_wrong_master_key_memory_stays_off_and_chat_goes_on(
    sealed: Proxy, upstream: ScriptedUpstream
) -> None:
    key, right = "sk-who-stays", sealed.extra_environment
    await fill(sealed, key)
    await restarted(sealed, masters(new_master()), memory=False)
    try:
        async with sealed.client(key) as client:
            answer = await chat(client, QUERY)
            assert (answer.status, answer.recall.split(";")[0]) == (200, "degraded")
            assert (await client.get("/v1/memory")).status_code == 503

        async def told() -> bool:
            return "MEMPROXY_MASTER_KEY" in str((await sealed.readiness())[1])

        await eventually(told, READY_DEADLINE_S, what="readyz names the key")
        assert "MEMPROXY_MASTER_KEY" in sealed.log
    finally:
        await restarted(sealed, right)
    assert await found(sealed, STORED, key=key)


async def test_an_existing_store_is_encrypted_by_a_reindex(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    home, secrets = tmp_path / "home", masters(new_master())
    async with running_proxy(upstream.base_url, home) as proxy:
        await fill(proxy)
        before = await contents(proxy)
    assert residue(TEXTS, home, ignored=OURS), "nothing is encrypted yet"
    async with running_proxy(upstream.base_url, home, ENCRYPT, environment=secrets) as proxy:
        assert before.items() <= (await contents(proxy)).items()
        assert [one["content"] for one in await listed(proxy, tag="thereminist")] == [STORED]
        assert residue(TEXTS, *[home / "state.db", home / "state.db-wal"]) == [], "the state is at once"
        done = memproxy(home, "reindex", "--config", str(proxy.config_file))
        assert done.returncode == 0, done.stderr
        assert residue(TEXTS, home, ignored=OURS) == []
        assert before.items() <= (await contents(proxy)).items()
        assert [one["content"] for one in await listed(proxy, tag="thereminist")] == [STORED]
        async with proxy.client() as client:
            first = await client.get("/v1/memory", params={"limit": 1})
            assert first.json()["next_cursor"]
    plain = merged(proxy.config, {"privacy": {"encrypt": False}})
    off = Proxy(home, plain, {})
    off.launch()
    try:
        await eventually(lambda: "privacy.encrypt is off" in off.log, what="it says why")
    finally:
        await off.stop()


async def test_the_master_key_can_be_changed(sealed: Proxy, upstream: ScriptedUpstream) -> None:
    key, old, new = "sk-who-changes", sealed.extra_environment["MEMPROXY_MASTER_KEY"], new_master()
    await fill(sealed, key)
    users = keys_in(sealed.home / "state.db")
    await restarted(sealed, masters(new, old))
    assert await found(sealed, STORED, key=key)
    config = str(sealed.config_file)
    done = memproxy(sealed.home, "keys", "rewrap", "--config", config, extra=masters(new, old))
    assert done.returncode == 0, done.stderr
    assert f"{users} data key" in done.stdout
    assert await found(sealed, STORED, key=key), "the running server goes on"
    await restarted(sealed, masters(new))
    assert await found(sealed, STORED, key=key)
