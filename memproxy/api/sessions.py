"""`POST /v1/memory/sessions/{id}/end` and `/mine`: the conversation is over; learn from it (again)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends, sees_session
from memproxy.api.http import answer, caller, named_once, read_optional_body, read_query
from memproxy.api.queries import LearnQuery
from memproxy.api.schemas import LearnScope
from memproxy.api.turns import WAIT_S
from memproxy.auth import resolve_scope
from memproxy.core.scope import Scope

BEGIN_S = 2.0
"""How long a call that does not wait may take to begin: the learning is in the journal well before."""

SESSIONS_AT_ONCE = 20
"""Sessions whose learning one call begins."""

MOST_SESSIONS = 100_000
"""Sessions that a tenant's are looked for among."""

OWNERS_AT_ONCE = 500

Learning = Callable[[Scope, float], Awaitable[bool]]


class Sessions:
    """The calls that make a conversation be learned from."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._max_bytes = backends.settings.server.max_body_bytes

    async def end(self, request: Request) -> Response:
        """The session is over: what is new in it is learned, and it is summed up."""
        return await self._learned(request, self._backends.worker.end_session)

    async def mine(self, request: Request) -> Response:
        """Learn from the whole session again; what is known already changes nothing."""
        return await self._learned(request, self._backends.worker.mine)

    async def pending(self, request: Request) -> Response:
        """`POST` on the private socket alone: begin to learn from sessions with turns that nothing was learned from
        (some of them), and tell what is left to do: rows by lane and state, and how many such sessions were found. Of
        the caller's tenant, or with ``everybody=true`` of all. With ``retry_parked=true`` what was given up is tried
        again.
        """
        self._backends.require_state()
        self._backends.require_store()
        asked, worker = request.query_params, self._backends.worker
        tenant = None if asked.get("everybody") == "true" else caller(request, "memory:write").tenant
        if asked.get("retry_parked") == "true" and await self._unparked(tenant):
            worker.wake()
        due = await self._due(tenant)
        await asyncio.gather(*(worker.learned(scope, BEGIN_S) for scope in due))
        return answer({"queues": await self._queues(tenant), "sessions": len(due)})

    async def _due(self, tenant: str | None) -> list[Scope]:
        """Some of the sessions that something is to be learned from. Of a tenant they are picked from all there are:
        another one's, which nothing is done about, must not stand before them for ever.
        """
        now, limit = self._backends.clock.now(), SESSIONS_AT_ONCE if tenant is None else MOST_SESSIONS
        due = await self._backends.state.due_sessions(every=1, idle_before=now, limit=limit)
        return [one.scope for one in due if tenant in {None, one.scope.tenant}][:SESSIONS_AT_ONCE]

    async def _unparked(self, tenant: str | None) -> int:
        state = self._backends.state
        if tenant is None:
            return await state.unpark(None)
        return sum([await state.unpark(owner) async for owner in self._owners(tenant)])

    async def _queues(self, tenant: str | None) -> dict[str, dict[str, int]]:
        """Rows by lane and state."""
        state = self._backends.state
        if tenant is None:
            return await state.queue_sizes()
        queues: dict[str, dict[str, int]] = {}
        async for owner in self._owners(tenant):
            for lane, states in (await state.backlog(owner)).items():
                counted = queues.setdefault(lane, {})
                for name, rows in states.items():
                    counted[name] = counted.get(name, 0) + rows
        return queues

    async def _owners(self, tenant: str) -> AsyncIterator[Scope]:
        """The tenant's users. They stand together in the order of all owners."""
        after = (tenant, "")
        while found := await self._backends.state.owners(after=after, limit=OWNERS_AT_ONCE):
            for after in found:
                if after[0] != tenant:
                    return
                yield Scope(tenant=tenant, user=after[1])

    async def _learned(self, request: Request, learn: Learning) -> Response:
        """200 when it is done, 202 while it goes on."""
        scope, wait = await self._asked(request)
        self._backends.require_state()
        self._backends.require_store()
        await self._backends.quotas.admit_learning(scope)
        within_s = WAIT_S if wait else BEGIN_S
        learns = not scope.is_narrow or await sees_session(self._backends, scope, scope.session, within_s)
        done = await learn(scope, within_s) if learns else True
        data = {"session_id": scope.session, "learning": "done" if done else "pending"}
        return answer(data, 200 if done else 202)

    async def _asked(self, request: Request) -> tuple[Scope, bool]:
        identity = caller(request, "memory:write")
        query = read_query(request, LearnQuery)
        body = await read_optional_body(request, LearnScope, self._max_bytes)
        scope = resolve_scope(
            identity,
            user=named_once(query.user_id, body.user_id),
            project=body.project_id,
            agent=body.agent_id,
            session=request.path_params["session_id"],
        )
        return scope, query.wait
