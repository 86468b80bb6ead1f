"""Connections to the upstream that fail in ways of their own: closed while idle, never read from."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from memproxy.stores.sqlite_state import SqliteState
from tests.relay.rig import Rig, running_relay

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n%b\r\n{}"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def relay_to(handler: Handler, state: SqliteState, tmp_path: Path) -> AsyncIterator[Rig]:
    """A relay whose upstream is this; its connections have small buffers."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await handler(reader, writer)
        writer.transport.abort()

    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    async with await asyncio.start_server(served, sock=listening) as server:
        upstream = {"base_url": f"http://127.0.0.1:{listening.getsockname()[1]}/v1", "timeout_s": 0.5}
        async with running_relay("http://placeholder/v1", state, tmp_path, upstream=upstream) as rig:
            yield rig
        server.close()


async def _request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length or 0))


class Forgetful:
    """Answers the first ``answers`` requests of a connection, then closes it at the next, as if it had been idle."""

    def __init__(self, answers: int) -> None:
        self.connections = 0
        self._answers = answers

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for _ in range(self._answers):
            await _request(reader)
            writer.write(OK % b"")
        await _request(reader)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/v1/chat/completions", b'{"messages":[{"role":"user","content":"Hello"}]}'),
        ("/v1/chat/completions", b'{"messages":[],"more":"%b"}' % (b"x" * 300_000)),
        ("/v1/embeddings", b'{"input":"Hello"}'),
    ],
)
async def test_a_kept_connection_that_was_closed_costs_no_request(
    state: SqliteState, tmp_path: Path, path: str, content: bytes
) -> None:
    upstream = Forgetful(answers=1)
    async with relay_to(upstream, state, tmp_path) as relay:
        statuses = [(await relay.post(content, path=path)).status_code for _ in range(4)]
    assert statuses == [200] * 4
    assert upstream.connections == 4


async def test_a_request_that_a_new_connection_took_is_never_sent_twice(state: SqliteState, tmp_path: Path) -> None:
    upstream = Forgetful(answers=0)
    async with relay_to(upstream, state, tmp_path) as relay:
        assert (await relay.post(b"{}", path="/v1/embeddings")).status_code == 502
    assert upstream.connections == 1


@pytest.mark.parametrize("path", ["/v1/files", "/v1/chat/completions"])
async def test_an_upstream_that_takes_nothing_of_a_body_is_a_504(state: SqliteState, tmp_path: Path, path: str) -> None:
    answered = asyncio.Event()

    async def deaf(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await answered.wait()

    async with relay_to(deaf, state, tmp_path) as relay:
        answer = await relay.post(b" " * 20_000_000, path=path)
        answered.set()
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "upstream_timeout"


async def test_an_answer_may_have_hundreds_of_headers(state: SqliteState, tmp_path: Path) -> None:
    async def wordy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(OK % b"".join(b"x-%d: %d\r\n" % (number, number) for number in range(500)))
        await reader.read()

    async with relay_to(wordy, state, tmp_path) as relay:
        answer = await relay.client.get("/v1/models")
    assert answer.headers["x-499"] == "499"
