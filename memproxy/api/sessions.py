"""`/v1/memory/sessions`: a user's conversations; one is over (`/{id}/end`), or is learned from again (`/{id}/mine`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends, sees_session
from memproxy.api.http import answer, caller, named_once, read_optional_body, read_query
from memproxy.api.pages import read_cursor, write_cursor
from memproxy.api.queries import LearnQuery, SessionsQuery
from memproxy.api.schemas import LearnScope
from memproxy.api.turns import WAIT_S
from memproxy.auth import resolve_scope
from memproxy.core.memory import Kind
from memproxy.core.scope import Scope
from memproxy.errors import RequestError
from memproxy.ports import MemoryFilter

SILENCE = timedelta(minutes=10)
"""A conversation that was silent for longer counts as ended, until somebody says something in it again."""

BEGIN_S = 2.0
"""How long a call that does not wait may take to begin: the learning is in the journal well before."""

SESSIONS_AT_ONCE = 20
"""Sessions whose learning one call begins."""

MOST_SESSIONS = 100_000
"""Sessions that a tenant's are looked for among."""

OWNERS_AT_ONCE = 500

Learning = Callable[[Scope, float], Awaitable[bool]]

_FIELDS = ("session_id", "kind", "created_at", "project_id", "agent_id")
"""What is read of each memory to tell the sessions from it, in this order."""

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class Session(msgspec.Struct, kw_only=True):
    """A conversation as far as the caller sees it. ``begun_at`` is the time of its first turn, where it has one, else
    of its first memory; project and agent are those of what is newest in it. ``memories`` are not turns, and may be
    superseded.
    """

    id: str
    project_id: str | None = None
    agent_id: str | None = None
    begun_at: datetime
    last_turn_at: datetime | None = None
    turns: int = 0
    memories: int = 0
    ended: bool = False


class Sessions:
    """The calls about conversations."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._max_bytes = backends.settings.server.max_body_bytes

    async def page(self, request: Request) -> Response:
        """`GET /v1/memory/sessions`: the one in which something was said last comes first."""
        identity = caller(request, "memory:read")
        query = read_query(request, SessionsQuery)
        scope = resolve_scope(identity, user=query.user_id, project=query.project_id, agent=query.agent_id)
        scope = msgspec.structs.replace(scope, session=None)
        after = _after(query.cursor)
        self._backends.require_store()
        self._backends.require_state()
        now = self._backends.clock.now()
        rows = await self._backends.store.columns(scope, MemoryFilter(now=now), _FIELDS)
        found = await asyncio.to_thread(_sessions, rows)  # off the event loop: there may be many memories
        following = [one for one in found if _place(one) > after]
        page, more = following[: query.limit], len(following) > query.limit
        over = await self._backends.state.ended(scope, [one.id for one in page])
        for one in page:
            one.ended = one.id in over or now - (one.last_turn_at or one.begun_at) > SILENCE
        cursor = write_cursor("sessions", *_place(page[-1])) if more else None
        return answer({"data": page, "next_cursor": cursor})

    async def end(self, request: Request) -> Response:
        """The session is over: what is new in it is learned, and it is summed up."""

        async def ended(scope: Scope, within_s: float) -> bool:
            await self._backends.state.note_end(scope, at=self._backends.clock.now())
            return await self._backends.worker.end_session(scope, within_s)

        return await self._learned(request, ended)

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


def _sessions(rows: Iterable[tuple[Any, ...]]) -> list[Session]:
    """The sessions that these memories are of, the latest first."""
    found: dict[str, Session] = {}
    newest: dict[str, datetime] = {}
    for name, kind, created, project, agent in rows:
        if not isinstance(name, str) or not isinstance(created, str):
            continue  # of no conversation, or damaged
        at = msgspec.convert(created, datetime)
        one = found.setdefault(name, Session(id=name, begun_at=at))
        if at >= newest.setdefault(name, at):
            newest[name], one.project_id, one.agent_id = at, project, agent
        if kind != Kind.TURN.value:
            one.memories += 1
            one.begun_at = min(one.begun_at, at) if not one.turns else one.begun_at
        else:
            one.begun_at = min(one.begun_at, at) if one.turns else at
            one.last_turn_at = max(one.last_turn_at or at, at)
            one.turns += 1
    return sorted(found.values(), key=_place)


def _place(one: Session) -> tuple[int, str]:
    """Where it stands in the list."""
    return -((one.last_turn_at or one.begun_at) - _BEGINNING) // timedelta(microseconds=1), one.id


def _after(cursor: str | None) -> tuple[int, str]:
    """The place that a cursor holds; without one, before all others.

    Raises:
        RequestError: it is not a cursor of this list.
    """
    if cursor is None:
        return -(2**63), ""
    place = read_cursor("sessions", cursor)
    if len(place) != 2 or not isinstance(place[0], int) or not isinstance(place[1], str):
        raise RequestError("cursor: is not one of this list; take next_cursor of its last page.", param="cursor")
    return place[0], place[1]
