"""`tools.memory: inject`: a model uses the memory tools itself, on the real server with a scripted upstream, in both
formats.
"""

import asyncio
import json
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from tests.e2e.talk import Exchange, chat, exchange, found, say, word
from tests.support import responses
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
from tests.support.folders import Folders
from tests.support.proxy import Proxy, running_proxy
from tests.support.responses import events_in, function_call, message, stream_of, thought
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

INJECT = {"memory_config": {"memory_tools": "inject"}}
Item = dict[str, Any]


class Chats:
    """`/v1/chat/completions`."""

    weather: ClassVar[Item] = {
        "type": "function",
        "function": {"name": "get_weather", "parameters": {"type": "object"}},
    }

    def call(self, name: str, arguments: Any, id: str = "call_1") -> Item:  # noqa: A002 - as the API has it
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return {"id": id, "type": "function", "function": {"name": name, "arguments": written}}

    def answers(self, *calls: Item, text: str | None = None, streamed: bool = False) -> Answer:
        if streamed:
            return stream(self.streamed(*calls, words=() if text is None else (text,)))
        return completion(text, **({"tool_calls": list(calls)} if calls else {}))  # type: ignore[arg-type]

    def streamed(self, *calls: Item, words: tuple[str, ...] = ()) -> list[bytes]:
        """A stream that says words, then calls tools, the arguments in two pieces."""
        events = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": one}) for one in words)]
        for place, one in enumerate(calls):
            name, whole = one["function"]["name"], one["function"]["arguments"]
            head = {"id": one["id"], "type": "function", "function": {"name": name, "arguments": whole[:3]}}
            pieces: tuple[Item, Item] = (head, {"function": {"arguments": whole[3:]}})
            events += [chunk({"tool_calls": [{"index": place, **piece}]}) for piece in pieces]
        events.append(chunk({}, "tool_calls" if calls else "stop"))
        told = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        usage = b'data: {"id":"chatcmpl-1","choices":[],"usage":' + json.dumps(told).encode() + b"}\n\n"
        return [*events, usage, DONE]

    async def ask(self, proxy: Proxy, asked: Any, user: str, **fields: Any) -> Exchange:
        return await say(proxy, asked, headers={"x-memproxy-user": user}, **{**INJECT, **fields})

    def events(self, answer: Exchange) -> list[Item]:
        lines = [line.removeprefix(b"data: ") for line in answer.body.split(b"\n\n") if line.startswith(b"data: ")]
        assert lines[-1] == b"[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def said(self, answer: Exchange) -> str:
        if not _is_stream(answer):
            told: Item = json.loads(answer.body)["choices"][0]["message"]
            assert told.keys() == {"role", "content"}
            return str(told["content"])
        choices = [one for event in self.events(answer) for one in event["choices"]]
        assert choices[-1]["finish_reason"] == "stop"
        assert sum("role" in one["delta"] for one in choices) == 1
        return "".join(one["delta"].get("content") or "" for one in choices)

    def tokens(self, answer: Exchange) -> list[int]:
        told = self.events(answer)[-1] if _is_stream(answer) else json.loads(answer.body)
        return list(told["usage"].values())

    def called(self, received: Received) -> list[Item]:
        return [one for told in received.messages for one in told.get("tool_calls", ())]

    def results(self, received: Received) -> list[str]:
        return [text_of(one) for one in received.messages if one["role"] == "tool"]


class Responses:
    """`/v1/responses`. A model that calls tools thinks before it does."""

    weather: ClassVar[Item] = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}

    def call(self, name: str, arguments: Any, id: str = "call_1") -> Item:  # noqa: A002 - as the API has it
        return function_call(name, arguments if isinstance(arguments, str) else json.dumps(arguments), id)

    def answers(self, *calls: Item, text: str | None = None, streamed: bool = False) -> Answer:
        said = [message(text)] if text is not None else []
        return self.of([*said, *([thought("r1")] if calls else []), *calls], streamed=streamed)

    def of(self, items: list[Item], *, streamed: bool = False) -> Answer:
        return stream(stream_of(*items)) if streamed else json_answer(responses.response(*items))

    async def ask(self, proxy: Proxy, asked: Any, user: str, **fields: Any) -> Exchange:
        body = {"model": "test-model", "input": asked, "store": False, **INJECT, **fields}
        async with proxy.client() as client:
            return await exchange(client, "POST", "/v1/responses", json=body, headers={"x-memproxy-user": user})

    def whole(self, answer: Exchange) -> Item:
        told: Item = events_in(answer.body)[-1]["response"] if _is_stream(answer) else json.loads(answer.body)
        return told

    def said(self, answer: Exchange) -> str:
        items = self.whole(answer)["output"]
        assert {item["type"] for item in items} == {"message"}
        said = "".join(part["text"] for item in items for part in item["content"])
        if _is_stream(answer):
            events = events_in(answer.body)
            assert [event["sequence_number"] for event in events] == list(range(len(events)))
            assert sum(event["type"] == "response.completed" for event in events) == 1
            assert responses.text_in(events) == said
        return said

    def tokens(self, answer: Exchange) -> list[int]:
        return list(self.whole(answer)["usage"].values())

    def called(self, received: Received) -> list[Item]:
        items = received.json["input"]
        calls = [one for one in items if one.get("type") == "function_call"]
        return [self.call(one["name"], one["arguments"], one["call_id"]) for one in calls]

    def results(self, received: Received) -> list[str]:
        items = received.json["input"] if isinstance(received.json["input"], list) else []
        return [one["output"] for one in items if one.get("type") == "function_call_output"]


CHATS, RESPONSES = Chats(), Responses()
Wire = Chats | Responses


def _is_stream(answer: Exchange) -> bool:
    return answer.header("content-type").startswith("text/event-stream")


@pytest.fixture(params=[CHATS, RESPONSES], ids=["chat", "responses"])
def wire(request: pytest.FixtureRequest, model: ScriptedUpstream) -> Wire:
    """A format, in which the model answers."""
    made: Wire = request.param
    model.default = lambda _: made.answers(text="Hello.")
    return made


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def offered(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    """A busy engine may take longer to say what the tools are than a request waits for it."""

    async def is_offered() -> bool:
        await CHATS.ask(shared_proxy, "Hi?", word())
        return b"save_memory" in model.last.body

    default, model.default = model.default, lambda _: CHATS.answers(text="Hello.")
    await eventually(is_offered, what="the tools are offered")
    model.reset()
    model.default = default


async def test_the_models_calls_are_answered_and_the_client_gets_the_answer_alone(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire, streamed: bool
) -> None:
    user, place = word(), word()
    saves = wire.call("save_memory", {"content": f"The user's boat lies in {place}.", "category": "boats/where"})
    model.script(wire.answers(saves, streamed=streamed), wire.answers(text="Noted.", streamed=streamed))
    fields = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
    answer = await wire.ask(shared_proxy, "Please keep in mind where my boat lies.", user, **fields)
    assert (answer.status, wire.said(answer), wire.tokens(answer)) == (200, "Noted.", [14, 6, 20])
    assert b"save_memory" not in answer.body
    first, second = model.received
    offered = {tool.get("function", tool)["name"]: tool for tool in first.json["tools"]}
    assert {"save_memory", "search_memory", "save_to_working_memory"} < set(offered)
    assert wire is CHATS or offered["save_memory"]["strict"] is False
    assert "memory_config" not in first.json
    assert second.json["tools"] == first.json["tools"]
    assert wire.called(second) == [saves]
    assert "Please keep in mind where my boat lies." in second.body.decode()
    saved = json.loads(wire.results(second)[0])
    assert (saved["content"], saved["trust"]) == (f"The user's boat lies in {place}.", "tool")
    assert "tools;offered=8" in answer.header("x-memproxy-context")
    model.reset()
    search = wire.call("search_memory", {"query": place})
    model.script(wire.answers(search, streamed=streamed), wire.answers(text=f"In {place}.", streamed=streamed))
    await wire.ask(shared_proxy, "Where does it lie?", user, stream=streamed)
    hits = json.loads(wire.results(model.received[1])[0])["data"]
    assert [hit["memory"]["id"] for hit in hits][:1] == [saved["id"]]


@pytest.mark.parametrize(("wire", "between"), [(CHATS, "\n\n"), (RESPONSES, "")], indirect=["wire"])
async def test_a_stream_goes_on_behind_what_was_said(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire, between: str
) -> None:
    search = wire.call("search_memory", {"query": "anything"})
    model.script(
        wire.answers(search, text="Let me look.", streamed=True), wire.answers(text="It is blue.", streamed=True)
    )
    answer = await wire.ask(shared_proxy, "Which colour do I like?", word(), stream=True)
    assert wire.said(answer) == f"Let me look.{between}It is blue."
    assert b"search_memory" not in answer.body
    assert b"Let me look." in model.received[1].body


async def test_the_real_client_reads_a_stream_with_calls_in_it(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    search = RESPONSES.call("search_memory", {"query": "anything"})
    model.script(
        RESPONSES.of([thought("r1"), message("Let me look."), thought("r2"), search], streamed=True),
        RESPONSES.of([thought("r3"), message("It is blue.")], streamed=True),
    )
    async with shared_proxy.openai(**{"x-memproxy-user": word()}) as client:
        asked: dict[str, Any] = {"model": "test-model", "input": "Which colour do I like?", "store": False}
        async with client.responses.stream(**asked, extra_body=INJECT) as streamed:
            last = await streamed.get_final_response()
    assert [item.type for item in last.output] == ["reasoning", "message", "reasoning", "message"]
    assert last.output_text == "Let me look.It is blue."


async def test_without_calls_of_ours_a_stream_is_the_upstreams_to_the_byte(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire
) -> None:
    weather = wire.call("get_weather", {"city": "Oslo"})
    parts = [part for part in wire.answers(weather, text="Ünï", streamed=True).parts if isinstance(part, bytes)]
    whole = b": hello\r\n\r\n" + b"".join(parts).replace(b"\n", b"\r\n")
    model.script(stream([whole[at : at + 7] for at in range(0, len(whole), 7)]))
    answer = await wire.ask(shared_proxy, "How is the weather?", word(), stream=True, tools=[wire.weather])
    assert answer.body == whole


async def test_beside_a_chats_calls_ours_are_answered_and_put_back_with_the_clients_results(
    shared_proxy: Proxy, model: ScriptedUpstream, streamed: bool
) -> None:
    user, secret = word(), word()
    weather = CHATS.call("get_weather", {"city": "Oslo"})
    save = CHATS.call("save_memory", {"content": secret}, "call_2")
    model.script(CHATS.answers(save, weather, streamed=streamed))
    fields: dict[str, Any] = {"tools": [CHATS.weather], "stream": streamed}
    answer = await CHATS.ask(shared_proxy, "Weather, and remember it.", user, **fields)
    assert b"save_memory" not in answer.body
    if streamed:
        choices = [one for event in CHATS.events(answer) for one in event["choices"]]
        assert {entry["index"] for one in choices for entry in one["delta"].get("tool_calls", [])} == {0}
        assert choices[-1]["finish_reason"] == "tool_calls"
    else:
        assert json.loads(answer.body)["choices"][0]["message"]["tool_calls"] == [weather]
    async with shared_proxy.client() as client:
        answered = [
            {"role": "user", "content": "Weather, and remember it."},
            {"role": "assistant", "content": None, "tool_calls": [weather]},
            {"role": "tool", "tool_call_id": weather["id"], "content": "Sun."},
        ]
        body = {"model": "test-model", "messages": answered, "tools": [CHATS.weather], **INJECT}
        await client.post("/v1/chat/completions", json=body, headers={"x-memproxy-user": user})
    said = model.last.messages[1:]
    assert [one["id"] for one in said[0]["tool_calls"]] == ["call_1", "call_2"]
    assert [one["tool_call_id"] for one in said[1:]] == ["call_2", "call_1"]
    assert secret in text_of(said[1])
    assert len(await found(shared_proxy, secret, user=user)) == 1


async def test_beside_a_responses_calls_ours_are_answered_and_put_back_with_the_clients_results(
    shared_proxy: Proxy, model: ScriptedUpstream, streamed: bool
) -> None:
    user, secret = word(), word()
    weather = RESPONSES.call("get_weather", {"city": "Oslo"}, "call_2")
    save = RESPONSES.call("save_memory", {"content": secret})
    model.script(RESPONSES.of([save, weather], streamed=streamed), RESPONSES.answers(text="Sunny."))
    fields: dict[str, Any] = {"tools": [RESPONSES.weather], "stream": streamed}
    answer = await RESPONSES.ask(shared_proxy, "Weather, and remember it.", user, **fields)
    assert b"save_memory" not in answer.body
    assert RESPONSES.whole(answer)["output"] == [weather]
    brought = [
        {"role": "user", "content": "Weather, and remember it."},
        weather,
        {"type": "function_call_output", "call_id": "call_2", "output": "Sun."},
    ]
    await RESPONSES.ask(shared_proxy, brought, user, tools=[RESPONSES.weather])
    said = [one for one in model.last.json["input"] if one.get("role") not in {"user", "system"}]
    assert [(one["type"], one["call_id"]) for one in said] == [
        ("function_call", "call_2"),
        ("function_call", "call_1"),
        ("function_call_output", "call_1"),
        ("function_call_output", "call_2"),
    ]
    assert secret in said[2]["output"]
    assert len(await found(shared_proxy, secret, user=user)) == 1


@pytest.mark.parametrize("arguments", ["{not json", "[1]", "7", '{"query": 5}', '{"query": "x", "limit": 900}', "{}"])
async def test_arguments_that_cannot_be_used_are_the_models_error(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire, arguments: str
) -> None:
    model.script(wire.answers(wire.call("search_memory", arguments)), wire.answers(text="Never mind."))
    assert wire.said(await wire.ask(shared_proxy, "Find it.", word())) == "Never mind."
    assert "error" in json.loads(wire.results(model.received[1])[0])
    (called,) = wire.called(model.received[1])
    json.loads(called.get("function", called)["arguments"])  # upstreams refuse a history with less


async def test_a_model_that_calls_for_ever_is_asked_without_tools_in_the_end(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire, streamed: bool
) -> None:
    search = wire.call("search_memory", {"query": "more"})
    model.default = lambda received: (
        wire.answers(search, streamed=streamed)
        if "tools" in received.json
        else wire.answers(text="Enough.", streamed=streamed)
    )
    assert wire.said(await wire.ask(shared_proxy, "Find it.", word(), stream=streamed)) == "Enough."
    assert len(model.received) == 6
    assert model.received[4].json["tool_choice"] == "none"
    assert "tools" not in model.received[5].json


@pytest.mark.parametrize("trouble", ["error", "cut", "html"])
async def test_an_error_in_the_second_round_costs_the_tools_alone(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire, streamed: bool, trouble: str
) -> None:
    bad = {
        "error": error(500, "The model is overloaded."),
        "cut": Answer([], cut=True, framing="chunked", wait=None, hang_up=True, status=503),
        "html": Answer([b"<p>Bad gateway"], 502, [("content-type", "text/html")]),
    }[trouble]
    search = wire.call("search_memory", {"query": "x"})
    model.script(wire.answers(search, streamed=streamed), bad, wire.answers(text="Well.", streamed=streamed))
    answer = await wire.ask(shared_proxy, "Find it.", word(), stream=streamed)
    assert (answer.status, wire.said(answer)) == (200, "Well.")
    assert "tools" not in model.received[2].json


@pytest.mark.parametrize("status", [400, 404])
async def test_an_upstream_that_refuses_tools_gets_the_request_without_and_is_not_offered_them_again(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire, status: int
) -> None:
    model.default = lambda received: (
        error(status, "No endpoint supports tool use.") if "tools" in received.json else wire.answers(text="Hello.")
    )
    named = word()
    for _ in range(2):
        assert (await wire.ask(shared_proxy, "What do you know?", word(), model=named)).status == 200
    assert ["tools" in one.json for one in model.received] == [True, False, False]


async def test_tools_are_offered_only_where_they_may_be(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    user = word()
    cases: list[dict[str, Any]] = [
        {"memory_config": {}},
        {"memory_config": {"memory_tools": "none"}},
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "tools": [CHATS.weather]},
        {"n": 2},
        {"functions": [{"name": "f"}]},
        {"memory_config": {"memory_tools": "inject", "enabled": False}},
    ]
    for fields in cases:
        await CHATS.ask(shared_proxy, "What do you know?", user, **fields)
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
        chosen = await client.put(
            "/v1/memory/settings", json={"user_id": user, "agent_id": "clerk", "memory_tools": "inject"}
        )
        assert chosen.json()["memory_tools"] == "inject"
        for agent, offered_to in (("clerk", True), ("other", False)):
            await chat(client, "What do you know?", headers={"x-memproxy-user": user, "x-memproxy-agent": agent})
            assert (b"save_memory" in model.last.body) == offered_to


@pytest.mark.parametrize(
    ("wire", "own"),
    [
        (CHATS, {"type": "function", "function": {"name": "save_memory", "parameters": {}}}),
        (RESPONSES, {"type": "function", "name": "save_memory", "parameters": {}}),
    ],
    indirect=["wire"],
)
async def test_a_tool_of_the_clients_that_has_the_name_of_one_of_ours_is_the_clients(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire, own: Item
) -> None:
    await wire.ask(shared_proxy, "What do you know?", word(), tools=[own])
    names = [tool.get("function", tool)["name"] for tool in model.last.json["tools"]]
    assert (names.count("save_memory"), "search_memory" in names) == (1, True)


async def test_tools_are_offered_only_where_nothing_is_kept_upstream(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    """What a tool answers becomes part of the input, from which an upstream that keeps it could not be made to take it
    again.
    """
    model.default = lambda _: RESPONSES.answers(text="Hello.")
    user, asked = word(), "What do you know?"
    user_says = {"role": "user", "content": asked}
    history = [user_says, {"role": "assistant", "content": "Much."}, user_says]
    cases: list[tuple[Any, dict[str, Any], bool]] = [
        (asked, {}, True),
        (history, {}, True),
        (history, {"store": None}, False),
        (asked, {"store": True}, False),
        (asked, {"store": None}, False),
        (asked, {"previous_response_id": "resp_9"}, False),
        (asked, {"conversation": {"id": "conv_9"}}, False),
        (asked, {"background": True}, False),
        (asked, {"tool_choice": "none"}, False),
        (asked, {"tool_choice": {"type": "function", "name": "get_weather"}}, False),
        (asked, {"memory_config": {"memory_tools": "none"}}, False),
    ]
    for said, fields, wanted in cases:
        await RESPONSES.ask(shared_proxy, said, user, **fields)
        assert (b"save_memory" in model.last.body) == wanted, fields


async def test_a_compressed_answer_is_read_all_the_same(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire
) -> None:
    model.script(
        gzipped(wire.answers(wire.call("search_memory", {"query": "x"}))), gzipped(wire.answers(text="Plain."))
    )
    assert wire.said(await wire.ask(shared_proxy, "Find it.", word())) == "Plain."
    assert model.received[0].header("accept-encoding") == "identity"


async def test_two_users_models_see_nothing_of_each_other(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire
) -> None:
    ann, ben, secret = word(), word(), word()
    saves = wire.call("save_memory", {"content": f"The code is {secret}."})
    model.script(wire.answers(saves), wire.answers(text="Noted."))
    await wire.ask(shared_proxy, "Remember the code.", ann)
    for name, arguments in (
        ("search_memory", {"query": secret}),
        ("search_memory", {"query": secret, "user_id": ann}),
        ("list_memory_categories", {}),
    ):
        model.reset()
        model.script(wire.answers(wire.call(name, arguments)), wire.answers(text="No."))
        await wire.ask(shared_proxy, "What is the code?", ben)
        assert len(wire.results(model.received[1])) == 1
        assert f"The code is {secret}".encode() not in model.received[1].body


async def test_the_turn_is_captured_once_and_what_tools_answered_is_not_learned_as_said(
    shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire, streamed: bool
) -> None:
    user, place, asked = word(), word(), word()
    saves = wire.call("save_memory", {"content": f"The user lives in {place}."})
    model.script(wire.answers(saves, streamed=streamed), wire.answers(text="Noted.", streamed=streamed))
    await wire.ask(shared_proxy, f"Remember where I live, {asked}.", user, stream=streamed)

    async def captured() -> bool:
        return len(await found(shared_proxy, asked, user=user, kind="turn")) == 1

    await eventually(captured)
    holding = await found(shared_proxy, place, user=user)
    assert [(one["kind"], one["trust"]) for one in holding] == [("semantic", "tool")]


async def test_other_errors_are_the_upstreams(shared_proxy: Proxy, model: ScriptedUpstream, wire: Wire) -> None:
    model.default = lambda _: json_answer({"error": "busy"}, 429)
    answer = await wire.ask(shared_proxy, "What do you know?", word())
    assert (answer.status, json.loads(answer.body), len(model.received)) == (429, {"error": "busy"}, 1)


async def test_the_configuration_offers_them_to_all_and_an_engine_that_is_away_costs_the_tools_alone(
    folders: Folders, shared_upstream: ScriptedUpstream
) -> None:
    search = RESPONSES.call("search_memory", {"query": "anything"})
    body = {"model": "test-model", "input": "What do you know about me?", "store": False}

    def hello(received: Received) -> Answer:
        return RESPONSES.answers(text="Hello.", streamed=received.json["stream"])

    def calls_once(received: Received) -> Answer:
        calls = "tools" in received.json and "call_id" not in received.body.decode()
        return RESPONSES.answers(search, streamed=received.json["stream"]) if calls else hello(received)

    shared_upstream.default = hello
    settings = {"tools": {"memory": "inject"}, "recall": {"deadline_ms": 500}}
    with folders.new("home") as home:
        async with running_proxy(shared_upstream.base_url, home, settings) as proxy:

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
            shared_upstream.reset()
            shared_upstream.default = calls_once
            for answer in await asyncio.gather(asked(streamed=False), asked(streamed=True)):
                assert (answer.status, RESPONSES.said(answer)) == (200, "Hello.")
            told = [one for received in shared_upstream.received for one in RESPONSES.results(received)]
            assert all("error" in one for one in told)
            engine.resume()
            shared_upstream.default = hello
            await eventually(is_offered, what="the tools are offered again")
