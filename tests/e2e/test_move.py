"""An installation moves from files into PostgreSQL while it is served, and back; nothing is lost or changed."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from memproxy.stores.sealing import MASTER_KEY, new_master_key
from tests.e2e.talk import chat, found, listed, say
from tests.support.postgres import postgres_server
from tests.support.proxy import Proxy, base_config, free_port, memproxy, merged, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S, eventually

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

TOLD, ASKED = "My budget for the Hawaii vacation is $10,000.", "What is my budget for the Hawaii vacation?"


async def command(proxy: Proxy, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command beside the proxy, in its home."""
    return await asyncio.to_thread(memproxy, proxy.home, *arguments, extra=proxy.extra_environment)


async def exported(proxy: Proxy) -> list[Any]:
    """All that is remembered, as a client exports it, but vectors, which engines round, and how often it was found,
    which is counted a little later.
    """
    answer = await proxy.call("GET", "/v1/memory/export")
    assert answer.status_code == 200
    lines = [json.loads(line) for line in answer.text.splitlines()]
    for line in lines:
        line.pop("vectors", None)
        for counted in ("access_count", "last_accessed_at"):
            line.get("memory", {}).pop(counted, None)
    return sorted(lines, key=json.dumps)


def configuration(path: Path, upstream: str, changes: Mapping[str, Any]) -> Path:
    """A file that names other stores."""
    path.write_text(yaml.safe_dump(merged(base_config(upstream, free_port()), changes)), encoding="utf-8")
    return path


@asynccontextmanager
async def told_beside_a_database(upstream: str, folder: Path) -> AsyncIterator[tuple[Proxy, Mapping[str, Any], Path]]:
    """A proxy that knows `TOLD`, the settings of stores in a database of its own, and a file that names these."""
    with postgres_server() as server:
        url = server.database()
        stores = {"state": {"backend": "postgres", "url": url}, "store": {"backend": "postgres", "url": url}}
        async with running_proxy(upstream, folder / "home") as proxy:
            assert (await say(proxy, TOLD)).status == 200
            await eventually(lambda: found(proxy, TOLD), what="it is searchable")
            yield proxy, stores, configuration(folder / "there.yaml", upstream, stores)


async def test_a_served_installation_moves_into_postgresql_and_back_with_all_that_it_holds(
    model: ScriptedUpstream, tmp_path: Path
) -> None:
    master = {MASTER_KEY: new_master_key()}
    privacy = {"privacy": {"encrypt": True}}
    with postgres_server() as server:
        url = server.database()
        stores = {"state": {"backend": "postgres", "url": url}, "store": {"backend": "postgres", "url": url}, **privacy}
        async with running_proxy(model.base_url, tmp_path / "home", privacy, environment=master) as proxy:
            there = configuration(tmp_path / "there.yaml", model.base_url, stores)
            async with proxy.client() as client:
                answer = await chat(client, TOLD)
                request_id = answer.header("x-memproxy-request-id")
                await client.put("/v1/memory/working/session/abc/notes", json={"data": "half done", "ttl_s": 3600})
                await client.put("/v1/memory/settings", json={"limit": 3})
            await eventually(lambda: found(proxy, TOLD), what="it is searchable")
            before = await exported(proxy)

            copied = await command(proxy, "move", "--config", str(proxy.config_file), "--to", str(there), "--copy-only")
            assert copied.returncode == 0, copied.stderr
            async with proxy.client() as client:  # it is served all the while; this is said after the copy
                assert (await chat(client, "I also have a dog named Biscuit.")).status == 200
            await eventually(lambda: found(proxy, "dog named Biscuit"), what="what was said later is searchable")
            before = await exported(proxy)
            left_by_a_killed_run = proxy.home / "moving-0123abcd"
            left_by_a_killed_run.mkdir()
            moved = await command(proxy, "move", "--config", str(proxy.config_file), "--to", str(there), "--json")
            assert moved.returncode == 0, moved.stderr
            assert json.loads(moved.stdout)["switched"]
            assert not left_by_a_killed_run.exists()
            assert proxy.process.wait(LONGEST_S) == 0

            refused = await command(proxy, "serve", "--config", str(proxy.config_file))
            assert refused.returncode != 0
            assert "was moved to" in refused.stderr

            old, proxy.config = proxy.config, merged(proxy.config, stores)
            back = configuration(tmp_path / "back.yaml", model.base_url, {**privacy, "server": old["server"]})
            await proxy.start()
            assert await exported(proxy) == before
            async with proxy.client() as client:
                assert (await chat(client, ASKED)).recall == "injected"
                assert (await client.get(f"/v1/memory/receipts/{request_id}")).status_code == 200
                assert (await client.get("/v1/memory/working/session/abc/notes")).json()["data"] == "half done"
                assert (await client.get("/v1/memory/settings")).json()["limit"] == 3
                assert (await chat(client, "My locker code is 4471.")).status == 200
            await eventually(lambda: found(proxy, "4471"), what="what is said there is learned there")
            before = await exported(proxy)
            returned = await command(proxy, "move", "--config", str(proxy.config_file), "--to", str(back), "--json")
            assert returned.returncode == 0, returned.stderr
            assert proxy.process.wait(LONGEST_S) == 0
            proxy.config = old
            await proxy.start()
            assert await exported(proxy) == before
            assert len(await listed(proxy, kind="turn")) == len({one["id"] for one in await listed(proxy, kind="turn")})


async def test_a_move_names_what_does_not_fit_and_changes_nothing(model: ScriptedUpstream, tmp_path: Path) -> None:
    with postgres_server() as server:
        url = server.database()
        stores = {"state": {"backend": "postgres", "url": url}, "store": {"backend": "postgres", "url": url}}
        there = configuration(tmp_path / "there.yaml", model.base_url, stores)
        half = configuration(tmp_path / "half.yaml", model.base_url, {"store": stores["store"]})
        async with running_proxy(model.base_url, tmp_path / "used", stores) as used, used.client() as client:
            assert (await chat(client, TOLD)).status == 200
            await eventually(lambda: found(used, TOLD), what="the target has memories")
        async with running_proxy(model.base_url, tmp_path / "home") as proxy:

            async def refused(*arguments: str) -> str:
                done = await command(proxy, "move", "--config", str(proxy.config_file), *arguments)
                assert done.returncode in {1, 2}
                return done.stderr

            assert "State and store move together" in await refused("--to", str(half))
            assert "holds an installation already" in await refused("--to", str(there))
            assert "either --to FILE or --cancel" in await refused()
            server.stop()
            assert "Check that PostgreSQL runs" in await refused("--to", str(there))
            assert (await say(proxy, TOLD)).status == 200  # it has been served all the while


async def test_a_move_that_is_killed_is_gone_on_with_and_can_be_taken_back(
    model: ScriptedUpstream, tmp_path: Path
) -> None:
    async with told_beside_a_database(model.base_url, tmp_path) as (proxy, stores, there):
        config = str(proxy.config_file)
        assert (await command(proxy, "move", "--config", config, "--to", str(there), "--copy-only")).returncode == 0
        # a start on what is not complete has no memory, and says why
        async with running_proxy(model.base_url, tmp_path / "early", stores, memory=False) as early:

            async def says_why() -> bool:
                return "is not complete" in json.dumps((await early.readiness())[1])

            await eventually(says_why, what="/readyz says that it is not complete")
        assert (await command(proxy, "move", "--config", config, "--to", str(there))).returncode == 0
        await proxy.stop()
        again = await command(proxy, "move", "--config", config, "--to", str(there))
        assert again.returncode == 1
        assert "Start it, or move it from, there" in again.stderr
        assert (await command(proxy, "move", "--config", config, "--cancel")).returncode == 0
        await proxy.start()
        assert await found(proxy, TOLD)


async def test_a_copy_of_an_installation_that_nobody_serves_holds_all_of_it(
    model: ScriptedUpstream, tmp_path: Path
) -> None:
    async with told_beside_a_database(model.base_url, tmp_path) as (proxy, _, there):
        await proxy.stop()
        arguments = ["move", "--config", str(proxy.config_file), "--to", str(there), "--json"]
        copied = json.loads((await command(proxy, *arguments, "--copy-only")).stdout)
        moved = json.loads((await command(proxy, *arguments)).stdout)
        assert (copied["switched"], moved["switched"]) == (False, True)
        assert copied["memories"] == moved["memories"] > 0
