"""`/v1/responses` through the relay, with the official client: injection, chains, capture, tool loops, streams."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import openai

from memproxy.stores.sqlite_state import SqliteState
from tests.relay.rig import Rig, journalled, running_relay
from tests.support.answers import Answer, error, json_answer, stream
from tests.support.http_client import NO_TLS
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S
from tests.wire.test_responses import CALL, HISTORY, RESULT, events, response

TOOLS = [{"type": "function", "name": "look_up", "parameters": {}, "strict": False}]
QUESTION = "What is my budget for the trip?"


async def ask(relay: Rig, said: Any, **fields: Any) -> httpx.Response:
    return await relay.client.post("/v1/responses", json={"model": "m", "input": said, **fields})


def answered(name: str, **changes: Any) -> Answer:
    return json_answer(response("Ten thousand.", id=name, **changes))


def begun(name: str, status: str = "queued", **changes: Any) -> Answer:
    """A response in the background that has no output yet."""
    return json_answer(response("", id=name, status=status, output=[], **changes))


async def captured(state: SqliteState) -> list[tuple[str | None, list[tuple[str, str]]]]:
    """Session and messages of every row, in order."""
    rows = await journalled(state)
    return [(row.entry.scope.session, [(one.role, one.content) for one in body.messages]) for row, body in rows]


async def test_a_response_is_given_memory_and_captured(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(answered("resp_1"))
    answer = await ask(relay, QUESTION)
    assert answer.content == json.dumps(response("Ten thousand.", id="resp_1")).encode()
    assert answer.headers["x-memproxy-recall"] == "injected"
    assert "fact number 0" in upstream.last.json["instructions"]
    assert relay.engine.asked[0].queries == [QUESTION]
    session = answer.headers["x-memproxy-session"]
    assert await captured(state) == [(session, [("user", QUESTION), ("assistant", "Ten thousand.")])]


async def test_a_chain_is_one_session_and_its_block_is_kept_nowhere(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(answered("resp_1"), answered("resp_2"), answered("resp_3"))
    first = await ask(relay, QUESTION)
    second = await ask(relay, "And for the hotel?", previous_response_id="resp_1")
    third = await ask(relay, "And for food?", previous_response_id="resp_2")
    sessions = {one.headers["x-memproxy-session"] for one in (first, second, third)}
    assert len(sessions) == 1
    assert all("fact number" not in json.dumps(one.json["input"]) for one in upstream.received)
    assert all("fact number" in one.json["instructions"] for one in upstream.received)
    assert [texts[0][1] for _, texts in await captured(state)] == [QUESTION, "And for the hotel?", "And for food?"]


async def test_a_chain_survives_a_restart_of_the_relay(
    upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path
) -> None:
    sessions = []
    for number in (1, 2):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        journal = state if number == 1 else SqliteState(tmp_path / "state.db", sync="normal")
        async with running_relay(upstream.base_url, journal, folder) as rig:
            upstream.script(answered(f"resp_{number}"))
            chained = {} if number == 1 else {"previous_response_id": "resp_1"}
            sessions.append((await ask(rig, QUESTION, **chained)).headers["x-memproxy-session"])
    assert sessions[0] == sessions[1]


async def test_a_conversation_object_is_one_session(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.script(answered("resp_1"), answered("resp_2"))
    answers = [await ask(relay, text, conversation={"id": "conv_1"}) for text in (QUESTION, "And the hotel?")]
    assert len({one.headers["x-memproxy-session"] for one in answers}) == 1


async def test_a_conversation_that_the_client_sends_itself_is_one_session_with_repeated_blocks(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.script(answered("resp_1"), answered("resp_2"))
    first = await ask(relay, HISTORY[:1], store=False)
    second = await ask(relay, HISTORY, store=False)
    assert first.headers["x-memproxy-session"] == second.headers["x-memproxy-session"]
    before, after = (one.body for one in upstream.received)
    assert before.partition(b'"Hi"')[0] == after.partition(b'"Hi"')[0]


async def test_a_tool_loop_in_a_chain_carries_its_turns_block(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(answered("resp_1", output=[CALL]), answered("resp_2"))
    first = await ask(relay, QUESTION, tools=TOOLS)
    followed = await ask(relay, [RESULT], tools=TOOLS, previous_response_id="resp_1")
    assert len(relay.engine.asked) == 1
    assert followed.headers["x-memproxy-recall"] == "injected"
    assert upstream.received[0].json["instructions"] == upstream.received[1].json["instructions"]
    assert first.headers["x-memproxy-session"] == followed.headers["x-memproxy-session"]
    assert [texts for _, texts in await captured(state)] == [
        [("user", QUESTION)],
        [("tool", "42"), ("assistant", "Ten thousand.")],
    ]


async def test_the_official_client_streams_events_and_the_turn_is_durable_before_the_last(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    raw = events("Ten thousand.")
    upstream.script(stream([raw[start : start + 97] for start in range(0, len(raw), 97)]))
    client = openai.AsyncOpenAI(
        base_url=f"{relay.base_url}/v1",
        api_key="sk-test",
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(verify=NO_TLS),
    )
    said = ""
    async with client:
        async for event in await client.responses.create(model="m", input=QUESTION, stream=True):
            if event.type == "response.output_text.delta":
                said += event.delta
            elif event.type == "response.completed":
                rows = await captured(state)
                assert rows[0][1] == [("user", QUESTION), ("assistant", "Ten thousand.")]
    assert said == "Ten thousand."


async def test_an_upstream_that_refuses_the_block_gets_the_clients_own_bytes(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.script(error(400, "context_length_exceeded", code="context_length_exceeded"), answered("resp_1"))
    answer = await ask(relay, QUESTION)
    assert answer.status_code == 200
    assert answer.headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
    assert upstream.last.json == {"model": "m", "input": QUESTION}


async def test_controls_are_stripped_and_memory_can_be_off(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.script(answered("resp_1"), answered("resp_2"))
    await ask(relay, QUESTION, memory_context={"user_id": "ann"}, memory_config={"max_tokens": 300})
    assert set(upstream.last.json) == {"model", "input", "instructions"}
    assert relay.engine.asked[0].scope.user == "ann"
    answer = await ask(relay, QUESTION, memory_config={"enabled": False})
    assert answer.headers["x-memproxy-recall"] == "off"
    assert upstream.last.json == {"model": "m", "input": QUESTION}


async def test_a_background_response_is_captured_once_when_it_is_fetched_complete(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(begun("resp_7"))
    first = await ask(relay, QUESTION, background=True)
    assert first.json()["status"] == "queued"
    session = first.headers["x-memproxy-session"]
    assert await captured(state) == [(session, [("user", QUESTION)])]
    upstream.script(begun("resp_7", "in_progress"), *[answered("resp_7")] * 3)
    for _ in range(4):
        fetched = await relay.client.get("/v1/responses/resp_7")
    assert fetched.json() == response("Ten thousand.", id="resp_7")
    assert await captured(state) == [(session, [("assistant", "Ten thousand.")])]


async def test_a_background_stream_that_was_left_is_captured_when_it_is_fetched(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    never = asyncio.Event()
    created = response("", id="resp_5", status="in_progress", output=[], background=True)
    event = b"data: " + json.dumps({"type": "response.created", "response": created}).encode() + b"\n\n"
    upstream.script(stream([event, never]))
    body = {"model": "m", "input": QUESTION, "background": True, "stream": True}
    async with relay.client.stream("POST", "/v1/responses", json=body) as answer:
        await anext(answer.aiter_raw())
    await asyncio.wait_for(upstream.last.left.wait(), LONGEST_S)
    await relay.app.drain(60)
    assert [said for _, said in await captured(state)] == [[("user", QUESTION)]]


async def test_a_background_response_is_captured_for_the_user_that_it_names_alone(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(begun("resp_8", safety_identifier="ada"))
    await ask(relay, QUESTION, background=True, safety_identifier="ada")
    upstream.script(answered("resp_8"), answered("resp_8", safety_identifier="ada"))
    await relay.client.get("/v1/responses/resp_8", headers={"x-memproxy-user": "bob"})
    assert [said for _, said in await captured(state)] == [[("user", QUESTION)]]
    await relay.client.get("/v1/responses/resp_8")
    assert [said for _, said in await captured(state)] == [[("assistant", "Ten thousand.")]]


async def test_a_background_response_whose_question_was_erased_is_not_captured_when_it_is_fetched(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(begun("resp_4"), answered("resp_4"))
    await ask(relay, QUESTION, background=True)
    (asked,) = relay.engine.asked
    await state.forget(asked.scope, session=None)
    assert (await relay.client.get("/v1/responses/resp_4")).json()["id"] == "resp_4"
    assert await captured(state) == []


async def test_a_response_that_no_memory_was_asked_for_is_fetched_without_a_trace(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(begun("resp_9"), answered("resp_9"))
    await relay.client.post(
        "/v1/responses",
        json={"model": "m", "input": QUESTION, "background": True},
        headers={"x-memproxy-memory": "off"},
    )
    await relay.client.get("/v1/responses/resp_9")
    assert await captured(state) == []


async def test_a_background_response_that_fails_adds_no_answer(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(begun("resp_6"))
    await ask(relay, QUESTION, background=True)
    upstream.script(json_answer(response("half of", id="resp_6", status="failed", error={"code": "server_error"})))
    await relay.client.get("/v1/responses/resp_6")
    assert [said for _, said in await captured(state)] == [[("user", QUESTION)]]


async def test_other_calls_of_the_api_are_relayed(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.script(answered("resp_1"))
    assert (await relay.client.get("/v1/responses/resp_1?include[]=a")).json()["id"] == "resp_1"
    assert upstream.last.target == "/v1/responses/resp_1?include[]=a"
