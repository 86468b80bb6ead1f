"""What is forgotten: one memory, a place, a conversation, a user; and what retention would erase of a user now."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from memproxy.api.calls import Call, Reply, operation
from memproxy.api.context import QUEUED, Backends, find, sees_session
from memproxy.api.fields import Name
from memproxy.api.memories import corrected, place_of
from memproxy.api.models import Body, Deleted, OneQuery, UserQuery, one_of
from memproxy.auth.identity import resolve_project
from memproxy.core.memory import FACTS, Kind, Memory
from memproxy.core.protocol import Deletion, PlanBody
from memproxy.core.scope import Scope
from memproxy.errors import Forbidden, MemoryUnavailable, NotFound, RequestError, StoreUnavailable
from memproxy.ports import MemoryFilter
from memproxy.retention.leftovers import forget_queries_of

ERASURE = "x-memproxy-erasure"
"""Header of a deletion's answer: ``complete``, or ``pending`` while deleted text may be in the store's files."""

MOST_SHOWN = 1_000
"""Memories listed by a dry run, the first to go."""

_MOST_COUNTED = 200
"""Facts of one message that are counted when it is deleted; more are deleted without being counted."""


class ScopeQuery(Body):
    """`DELETE /v1/memory`: at least one of these."""

    user_id: Name | None = None
    project_id: Name | None = None
    session_id: Name | None = None


class ForgetQuery(OneQuery):
    """`DELETE /v1/memory/{id}`. ``restore``: what the memory took the place of, a correction's say, holds again."""

    restore: bool = False


class PruneBody(Body):
    """The body of `POST /v1/memory/prune`; it may be left out. ``dry_run``: tell what would go, and change nothing."""

    user_id: Name | None = None
    dry_run: bool = False


class PrunedMemory(msgspec.Struct):
    """A memory that would go, and why."""

    memory_id: str
    kind: str
    active: bool
    reason: Annotated[Any, one_of("expired", "limit")]
    score: float


class Pruned(msgspec.Struct):
    """How many go, by reason; of a dry run also which."""

    pruned: int
    reasons: dict[str, int]
    dry_run: bool
    data: list[PrunedMemory] | UnsetType = UNSET


def _deletion_reply(count: int, *, applied: bool, erased: bool = False) -> Reply[Deleted]:
    """``erased``: no deleted byte is left in a file of ours (a database server overwrites its own in its own time);
    otherwise the eraser removes them later.
    """
    erasure = {ERASURE: "complete" if erased and applied else "pending"}
    if applied:
        return Reply(Deleted(count), headers=erasure)
    return Reply(Deleted(count, queued=True), 202, QUEUED | erasure)


@operation("DELETE", "/v1/memory/{id}", "memory:write", statuses=(200, 202), errors=(404,), if_match=True)
async def forget(api: Backends, call: Call, query: ForgetQuery) -> Reply[Deleted]:
    """Forget one memory.

    With a message goes what was learned from it alone. With ``restore`` what the memory took the place of holds again.
    """
    scope = call.scope(query.session_id)
    async with api.locks.of(*scope.owner):
        memory = await find(api, scope, call.path["id"], session=query.session_id)
        if memory.kind is Kind.TURN and memory.session_id is not None:  # its namesake in another session stays
            plan = PlanBody(delete_where=Deletion(ids=[memory.id], session_ids=[memory.session_id]))
        else:
            plan = PlanBody(deletes=[memory.id], gives_back=query.restore)
            turn = await corrected(api, scope, memory) if query.restore else None
            if turn is not None and turn.superseded_by == memory.id:
                plan.turn_changes = {turn.session_id or "": {turn.id: {"superseded_by": None}}}
        plan.expects = call.expected(memory, api.parts.secret)
        facts = await _facts_of(api, scope, memory)
        applied = await api.write(place_of(scope, memory), plan)
        await api.state.erase_answers(scope)
        deleted = 1
        if applied:
            await api.receipts_written()
            await forget_queries_of(api.state, scope, [memory])
            deleted += await _gone(api, scope, facts)
    await api.audit(call.identity, "memory.forget", {"deleted": deleted}, user_id=scope.user, memory_id=memory.id)
    return _deletion_reply(deleted, applied=applied)


async def _facts_of(api: Backends, scope: Scope, memory: Memory) -> list[str]:
    """The ids of the facts that rest on a message and that the caller sees; none while the store is away."""
    if memory.kind is not Kind.TURN:
        return []
    try:
        where = MemoryFilter(turn_ids=(memory.id,), kinds=FACTS)
        page = await api.store.page(scope, where, limit=_MOST_COUNTED)
    except StoreUnavailable:
        return []
    return [fact.id for fact in page.memories]


async def _gone(api: Backends, scope: Scope, facts: Sequence[str]) -> int:
    """How many of these are gone."""
    try:
        where = MemoryFilter(ids=tuple(facts), kinds=FACTS)
        return len(facts) - await api.store.count(scope, where) if facts else 0
    except StoreUnavailable:
        return 0


@operation("DELETE", "/v1/memory", "memory:write", statuses=(200, 202))
async def forget_scope(api: Backends, call: Call, query: ScopeQuery) -> Reply[Deleted]:
    """Forget by scope.

    Never without a scope that was named for this call. A caller who stands in a project or agent (by header) forgets
    what is of that one only.
    """
    if query.user_id is None and query.project_id is None and query.session_id is None:
        raise RequestError(
            "Nothing is deleted without a scope: give user_id, project_id or session_id.", param="user_id"
        )
    scope = Scope(tenant=call.identity.tenant, user=call.user)
    project = resolve_project(call.identity, query.project_id)
    named = (query.session_id, project, call.identity.agent)
    sessions, projects, agents = ([] if name is None else [name] for name in named)
    gone = Deletion(session_ids=sessions, project_ids=projects, agent_ids=agents)
    deleted, applied = await _forget_by(api, scope, PlanBody(delete_where=gone))
    about = {"user_id": scope.user, "session_id": query.session_id, "project_id": project}
    await api.audit(call.identity, "memory.forget_scope", {"deleted": deleted}, **about)
    return _deletion_reply(deleted, applied=applied)


@operation("DELETE", "/v1/memory/sessions/{id}", "memory:write", query=UserQuery, statuses=(200, 202), errors=(404,))
async def forget_session(api: Backends, call: Call) -> Reply[Deleted]:
    """Undo a conversation: what was learned from it alone goes, what that superseded is active again.

    A caller who stands in a project (agent) undoes what it sees of it.
    """
    scope = msgspec.structs.replace(call.scope(), session=None)
    session = call.session
    is_visible = not call.identity.bound_project or await sees_session(api, scope, session, api.parts.write_timeout_s)
    deleted, applied = await _forget_by(api, scope, PlanBody(undo_session=session))
    await api.audit(call.identity, "session.undo", {"deleted": deleted}, user_id=scope.user, session_id=session)
    if applied and not is_visible:
        raise NotFound(f"No conversation has the id {session[:200]!r}.", param="session_id")
    return _deletion_reply(deleted, applied=applied)


@operation("DELETE", "/v1/memory/users/{id}", "memory:write", statuses=(200, 202), or_admin=True, names_user=True)
async def forget_user(api: Backends, call: Call) -> Reply[Deleted]:
    """Forget everything of a user.

    ``admin`` may erase whom it may not read.
    """
    scope = Scope(tenant=call.identity.tenant, user=call.user)
    if call.identity.bound_project:
        raise Forbidden("This key is for one project: forget that one's memories (DELETE /v1/memory?project_id=…).")
    with api.parts.worker.erasing(scope.owner):
        deleted, applied = await _forget_by(api, scope, PlanBody(delete_where=Deletion()))
    erased = False
    if applied:  # deleted text stays in the store's files until they are written anew: here that is worth the pause
        with suppress(MemoryUnavailable):  # the disk has no room for it now; the eraser says so, and tries again
            await api.eraser.now()
            erased = True
    await api.audit(call.identity, "user.erase", {"deleted": deleted}, user_id=scope.user)
    return _deletion_reply(deleted, applied=applied, erased=erased)


async def _forget_by(api: Backends, scope: Scope, plan: PlanBody) -> tuple[int, bool]:
    """Delete by a plan, in the journal's order: what waits to be written before it is deleted, too. With it goes what
    the state holds of the owner, or of the session (`learn.index`), be it later. Answers how many memories went of
    those that match and that the scope sees, and whether that is done.
    """
    gone = plan.delete_where or Deletion()
    where = MemoryFilter(
        session_ids=tuple(gone.session_ids), project_ids=tuple(gone.project_ids), agent_ids=tuple(gone.agent_ids)
    )
    async with api.locks.of(*scope.owner):
        await api.receipts_written()
        # what is known to wait is not waited for: the deletion may go ahead of it
        settled = not api.parts.worker.waits(scope) and await api.write(scope, PlanBody())
        old_count = await api.store.count(scope, where) if settled else 0
        applied = await api.write(scope, plan, erases=_emptied_by(scope, plan))
        await api.state.erase_answers(scope)
        new_count = await api.store.count(scope, where) if applied and settled else old_count
    return max(0, old_count - new_count), applied


def _emptied_by(scope: Scope, plan: PlanBody) -> tuple[Scope, ...]:
    """The scopes that this plan empties: turns of them that are not indexed yet are deleted, too."""
    owner = scope.whole
    if plan.undo_session is not None:
        return (msgspec.structs.replace(scope, session=plan.undo_session),)
    gone = plan.delete_where or Deletion()
    lists: list[Sequence[str | None]] = [gone.session_ids, gone.project_ids, gone.agent_ids]
    places = product(*(names or (None,) for names in lists))
    return tuple(
        msgspec.structs.replace(owner.at(project, agent), session=session) for session, project, agent in places
    )


@operation("POST", "/v1/memory/prune", "memory:write", body_optional=True)
async def prune(api: Backends, call: Call, body: PruneBody) -> Pruned:
    """Erase what has expired or is over the limit, or tell what would go."""
    scope = call.scope()
    api.require("store", "state")
    if not body.dry_run:
        if call.identity.bound_project:
            raise Forbidden("Pruning concerns all projects: a key that is bound to one can only ask (dry_run).")
        gone = await api.pruner.prune(scope)
        return Pruned(gone.total(), dict(gone), dry_run=False)
    due = await api.pruner.due(scope)
    visible = [pruned for pruned in due if scope.sees(pruned.memory.project_id, pruned.memory.agent_id)]
    data = [
        PrunedMemory(old.memory.id, old.memory.kind.value, old.memory.active, old.reason, round(old.score, 4))
        for old in visible[:MOST_SHOWN]
    ]
    return Pruned(len(visible), Counter(pruned.reason for pruned in visible), dry_run=True, data=data)
