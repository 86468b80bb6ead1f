"""The audit log: what is written into it, and `GET /v1/memory/audit`. Ids and counts, never content."""

import functools
import logging
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends, Endpoint
from memproxy.api.http import answer, caller, read_query
from memproxy.api.pages import number_after, write_cursor
from memproxy.api.queries import AuditQuery
from memproxy.core.audit import COMMAND_LINE, Audited, AuditEntry
from memproxy.core.protocol import Identity
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics

log = logging.getLogger(__name__)

_FIRST = 2**53 - 1


class Audit:
    """Writes and shows the log."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    async def note(self, identity: Identity, action: str, *, counts: dict[str, int], **scope: str | None) -> None:
        """Write down what ``identity`` did. Trouble in that undoes nothing: it is logged and counted."""
        entry = AuditEntry(
            at=self._backends.clock.now(),
            tenant=identity.tenant,
            by=identity.by or identity.tenant,
            action=action,
            scope={name: value for name, value in scope.items() if value is not None},
            counts=counts,
        )
        try:
            await self._backends.state.note_audit([entry])
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="engine.audit").inc()
            log.error("%s is done and not in the audit log: %s", action, error.message)

    def reading(self, action: str, endpoint: Endpoint) -> Endpoint:
        """The endpoint, which shows what a user has said: what is read from the machine's own console is written down.
        A caller with a key is not: its key says whose memory it is for. Of a list the first page counts.
        """

        @functools.wraps(endpoint)
        async def noted(request: Request) -> Response:
            response = await endpoint(request)
            identity = caller(request, "memory:read")
            if identity.by == COMMAND_LINE and "cursor" not in request.query_params:
                memory = request.path_params.get("memory_id")
                await self.note(identity, action, counts={}, user_id=identity.named_user, memory_id=memory)
            return response

        return noted

    async def page(self, request: Request) -> Response:
        """`GET /v1/memory/audit`: the tenant's entries, newest first; for ``admin`` alone."""
        identity = caller(request, "admin")
        query = read_query(request, AuditQuery)
        before = number_after("audit", query.cursor) if query.cursor is not None else _FIRST
        self._backends.require_state()
        found = await self._backends.state.audit(identity.tenant, before=before, limit=query.limit + 1)
        page, more = found[: query.limit], found[query.limit :]
        cursor = write_cursor("audit", page[-1].number) if more else None
        return answer({"data": [_told(one) for one in page], "next_cursor": cursor})


def _told(one: Audited) -> dict[str, Any]:
    entry = one.entry
    return {"at": entry.at, "by": entry.by, "action": entry.action, "scope": entry.scope, "counts": entry.counts}
