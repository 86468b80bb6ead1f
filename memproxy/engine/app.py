"""Process two's routes: the relay's own, hot one first, and the memory API."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memproxy.api.http import answer, error_answer, method_refused
from memproxy.api.routes import api_routes, guarded
from memproxy.auth import decode_identity
from memproxy.core.protocol import (
    BACKUP_PATH,
    CAPTURED_PATH,
    FULL_PATH,
    IDENTITY_HEADER,
    PRUNE_PATH,
    READY_PATH,
    RECALL_PATH,
    REINDEX_PATH,
    BackupAsked,
    Captured,
    Full,
    RecallRequest,
    ReindexAsked,
)
from memproxy.core.scope import Scope
from memproxy.engine.parts import Engine
from memproxy.errors import NotFound, RequestError

Message = TypeVar("Message")


class Internal:
    """What the relay asks: the block for a request, and that it captured a turn."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._recalls = msgspec.json.Decoder(RecallRequest)
        self._captures = msgspec.json.Decoder(Captured)
        self._backups = msgspec.json.Decoder(BackupAsked)
        self._reindexes = msgspec.json.Decoder(ReindexAsked)
        self._scopes = msgspec.json.Decoder(Scope)

    async def recall(self, request: Request) -> Response:
        """`POST` of a `RecallRequest`; answers a `RecallAnswer`, degraded when memory is not there."""
        return answer(await self._engine.recall(await _read(request, self._recalls)))

    async def captured(self, request: Request) -> Response:
        """`POST` of a `Captured`: the journal has a new row."""
        self._engine.captured(await _read(request, self._captures))
        return Response(status_code=204)

    async def full(self, request: Request) -> Response:
        """`POST` of a `Scope`; answers a `Full`."""
        return answer(Full(whose=await self._engine.full(await _read(request, self._scopes))))

    async def reindex(self, request: Request) -> Response:
        """`POST` of a `ReindexAsked`, by the command line: begin one, or join the one that runs. Answers a
        `ReindexTold`, as `GET` does.
        """
        if request.method == "GET":
            return answer(self._engine.reindexing())
        return answer(await self._engine.reindex(await _read(request, self._reindexes)))

    async def backup(self, request: Request) -> Response:
        """`POST` of a `BackupAsked`, by the command line: begin one. Answers a `BackupTold`, as `GET` does."""
        if request.method == "GET":
            return answer(self._engine.backed_up())
        return answer(self._engine.back_up(Path((await _read(request, self._backups)).folder)))

    async def prune(self, request: Request) -> Response:
        """`POST` by the command line: prune everybody, or its tenant's users, or tell what would go."""
        asked = request.query_params
        tenant = (
            None if asked.get("everybody") == "true" else decode_identity(request.headers.get(IDENTITY_HEADER)).tenant
        )
        return answer(await self._engine.pruned(dry_run=asked.get("dry_run") == "true", tenant=tenant))

    async def ready(self, _request: Request) -> Response:
        """`GET`: the state of each part."""
        return answer(self._engine.readiness())


async def _read(request: Request, decoder: msgspec.json.Decoder[Message]) -> Message:
    try:
        return decoder.decode(await request.body())
    except msgspec.DecodeError as error:
        raise RequestError(f"The relay sent something that the engine cannot read: {error}.") from error


def build_app(engine: Engine) -> Starlette:
    """The engine's ASGI application; its lifespan starts and closes the engine."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await engine.start()
        try:
            yield
        finally:
            await engine.close(engine.settings.server.shutdown_grace_s)

    internal = Internal(engine)
    routes = [
        Route(RECALL_PATH, guarded(internal.recall), methods=["POST"]),
        Route(CAPTURED_PATH, guarded(internal.captured), methods=["POST"]),
        Route(FULL_PATH, guarded(internal.full), methods=["POST"]),
        Route(PRUNE_PATH, guarded(internal.prune), methods=["POST"]),
        Route(REINDEX_PATH, guarded(internal.reindex), methods=["GET", "POST"]),
        Route(BACKUP_PATH, guarded(internal.backup), methods=["GET", "POST"]),
        Route(READY_PATH, guarded(internal.ready), methods=["GET"]),
        *api_routes(engine.backends()),
    ]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refused})


async def _refused(request: Request, error: Exception) -> Response:
    """The router's own refusals, OpenAI-shaped."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        return method_refused(request.method)
    return error_answer(NotFound(f"Nothing is served at {request.url.path[:200]}; /openapi.json lists the calls."))
