"""Carries out plans. Applying one twice is harmless, and restores nothing that was retracted after it was saved."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.facts import RETRACTED_BY, begins, last_said_at, retracted_at, take_back
from memproxy.core.forget_all import ALL_FORGOTTEN_BY, is_all_forgotten
from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import PlanBody
from memproxy.core.scope import Scope
from memproxy.core.transfer_lines import GivenVectors, vector_key
from memproxy.core.vectors import unpacked
from memproxy.errors import StoreUnavailable
from memproxy.learn.forget_everything import ended_with
from memproxy.learn.memory_vectors import merged
from memproxy.learn.nearby import taken_back, traces_of
from memproxy.learn.outdated import PREDICATE as SUMMARY
from memproxy.learn.parts import Parts
from memproxy.learn.placement import place_anew, place_new, places_of
from memproxy.learn.plan_view import matching, of_session, of_turn, tombstone
from memproxy.ports import MemoryFilter, MemoryStore, Point, SlotChange, SparseVector
from memproxy.recall.documents import bm25_text, dense_text

log = logging.getLogger(__name__)


async def without_what_went(parts: Parts, scope: Scope, plan: PlanBody, now: datetime) -> PlanBody:
    """A saved plan without what a later order to forget covers (facts are written as ended and free their slots, ended
    ones are not changed), and without what rests on turns that were deleted meanwhile.
    """
    store = parts.store
    owner = scope.at(None, None)
    names = [name for memory in plan.upserts for name in (memory.id, memory.supersedes) if name is not None]
    stored = await store.get(owner, [*names, *plan.changes]) if names or plan.changes else {}
    upserts = []
    for memory in plan.upserts:
        written = stored.get(memory.id, memory)  # a fact that was written before and taken back since stays so
        was_ended = memory.active and not written.active and RETRACTED_BY in written.metadata
        upserts.append(_with_its_chain(written if was_ended else memory, stored.get(memory.supersedes or ""), now))
    upserts = [await _by_orders(store, owner, memory, now) for memory in upserts]
    if any(_is_learned(memory) for memory in upserts):
        traces = await traces_of(store, owner, now)
        upserts = [taken_back(traces, memory, now) or memory if _is_learned(memory) else memory for memory in upserts]
    for planned, after in zip(plan.upserts, upserts, strict=True):
        if planned.active and not after.active and planned.slot:
            change = SlotChange(slot=planned.slot, expected=planned.id, new=None)
            await parts.state.change_slots(owner, [change])
    changes = {name: fields for name, fields in plan.changes.items() if not _is_outdated(stored.get(name), fields)}
    turns = {}
    for session, changed in plan.turn_changes.items():
        session_scope = msgspec.structs.replace(owner, session=session or None)
        existing = await store.get(session_scope, list(changed)) if changed else {}
        turns[session] = {name: fields for name, fields in changed.items() if not _shows(existing.get(name), fields)}
    plan = msgspec.structs.replace(plan, upserts=upserts, changes=changes, turn_changes=turns)
    return await _without_forgotten(parts, owner, plan)


async def _without_forgotten(parts: Parts, owner: Scope, plan: PlanBody) -> PlanBody:
    """The plan without what was deleted, or lost all its turns, since; its slots go back to what they were."""
    names = sorted({turn for memory in plan.upserts for turn in memory.turn_ids})
    turns = await parts.store.get(owner, names) if names else {}
    graves = [tombstone(memory.id) for memory in plan.upserts]
    buried = await parts.state.slots(owner, graves) if graves else {}
    upserts, gone = [], set[str]()
    for memory in plan.upserts:
        if tombstone(memory.id) not in buried and not _is_unsaid(memory, turns.keys()):
            upserts.append(memory)
            continue
        gone.add(memory.id)
        if memory.slot and memory.active:
            change = SlotChange(slot=memory.slot, expected=memory.id, new=memory.supersedes)
            await parts.state.change_slots(owner, [change])
    if not gone:
        return plan
    log.info("%d planned memories were forgotten before they were written; they are left out", len(gone))

    def stays(fields: Mapping[str, Any]) -> bool:
        return gone.isdisjoint((fields.get("superseded_by"), fields.get("supersedes")))

    changes = {name: fields for name, fields in plan.changes.items() if stays(fields)}
    turn_changes = {}
    for session, changed in plan.turn_changes.items():
        if remaining := {name: fields for name, fields in changed.items() if stays(fields)}:
            turn_changes[session] = remaining
    return msgspec.structs.replace(plan, upserts=upserts, changes=changes, turn_changes=turn_changes)


async def _by_orders(store: MemoryStore, owner: Scope, memory: Memory, now: datetime) -> Memory:
    """The fact as a later order to forget everything leaves it."""
    if not _is_learned(memory):
        return memory
    session_scope = msgspec.structs.replace(owner, session=memory.session_id)
    turns = await store.get(session_scope, memory.turn_ids)
    by = {str(turn.metadata[ALL_FORGOTTEN_BY]) for turn in turns.values() if is_all_forgotten(turn.metadata)}
    orders = (await store.get(owner, sorted(by))).values() if by else ()
    meant = [order for order in orders if last_said_at(memory) <= order.created_at]
    first = min(meant, key=lambda order: order.created_at, default=None)
    return msgspec.structs.replace(memory, **ended_with(memory, first, now=now)) if first is not None else memory


def _is_learned(memory: Memory) -> bool:
    return memory.active and memory.kind is not Kind.TURN and bool(memory.turn_ids) and "extractor" in memory.metadata


def _with_its_chain(memory: Memory, stored: Memory | None, now: datetime) -> Memory:
    """A fact whose predecessor was retracted after it was said: the retraction covers it too."""
    retraction_time = retracted_at(stored) if stored is not None and not stored.active else None
    if stored is None or retraction_time is None or not _is_learned(memory) or last_said_at(memory) >= retraction_time:
        return memory
    fields = take_back(memory, str(stored.metadata[RETRACTED_BY]), retraction_time, now=now)
    return msgspec.structs.replace(memory, **fields)


def _is_outdated(stored: Memory | None, fields: Mapping[str, Any]) -> bool:
    """Whether a fact that the plan changes was taken back after the plan was made."""
    if stored is None or stored.active or RETRACTED_BY not in stored.metadata or "updated_at" not in fields:
        return False
    return stored.updated_at > msgspec.convert(fields["updated_at"], datetime)


def _shows(stored: Memory | None, fields: Mapping[str, Any]) -> bool:
    """Whether a change to a turn would drop the note of what retracted it."""
    if stored is None or "metadata" not in fields:
        return False
    noted = [name for name in (RETRACTED_BY, ALL_FORGOTTEN_BY) if name in stored.metadata]
    return any(name not in fields["metadata"] for name in noted)


_SEARCHED_FIELDS = frozenset({"content", "tags", "entities", "category", "metadata", "valid_from"})
"""Fields whose text may be in a vector."""

_PLACING_FIELDS = frozenset({"subject", "session_id", "category", "project_id", "agent_id"})
"""Fields that say where a fact stands in the palace."""

_SHOWN_FIELDS = frozenset(
    {"active", "agent_id", "content", "expires_at", "kind", "project_id", "quarantined", "superseded_by", "trust"}
    | {"valid_from", "valid_to"}
)
"""Fields that an injected line shows, or that decide whether it may be shown: a change ends the line's repetition."""


_Given = Mapping[str, GivenVectors]


class Applier:
    """Writes plans to the store; the caller flushes. Callers hold the owner's lock."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._deleted: Callable[[], Awaitable[None]] | None = None

    def on_deleted(self, callback: Callable[[], Awaitable[None]]) -> None:
        """``callback`` is called when something was deleted, whose text may still be in the store's files."""
        self._deleted = callback

    async def apply(self, scope: Scope, plan: PlanBody, *, now: datetime, given_vectors: _Given | None = None) -> None:
        """Write what the plan holds; durable after the next flush. ``given_vectors`` by `vector_key`."""
        # The session only tells which turn is meant where an id is used in several.
        owner = scope.at(None, None)
        try:
            await self._write(owner, plan, now, given_vectors or {})
        except StoreUnavailable:
            # without room on the disk nothing is written, while a deletion takes none: it must not wait for the rest
            if _deletes(plan):
                await self._take_away(owner, plan)
            raise
        await self._take_away(owner, plan)

    async def _write(self, owner: Scope, plan: PlanBody, now: datetime, given_vectors: _Given) -> None:
        memories = await place_new(self._parts.state, owner, await self._still_due(owner, plan.upserts, now))
        whole, fields = await self._split_changes(owner, plan.changes)
        points = await self._points(owner, memories, given_vectors)
        points += await self._parts.vectors.with_neighbours(owner, whole)
        if points:
            await self._parts.store.upsert(owner, points)
        if fields:
            await self._parts.store.set_fields(owner, fields)
        for session, turns in plan.turn_changes.items():
            await self._parts.store.set_fields(msgspec.structs.replace(owner, session=session or None), turns)

    async def _take_away(self, owner: Scope, plan: PlanBody) -> None:
        stored = await self._parts.store.get(owner, plan.deletes) if plan.deletes else {}
        for memory in stored.values():
            sessions = (memory.session_id,) if memory.kind is Kind.TURN and memory.session_id else ()
            await self._parts.store.delete(owner, MemoryFilter(ids=(memory.id,), session_ids=sessions))
        if (gone := plan.delete_where) is not None:
            where = matching(gone)
            await self._parts.store.delete(owner, where)
            for session in gone.session_ids:  # what the register holds of statements of these turns goes with them
                for prefix in [of_turn(session, turn) for turn in gone.ids] or [of_session(session)]:
                    await self._parts.state.drop_slots(owner, prefix)
            if where == MemoryFilter():
                await self._parts.vectors.forget(owner.owner)
        await self._erase_lines(owner, plan)
        if self._deleted is not None and _deletes(plan):
            await self._deleted()

    async def _points(self, owner: Scope, memories: Sequence[Memory], given_vectors: _Given) -> list[Point]:
        """The points to write, with the given vectors, else with new ones."""
        pairs = [(memory, given_vectors.get(vector_key(memory)) if given_vectors else None) for memory in memories]
        without = [memory for memory, vectors in pairs if not (vectors and vectors.dense)]
        new_points = iter(await self._parts.vectors.points(owner, without))
        points = []
        for memory, vectors in pairs:
            words = SparseVector(indices=vectors.indices, values=vectors.values) if vectors is not None else None
            if vectors is not None and words is not None and vectors.dense:
                dense = [unpacked(part) for part in vectors.dense]
                points.append(Point(memory=memory, dense=dense, bm25=words, tokens=vectors.tokens))
            else:
                point = next(new_points)
                if words is not None and words.indices:  # it includes the turns around a turn
                    point.bm25 = words
                points.append(point)
        return points

    async def _erase_lines(self, owner: Scope, plan: PlanBody) -> None:
        """Take what changed out of the blocks that sessions repeat; after the store, so that no later recall brings it
        back. After a deletion by scope, done again after a crash, nobody knows which these were: all blocks end.
        """
        gone = plan.delete_where
        if gone is not None and not gone.ids:
            await self._parts.state.drop_from_blocks(owner, None)
            return
        turns = [change for session in plan.turn_changes.values() for change in session.items()]
        changed = [name for name, fields in (*plan.changes.items(), *turns) if _SHOWN_FIELDS & fields.keys()]
        ids = [*plan.deletes, *(gone.ids if gone is not None else ()), *changed]
        ids += [memory.id for memory in plan.upserts]
        if ids:
            await self._parts.state.drop_from_blocks(owner, ids)

    async def _still_due(self, owner: Scope, memories: Sequence[Memory], now: datetime) -> list[Memory]:
        """The memories as the register of slots, which other rows may have changed since the plan was saved, has them:
        what lost its slot is written as superseded, what was freed not at all.
        """
        claimed = [memory.slot for memory in memories if memory.slot and memory.active]
        held = await self._parts.state.slots(owner, claimed) if claimed else {}
        due = []
        for memory in memories:
            holder = held.get(memory.slot or "")
            if not memory.slot or not memory.active or holder == memory.id:
                due.append(memory)
            elif holder is not None:
                by = (await self._parts.store.get(owner, [holder])).get(holder)
                end = max(begins(by) if by else now, begins(memory))
                due.append(msgspec.structs.replace(memory, active=False, superseded_by=holder, valid_to=end))
            else:
                log.info("a planned memory was forgotten before it was written; it is left out")
        return due

    async def _split_changes(
        self, owner: Scope, changes: Mapping[str, Mapping[str, Any]]
    ) -> tuple[list[Memory], dict[str, Mapping[str, Any]]]:
        """What must be embedded again, and what changes in payloads only: of moving facts the new places, too."""
        read = [name for name, fields in changes.items() if (_PLACING_FIELDS | _SEARCHED_FIELDS) & fields.keys()]
        stored = await self._parts.store.get(owner, read) if read else {}
        facts = {name: merged(memory, changes[name]) for name, memory in stored.items()}
        moving = [memory for name, memory in facts.items() if _PLACING_FIELDS & changes[name].keys()]
        moving = [memory for memory in moving if memory.kind is not Kind.TURN]
        placed = await place_anew(self._parts.state, owner, moving)
        facts |= {memory.id: memory for memory in placed}
        said_anew = [name for name in facts if _SEARCHED_FIELDS & changes[name].keys()]
        whole = {
            name: facts[name] for name in said_anew if _searched_texts(stored[name]) != _searched_texts(facts[name])
        }
        payload = {**changes, **{memory.id: {**changes[memory.id], **places_of(memory)} for memory in placed}}
        return list(whole.values()), {name: fields for name, fields in payload.items() if name not in whole}


def _is_unsaid(memory: Memory, existing: Set[str]) -> bool:
    """Whether none of the messages that it rests on is left; a summary rests on all of its messages."""
    turn_ids = set(memory.turn_ids)
    return not turn_ids <= existing if memory.predicate == SUMMARY else bool(turn_ids) and not turn_ids & existing


def _deletes(plan: PlanBody) -> bool:
    return bool(plan.deletes) or plan.delete_where is not None


def _searched_texts(memory: Memory) -> tuple[str, str]:
    """The texts that its vectors are made of (of a turn those without its neighbours, which stay)."""
    return dense_text(memory), bm25_text(memory, None, None)
