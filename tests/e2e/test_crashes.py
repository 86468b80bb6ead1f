"""Kill -9 and full disks: what a client saw the end of is there afterwards, once."""

import asyncio
import os
import pty
import resource
import signal
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from memproxy.stores.sealing import MASTER_KEY, new_master_key
from tests.e2e.crash import report, run
from tests.e2e.talk import body, chat, extract_by_rules, found, listed, say, word
from tests.support.answers import Received, chat_events, stream
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S, eventually


async def test_every_turn_whose_answer_ended_survives_a_kill_once(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """Those that were being indexed, and one of which the engine knows nothing yet."""
    *indexing, unknown = secrets = [word() for _ in range(4)]
    async with running_proxy(upstream.base_url, tmp_path / "home", {"recall": {"deadline_ms": 500}}) as proxy:
        for secret in indexing:
            assert (await say(proxy, f"My locker code is {secret}.")).status == 200
        (await proxy.engine()).suspend()  # nothing is indexed or learned from here on
        answer = await say(proxy, f"My locker code is {unknown}.", stream=True)
        assert (answer.status, answer.recall.split(";")[0]) == (200, "degraded")
        assert answer.body.endswith(b"data: [DONE]\n\n")
        proxy.kill()
        await proxy.restart()
        for secret in secrets:
            await eventually(lambda secret=secret: found(proxy, secret), what=f"{secret} is there")  # type: ignore[misc]
        turns = await listed(proxy, kind="turn")
    assert len(turns) == len({turn["id"] for turn in turns}) == 2 * len(secrets)
    roles = [turn["metadata"]["role"] for turn in turns if unknown in turn["content"]]
    assert sorted(roles) == ["assistant", "user"]


async def test_when_the_supervisor_alone_is_killed_everything_ends(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    async with running_proxy(upstream.base_url, tmp_path / "home") as proxy:
        family = proxy.family()
        assert len(family) >= 2
        proxy.process.kill()
        _, alive = psutil.wait_procs(family, timeout=LONGEST_S)
        assert not alive
        proxy.process.wait(LONGEST_S)
        await proxy.restart()


@pytest.mark.parametrize(("learn", "cycles"), [("model", 2), ("verbatim", 1)])
async def test_no_turn_is_lost_or_doubled_whatever_is_killed_when(tmp_path: Path, learn: str, cycles: int) -> None:
    """The short form of ``python -m tests.e2e.crash``."""
    people, figures, found = await run(tmp_path / "home", cycles=cycles, seed=11, users=3, learn=learn, pause_s=0.8)
    assert not found.faults, report(people, figures, found, seed=11)
    assert people.ended
    assert found.facts


async def test_a_row_that_kills_the_engine_is_parked_and_listed_and_others_are_learned_from(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    deadly, harmless = word().title(), word().title()
    model = {"base_url": upstream.base_url, "model": "extractor", "api_key": "sk-test-extractor"}
    changes = {"learn": {"max_attempts": 2}, "models": {"extract": model}}
    async with running_proxy(upstream.base_url, tmp_path / "home", changes) as proxy:

        def extract(received: Received) -> dict[str, Any]:
            if deadly.encode() in received.body:
                (engine,) = proxy.family("_engine")
                engine.kill()
            return extract_by_rules(received)

        upstream.extractor = extract
        async with proxy.client() as client:
            await chat(client, f"My cat is named {deadly}.", headers={"x-memproxy-user": "ann"})

            async def given_up() -> list[str]:
                if not proxy.family("_engine"):
                    return []
                try:
                    activity = await client.get("/v1/memory/activity", params={"user_id": "ann"})
                except httpx.RemoteProtocolError:  # the engine was killed in the middle of its answer
                    return []
                events = activity.json()["data"] if activity.status_code == 200 else []
                return [event["reason"] for event in events if event["result"] == "parked"]

            (reason,) = await eventually(given_up, what="the deadly row is parked")
            assert "2 tries" in reason
            await chat(client, f"My dog is named {harmless}.", headers={"x-memproxy-user": "ben"})
        await eventually(lambda: listed(proxy, user_id="ben", kind="semantic"), what="others are learned from")
        assert {turn["kind"] for turn in await listed(proxy, user_id="ann")} == {"turn"}


def limit_files(proxy: Proxy, size: int) -> None:
    """No file of the proxy's processes may grow beyond ``size`` bytes: what a full disk looks like to them."""
    for process in [*proxy.family(), psutil.Process(proxy.process.pid)]:
        process.rlimit(psutil.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def lost_turns(metrics: str) -> float:
    """What ``memproxy_turns_lost_total`` has counted."""
    lines = [line for line in metrics.splitlines() if line.startswith("memproxy_turns_lost_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def test_a_full_disk_costs_no_answer_and_no_turn(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    long = "the quick brown fox " * 3_000
    async with running_proxy(upstream.base_url, tmp_path / "home", clean=False) as proxy:
        limit_files(proxy, 1024)
        async with proxy.client() as client:
            for number in range(4):
                answer = await chat(client, f"Read this, number {number}: {long}", stream=True)
                assert answer.status == 200
                assert answer.body.endswith(b"data: [DONE]\n\n")
            assert (await client.get("/healthz")).status_code == 200

        async def state_is(wanted: str) -> bool:
            status, told = await proxy.readiness()
            assert status == 200
            return str(told["parts"].get("state", "")).startswith(wanted)  # a busy engine says nothing of its parts

        await eventually(lambda: state_is("degraded: "), what="/readyz says that the state cannot be written")
        assert (await proxy.readiness())[1]["status"] == "degraded"
        limit_files(proxy, resource.RLIM_INFINITY)

        async def all_turns() -> bool:
            turns = [turn["content"] for turn in await listed(proxy, kind="turn")]
            return all(any(f"number {number}:" in turn for turn in turns) for number in range(4))

        await eventually(all_turns, what="what was said meanwhile is there once there is room")
        assert lost_turns((await proxy.call("GET", "/metrics")).text) == 0
        await eventually(lambda: state_is("ready"), what="/readyz says that it can be")


@pytest.mark.usefixtures("hangup_not_ignored")
@pytest.mark.parametrize("ends", ["asked", "terminal closed"])
async def test_an_orderly_end_lets_an_open_stream_finish(upstream: ScriptedUpstream, tmp_path: Path, ends: str) -> None:
    first, *rest = chat_events("one", " two")
    go_on = asyncio.Event()
    unhurried = {"server": {"shutdown_grace_s": LONGEST_S}}
    ours, theirs = pty.openpty()
    terminal = os.ttyname(theirs)

    def at_a_terminal() -> None:
        os.setsid()
        os.open(terminal, os.O_RDWR)  # controls the new session from now on

    starts = at_a_terminal if ends == "terminal closed" else None
    async with running_proxy(upstream.base_url, tmp_path / "home", unhurried, preexec=starts) as proxy:
        os.close(theirs)
        upstream.script(stream([first, go_on, *rest]))
        async with (
            proxy.client() as client,
            client.stream("POST", "/v1/chat/completions", content=body("Talk slowly", stream=True)) as answer,
        ):
            chunks = answer.aiter_raw()
            assert await anext(chunks) == first
            everybody = [proxy.process.pid, *(child.pid for child in proxy.family())]
            os.close(ours)
            if ends == "asked":
                for pid in everybody:
                    os.kill(pid, signal.SIGTERM)  # as service managers do that signal a whole group
                await eventually(lambda: not proxy.family("_engine"), what="the engine ended")
            await eventually(lambda: "stopping" in proxy.log, what="the proxy says that it is stopping")
            go_on.set()
            assert b"".join([chunk async for chunk in chunks]) == b"".join(rest)
        await eventually(lambda: proxy.process.poll() is not None, what="the proxy ended")
        assert proxy.process.returncode == 0
        assert "starting it again" not in proxy.log


async def test_turns_of_an_encrypted_state_that_is_away_survive_a_kill_and_stand_nowhere_in_the_clear(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    home, secret = tmp_path / "home", word()
    keys, changes = {MASTER_KEY: new_master_key()}, {"privacy": {"encrypt": True}, "recall": {"deadline_ms": 500}}
    async with running_proxy(upstream.base_url, home, changes, environment=keys) as proxy:
        (home / "state.db").rename(home / "away")
        assert (await say(proxy, f"My locker code is {secret}.")).status == 200
        proxy.kill()
        assert not any(secret.encode() in path.read_bytes() for path in home.rglob("*") if path.is_file())
        (home / "away").rename(home / "state.db")
        await proxy.restart()
        await eventually(lambda: found(proxy, secret), what=f"{secret} is there")
