"""`/v1/memory/sessions`: a user's conversations; one is over (`/{id}/end`), or is learned from again (`/{id}/mine`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.calls import Call, Reply, operation
from memproxy.api.context import Backends, sees_session
from memproxy.api.http import answer, caller
from memproxy.api.models import Instant, PlacePageQuery, PlaceQuery, UserQuery, one_of
from memproxy.api.turns import WAIT_S
from memproxy.core.scope import Scope
from memproxy.ports import MemoryFilter

BEGIN_S = 2.0
"""How long a call that does not wait may take to begin: the learning is in the journal well before."""

SESSIONS_AT_ONCE = 20
"""Sessions whose learning one call begins."""

MOST_SESSIONS = 100_000
"""Sessions that a tenant's are looked for among."""

OWNERS_AT_ONCE = 500


class Session(msgspec.Struct, kw_only=True):
    """A conversation as far as the caller sees it. ``begun_at`` is the time of its first turn, where it has one, else
    of its first memory; project, agent and ``last_words`` (their first 200 characters) are those of its last turn,
    or of its newest memory. ``memories`` are not turns, and may be superseded.
    """

    id: str
    project_id: str | None
    agent_id: str | None
    begun_at: Instant
    last_turn_at: Instant | None
    turns: int
    memories: int
    ended: bool
    last_words: str


class SessionPage(msgspec.Struct):
    """One page of conversations."""

    data: list[Session]
    next_cursor: str | None


@operation("GET", "/v1/memory/sessions", "memory:read")
async def list_sessions(api: Backends, call: Call, query: PlacePageQuery) -> SessionPage:
    """A user's conversations, that in which something was said last first."""
    scope = msgspec.structs.replace(call.scope(), session=None)
    now = api.parts.clock.now()
    page = await api.store.conversations(scope, MemoryFilter(now=now), limit=query.limit, cursor=query.cursor)
    over = await api.state.ended(scope, [conversation.id for conversation in page.conversations])
    # over until somebody says something in it again
    silence = timedelta(seconds=api.parts.settings.conversation.silence_s)
    return SessionPage(
        [
            Session(
                **msgspec.structs.asdict(conversation),
                ended=conversation.id in over or now - (conversation.last_turn_at or conversation.begun_at) > silence,
            )
            for conversation in page.conversations
        ],
        page.next_cursor,
    )


class LearnQuery(UserQuery):
    """The query string of `POST /v1/memory/sessions/{id}/end` and `/mine`: whose, and whether to wait."""

    wait: bool = False


class LearnScope(PlaceQuery):
    """The body of `POST /v1/memory/sessions/{id}/end` and `/mine`; it may be left out."""


class Learned(msgspec.Struct):
    """Whether learning from a session is done; ``off``: nothing is learned, by the configuration or by choice."""

    session_id: str
    learning: Annotated[Any, one_of("done", "pending", "off")]


_LEARNS: dict[str, Any] = {
    "statuses": (200, 202),
    "query": LearnQuery,
    "body": LearnScope,
    "errors": (429,),
    "body_optional": True,
}


@operation("POST", "/v1/memory/sessions/{id}/end", "memory:write", **_LEARNS)
async def end_session(api: Backends, call: Call) -> Reply[Learned]:
    """The session is over: learn from it now.

    What is new in it is learned, and it is summed up.
    """

    async def ended(scope: Scope, within_s: float) -> bool:
        await api.state.note_end(scope, at=api.parts.clock.now())
        return await api.parts.worker.end_session(scope, within_s)

    return await _learn(api, call, ended)


@operation("POST", "/v1/memory/sessions/{id}/mine", "memory:write", **_LEARNS)
async def mine_session(api: Backends, call: Call) -> Reply[Learned]:
    """Learn from the session again; the second time changes nothing."""
    return await _learn(api, call, api.parts.worker.mine)


async def _learn(api: Backends, call: Call, learn: Callable[[Scope, float], Awaitable[bool]]) -> Reply[Learned]:
    """200 when it is done, 202 while it goes on."""
    scope = call.scope(call.session)
    api.require("state", "store")
    await api.quotas.admit_learning(scope)
    within_s = WAIT_S if call.query.wait else BEGIN_S
    is_seen = not scope.is_narrow or await sees_session(api, scope, scope.session, within_s)
    done = not is_seen or await learn(scope, within_s)
    if not api.parts.settings.learn.enabled or not (await api.state.choices(scope)).learns:
        return Reply(Learned(scope.session or "", "off"), 200)
    return Reply(Learned(scope.session or "", "done" if done else "pending"), 200 if done else 202)


async def begin_learning(api: Backends, request: Request) -> Response:
    """`POST` on the private socket alone: begin to learn from (some) sessions with turns that nothing was learned from,
    and tell what is left to do: rows by lane and state, and how many such sessions were found. Of the caller's
    tenant, or with ``everybody=true`` of all. With ``retry_parked=true`` what was given up is tried again.
    """
    api.require("state", "store")
    params, worker, state = request.query_params, api.parts.worker, api.state
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
    due = await state.due_sessions(every=1, idle_before=api.parts.clock.now(), limit=limit)
    scopes = [session.scope for session in due if tenant in {None, session.scope.tenant}][:SESSIONS_AT_ONCE]
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
    while owners := await api.state.owners(after=after, limit=OWNERS_AT_ONCE):
        for after in owners:
            if after[0] != tenant:
                return
            yield Scope(tenant=tenant, user=after[1])
