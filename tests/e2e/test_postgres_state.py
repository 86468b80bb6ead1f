"""State and memories in PostgreSQL, under a real server: nothing is lost with a process of ours or while it is away."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memproxy.stores.sealing import MASTER_KEY, new_master_key
from tests.e2e.talk import chat, extract_by_rules, found, listed, say, word
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.proxy import Proxy, memproxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

TOLD, QUESTION = "My budget for the Hawaii vacation is $10,000.", "What is my budget for the Hawaii vacation?"


def state_on(server: PostgresServer) -> dict[str, Any]:
    """State in a database of its own, memories in the embedded store."""
    return {"state": {"backend": "postgres", "url": server.database()}}


async def tell(proxy: Proxy, text: str) -> None:
    assert (await say(proxy, text)).status == 200


async def recalled(proxy: Proxy, question: str) -> str:
    answer = await say(proxy, question)
    assert answer.status == 200
    return answer.recall


@pytest.mark.parametrize("encrypt", [False, True])
async def test_what_is_told_is_learned_and_recalled_and_survives_a_kill_of_everything(
    model: ScriptedUpstream, tmp_path: Path, *, encrypt: bool
) -> None:
    model.extractor = extract_by_rules
    first, second = word(), word()
    with postgres_server() as server:
        changes, master = {**state_on(server), "privacy": {"encrypt": encrypt}}, {MASTER_KEY: new_master_key()}
        async with running_proxy(model.base_url, tmp_path / "home", changes, environment=master) as proxy:
            assert proxy.family("_engine")
            assert not proxy.family("_state"), "no process apart is needed to write"
            assert not (proxy.home / "state.db").exists()
            await tell(proxy, TOLD)
            await tell(proxy, "I also have a dog named Biscuit.")
            await eventually(lambda: found(proxy, "$10,000"), what="it is searchable")
            assert await recalled(proxy, QUESTION) == "injected"

            async def facts() -> list[str]:
                memories = await listed(proxy, active="true")
                return [memory["content"] for memory in memories if memory["kind"] != "turn"]

            await eventually(lambda: _has(facts, "dog named Biscuit"), what="the dog is learned")
            (await proxy.engine()).suspend()  # nothing is indexed from here on
            await tell(proxy, f"My locker code is {first}.")
            proxy.kill()
            await proxy.restart()
            await eventually(lambda: found(proxy, first), what="what the killed engine had not indexed is there")
            (await proxy.engine()).kill()
            await tell(proxy, f"My locker code is {second}.")
            await eventually(lambda: found(proxy, second), what="the next engine goes on")
            turns = await listed(proxy, kind="turn")
    assert len(turns) == len({turn["id"] for turn in turns}) == 2 * 5


async def _has(facts: Any, text: str) -> bool:
    return any(text in fact for fact in await facts())


async def test_while_the_database_is_away_requests_are_answered_and_their_turns_are_kept(
    model: ScriptedUpstream, tmp_path: Path
) -> None:
    secrets = [word() for _ in range(5)]
    with postgres_server() as server:
        async with running_proxy(model.base_url, tmp_path / "home", state_on(server)) as proxy:
            await tell(proxy, f"My locker code is {secrets[0]}.")
            server.stop("fast")
            await tell(proxy, f"My locker code is {secrets[1]}.")
            await tell(proxy, f"My locker code is {secrets[2]}.")
            assert list(proxy.home.glob("state.db-aside-*")), "what the database does not take waits in a file"
            status, ready = await proxy.readiness()
            assert (status, "PostgreSQL" in str(ready)) == (200, True), ready
            server.start()
            await eventually(lambda: found(proxy, secrets[0]), what="memory is back")
            for secret in secrets[1:3]:
                await eventually(lambda secret=secret: found(proxy, secret), what="what waited is there")  # type: ignore[misc]
            server.pause()
            await tell(proxy, f"My locker code is {secrets[4]}.")
            server.go_on()
            await eventually(lambda: found(proxy, secrets[4]), what="what was said while it hung is there")
            server.stop("immediate")
            await tell(proxy, f"My locker code is {secrets[3]}.")
            proxy.kill()
            server.start()
            await proxy.restart()
            await eventually(lambda: found(proxy, secrets[3]), what="what a killed relay had set aside is taken up")
            turns = await listed(proxy, kind="turn")
    assert sorted(turn["content"] for turn in turns if turn["metadata"]["role"] == "user") == sorted(
        f"My locker code is {secret}." for secret in secrets
    )


async def test_a_database_that_is_away_at_the_start_costs_memory_alone(model: ScriptedUpstream, tmp_path: Path) -> None:
    secret = word()
    with postgres_server() as server:
        changes = state_on(server)
        server.stop("fast")
        async with running_proxy(model.base_url, tmp_path / "home", changes, memory=False) as proxy:
            await tell(proxy, f"My locker code is {secret}.")
            server.start()
            await proxy.memory_ready()
            await eventually(lambda: found(proxy, secret), what="what waited is there")


async def test_the_check_tells_of_the_database_and_a_wrong_address_ends_the_start_with_a_line(tmp_path: Path) -> None:
    with postgres_server() as server:
        url = server.database()
        variables = {
            "MEMPROXY__STATE__BACKEND": "postgres",
            "MEMPROXY__STATE__URL": url,
            "MEMPROXY__EMBEDDING__PROVIDER": "none",
        }
        told = await asyncio.to_thread(memproxy, tmp_path / "home", "check", extra=variables)
        assert "0 rows waiting, 0 parked" in told.stdout
        assert "PostgreSQL at 127.0.0.1" in told.stdout
        server.stop("fast")
        told = await asyncio.to_thread(memproxy, tmp_path / "home", "check", extra=variables)
        assert told.returncode == 1
        assert "Check that PostgreSQL runs, and state.url." in told.stdout
    wrong = {**variables, "MEMPROXY__STATE__URL": "postgresql://user:geheim@host:port/name"}
    told = await asyncio.to_thread(memproxy, tmp_path / "home", "serve", "--port", "0", extra=wrong)
    assert told.returncode != 0
    assert "state.url" in told.stderr + told.stdout
    assert "geheim" not in told.stderr + told.stdout


async def test_one_database_holds_memories_and_state_and_two_relays_may_die(
    model: ScriptedUpstream, tmp_path: Path
) -> None:
    secrets = [word() for _ in range(3)]
    with postgres_server() as server:
        url = server.database()
        changes = {
            "server": {"workers": 2},
            "state": {"backend": "postgres", "url": url},
            "store": {"backend": "postgres", "url": url},
        }
        async with running_proxy(model.base_url, tmp_path / "home", changes) as proxy:
            await tell(proxy, TOLD)
            await eventually(lambda: found(proxy, "$10,000"), what="it is searchable")
            assert await recalled(proxy, QUESTION) == "injected"
            for secret in secrets:
                await tell(proxy, f"My locker code is {secret}.")
                for relay in proxy.family("_relay"):
                    relay.kill()
                await eventually(lambda: _serves(proxy), what="other relays serve")
            for secret in secrets:
                await eventually(lambda secret=secret: found(proxy, secret), what="what a killed relay took is there")  # type: ignore[misc]


async def _serves(proxy: Proxy) -> bool:
    return (await proxy.readiness())[0] == 200


async def test_what_was_told_outlives_a_stop_of_the_database_and_of_the_proxy(
    model: ScriptedUpstream, tmp_path: Path
) -> None:
    with postgres_server() as server:
        store = {"store": {"backend": "postgres", "url": server.database()}}
        async with running_proxy(model.base_url, tmp_path / "home", store) as proxy:

            async def recalled(result: str) -> bool:
                answer = await say(proxy, QUESTION)
                assert answer.status == 200
                return answer.recall.startswith(result)

            assert (await say(proxy, TOLD)).status == 200
            await eventually(lambda: found(proxy, TOLD), what="it is searchable")
            assert await recalled("injected")
            server.stop()
            await eventually(lambda: recalled("degraded"), what="memory is away and requests are answered")
            async with proxy.client() as client:  # nothing that is said meanwhile is lost
                assert (await chat(client, "My locker code is 4471.")).status == 200
            server.start()
            await eventually(lambda: recalled("injected"), what="memory is back")
            await eventually(lambda: found(proxy, "My locker code is 4471."), what="what was said meanwhile is learned")
            assert await proxy.stop() == 0
            await proxy.restart()
            assert await recalled("injected")
