"""`tools.memory: inject`: a chat's model uses the memory tools itself, on the real server with a scripted upstream."""

import json
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.talk import Exchange, chat, found, word
from tests.support.answers import (
    DONE,
    Answer,
    Received,
    chunk,
    completion,
    error,
    gzipped,
    json_answer,
    stream,
    text_of,
)
from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

INJECT = {"memory_config": {"memory_tools": "inject"}}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def call(name: str, arguments: Any, id: str = "call_1") -> dict[str, Any]:  # noqa: A002 - as the API has it
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": written}}


def calling(*calls: dict[str, Any], text: str | None = None) -> Answer:
    return completion(text, tool_calls=list(calls))  # type: ignore[arg-type]


def streamed(*calls: dict[str, Any], words: tuple[str, ...] = (), usage: bool = False) -> list[bytes]:
    """A stream that says words, then calls tools, the arguments in two pieces."""
    events = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": one}) for one in words)]
    for place, one in enumerate(calls):
        whole = one["function"]["arguments"]
        for first, piece in ((True, whole[:3]), (False, whole[3:])):
            head = {"id": one["id"], "type": "function"} if first else {}
            name = {"name": one["function"]["name"]} if first else {}
            entry = {"index": place, **head, "function": {**name, "arguments": piece}}
            events.append(chunk({"tool_calls": [entry]}))
    events.append(chunk({}, "tool_calls" if calls else "stop"))
    if usage:
        told = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        events.append(b'data: {"id":"chatcmpl-1","choices":[],"usage":' + json.dumps(told).encode() + b"}\n\n")
    return [*events, DONE]


def events_of(answer: Exchange) -> list[dict[str, Any]]:
    lines = [line.removeprefix(b"data: ") for line in answer.body.split(b"\n\n") if line.startswith(b"data: ")]
    assert lines[-1] == b"[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def text_in(events: list[dict[str, Any]]) -> str:
    return "".join(one["delta"].get("content") or "" for event in events for one in event["choices"])


def results(received: Received) -> list[Any]:
    return [json.loads(text_of(message)) for message in received.messages if message["role"] == "tool"]


async def ask(proxy: Proxy, text: str, user: str, **fields: Any) -> Exchange:
    async with proxy.client() as client:
        return await chat(client, text, headers={"x-memproxy-user": user}, **{**INJECT, **fields})


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def offered(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    """A busy engine may take longer to say what the tools are than a request waits for it."""

    async def is_offered() -> bool:
        await ask(shared_proxy, "Hi?", word())
        return b"save_memory" in model.last.body

    await eventually(is_offered, what="the tools are offered")
    model.reset()


async def test_the_models_calls_are_answered_and_the_client_gets_the_answer_alone(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    user, place = word(), word()
    saves = call("save_memory", {"content": f"The user's boat lies in {place}.", "category": "boats/where"})
    model.script(calling(saves, text="One moment."), completion("Noted."))
    answer = await ask(shared_proxy, "Please keep in mind where my boat lies.", user)
    told = json.loads(answer.body)
    assert told["choices"][0]["message"] == {"role": "assistant", "content": "Noted."}
    assert told["usage"] == {"prompt_tokens": 14, "completion_tokens": 6, "total_tokens": 20}
    first, second = model.received
    offered = {tool["function"]["name"] for tool in first.json["tools"]}
    assert {"save_memory", "search_memory", "save_to_working_memory"} < offered
    assert "memory_config" not in first.json
    assert second.json["messages"][:-2] == first.json["messages"]
    assert second.json["messages"][-2]["tool_calls"] == [saves]
    assert second.json["tools"] == first.json["tools"]
    saved = results(second)[0]
    assert (saved["content"], saved["trust"]) == (f"The user's boat lies in {place}.", "tool")
    assert "tools;offered=8" in answer.header("x-memproxy-context")
    model.reset()
    model.script(calling(call("search_memory", {"query": place})), completion(f"In {place}."))
    await ask(shared_proxy, "Where does it lie?", user)
    assert [hit["memory"]["id"] for hit in results(model.received[1])[0]["data"]][:1] == [saved["id"]]


async def test_a_stream_goes_on_behind_what_was_said_and_its_tokens_are_summed(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    search = call("search_memory", {"query": "anything"})
    model.script(
        stream(streamed(search, words=("Let me", " look."), usage=True)),
        stream(streamed(words=("It is", " blue."), usage=True)),
    )
    fields = {"stream": True, "stream_options": {"include_usage": True}}
    answer = await ask(shared_proxy, "Which colour do I like?", word(), **fields)
    events = events_of(answer)
    assert text_in(events) == "Let me look.\n\nIt is blue."
    assert b"search_memory" not in answer.body
    assert [one["choices"][0]["finish_reason"] for one in events if one["choices"]][-1] == "stop"
    assert sum("role" in one["choices"][0]["delta"] for one in events if one["choices"]) == 1
    assert events[-1]["usage"] == {"prompt_tokens": 14, "completion_tokens": 6, "total_tokens": 20}
    assert model.received[1].messages[-2]["content"] == "Let me look."


async def test_without_calls_of_ours_a_stream_is_the_upstreams_to_the_byte(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    weather = call("get_weather", {"city": "Oslo"})
    whole = b": hello\r\n\r\n" + b"".join(streamed(weather, words=("Ünï",))).replace(b"\n\n", b"\r\n\r\n")
    pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    model.script(stream(pieces))
    answer = await ask(shared_proxy, "How is the weather?", word(), stream=True, tools=[WEATHER])
    assert answer.body == whole


async def test_beside_the_clients_calls_ours_are_answered_and_put_back_with_the_clients_results(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    user, secret = word(), word()
    weather, save = call("get_weather", {"city": "Oslo"}), call("save_memory", {"content": secret}, "call_2")
    for wants_stream in (False, True):
        model.reset()
        model.script(stream(streamed(save, weather)) if wants_stream else calling(save, weather))
        fields: dict[str, Any] = {"tools": [WEATHER], "stream": wants_stream}
        answer = await ask(shared_proxy, "Weather, and remember it.", user, **fields)
        assert b"save_memory" not in answer.body
        if wants_stream:
            entries = [e for one in events_of(answer) for e in one["choices"][0]["delta"].get("tool_calls", [])]
            assert {entry["index"] for entry in entries} == {0}
            assert events_of(answer)[-1]["choices"][0]["finish_reason"] == "tool_calls"
        else:
            assert json.loads(answer.body)["choices"][0]["message"]["tool_calls"] == [weather]
        async with shared_proxy.client() as client:
            answered = [
                {"role": "user", "content": "Weather, and remember it."},
                {"role": "assistant", "content": None, "tool_calls": [weather]},
                {"role": "tool", "tool_call_id": weather["id"], "content": "Sun."},
            ]
            body = {"model": "test-model", "messages": answered, "tools": [WEATHER], **INJECT}
            await client.post("/v1/chat/completions", json=body, headers={"x-memproxy-user": user})
        said = model.last.messages[1:]
        assert [one["id"] for one in said[0]["tool_calls"]] == ["call_1", "call_2"]
        assert [one["tool_call_id"] for one in said[1:]] == ["call_2", "call_1"]
        assert secret in text_of(said[1])
    assert len(await found(shared_proxy, secret, user=user)) == 2


@pytest.mark.parametrize("arguments", ["{not json", "[1]", "7", '{"query": 5}', '{"query": "x", "limit": 900}', "{}"])
async def test_arguments_that_cannot_be_used_are_the_models_error(
    shared_proxy: Proxy, model: ScriptedUpstream, arguments: str
) -> None:
    model.script(calling(call("search_memory", arguments)), completion("Never mind."))
    answer = await ask(shared_proxy, "Find it.", word())
    assert json.loads(answer.body)["choices"][0]["message"]["content"] == "Never mind."
    again = model.received[1]
    assert "error" in results(again)[0]
    json.loads(again.messages[-2]["tool_calls"][0]["function"]["arguments"])  # upstreams refuse a history with less


@pytest.mark.parametrize("wants_stream", [False, True])
async def test_a_model_that_calls_for_ever_is_asked_without_tools_in_the_end(
    shared_proxy: Proxy, model: ScriptedUpstream, wants_stream: bool
) -> None:
    def endless(received: Received) -> Answer:
        if "tools" not in received.json:
            return stream(streamed(words=("Enough.",))) if wants_stream else completion("Enough.")
        search = call("search_memory", {"query": "more"})
        return stream(streamed(search)) if wants_stream else calling(search)

    model.default = endless
    answer = await ask(shared_proxy, "Find it.", word(), stream=wants_stream)
    said = text_in(events_of(answer)) if wants_stream else json.loads(answer.body)["choices"][0]["message"]["content"]
    assert said == "Enough."
    assert len(model.received) == 6
    assert model.received[4].json["tool_choice"] == "none"
    assert "tools" not in model.received[5].json


@pytest.mark.parametrize("wants_stream", [False, True])
@pytest.mark.parametrize("trouble", ["error", "cut", "html"])
async def test_an_error_in_the_second_round_costs_the_tools_alone(
    shared_proxy: Proxy, model: ScriptedUpstream, wants_stream: bool, trouble: str
) -> None:
    search = call("search_memory", {"query": "x"})
    bad = {
        "error": error(500, "The model is overloaded."),
        "cut": Answer([], cut=True, framing="chunked", wait=None, hang_up=True, status=503),
        "html": Answer([b"<p>Bad gateway"], 502, [("content-type", "text/html")]),
    }[trouble]
    first = stream(streamed(search)) if wants_stream else calling(search)
    last = stream(streamed(words=("Well.",))) if wants_stream else completion("Well.")
    model.script(first, bad, last)
    answer = await ask(shared_proxy, "Find it.", word(), stream=wants_stream)
    assert answer.status == 200
    said = text_in(events_of(answer)) if wants_stream else json.loads(answer.body)["choices"][0]["message"]["content"]
    assert said == "Well."
    assert "tools" not in model.received[2].json


async def test_an_upstream_that_refuses_tools_gets_the_request_without_and_is_not_offered_them_again(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    def toolless(received: Received) -> Answer:
        refuses = "tools" in received.json
        return error(404, "No endpoint supports tool use.") if refuses else completion("Hello.")

    model.default = toolless
    user = word()
    for _ in range(2):
        answer = await ask(shared_proxy, "What do you know?", user, model="toolless")
        assert answer.status == 200
    assert ["tools" in one.json for one in model.received] == [True, False, False]


async def test_tools_are_offered_only_where_they_may_be(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    user = word()
    cases: list[dict[str, Any]] = [
        {"memory_config": {}},
        {"memory_config": {"memory_tools": "none"}},
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "tools": [WEATHER]},
        {"n": 2},
        {"functions": [{"name": "f"}]},
        {"memory_config": {"memory_tools": "inject", "enabled": False}},
    ]
    for fields in cases:
        await ask(shared_proxy, "What do you know?", user, **fields)
        assert b"save_memory" not in model.last.body, fields
    async with shared_proxy.client() as client:
        for mode, offered in (("read", {"search_memory"}), ("write", set()), ("off", set()), ("shadow", set())):
            headers = {"x-memproxy-user": user, "x-memproxy-memory": mode}
            await chat(client, "What do you know?", headers=headers, **INJECT)
            names = {tool["function"]["name"] for tool in model.last.json.get("tools", [])}
            assert offered <= names
            assert "save_memory" not in names
            assert bool(names) == bool(offered)
        wrong = await chat(client, "Hm?", headers={"x-memproxy-user": user}, memory_config={"memory_tools": "maybe"})
        assert wrong.status == 400
        assert b"memory_config.memory_tools" in wrong.body
        own = {"type": "function", "function": {"name": "save_memory", "parameters": {}}}
        await chat(client, "What do you know?", headers={"x-memproxy-user": user}, tools=[own], **INJECT)
        assert [t["function"]["name"] for t in model.last.json["tools"]].count("save_memory") == 1
        chosen = await client.put(
            "/v1/memory/settings", json={"user_id": user, "agent_id": "clerk", "memory_tools": "inject"}
        )
        assert chosen.json()["memory_tools"] == "inject"
        for agent, offered_to in (("clerk", True), ("other", False)):
            await chat(client, "What do you know?", headers={"x-memproxy-user": user, "x-memproxy-agent": agent})
            assert (b"save_memory" in model.last.body) == offered_to


async def test_a_compressed_answer_is_read_all_the_same(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(gzipped(calling(call("search_memory", {"query": "x"}))), gzipped(completion("Plain.")))
    answer = await ask(shared_proxy, "Find it.", word())
    assert model.received[0].header("accept-encoding") == "identity"
    assert json.loads(answer.body)["choices"][0]["message"]["content"] == "Plain."


async def test_two_users_models_see_nothing_of_each_other(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    ann, ben, secret = word(), word(), word()
    model.script(calling(call("save_memory", {"content": f"The code is {secret}."})), completion("Noted."))
    await ask(shared_proxy, "Remember the code.", ann)
    for name, arguments in (
        ("search_memory", {"query": secret}),
        ("search_memory", {"query": secret, "user_id": ann}),
        ("list_memory_categories", {}),
    ):
        model.reset()
        model.script(calling(call(name, arguments)), completion("No."))
        await ask(shared_proxy, "What is the code?", ben)
        assert all(f"The code is {secret}" not in text_of(message) for message in model.received[1].messages)


async def test_what_the_tools_answered_is_not_learned_as_said(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    user, place = word(), word()
    model.script(calling(call("save_memory", {"content": f"The user lives in {place}."})), completion("Noted."))
    await ask(shared_proxy, "Remember where I live.", user)

    async def captured() -> bool:
        return bool(await found(shared_proxy, "Remember where I live.", user=user, kind="turn"))

    await eventually(captured)
    holding = await found(shared_proxy, place, user=user)
    assert [(one["kind"], one["trust"]) for one in holding] == [("semantic", "tool")]


async def test_other_errors_are_the_upstreams(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.default = lambda _: json_answer({"error": "busy"}, 429)
    answer = await ask(shared_proxy, "What do you know?", word())
    assert (answer.status, json.loads(answer.body), len(model.received)) == (429, {"error": "busy"}, 1)
