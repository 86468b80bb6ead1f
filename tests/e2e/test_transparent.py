"""Byte for byte: what the upstream receives, what the client receives."""

import asyncio

import pytest

from tests.e2e.talk import body, chat, exchange, word
from tests.support.answers import DONE, Answer, chat_events, completion, error, gzipped, stream
from tests.support.http_client import plain_client
from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S, eventually

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
    async with shared_proxy.client() as client:
        relayed = await chat(client, f"Say {word()} again")
    assert (relayed.status, relayed.body) == (direct.status, direct.body)
    assert relayed.upstream_headers == direct.upstream_headers


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
