"""Small calls to the engine on kept connections: HTTP/1.1 over its Unix socket, a whole body each way.

A request waits for its recall, and aiohttp's client takes a good part of that time: tasks, timers, streams and headers
that a call between two processes of ours has no use for. What waits here is a future, and the parser is C.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import httptools

KEPT_S = 15.0
"""A connection that was idle for longer is not used again: the engine closes them after 75 s, maybe at that moment."""

CONNECT_S = 0.2
"""A Unix socket is connected at once, or its queue is full."""


class Response(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes


OnEnd = Callable[[Response | OSError], None]
"""Called exactly once, with the response, whatever its status, or the transport error."""


class EngineConnections:
    """The kept connections. Each call that is under way has one of its own."""

    def __init__(self, socket: Path) -> None:
        self._socket = str(socket)
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._heads: dict[str, bytes] = {}

    async def ask(self, path: str, body: bytes, on_end: OnEnd) -> "Connection":
        """Send ``body`` by `POST`; ``on_end`` is called when the call is over, also if the caller has left by then. The
        connection that is returned can cut the call off.

        Raises:
            OSError: there is no connection; ``on_end`` is not called.
        """
        connection = self._kept() or await self._connected()
        connection.send(b"%s%d\r\n\r\n%s" % (self._head(path), len(body), body), on_end)
        return connection

    async def call(self, path: str, body: bytes, *, within_s: float) -> Response:
        """`ask`, and wait for the answer.

        Raises:
            OSError: there is none; `TimeoutError` if not by then.
        """
        response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        def on_end(result: Response | OSError) -> None:
            if response.done():
                return
            if isinstance(result, OSError):
                response.set_exception(result)
            else:
                response.set_result(result)

        async with asyncio.timeout(within_s):
            connection = await self.ask(path, body, on_end)
            try:
                return await response
            except asyncio.CancelledError:
                connection.cut_off(TimeoutError())
                raise

    def close(self) -> None:
        """Close all connections. Calls that are under way end untold."""
        for connection in list(self._all):
            connection.close()

    def keep(self, connection: "Connection") -> None:
        """It can be used again."""
        connection.idle_since = time.monotonic()
        self._idle.append(connection)

    def drop(self, connection: "Connection") -> None:
        """It is closed."""
        self._all.discard(connection)
        with contextlib.suppress(ValueError):
            self._idle.remove(connection)

    def _kept(self) -> "Connection | None":
        """The one that was used last: the others come to be too old, and the engine closes them."""
        if not self._idle:
            return None
        connection = self._idle.pop()
        if time.monotonic() - connection.idle_since <= KEPT_S:
            return connection
        connection.cut_off(TimeoutError())
        return None

    async def _connected(self) -> "Connection":
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_S):
            _, connection = await loop.create_unix_connection(lambda: Connection(self), self._socket)
        self._all.add(connection)
        return connection

    def _head(self, path: str) -> bytes:
        """A request's beginning, up to the number of its body's bytes."""
        if path not in self._heads:
            lines = f"POST {path} HTTP/1.1\r\nhost: engine\r\ncontent-type: application/json\r\ncontent-length: "
            self._heads[path] = lines.encode("ascii")
        return self._heads[path]


class Connection(asyncio.Protocol):
    """One connection, and the call that is under way on it."""

    def __init__(self, pool: EngineConnections) -> None:
        self.idle_since = 0.0
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._on_end: OnEnd | None = None
        self._parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes, on_end: OnEnd) -> None:
        """Begin a call."""
        self._on_end = on_end
        self._parts.clear()
        if self._transport is not None:
            self._transport.write(request)

    def cut_off(self, error: OSError) -> None:
        """Close it; a call that is under way ends with this error."""
        self._close()
        self._end(error)

    def close(self) -> None:
        """Close it; the call's end is not reported."""
        self._on_end = None
        self._close()

    def _close(self) -> None:
        self._pool.drop(self)
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.drop(self)
        self._end(exc if isinstance(exc, OSError) else ConnectionResetError("the engine closed the connection"))

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.cut_off(ConnectionAbortedError(f"the engine's answer is no HTTP: {error}"))

    def on_body(self, body: bytes) -> None:
        """Called by the parser with every part of the body."""
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the answer's end."""
        response = Response(self._parser.get_status_code(), b"".join(self._parts))
        if self._on_end is None or not self._parser.should_keep_alive():
            self._close()
        else:
            self._pool.keep(self)
        self._end(response)

    def _end(self, result: Response | OSError) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(result)
