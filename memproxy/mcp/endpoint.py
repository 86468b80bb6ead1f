"""``/mcp``: the tools over streamable HTTP, one answer a request and no session kept."""

import asyncio
from typing import Any

import httpx
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from memproxy.core.protocol import IDENTITY_HEADER
from memproxy.mcp.tools import make_server, refused
from memproxy.tasks import TaskOwner

_LARGEST = 8 * 1024 * 1024
"""Bytes of one request, as of a JSON call of the memory API."""


class McpEndpoint:
    """An ASGI application. Its calls of the memory API are made within this process, as whoever asked."""

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

    async def start(self) -> None:
        """Begin to take requests."""
        running = asyncio.Event()
        self._tasks.start(self._run(running), "run")
        await running.wait()

    async def _run(self, running: asyncio.Event) -> None:
        async with self._sessions.run():
            running.set()
            await self._ended.wait()

    async def close(self) -> None:
        """Take no more."""
        self._ended.set()
        await self._tasks.drain(grace_s=2.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def _call(
        self,
        context: Context[Any, Any],
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        json: Any = None,
    ) -> dict[str, Any]:
        headers = {IDENTITY_HEADER: (context.headers or {}).get(IDENTITY_HEADER, "")}
        transport = httpx.ASGITransport(app=self._api)
        async with httpx.AsyncClient(transport=transport, base_url="http://memproxy") as client:
            answer = await client.request(method, path, params=params, json=json, headers=headers)
        if answer.is_error:
            raise refused(str(answer.json()["error"]["message"]))
        read: dict[str, Any] = answer.json() if answer.content else {}
        return read
