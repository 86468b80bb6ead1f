"""Which call answers which path, and what no call answers yet."""

import functools
import logging

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memproxy.api.audit import Audit
from memproxy.api.choices import ChoicesApi
from memproxy.api.context import Backends, Endpoint, OwnerLocks, Writer
from memproxy.api.feedback import FeedbackApi
from memproxy.api.http import answer, caller, error_answer
from memproxy.api.idempotency import Idempotency
from memproxy.api.knowledge import Knowledge
from memproxy.api.memories import Memories
from memproxy.api.openapi import describe
from memproxy.api.palace import PalaceView
from memproxy.api.pruning import Pruning
from memproxy.api.recalling import Recalling
from memproxy.api.receipts import Receipts
from memproxy.api.sessions import Sessions
from memproxy.api.table import Call, CallTable
from memproxy.api.transfer import Transfer
from memproxy.api.turns import Turns
from memproxy.core.protocol import LEARNING_PATH
from memproxy.errors import MemproxyError, NotBuilt
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
    """The memory API, as the last of an application's routes: it answers whatever is left."""
    table = CallTable((method, path, guarded(endpoint)) for method, path, endpoint in api_calls(backends))
    return [Route("/{rest:path}", table)]


def api_calls(backends: Backends) -> list[Call]:
    """All calls that the engine answers beside the relay's own."""
    writer, locks = Writer(backends), OwnerLocks()
    audit, once = Audit(backends), Idempotency(backends).once
    memories = Memories(backends, writer, locks, audit)
    choices, feedback = ChoicesApi(backends, locks), FeedbackApi(backends, writer, locks)
    turns, recalling, receipts = Turns(backends, writer), Recalling(backends), Receipts(backends)
    transfer = Transfer(backends, writer, turns, audit)
    sessions, palace, knowledge = Sessions(backends), PalaceView(backends), Knowledge(backends)
    return [
        ("POST", "/v1/memory/search", audit.reading("user.search", recalling.search)),
        ("POST", "/v1/memory/recall", recalling.recall),
        ("POST", "/v1/memory/turns", once(turns.ingest)),
        ("GET", "/v1/memory/export", transfer.export),
        ("POST", "/v1/memory/import", transfer.import_lines),
        ("POST", "/v1/memory", once(memories.create)),
        ("GET", "/v1/memory", audit.reading("user.list", memories.page)),
        ("DELETE", "/v1/memory", once(memories.forget_scope)),
        ("GET", "/v1/memory/sessions", sessions.page),
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
        ("GET", "/v1/memory/{memory_id}", audit.reading("memory.read", memories.read)),
        ("PATCH", "/v1/memory/{memory_id}", once(memories.edit)),
        ("DELETE", "/v1/memory/{memory_id}", once(memories.forget)),
        *((method, path, _not_built) for path in NOT_BUILT for method in METHODS),
    ]


async def _not_built(request: Request) -> Response:
    caller(request, "memory:read")
    raise NotBuilt(f"{request.url.path[:200]} is not built yet; /openapi.json lists the calls of this version.")


async def _openapi(_request: Request) -> Response:
    return answer(describe())
