"""The bare relay: plain ASGI on uvicorn, uvloop and httptools, aiohttp to the upstream, and nothing else.

What this stack costs before it does anything: the speed of light that memproxy's own share is compared with.
"""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import aiohttp
import uvicorn
import uvloop
from multidict import CIMultiDict
from yarl import URL

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_NOT_PASSED_ON = frozenset({b"host", b"content-length", b"connection", b"keep-alive", b"transfer-encoding"})


class BareRelay:
    """The ASGI callable."""

    def __init__(self, session: aiohttp.ClientSession, upstream: str) -> None:
        self._session = session
        self._upstream = upstream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        url = URL(self._upstream + scope["raw_path"].decode(), encoded=True)
        headers: CIMultiDict[str] = CIMultiDict(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in scope["headers"]
            if name not in _NOT_PASSED_ON
        )
        async with self._session.request(scope["method"], url, headers=headers, data=body) as response:
            passed = [
                pair for pair in response.raw_headers if pair[0].lower() not in _NOT_PASSED_ON - {b"content-length"}
            ]
            await send({"type": "http.response.start", "status": response.status, "headers": passed})
            while chunk := await response.content.readany():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def serve(upstream: str) -> None:
    """Serve on a free port, printed first, until standard input ends."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    ) as session:
        config = uvicorn.Config(
            BareRelay(session, upstream),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
        )
        server = uvicorn.Server(config)
        listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve(sockets=[listening]))
            # In a thread: it ends with the process that started this one, however that ended.
            await asyncio.to_thread(sys.stdin.buffer.read)
            server.should_exit = True


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
