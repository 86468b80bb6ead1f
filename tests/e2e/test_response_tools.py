"""`tools.memory: inject` for ``/v1/responses``: a model uses the memory tools itself, on the real server with a
scripted upstream. What is the same for chats is in `test_memory_tools`.
"""

import json
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.talk import Exchange, exchange, found, word
from tests.support.answers import Answer, Received, error, gzipped, json_answer, stream
from tests.support.folders import Folders
from tests.support.proxy import Proxy, running_proxy
from tests.support.responses import events_in, function_call, message, response, stream_of, text_in, thought
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

INJECT = {"memory_config": {"memory_tools": "inject"}}
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


def answers(*items: dict[str, Any], streamed: bool = False, **fields: Any) -> Answer:
    return stream(stream_of(*items, **fields)) if streamed else json_answer(response(*items, **fields))


def search(query: str = "anything", call_id: str = "call_1") -> dict[str, Any]:
    return function_call("search_memory", json.dumps({"query": query}), call_id)


def said_in(answer: Exchange) -> str:
    if answer.header("content-type").startswith("text/event-stream"):
        return text_in(events_in(answer.body))
    items = json.loads(answer.body)["output"]
    return "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])


def results(received: Received) -> list[Any]:
    return [json.loads(one["output"]) for one in received.json["input"] if one.get("type") == "function_call_output"]


async def ask(proxy: Proxy, asked: str | list[dict[str, Any]], user: str, **fields: Any) -> Exchange:
    body = {"model": "test-model", "input": asked, "store": False, **INJECT, **fields}
    async with proxy.client() as client:
        return await exchange(client, "POST", "/v1/responses", json=body, headers={"x-memproxy-user": user})


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def offered(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    """A busy engine may take longer to say what the tools are than a request waits for it."""

    model.default = lambda _: answers(message("Hello."))

    async def is_offered() -> bool:
        await ask(shared_proxy, "Hi?", word())
        return b"save_memory" in model.last.body

    await eventually(is_offered, what="the tools are offered")
    model.reset()


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_models_calls_are_answered_and_the_client_gets_the_answer_alone(
    shared_proxy: Proxy, model: ScriptedUpstream, streamed: bool
) -> None:
    user, place = word(), word()
    saves = function_call("save_memory", json.dumps({"content": f"The user's boat lies in {place}."}), "call_1")
    model.script(answers(thought("r1"), saves, streamed=streamed), answers(message("Noted."), streamed=streamed))
    answer = await ask(shared_proxy, "Please keep in mind where my boat lies.", user, stream=streamed)
    assert (answer.status, said_in(answer)) == (200, "Noted.")
    assert b"save_memory" not in answer.body
    told = events_in(answer.body)[-1]["response"] if streamed else json.loads(answer.body)
    assert told["usage"] == {"input_tokens": 14, "output_tokens": 6, "total_tokens": 20}
    assert [item["type"] for item in told["output"]] == ["message"]
    first, second = model.received
    offered = {tool["name"]: tool for tool in first.json["tools"]}
    assert {"save_memory", "search_memory", "save_to_working_memory"} < set(offered)
    assert offered["save_memory"]["strict"] is False
    assert "memory_config" not in first.json
    assert second.json["input"][0] == {"role": "user", "content": "Please keep in mind where my boat lies."}
    assert second.json["input"][1]["call_id"] == "call_1"
    saved = results(second)[0]
    assert (saved["content"], saved["trust"]) == (f"The user's boat lies in {place}.", "tool")
    assert "tools;offered=8" in answer.header("x-memproxy-context")
    model.reset()
    model.script(answers(search(place), streamed=streamed), answers(message(f"In {place}."), streamed=streamed))
    await ask(shared_proxy, "Where does it lie?", user, stream=streamed)
    assert [hit["memory"]["id"] for hit in results(model.received[1])[0]["data"]][:1] == [saved["id"]]


async def test_a_stream_goes_on_behind_what_was_said(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(
        answers(message("Let me look."), search(), streamed=True), answers(message("It is blue."), streamed=True)
    )
    answer = await ask(shared_proxy, "Which colour do I like?", word(), stream=True)
    events = events_in(answer.body)
    assert text_in(events) == "Let me look.It is blue."
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message", "message"]
    assert sum(event["type"] == "response.completed" for event in events) == 1


async def test_the_real_client_reads_a_stream_with_calls_in_it(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(
        answers(thought("r1"), message("Let me look."), thought("r2"), search(), streamed=True),
        answers(thought("r3"), message("It is blue."), streamed=True),
    )
    async with shared_proxy.openai(**{"x-memproxy-user": word()}) as client:
        asked: dict[str, Any] = {"model": "test-model", "input": "Which colour do I like?", "store": False}
        async with client.responses.stream(**asked, extra_body=INJECT) as streamed:
            last = await streamed.get_final_response()
    assert [item.type for item in last.output] == ["reasoning", "message", "reasoning", "message"]
    assert last.output_text == "Let me look.It is blue."


async def test_without_calls_of_ours_a_stream_is_the_upstreams_to_the_byte(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    weather = function_call("get_weather", '{"city": "Oslo"}', "call_1")
    whole = b": hello\r\n\r\n" + b"".join(stream_of(thought("r1"), message("Ünï"), weather)).replace(b"\n", b"\r\n")
    model.script(stream([whole[at : at + 7] for at in range(0, len(whole), 7)]))
    answer = await ask(shared_proxy, "How is the weather?", word(), stream=True, tools=[WEATHER])
    assert answer.body == whole


@pytest.mark.parametrize("streamed", [False, True])
async def test_beside_the_clients_calls_ours_are_answered_and_put_back_with_the_clients_results(
    shared_proxy: Proxy, model: ScriptedUpstream, streamed: bool
) -> None:
    user, secret = word(), word()
    weather = function_call("get_weather", '{"city": "Oslo"}', "call_2")
    save = function_call("save_memory", json.dumps({"content": secret}), "call_1")
    model.script(answers(save, weather, streamed=streamed), answers(message("Sunny.")))
    answer = await ask(shared_proxy, "Weather, and remember it.", user, tools=[WEATHER], stream=streamed)
    assert b"save_memory" not in answer.body
    told = events_in(answer.body)[-1]["response"] if streamed else json.loads(answer.body)
    assert told["output"] == [weather]
    brought = [
        {"role": "user", "content": "Weather, and remember it."},
        weather,
        {"type": "function_call_output", "call_id": "call_2", "output": "Sun."},
    ]
    await ask(shared_proxy, brought, user, tools=[WEATHER])
    said = [one for one in model.last.json["input"] if one.get("role") not in {"user", "system"}]
    assert [(one["type"], one["call_id"]) for one in said] == [
        ("function_call", "call_2"),
        ("function_call", "call_1"),
        ("function_call_output", "call_1"),
        ("function_call_output", "call_2"),
    ]
    assert secret in said[2]["output"]
    assert len(await found(shared_proxy, secret, user=user)) == 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_model_that_calls_for_ever_is_asked_without_tools_in_the_end(
    shared_proxy: Proxy, model: ScriptedUpstream, streamed: bool
) -> None:
    model.default = lambda received: answers(
        search() if "tools" in received.json else message("Enough."), streamed=streamed
    )
    answer = await ask(shared_proxy, "Find it.", word(), stream=streamed)
    assert said_in(answer) == "Enough."
    assert len(model.received) == 6
    assert model.received[4].json["tool_choice"] == "none"
    assert "tools" not in model.received[5].json


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_error_in_the_second_round_costs_the_tools_alone(
    shared_proxy: Proxy, model: ScriptedUpstream, streamed: bool
) -> None:
    model.script(
        answers(search("{not json"), streamed=streamed),
        error(500, "The model is overloaded."),
        answers(message("Well."), streamed=streamed),
    )
    answer = await ask(shared_proxy, "Find it.", word(), stream=streamed)
    assert (answer.status, said_in(answer)) == (200, "Well.")
    assert "tools" not in model.received[2].json


async def test_an_upstream_that_refuses_tools_gets_the_request_without(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    model.default = lambda received: (
        error(400, "tools are not supported") if "tools" in received.json else answers(message("Hello."))
    )
    user = word()
    for _ in range(2):
        assert (await ask(shared_proxy, "What do you know?", user, model="toolless")).status == 200
    assert ["tools" in one.json for one in model.received] == [True, False, False]


async def test_tools_are_offered_only_where_nothing_is_kept_upstream(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    """What a tool answers becomes part of the input, from which an upstream that keeps it could not be made to take it
    again.
    """
    model.default = lambda _: answers(message("Hello."))
    user, user_says = word(), {"role": "user", "content": "What do you know?"}
    history = [user_says, {"role": "assistant", "content": "Much."}, user_says]
    offered: list[tuple[Any, dict[str, Any], bool]] = [
        ("What do you know?", {}, True),
        (history, {}, True),
        (history, {"store": None}, False),
        ("What do you know?", {"store": True}, False),
        ("What do you know?", {"store": None}, False),
        ("What do you know?", {"previous_response_id": "resp_9"}, False),
        ("What do you know?", {"conversation": {"id": "conv_9"}}, False),
        ("What do you know?", {"background": True}, False),
        ("What do you know?", {"tool_choice": "none"}, False),
        ("What do you know?", {"tool_choice": {"type": "function", "name": "get_weather"}}, False),
        ("What do you know?", {"memory_config": {"memory_tools": "none"}}, False),
    ]
    for asked, fields, wanted in offered:
        await ask(shared_proxy, asked, user, **fields)
        assert (b"save_memory" in model.last.body) == wanted, fields
    own = {"type": "function", "name": "save_memory", "parameters": {}}
    await ask(shared_proxy, "What do you know?", user, tools=[own])
    assert [tool["name"] for tool in model.last.json["tools"]].count("save_memory") == 1


async def test_a_compressed_answer_is_read_all_the_same(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(gzipped(answers(search())), gzipped(answers(message("Plain."))))
    answer = await ask(shared_proxy, "Find it.", word())
    assert said_in(answer) == "Plain."


async def test_two_users_models_see_nothing_of_each_other(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    ann, ben, secret = word(), word(), word()
    saves = function_call("save_memory", json.dumps({"content": f"The code is {secret}."}), "call_1")
    model.script(answers(saves), answers(message("Noted.")))
    await ask(shared_proxy, "Remember the code.", ann)
    for arguments in ({"query": secret}, {"query": secret, "user_id": ann}):
        model.reset()
        model.script(answers(function_call("search_memory", json.dumps(arguments), "call_1")), answers(message("No.")))
        await ask(shared_proxy, "What is the code?", ben)
        assert f"The code is {secret}" not in json.dumps(results(model.received[1]))


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_turn_is_captured_once_and_what_tools_answered_is_not(
    shared_proxy: Proxy, model: ScriptedUpstream, streamed: bool
) -> None:
    user, place, asked = word(), word(), word()
    saves = function_call("save_memory", json.dumps({"content": f"The user lives in {place}."}), "call_1")
    model.script(answers(saves, streamed=streamed), answers(message("Noted."), streamed=streamed))
    await ask(shared_proxy, f"Remember where I live, {asked}.", user, stream=streamed)

    async def captured() -> bool:
        return len(await found(shared_proxy, asked, user=user, kind="turn")) == 1

    await eventually(captured)
    holding = await found(shared_proxy, place, user=user)
    assert [(one["kind"], one["trust"]) for one in holding] == [("semantic", "tool")]


async def test_the_configuration_offers_them_to_all_and_an_engine_that_is_away_costs_the_tools_alone(
    folders: Folders, shared_upstream: ScriptedUpstream
) -> None:
    shared_upstream.reset()
    shared_upstream.default = lambda received: answers(message("Hello."), streamed=received.json["stream"])
    body = {"model": "test-model", "input": "What do you know about me?", "store": False}
    with folders.new("home") as home:
        async with running_proxy(shared_upstream.base_url, home, {"tools": {"memory": "inject"}}) as proxy:

            async def asked(*, streamed: bool) -> Exchange:
                async with proxy.client() as client:
                    return await exchange(client, "POST", "/v1/responses", json={**body, "stream": streamed})

            async def is_offered() -> bool:
                answer = await asked(streamed=False)
                assert answer.status == 200
                return b"save_memory" in shared_upstream.last.body

            await eventually(is_offered, what="the tools are offered")
            engine = await proxy.engine()
            engine.suspend()
            for streamed in (False, True):
                shared_upstream.reset()
                shared_upstream.default = lambda received: answers(
                    search()
                    if "call_id" not in received.body.decode() and "tools" in received.json
                    else message("Hi."),
                    streamed=received.json["stream"],
                )
                answer = await asked(streamed=streamed)
                assert (answer.status, said_in(answer)) == (200, "Hi.")
                assert all("error" in one for received in shared_upstream.received for one in results_or_none(received))
            engine.resume()
            shared_upstream.reset()
            shared_upstream.default = lambda received: answers(message("Hello."), streamed=received.json["stream"])
            await eventually(is_offered, what="the tools are offered again")


def results_or_none(received: Received) -> list[Any]:
    """Those of a request that has some."""
    return results(received) if isinstance(received.json["input"], list) else []
