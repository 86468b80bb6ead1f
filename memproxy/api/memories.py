"""`/v1/memory` and `/v1/memory/{id}`: store one, list, read, edit, forget one or by scope."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import product
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.audit import Audit
from memproxy.api.context import QUEUED, Backends, OwnerLocks, Writer, find, scope_and_filter, sees_session, shown_to
from memproxy.api.http import answer, caller, read_body, read_query
from memproxy.api.idempotency import new_id
from memproxy.api.knowledge import FACTS
from memproxy.api.places import in_palace
from memproxy.api.queries import NoQuery, OneQuery, OneShownQuery, ScopeQuery, SessionQuery
from memproxy.api.schemas import ListQuery, MemoryEdit, NewMemory, Shown
from memproxy.api.versions import expected, list_answer, memory_answer, tagged
from memproxy.auth import administered_user, clean_id, resolve_project, resolve_scope
from memproxy.core.correct import following
from memproxy.core.feedback import FEEDBACK
from memproxy.core.memory import Kind, Memory, Source, to_payload, to_public
from memproxy.core.protocol import Deletion, Identity, PlanBody
from memproxy.core.redact import redact_memory
from memproxy.core.scope import Scope
from memproxy.errors import Forbidden, MemoryUnavailable, NotFound, RequestError, StoreUnavailable
from memproxy.learn.guard import marked_anew, marked_unless_own
from memproxy.learn.vectors import merged
from memproxy.ports import MemoryFilter
from memproxy.retention.leftovers import forget_queries_of, leave_empty_places

SCOPE_FIELDS = frozenset({"user_id", "project_id", "agent_id", "session_id"})
NOT_CLEARABLE = frozenset({"kind", "content", "tags", "entities", "confidence", "importance", "trust", "metadata"})
ERASURE = "x-memproxy-erasure"
"""Header of a deletion's answer: ``complete``, or ``pending`` while deleted text may be in the store's files."""

PLACING = frozenset({"subject", "category", "session_id", "project_id", "agent_id"})
"""Fields that say where in the palace a memory stands."""

_MOST_TOLD = 200
"""Facts of one message that are looked at when it is deleted; beyond them they go uncounted."""

TURN_METADATA = ("role", "seq", "name")


class Memories:
    """The calls about memories as such."""

    def __init__(self, backends: Backends, writer: Writer, locks: OwnerLocks, audit: Audit) -> None:
        self._backends = backends
        self._audit = audit
        self._writer = writer
        self._locks = locks
        self._max_bytes = backends.settings.server.max_body_bytes
        self._redact = frozenset[str](backends.settings.privacy.redact)

    async def create(self, request: Request) -> Response:
        """`POST /v1/memory`: always a new memory under a new id."""
        identity = caller(request, "memory:write")
        query = read_query(request, Shown)
        body = await read_body(request, NewMemory, self._max_bytes)
        scope = resolve_scope(
            identity, user=body.user_id, project=body.project_id, agent=body.agent_id, session=body.session_id
        )
        if body.expires_at is not None and body.expires_at <= self._backends.clock.now():
            raise RequestError("expires_at: must lie in the future; else it would never be there.", param="expires_at")
        await self._backends.quotas.admit_memories(scope, 1)
        memory = await marked_unless_own(self._new_memory(scope, body, new_id(request, "mem", uuid.uuid4().hex)))
        applied = await self._writer.plan(scope, PlanBody(upserts=[memory]))
        return await self._written(scope, memory, partial(to_public, nulls=query.nulls), applied=applied, status=201)

    def _new_memory(self, scope: Scope, body: NewMemory, name: str) -> Memory:
        now = self._backends.clock.now()
        fields = redact_memory(body.model_dump(exclude=set(SCOPE_FIELDS)), self._redact) | {
            "id": name,
            "tenant": scope.tenant,
            "user_id": scope.user,
            "project_id": scope.project,
            "agent_id": scope.agent,
            "session_id": scope.session,
            "source": Source.API,
            "created_at": now,
            "updated_at": now,
            "active": _holds(body.valid_to, now),
        }
        return msgspec.convert(fields, Memory)

    async def _written(
        self, scope: Scope, memory: Memory, show: Callable[[Memory], dict[str, Any]], *, applied: bool, status: int
    ) -> Response:
        """The memory as it is stored; as it is planned when the store is away."""
        location = {"location": f"/v1/memory/{memory.id}"} if status == 201 else {}
        if not applied:
            return answer(show(memory), 202, location | QUEUED)
        try:
            stored = (await self._backends.store.get(scope, [memory.id])).get(memory.id)
        except StoreUnavailable:
            stored = None  # it is written; only reading it back failed
        shown = stored or memory
        return answer(show(shown), status, location | tagged(shown))

    async def page(self, request: Request) -> Response:
        """`GET /v1/memory`: newest first, a page at a time."""
        identity = caller(request, "memory:read")
        query = read_query(request, ListQuery)
        scope, where = scope_and_filter(identity, query, self._backends.clock.now())
        self._backends.require_store()
        where = await in_palace(self._backends, scope, query, where)
        page = await self._backends.store.page(scope, where, limit=query.limit, cursor=query.cursor)
        data = {"data": [to_public(memory, nulls=query.nulls) for memory in page.memories]}
        return list_answer(request, data | {"next_cursor": page.next_cursor})

    async def read(self, request: Request) -> Response:
        """`GET /v1/memory/{id}`."""
        identity = caller(request, "memory:read")
        query = read_query(request, OneShownQuery)
        memory = await _one(self._backends, _scope_of_one(identity, query), request)
        return memory_answer(request, memory, nulls=query.nulls)

    async def edit(self, request: Request) -> Response:
        """`PATCH /v1/memory/{id}`: the given fields change, the rest and the id stay."""
        identity = caller(request, "memory:write")
        query = read_query(request, OneShownQuery)
        body = await read_body(request, MemoryEdit, self._max_bytes)
        scope = _scope_of_one(identity, query, body.user_id)
        show = partial(shown_to, identity, nulls=query.nulls)
        async with self._locks.of(scope):
            current = await _one(self._backends, scope, request)
            expects = expected(request, current)
            changes = self._changes(current, body)
            check_place(identity, changes)
            if not changes:
                return answer(show(current), 200, tagged(current))
            edited = await marked_anew(current, merged(current, changes))
            if "metadata" in changes or edited.metadata != current.metadata:
                changes["metadata"] = edited.metadata
            plan = PlanBody(changes={current.id: msgspec.to_builtins(changes)}, expects=expects)
            applied = await self._writer.plan(_place_of(scope, current), plan)
            if applied and not changes.keys().isdisjoint(PLACING):
                await leave_empty_places(self._backends.store, self._backends.state, scope, [current])
        return await self._written(_owner_of(scope, current), edited, show, applied=applied, status=200)

    def _changes(self, current: Memory, body: MemoryEdit) -> dict[str, Any]:
        given = redact_memory(body.model_dump(include=body.model_fields_set - {"user_id"}), self._redact)
        for name in NOT_CLEARABLE & given.keys():
            if given[name] is None:
                raise RequestError(f"{name}: must not be null.", param=name)
        if current.kind is Kind.TURN:
            _check_turn_edit(given)
        if "metadata" in given:
            given["metadata"] |= _kept_metadata(current)
        given |= following(current, given)
        stored = to_payload(current)
        changed = {name: value for name, value in given.items() if stored[name] != msgspec.to_builtins(value)}
        _check_interval(current, changed)
        return changed | self._stamps(current, changed) if changed else {}

    def _stamps(self, current: Memory, changed: dict[str, Any]) -> dict[str, Any]:
        now = self._backends.clock.now()
        if "valid_to" not in changed or current.superseded_by is not None:
            return {"updated_at": now}
        return {"updated_at": now, "active": _holds(changed["valid_to"], now)}

    async def forget(self, request: Request) -> Response:
        """`DELETE /v1/memory/{id}`; with a message goes what was learned from it alone."""
        identity = caller(request, "memory:write")
        scope = _scope_of_one(identity, read_query(request, OneQuery))
        async with self._locks.of(scope):
            memory = await _one(self._backends, scope, request)
            plan = _forgetting(memory)
            plan.expects = expected(request, memory)
            told = await self._told_by(scope, memory) if memory.kind is Kind.TURN else []
            applied = await self._writer.plan(_place_of(scope, memory), plan)
            await self._backends.state.erase_answers(scope)
            if applied:
                await self._backends.receipts_written()
                await forget_queries_of(self._backends.state, scope, [memory])
            deleted = 1 + (await self._gone(scope, told) if applied else 0)
        self._backends.quotas.forgotten(scope)
        await self._audit.note(
            identity, "memory.forget", counts={"deleted": deleted}, user_id=scope.user, memory_id=memory.id
        )
        return _deleted(deleted, applied=applied)

    async def _told_by(self, scope: Scope, turn: Memory) -> list[str]:
        """The ids of the facts that rest on a message, as far as the caller sees them and that can be told now."""
        where = MemoryFilter(turn_ids=(turn.id,), kinds=FACTS)
        try:
            page = await self._backends.store.page(scope, where, limit=_MOST_TOLD)
        except StoreUnavailable:
            return []
        return [fact.id for fact in page.memories]

    async def _gone(self, scope: Scope, facts: Sequence[str]) -> int:
        """How many of these are not there any more; others may have been written and deleted meanwhile."""
        where = MemoryFilter(ids=tuple(facts), kinds=FACTS)
        try:
            return len(facts) - await self._backends.store.count(scope, where) if facts else 0
        except StoreUnavailable:
            return 0

    async def forget_scope(self, request: Request) -> Response:
        """`DELETE /v1/memory?user_id=…`: never without a scope that was named for this call.

        A caller who stands in a project or agent (by header) forgets what is of that one only.
        """
        identity = caller(request, "memory:write")
        query = read_query(request, ScopeQuery)
        if query.user_id is None and query.project_id is None and query.session_id is None:
            raise RequestError(
                "Nothing is deleted without a scope: give user_id, project_id or session_id.", param="user_id"
            )
        scope = Scope(tenant=identity.tenant, user=resolve_scope(identity, user=query.user_id).user)
        project = resolve_project(identity, query.project_id)
        session_ids, agent_ids = _some(query.session_id), _some(identity.agent)
        gone = Deletion(session_ids=session_ids, project_ids=_some(project), agent_ids=agent_ids)
        deleted, applied = await self._forget_where(scope, gone)
        await self._audit.note(
            identity,
            "memory.forget_scope",
            counts={"deleted": deleted},
            user_id=scope.user,
            session_id=query.session_id,
            project_id=project,
        )
        return _deleted(deleted, applied=applied)

    async def forget_session(self, request: Request) -> Response:
        """`DELETE /v1/memory/sessions/{id}`: undo a conversation: its turns and what was learned from it alone go, what
        that superseded is active again. A caller who stands in a project (agent) undoes what it sees of it.
        """
        identity = caller(request, "memory:write")
        query = read_query(request, SessionQuery)
        scope = msgspec.structs.replace(resolve_scope(identity, user=query.user_id), session=None)
        session = clean_id(request.path_params["session_id"], "session_id")
        wait_s = self._backends.write_timeout_s
        there = not identity.bound_project or await sees_session(self._backends, scope, session, wait_s)
        deleted, applied = await self._forget_by(scope, PlanBody(undo_session=session), MemoryFilter())
        await self._audit.note(
            identity, "session.undo", counts={"deleted": deleted}, user_id=scope.user, session_id=session
        )
        if applied and not there:
            raise NotFound(f"No conversation has the id {session[:200]!r}.", param="session_id")
        return _deleted(deleted, applied=applied)

    async def forget_user(self, request: Request) -> Response:
        """`DELETE /v1/memory/users/{id}`: everything of that user; ``admin`` may erase whom it may not read."""
        identity = caller(request, "memory:write", "admin")
        read_query(request, NoQuery)
        scope = Scope(tenant=identity.tenant, user=administered_user(identity, request.path_params["user_id"]))
        if identity.bound_project:
            raise Forbidden("This key is for one project: forget that one's memories (DELETE /v1/memory?project_id=…).")
        deleted, applied = await self._forget_where(scope, Deletion())
        erased = applied and await self._erased()
        await self._audit.note(identity, "user.erase", counts={"deleted": deleted}, user_id=scope.user)
        return _deleted(deleted, applied=applied, erased=erased)

    async def _erased(self) -> bool:
        """Deleted text stays in the store's files until they are written anew: here erasure is worth the pause. False:
        it cannot be done now (the disk has no room for it); the eraser says why, and tries again.
        """
        try:
            await self._backends.eraser.now()
        except MemoryUnavailable:
            return False
        return True

    async def _forget_where(self, scope: Scope, gone: Deletion) -> tuple[int, bool]:
        where = MemoryFilter(session_ids=tuple(gone.session_ids), project_ids=tuple(gone.project_ids))
        where = msgspec.structs.replace(where, agent_ids=tuple(gone.agent_ids))
        return await self._forget_by(scope, PlanBody(delete_where=gone), where)

    async def _forget_by(self, scope: Scope, plan: PlanBody, where: MemoryFilter) -> tuple[int, bool]:
        """Delete by a plan, in the journal's order: what waits to be written before it is deleted, too. With it goes
        what the state holds of the owner, or of the session (`learn.erasure`), be it later. Answers how many memories
        went of those that match and that the scope sees, and whether that is done.
        """
        async with self._locks.of(scope):
            await self._backends.receipts_written()
            # what is known to wait is not waited for: the deletion may go ahead of it
            settled = not self._backends.worker.waits(scope) and await self._writer.plan(scope, PlanBody())
            before = await self._backends.store.count(scope, where) if settled else 0
            applied = await self._writer.plan(scope, plan, erases=_erased_by(scope, plan))
            await self._backends.state.erase_answers(scope)
            after = await self._backends.store.count(scope, where) if applied and settled else before
        self._backends.quotas.forgotten(scope)
        return max(0, before - after), applied


def _scope_of_one(identity: Identity, query: OneQuery, user: str | None = None) -> Scope:
    """Where a memory is looked for by its id; a turn's id may be used in two sessions, then ``session_id`` decides."""
    if query.user_id is not None and user is not None and query.user_id != user:
        raise RequestError("user_id in the query and in the body disagree: name one user.", param="user_id")
    return resolve_scope(
        identity,
        user=query.user_id or user,
        project=query.project_id,
        agent=query.agent_id,
        session=query.session_id,
    )


async def _one(backends: Backends, scope: Scope, request: Request) -> Memory:
    """The memory that the path names, a turn in the session that the query names. Raises as `find`."""
    return await find(backends, scope, request.path_params["memory_id"], session=request.query_params.get("session_id"))


def _owner_of(scope: Scope, memory: Memory) -> Scope:
    """The scope in which this memory, and not its namesake in another session, is found wherever it is moved to."""
    return Scope(tenant=scope.tenant, user=scope.user, session=memory.session_id)


def _place_of(scope: Scope, memory: Memory) -> Scope:
    """The same where the memory stands: what is done to it is told (`/v1/memory/activity`) to who sees it there."""
    return _owner_of(scope, memory).at(memory.project_id, memory.agent_id)


def check_place(identity: Identity, changes: Mapping[str, Any]) -> None:
    """Pass an edit that leaves the memory where the caller's key is for.

    Raises:
        Forbidden: a key of one project would move it to another project, or in or out of none.
    """
    if identity.bound_project and "project_id" in changes:
        raise Forbidden("This key is for one project: a memory stays in its project.", param="project_id")


def _check_turn_edit(given: dict[str, Any]) -> None:
    for name in ("content", "kind", "session_id"):
        if name in given:
            raise RequestError(f"{name}: a turn is verbatim; forget it, or store another one.", param=name)


def _kept_metadata(current: Memory) -> dict[str, Any]:
    """What an edit of the metadata does not take away: who spoke, and what was said of the memory."""
    names = {FEEDBACK, *(TURN_METADATA if current.kind is Kind.TURN else ())}
    return {name: current.metadata[name] for name in names & current.metadata.keys()}


def _check_interval(current: Memory, changed: dict[str, Any]) -> None:
    valid_from = changed.get("valid_from", current.valid_from)
    valid_to = changed.get("valid_to", current.valid_to)
    if valid_from and valid_to and valid_to < valid_from:
        raise RequestError("valid_to: must not lie before valid_from.", param="valid_to")


def _holds(valid_to: datetime | None, now: datetime) -> bool:
    return valid_to is None or valid_to > now


def _forgetting(memory: Memory) -> PlanBody:
    """The plan that forgets one memory; a turn's namesake in another session stays."""
    if memory.kind is Kind.TURN and memory.session_id is not None:
        return PlanBody(delete_where=Deletion(ids=[memory.id], session_ids=[memory.session_id]))
    return PlanBody(deletes=[memory.id])


def _some(value: str | None) -> list[str]:
    return [] if value is None else [value]


def _erased_by(scope: Scope, plan: PlanBody) -> tuple[Scope, ...]:
    """The places that this plan empties: what was said there before, and is still on its way, goes too."""
    owner = Scope(tenant=scope.tenant, user=scope.user)
    if plan.undo_session is not None:
        return (msgspec.structs.replace(scope, session=plan.undo_session),)
    gone = plan.delete_where or Deletion()
    lists: list[Sequence[str | None]] = [gone.session_ids, gone.project_ids, gone.agent_ids]
    places = product(*(names or (None,) for names in lists))
    return tuple(msgspec.structs.replace(owner.at(project, agent), session=one) for one, project, agent in places)


def _deleted(count: int, *, applied: bool, erased: bool = False) -> Response:
    """``erased``: no byte of it is in a file any more; else that is so in a while."""
    erasure = {ERASURE: "complete" if erased and applied else "pending"}
    if applied:
        return answer({"deleted": count}, headers=erasure)
    return answer({"deleted": count, "queued": True}, 202, QUEUED | erasure)
