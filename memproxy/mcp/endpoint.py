"""``/mcp``: the tools over streamable HTTP, one answer a request and no session kept."""

import asyncio
import logging
from typing import Any

import httpx
from mcp.server import streamable_http
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memproxy.core.protocol import IDENTITY_HEADER
from memproxy.mcp.tools import Answer, make_server, refused
from memproxy.tasks import TaskOwner

_LARGEST = 8 * 1024 * 1024
"""Bytes of one request, as of a JSON call of the memory API."""


def _is_trouble(record: logging.LogRecord) -> bool:
    """Whether what the protocol's library logs is more than that a client has left: the relay waits so long only."""
    return not (record.exc_info and isinstance(record.exc_info[1], ClientDisconnect))


class McpEndpoint:
    """An ASGI application. It calls the memory API within this process, with the identity of its own caller."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api
        self._tasks = TaskOwner("mcp")
        self._ended = asyncio.Event()
        server = make_server(self._call)
        self._app = server.streamable_http_app(
            json_response=True,
            stateless_http=True,
            max_request_body_size=_LARGEST,
            # the relay has looked at Host and Origin; what comes here is named by a Unix socket
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._sessions = server.session_manager
        logging.getLogger(streamable_http.__name__).addFilter(_is_trouble)

    async def start(self) -> None:
        running = asyncio.Event()
        self._tasks.start(self._run(running), "run")
        await running.wait()

    async def _run(self, running: asyncio.Event) -> None:
        async with self._sessions.run():
            running.set()
            await self._ended.wait()

    async def close(self) -> None:
        self._ended.set()
        await self._tasks.drain(grace_s=2.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = int(Headers(scope=scope).get("content-length", 0))
        if length > _LARGEST:  # the library's own answer, which agents do not read, names no limit
            message = f"The request has {length:,} bytes, at most {_LARGEST:,} are read."
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
            await JSONResponse(error, 413)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _call(self, context: Context[Any, Any], method: str, path: str, **arguments: Any) -> Answer:
        headers = {IDENTITY_HEADER: (context.headers or {}).get(IDENTITY_HEADER, "")}
        transport = httpx.ASGITransport(app=self._api)
        async with httpx.AsyncClient(transport=transport, base_url="http://memproxy") as client:
            answer = await client.request(method, path, headers=headers, **arguments)
        if answer.is_error:
            raise refused(str(answer.json()["error"]["message"]))
        return dict(answer.json()) if answer.content else {}
