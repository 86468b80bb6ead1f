"""A relay on a real port, with a scripted engine behind a real Unix socket and the real SQLite state."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
from aiohttp import web

from memproxy.core.protocol import (
    CAPTURED_PATH,
    FULL_PATH,
    READY_PATH,
    RECALL_PATH,
    Captured,
    RecallAnswer,
    RecallRequest,
    TurnsBody,
)
from memproxy.ports import JournalRow, StateStore
from memproxy.relay.routing import Relay
from memproxy.serve.server import Patience, Server, server_config
from memproxy.serve.supervisor import bind
from memproxy.settings import Settings
from memproxy.wiring.relay_parts import make_relay
from tests.relay.memories import PATIENT
from tests.support.http_client import plain_client
from tests.support.waiting import LONGEST_S

Recall = Callable[[RecallRequest], Awaitable[RecallAnswer]]
Running = Callable[..., AbstractAsyncContextManager["Rig"]]
"""A relay before the test's own upstream and state, with these sections of settings (`running_relay`)."""


async def nothing(_request: RecallRequest) -> RecallAnswer:
    """A recall that finds nothing."""
    return RecallAnswer(result="empty")


def after(event: asyncio.Event) -> Recall:
    """A recall that finds nothing once this has happened."""

    async def recall(request: RecallRequest) -> RecallAnswer:
        await event.wait()
        return await nothing(request)

    return recall


class ScriptedEngine:
    """Answers the relay's calls by script and records them. While not ``idle`` it does not say how its ``parts`` are;
    one that ``breaks`` ends in the middle of an API call.
    """

    def __init__(self) -> None:
        self.recall: Recall = nothing
        self.asked: list[RecallRequest] = []
        self.captured: list[Captured] = []
        self.full: str | None = None
        self.api_calls: list[tuple[str, str, dict[str, str], bytes]] = []
        self.idle = asyncio.Event()
        self.idle.set()
        self.probes = 0
        self.parts = {"store": "ready"}
        self.breaks = False

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post(RECALL_PATH, self._recall)
        app.router.add_post(CAPTURED_PATH, self._captured)
        app.router.add_post(FULL_PATH, self._full)
        app.router.add_get(READY_PATH, self._ready)
        app.router.add_route("*", "/{path:.*}", self._api)
        return app

    async def _recall(self, request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read(), type=RecallRequest)
        self.asked.append(asked)
        return web.Response(body=msgspec.json.encode(await self.recall(asked)))

    async def _captured(self, request: web.Request) -> web.Response:
        self.captured.append(msgspec.json.decode(await request.read(), type=Captured))
        return web.Response(status=204)

    async def _full(self, _request: web.Request) -> web.Response:
        return web.json_response({"whose": self.full})

    async def _ready(self, _request: web.Request) -> web.Response:
        self.probes += 1
        await self.idle.wait()
        return web.json_response(self.parts)

    async def _api(self, request: web.Request) -> web.Response:
        self.api_calls.append((request.method, request.path_qs, dict(request.headers), await request.read()))
        if self.breaks and request.transport is not None:
            request.transport.close()
        return web.json_response({"data": []})


class Rig:
    """A running relay and what stands around it."""

    def __init__(self, base_url: str, engine: ScriptedEngine, client: httpx.AsyncClient, app: Relay) -> None:
        self.base_url = base_url
        self.engine = engine
        self.client = client
        self.app = app

    @property
    def port(self) -> int:
        return int(self.base_url.rsplit(":", 1)[1])

    async def post(self, body: bytes, *, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
        """A request of JSON with just these bytes; an underscore in a header's name stands for a hyphen."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(path, content=body, headers={"content-type": "application/json", **sent})

    async def chat(self, *texts: str, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        """One chat request whose user messages are ``texts``, each but the last answered."""
        messages: list[dict[str, Any]] = []
        for text in texts:
            messages += [{"role": "user", "content": text}, {"role": "assistant", "content": f"You said: {text}"}]
        body = {"model": "test-model", "messages": messages[:-1], **fields}
        return await self.client.post("/v1/chat/completions", json=body, headers=headers)


@asynccontextmanager
async def connection(port: int, sent: bytes = b"") -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to this port on which this was sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        await writer.drain()
        yield reader, writer
    finally:
        writer.close()


async def journalled(state: StateStore) -> list[tuple[JournalRow, TurnsBody]]:
    """What was captured since it was asked last, in order."""
    found = []
    while rows := await state.claim("index", limit=200, now=datetime.now(UTC)):
        for row in rows:
            found.append((row, msgspec.json.decode(row.entry.body, type=TurnsBody)))
            await state.finish(row.number)
    return found


@asynccontextmanager
async def unix_server(app: web.Application, path: Path) -> AsyncIterator[None]:
    """An aiohttp application on a Unix socket."""
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(path)).start()
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running_relay(
    upstream_url: str, journal: StateStore, folder: Path, *, engine_runs: bool = True, **sections: dict[str, Any]
) -> AsyncIterator[Rig]:
    """The relay, serving until the block ends. ``sections`` are settings; recall has time to spare unless they say."""
    patient = {**PATIENT, **sections.pop("recall", {})}
    settings = Settings.model_validate({"upstream": {"base_url": upstream_url}, "recall": patient, **sections})
    engine = ScriptedEngine()
    async with contextlib.AsyncExitStack() as held:
        if engine_runs:
            await held.enter_async_context(unix_server(engine.app(), folder / "engine.sock"))
        relay = make_relay(settings, journal, b"secret", [folder / "engine.sock"])
        await relay.start()
        held.push_async_callback(relay.stop)
        patience = Patience(settings.server.headers_timeout_s, settings.server.body_timeout_s)
        base_url = await held.enter_async_context(_served(relay, patience))
        client = await held.enter_async_context(plain_client(base_url=base_url, timeout=LONGEST_S))
        yield Rig(base_url, engine, client, relay)


@asynccontextmanager
async def _served(app: Relay, patience: Patience) -> AsyncIterator[str]:
    listening = bind("127.0.0.1", 0)
    server = Server(server_config(app), patience)
    serving = asyncio.get_running_loop().create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.leave()
        server.force_exit = True
        await serving
