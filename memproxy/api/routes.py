"""Which call answers which path, and what no call answers yet."""

import functools
import logging
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memproxy.api.audit import Audit
from memproxy.api.choices import ChoicesApi
from memproxy.api.context import Backends, Endpoint, OwnerLocks, Writer
from memproxy.api.feedback import FeedbackApi
from memproxy.api.http import answer, caller, error_answer, method_refused
from memproxy.api.idempotency import Idempotency
from memproxy.api.knowledge import Knowledge
from memproxy.api.memories import Memories
from memproxy.api.openapi import describe
from memproxy.api.palace import PalaceView
from memproxy.api.pruning import Pruning
from memproxy.api.recalling import Recalling
from memproxy.api.receipts import Receipts
from memproxy.api.sessions import Sessions
from memproxy.api.transfer import Transfer
from memproxy.api.turns import Turns
from memproxy.core.protocol import LEARNING_PATH
from memproxy.errors import MemproxyError, NotBuilt, NotFound
from memproxy.metrics import metrics

log = logging.getLogger(__name__)

NOT_BUILT = (
    "/v1/memory/working",
    "/v1/memory/working/{key:path}",
    "/v1/memory/dream",
    "/memory",
    "/mcp",
)
"""Paths that the product names and this version does not answer yet."""

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


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


def api_routes(backends: Backends) -> list[Route]:
    """The routes of the memory API, first match first."""
    writer, locks = Writer(backends), OwnerLocks()
    audit, once = Audit(backends), Idempotency(backends).once
    memories = Memories(backends, writer, locks, audit)
    choices, feedback = ChoicesApi(backends, locks), FeedbackApi(backends, writer, locks)
    turns, recalling, receipts = Turns(backends, writer), Recalling(backends), Receipts(backends)
    transfer = Transfer(backends, writer, turns, audit)
    sessions, palace, knowledge = Sessions(backends), PalaceView(backends), Knowledge(backends)
    calls: list[tuple[str, str, Endpoint]] = [
        ("POST", "/v1/memory/search", recalling.search),
        ("POST", "/v1/memory/recall", recalling.recall),
        ("POST", "/v1/memory/turns", once(turns.ingest)),
        ("GET", "/v1/memory/export", transfer.export),
        ("POST", "/v1/memory/import", transfer.import_lines),
        ("POST", "/v1/memory", once(memories.create)),
        ("GET", "/v1/memory", memories.page),
        ("DELETE", "/v1/memory", once(memories.forget_scope)),
        ("DELETE", "/v1/memory/sessions/{session_id}", once(memories.forget_session)),
        ("DELETE", "/v1/memory/users/{user_id}", once(memories.forget_user)),
        ("POST", "/v1/memory/sessions/{session_id}/end", once(sessions.end)),
        ("POST", "/v1/memory/sessions/{session_id}/mine", once(sessions.mine)),
        ("GET", "/v1/memory/{memory_id}/history", knowledge.history),
        ("GET", "/v1/memory/palace", palace.tree),
        ("GET", "/v1/memory/entities", knowledge.entities),
        ("GET", "/v1/memory/entities/{name}/timeline", knowledge.timeline),
        ("GET", "/v1/memory/categories", knowledge.categories),
        ("POST", "/v1/memory/prune", Pruning(backends).prune),
        ("GET", "/v1/memory/receipts/{request_id}", receipts.receipt),
        ("GET", "/v1/memory/activity", receipts.activity),
        ("POST", "/v1/memory/activity/retry", once(receipts.retry)),
        ("GET", "/v1/memory/stats", receipts.stats),
        ("GET", "/v1/memory/settings", choices.read),
        ("PUT", "/v1/memory/settings", once(choices.write)),
        ("POST", "/v1/memory/feedback", once(feedback.give)),
        ("GET", "/v1/memory/audit", audit.page),
        ("GET", "/openapi.json", _openapi),
        ("POST", LEARNING_PATH, sessions.pending),
    ]
    by_id: dict[str, Endpoint] = {
        "GET": memories.read,
        "PATCH": once(memories.edit),
        "DELETE": once(memories.forget),
    }
    return [
        *(Route(path, guarded(endpoint), methods=[method]) for method, path, endpoint in calls),
        *(Route(path, guarded(_not_built), methods=METHODS) for path in NOT_BUILT),
        *(Route("/v1/memory/{memory_id}", guarded(endpoint), methods=[method]) for method, endpoint in by_id.items()),
        Route("/v1/memory/{rest:path}", guarded(_SlashedId(by_id)), methods=METHODS),
    ]


class _SlashedId:
    """An id that holds a slash: percent-encoded in the URL, where the router cannot tell it from a path's."""

    __name__ = "slashed_id"

    def __init__(self, by_id: dict[str, Endpoint]) -> None:
        self._by_id = by_id

    async def __call__(self, request: Request) -> Response:
        raw = request.scope.get("raw_path", b"").decode("latin-1").removeprefix("/v1/memory/")
        if "/" in raw or not raw:
            raise NotFound(f"Nothing is served at {request.url.path[:200]}; /openapi.json lists the calls.")
        endpoint = self._by_id.get(request.method)
        if endpoint is None:
            return method_refused(request.method)
        request.path_params["memory_id"] = unquote(raw)
        return await endpoint(request)


async def _not_built(request: Request) -> Response:
    caller(request, "memory:read")
    raise NotBuilt(f"{request.url.path[:200]} is not built yet; /openapi.json lists the calls of this version.")


async def _openapi(_request: Request) -> Response:
    return answer(describe())
