"""How long anything may take, and how much of it is held: clients that leave, that send slowly, that read slowly."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import Memories, numbered
from tests.relay.rig import Rig, Running, after, connection, running_relay
from tests.support.answers import Answer
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S, eventually

IMPATIENT = {"headers_timeout_s": 0.1, "body_timeout_s": 0.1}
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


async def test_a_client_that_leaves_during_recall_is_never_asked_for_upstream(
    running: Running, upstream: ScriptedUpstream
) -> None:
    async with running() as relay:
        never = asyncio.Event()
        relay.engine.recall = after(never)
        asking = asyncio.get_running_loop().create_task(relay.chat("What is my budget?"))
        async with asyncio.timeout(LONGEST_S):
            await eventually(lambda: relay.engine.asked, what="it is recalled for")
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await relay.app.drain(60)  # returns when the request is over
        never.set()
    assert upstream.received == []


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /v1/chat",
        HEAD,
        HEAD + b"x-long: " + b"x" * 100_000,
        HEAD + b'content-length: 100\r\n\r\n{"mess',
        HEAD + b"content-length: 1000000\r\n\r\n" + b" " * 500_000,
    ],
    ids=["nothing", "half a line", "half the headers", "long headers", "half the body", "half of a long body"],
)
async def test_a_client_that_stops_sending_is_cut_off(
    running: Running, upstream: ScriptedUpstream, sent: bytes
) -> None:
    async with running(server=IMPATIENT) as relay:
        async with connection(relay.port, sent) as (reader, _), asyncio.timeout(LONGEST_S):
            told = await reader.read()
        assert told.startswith(b"HTTP/1.1 408 ") if sent else told == b""
        await eventually(lambda: is_served(relay), what="others are served")
    assert upstream.received == []


async def is_served(relay: Rig) -> bool:
    """Whether a request that is sent at once is answered; on a busy machine it too may not be sent in time."""
    return (await relay.client.get("/healthz")).status_code == 200


async def test_an_upload_that_stops_is_cut_off_and_so_is_its_upstream_call(
    running: Running, upstream: ScriptedUpstream
) -> None:
    sent = b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nbegun"
    relaying = running(server=IMPATIENT)
    async with relaying as relay, connection(relay.port, sent) as (reader, _):
        async with asyncio.timeout(LONGEST_S):
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
    assert upstream.received == []  # it never came whole


async def test_a_client_that_waits_for_its_answer_owes_nothing(running: Running, upstream: ScriptedUpstream) -> None:
    async with running(server={"headers_timeout_s": 0.5, "body_timeout_s": 0.5}) as relay:
        hold = asyncio.Event()
        upstream.script(Answer([b"{}"], wait=hold))
        asking = asyncio.get_running_loop().create_task(relay.client.get("/v1/models"))
        async with connection(relay.port) as (reader, _):  # cut off by a look at all connections, that one too
            async with asyncio.timeout(LONGEST_S):
                assert await reader.read() == b""
        hold.set()
        assert (await asking).status_code == 200


class Parts(Sequence[bytes]):
    """Many equal parts of a body, made as they are sent; ``sent`` is how many were."""

    def __init__(self, part: bytes, count: int) -> None:
        self.sent = 0
        self._part = part
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if index >= self._count:
            raise IndexError
        self.sent = index + 1
        return self._part


PART = b": " + b"x" * 65_532 + b"\n\n"


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_a_client_that_reads_slowly_holds_the_upstream_back(
    running: Running, upstream: ScriptedUpstream, mode: str
) -> None:
    parts = Parts(PART, 500)  # 32 MB
    upstream.script(Answer(parts, headers=[("content-type", "text/event-stream")], framing="chunked"))
    seen: list[int] = []

    def stalled() -> bool:
        seen.append(parts.sent)
        return len(seen) > 10 and seen[-1] == seen[-10] > 0

    body = b'{"messages": [{"role": "user", "content": "Hello!"}]}'
    sent = HEAD + f"x-memproxy-memory: {mode}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    async with running() as relay, connection(relay.port, sent) as (reader, _):
        await eventually(stalled)
        held = parts.sent * len(PART)
        received, end = 0, b""
        async with asyncio.timeout(60):
            while not end.endswith(b"\r\n0\r\n\r\n"):
                chunk = await reader.read(2**20)
                received, end = received + len(chunk), end[-7:] + chunk
    # 4 MB and more of it are the kernel's own buffers on both sides; ours are below 1 MB (docs/lab/speed.md)
    assert held < 24 * 2**20
    assert received > 500 * len(PART)


async def test_a_client_that_leaves_an_endless_answer_unread_ends_it(
    running: Running, upstream: ScriptedUpstream
) -> None:
    upstream.script(Answer(Parts(PART, 10**9), headers=[("content-type", "text/event-stream")], framing="chunked"))
    async with running() as relay:
        sent = b"GET /v1/files/f/content HTTP/1.1\r\nhost: localhost\r\n\r\n"
        async with connection(relay.port, sent) as (reader, _):
            await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(LONGEST_S):
            await upstream.last.left.wait()


async def test_what_belongs_to_the_last_answers_is_kept_and_told_when_the_relay_has_ended(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    questions = [f"What is my budget for trip {number}?" for number in range(6)]
    reading = {"x-memproxy-memory": "read"}
    state = SqliteState(tmp_path / "state.db", sync="normal")
    async with running_relay(upstream.base_url, state, tmp_path) as relay:
        relay.engine.recall = Memories(numbered(2))
        answers = await asyncio.gather(*(relay.chat(question, headers=reading) for question in questions))
        captured = await relay.chat("What is my budget?")
        await relay.app.stop()
        told = list(relay.engine.captured)
    assert [one.scope.session for one in told] == [captured.headers["x-memproxy-session"]]
    state = SqliteState(tmp_path / "state.db", sync="normal")
    async with running_relay(upstream.base_url, state, tmp_path) as relay:
        again = [await relay.chat(question, "And the next?", headers=reading) for question in questions]
    assert [one.headers["x-memproxy-session"] for one in again] == [
        one.headers["x-memproxy-session"] for one in answers
    ], "each conversation goes on as itself"
    assert [one.headers["x-memproxy-memories"] for one in again] == ["2"] * len(questions), "and with its block"
