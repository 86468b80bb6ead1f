"""`/v1/memory/sessions`: a user's conversations; one is over (`/{id}/end`), or is learned from again (`/{id}/mine`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.calls import Call, Reply, operation
from memproxy.api.context import Backends, sees_session
from memproxy.api.http import answer, caller
from memproxy.api.models import Instant, PlacePageQuery, PlaceQuery, UserQuery, one_of
from memproxy.api.pages import read_cursor, write_cursor
from memproxy.api.turns import WAIT_S
from memproxy.core.memory import Kind
from memproxy.core.scope import Scope
from memproxy.errors import RequestError
from memproxy.ports import MemoryFilter

BEGIN_S = 2.0
"""How long a call that does not wait may take to begin: the learning is in the journal well before."""

SESSIONS_AT_ONCE = 20
"""Sessions whose learning one call begins."""

MOST_SESSIONS = 100_000
"""Sessions that a tenant's are looked for among."""

OWNERS_AT_ONCE = 500

_FIELDS = ("session_id", "kind", "created_at", "project_id", "agent_id")
"""What is read of each memory to tell the sessions from it, in this order."""

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class Session(msgspec.Struct, kw_only=True):
    """A conversation as far as the caller sees it. ``begun_at`` is the time of its first turn, where it has one, else
    of its first memory; project and agent are those of what is newest in it. ``memories`` are not turns, and may be
    superseded.
    """

    id: str
    project_id: str | None
    agent_id: str | None
    begun_at: Instant
    last_turn_at: Instant | None
    turns: int
    memories: int
    ended: bool


class SessionPage(msgspec.Struct):
    """One page of conversations."""

    data: list[Session]
    next_cursor: str | None


@operation("GET", "/v1/memory/sessions", "memory:read")
async def list_sessions(api: Backends, call: Call, query: PlacePageQuery) -> SessionPage:
    """A user's conversations, that in which something was said last first."""
    scope = msgspec.structs.replace(call.scope(), session=None)
    after = _after(query.cursor)
    api.require_store()
    api.require_state()
    now = api.clock.now()
    rows = await api.store.columns(scope, MemoryFilter(now=now), _FIELDS)
    found = await asyncio.to_thread(_sessions, rows)  # off the event loop: there may be many memories
    following = [one for one in found if _place(one) > after]
    page, more = following[: query.limit], len(following) > query.limit
    over = await api.state.ended(scope, [one.id for one in page])
    silence = timedelta(seconds=api.settings.conversation.silence_s)  # over until somebody says something in it again
    for one in page:
        one.ended = one.id in over or now - (one.last_turn_at or one.begun_at) > silence
    return SessionPage(page, write_cursor("sessions", *_place(page[-1])) if more else None)


class LearnQuery(UserQuery):
    """The query string of `POST /v1/memory/sessions/{id}/end` and `/mine`: whose, and whether to wait."""

    wait: bool = False


class LearnScope(PlaceQuery):
    """The body of `POST /v1/memory/sessions/{id}/end` and `/mine`; it may be left out."""


class Learned(msgspec.Struct):
    """Whether learning from a session is done; ``off``: nothing is learned, by the configuration or by choice."""

    session_id: str
    learning: Annotated[Any, one_of("done", "pending", "off")]


@operation(
    "POST",
    "/v1/memory/sessions/{id}/end",
    "memory:write",
    statuses=(200, 202),
    query=LearnQuery,
    body=LearnScope,
    errors=(429,),
    body_optional=True,
)
async def end_session(api: Backends, call: Call) -> Reply[Learned]:
    """The session is over: learn from it now.

    What is new in it is learned, and it is summed up.
    """

    async def ended(scope: Scope, within_s: float) -> bool:
        await api.state.note_end(scope, at=api.clock.now())
        return await api.worker.end_session(scope, within_s)

    return await _learn(api, call, ended)


@operation(
    "POST",
    "/v1/memory/sessions/{id}/mine",
    "memory:write",
    statuses=(200, 202),
    query=LearnQuery,
    body=LearnScope,
    errors=(429,),
    body_optional=True,
)
async def mine_session(api: Backends, call: Call) -> Reply[Learned]:
    """Learn from the session again; the second time changes nothing."""
    return await _learn(api, call, api.worker.mine)


async def _learn(api: Backends, call: Call, learn: Callable[[Scope, float], Awaitable[bool]]) -> Reply[Learned]:
    """200 when it is done, 202 while it goes on."""
    scope = call.scope(call.path["id"])
    api.require_state()
    api.require_store()
    await api.quotas.admit_learning(scope)
    within_s = WAIT_S if call.query.wait else BEGIN_S
    learns = not scope.is_narrow or await sees_session(api, scope, scope.session, within_s)
    done = await learn(scope, within_s) if learns else True
    if not api.settings.learn.enabled or not (await api.state.choices(scope)).learns:
        return Reply(Learned(scope.session or "", "off"), 200)
    return Reply(Learned(scope.session or "", "done" if done else "pending"), 200 if done else 202)


async def begin_learning(api: Backends, request: Request) -> Response:
    """`POST` on the private socket alone: begin to learn from (some) sessions with turns that nothing was learned from,
    and tell what is left to do: rows by lane and state, and how many such sessions were found. Of the caller's
    tenant, or with ``everybody=true`` of all. With ``retry_parked=true`` what was given up is tried again.
    """
    api.require_state()
    api.require_store()
    params, worker, state = request.query_params, api.worker, api.state
    tenant = None if params.get("everybody") == "true" else caller(request, "memory:write").tenant
    if params.get("retry_parked") == "true":
        if tenant is None:
            retried = await state.unpark(None)
        else:
            retried = sum([await state.unpark(owner) async for owner in _owners(api, tenant)])
        if retried:
            worker.wake()
    # of a tenant they are picked from all there are: another one's, which nothing is done about, must not stand before
    # them for ever
    limit = SESSIONS_AT_ONCE if tenant is None else MOST_SESSIONS
    due = await state.due_sessions(every=1, idle_before=api.clock.now(), limit=limit)
    scopes = [one.scope for one in due if tenant in {None, one.scope.tenant}][:SESSIONS_AT_ONCE]
    await asyncio.gather(*(worker.learned(scope, BEGIN_S) for scope in scopes))
    if tenant is None:
        queues = await state.queue_sizes()
    else:
        queues = {}
        async for owner in _owners(api, tenant):
            for lane, states in (await state.backlog(owner)).items():
                counted = queues.setdefault(lane, {})
                for name, rows in states.items():
                    counted[name] = counted.get(name, 0) + rows
    return answer({"queues": queues, "sessions": len(scopes)})


async def _owners(api: Backends, tenant: str) -> AsyncIterator[Scope]:
    """The tenant's users. They stand together in the order of all owners."""
    after = (tenant, "")
    while found := await api.state.owners(after=after, limit=OWNERS_AT_ONCE):
        for after in found:
            if after[0] != tenant:
                return
            yield Scope(tenant=tenant, user=after[1])


def _sessions(rows: Iterable[tuple[Any, ...]]) -> list[Session]:
    """The sessions that these memories are of, the latest first."""
    found: dict[str, Session] = {}
    newest: dict[str, datetime] = {}
    for name, kind, created, project, agent in rows:
        if not isinstance(name, str) or not isinstance(created, str):
            continue  # of no conversation, or damaged
        at = msgspec.convert(created, datetime)
        one = found.get(name)
        if one is None:
            one = found[name] = Session(
                id=name,
                project_id=None,
                agent_id=None,
                begun_at=at,
                last_turn_at=None,
                turns=0,
                memories=0,
                ended=False,
            )
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
