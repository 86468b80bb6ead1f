"""The real `openai` client with nothing changed but its ``base_url``."""

from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from tests.support.answers import Answer, chat_events, completion, error, stream
from tests.support.http_client import NO_TLS
from tests.support.proxy import KEY, Proxy
from tests.support.upstream import ScriptedUpstream

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALL: Any = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}


def direct(model: ScriptedUpstream) -> AsyncOpenAI:
    http = openai.DefaultAsyncHttpxClient(trust_env=False, verify=NO_TLS)
    return AsyncOpenAI(base_url=model.base_url, api_key=KEY, max_retries=0, http_client=http)


async def test_a_chat_gets_the_models_answer(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    async with shared_proxy.openai() as client:
        answer = await client.chat.completions.create(
            model="test-model", messages=[{"role": "user", "content": "Count the planets of the sun"}]
        )
    assert answer.choices[0].message.content == "You said: Count the planets of the sun"
    assert model.last.header("authorization") == f"Bearer {KEY}"


async def test_a_streams_chunks_and_their_order_equal_the_upstreams(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    seen = []
    for client in (direct(model), shared_proxy.openai()):
        model.script(stream(chat_events("one", " two", " three", " four")))
        async with client:
            chunks = await client.chat.completions.create(
                model="test-model", messages=[{"role": "user", "content": "Name four numbers please"}], stream=True
            )
            seen.append([chunk.model_dump() async for chunk in chunks])
    assert seen[0] == seen[1]
    assert len(seen[1]) == 6


async def test_tool_calls_and_their_follow_up_pass(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(completion("", content=None, tool_calls=[CALL]), completion("It rains."))
    question: Any = {"role": "user", "content": "Is it raining in Paris?"}
    async with shared_proxy.openai() as client:
        first = await client.chat.completions.create(model="test-model", messages=[question], tools=[TOOL])
        called: Any = first.choices[0].message
        history: Any = [question, called, {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]
        second = await client.chat.completions.create(model="test-model", messages=history, tools=[TOOL])
    assert called.tool_calls[0].function.arguments == '{"city":"Paris"}'
    assert second.choices[0].message.content == "It rains."
    assert model.last.json["tools"] == [TOOL]


async def test_the_raw_response_carries_the_proxys_headers(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    async with shared_proxy.openai() as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="test-model", messages=[{"role": "user", "content": "What did I plan for my garden?"}]
        )
    assert raw.headers["x-memproxy-request-id"]
    assert raw.headers["x-memproxy-session"]
    assert raw.headers["x-memproxy-recall"].split(";")[0] in {"empty", "injected"}
    assert "recall;dur=" in raw.headers["server-timing"]
    assert model.last.target == "/v1/chat/completions"


ERRORS: list[tuple[type[openai.APIStatusError], Answer]] = [
    (openai.BadRequestError, error(400, "bad value", param="temperature")),
    (openai.AuthenticationError, error(401, "Incorrect API key provided", code="invalid_api_key")),
    (openai.NotFoundError, error(404, "The model `nope` does not exist", code="model_not_found")),
    (
        openai.RateLimitError,
        error(429, "slow down", [("retry-after", "7"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]),
    ),
    (openai.InternalServerError, error(500, "the server had an error")),
]


@pytest.mark.parametrize(("kind", "answer"), ERRORS, ids=["400", "401", "404", "429", "500"])
async def test_errors_of_the_upstream_reach_the_client_unchanged(
    shared_proxy: Proxy, model: ScriptedUpstream, kind: type[openai.APIStatusError], answer: Answer
) -> None:
    seen: list[httpx.Response] = []
    for client in (direct(model), shared_proxy.openai()):
        model.script(answer)
        async with client:
            with pytest.raises(kind) as refused:
                await client.chat.completions.create(
                    model="nope", messages=[{"role": "user", "content": "Sort my shopping list"}]
                )
        seen.append(refused.value.response)  # type: ignore[arg-type]
    assert seen[0].status_code == seen[1].status_code == answer.status
    assert seen[0].content == seen[1].content
    for name in ("retry-after", "set-cookie", "content-type"):
        assert seen[0].headers.get_list(name) == seen[1].headers.get_list(name)


async def test_a_stream_that_is_cut_reaches_the_client_as_broken(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(stream(chat_events("one", " two")[:2], cut=True))
    received = []
    async with shared_proxy.openai() as client:
        chunks = await client.chat.completions.create(
            model="test-model", messages=[{"role": "user", "content": "Tell me a long story"}], stream=True
        )
        with pytest.raises(openai.APIConnectionError):  # noqa: PT012 - read to the break
            async for chunk in chunks:
                received.append(chunk)  # noqa: PERF401 - what came before the break counts
    assert [chunk.choices[0].delta.content for chunk in received] == ["", "one"]


async def test_the_model_list_passes(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    body = b'{"object":"list","data":[{"id":"m1","object":"model","created":1,"owned_by":"x"}]}'
    model.script(Answer([body]))
    async with shared_proxy.openai() as client:
        assert [entry.id async for entry in client.models.list()] == ["m1"]
    assert model.last.target == "/v1/models"
