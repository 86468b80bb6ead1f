"""Reconciliation: what each candidate does to what is known, as a plan of exact writes and slot changes."""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.protocol import PlanBody
from memproxy.core.receipt import Outcome
from memproxy.core.scope import Scope
from memproxy.core.slots import slot_name
from memproxy.core.supersede import (
    Bands,
    Decision,
    Neighbour,
    Operation,
    decide,
    lexical_overlap,
    place,
    reinforce,
    repeats,
)
from memproxy.learn.candidates import Grounded
from memproxy.learn.known import Known
from memproxy.learn.outcomes import outcome_of
from memproxy.learn.vectors import Vectors
from memproxy.metrics import metrics
from memproxy.ports import HybridQuery, LexicalEncoder, MemoryFilter, MemoryStore, StateStore
from memproxy.settings import DedupSettings

_NEAR = 8
_REPEATING_TURNS = 100
_SLOT_FIELDS = frozenset({"subject", "predicate", "object", "aspect", "active", "content", "valid_from", "kind"})


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A plan (with what became of each candidate), the slot changes that go with it, and how many of each operation it
    holds.
    """

    plan: PlanBody
    known: Known
    operations: Mapping[str, int]


def memory_of(grounded: Grounded, scope: Scope, *, now: datetime, extractor: str) -> Memory:
    """The memory that a candidate would become, under a new id. What says no beginning holds since it was said."""
    candidate, turn = grounded.candidate, grounded.turn
    memory = Memory(
        id=str(uuid.uuid4()),
        tenant=scope.tenant,
        user_id=scope.user,
        project_id=scope.project,
        agent_id=scope.agent,
        session_id=scope.session,
        kind=candidate.kind,
        content=candidate.content,
        category=candidate.category,
        tags=list(candidate.tags),
        entities=list(candidate.entities),
        subject=candidate.subject,
        predicate=candidate.predicate,
        object=candidate.object,
        aspect=candidate.aspect,
        confidence=candidate.confidence,
        importance=candidate.importance,
        trust=turn.trust,
        source=turn.source,
        turn_ids=[turn.id],
        created_at=now,
        updated_at=now,
        valid_from=candidate.valid_from or turn.created_at,
        valid_to=candidate.valid_to,
        metadata={"said_at": turn.created_at.isoformat(), "extractor": extractor}
        | ({"evidence": candidate.evidence[0]} if candidate.evidence else {}),
    )
    return msgspec.structs.replace(memory, slot=slot_name(memory))


class Reconciler:
    """Makes plans. Callers hold the owner's lock from here until the plan is applied."""

    def __init__(
        self,
        *,
        store: MemoryStore,
        state: StateStore,
        lexical: LexicalEncoder,
        vectors: Vectors,
        dedup: DedupSettings,
    ) -> None:
        self._store = store
        self._state = state
        self._lexical = lexical
        self._vectors = vectors
        self._bands = Bands(same=dedup.update_above, related=dedup.related_above)

    async def learned(self, scope: Scope, found: Sequence[Grounded], *, now: datetime, extractor: str) -> Planned:
        """The plan for what was extracted, each candidate against what is known and against those before it.

        Raises:
            StoreUnavailable, StateUnavailable: what is known could not be read.
        """
        known = Known(scope, self._store, self._state)
        candidates = [memory_of(grounded, scope, now=now, extractor=extractor) for grounded in found]
        vectors = await self._vectors.statement_vectors([candidate.content for candidate in candidates])
        ours = dict(zip((candidate.id for candidate in candidates), vectors, strict=True))
        counts: Counter[str] = Counter()
        outcomes: list[Outcome] = []
        for grounded, candidate in zip(found, candidates, strict=True):
            operation, decision = await self._learn(scope, known, candidate, ours, now)
            counts[operation] += 1
            memory = await known.memory(candidate.id) or candidate
            outcomes += outcome_of(grounded.turn, memory, operation, decision)
        plan = msgspec.structs.replace(known.plan(), outcomes=outcomes)
        return Planned(plan=plan, known=known, operations=counts)

    async def _learn(
        self, scope: Scope, known: Known, candidate: Memory, ours: Mapping[str, list[float] | None], now: datetime
    ) -> tuple[str, Decision]:
        """Add to the plan what a candidate does; the name of that (or why it does nothing), and the decision."""
        holder = await known.holder(candidate.slot) if candidate.slot else None
        chain = await known.chain(holder)
        near = [] if chain else await self._near(scope, known, candidate, ours)
        decision = decide(candidate, chain=chain, neighbours=near, bands=self._bands)
        if (reason := _refused(candidate, decision)) is not None:
            metrics().candidates_rejected.labels(reason=reason).inc()
            return reason, decision
        if decision.operation is Operation.DUPLICATE and decision.target is not None:
            await known.change(decision.target.id, reinforce(decision.target, candidate, now=now))
        elif decision.operation is Operation.UPDATE and decision.target is not None:
            await self._supersede(known, candidate, decision.target, now)
        else:
            await known.add(candidate)
        return decision.operation.value, decision

    async def _near(
        self, scope: Scope, known: Known, candidate: Memory, ours: Mapping[str, list[float] | None]
    ) -> list[Neighbour]:
        vector = ours.get(candidate.id)
        query = HybridQuery(
            dense=vector,
            bm25=self._lexical.encode_query(candidate.content),
            limit=_NEAR,
            where=MemoryFilter(kinds=(candidate.kind,)),
        )
        stored = await self._store.search(scope, query)
        near = [Neighbour(known.current(found.memory), found.cosine) for found in stored]
        near += [Neighbour(memory, _cosine(vector, ours.get(memory.id))) for memory in known.new_memories()]
        same_place = [one for one in near if _place(one.memory) == _place(candidate)]
        return sorted(same_place, key=lambda one: _closeness(candidate, one), reverse=True)

    async def _supersede(self, known: Known, candidate: Memory, target: Memory, now: datetime) -> None:
        """Put the candidate into the chain that ends in ``target``, and mark the turns of what is not current."""
        candidate = _in_place_of(candidate, target)
        effects = place(candidate, await known.chain(target.id), now=now)
        for name, fields in effects.changes.items():
            await known.change(name, fields)
        new = effects.new or candidate
        await known.add(new)
        if new.active:
            await self._mark(known, target, new)
        elif new.superseded_by and (after := await known.memory(new.superseded_by)) is not None:
            await self._mark(known, new, after)

    async def _mark(self, known: Known, old: Memory, new: Memory) -> None:
        """Note on the turns that state what is no longer so, by which memory it was superseded."""
        query = HybridQuery(
            bm25=self._lexical.encode_query(old.content),
            limit=_REPEATING_TURNS,
            where=MemoryFilter(kinds=(Kind.TURN,)),
        )
        found = await self._store.search(known.owner, query)
        stale = [one.memory for one in found if repeats(one.memory.content, old, new)]
        stale += await known.turns(old.session_id, [name for name in old.turn_ids if name not in new.turn_ids])
        for turn in stale:
            said_by_new = turn.id in new.turn_ids and turn.session_id == new.session_id
            if not turn.superseded_by and not said_by_new:
                known.mark(turn, {"superseded_by": new.id})

    async def asked(self, scope: Scope, body: PlanBody, *, now: datetime) -> Planned:
        """The plan for what the API asks: statements take their slots, what goes frees them.

        Raises:
            StoreUnavailable, StateUnavailable: what is known could not be read.
            msgspec.ValidationError: a changed field does not take its value.
        """
        known = Known(scope, self._store, self._state)
        counts: Counter[str] = Counter()
        await known.load([*body.changes, *body.deletes])
        for memory in body.upserts:
            counts[await self._put(known, memory, now)] += 1
        for name, fields in body.changes.items():
            await self._edit(known, name, fields, now)
            counts["change"] += 1
        for name in body.deletes:
            await known.delete(name)
            counts["delete"] += 1
        plan = msgspec.structs.replace(known.plan(), delete_where=body.delete_where)
        return Planned(plan=plan, known=known, operations=counts)

    async def _put(self, known: Known, memory: Memory, now: datetime) -> str:
        memory = msgspec.structs.replace(memory, slot=slot_name(memory))
        holder = await known.holder(memory.slot) if memory.slot and memory.active else None
        if holder is None or holder == memory.id:
            await known.add(memory)
            return Operation.ADD.value
        target = await known.memory(holder)
        if target is None:
            # Registered, and not in the store yet: an earlier plan that is still to be applied. It will find itself
            # superseded (`apply.Applier`).
            await known.add(msgspec.structs.replace(memory, supersedes=holder))
        else:
            await self._supersede(known, memory, target, now)
        return Operation.UPDATE.value

    async def _edit(self, known: Known, name: str, fields: Mapping[str, Any], now: datetime) -> None:
        """Change fields; when the memory's slot changes by it, the new slot's holder is superseded."""
        await known.change(name, {"updated_at": now, **fields})
        if not _SLOT_FIELDS & fields.keys():
            return
        memory = await known.memory(name)
        slot = slot_name(memory) if memory is not None and memory.active else None
        holder = await known.holder(slot) if slot else None
        if memory is not None and holder is not None and holder != name:
            chain = await known.chain(holder)
            effects = place(memory, chain[-1:], now=now)
            for other, changed in effects.changes.items():
                await known.change(other, changed)
            if effects.new is not None:
                await known.change(name, _differences(memory, effects.new))
        await known.take(name)


def _refused(candidate: Memory, decision: Decision) -> str | None:
    """Why a decision is not carried out: what only the assistant (a tool) said confirms and changes nothing."""
    target = decision.target
    if target is None or candidate.trust is Trust.USER:
        return None
    if decision.operation is Operation.DUPLICATE:
        return "echo"
    lower = candidate.trust.level < target.trust.level
    return "trust" if decision.operation is Operation.UPDATE and lower else None


def _in_place_of(candidate: Memory, target: Memory) -> Memory:
    """A candidate that names no slot takes over the one of what it supersedes."""
    if candidate.slot is not None or target.slot is None:
        return candidate
    return msgspec.structs.replace(
        candidate, subject=target.subject, predicate=target.predicate, aspect=target.aspect, slot=target.slot
    )


def _differences(old: Memory, new: Memory) -> dict[str, Any]:
    return {name: value for name in old.__struct_fields__ if (value := getattr(new, name)) != getattr(old, name)}


def _place(memory: Memory) -> tuple[str | None, str | None]:
    return (memory.project_id, memory.agent_id)


def _cosine(one: list[float] | None, other: list[float] | None) -> float | None:
    """Of unit vectors."""
    return None if one is None or other is None else sum(a * b for a, b in zip(one, other, strict=True))


def _closeness(candidate: Memory, near: Neighbour) -> tuple[bool, float, float]:
    overlap = lexical_overlap(candidate.content, near.memory.content)
    return (near.memory.active, near.cosine if near.cosine is not None else overlap, overlap)
