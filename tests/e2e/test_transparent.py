"""What the upstream receives and what the client receives: byte for byte, and by the real `openai` client with nothing
changed but its ``base_url``; over connections that are kept, closed, raw and odd, and by many users at once.
"""

import asyncio
import dataclasses
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from tests.e2e.talk import body, chat, exchange, found, say, word
from tests.support.answers import DONE, Answer, chat_events, completion, error, gzipped, stream
from tests.support.http_client import NO_TLS, plain_client
from tests.support.proxy import KEY, Proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

ODD_NUMBERS = (
    b'{"model": "m","temperature":1.0,"seed":123456789012345678901234567890,"x":1e-6, "messages":[ {"role":"user",'
    b'"content":"Gr\xc3\xbc\xc3\x9fe \\u00e9 \\/ wie sp\xc3\xa4t ist es in zqzq"} ] }\n'
)
PARTS = (
    b'{"messages":[{"role":"user","content":[{"type":"text","text":"describe"},{"type":"image_url","image_url":'
    b'{"url":"data:image/png;base64,AAAA"}}]}],"model":"m"}'
)


@pytest.mark.parametrize("sent", [ODD_NUMBERS, PARTS], ids=["odd-numbers-and-unicode", "parts"])
async def test_with_nothing_to_inject_the_upstream_gets_the_clients_bytes(
    shared_proxy: Proxy, model: ScriptedUpstream, sent: bytes
) -> None:
    headers = {"content-type": "application/json", "x-memproxy-user": word()}
    async with shared_proxy.client() as client:
        answer = await exchange(client, "POST", "/v1/chat/completions", content=sent, headers=headers)
    assert (answer.status, answer.recall) == (200, "empty")
    assert model.last.body == sent
    assert not [name for name, _ in model.last.headers if name.lower().startswith("x-memproxy")]


async def test_each_chunk_arrives_before_the_next_is_sent(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    events = chat_events("one", " two", " three")
    gates = [asyncio.Event() for _ in events[:-1]]
    parts = [part for pair in zip(events, gates, strict=False) for part in pair]
    model.script(stream([*parts, events[-1]]))
    async with (
        shared_proxy.client() as client,
        client.stream("POST", "/v1/chat/completions", content=body("Count slowly", stream=True)) as answer,
    ):
        chunks = answer.aiter_raw()
        for event, gate in zip(events, gates, strict=False):
            assert await asyncio.wait_for(anext(chunks), LONGEST_S) == event
            gate.set()
        assert b"".join([rest async for rest in chunks]) == DONE


ANSWERS = {
    "plain": completion("fine"),
    "compressed": gzipped(completion("fine")),
    "no-length": Answer([b'{"a":', b"1.0}"], framing="close"),
    "chunked": Answer([b'{"a":', b"1.0}"], framing="chunked"),
    "not-json": Answer([b"<html>"], 200, [("content-type", "text/html"), ("x-a", "1"), ("x-a", "2")]),
    "overloaded": error(503, "overloaded", [("retry-after", "3")]),
    "empty": Answer([], 200, [("content-type", "application/json")]),
}


@pytest.mark.parametrize("scripted", ANSWERS.values(), ids=ANSWERS.keys())
async def test_an_answer_reaches_the_client_byte_for_byte(
    shared_proxy: Proxy, model: ScriptedUpstream, scripted: Answer
) -> None:
    model.script(scripted, scripted)
    async with plain_client() as plain:
        direct = await exchange(plain, "POST", f"{model.base_url}/chat/completions", content=body("x"))
    relayed = await say(shared_proxy, f"Say {word()} again")
    assert (relayed.status, relayed.body) == (direct.status, direct.body)
    assert relayed.upstream_headers == direct.upstream_headers


SCRAPED = """
memproxy_requests_total{ route= status=
memproxy_request_overhead_seconds_count
memproxy_recall_total{ result= reason=
memproxy_recall_stage_seconds_count{ stage=
memproxy_injected_memories
memproxy_injected_tokens
memproxy_upstream_seconds_count
memproxy_upstream_cached_tokens_total
memproxy_turns_captured_total
memproxy_learn_jobs{ state=
memproxy_learn_seconds
memproxy_memories_written_total{ operation=
memproxy_model_tokens_total{ source= direction=
memproxy_store_seconds_count{ operation=
memproxy_store_points
memproxy_build_info
"""
"""Names of the contract's section 8, and their labels, in whatever order."""


async def test_one_scrape_shows_every_metric_of_both_processes_and_nobody(shared_proxy: Proxy) -> None:
    async with shared_proxy.client() as client:
        await chat(client, "My bicycle is red.", headers={"x-memproxy-user": "nobody-at-all"})

        lacking: list[str] = []

        async def complete() -> str | None:
            text = (await client.get("/metrics")).text
            lacking[:] = [wanted for wanted in SCRAPED.strip().splitlines() if not _shown(text, *wanted.split())]
            return None if lacking else text

        text = await eventually(complete, what=lambda: f"metrics: {lacking}")
    assert text is not None
    assert "nobody-at-all" not in text


def _shown(text: str, name: str, *labels: str) -> bool:
    return any(line.startswith(name) and all(label in line for label in labels) for line in text.splitlines())


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
    assert model.last.header("authorization") == f"Bearer {shared_proxy.key}"


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


async def raw(proxy: Proxy, request: bytes) -> bytes:
    """Write bytes to the proxy and read all that comes until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(request)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), LONGEST_S)
    finally:
        writer.close()


async def test_an_upstream_that_closes_idle_connections_costs_no_request(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    model.default = lambda _received: dataclasses.replace(completion("fine"), hang_up=True)
    answers = [await say(shared_proxy, f"Say {word()} again") for _ in range(20)]
    assert {answer.status for answer in answers} == {200}
    assert len(model.received) == 20, "no request was sent twice"


async def test_cookies_of_one_client_never_reach_another(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(Answer([b"{}"], headers=[("set-cookie", "session=one; Path=/"), ("content-type", "application/json")]))
    async with shared_proxy.client("sk-test-one") as one, shared_proxy.client("sk-test-two") as two:
        first = await chat(one, f"Say {word()} again")
        await chat(two, f"Say {word()} again")
    assert first.header("set-cookie") == "session=one; Path=/"
    assert model.last.header("cookie") is None


@pytest.mark.parametrize("status", [307, 304])
async def test_redirects_and_answers_without_a_body_are_the_clients_business(
    shared_proxy: Proxy, model: ScriptedUpstream, status: int
) -> None:
    model.script(Answer([], status, [("location", "https://elsewhere.example/v1/models"), ("etag", '"1"')]))
    async with shared_proxy.client() as client:
        answer = await exchange(client, "GET", "/v1/models")
    assert (answer.status, answer.header("location")) == (status, "https://elsewhere.example/v1/models")
    assert len(model.received) == 1


async def test_the_upstreams_own_timing_header_stays(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    scripted = completion("fine")
    model.script(dataclasses.replace(scripted, headers=[*scripted.headers, ("server-timing", "model;dur=12")]))
    answer = await say(shared_proxy, "What did I plan for my garden?")
    timings = [value for name, value in answer.headers if name == "server-timing"]
    assert "model;dur=12" in timings
    assert any("recall;dur=" in value for value in timings)


async def test_a_chunked_request_body_is_relayed_whole(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    sent = body(f"Say {word()} again")
    pieces = [sent[:10], sent[10:11], sent[11:]]
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" % shared_proxy.port
    )
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    answer = await raw(shared_proxy, head + chunks + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert model.last.body == sent


async def test_a_client_that_expects_100_continue_gets_its_answer(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    sent = body(f"Say {word()} again")
    reader, writer = await asyncio.open_connection("127.0.0.1", shared_proxy.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (shared_proxy.port, len(sent))
    )
    assert b"100" in await asyncio.wait_for(reader.readline(), LONGEST_S)
    writer.write(sent)
    rest = await asyncio.wait_for(reader.read(), LONGEST_S)
    writer.close()
    assert b"HTTP/1.1 200" in rest
    assert model.last.body == sent


async def test_what_is_no_http_gets_a_400_and_the_server_stays_up(shared_proxy: Proxy) -> None:
    assert b"400" in (await raw(shared_proxy, b"\x16\x03\x01 this is no http\r\n\r\n")).split(b"\r\n")[0]
    assert (await shared_proxy.readiness())[0] == 200


async def test_a_client_cannot_pass_itself_off_as_the_relay(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    secret, user = word(), word()
    await say(shared_proxy, f"My locker code is {secret}.", headers={"x-memproxy-user": user}, key="sk-victim")
    await eventually(lambda: found(shared_proxy, secret, key="sk-victim", user=user), what="the secret is stored")
    shown = await shared_proxy.call("POST", "/v1/memory/search", "sk-victim", json={"query": secret, "user_id": user})
    assert "tenant" not in shown.json()["data"][0]["memory"]
    for identity in ('{"tenant":"anonymous","default_user":"default"}', '{"tenant":"sk-victim"}'):
        headers = {"x-memproxy-internal-identity": identity}
        answer = await shared_proxy.call(
            "POST", "/v1/memory/search", "sk-thief", json={"query": secret, "user_id": user}, headers=headers
        )
        assert answer.json()["data"] == []
    assert not [name for name, _ in model.last.headers if "memproxy" in name.lower()]


async def test_many_users_at_once_see_their_own_memories_only(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    secrets = {f"user{number}{word()}": word() for number in range(12)}
    async with shared_proxy.client() as client:

        async def tell(user: str, secret: str) -> int:
            return (await chat(client, f"My locker code is {secret}.", headers={"x-memproxy-user": user})).status

        async def ask(user: str) -> tuple[str, str]:
            marker = word()
            question = f"What is my locker code? {marker}"
            answer = await chat(client, question, headers={"x-memproxy-user": user})
            (seen,) = [received for received in model.received if marker.encode() in received.body]
            return answer.recall, seen.body.decode()

        assert set(await asyncio.gather(*(tell(*pair) for pair in secrets.items()))) == {200}
        for user, secret in secrets.items():
            await eventually(lambda user=user, secret=secret: found(shared_proxy, secret, user=user))  # type: ignore[misc]
        answers = dict(zip(secrets, await asyncio.gather(*(ask(user) for user in secrets)), strict=True))
    for user, (recall, seen) in answers.items():
        assert recall == "injected"
        assert secrets[user] in seen
        assert not [other for other in secrets.values() if other != secrets[user] and other in seen]
