"""A programmable OpenAI-compatible upstream on a real socket that records requests byte for byte.

It speaks HTTP/1.1 by hand, because tests say exactly which bytes leave when, and how a connection breaks.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.client import responses
from typing import Any

from tests.support.answers import Answer, Answerer, Received, completion, echo, text_of

EXTRACT_MARK = "You extract long-term memories"
"""How the built-in extraction prompt begins (`learn.extract`); spelled out, so that tests of other rooms stay light."""

Extractor = Callable[[Received], dict[str, Any]]


class _WatchedReader(asyncio.StreamReader):
    """A reader that tells at once when the other side is gone, also while nobody reads."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.ended.set()


def no_facts(_received: Received) -> dict[str, Any]:
    return {"candidates": []}


class ScriptedUpstream:
    """Answers requests by script.

    ``script`` queues answers (or functions of the request) for the next conversation requests; when none is queued,
    ``default`` answers (it echoes). Extraction requests never take from the queue: ``extractor`` answers them.
    """

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.extractions: list[Received] = []
        self.default: Answerer = echo
        self.extractor: Extractor = no_facts
        self.connections = 0
        self._scripts: deque[Answer | Answerer] = deque()
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    def script(self, *answers: Answer | Answerer) -> None:
        """Queue how the next requests are answered."""
        self._scripts.extend(answers)

    def reset(self) -> None:
        """Forget what was recorded and queued."""
        self.received.clear()
        self.extractions.clear()
        self._scripts.clear()
        self.default, self.extractor = echo, no_facts

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def base_url(self) -> str:
        """The base URL, ending in ``/v1``."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def last(self) -> Received:
        """The newest conversation (or other) request."""
        return self.received[-1]

    async def start(self, port: int = 0) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", port)

    async def stop(self) -> None:
        """Stop listening and break what is open."""
        if self._server is None:
            return
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for handler in list(self._handlers):
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = _WatchedReader(limit=256 * 1024 * 1024)

        def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)

        return asyncio.StreamReaderProtocol(reader, connected)

    async def _serve(self, reader: _WatchedReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while (received := await _read_request(reader)) is not None:
                if not await self._answer(received, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left: tests that care look at `Received.left`
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, received: Received, reader: _WatchedReader, writer: asyncio.StreamWriter) -> bool:
        answer = self._choose(received)
        watch = asyncio.get_running_loop().create_task(_watch(reader, received))
        try:
            return await _send(answer, received, writer)
        except ConnectionError:
            received.left.set()  # a failed write may tell of it before the reader does
            raise
        finally:
            watch.cancel()

    def _choose(self, received: Received) -> Answer:
        if any(text_of(message).lstrip().startswith(EXTRACT_MARK) for message in received.messages):
            self.extractions.append(received)
            return completion(json.dumps(self.extractor(received)))
        self.received.append(received)
        script = self._scripts.popleft() if self._scripts else self.default
        return script if isinstance(script, Answer) else script(received)


@asynccontextmanager
async def scripted_upstream(port: int = 0) -> AsyncIterator[ScriptedUpstream]:
    """A listening upstream for the length of a block."""
    upstream = ScriptedUpstream()
    await upstream.start(port)
    try:
        yield upstream
    finally:
        await upstream.stop()


async def _watch(reader: _WatchedReader, received: Received) -> None:
    await reader.ended.wait()
    received.left.set()


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    line = await reader.readline()
    if not line:
        return None
    method, target, _version = line.decode("latin-1").split()
    headers = []
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name, value.strip()))
    received = Received(method, target, headers, b"")
    return Received(method, target, headers, await _read_body(received, reader))


async def _read_body(head: Received, reader: asyncio.StreamReader) -> bytes:
    if (head.header("transfer-encoding") or "").lower() == "chunked":
        return await _read_chunks(reader)
    return await reader.readexactly(int(head.header("content-length") or 0))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    pieces = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        pieces.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(pieces)


async def _send(answer: Answer, received: Received, writer: asyncio.StreamWriter) -> bool:
    """Send it; True when the connection can carry another request."""
    if answer.wait is not None:
        await _or_left(answer.wait, received)
    writer.write(_head(answer))
    await writer.drain()
    for part in answer.parts if received.method != "HEAD" else ():
        if isinstance(part, asyncio.Event):
            await _or_left(part, received)
        else:
            writer.write(_framed(part, answer))
            await writer.drain()
    if answer.cut:
        writer.transport.abort()
        return False
    if answer.framing == "chunked" and received.method != "HEAD":
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return answer.framing != "close" and not answer.hang_up


def _head(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {_phrase(answer.status)}"]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    if answer.framing == "chunked":
        lines.append("transfer-encoding: chunked")
    elif answer.framing == "close":
        lines.append("connection: close")
    elif not any(name.lower() == "content-length" for name, _ in answer.headers) and answer.status not in {204, 304}:
        size = sum(len(part) for part in answer.parts if isinstance(part, bytes))
        lines.append(f"content-length: {size}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _phrase(status: int) -> str:
    return responses.get(status, "")


def _framed(part: bytes, answer: Answer) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part) if answer.framing == "chunked" else part


async def _or_left(event: asyncio.Event, received: Received) -> None:
    """Wait for the test's event; a client that left ends the answer."""
    loop = asyncio.get_running_loop()
    waits = [loop.create_task(event.wait()), loop.create_task(received.left.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if not event.is_set():
        raise ConnectionResetError("the client left")
