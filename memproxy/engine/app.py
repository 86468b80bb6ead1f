"""Process two's routes: the relay's own, hot one first, and the memory API."""

import asyncio
import contextlib
import importlib
import importlib.util
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
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
from memproxy.api.routes import Endpoint, api_routes, guarded
from memproxy.auth.identity import decode_identity
from memproxy.core import protocol
from memproxy.core.protocol import IDENTITY_HEADER, Captured, Full, RecallRequest, ReplayAsked
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


def _hot(kind: type[Message], call: Callable[[Message], Awaitable[bytes]], label: str) -> ASGIApp:
    """A call that comes with every chat request, as plain ASGI: a request may wait for it, and objects for a request
    and its answer take a tenth of it. ``label`` names it in the log.
    """
    decoder = msgspec.json.Decoder(kind)

    async def answered(scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            body = await call(_decode(await _body(receive), decoder))
        except MemproxyError as error:
            await error_answer(error)(scope, receive, send)
        except Exception:
            # The last line of defence: a fault of ours is logged and counted, and the relay goes on without memory.
            metrics().internal_errors.labels(where="engine.api").inc()
            log.exception("a %s failed", label)
            fault = MemproxyError(f"memproxy failed on this {label}; its log says why.")
            await error_answer(fault)(scope, receive, send)
        else:
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))] if body else []
            await send({"type": "http.response.start", "status": 200 if body else 204, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    return answered


class EngineApp:
    """The engine's ASGI application: the relay's hot calls are made at once, others go through the router."""

    def __init__(self, calls: Mapping[str, ASGIApp], other_calls: Starlette) -> None:
        self._calls = calls
        self._other_calls = other_calls

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        call = self._calls.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        begun = False

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await (call or self._other_calls)(scope, receive, noted)
        except asyncio.CancelledError:
            # Only the server's end cancels a call, whose task has nothing left to do but to say so: uvicorn would log
            # the traceback and answer in words of its own. What has begun is left unfinished: uvicorn cuts it off.
            if scope["type"] != "http":
                raise
            log.warning("a call was cut off at the engine's end (%s)", scope.get("path", ""))
            if not begun:
                await error_answer(_ENDING)(scope, receive, send)


def _post_endpoint(kind: type[Message], call: Callable[[Message], Awaitable[object]], status: int = 200) -> Endpoint:
    """An endpoint that reads a `POST` as this message and answers what ``call`` returns."""
    decoder = msgspec.json.Decoder(kind)

    async def answered(request: Request) -> Response:
        return answer(await call(_decode(await request.body(), decoder)), status)

    answered.__name__ = call.__name__  # for the log
    return answered


def _get_endpoint(name: str, read: Callable[[], object]) -> Endpoint:
    """An endpoint that answers a `GET` with what ``read`` returns."""

    async def read_endpoint(_request: Request) -> Response:
        return answer(read())

    read_endpoint.__name__ = name
    return read_endpoint


def _tenant(request: Request) -> str | None:
    """The tenant whose users the command line means; None: all users."""
    everybody = request.query_params.get("everybody") == "true"
    return None if everybody else decode_identity(request.headers.get(IDENTITY_HEADER)).tenant


def _internal(engine: Engine) -> list[Route]:
    """Calls of the relay and the command line besides recall."""

    async def decided(parts: list[ReceiptPart]) -> None:
        engine.receipts.note_parts(parts)

    async def full(scope: Scope) -> Full:
        return Full(whose=await engine.full(scope))

    async def backup(request: protocol.BackupAsked) -> protocol.BackupTold:
        return engine.back_up(Path(request.folder), state=request.state)

    async def prune(request: Request) -> Response:
        """By the command line: prune everybody, or its tenant's users, or tell what would go."""
        dry_run = request.query_params.get("dry_run") == "true"
        return answer(await engine.prune(dry_run=dry_run, tenant=_tenant(request)))

    async def owners(request: Request) -> Response:
        """By the command line: everybody who has memories, or its tenant's users, as pairs."""
        tenant = _tenant(request)
        return answer({"data": [scope.owner for scope in await engine.everybody() if tenant in {None, scope.tenant}]})

    endpoints = [
        ("POST", protocol.DECIDED_PATH, _post_endpoint(list[ReceiptPart], decided, 204)),
        ("POST", protocol.FULL_PATH, _post_endpoint(Scope, full)),
        ("POST", protocol.REPLAY_PATH, _post_endpoint(ReplayAsked, engine.replay)),
        ("POST", protocol.PRUNE_PATH, prune),
        ("GET", protocol.OWNERS_PATH, owners),
        ("POST", protocol.REINDEX_PATH, _post_endpoint(protocol.ReindexAsked, engine.reindex)),
        ("GET", protocol.REINDEX_PATH, _get_endpoint("reindex", lambda: engine.reindexing.progress)),
        ("POST", protocol.BACKUP_PATH, _post_endpoint(protocol.BackupAsked, backup)),
        ("GET", protocol.BACKUP_PATH, _get_endpoint("backup", lambda: engine.backing_up.progress)),
        ("GET", protocol.READY_PATH, _get_endpoint("ready", engine.readiness)),
    ]
    return [Route(path, guarded(endpoint), methods=[method]) for method, path, endpoint in endpoints]


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
    raise RequestError("The relay's question was cut off.")


def _decode(body: bytes, decoder: msgspec.json.Decoder[Message]) -> Message:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise RequestError(f"The relay sent something that the engine cannot read: {error}.") from error


class Mcp:
    """``/mcp``, for callers of the memory API. Its library, which takes a second, is loaded when the first one
    asks.
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

    encode = msgspec.json.Encoder().encode

    async def recall(request: RecallRequest) -> bytes:
        return encode(await engine.recall(request))

    async def captured(notice: Captured) -> bytes:
        engine.captured(notice)
        return b""

    api = api_routes(engine.backends())
    mcp = Mcp(Router(api))
    calls = {
        protocol.RECALL_PATH: _hot(RecallRequest, recall, "recall"),
        protocol.CAPTURED_PATH: _hot(Captured, captured, "notice"),
    }
    routes = [*_internal(engine), Route("/mcp", mcp), *api]
    return EngineApp(calls, Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refusal}))


async def _refusal(request: Request, error: Exception) -> Response:
    """The router's own refusals, OpenAI-shaped."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        return method_refused(request.method)
    return error_answer(NotFound(f"Nothing is served at {request.url.path[:200]}; /openapi.json lists the calls."))
