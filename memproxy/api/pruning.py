"""`POST /v1/memory/prune`: what retention would erase of a user now, or erase it now."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends
from memproxy.api.http import answer, caller, read_optional_body, read_query
from memproxy.api.queries import NoQuery
from memproxy.api.schemas import PruneBody
from memproxy.auth import resolve_scope
from memproxy.core.retention import Due
from memproxy.errors import Forbidden

SHOWN = 1_000
"""Memories that a dry run names, those that would go first."""


class Pruning:
    """The call that prunes."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._max_bytes = backends.settings.server.max_body_bytes

    async def prune(self, request: Request) -> Response:
        """`POST /v1/memory/prune`: with ``dry_run`` nothing is changed."""
        identity = caller(request, "memory:write")
        read_query(request, NoQuery)
        body = await read_optional_body(request, PruneBody, self._max_bytes)
        scope = resolve_scope(identity, user=body.user_id)
        self._backends.require_store()
        self._backends.require_state()
        if not body.dry_run:
            if identity.bound_project:
                raise Forbidden("Pruning concerns all projects: a key that is bound to one can only ask (dry_run).")
            gone = await self._backends.pruner.prune(scope)
            self._backends.quotas.forgotten(scope)
            return answer({"pruned": gone.total(), "reasons": dict(gone), "dry_run": False})
        found = [
            one
            for one in await self._backends.pruner.due(scope)
            if scope.sees(one.memory.project_id, one.memory.agent_id)
        ]
        reasons: dict[str, int] = {}
        for one in found:
            reasons[one.reason] = reasons.get(one.reason, 0) + 1
        data = [_told(one) for one in found[:SHOWN]]
        return answer({"pruned": len(found), "reasons": reasons, "dry_run": True, "data": data})


def _told(one: Due) -> dict[str, Any]:
    return {
        "memory_id": one.memory.id,
        "kind": one.memory.kind.value,
        "active": one.memory.active,
        "reason": one.reason,
        "score": round(one.score, 4),
    }
