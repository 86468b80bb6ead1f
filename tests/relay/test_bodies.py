"""Bodies that cost more than they look like: half-sent, packed many times, of many megabytes, with endless names."""

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import zstandard

from memproxy.auth.headers import LONGEST_KEY
from memproxy.errors import Overloaded
from memproxy.relay.bodies import BodyWork, Stop
from memproxy.serve.server import Patience, Server, server_config
from memproxy.serve.supervisor import bind
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner
from memproxy.wire.encoding import MOST_MEMBERS
from memproxy.wire.request_body import LONGEST_NAME, MOST_BYTES, MOST_CHARACTERS, MOST_MESSAGES
from tests.relay.rig import Rig, Running, connection
from tests.support.answers import Answer, completion
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S, eventually


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    """What a test begins beside itself; it ends with the test."""
    owner = TaskOwner("test")
    yield owner
    await owner.cancel()


@pytest.fixture
async def upstream(upstream: ScriptedUpstream) -> ScriptedUpstream:
    upstream.default = lambda _received: completion("Ten.")
    return upstream


QUESTION = {"role": "user", "content": "What is my budget?"}
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
HALF = HEAD + b'content-length: 1000\r\n\r\n{"messages":['
UPLOAD = b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\nbegun"


async def all_of(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(LONGEST_S):
        return await reader.read()


async def all_on(held: AsyncExitStack, port: int, sent: list[bytes]) -> list[asyncio.StreamReader]:
    """What comes on connections on each of which one of these was sent."""
    return [(await held.enter_async_context(connection(port, one)))[0] for one in sent]


def chat_of(messages: list[dict[str, Any]], **fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages, **fields}).encode()


async def posted(relay: Rig, body: bytes, *encodings: str) -> str:
    """What memory did with this body."""
    headers = [("content-type", "application/json"), *(("content-encoding", one) for one in encodings)]
    answer = await relay.client.post("/v1/chat/completions", content=body, headers=headers)
    assert answer.status_code == 200
    return answer.headers["x-memproxy-recall"]


async def test_half_sent_bodies_give_way_to_the_requests_of_others(running: Running) -> None:
    relaying = running(server={"max_concurrent_requests": 8})
    async with relaying as relay, AsyncExitStack() as held:
        half_sent = await all_on(held, relay.port, [HALF] * 8)
        told = [await all_of(reader) for reader in half_sent[:4]]
        assert (await relay.chat("What is my budget?")).status_code == 200
        assert {one.split(b" ")[1] for one in told} == {b"408"}
        assert {b"body_timeout" in one and b"connection: close" in one for one in told} == {True}
        assert not any(reader.at_eof() for reader in half_sent[5:])


async def test_requests_that_come_together_do_not_give_way_to_each_other(
    running: Running, upstream: ScriptedUpstream
) -> None:
    together = asyncio.Barrier(8)

    async def in_two(body: bytes) -> AsyncIterator[bytes]:
        yield body[:10]
        await together.wait()
        yield body[10:]

    relaying = running(server={"max_concurrent_requests": 8})
    async with relaying as relay:
        body, headers = chat_of([QUESTION]), {"content-type": "application/json"}
        asked = (relay.client.post("/v1/chat/completions", content=in_two(body), headers=headers) for _ in range(8))
        assert [answer.status_code for answer in await asyncio.gather(*asked)] == [200] * 8


async def test_uploads_that_do_not_end_leave_room_for_chat(running: Running, tasks: TaskOwner) -> None:
    relaying = running(server={"max_concurrent_requests": 8})
    async with relaying as relay, AsyncExitStack() as held:
        uploads = await all_on(held, relay.port, [UPLOAD] * 8)
        refused = [tasks.start(reader.readuntil(b"\r\n\r\n"), "reading") for reader in uploads]
        done = await eventually(lambda: [one for one in refused if one.done()][3:])
        assert (await relay.chat("What is my budget?")).status_code == 200
    assert {one.result().split(b" ")[1] for one in done} == {b"503"}
    assert all(b"retry-after" in one.result() for one in done)


async def test_a_body_for_which_there_is_no_room_displaces_a_half_sent_one_and_else_is_refused(
    running: Running, upstream: ScriptedUpstream, tasks: TaskOwner
) -> None:
    body, hold = chat_of([{"role": "user", "content": "x" * 60_000}]), asyncio.Event()
    half = HEAD + b"content-length: 95000\r\n\r\n" + b" " * 90_000
    relaying = running(server={"max_held_bytes": 100_000})
    async with relaying as relay, connection(relay.port, half) as (reader, _):
        assert (await relay.client.get("/healthz")).status_code == 200
        assert await posted(relay, body) == "empty"
        assert (await all_of(reader)).startswith(b"HTTP/1.1 408 ")
        upstream.script(Answer(completion("Ten.").parts, wait=hold))
        waiting = tasks.start(posted(relay, body), "waiting")
        await eventually(lambda: len(upstream.received) == 2)
        refused = await relay.client.post("/v1/chat/completions", content=body)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "max_held_bytes" in refused.json()["error"]["message"]
        hold.set()
        await waiting
        assert await posted(relay, body) == "empty"


@pytest.mark.parametrize(
    ("patience", "sent", "closed"),
    [
        (Patience(60, 60, whole_body_s=0), [HALF], [b"408"]),
        (Patience(60, 60, without_headers=2), [HEAD] * 5, [b"408"] * 3),
    ],
    ids=["a body that takes too long", "too many without headers"],
)
async def test_however_they_send_no_client_is_waited_for_without_end(
    tasks: TaskOwner, patience: Patience, sent: list[bytes], closed: list[bytes]
) -> None:
    async def reads(_scope: Any, receive: Any, _send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    listening = bind("127.0.0.1", 0)
    server = Server(server_config(reads), patience)
    serving = tasks.start(server.serve(sockets=[listening]), "serving")
    async with AsyncExitStack() as held:
        readers = await all_on(held, listening.getsockname()[1], sent)
        told = [tasks.start(all_of(reader), "reading") for reader in readers]
        done = await eventually(lambda: [one for one in told if one.done()][len(closed) - 1 :] and told)
        assert [one.result().split(b" ")[1] for one in done if one.done()] == closed
        for one in told:
            one.cancel()
    server.leave()
    server.force_exit = True
    await serving


def many(pack: Callable[[bytes], bytes], count: int, body: bytes) -> bytes:
    """A packed body with so many empty members before it."""
    return pack(b"") * count + pack(body)


def until_stopped(ended: threading.Event, began: threading.Event | None = None) -> Callable[[Stop], None]:
    """Work without end; it tells when it began and when it was ended."""

    def long(stop: Stop) -> None:
        if began is not None:
            began.set()
        try:
            while True:
                stop.check()
        finally:
            ended.set()

    return long


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
async def test_a_body_of_too_many_members_goes_on_untouched(
    relay: Rig, upstream: ScriptedUpstream, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    assert await posted(relay, many(pack, MOST_MEMBERS - 1, chat_of([QUESTION])), encoding) == "injected"
    body = many(pack, MOST_MEMBERS, chat_of([QUESTION]))
    assert await posted(relay, body, encoding) == "skipped; reason=unreadable"
    assert upstream.last.body == body


async def test_a_body_packed_twice_is_not_opened_once(relay: Rig, upstream: ScriptedUpstream) -> None:
    body = gzip.compress(chat_of([QUESTION]))
    assert await posted(relay, body, "gzip", "br") == "skipped; reason=unreadable"
    assert upstream.last.body == body


async def test_work_that_nobody_waits_for_ends_or_never_begins(tasks: TaskOwner) -> None:
    work, began, ended = BodyWork(threads=1), threading.Event(), threading.Event()
    done: list[Stop] = []
    first = tasks.start(work.read(until_stopped(ended, began)), "first")
    second = tasks.start(work.read(done.append), "second")
    await eventually(began.is_set)
    second.cancel()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    await eventually(ended.is_set)
    assert await work.run(lambda: 7, 10**9) == 7  # behind all that waited
    work.close()
    assert done == []


async def test_work_that_takes_too_long_ends() -> None:
    work, ended = BodyWork(threads=1, patience_s=0.01), threading.Event()
    with pytest.raises(Overloaded):
        await work.read(until_stopped(ended))
    await eventually(ended.is_set)
    work.close()


LARGE: dict[str, list[dict[str, Any]]] = {
    "too many messages": [QUESTION] * (MOST_MESSAGES + 1),
    "too long a message": [{"role": "user", "content": "x" * (MOST_CHARACTERS + 1)}, QUESTION],
    "too long a part": [{"role": "user", "content": [{"type": "text", "text": "x" * (MOST_CHARACTERS + 1)}]}, QUESTION],
    "too many bytes": [{"role": "user", "content": [{"type": "image_url", "url": "x" * MOST_BYTES}]}, QUESTION],
}


@pytest.mark.parametrize("name", [*LARGE, "unpacks to a hundred times as much"])
async def test_what_is_too_large_to_be_looked_at_goes_on_untouched(
    relay: Rig, upstream: ScriptedUpstream, name: str
) -> None:
    packed = name not in LARGE
    body = gzip.compress(chat_of([QUESTION]) + b" " * 2_000_000) if packed else chat_of(LARGE[name])
    assert await posted(relay, body, *(["gzip"] if packed else [])) == "skipped; reason=unreadable"
    assert upstream.last.body == body


async def test_a_body_of_megabytes_carries_memory_and_is_read_beside_the_loop(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    def threads() -> set[str]:
        return {one.name for one in threading.enumerate() if one.name.startswith("bodies")}

    before = threads()
    await posted(relay, chat_of([QUESTION]))
    assert threads() == before
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 3_000_000}}
    first, said = {"role": "user", "content": [image, {"type": "text", "text": "y" * 500_000}]}, "z" * 500_000
    body = chat_of([first, {"role": "assistant", "content": said}, QUESTION])
    assert await posted(relay, body) == "injected"
    assert threads() > before
    sent = upstream.last.messages
    assert [message for message in sent if message["role"] != "system"] == json.loads(body)["messages"]
    assert len(sent) == 4


async def test_what_is_asked_of_a_long_message_is_its_beginning_and_its_end(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    text = "What is this? " + "x" * 200_000 + " And what is my budget?"
    await posted(relay, chat_of([{"role": "user", "content": text}]))
    (query,) = relay.engine.asked[-1].queries
    assert len(query) < 10_000
    assert (query[:14], query[-23:]) == (text[:14], text[-23:])


async def test_an_endless_response_id_is_known_again_by_a_digest(
    relay: Rig, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    upstream.default = lambda _received: Answer([b'{"object":"response","status":"completed","output":[]}'])
    sessions = []
    for field in ("previous_response_id", "conversation"):
        for _ in range(2):
            body = {"model": "m", "input": "What is my budget?", field: f"{field} " + "x" * 200_000}
            answer = await relay.client.post("/v1/responses", json=body, headers={"x-memproxy-memory": "read"})
            sessions.append(answer.headers["x-memproxy-session"])
    assert len(set(sessions[:2])) == len(set(sessions[2:])) == 1
    assert sessions[0] != sessions[2]
    assert not [file for file in tmp_path.glob("state.db*") if b"x" * 1_000 in file.read_bytes()]


async def test_an_endless_model_name_goes_upstream_and_is_not_kept(relay: Rig, upstream: ScriptedUpstream) -> None:
    for length in (LONGEST_NAME, LONGEST_NAME + 1):
        assert await posted(relay, chat_of([QUESTION], model="x" * length)) == "injected"
        assert len(upstream.last.json["model"]) == length
    await eventually(lambda: len(relay.engine.captured) == 2)
    assert [one.access and len(one.access.model) for one in relay.engine.captured] == [LONGEST_NAME, 0]


@pytest.mark.parametrize("name", ["x-memproxy-user", "x-memproxy-session", "x-memproxy-project", "x-memproxy-agent"])
async def test_an_endless_name_is_refused(relay: Rig, upstream: ScriptedUpstream, name: str) -> None:
    refused = await relay.chat("What is my budget?", headers={name: "x" * 257})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, name)
    assert upstream.received == []


@pytest.mark.parametrize(
    "fields", [{"user": "x" * 257}, {"safety_identifier": "x" * 257}, {"user": ["ann"]}, {"metadata": {"user_id": 7.5}}]
)
async def test_no_usable_name_in_a_field_of_the_providers_costs_the_memory_alone(
    relay: Rig, upstream: ScriptedUpstream, fields: dict[str, object]
) -> None:
    assert await posted(relay, chat_of([QUESTION], **fields)) == "skipped; reason=unusable_user"


@pytest.mark.parametrize("fields", [{"user": 7}, {"metadata": {"user_id": 7}}])
async def test_a_number_names_a_user_and_not_the_default_one(
    relay: Rig, upstream: ScriptedUpstream, fields: dict[str, object]
) -> None:
    await posted(relay, chat_of([QUESTION], **fields))
    await eventually(lambda: len(relay.engine.captured) == 1)
    assert relay.engine.captured[0].scope.user == "7"


async def test_an_endless_key_names_nobody(relay: Rig, upstream: ScriptedUpstream) -> None:
    key = {"authorization": "Bearer " + "x" * (LONGEST_KEY + 1)}
    answer = await relay.chat("What is my budget?", headers=key)
    assert (answer.status_code, answer.headers["x-memproxy-recall"]) == (200, "skipped; reason=no_identity")
    assert upstream.last.header("authorization") == key["authorization"]
    refused = await relay.client.get("/v1/memory", headers=key)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert relay.engine.api_calls == []
