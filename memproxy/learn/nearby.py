"""Which known memories a candidate is compared with: those of its slot, and those that are near in words or meaning."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from memproxy.core.chain import last_said_at, said_at, segment
from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.core.similar import Neighbour, lexical_overlap
from memproxy.core.supersede import told_already
from memproxy.learn.known import MOST_PAST, Known
from memproxy.learn.outdated import PREDICATE as SUMMARY
from memproxy.learn.traces import is_trace
from memproxy.ports import Candidate, HybridQuery, LexicalEncoder, MemoryFilter, MemoryStore

Vector = list[float] | None

_NEAR = 8
_TO_FORGET = 32
"""Neighbours by vector and as many by words; for a request to forget more, as it may mean several."""

_FACTS = tuple(kind for kind in Kind if kind is not Kind.TURN)


class Nearby:
    """Finds what is known near a candidate, as the plan so far leaves it."""

    def __init__(self, store: MemoryStore, lexical: LexicalEncoder) -> None:
        self._store = store
        self._lexical = lexical

    async def chain(self, known: Known, candidate: Memory) -> list[Memory]:
        """The history of the candidate's slot, oldest first: that which has it already from the same turn, else that
        which was taken back after the candidate was said, else that of its active holder; where there is none, that of
        what was known by another name of its subject.
        """
        if candidate.slot is None:
            return []
        for slot in (candidate.slot, *(known.aliases.slots(candidate) if known.aliases is not None else ())):
            past = await known.past(slot)
            if len(past) >= MOST_PAST:
                past += await known.told(slot, candidate.turn_ids)
            if (again := told_already(candidate, past)) is not None:
                return await known.chain_of(again)
            ended = segment(candidate, past)
            last = ended.id if ended is not None else await known.holder(slot)
            if last is not None:
                return await known.chain_for(candidate, last)
        return []

    async def of(self, scope: Scope, known: Known, candidate: Memory, vectors: Mapping[str, Vector]) -> list[Neighbour]:
        """Neighbours of its kind and place: the ended ones of its slot, then those near by vector and by words in turn
        (two orders, not one sum: what either finds first is looked at first), the active ones before the others.
        """
        found = await self._found(scope, known, candidate, vectors, kinds=(candidate.kind,), limit=_NEAR)
        slot = await known.past(candidate.slot) if candidate.slot else []
        near = _once([*(Neighbour(memory, _cosine_of(memory, found)) for memory in slot), *found])
        same_place = [one for one in near if _place(one.memory) == _place(candidate) and not is_trace(one.memory)]
        return sorted(same_place, key=lambda one: not one.memory.active)

    async def to_replace(
        self, scope: Scope, known: Known, candidate: Memory, vectors: Mapping[str, Vector], *, wrong: str | None
    ) -> list[Neighbour]:
        """What a correction could be about: its neighbours, those of what it calls wrong, and what was learned last in
        its session.
        """
        found = await self.of(scope, known, candidate, vectors)
        if wrong:
            named = msgspec.structs.replace(candidate, id="", content=f"{wrong} {candidate.content}")
            found += await self._found(scope, known, named, {}, kinds=_FACTS, limit=_TO_FORGET)
        where = MemoryFilter(
            kinds=_FACTS, active=True, session_ids=(scope.session,) if scope.session is not None else ()
        )
        latest = await self._store.page(known.owner, where, limit=_NEAR)
        found += [Neighbour(known.current(memory)) for memory in latest.memories]
        return [one for one in _once(found) if _place(one.memory) == _place(candidate)]

    async def worded(self, scope: Scope, known: Known, candidate: Memory, words: str) -> list[Memory]:
        """The active statements of the candidate's place, told by then, that are nearest to these words."""
        named = msgspec.structs.replace(candidate, id="", content=words)
        found = await self._found(scope, known, named, {}, kinds=_FACTS, limit=_TO_FORGET)
        near = [one.memory for one in _once(found) if one.memory.active and _place(one.memory) == _place(candidate)]
        return [one for one in near if last_said_at(one) <= said_at(candidate) and one.predicate != SUMMARY]

    async def to_forget(
        self, scope: Scope, known: Known, request: Memory, vectors: Mapping[str, Vector]
    ) -> list[Neighbour]:
        """What a request to forget could mean: the holder of its slot, and neighbours of every kind."""
        held = await known.memory(holder) if request.slot and (holder := await known.holder(request.slot)) else None
        found = await self._found(scope, known, request, vectors, kinds=_FACTS, limit=_TO_FORGET)
        near = _once([*([Neighbour(held)] if held is not None else []), *found])
        return [one for one in near if _visible(request, one.memory)]

    async def _found(
        self,
        scope: Scope,
        known: Known,
        candidate: Memory,
        vectors: Mapping[str, Vector],
        *,
        kinds: tuple[Kind, ...],
        limit: int,
    ) -> list[Neighbour]:
        vector = vectors.get(candidate.id)
        query = HybridQuery(
            dense=vector,
            bm25=self._lexical.encode_query(candidate.content),
            limit=limit,
            where=MemoryFilter(kinds=kinds),
            background=True,
        )
        stored = await known.searched(scope, query, candidate.content)
        ordered = _in_turn(
            sorted((one for one in stored if one.cosine is not None), key=lambda one: -(one.cosine or 0)),
            sorted((one for one in stored if one.bm25), key=lambda one: -(one.bm25 or 0)),
        )
        near = [Neighbour(known.current(one.memory), one.cosine) for one in ordered]
        new = [
            Neighbour(memory, _cosine(vector, vectors.get(memory.id)))
            for memory in known.new_memories()
            if memory.kind in kinds
        ]
        return [*sorted(new, key=lambda one: _closeness(candidate, one), reverse=True), *near]


def _in_turn(*orders: Sequence[Candidate]) -> list[Candidate]:
    """The first of each order, then the second of each, every one once."""
    mixed = [one for row in itertools.zip_longest(*orders) for one in row if one is not None]
    return list({one.memory.id: one for one in mixed}.values())


def _once(near: Iterable[Neighbour]) -> list[Neighbour]:
    found: dict[str, Neighbour] = {}
    for one in near:
        found.setdefault(one.memory.id, one)
    return list(found.values())


def _cosine_of(memory: Memory, found: Sequence[Neighbour]) -> float | None:
    return next((one.cosine for one in found if one.memory.id == memory.id), None)


def _place(memory: Memory) -> tuple[str | None, str | None]:
    return (memory.project_id, memory.agent_id)


def _visible(request: Memory, memory: Memory) -> bool:
    """Whether the speaker stands where the memory is seen: in its project and agent, or one of the two has none."""
    places = ((request.project_id, memory.project_id), (request.agent_id, memory.agent_id))
    return all(None in (own, other) or own == other for own, other in places)


def _cosine(one: Vector, other: Vector) -> float | None:
    """Of unit vectors."""
    return None if one is None or other is None else sum(a * b for a, b in zip(one, other, strict=True))


def _closeness(candidate: Memory, near: Neighbour) -> tuple[float, float]:
    overlap = lexical_overlap(candidate.content, near.memory.content)
    return (near.cosine if near.cosine is not None else overlap, overlap)
