"""`/v1/memory` and `/v1/memory/{id}`: store one, list, read, edit, forget one or by scope."""

import uuid
from datetime import datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import QUEUED, Backends, OwnerLocks, Writer, find, scope_and_filter
from memproxy.api.http import answer, caller, read_body, read_query
from memproxy.api.schemas import ListQuery, MemoryEdit, NewMemory, NoQuery, OneQuery, ScopeQuery, SessionQuery
from memproxy.auth import resolve_scope
from memproxy.core.memory import Kind, Memory, Source, to_payload, to_public
from memproxy.core.protocol import Deletion, Identity, PlanBody
from memproxy.core.redact import redact
from memproxy.core.scope import Scope
from memproxy.errors import RequestError, StoreUnavailable
from memproxy.learn.vectors import merged
from memproxy.ports import MemoryFilter, SlotChange

SCOPE_FIELDS = frozenset({"user_id", "project_id", "agent_id", "session_id"})
NOT_CLEARABLE = frozenset({"kind", "content", "tags", "entities", "confidence", "importance", "trust", "metadata"})
TURN_METADATA = ("role", "seq", "name")


class Memories:
    """The calls about memories as such."""

    def __init__(self, backends: Backends, writer: Writer, locks: OwnerLocks) -> None:
        self._backends = backends
        self._writer = writer
        self._locks = locks
        self._max_bytes = backends.settings.server.max_body_bytes
        self._redact = frozenset[str](backends.settings.privacy.redact)

    async def create(self, request: Request) -> Response:
        """`POST /v1/memory`: always a new memory under a new id."""
        identity = caller(request, "memory:write")
        read_query(request, NoQuery)
        body = await read_body(request, NewMemory, self._max_bytes)
        scope = resolve_scope(
            identity, user=body.user_id, project=body.project_id, agent=body.agent_id, session=body.session_id
        )
        memory = self._new_memory(scope, body)
        applied = await self._writer.plan(scope, PlanBody(upserts=[memory]))
        return await self._written(scope, memory, applied=applied, status=201)

    def _new_memory(self, scope: Scope, body: NewMemory) -> Memory:
        now = self._backends.clock.now()
        fields = body.model_dump(exclude=set(SCOPE_FIELDS)) | {
            "id": f"mem_{uuid.uuid4().hex}",
            "tenant": scope.tenant,
            "user_id": scope.user,
            "project_id": scope.project,
            "agent_id": scope.agent,
            "session_id": scope.session,
            "content": redact(body.content, self._redact),
            "source": Source.API,
            "created_at": now,
            "updated_at": now,
            "active": _holds(body.valid_to, now),
        }
        return msgspec.convert(fields, Memory)

    async def _written(self, scope: Scope, memory: Memory, *, applied: bool, status: int) -> Response:
        """The memory as it is stored; as it is planned when the store is away."""
        location = {"location": f"/v1/memory/{memory.id}"} if status == 201 else {}
        if not applied:
            return answer(to_public(memory), 202, location | QUEUED)
        try:
            stored = (await self._backends.store.get(scope, [memory.id])).get(memory.id)
        except StoreUnavailable:
            stored = None  # it is written; only reading it back failed
        return answer(to_public(stored or memory), status, location)

    async def page(self, request: Request) -> Response:
        """`GET /v1/memory`: newest first, a page at a time."""
        identity = caller(request, "memory:read")
        query = read_query(request, ListQuery)
        scope, where = scope_and_filter(identity, query, self._backends.clock.now())
        self._backends.require_store()
        page = await self._backends.store.page(scope, where, limit=query.limit, cursor=query.cursor)
        return answer({"data": [to_public(memory) for memory in page.memories], "next_cursor": page.next_cursor})

    async def read(self, request: Request) -> Response:
        """`GET /v1/memory/{id}`."""
        scope = _scope_of_one(request, caller(request, "memory:read"))
        return answer(to_public(await find(self._backends, scope, request.path_params["memory_id"])))

    async def edit(self, request: Request) -> Response:
        """`PATCH /v1/memory/{id}`: the given fields change, the rest and the id stay."""
        identity = caller(request, "memory:write")
        body = await read_body(request, MemoryEdit, self._max_bytes)
        scope = _scope_of_one(request, identity, body.user_id)
        async with self._locks.of(scope):
            current = await find(self._backends, scope, request.path_params["memory_id"])
            changes = self._changes(current, body)
            if not changes:
                return answer(to_public(current))
            edited = merged(current, changes)
            plan = PlanBody(changes={current.id: msgspec.to_builtins(changes)})
            applied = await self._writer.plan(_place_of(scope, current), plan)
        return await self._written(_place_of(scope, current), edited, applied=applied, status=200)

    def _changes(self, current: Memory, body: MemoryEdit) -> dict[str, Any]:
        given = body.model_dump(include=body.model_fields_set - {"user_id"})
        for name in NOT_CLEARABLE & given.keys():
            if given[name] is None:
                raise RequestError(f"{name}: must not be null.", param=name)
        if current.kind is Kind.TURN:
            _check_turn_edit(given)
            given = _with_turn_metadata(current, given)
        if "content" in given:
            given["content"] = redact(given["content"], self._redact)
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
        """`DELETE /v1/memory/{id}`."""
        scope = _scope_of_one(request, caller(request, "memory:write"))
        async with self._locks.of(scope):
            memory = await find(self._backends, scope, request.path_params["memory_id"])
            applied = await self._writer.plan(scope, _forgetting(memory))
        return _deleted(1, applied=applied)

    async def forget_scope(self, request: Request) -> Response:
        """`DELETE /v1/memory?user_id=…`: never without a scope that was named for this call.

        A caller who stands in a project (by header) forgets in that project only.
        """
        identity = caller(request, "memory:write")
        query = read_query(request, ScopeQuery)
        if query.user_id is None and query.project_id is None and query.session_id is None:
            raise RequestError(
                "Nothing is deleted without a scope: give user_id, project_id or session_id.", param="user_id"
            )
        scope = Scope(tenant=identity.tenant, user=resolve_scope(identity, user=query.user_id).user)
        return await self._forget_where(scope, query.session_id, query.project_id or identity.project)

    async def forget_session(self, request: Request) -> Response:
        """`DELETE /v1/memory/sessions/{id}`: the session's turns and what was learned from it."""
        identity = caller(request, "memory:write")
        query = read_query(request, SessionQuery)
        scope = Scope(tenant=identity.tenant, user=resolve_scope(identity, user=query.user_id).user)
        return await self._forget_where(scope, request.path_params["session_id"], None)

    async def forget_user(self, request: Request) -> Response:
        """`DELETE /v1/memory/users/{id}`: everything of that user."""
        identity = caller(request, "memory:write")
        read_query(request, NoQuery)
        scope = Scope(tenant=identity.tenant, user=resolve_scope(identity, user=request.path_params["user_id"]).user)
        return await self._forget_where(scope, None, None)

    async def _forget_where(self, scope: Scope, session: str | None, project: str | None) -> Response:
        """Delete by scope, in the journal's order: what waits to be written before it is deleted, too."""
        sessions, projects = _some(session), _some(project)
        where = MemoryFilter(session_ids=tuple(sessions), project_ids=tuple(projects))
        async with self._locks.of(scope):
            settled = await self._writer.plan(scope, PlanBody())
            count = await self._backends.store.count(scope, where) if settled else 0
            held = await self._slot_holders(scope, where) if settled else []
            plan = PlanBody(delete_where=Deletion(session_ids=sessions, project_ids=projects))
            applied = await self._writer.plan(scope, plan)
            if applied:
                await self._free_slots(scope, held)
                if project is None:
                    await self._backends.receipts_written()
                    await self._backends.state.forget(scope, session=session)
        return _deleted(count, applied=applied)

    async def _slot_holders(self, scope: Scope, where: MemoryFilter) -> list[Memory]:
        where = msgspec.structs.replace(where, active=True, kinds=tuple(kind for kind in Kind if kind is not Kind.TURN))
        held: list[Memory] = []
        cursor = None
        while True:
            page = await self._backends.store.page(scope, where, limit=200, cursor=cursor)
            held += [memory for memory in page.memories if memory.slot is not None]
            cursor = page.next_cursor
            if cursor is None:
                return held

    async def _free_slots(self, scope: Scope, memories: list[Memory]) -> None:
        for memory in memories:
            if memory.slot is not None and memory.active:
                # one by one: a slot that somebody else took meanwhile is theirs, and no reason to keep the others
                await self._backends.state.change_slots(
                    scope, [SlotChange(slot=memory.slot, expected=memory.id, new=None)]
                )


def _scope_of_one(request: Request, identity: Identity, user: str | None = None) -> Scope:
    """Where a memory is looked for by its id; a turn's id may be used in two sessions, then ``session_id`` decides."""
    query = read_query(request, OneQuery)
    if query.user_id is not None and user is not None and query.user_id != user:
        raise RequestError("user_id in the query and in the body disagree: name one user.", param="user_id")
    return resolve_scope(
        identity,
        user=query.user_id or user,
        project=query.project_id,
        agent=query.agent_id,
        session=query.session_id,
    )


def _place_of(scope: Scope, memory: Memory) -> Scope:
    """The scope in which this memory, and not its namesake in another session, is written."""
    return Scope(tenant=scope.tenant, user=scope.user, session=memory.session_id)


def _check_turn_edit(given: dict[str, Any]) -> None:
    for name in ("content", "kind", "session_id"):
        if name in given:
            raise RequestError(f"{name}: a turn is verbatim; forget it, or store another one.", param=name)


def _with_turn_metadata(current: Memory, given: dict[str, Any]) -> dict[str, Any]:
    if "metadata" not in given:
        return given
    ours = {name: current.metadata[name] for name in TURN_METADATA if name in current.metadata}
    return given | {"metadata": given["metadata"] | ours}


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


def _deleted(count: int, *, applied: bool) -> Response:
    if applied:
        return answer({"deleted": count})
    return answer({"deleted": count, "queued": True}, 202, QUEUED)
