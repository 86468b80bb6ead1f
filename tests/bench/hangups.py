"""Clients that leave or do not read, and an upstream that notes when it was left and how much it could send."""

import asyncio
import contextlib
import time
from typing import Self

from tests.bench import payloads

PATIENCE_S = 30.0
"""Longest wait for anything here."""

STILL_S = 1.0
"""Nothing sent for so long: the upstream is held back."""

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_EVENT = b"5\r\n: hi\n\r\n"
_PART = b"10000\r\n: " + b"x" * 65_532 + b"\n\n\r\n"
_ENDLESS = b"endless"


class SilentUpstream:
    """Begins an answer and says no more: a stream at once, anything else never; and one that it never ends.

    ``asked`` is set by the next request, ``left`` when its connection is gone; ``sent`` counts the endless one's bytes.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.left_at = 0.0
        self.sent = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None, "within the block"
        return int(self._server.sockets[0].getsockname()[1])

    def expect(self) -> None:
        """The next request is watched."""
        self.asked.clear()
        self.left.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                body = await _request(reader)
                if b"ready?" in body:  # the benchmark asks whether the proxy relays at all
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                    continue
                if b'"stream":true' in body:
                    writer.write(_HEAD + _EVENT)
                self.asked.set()
                if _ENDLESS in body:
                    await self._send(writer)
                await reader.read()
                break
        self.left_at = time.perf_counter()
        self.left.set()
        writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        self.sent = 0
        while True:
            writer.write(_PART)
            await writer.drain()
            self.sent += len(_PART)


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    return await reader.readexactly(int(fields.get(b"content-length", b"0")))


def _chat(port: int, words: str, *, stream: bool) -> bytes:
    prefix, suffix = payloads.chat_template(2_000, stream=stream)
    body = f"{prefix}{words}{suffix}".encode()
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        f"authorization: Bearer {payloads.KEY}",
        "content-type: application/json",
        f"content-length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def hang_up(port: int, upstream: SilentUpstream, *, stream: bool) -> float:
    """Ask through the proxy, leave when the upstream has the request (of a stream: when its first event came), and
    wait until it sees that; the seconds it took.
    """
    upstream.expect()
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_chat(port, payloads.question(1), stream=stream))
        await upstream.asked.wait()
        if stream:
            await reader.readuntil(b": hi\n")
        left = time.perf_counter()
        writer.close()
        await upstream.left.wait()
    return upstream.left_at - left


async def unread(port: int, upstream: SilentUpstream) -> int:
    """Ask for an endless stream through the proxy and read nothing; the bytes taken from the upstream until it was held
    back, those in the kernel's buffers of four sockets included.
    """
    upstream.expect()
    async with asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(_chat(port, "endless", stream=True))
        await upstream.asked.wait()
        before = -1
        while before != upstream.sent:
            before = upstream.sent
            await asyncio.sleep(STILL_S)
        writer.close()
        await upstream.left.wait()
    return before
