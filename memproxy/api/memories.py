"""`/v1/memory` and `/v1/memory/{id}`: store one, list, read, edit one, and what it took the place of."""

import logging
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import msgspec
from pydantic import BeforeValidator, ConfigDict, FailFast, Field, ValidationInfo, field_validator

from memproxy.api.calls import Call, Reply, operation, tagged
from memproxy.api.context import QUEUED, Backends, find, scope_and_filter
from memproxy.api.fields import Content, FactKind, Label, Labels, Metadata, Name, OptionalTime, Phrase, Trusted, Unit
from memproxy.api.knowledge import with_subcategories
from memproxy.api.models import Body, ChangedMemory, ListQuery, OneShownQuery, Shown, ShownMemory
from memproxy.api.palace import in_palace
from memproxy.api.turns import RESERVED_METADATA
from memproxy.core.dream import INFERRED, PERMISSION
from memproxy.core.facts import following_edits
from memproxy.core.memory import Kind, Memory, Source, to_payload, to_public
from memproxy.core.memory_feedback import CORRECTS, FEEDBACK
from memproxy.core.protocol import REFINE, LearnBody, PlanBody
from memproxy.core.redact import redact_memory
from memproxy.core.scope import Scope
from memproxy.errors import Forbidden, NotFound, RequestError, StateUnavailable, StoreUnavailable
from memproxy.learn.memory_vectors import merged
from memproxy.learn.planted import marked_anew, marked_unless_own
from memproxy.ports import JournalKind
from memproxy.retention.leftovers import erase_empty_places

log = logging.getLogger(__name__)

SCOPE_FIELDS = frozenset({"user_id", "project_id", "agent_id", "session_id"})
NOT_CLEARABLE = frozenset({"kind", "content", "tags", "entities", "confidence", "importance", "trust", "metadata"})
PLACING = frozenset({"subject", "category", "session_id", "project_id", "agent_id"})
"""Fields that say where in the palace a memory stands."""

LONGEST_HISTORY = 1_000


def refuse_turn(value: object) -> object:
    """A memory's kind, which cannot be ``turn`` here."""
    if value == "turn":
        raise ValueError("cannot be turn here: a turn is a verbatim message, send it to POST /v1/memory/turns")
    return value


class RelationBody(Body):
    """An edge of the memory graph, with the interval in which it held."""

    subject: Phrase
    predicate: Phrase
    object: Phrase
    valid_from: OptionalTime = None
    valid_to: OptionalTime = None


class DescribedFields(Body):
    """What can be said of any memory besides its content."""

    category: Label | None = None
    tags: Labels = Field([])
    entities: Labels = Field([])
    subject: Phrase | None = None
    predicate: Phrase | None = None
    object: Phrase | None = None
    aspect: Phrase | None = None
    stance: Phrase | None = None
    confidence: Unit = 1.0
    importance: Unit = 0.5
    trust: Trusted = "user"
    valid_from: OptionalTime = None
    valid_to: OptionalTime = None
    expires_at: OptionalTime = None
    relations: Annotated[list[RelationBody], FailFast(), Field(max_length=100)] = Field([])
    metadata: Metadata = Field({})
    user_id: Name | None = None
    project_id: Name | None = None
    agent_id: Name | None = None
    session_id: Name | None = None

    @field_validator("valid_to")
    @classmethod
    def _validity_is_an_interval(cls, valid_to: datetime | None, info: ValidationInfo) -> datetime | None:
        valid_from = info.data.get("valid_from")
        if valid_from and valid_to and valid_to < valid_from:
            raise ValueError("must not lie before valid_from")
        return valid_to


class MemoryFields(DescribedFields):
    """What a client may say of a memory besides its content."""

    kind: Annotated[FactKind, BeforeValidator(refuse_turn)] = "semantic"


class NewMemory(MemoryFields):
    """`POST /v1/memory`. ``refine``: where a model learns, it splits, labels and relates the memory afterwards."""

    content: Content
    refine: bool = False


def _without_defaults(schema: dict[str, Any]) -> None:
    """A generated client sends the described defaults of what it is not given: they would replace what is stored."""
    for field in schema["properties"].values():
        field.pop("default", None)


class MemoryEdit(MemoryFields):
    """`PATCH /v1/memory/{id}`: only the fields that are given change. ``user_id`` says whose memory it is.

    ``quarantined``: false confirms what waits because its source is not trusted enough, true withholds it again.
    """

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    content: Content = ""
    quarantined: bool = False


class MemoryPage(msgspec.Struct):
    """One page of memories."""

    data: list[ShownMemory]
    next_cursor: str | None


class History(msgspec.Struct):
    """A supersession chain, oldest first."""

    data: list[ShownMemory]


@operation("POST", "/v1/memory", "memory:write", query=Shown, statuses=(201, 202), errors=(429,), etag=True)
async def create(api: Backends, call: Call, body: NewMemory) -> Reply[Memory]:
    """Store one memory.

    Always a new memory under a new id.
    """
    scope = call.scope(body.session_id)
    now = api.parts.clock.now()
    if body.expires_at is not None and body.expires_at <= now:
        raise RequestError("expires_at: must lie in the future; else it would never be there.", param="expires_at")
    await api.quotas.admit_memories(scope, 1)
    fields = redact_memory(body.model_dump(exclude={*SCOPE_FIELDS, "refine"}), api.redacted) | {
        "id": call.new_id("mem"),
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
    memory = await marked_unless_own(msgspec.convert(fields, Memory))
    location = {"location": f"/v1/memory/{memory.id}"}
    applied = await api.write(scope, PlanBody(upserts=[memory]))
    if body.refine and api.parts.settings.learn.enabled and api.parts.settings.learn.mode == "model":
        try:
            await api.append(scope, JournalKind.LEARN, LearnBody(unlearned=0, reason=REFINE, refine=memory.id))
        except StateUnavailable as error:  # it is stored, and stays as it was told
            log.warning("a saved memory is not refined: %s", error.message)
    if not applied:
        return Reply(to_public(memory, nulls=call.nulls), 202, location | QUEUED)
    memory = await _as_stored(api, scope, memory)
    return Reply(to_public(memory, nulls=call.nulls), 201, location | tagged(memory, api.parts.secret))


async def _as_stored(api: Backends, scope: Scope, memory: Memory) -> Memory:
    """The memory as the store has it; as it was written where reading it back fails."""
    try:
        return (await api.store.get(scope, [memory.id])).get(memory.id, memory)
    except StoreUnavailable:
        return memory


@operation("GET", "/v1/memory", "memory:read", etag=True, audited_read="user.list")
async def list_memories(api: Backends, call: Call, query: ListQuery) -> MemoryPage:
    """List memories, newest first."""
    scope, where = scope_and_filter(call.identity, query, api.parts.clock.now())
    where = await in_palace(api, scope, query, await with_subcategories(api, scope, where))
    page = await api.store.page(scope, where, limit=query.limit, cursor=query.cursor)
    return MemoryPage([call.show(memory) for memory in page.memories], page.next_cursor)


@operation("GET", "/v1/memory/{id}", "memory:read", errors=(404, 409), etag=True, audited_read="memory.read")
async def read(api: Backends, call: Call, query: OneShownQuery) -> Reply[Memory]:
    """Read one memory."""
    memory = await find(api, call.scope(query.session_id), call.path["id"], session=query.session_id)
    return Reply(call.show(memory), headers=tagged(memory, api.parts.secret))


@operation("PATCH", "/v1/memory/{id}", "memory:write", statuses=(200, 202), errors=(404,), etag=True, if_match=True)
async def edit(api: Backends, call: Call, query: OneShownQuery, body: MemoryEdit) -> Reply[ChangedMemory]:
    """Edit one memory: only the given fields change."""
    scope = call.scope(query.session_id)
    async with api.locks.of(*scope.owner):
        current = await find(api, scope, call.path["id"], session=query.session_id)
        expects = call.expected(current, api.parts.secret)
        changes = _changes(api, current, body)
        if call.identity.bound_project and "project_id" in changes:  # moved elsewhere, or in or out of none
            raise Forbidden("This key is for one project: a memory stays in its project.", param="project_id")
        if not changes:
            return Reply(call.show(current), headers=tagged(current, api.parts.secret))
        edited = await marked_anew(current, merged(current, changes))
        if "metadata" in changes or edited.metadata != current.metadata:
            changes["metadata"] = edited.metadata
        plan = PlanBody(changes={current.id: msgspec.to_builtins(changes)}, expects=expects)
        applied = await api.write(place_of(scope, current), plan)
        if applied and not changes.keys().isdisjoint(PLACING):
            await erase_empty_places(api.store, api.state, scope, [current])
    if not applied:
        return Reply(call.show(edited), 202, QUEUED)
    edited = await _as_stored(api, _owner_of(scope, current), edited)
    return Reply(call.show(edited), headers=tagged(edited, api.parts.secret))


def _changes(api: Backends, current: Memory, body: MemoryEdit) -> dict[str, Any]:
    """The fields that an edit changes, and the times that follow from it."""
    edits = redact_memory(body.model_dump(include=body.model_fields_set - {"user_id"}), api.redacted)
    for name in NOT_CLEARABLE & edits.keys():
        if edits[name] is None:
            raise RequestError(f"{name}: must not be null.", param=name)
    if current.kind is Kind.TURN:
        for name in ("content", "kind", "session_id"):
            if name in edits:
                raise RequestError(f"{name}: a turn is verbatim; forget it, or store another one.", param=name)
    if "metadata" in edits:  # who spoke, and what was said of the memory, is not the caller's
        reserved = {FEEDBACK, CORRECTS, INFERRED} | ({PERMISSION} - edits["metadata"].keys())
        reserved |= RESERVED_METADATA if current.kind is Kind.TURN else set()
        edits["metadata"] |= {name: current.metadata[name] for name in reserved & current.metadata.keys()}
    edits |= following_edits(current, edits)
    stored = to_payload(current)
    changed = {name: value for name, value in edits.items() if stored[name] != msgspec.to_builtins(value)}
    valid_from = changed.get("valid_from", current.valid_from)
    valid_to = changed.get("valid_to", current.valid_to)
    if valid_from and valid_to and valid_to < valid_from:
        raise RequestError("valid_to: must not lie before valid_from.", param="valid_to")
    if not changed:
        return {}
    now = api.parts.clock.now()
    if "valid_to" in changed and current.superseded_by is None:
        changed["active"] = _holds(changed["valid_to"], now)
    return changed | {"updated_at": now}


@operation("GET", "/v1/memory/{id}/history", "memory:read", errors=(404, 409), etag=True)
async def history(api: Backends, call: Call, query: OneShownQuery) -> History:
    """The supersession chain of a memory, oldest first.

    That of a message's correction begins with the message, where it took no fact's place.
    """
    scope = call.scope(query.session_id)
    memory = await find(api, scope, call.path["id"])
    visited = {memory.id}

    async def followed(link: str) -> list[Memory]:
        linked: list[Memory] = []
        name: str | None = getattr(memory, link)
        while name is not None and name not in visited and len(linked) < LONGEST_HISTORY:
            visited.add(name)
            try:
                linked.append(await find(api, scope, name))
            except NotFound:  # forgotten or expired: the chain ends there
                break
            name = getattr(linked[-1], link)
        return linked

    earlier = await followed("supersedes")
    if not earlier and (turn := await corrected(api, scope, memory)) is not None:
        earlier = [turn]
    chain = (*earlier[::-1], memory, *await followed("superseded_by"))
    return History([call.show(link_memory) for link_memory in chain])


async def corrected(api: Backends, scope: Scope, correction: Memory) -> Memory | None:
    """The message that a correction is of, as far as it is there and the caller sees it."""
    match correction.metadata.get(CORRECTS):
        case [str(session), str(turn)]:
            with suppress(NotFound):
                return await find(api, msgspec.structs.replace(scope, session=session), turn, session=session)
    return None


def _owner_of(scope: Scope, memory: Memory) -> Scope:
    """A scope that finds this memory wherever it was moved to, and not a turn of the same id in another session."""
    return Scope(tenant=scope.tenant, user=scope.user, session=memory.session_id)


def place_of(scope: Scope, memory: Memory) -> Scope:
    """The scope in the memory's project and agent, whose callers see the change in `/v1/memory/activity`."""
    return _owner_of(scope, memory).at(memory.project_id, memory.agent_id)


def _holds(valid_to: datetime | None, now: datetime) -> bool:
    return valid_to is None or valid_to > now
