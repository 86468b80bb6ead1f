"""Which known memories, and which retractions from before, a candidate is compared with."""

import itertools
import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from memproxy.core.facts import (
    RETRACTED_AT,
    RETRACTED_BY,
    Decision,
    Operation,
    clearly_means,
    is_older,
    is_specific,
    last_said_at,
    retracted_at,
    said_at,
    segment,
    stated_before,
    take_back,
)
from memproxy.core.memory import FACTS, Kind, Memory
from memproxy.core.scope import Scope
from memproxy.core.similar import Neighbour, lexical_overlap
from memproxy.learn.outdated import PREDICATE as SUMMARY
from memproxy.learn.plan_view import MOST_PAST, PlanView
from memproxy.ports import HybridQuery, MemoryFilter, MemoryStore

TRACE_TAG = "retraction"  # the tag of a trace

_KEPT = timedelta(days=400)
_MOST = 100  # newest traces of an owner that are looked at; histories are imported soon, or at once

_NAMES = uuid.UUID("5f1f3a4e-5d0b-4f9d-9c53-2f1f4f2f7a11")


def is_trace(memory: Memory) -> bool:
    """Whether the memory is the trace of a request to forget, and not a statement."""
    return TRACE_TAG in memory.tags and RETRACTED_BY in memory.metadata and memory.slot is None


async def note_forget_request(view: PlanView, request: Memory) -> None:
    """Note a request to forget that means nothing known; one that names nothing in particular leaves no trace."""
    if not is_specific(request):
        return
    at, turn = said_at(request), request.turn_ids[0]
    over = {"slot": None, "active": False, "tags": [TRACE_TAG], "valid_from": at, "valid_to": at, "relations": []}
    trace = msgspec.structs.replace(
        request,
        **over,
        id=str(uuid.uuid5(_NAMES, f"{request.tenant}|{request.user_id}|{turn}|{request.content}")),
        expires_at=view.now + _KEPT,
        metadata=request.metadata | {RETRACTED_BY: turn, RETRACTED_AT: at.isoformat()},
    )
    if await view.memory(trace.id) is None:
        await view.add(trace)


async def ended(view: PlanView, candidate: Memory, decision: Decision) -> Memory | None:
    """The candidate as it was taken back after it was said; None when it was not, or is not what would hold now."""
    is_new = decision.operation in (Operation.ADD, Operation.COEXIST) and candidate.active
    is_late = decision.target is not None and is_older(candidate, decision.target)
    if not is_new and (decision.operation is not Operation.UPDATE or is_late):
        return None
    if view.traces is None:
        view.traces = await traces_of(view.store, view.owner, view.now)
    traces = {trace.id: trace for trace in (*view.traces, *view.new_memories()) if is_trace(trace)}
    return taken_back(list(traces.values()), candidate, view.now)


async def traces_of(store: MemoryStore, owner: Scope, now: datetime) -> list[Memory]:
    """The owner's traces, the newest."""
    where = MemoryFilter(tags=(TRACE_TAG,), active=False, now=now)
    return [memory for memory in (await store.page(owner, where, limit=_MOST)).memories if is_trace(memory)]


def taken_back(traces: Sequence[Memory], statement: Memory, now: datetime) -> Memory | None:
    """A statement as it was taken back after it was said, by one of these traces; None where it was not."""
    for trace in traces:
        at = retracted_at(trace)
        if at is not None and said_at(statement) < at and clearly_means(trace, statement):
            fields = take_back(statement, str(trace.metadata[RETRACTED_BY]), at, now=now)
            return msgspec.structs.replace(statement, **fields)
    return None


_NEAR = 8
_TO_FORGET = 32  # neighbours by vector and as many by words; for a request to forget more, as it may mean several


async def chain(view: PlanView, candidate: Memory) -> list[Memory]:
    """The history of the candidate's slot, oldest first: of what it stated before, else what was taken back after it
    was said, else of the holder; else the same by another name of its subject.
    """
    if candidate.slot is None:
        return []
    for slot in (candidate.slot, *(view.aliases.slots(candidate) if view.aliases is not None else ())):
        past = await view.past(slot)
        if len(past) >= MOST_PAST:
            past += await view.stated_by(slot, candidate.turn_ids)
        if (restated := stated_before(candidate, past)) is not None:
            return await view.chain_of(restated)
        ended = segment(candidate, past)
        last = ended.id if ended is not None else await view.holder(slot)
        if last is not None:
            return await view.chain_for(candidate, last)
    return []


async def neighbours(view: PlanView, scope: Scope, candidate: Memory) -> list[Neighbour]:
    """Neighbours of its kind and place: the ended ones of its slot, then those near by vector and by words in turn
    (two orders, not one sum: what either finds first is looked at first), the active ones before the others.
    """
    hits = await _search(view, scope, candidate, kinds=(candidate.kind,), limit=_NEAR)
    slot = await view.past(candidate.slot) if candidate.slot else []
    cosines = {hit.memory.id: hit.cosine for hit in hits}
    near = _unique([*(Neighbour(memory, cosines.get(memory.id)) for memory in slot), *hits])
    in_place = [hit for hit in near if hit.memory.place == candidate.place and not is_trace(hit.memory)]
    return sorted(in_place, key=lambda neighbour: not neighbour.memory.active)


async def to_replace(view: PlanView, scope: Scope, candidate: Memory, wrong: str | None) -> list[Neighbour]:
    """Memories that a correction could mean: its neighbours, those of the wrong value, and the session's latest."""
    hits = await neighbours(view, scope, candidate)
    if wrong:
        named = msgspec.structs.replace(candidate, id="", content=f"{wrong} {candidate.content}")
        hits += await _search(view, scope, named, kinds=FACTS, limit=_TO_FORGET)
    where = MemoryFilter(kinds=FACTS, active=True, session_ids=scope.sessions)
    latest = await view.store.page(view.owner, where, limit=_NEAR)
    hits += [Neighbour(view.current(memory)) for memory in latest.memories]
    return [neighbour for neighbour in _unique(hits) if neighbour.memory.place == candidate.place]


async def worded(view: PlanView, scope: Scope, candidate: Memory, words: str) -> list[Memory]:
    """The active statements of the candidate's place, told by then, that are nearest to these words."""
    named = msgspec.structs.replace(candidate, id="", content=words)
    hits = await _search(view, scope, named, kinds=FACTS, limit=_TO_FORGET)
    near = [hit.memory for hit in _unique(hits) if hit.memory.active and hit.memory.place == candidate.place]
    return [memory for memory in near if last_said_at(memory) <= said_at(candidate) and memory.predicate != SUMMARY]


async def to_forget(view: PlanView, scope: Scope, request: Memory) -> list[Neighbour]:
    """Memories that a request to forget could mean: the holder of its slot, and neighbours of every kind."""
    held = await view.memory(holder) if request.slot and (holder := await view.holder(request.slot)) else None
    hits = await _search(view, scope, request, kinds=FACTS, limit=_TO_FORGET)
    near = _unique([*([Neighbour(held)] if held is not None else []), *hits])
    return [neighbour for neighbour in near if request.meets(neighbour.memory)]


async def _search(
    view: PlanView, scope: Scope, candidate: Memory, *, kinds: tuple[Kind, ...], limit: int
) -> list[Neighbour]:
    vector, words = view.vectors.get(candidate.id), view.lexical.encode_query(candidate.content)
    where = MemoryFilter(kinds=kinds)
    query = HybridQuery(dense=vector, bm25=words, limit=limit, where=where, background=True)
    stored = await view.search(scope, query, candidate.content)
    by_vector = sorted((hit for hit in stored if hit.cosine is not None), key=lambda hit: -(hit.cosine or 0))
    by_words = sorted((hit for hit in stored if hit.bm25), key=lambda hit: -(hit.bm25 or 0))
    ranks = itertools.zip_longest(by_vector, by_words)
    in_turn = {hit.memory.id: hit for rank in ranks for hit in rank if hit is not None}
    near = [Neighbour(view.current(hit.memory), hit.cosine) for name, hit in in_turn.items() if name != view.aside]
    new = []
    for memory in view.new_memories():
        if memory.kind in kinds:
            other = view.vectors.get(memory.id)  # unit vectors
            cosine = sum(a * b for a, b in zip(vector, other, strict=True)) if vector and other else None
            new.append(Neighbour(memory, cosine))

    def closeness(near: Neighbour) -> tuple[float, float]:
        overlap = lexical_overlap(candidate.content, near.memory.content)
        return (near.cosine if near.cosine is not None else overlap, overlap)

    return [*sorted(new, key=closeness, reverse=True), *near]


def _unique(near: Iterable[Neighbour]) -> list[Neighbour]:
    by_id: dict[str, Neighbour] = {}
    for neighbour in near:
        by_id.setdefault(neighbour.memory.id, neighbour)
    return list(by_id.values())
