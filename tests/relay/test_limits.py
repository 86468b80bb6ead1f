"""Limits and settings at the relay: what a chat request is refused, what it goes on without, over several processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from memproxy.core.choices import Choices
from memproxy.core.scope import Scope
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import Memories, numbered
from tests.relay.rig import Rig, running_relay
from tests.support.upstream import ScriptedUpstream

QUESTION = "What is my budget?"
TENANT = "anonymous"


@asynccontextmanager
async def relays(upstream: ScriptedUpstream, folder: Path, count: int, **sections: Any) -> AsyncIterator[list[Rig]]:
    """So many relays over one state's file, as worker processes are; each with a connection of its own to it."""
    async with AsyncExitStack() as held:
        rigs = []
        for n in range(count):
            place = folder / f"relay-{n}"
            place.mkdir()
            state = SqliteState(folder / "state.db", sync="normal")
            running = running_relay(upstream.base_url, state, place, **sections)
            rig = await held.enter_async_context(running)
            rig.engine.recall = Memories(numbered(100))
            await state.open()
            rigs.append(rig)
        yield rigs


def told(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers.get("x-memproxy-recall", "")


@pytest.mark.parametrize("of", ["tenant", "user"])
async def test_chat_is_refused_over_its_limit_by_all_workers_together(
    upstream: ScriptedUpstream, tmp_path: Path, of: str
) -> None:
    async with relays(upstream, tmp_path, 2, limits={of: {"chat_per_minute": 6}}) as rigs:
        asked = (rigs[n % 2].chat(QUESTION, headers={"x-memproxy-session": f"s{n}"}) for n in range(14))
        answers = await asyncio.gather(*asked)
        assert sorted(answer.status_code for answer in answers) == [200] * 6 + [429] * 8
        refused = next(answer for answer in answers if answer.status_code == 429)
        error = refused.json()["error"]
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert f"limits.{of}.chat_per_minute" in error["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert len(upstream.received) == 6
        other = await rigs[0].chat(QUESTION, headers={"x-memproxy-user": "another"})
        assert other.status_code == (429 if of == "tenant" else 200)
        off = await rigs[1].chat(QUESTION, headers={"x-memproxy-memory": "off"})
        assert off.status_code == 429


async def test_a_chat_over_the_limit_of_turns_goes_on_without_memory(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async with relays(upstream, tmp_path, 2, limits={"user": {"turns_per_minute": 4}}) as rigs:
        answers = [await rigs[n % 2].chat(QUESTION, headers={"x-memproxy-session": f"s{n}"}) for n in range(3)]
        given = (200, "injected")
        assert [told(answer) for answer in answers] == [given, given, (200, "skipped; reason=turns_per_minute")]
        reading = await rigs[0].chat(QUESTION, headers={"x-memproxy-memory": "read"})
        assert told(reading) == (200, "injected")  # it brings no turns


async def test_a_full_quota_of_memories_keeps_new_turns_out_and_recall_on(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async with relays(upstream, tmp_path, 1, limits={"user": {"memories": 10}}) as (rig,):
        first = await rig.chat(QUESTION)
        assert told(first) == (200, "injected")
        rig.engine.full = "user"
        full = await rig.chat(QUESTION, headers={"x-memproxy-user": "ben"})
        assert told(full) == (200, "injected; reason=memories")
        await rig.app.drain(1)
        await rig.app.stop()  # what the engine is to be told, it has been told
        assert {one.scope.user for one in rig.engine.captured} == {"default"}


async def test_counting_that_fails_refuses_nothing(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    async with relays(upstream, tmp_path, 1, limits={"user": {"chat_per_minute": 1, "turns_per_minute": 1}}) as (rig,):
        (tmp_path / "state.db").unlink()
        assert [(await rig.chat(QUESTION)).status_code for _ in range(3)] == [200] * 3


async def choose(folder: Path, **chosen: Any) -> None:
    """As the engine does on PUT, in a process of its own."""
    agent = chosen.pop("agent", None)
    state = SqliteState(folder / "state.db", sync="normal")
    await state.open()
    await state.choose(Scope(tenant=TENANT, user="default", agent=agent), Choices(**chosen), datetime.now(UTC))
    await state.close()


async def test_settings_hold_at_once_in_every_worker(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    async with relays(upstream, tmp_path, 2) as rigs:
        off = {"off": "off; reason=settings", "write": "off; reason=write"}
        for mode in ("on", "off", "write", "read", None):
            expected = off.get(mode or "", "injected")
            await choose(tmp_path, mode=mode)
            for rig in rigs:
                assert told(await rig.chat(QUESTION)) == (200, expected), mode


async def test_recall_off_while_learning_goes_on_and_the_reverse(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    async with relays(upstream, tmp_path, 1) as (rig,):
        await choose(tmp_path, mode="write")
        await rig.chat("My budget is 10 euros.")
        assert rig.engine.asked == []
        await choose(tmp_path, mode="read")
        await rig.chat(QUESTION)
        assert len(rig.engine.asked) == 1
        await rig.app.drain(1)
    state = SqliteState(tmp_path / "state.db", sync="normal")
    await state.open()
    rows = await state.claim("index", limit=10, now=datetime.now(UTC), run=10)
    await state.close()
    assert len(rows) == 1  # the first exchange alone was captured


async def test_a_request_may_ask_for_less_than_the_settings_and_not_for_more(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async with relays(upstream, tmp_path, 1) as (rig,):
        await choose(tmp_path, mode="write")
        for asked, expected in (("on", "off; reason=write"), ("read", "off; reason=settings"), ("off", "off")):
            assert told(await rig.chat(QUESTION, headers={"x-memproxy-memory": asked})) == (200, expected)


async def test_an_agents_settings_go_over_the_users_and_limits_are_handed_on(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async with relays(upstream, tmp_path, 1) as (rig,):
        await choose(tmp_path, mode="off", limit=3, rerank=False)
        await choose(tmp_path, mode="on", agent="coder")
        assert told(await rig.chat(QUESTION)) == (200, "off; reason=settings")
        assert told(await rig.chat(QUESTION, headers={"x-memproxy-agent": "coder"})) == (200, "injected")
        limits = rig.engine.asked[-1].limits
        assert (limits.retrieval_limit, limits.rerank) == (3, False)
        config = {"retrieval_limit": 5}
        await rig.chat(QUESTION, headers={"x-memproxy-agent": "coder"}, memory_config=config)
        assert rig.engine.asked[-1].limits.retrieval_limit == 5
