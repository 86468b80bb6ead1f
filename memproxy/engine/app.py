"""Process two's routes: the relay's own, hot one first, and the memory API."""

import asyncio
import contextlib
import importlib
import importlib.util
import logging
from collections.abc import AsyncIterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from memproxy.api.http import answer, caller, error_answer, method_refused
from memproxy.api.routes import api_routes, guarded
from memproxy.auth import decode_identity
from memproxy.core.protocol import (
    BACKUP_PATH,
    CAPTURED_PATH,
    DECIDED_PATH,
    FULL_PATH,
    IDENTITY_HEADER,
    OWNERS_PATH,
    PRUNE_PATH,
    READY_PATH,
    RECALL_PATH,
    REINDEX_PATH,
    REPLAY_PATH,
    BackupAsked,
    Captured,
    Full,
    RecallRequest,
    ReindexAsked,
    ReplayAsked,
)
from memproxy.core.receipt import ReceiptPart
from memproxy.core.scope import Scope
from memproxy.engine.engine import Engine
from memproxy.errors import EngineUnavailable, MemproxyError, NotBuilt, NotFound, RequestError
from memproxy.metrics import metrics

if TYPE_CHECKING:
    from memproxy.mcp.endpoint import McpEndpoint

log = logging.getLogger(__name__)

Message = TypeVar("Message")

_ENDING = EngineUnavailable("The memory engine is ending; what it took in is kept. Try again in a moment.")


class HotCalls:
    """The two calls that come with every chat request, as plain ASGI: a request waits for the first one, and objects
    for a request and its answer take a tenth of it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._questions = msgspec.json.Decoder(RecallRequest)
        self._captures = msgspec.json.Decoder(Captured)
        self._encode = msgspec.json.Encoder().encode

    async def recall(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """`POST` of a `RecallRequest`; answers a `RecallAnswer`, degraded when memory is not there."""
        try:
            body = self._encode(await self._engine.recall(_decoded(await _body(receive), self._questions)))
        except MemproxyError as error:
            await error_answer(error)(scope, receive, send)
        except Exception:
            # The last line of defence: a fault of ours is logged and counted, and the relay goes on without memory.
            metrics().internal_errors.labels(where="engine.api").inc()
            log.exception("a recall failed")
            await error_answer(MemproxyError("memproxy failed on this recall; its log says why."))(scope, receive, send)
        else:
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async def captured(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """`POST` of a `Captured`: the journal has a new row."""
        try:
            self._engine.captured(_decoded(await _body(receive), self._captures))
        except MemproxyError as error:
            await error_answer(error)(scope, receive, send)
        else:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})


class EngineApp:
    """The engine's ASGI application: the relay's `HotCalls` are called at once, everything else goes through the
    router.
    """

    def __init__(self, calls: Mapping[str, ASGIApp], others: Starlette) -> None:
        self._calls = calls
        self._others = others

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        call = self._calls.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        begun = False

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await (call or self._others)(scope, receive, noted)
        except asyncio.CancelledError:
            # Only the server's end cancels a call, whose task has nothing left to do but to say so: uvicorn would log
            # the traceback and answer in words of its own. What has begun is left unfinished: uvicorn cuts it off.
            if scope["type"] != "http":
                raise
            log.warning("a call was cut off at the engine's end (%s)", scope.get("path", ""))
            if not begun:
                await error_answer(_ENDING)(scope, receive, send)


class Internal:
    """What the relay and the command line ask besides recall."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._decisions = msgspec.json.Decoder(list[ReceiptPart])
        self._backups = msgspec.json.Decoder(BackupAsked)
        self._reindexes = msgspec.json.Decoder(ReindexAsked)
        self._scopes = msgspec.json.Decoder(Scope)
        self._replays = msgspec.json.Decoder(ReplayAsked)

    async def decided(self, request: Request) -> Response:
        """`POST` of `ReceiptPart`s: what the relay did with requests that the engine was not asked for."""
        parts = await _read(request, self._decisions)
        self._engine.decided(parts)
        return Response(status_code=204)

    async def full(self, request: Request) -> Response:
        """`POST` of a `Scope`; answers a `Full`."""
        return answer(Full(whose=await self._engine.full(await _read(request, self._scopes))))

    async def replay(self, request: Request) -> Response:
        """`POST` of a `ReplayAsked`; answers a `ReplayTold`."""
        return answer(await self._engine.replay(await _read(request, self._replays)))

    async def reindex(self, request: Request) -> Response:
        """`POST` of a `ReindexAsked`, by the command line: begin one, or join the one that runs. Answers a
        `ReindexTold`, as `GET` does.
        """
        if request.method == "GET":
            return answer(self._engine.reindex_progress())
        return answer(await self._engine.reindex(await _read(request, self._reindexes)))

    async def backup(self, request: Request) -> Response:
        """`POST` of a `BackupAsked`, by the command line: begin one. Answers a `BackupTold`, as `GET` does."""
        if request.method == "GET":
            return answer(self._engine.backup_progress())
        asked = await _read(request, self._backups)
        return answer(self._engine.back_up(Path(asked.folder), state=asked.state))

    async def prune(self, request: Request) -> Response:
        """`POST` by the command line: prune everybody, or its tenant's users, or tell what would go."""
        query = request.query_params
        everybody = query.get("everybody") == "true"
        tenant = None if everybody else decode_identity(request.headers.get(IDENTITY_HEADER)).tenant
        return answer(await self._engine.prune(dry_run=query.get("dry_run") == "true", tenant=tenant))

    async def owners(self, request: Request) -> Response:
        """`GET` by the command line: everybody who has memories, or its tenant's users, as pairs."""
        everybody = request.query_params.get("everybody") == "true"
        tenant = None if everybody else decode_identity(request.headers.get(IDENTITY_HEADER)).tenant
        found = await self._engine.everybody()
        return answer({"data": [one.owner for one in found if tenant in {None, one.tenant}]})

    async def ready(self, _request: Request) -> Response:
        """`GET`: the state of each part."""
        return answer(self._engine.readiness())


async def _read(request: Request, decoder: msgspec.json.Decoder[Message]) -> Message:
    return _decoded(await request.body(), decoder)


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
    raise RequestError("The relay's question was cut off.")


def _decoded(body: bytes, decoder: msgspec.json.Decoder[Message]) -> Message:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise RequestError(f"The relay sent something that the engine cannot read: {error}.") from error


class Mcp:
    """``/mcp``, for whoever may use the memory API. The protocol's library is loaded when the first one asks: it takes
    a second, which no start needs.
    """

    def __init__(self, api: ASGIApp) -> None:
        self._api = api
        self._lock = asyncio.Lock()
        self._endpoint: McpEndpoint | None = None

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # no session is kept that one could listen to or end
            await method_refused(scope["method"], ["POST"])(scope, receive, send)
            return
        try:
            caller(Request(scope, receive), "memory:read", "memory:write")
            endpoint = await self._opened()
        except MemproxyError as error:
            await error_answer(error)(scope, receive, send)
            return
        await endpoint(scope, receive, send)

    async def _opened(self) -> "McpEndpoint":
        async with self._lock:
            if self._endpoint is None:
                if importlib.util.find_spec("mcp") is None:
                    raise NotBuilt(
                        'The library of the protocol is not installed; run: pip install "PATH[mcp]" (PATH: the '
                        "wheel or folder that memproxy came from), and start again."
                    )
                module = await asyncio.to_thread(importlib.import_module, "memproxy.mcp.endpoint")
                endpoint: McpEndpoint = module.McpEndpoint(self._api)
                await endpoint.start()
                self._endpoint = endpoint
            return self._endpoint

    async def close(self) -> None:
        """Take no more requests."""
        if self._endpoint is not None:
            await self._endpoint.close()


def build_app(engine: Engine) -> EngineApp:
    """The engine's ASGI application; its lifespan starts and closes the engine."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await engine.start()
        try:
            yield
        finally:
            await mcp.close()
            await engine.close(engine.parts.settings.server.shutdown_grace_s)

    hot, internal = HotCalls(engine), Internal(engine)
    api = api_routes(engine.backends())
    mcp = Mcp(Router(api))
    calls: dict[str, ASGIApp] = {RECALL_PATH: hot.recall, CAPTURED_PATH: hot.captured}
    routes = [
        Route(DECIDED_PATH, guarded(internal.decided), methods=["POST"]),
        Route(FULL_PATH, guarded(internal.full), methods=["POST"]),
        Route(REPLAY_PATH, guarded(internal.replay), methods=["POST"]),
        Route(PRUNE_PATH, guarded(internal.prune), methods=["POST"]),
        Route(OWNERS_PATH, guarded(internal.owners), methods=["GET"]),
        Route(REINDEX_PATH, guarded(internal.reindex), methods=["GET", "POST"]),
        Route(BACKUP_PATH, guarded(internal.backup), methods=["GET", "POST"]),
        Route(READY_PATH, guarded(internal.ready), methods=["GET"]),
        Route("/mcp", mcp),
        *api,
    ]
    return EngineApp(calls, Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refused}))


async def _refused(request: Request, error: Exception) -> Response:
    """The router's own refusals, OpenAI-shaped."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        return method_refused(request.method)
    return error_answer(NotFound(f"Nothing is served at {request.url.path[:200]}; /openapi.json lists the calls."))
