"""`/v1/memory/conflicts`: statements that cannot both hold, of which nothing tells the newer one. A person decides."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from memproxy.api.calls import Call, operation
from memproxy.api.context import Backends, each_page, page_of
from memproxy.api.fields import Id, Name
from memproxy.api.models import Body, PageQuery, PlaceQuery, Shown, ShownMemory, one_of
from memproxy.core.dream import COMPATIBLE_WITH, CONFLICTS_WITH
from memproxy.core.facts import begins, states_beginning
from memproxy.core.memory import FACTS, Kind, Memory, digest, noted_ids, version_of
from memproxy.core.protocol import PlanBody
from memproxy.core.scope import Scope
from memproxy.core.slots import has_many, predicate_name, same_value, slot_value, subject_name
from memproxy.errors import NotFound, RequestError, StoreUnavailable
from memproxy.learn.consolidate import may_be_compared
from memproxy.ports import MemoryFilter

BOTH, NEITHER = "both", "neither"

_MOST_OF_A_QUESTION = 20
"""Statements that answer one question and are compared with each other, the newest."""


class ConflictsQuery(PageQuery, PlaceQuery, Shown):
    """`GET /v1/memory/conflicts`."""


class Resolution(Body):
    """`POST /v1/memory/conflicts/{id}`. ``keep``: the id of the statement that holds, ``both`` or ``neither``."""

    keep: Id
    user_id: Name | None = None


class ConflictFound(msgspec.Struct):
    """Two statements. ``reason``: they answer one question (``same_question``), or a model says so."""

    id: str
    reason: Annotated[Any, one_of("same_question", "model")]
    memories: list[ShownMemory]


class Conflicts(msgspec.Struct):
    """A page of conflicts."""

    data: list[ConflictFound]
    next_cursor: str | None


class Resolved(msgspec.Struct):
    """What was kept, and both statements as they are now."""

    id: str
    keep: str
    data: list[ShownMemory]


_Pair = tuple[Memory, Memory, str]


@operation("GET", "/v1/memory/conflicts", "memory:read")
async def list_conflicts(api: Backends, call: Call, query: ConflictsQuery) -> Conflicts:
    """Contradictions that neither slot nor date settles.

    Looked for in the newest memories that the caller sees.
    """
    scope = msgspec.structs.replace(call.scope(), session=None)
    conflicts = list((await _conflicts(api, scope)).items())
    page, cursor = page_of("conflicts", conflicts, query.cursor, query.limit)
    data = [ConflictFound(name, reason, [call.show(entry), call.show(other)]) for name, (entry, other, reason) in page]
    return Conflicts(data, cursor)


@operation("POST", "/v1/memory/conflicts/{id}", "memory:write", query=PlaceQuery, errors=(404, 409))
async def resolve(api: Backends, call: Call, body: Resolution) -> Resolved:
    """Say which of two statements holds, that both do, or neither.

    What does not hold stays in the history, superseded by what does.
    """
    scope = msgspec.structs.replace(call.scope(), session=None)
    async with api.locks.of(*scope.owner):
        pair = (await _conflicts(api, scope)).get(call.path["id"])
        if pair is None:
            raise NotFound("No conflict has this id (any more): it may be resolved.", param="id")
        first, other, _ = pair
        if body.keep not in {first.id, other.id, BOTH, NEITHER}:
            raise RequestError(f"keep: must be {first.id!r}, {other.id!r}, both or neither.", param="keep")
        changes = msgspec.to_builtins(_changes(api, first, other, body.keep))
        expects = {memory.id: version_of(memory) for memory in (first, other)}
        if not await api.write(scope, PlanBody(changes=changes, expects=expects)):
            raise StoreUnavailable("The store does not answer: it is resolved as soon as it does. Look again.")
        stored = await api.store.get(scope, [first.id, other.id])
    return Resolved(
        call.path["id"], body.keep, [call.show(stored[name]) for name in (first.id, other.id) if name in stored]
    )


def _changes(api: Backends, first: Memory, other: Memory, keep: str) -> Mapping[str, Mapping[str, Any]]:
    now = api.parts.clock.now()
    if keep == BOTH:
        changes = {}
        for memory, beside in ((first, other), (other, first)):
            compatible = [*noted_ids(memory.metadata, COMPATIBLE_WITH), beside.id]
            changes[memory.id] = {"metadata": memory.metadata | {COMPATIBLE_WITH: compatible}}
        return changes
    if keep == NEITHER:
        return {memory.id: {"active": False, "valid_to": max(now, begins(memory))} for memory in (first, other)}
    winner, loser = (first, other) if keep == first.id else (other, first)
    over = begins(winner) if begins(winner) > begins(loser) else max(now, begins(loser))
    return {
        loser.id: {"active": False, "superseded_by": winner.id, "valid_to": over},
        **({winner.id: {"supersedes": loser.id}} if winner.supersedes is None else {}),
    }


async def _conflicts(api: Backends, scope: Scope) -> dict[str, _Pair]:
    """The conflicts among what the scope sees, by their ids; those learned last first."""
    entries: list[Memory] = []
    where = MemoryFilter(kinds=FACTS, active=True, quarantined=False, now=api.parts.clock.now())
    async for page in each_page(api, scope, where):
        entries += page
    pairs = await asyncio.to_thread(_pairs, entries)
    ids = ((msgspec.json.encode(sorted((a.id, other.id))), (a, other, reason)) for a, other, reason in pairs)
    return {f"conflict_{digest(encoded)}": pair for encoded, pair in ids}


def _pairs(entries: Sequence[Memory]) -> list[_Pair]:
    by_id = {entry.id: entry for entry in entries}
    conflicts = [
        (entry, by_id[name], "model")
        for entry in entries
        for name in noted_ids(entry.metadata, CONFLICTS_WITH)
        if name in by_id and may_be_compared(entry, by_id[name])
    ]
    questions: dict[tuple[str, ...], list[Memory]] = {}
    for entry in entries:
        if entry.kind is not Kind.EPISODIC and entry.subject and entry.predicate and entry.object:
            predicate, _ = predicate_name(entry.predicate)
            if predicate and not has_many(predicate):
                owner_key = (entry.project_id or "", entry.agent_id or "", entry.kind.value)
                questions.setdefault((*owner_key, subject_name(entry.subject), predicate), []).append(entry)
    for answers in questions.values():
        pairs = itertools.combinations(answers[:_MOST_OF_A_QUESTION], 2)
        conflicts += [(entry, other, "same_question") for entry, other in pairs if _contradict(entry, other)]
    return conflicts


def _contradict(entry: Memory, other: Memory) -> bool:
    """Whether two answers to one question differ, and neither an aspect nor a date tells them apart."""
    if not may_be_compared(entry, other) or same_value(slot_value(entry), slot_value(other)):
        return False
    if entry.aspect and other.aspect and entry.aspect.casefold() != other.aspect.casefold():
        return False
    return not (states_beginning(entry) and states_beginning(other) and begins(entry) != begins(other))
