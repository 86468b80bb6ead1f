"""The scripted upstream itself: what it sends and records is exact, or every test that uses it is worth nothing."""

import asyncio

import httpx
import pytest

from tests.support.answers import Received, chat_events, completion, error, gzipped, refusing_late_system, stream
from tests.support.http_client import plain_client
from tests.support.upstream import EXTRACT_MARK, ScriptedUpstream
from tests.support.waiting import LONGEST_S

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello there"}]}


@pytest.fixture
def client() -> httpx.AsyncClient:
    return plain_client(timeout=LONGEST_S)


async def test_it_echoes_and_records_raw_requests(upstream: ScriptedUpstream, client: httpx.AsyncClient) -> None:
    async with client:
        answer = await client.post(f"{upstream.base_url}/chat/completions?a=%2F", json=CHAT, headers={"X-Odd": "1"})
    assert answer.json()["choices"][0]["message"]["content"] == "You said: Hello there"
    assert upstream.last.target == "/v1/chat/completions?a=%2F"
    assert ("X-Odd", "1") in upstream.last.headers
    assert upstream.last.json == CHAT


async def test_each_part_of_a_stream_is_its_own_flush(upstream: ScriptedUpstream, client: httpx.AsyncClient) -> None:
    go_on = asyncio.Event()
    first, *rest = chat_events("one", " two")
    upstream.script(stream([first, go_on, *rest]))
    async with client, client.stream("POST", f"{upstream.base_url}/chat/completions", json=CHAT) as answer:
        chunks = answer.aiter_raw()
        assert await anext(chunks) == first
        go_on.set()
        assert b"".join([chunk async for chunk in chunks]) == b"".join(rest)


async def test_a_cut_breaks_the_connection(upstream: ScriptedUpstream, client: httpx.AsyncClient) -> None:
    upstream.script(stream(chat_events("one")[:2], cut=True))
    async with client:
        with pytest.raises(httpx.TransportError):
            await client.post(f"{upstream.base_url}/chat/completions", json=CHAT)


async def test_errors_keep_their_repeated_headers(upstream: ScriptedUpstream, client: httpx.AsyncClient) -> None:
    upstream.script(error(429, "slow down", [("retry-after", "7"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]))
    async with client:
        answer = await client.post(f"{upstream.base_url}/chat/completions", json=CHAT)
    assert answer.status_code == 429
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]


async def test_a_compressed_answer_is_readable(upstream: ScriptedUpstream, client: httpx.AsyncClient) -> None:
    upstream.script(gzipped(completion("small")))
    async with client:
        answer = await client.post(f"{upstream.base_url}/chat/completions", json=CHAT)
    assert answer.json()["choices"][0]["message"]["content"] == "small"


async def test_extractions_do_not_take_from_the_queue(upstream: ScriptedUpstream, client: httpx.AsyncClient) -> None:
    upstream.script(completion("scripted"))
    prompt = {"model": "m", "messages": [{"role": "system", "content": EXTRACT_MARK}]}
    async with client:
        extraction = await client.post(f"{upstream.base_url}/chat/completions", json=prompt)
        chat = await client.post(f"{upstream.base_url}/chat/completions", json=CHAT)
    assert extraction.json()["choices"][0]["message"]["content"] == '{"candidates": []}'
    assert chat.json()["choices"][0]["message"]["content"] == "scripted"
    assert (len(upstream.extractions), len(upstream.received)) == (1, 1)


async def test_it_notices_a_client_that_leaves(upstream: ScriptedUpstream, client: httpx.AsyncClient) -> None:
    first, *rest = chat_events("one")
    upstream.script(stream([first, asyncio.Event(), *rest]))
    async with client, client.stream("POST", f"{upstream.base_url}/chat/completions", json=CHAT) as answer:
        await anext(answer.aiter_raw())
    await asyncio.wait_for(upstream.last.left.wait(), LONGEST_S)


def test_a_late_system_message_is_refused() -> None:
    body = b'{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}'
    assert refusing_late_system(Received("POST", "/v1/chat/completions", [], body)).status == 400
