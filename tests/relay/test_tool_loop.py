"""Tool loops: a turn's follow-ups carry the turn's own block, and nothing is searched for them."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from memproxy.core.turn import make_turns
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import Memories, numbered
from tests.relay.rig import Rig, Running, journalled, running_relay
from tests.support.answers import completion
from tests.support.upstream import ScriptedUpstream

TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
CALL = [{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}]


ASKED = {"role": "user", "content": "What is my budget?"}
FOLLOW_UP: list[dict[str, Any]] = [
    {"role": "assistant", "content": None, "tool_calls": CALL},
    {"role": "tool", "tool_call_id": "c1", "content": "result"},
]


@pytest.fixture(params=[True, False], ids=["sticky", "not sticky"])
async def relay(running: Running, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with running(inject={"sticky": request.param}) as rig:
        rig.engine.recall = Memories(numbered(100))
        yield rig


async def loop(relay: Rig, upstream: ScriptedUpstream, question: str, *, rounds: int = 2) -> list[httpx.Response]:
    """A question whose answer takes so many tool calls."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    answers = []
    for number in range(rounds + 1):
        last = number == rounds
        upstream.script(completion("Done." if last else "", **({} if last else {"tool_calls": CALL})))
        body = {"model": "m", "messages": messages, "tools": TOOLS}
        answers.append(await relay.client.post("/v1/chat/completions", json=body))
        messages += FOLLOW_UP
    return answers


async def test_follow_ups_carry_the_turns_block_byte_for_byte_and_nothing_is_recalled(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    answers = await loop(relay, upstream, "What is my budget?")
    assert len(relay.engine.asked) == 1
    assert [answer.headers["x-memproxy-recall"] for answer in answers] == ["injected"] * 3
    assert [answer.headers["x-memproxy-memories"] for answer in answers] == ["2"] * 3
    assert [answer.headers["x-memproxy-memories-new"] for answer in answers] == ["2", "0", "0"]
    assert len({answer.headers["x-memproxy-session"] for answer in answers}) == 1
    begun = upstream.received[0].body.partition(b"What is my budget?")[0]
    assert b"recalled-memory" in begun
    assert all(received.body.startswith(begun) for received in upstream.received)


async def test_follow_ups_of_a_turn_that_found_nothing_recall_nothing(relay: Rig, upstream: ScriptedUpstream) -> None:
    relay.engine.recall = Memories({})
    answers = await loop(relay, upstream, "What is my budget?")
    assert len(relay.engine.asked) == 1
    assert [answer.headers["x-memproxy-recall"] for answer in answers] == ["empty"] * 3
    assert all(b"recalled-memory" not in received.body for received in upstream.received)


async def test_follow_ups_of_a_turn_that_was_not_searched_say_the_same(relay: Rig, upstream: ScriptedUpstream) -> None:
    answers = await loop(relay, upstream, "Hello!")
    assert relay.engine.asked == []
    assert {answer.headers["x-memproxy-recall"] for answer in answers} == {"skipped; reason=greeting"}


async def test_a_forgotten_memory_leaves_a_loop_that_goes_on(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    await loop(relay, upstream, "What is my budget?", rounds=0)
    await state.drop_from_blocks(relay.engine.asked[0].scope, ["m0"])
    body = {"model": "m", "messages": [ASKED, *FOLLOW_UP], "tools": TOOLS}
    answer = await relay.client.post("/v1/chat/completions", json=body)
    assert answer.headers["x-memproxy-memories"] == "1"
    assert b"fact number 0" not in upstream.last.body
    assert b"fact number 1" in upstream.last.body


async def test_a_follow_up_whose_turn_was_never_seen_recalls_nothing(relay: Rig, upstream: ScriptedUpstream) -> None:
    messages = [ASKED, *FOLLOW_UP]
    answer = await relay.client.post("/v1/chat/completions", json={"model": "m", "messages": messages, "tools": TOOLS})
    assert answer.headers["x-memproxy-recall"] == "empty"
    assert relay.engine.asked == []
    assert upstream.last.messages == messages


async def test_in_shadow_mode_a_loop_is_told_as_one(relay: Rig, upstream: ScriptedUpstream) -> None:
    relay.client.headers["X-Memproxy-Memory"] = "shadow"
    answers = await loop(relay, upstream, "What is my budget?")
    assert len(relay.engine.asked) == 1
    assert [answer.headers["x-memproxy-recall"] for answer in answers] == ["shadow"] * 3
    assert [answer.headers["x-memproxy-memories"] for answer in answers] == ["2"] * 3


async def turns(state: SqliteState) -> set[tuple[str, str, datetime]]:
    """What was captured: the names of the turns, their texts and times; those of one name are one."""
    return {
        (turn.id, turn.content, turn.created_at)
        for row, body in await journalled(state)
        for turn in make_turns(row.entry.scope, body.messages, now=body.said_at)
    }


@pytest.mark.parametrize("named", [{}, {"X-Memproxy-Session": "charts"}])
@pytest.mark.parametrize("relays", [1, 3])
async def test_what_no_answer_in_words_followed_is_captured_once_however_often_it_comes_again(
    upstream: ScriptedUpstream, tmp_path: Path, relays: int, named: dict[str, str]
) -> None:
    upstream.default = lambda _received: completion("", tool_calls=CALL)
    asked = ["Chart my budget", "Now with my rent of 900", "And with my food, 300"]
    messages: list[dict[str, Any]] = []
    captured = set()
    for begin in range(0, len(asked), len(asked) // relays):
        state = SqliteState(tmp_path / "state.db", sync="normal")
        async with running_relay(upstream.base_url, state, tmp_path) as relay:
            for text in asked[begin : begin + len(asked) // relays]:
                messages.append({"role": "user", "content": text})
                body = {"model": "m", "messages": messages}
                await relay.client.post("/v1/chat/completions", json=body, headers=named)
                messages += FOLLOW_UP
            captured |= await turns(state)
    assert sorted(text for _, text, _ in captured) == sorted([*asked, "result", "result"])
    times = {text: at for _, text, at in captured}
    assert times[asked[0]] < times[asked[1]] < times[asked[2]]
