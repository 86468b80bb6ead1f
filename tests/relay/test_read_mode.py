"""Conversations whose turns are not kept, in mode ``read`` or where an answer failed: one session over all requests,
its blocks repeated.
"""

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from memproxy.core.choices import Choices
from memproxy.core.scope import Scope
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import Memories, numbered
from tests.relay.rig import Rig, nothing, running_relay
from tests.relay.test_responses import QUESTION, answered, ask, captured
from tests.relay.test_session_blocks import blocks_in
from tests.support.answers import Answer, chat_events, completion, error, stream
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S, eventually

READ = {"X-Memproxy-Memory": "read"}
SAID = ["my first message", "thanks!", "my third message", "my fourth message"]


def sessions(*answers: httpx.Response) -> set[str]:
    return {answer.headers["x-memproxy-session"] for answer in answers}


async def test_a_request_that_gets_nothing_new_keeps_its_session_and_the_blocks_before_it(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    first = await relay.chat(*SAID[:1], headers=READ)
    skipped = await relay.chat(*SAID[:2], headers=READ)
    relay.engine.recall = nothing
    empty = await relay.chat(*SAID[:3], headers=READ)
    relay.engine.recall = Memories(numbered(100))
    fourth = await relay.chat(*SAID, headers=READ)
    assert skipped.headers["x-memproxy-recall"].startswith("skipped")
    assert len(sessions(first, skipped, empty, fourth)) == 1
    given = [blocks_in(received) for received in upstream.received]
    assert given[0] == given[1] == given[2] == given[3][:1]
    assert len(given[3]) == 2, "only what is new is added"


@pytest.mark.parametrize("begins", ["hello", "my first message"])
async def test_a_conversation_that_begins_with_nothing_is_one_session(relay: Rig, begins: str) -> None:
    relay.engine.recall = nothing
    answers = [await relay.chat(begins, *SAID[1:length], headers=READ) for length in range(1, 5)]
    assert len(sessions(*answers)) == 1


async def test_a_user_who_chose_only_to_be_read_has_one_session_too(relay: Rig, state: SqliteState) -> None:
    await state.choose(Scope(tenant="anonymous", user="ada"), Choices(mode="read"), datetime.now(UTC))
    relay.engine.recall = nothing
    answers = [await relay.chat(*SAID[:length], headers={"X-Memproxy-User": "ada"}) for length in range(1, 5)]
    assert len(sessions(*answers)) == 1
    assert await captured(state) == []


async def test_conversations_that_began_alike_are_told_apart(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.script(completion("Good morning, Ada."), completion("Hello, Bob."))
    first, second = [await relay.chat("my first message", headers=READ) for _ in range(2)]
    for answer, said in ((first, "Good morning, Ada."), (second, "Hello, Bob.")):
        messages = [{"role": "user", "content": "my first message"}, {"role": "assistant", "content": said}]
        body = {"model": "m", "messages": [*messages, {"role": "user", "content": f"I answer {said}"}]}
        again = await relay.client.post("/v1/chat/completions", json=body, headers=READ)
        assert sessions(again) == sessions(answer)
    assert sessions(first) != sessions(second)


@pytest.mark.parametrize("mode", [READ, {}])
@pytest.mark.parametrize("cut", [error(500, "later"), Answer([b'{"choices": [{"mess'], cut=True, framing="chunked")])
async def test_an_answer_that_fails_or_is_cut_short_does_not_part_its_conversation(
    relay: Rig, upstream: ScriptedUpstream, cut: Answer, mode: dict[str, str]
) -> None:
    first = await relay.chat(*SAID[:1], headers=mode)
    upstream.script(cut)
    with contextlib.suppress(httpx.RemoteProtocolError):  # the upstream broke off, and so does the relay
        await relay.chat(*SAID[:2], headers=mode)
    third = await relay.chat(*SAID[:3], headers=mode)
    assert sessions(first) == sessions(third)


@pytest.mark.parametrize("mode", [READ, {}])
@pytest.mark.parametrize("begun", [True, False])
async def test_an_answer_that_its_client_stops_does_not_part_its_conversation(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, mode: dict[str, str], begun: bool
) -> None:
    first = await relay.chat(*SAID[:1], headers=mode)
    await captured(state)
    never = asyncio.Event()
    upstream.script(stream([*chat_events("one", " two")[:2], never]) if begun else Answer(wait=never))
    stopped = asyncio.get_running_loop().create_task(relay.chat(*SAID[:2], headers=mode, stream=True))
    await eventually(lambda: len(upstream.received) == 2, what="the upstream is asked")
    stopped.cancel()
    await asyncio.wait_for(upstream.last.left.wait(), LONGEST_S)
    third = await relay.chat(*SAID[:3], headers=mode)
    assert sessions(first) == sessions(third)
    said = [text for _, messages in await captured(state) for _, text in messages]
    assert said == ([] if mode else [SAID[2], f"You said: {SAID[2]}"]), "of the stopped turn nothing is kept"


async def test_a_chain_that_the_upstream_keeps_is_one_session(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(answered("resp_1"), answered("resp_2"), answered("resp_3"))
    fields = {"memory_config": {"auto_store": False}}
    relay.engine.recall = nothing
    first = await ask(relay, QUESTION, **fields)
    second = await ask(relay, "And for the hotel?", previous_response_id="resp_1", **fields)
    third = await ask(relay, "And for food?", previous_response_id="resp_2", **fields)
    assert len(sessions(first, second, third)) == 1
    assert await captured(state) == []


async def test_a_session_is_known_after_a_restart(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    answers = []
    for length in (1, 2):
        folder = tmp_path / str(length)
        folder.mkdir()
        same = SqliteState(tmp_path / "state.db", sync="normal")
        async with running_relay(upstream.base_url, same, folder) as relay:
            answers.append(await relay.chat(*SAID[:length], headers=READ))
    assert len(sessions(*answers)) == 1


async def test_a_client_that_names_its_session_only_once_stays_in_it(relay: Rig) -> None:
    first = await relay.chat(*SAID[:1], headers={**READ, "X-Memproxy-Session": "mine"})
    second = await relay.chat(*SAID[:2], headers=READ)
    assert sessions(first, second) == {"mine"}
