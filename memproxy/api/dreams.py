"""`/v1/memory/dream`, `/dreams` and `/reflect`: what is remembered is tidied; what each dream did; taking one back."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from memproxy.api.calls import Call, Reply, operation
from memproxy.api.context import Backends, number_after, write_cursor
from memproxy.api.fields import Name, Query
from memproxy.api.models import Body, Instant, PageQuery, ShownMemory, UserQuery, one_of
from memproxy.core.dream import ACTIONS, Action, Change, Dream, mark_of
from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.errors import Forbidden

WAIT_S = 55.0
"""How long a call waits for its dream to end; then it is answered as it is (202)."""

_READ = 200


class DreamBody(Body):
    """`POST /v1/memory/dream`. ``dry_run`` tells what would be done, and changes nothing."""

    user_id: Name | None = None
    dry_run: bool = False


class DreamsQuery(PageQuery, UserQuery):
    """`GET /v1/memory/dreams`."""


class DreamSource(msgspec.Struct):
    """An entry and its text (null: it is gone)."""

    memory_id: str
    content: str | None


class DreamChange(msgspec.Struct):
    """One thing that a dream did: ``memory_id`` stays, is new or was changed, ``sources`` are what it took the place of
    or rests on; ``fields`` has the former and the new value of changed labels.
    """

    action: Annotated[Any, one_of(*ACTIONS)]
    reason: str
    memory_id: str
    content: str | None
    sources: list[DreamSource]
    fields: dict[str, list[Any]]


class DreamTokens(msgspec.Struct):
    """What a dream's model calls cost."""

    input: int
    output: int


class DreamSummary(msgspec.Struct, kw_only=True):
    """A dream: how far it is (``looked_at`` of ``entries``), and how often it did what. Not ``complete``: it stopped at
    a bound, and the next one goes on there. ``id`` is null of a dry run.
    """

    id: str | None
    user_id: str
    state: Annotated[Any, one_of("waiting", "running", "done", "failed", "undone", "dry_run")]
    trigger: Annotated[Any, one_of("call", "schedule", "session_end", "count")]
    model: bool
    created_at: Instant
    ended_at: datetime | None
    undone_at: datetime | None
    entries: int
    looked_at: int
    complete: bool
    counts: dict[str, int]
    tokens: DreamTokens
    notes: list[str]
    error: str | None


class DreamAnswer(DreamSummary, kw_only=True):
    """A dream with all that it did."""

    diff: list[DreamChange]


class Dreams(msgspec.Struct):
    """Dreams, newest first."""

    data: list[DreamSummary]
    next_cursor: str | None


@operation(
    "POST", "/v1/memory/dream", "memory:write", statuses=(200, 202), errors=(409,), body_optional=True, query=UserQuery
)
async def dream(api: Backends, call: Call, body: DreamBody) -> Reply[DreamAnswer]:
    """Consolidate what is remembered of a user, or with dry_run tell what that would do."""
    scope = _whole(call)
    api.require("store", "state")
    if body.dry_run:
        result, steps = await api.parts.worker.dreams.dry_run(scope)
        new = {memory.id: memory for step in steps for memory in step.new}
        return Reply(await _answer(api, call, scope, result, new))
    begun = await api.parts.worker.dreams.begin(scope, "call")
    await api.audit(call.identity, "user.dream", {}, user_id=scope.user)
    result = await api.parts.worker.dreams.ended(scope, begun.id, WAIT_S)
    return Reply(await _answer(api, call, scope, result, {}), 202 if result.is_open else 200)


@operation("GET", "/v1/memory/dreams", "memory:read")
async def list_dreams(api: Backends, call: Call, query: DreamsQuery) -> Dreams:
    """The dreams of a user, newest first."""
    scope = _whole(call)
    after = number_after("dreams", query.cursor)
    rows = await api.state.dreams(scope, after=after, limit=query.limit + 1)
    data = [DreamSummary(**_summary(scope, row)) for row in rows[: query.limit]]
    return Dreams(data, write_cursor("dreams", after + query.limit) if len(rows) > query.limit else None)


@operation("GET", "/v1/memory/dreams/{id}", "memory:read", errors=(404,), query=UserQuery)
async def read_dream(api: Backends, call: Call) -> DreamAnswer:
    """One dream, with all that it did."""
    scope = _whole(call)
    api.require("store", "state")
    return await _answer(api, call, scope, await api.parts.worker.dreams.read(scope, call.path["id"]), {})


@operation("POST", "/v1/memory/dreams/{id}/undo", "memory:write", errors=(404, 409), query=UserQuery)
async def undo_dream(api: Backends, call: Call) -> DreamAnswer:
    """Take back all that a dream did.

    What somebody changed since then stays as it is now.
    """
    scope = _whole(call)
    api.require("store", "state")
    taken_back = await api.parts.worker.dreams.undo(scope, call.path["id"])
    await api.audit(call.identity, "user.dream.undo", {}, user_id=scope.user)
    return await _answer(api, call, scope, taken_back, {})


class ReflectBody(Body):
    """`POST /v1/memory/reflect`. ``query``: what to think about; without it over what was learned last."""

    user_id: Name | None = None
    project_id: Name | None = None
    agent_id: Name | None = None
    query: Query | None = None


class Reflections(msgspec.Struct):
    """The insights that are new."""

    data: list[ShownMemory]


@operation("POST", "/v1/memory/reflect", "memory:write", statuses=(201,), errors=(409,), body_optional=True)
async def reflect(api: Backends, call: Call, body: ReflectBody) -> Reply[Reflections]:
    """Draw conclusions from several memories by a model; they are kept as reflective memories with their sources."""
    scope = msgspec.structs.replace(call.scope(), session=None)
    api.require("store", "state")
    memories = await api.parts.worker.dreams.reflect(scope, body.query)
    await api.audit(call.identity, "user.reflect", {"memories": len(memories)}, user_id=scope.user)
    return Reply(Reflections([call.show(memory) for memory in memories]), 201)


def _whole(call: Call) -> Scope:
    """The user, whose memories of all projects a dream looks at."""
    if call.identity.bound_project:
        raise Forbidden("This key is for one project: dreams look at all of a user's memories.")
    return call.scope().whole


async def _answer(api: Backends, call: Call, scope: Scope, dreamt: Dream, new: Mapping[str, Memory]) -> DreamAnswer:
    """The dream with its changes, the texts as they are stored now (``new``: what is not stored)."""
    ids = {name for change in dreamt.changes for name in (change.memory_id, *change.sources)} - new.keys()
    by_id, names = {**new}, sorted(ids)
    for start in range(0, len(names), _READ):
        by_id |= await api.store.get(scope, names[start : start + _READ])
    shows = "memory:read" in call.identity.permissions

    def source(name: str) -> DreamSource:
        return DreamSource(name, by_id[name].content if shows and name in by_id else None)

    diff = [
        DreamChange(
            action=change.action,
            reason=change.reason,
            memory_id=change.memory_id,
            content=source(change.memory_id).content,
            sources=[source(name) for name in change.sources],
            fields=_fields(change, by_id.get(change.memory_id), dreamt.id) if shows else {},
        )
        for change in dreamt.changes
    ]
    return DreamAnswer(**_summary(scope, dreamt), diff=diff)


def _fields(change: Change, memory: Memory | None, dream_id: str) -> dict[str, list[Any]]:
    """The former and the new labels: of a dry run from the change, later from what the memory notes."""
    if change.action != Action.CATEGORISE or memory is None:
        return {}
    if change.labels:
        return {name: [getattr(memory, name), value] for name, value in change.labels.items()}
    note = mark_of(memory, dream_id)
    was, became = (note["was"], note.get("became", {})) if note is not None and note["was"] else ({}, {})
    return {name: [was[name], became[name]] for name in ("category", "tags") if name in was.keys() & became.keys()}


def _summary(scope: Scope, dreamt: Dream) -> dict[str, Any]:
    fields = msgspec.structs.asdict(dreamt)
    return {name: fields.get(name) for name in DreamSummary.__struct_fields__} | {
        "id": dreamt.id or None,
        "user_id": scope.user,
        "counts": {action: dreamt.counts.get(action, 0) for action in (*ACTIONS, "refused")},
        "tokens": DreamTokens(*dreamt.tokens),
    }
