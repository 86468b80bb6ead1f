"""Long messages that are made to be slow to read: they stop neither the relay nor learning."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from memproxy.core.block import NAME
from tests.e2e.talk import exchange, found, listed, word
from tests.support.answers import Received
from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

LENGTH = 200_000
TIMES = 12
"""As much as an ordinary message of that length may cost the relay; it was over a hundred times as much."""

WAITING_S = 120.0

Messages = list[dict[str, Any]]


def repeated(piece: str, length: int = LENGTH) -> str:
    return (piece * (length // len(piece) + 1))[:length]


def by_user(text: str) -> Messages:
    return [{"role": "user", "content": text}]


def by_tool(text: str) -> Messages:
    called = {"id": "call_1", "type": "function", "function": {"name": "read_page", "arguments": "{}"}}
    return [
        {"role": "user", "content": "Please read the page"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_1", "content": text},
    ]


async def said(proxy: Proxy, messages: Messages, user: str) -> None:
    """A chat request, answered to its end: its turn was read and written by then."""
    content = json.dumps({"model": "test-model", "messages": messages}).encode()
    headers = {"content-type": "application/json", "x-memproxy-user": user}
    async with proxy.client() as client:
        answer = await exchange(client, "POST", "/v1/chat/completions", content=content, headers=headers)
    assert answer.status == 200


async def cost(proxy: Proxy, messages: Messages) -> float:
    """Processor time of the relay for such a request: that of a busy machine is the same."""

    def spent() -> float:
        times = [process.cpu_times() for process in proxy.family("_relay")]
        assert times
        return sum(one.user + one.system for one in times)

    before = spent()
    await said(proxy, messages, word())
    return spent() - before


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("made", [by_user, by_tool])
async def test_what_looks_like_blocks_costs_the_relay_about_as_much_as_any_text(shared_proxy: Proxy, made: Any) -> None:
    await said(shared_proxy, made("warm"), word())
    ordinary = max([await cost(shared_proxy, made(repeated("a <b> plain & long text\n"))) for _ in range(2)])
    hostile = min([await cost(shared_proxy, made(repeated(f"<{NAME} "))) for _ in range(2)])
    assert hostile < TIMES * max(ordinary, 0.02)  # the clock of processes has a hundred ticks a second


async def test_a_short_prompt_for_a_title_is_read_as_fast_as_any(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    hostile = "concise " + " ".join(["a" * 300] * 5) + " title"
    await said(shared_proxy, by_user(hostile), word())
    assert model.last.messages[-1]["content"] == hostile


async def test_a_fact_before_blank_lines_is_learned_without_a_new_engine(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    user, name = word(), word().title()
    quoted = f"My dog is called {name}."

    def extracted(_received: Received) -> dict[str, Sequence[dict[str, Any]]]:
        content = f"User's dog is called {name}"
        fact = {"content": content, "subject": "user", "predicate": "dog_name", "object": name, "evidence": quoted}
        return {"candidates": [fact]}

    model.extractor = extracted
    before = await shared_proxy.engine()
    await said(shared_proxy, by_user(quoted + "\n" * 90_000 + "That is all."), user)
    await eventually(lambda: found(shared_proxy, name, user=user), WAITING_S, what="the turn is searchable")

    async def learned() -> list[dict[str, Any]]:
        return [one for one in await listed(shared_proxy, user_id=user) if one["kind"] != "turn"]

    await eventually(learned, WAITING_S, what="the fact is learned")
    assert (await shared_proxy.engine()).pid == before.pid
