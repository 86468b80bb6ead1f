"""Byte for byte: what the upstream receives, what the client receives."""

import asyncio
import json

import pytest

from tests.e2e.talk import body, chat, exchange, word
from tests.support.answers import DONE, Answer, chat_events, chunk, completion, error, gzipped, stream
from tests.support.http_client import plain_client
from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

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


@pytest.mark.parametrize("greeting", ["hi", "Hello!", "thanks", "ok", "hey there"])
async def test_a_greeting_is_skipped_and_says_so(shared_proxy: Proxy, model: ScriptedUpstream, greeting: str) -> None:
    async with shared_proxy.client() as client:
        answer = await chat(client, greeting)
    assert answer.status == 200
    assert answer.recall == "skipped; reason=greeting"
    assert model.last.body == body(greeting)


async def test_controls_are_stripped_and_nothing_else_changes(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    controls = {"X-Memproxy-User": "maria", "X-Memproxy-Session": "s1", "X-Memproxy-Memory": "off", "X-Mine": "kept"}
    async with shared_proxy.client() as client:
        answer = await chat(
            client, "Anything at all", headers=controls, memory_context={"user_id": "maria"}, temperature=1.0
        )
    assert answer.recall.startswith("off")
    names = {name.lower() for name, _ in model.last.headers}
    assert "x-mine" in names
    assert not any(name.startswith("x-memproxy") for name in names)
    assert "memory_context" not in model.last.json
    assert b'"temperature": 1.0' in model.last.body


ODD_STREAMS = {
    "crlf": [b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\r\n\r\n', b"data: [DONE]\r\n\r\n"],
    "comments": [b": keep-alive\n\n", *chat_events("a"), b": bye\n\n"],
    "split-anywhere": [bytes([byte]) for byte in b"".join(chat_events("a", " b"))],
    "many-in-one": [b"".join(chat_events("a", " b", " c"))],
    "unknown-fields": [b'event: x\nid: 7\ndata: {"choices":[],"new":{"n":1.0}}\n\n', DONE],
    "no-done": chat_events("a", " b")[:-1],
    "not-json": [b"data: oops\n\n", DONE],
    "split-utf8": [chunk({"content": "é"})[:-8], chunk({"content": "é"})[-8:], DONE],
}


@pytest.mark.parametrize("parts", ODD_STREAMS.values(), ids=ODD_STREAMS.keys())
async def test_a_stream_reaches_the_client_byte_for_byte(
    shared_proxy: Proxy, model: ScriptedUpstream, parts: list[bytes]
) -> None:
    model.script(stream(parts))
    async with shared_proxy.client() as client:
        answer = await chat(client, f"Say {word()} again", stream=True)
    assert answer.status == 200
    assert answer.body == b"".join(parts)


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
            assert await asyncio.wait_for(anext(chunks), 10) == event
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
    async with shared_proxy.client() as client:
        relayed = await chat(client, f"Say {word()} again")
    assert (relayed.status, relayed.body) == (direct.status, direct.body)
    assert relayed.upstream_headers == direct.upstream_headers


UNSPLICEABLE = {
    "duplicate-messages": b'{"model":"m","messages":[],"messages":[{"role":"user","content":"What is my budget?"}]}',
    "byte-order-mark": b'\xef\xbb\xbf{"model":"m","messages":[{"role":"user","content":"What is my budget?"}]}',
    "utf-16": '{"model":"m","messages":[{"role":"user","content":"What is my budget?"}]}'.encode("utf-16"),
}


@pytest.mark.parametrize("sent", UNSPLICEABLE.values(), ids=UNSPLICEABLE.keys())
async def test_a_body_that_cannot_be_spliced_safely_goes_on_untouched(
    shared_proxy: Proxy, model: ScriptedUpstream, sent: bytes
) -> None:
    model.script(completion("fine"))
    async with shared_proxy.client() as client:
        answer = await exchange(client, "POST", "/v1/chat/completions", content=sent)
    assert (answer.status, answer.recall) == (200, "skipped; reason=unreadable")
    assert model.last.body == sent


async def test_malformed_json_gets_what_the_upstream_says(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    said = error(400, "We could not parse the JSON body of your request.")
    model.script(said)
    async with shared_proxy.client() as client:
        answer = await exchange(client, "POST", "/v1/chat/completions", content=b'{"model": "m", "messages": [')
    assert (answer.status, answer.body) == (400, said.parts[0])
    assert answer.recall == "skipped; reason=unreadable"
    assert model.last.body == b'{"model": "m", "messages": ['


@pytest.mark.parametrize("sent", [b'{"model":"m"}', b'{"model":"m","messages":[]}', b"[]", b"", b"\xef\xbb\xbf{}"])
async def test_a_body_without_messages_gets_what_the_upstream_says(
    shared_proxy: Proxy, model: ScriptedUpstream, sent: bytes
) -> None:
    said = error(400, "you must provide messages")
    model.script(said)
    async with shared_proxy.client() as client:
        answer = await exchange(client, "POST", "/v1/chat/completions", content=sent)
    assert (answer.status, answer.body) == (400, said.parts[0])
    assert model.last.body == sent


async def test_embeddings_pass(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(Answer([b'{"object":"list","data":[{"embedding":[0.10,1e-3]}]}']))
    async with shared_proxy.client() as client:
        answer = await exchange(client, "POST", "/v1/embeddings?x=%20y", content=b'{"input":"a", "model":"e"}')
    assert answer.body == b'{"object":"list","data":[{"embedding":[0.10,1e-3]}]}'
    assert (model.last.target, model.last.body) == ("/v1/embeddings?x=%20y", b'{"input":"a", "model":"e"}')


async def test_an_upload_passes_unchanged(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(Answer([b'{"id":"file-1"}']))
    content = bytes(range(256)) * 4096
    async with shared_proxy.client() as client:
        sent = client.build_request("POST", "/v1/files", files={"file": ("a.bin", content)}, data={"purpose": "x"})
        raw = await sent.aread()
        answer = await client.send(sent)
    assert answer.json() == {"id": "file-1"}
    assert model.last.body == raw
    assert model.last.header("content-type") == sent.headers["content-type"]


async def test_binary_answers_and_ranges_pass(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    audio = bytes(range(256)) * 1000
    headers = [("content-type", "audio/mpeg"), ("content-range", "bytes 0-255999/900000"), ("etag", '"x"')]
    model.script(Answer([audio[:1000], audio[1000:]], 206, headers))
    async with shared_proxy.client() as client:
        answer = await exchange(client, "GET", "/v1/files/f1/content", headers={"range": "bytes=0-255999"})
    assert (answer.status, answer.body) == (206, audio)
    assert answer.upstream_headers == [*headers, ("content-length", "256000")]
    assert model.last.header("range") == "bytes=0-255999"


async def test_head_and_other_methods_pass(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(
        Answer([], 200, [("content-length", "12345"), ("x-model", "m")]),
        Answer([], 204, []),
        Answer([b"{}"], 200),
    )
    async with shared_proxy.client() as client:
        head = await exchange(client, "HEAD", "/v1/models/m")
        deleted = await exchange(client, "DELETE", "/v1/files/f1")
        patched = await exchange(client, "PATCH", "/v1/things/a%2Fb", content=b"x=1")
    assert (head.status, head.body, head.header("content-length")) == (200, b"", "12345")
    assert deleted.status == 204
    assert patched.status == 200
    assert [received.method for received in model.received] == ["HEAD", "DELETE", "PATCH"]
    assert model.last.target == "/v1/things/a%2Fb"


async def test_an_upgrade_is_not_implemented(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with shared_proxy.client() as client:
        answer = await exchange(client, "GET", "/v1/realtime?model=m", headers=headers)
    assert answer.status == 501
    assert not model.received


async def test_a_client_that_leaves_ends_the_upstream_call(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    first, *rest = chat_events("one", " two")
    model.script(stream([first, asyncio.Event(), *rest]))
    async with (
        shared_proxy.client() as client,
        client.stream("POST", "/v1/chat/completions", content=body("Talk for ever", stream=True)) as answer,
    ):
        await anext(answer.aiter_raw())
    await asyncio.wait_for(model.last.left.wait(), 10)


async def test_a_foreign_host_or_origin_is_refused(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    async with shared_proxy.client() as client:
        host = await chat(client, "What is my budget?", headers={"host": "evil.example"})
        origin = await chat(client, "What is my budget?", headers={"origin": "https://evil.example"})
    for answer in (host, origin):
        assert answer.status == 403
        assert set(json.loads(answer.body)["error"]) == {"message", "type", "param", "code"}
    assert not model.received


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


async def test_health_and_readiness_need_no_key(shared_proxy: Proxy) -> None:
    async with shared_proxy.client(key=None) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
