"""The scripted upstream: a process of its own, as fast as Python gets, so that it is not what is measured.

Every POST is a chat request. One whose body says ``"stream":true`` gets `STREAM_CHUNKS` events `STREAM_GAP_S` apart,
the first at once; any other gets the same JSON.
"""

import asyncio
import gc
import socket
import sys
from typing import cast

import httptools
import uvloop

from tests.bench.payloads import json_answer, stream_events

STREAM_CHUNKS = 50
STREAM_GAP_S = 0.005

BACKLOG = 2_048
"""Connections that may wait to be accepted. To what is over it the kernel does not answer: who connects, or has sent a
request already, waits for seconds (the event loops' own 100 are fewer than a run opens at once).
"""

_STREAM_MARK = b'"stream":true'


def _json_response() -> bytes:
    body = json_answer()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _stream_response() -> list[bytes]:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    chunks = [b"%x\r\n%s\r\n" % (len(event), event) for event in stream_events(STREAM_CHUNKS)]
    return [head + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"]


class Script:
    def __init__(self) -> None:
        self.json = _json_response()
        self.stream = _stream_response()


class Connection(asyncio.Protocol):
    def __init__(self, script: Script) -> None:
        self._script = script
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._start = b""
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self._start = b""

    def on_body(self, body: bytes) -> None:
        """Called by the parser; the first part of a body tells what is asked for."""
        if not self._start:
            self._start = body

    def on_message_complete(self) -> None:
        """Called by the parser: answer."""
        if self._transport is None:
            return
        if _STREAM_MARK in self._start[:200]:
            self._began = self._loop.time()
            self._chunk(0)
        else:
            self._transport.write(self._script.json)

    def _chunk(self, number: int) -> None:
        if self._transport is None:
            return
        self._transport.write(self._script.stream[number])
        if number + 1 < STREAM_CHUNKS:
            # At fixed times after the start, so that a late chunk does not make the whole stream longer.
            when = self._began + (number + 1) * STREAM_GAP_S
            self._timer = self._loop.call_at(when, self._chunk, number + 1)


async def serve() -> None:
    """Serve on a free port, printed first, until standard input ends."""
    script = Script()
    listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(script), sock=listening, backlog=BACKLOG)
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        # In a thread: it ends with the process that started this one, however that ended.
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    gc.freeze()
    uvloop.run(serve())
