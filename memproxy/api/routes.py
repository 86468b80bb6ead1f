"""Which call answers which path; how a call is checked, made and answered.

A path is compared as it was sent, piece by piece. Ids are the callers' own and may hold slashes, percent-encoded:
`sessions%2Fone` is the id of a memory, and `sessions/one` a conversation. Decoded, the two could not be told apart.
"""

import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from memproxy.api import sessions
from memproxy.api.calls import ANY_TAG, Call, Operation, Reply, entity_tags
from memproxy.api.context import Backends
from memproxy.api.http import answer, caller, error_answer, method_refused, read_body, read_query
from memproxy.api.idempotency import answered_once, key_of
from memproxy.api.openapi import OPERATIONS, describe
from memproxy.core.audit import COMMAND_LINE
from memproxy.core.memory import digest
from memproxy.core.protocol import LEARNING_PATH
from memproxy.errors import MemproxyError, NotFound
from memproxy.metrics import metrics

log = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]


def guarded(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with every failure answered OpenAI-shaped."""

    @functools.wraps(endpoint)
    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except MemproxyError as error:
            return error_answer(error)
        except Exception:
            # The last line of defence: a fault of ours is logged and counted, and the caller gets one clear answer.
            metrics().internal_errors.labels(where="engine.api").inc()
            log.exception("%s %s failed", request.method, getattr(endpoint, "__name__", "?"))
            return error_answer(MemproxyError("memproxy failed on this request; its log says why."))

    return answered


def api_routes(api: Backends) -> list[Route]:
    """The memory API, as the last of an application's routes: it answers whatever is left."""

    async def begin_learning(request: Request) -> Response:
        return await sessions.begin_learning(api, request)

    async def openapi(_request: Request) -> Response:
        return answer(describe())

    endpoints = [
        *((operation.method, operation.path, _endpoint(api, operation)) for operation in OPERATIONS),
        ("GET", "/openapi.json", openapi),
        ("POST", LEARNING_PATH, begin_learning),
    ]
    return [Route("/{rest:path}", PathTable((method, path, guarded(endpoint)) for method, path, endpoint in endpoints))]


def _endpoint(api: Backends, operation: Operation) -> Endpoint:
    """Checks a request from the outside in (caller, query, body), makes the call, and writes its answer."""
    max_bytes = api.parts.settings.server.max_body_bytes

    async def make(call: Call) -> Response:
        result = await operation.make(api, call)
        if isinstance(result, Response):
            return result
        reply = result if isinstance(result, Reply) else Reply(result)
        if operation.etag and reply.status == 200:
            return _with_etag(call.request, reply)
        return answer(reply.data, reply.status, reply.headers)

    async def answered(request: Request) -> Response:
        identity = caller(request, *operation.permissions)
        query = read_query(request, operation.query)
        body: Any = None
        if operation.body is not None:
            body = await read_body(request, operation.body, max_bytes, optional=operation.body_optional)
        call = Call(
            operation=operation, request=request, identity=identity, path=request.path_params, query=query, body=body
        )
        if operation.takes_key and (key := key_of(request)) is not None:
            response = await answered_once(api, call, key, make)
        else:
            response = await make(call)
        if operation.audited_read and identity.by == COMMAND_LINE and "cursor" not in request.query_params:
            # a key says whose memory it is for; who reads at the machine's own console is written down
            about = {"user_id": identity.named_user, "memory_id": call.path.get("id")}
            await api.audit(identity, operation.audited_read, {}, **about)
        return response

    answered.__name__ = operation.path  # for the log
    return answered


def _with_etag(request: Request, reply: Reply[Any]) -> Response:
    """The answer with its ETag: that of its headers, else a digest of its bytes. A GET whose caller has this version is
    answered 304, without a body.
    """
    body = msgspec.json.encode(reply.data)
    headers = {"etag": f'W/"{digest(body)}"', **reply.headers}
    tags = entity_tags(request, "if-none-match") if request.method in {"GET", "HEAD"} else None
    if tags is not None and tags & {ANY_TAG, headers["etag"].removeprefix("W/").strip('"')}:
        return Response(status_code=304, headers={"etag": headers["etag"]})
    return Response(body, headers=headers, media_type="application/json")


class PathTable:
    """Finds the endpoint of a request by its path and method; an ASGI application. A piece of a path in braces is
    whatever is there, ``{name:path}`` all that is left.
    """

    def __init__(self, endpoints: Iterable[tuple[str, str, Endpoint]]) -> None:
        methods: dict[tuple[str, ...], dict[str, Endpoint]] = {}
        for method, path, endpoint in endpoints:
            methods.setdefault(tuple(path.split("/")), {})[method] = endpoint
        # a piece that is written out goes before one that may be anything
        self._paths = sorted(methods.items(), key=lambda item: [piece.startswith("{") for piece in item[0]])

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        pieces = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").split("/")
        for path, by_method in self._paths:
            if (names := _path_values(path, pieces)) is not None:
                scope["path_params"] = names
                endpoint = by_method.get("GET" if request.method == "HEAD" else request.method)
                response = method_refused(request.method, by_method) if endpoint is None else await endpoint(request)
                break
        else:
            words = f"Nothing is served at {request.url.path[:200]}; /openapi.json lists the calls."
            response = error_answer(NotFound(words))
        await response(scope, receive, send)


_REST = ":path}"


def _path_values(path: Sequence[str], pieces: Sequence[str]) -> dict[str, Any] | None:
    """What the pieces in braces are here; None when it is another path."""
    if path[-1].endswith(_REST) and len(pieces) >= len(path):
        pieces = [*pieces[: len(path) - 1], "/".join(pieces[len(path) - 1 :])]
    if len(path) != len(pieces):
        return None
    names = {}
    for pattern, piece in zip(path, pieces, strict=True):
        if not pattern.startswith("{"):
            if pattern != unquote(piece):
                return None
        elif not piece:
            return None
        else:
            names[pattern.strip("{}").removesuffix(_REST[:-1])] = unquote(piece)
    return names
