"""What the API asks for (store, edit, delete, undo), as a plan: statements take their slots, what goes frees them."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.chain import LAST_SAID, PENDING, RECONCILED_AT, RETRACTED_AT, RETRACTED_BY, SAID, STATED_END, place
from memproxy.core.forget_all import ALL_FORGOTTEN_BY
from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import Deletion, PlanBody
from memproxy.core.reworded import terms
from memproxy.core.scope import Scope
from memproxy.core.similar import affirms
from memproxy.core.slots import slot_name
from memproxy.core.supersede import Operation
from memproxy.learn.known import GONE_PREFIX, Known, tombstone
from memproxy.learn.outdated import PREDICATE as SUMMARY
from memproxy.learn.pending import CHANGES
from memproxy.learn.succession import Succession
from memproxy.learn.undo import undo
from memproxy.learn.unlearn import unlearn
from memproxy.ports import MemoryFilter, MemoryStore, StateStore

_SLOT_FIELDS = frozenset(
    {"subject", "predicate", "object", "aspect", "stance", "active", "content", "valid_from", "kind"}
)
_STATED = frozenset({"subject", "predicate", "object", "aspect", "stance", "content"})
_NOTED = frozenset({RETRACTED_BY, RETRACTED_AT, STATED_END, ALL_FORGOTTEN_BY, PENDING, CHANGES})
_NOTED_OF_LEARNED = frozenset({SAID, LAST_SAID, RECONCILED_AT})
_EXTRACTOR = "extractor"
"""Metadata of what was learned; what somebody stored himself may have a ``said_at`` of his own."""

_PAGE = 200
_BY_CALL = PlanBody().deleted_by


class Asked:
    """Adds to a plan what was asked for from outside."""

    def __init__(self, store: MemoryStore, state: StateStore, succession: Succession) -> None:
        self._store = store
        self._state = state
        self._succession = succession

    async def plan(self, known: Known, body: PlanBody, within: Scope, now: datetime) -> Counter[str]:
        """Everything the row asks for, of who stands ``within``; how many of each operation that is.

        Raises:
            StoreUnavailable, StateUnavailable: what is known could not be read.
            msgspec.ValidationError: a changed field does not take its value.
        """
        counts: Counter[str] = Counter()
        await known.load([*body.changes, *body.deletes])
        await known.load_slots([slot for memory in body.upserts for slot in _slots_of(memory)])
        for memory in body.upserts:
            counts[await self._put(known, memory, now)] += 1
        for name, fields in body.changes.items():
            await self._edit(known, name, fields, now)
            counts["change"] += 1
        for session, turns in body.turn_changes.items():
            within = msgspec.structs.replace(known.owner, session=session or None)
            for turn in (await self._store.get(within, list(turns))).values():
                known.mark(turn, _beside(known.marked(turn), _noted_still(turn, turns[turn.id])))
                counts["change"] += 1
        if body.deletes:
            await self._delete(known, body, now)
            counts["delete"] += len(body.deletes)
        if body.undo_session is not None:
            counts += await undo(known, self._store, body.undo_session, within=within, now=now)
        if body.delete_where is not None:
            if body.delete_where.ids and body.deleted_by == _BY_CALL:
                counts["delete"] += await self._unlearn(known, body.delete_where, now)
            await self._sweep(known, body.delete_where)
        return counts

    async def _put(self, known: Known, memory: Memory, now: datetime) -> str:
        memory = msgspec.structs.replace(memory, slot=slot_name(memory))
        await known.unbury(memory.id)
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
            await self._succession.supersede(known, memory, target, now)
        return Operation.UPDATE.value

    async def _edit(self, known: Known, name: str, fields: Mapping[str, Any], now: datetime) -> None:
        """Change fields, under the same id (docs/decisions/0020); when the memory's slot changes by it, it and the new
        slot's holder stand there in the order of their times. What its turns say is not learned from them again where
        the statement was changed, nor given out of them beside what it says now.
        """
        before = await known.memory(name)
        if before is not None:
            fields = _noted_still(before, fields)
            if _STATED & fields.keys():
                await known.forget(before)
        await known.change(name, {"updated_at": now, **fields})
        memory = await known.memory(name)
        if before is not None and memory is not None and before.kind is not Kind.TURN:
            await self._tell_turns(known, before, memory, now)
        if not _SLOT_FIELDS & fields.keys():
            return
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

    async def _tell_turns(self, known: Known, before: Memory, after: Memory, now: datetime) -> None:
        """Hide or mark the turns that state what an edit ended, set aside, replaced or reworded to something else; what
        it made hold again they may tell again.
        """
        if not _is_told(before):
            if _is_told(after):
                await self._succession.show_stated(known, before)
        elif after.superseded_by:
            if (by := await known.memory(after.superseded_by)) is not None:
                await self._succession.mark_stated(known, before, by)
        elif not _is_told(after):
            await self._succession.hide_stated(known, before, now)
        elif not _still_says(after, before):
            await self._succession.mark_stated(known, before, after)

    async def _delete(self, known: Known, body: PlanBody, now: datetime) -> None:
        """Delete by id. A chain closes over the gap; while learning is under way the id is noted as gone, so that a
        plan that was saved before cannot bring it back, and always what it said, for when its turns are read again.
        What somebody deleted is not given out of its turns either; what was pruned was only too much.
        """
        learning = await self._is_learning(known)
        by_call = body.deleted_by == _BY_CALL
        for name in body.deletes:
            if (memory := await known.memory(name)) is not None:
                await known.forget(memory)
                if by_call and memory.kind is Kind.TURN:
                    await self._drop_learned(known, memory, now)
                elif by_call and _is_told(memory):
                    await self._succession.hide_stated(known, memory, now)
            await _drop(known, name, now, bury=learning)

    async def _is_learning(self, known: Known) -> bool:
        """Whether a plan may be saved that does not know of what is deleted now."""
        if any((await self._state.backlog(known.owner)).get("learn", {}).values()):
            return True
        # every plan that these were noted for is carried out
        await self._state.drop_slots(known.owner, GONE_PREFIX)
        return False

    async def _unlearn(self, known: Known, gone: Deletion, now: datetime) -> int:
        """Delete with messages what was learned from them alone; answers how many memories that is."""
        turns = [turn for session in gone.session_ids for turn in await known.turns(session, gone.ids)]
        here = [turn for turn in turns if turn.session_id in gone.session_ids]
        return sum([await self._drop_learned(known, turn, now) for turn in here])

    async def _drop_learned(self, known: Known, turn: Memory, now: datetime) -> int:
        """What goes with a deleted message; where the assistant repeats it, that is hidden."""
        lost = await unlearn(known, self._store, turn, now=now)
        learning = await self._is_learning(known) if lost else False
        for memory in lost:
            if memory.predicate != SUMMARY:
                await self._succession.hide_repeated(known, memory)
            await _drop(known, memory.id, now, bury=learning)
        return len(lost)

    async def _sweep(self, known: Known, gone: Deletion) -> None:
        """Delete by scope, when the plan is applied; the slots that are held there now become free with it."""
        known.sweep(gone)
        where = MemoryFilter(
            ids=tuple(gone.ids),
            session_ids=tuple(gone.session_ids),
            project_ids=tuple(gone.project_ids),
            agent_ids=tuple(gone.agent_ids),
            kinds=tuple(kind for kind in Kind if kind is not Kind.TURN),
            active=True,
        )
        cursor = None
        while True:
            page = await self._store.page(known.owner, where, limit=_PAGE, cursor=cursor)
            for memory in page.memories:
                await known.release(memory)
            if (cursor := page.next_cursor) is None:
                return


async def _drop(known: Known, name: str, now: datetime, *, bury: bool) -> None:
    """Delete a memory; its chain closes over the gap."""
    await known.unlink(name, now=now)
    await known.delete(name)
    if bury:
        await known.bury(name)


def _slots_of(memory: Memory) -> list[str]:
    """The names in the register that writing the memory asks for."""
    slot = slot_name(memory) if memory.active else None
    return [tombstone(memory.id), *([slot] if slot else [])]


def _is_told(memory: Memory) -> bool:
    """Whether a memory holds and may be recalled."""
    return memory.active and not memory.quarantined and memory.superseded_by is None


def _still_says(after: Memory, before: Memory) -> bool:
    """Whether an edited statement says all that it said before, and as much denies or affirms it."""
    return terms(before.content) <= terms(after.content) and affirms(before) == affirms(after)


def _noted_still(memory: Memory, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is asked of a memory, with what is noted here of its ending and its telling: whoever asks may not know of it
    (it came after he looked, or he gives a metadata of his own), and it decides what is learned and given back.
    """
    if "metadata" not in asked:
        return asked
    ours = _NOTED | (_NOTED_OF_LEARNED if _EXTRACTOR in memory.metadata else frozenset())
    theirs = {name: value for name, value in asked["metadata"].items() if name not in ours}
    return {**asked, "metadata": theirs | {name: memory.metadata[name] for name in ours & memory.metadata.keys()}}


def _beside(planned: Mapping[str, Any], asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is asked of a turn, with what hid or showed it in this plan: a fact that it tells, and that changes too."""
    if "metadata" not in planned or "metadata" not in asked:
        return asked
    noted = {name: value for name, value in asked["metadata"].items() if name != RETRACTED_BY}
    hidden = {name: value for name, value in planned["metadata"].items() if name == RETRACTED_BY}
    return {**asked, "metadata": noted | hidden}


def _differences(old: Memory, new: Memory) -> dict[str, Any]:
    return {name: value for name in old.__struct_fields__ if (value := getattr(new, name)) != getattr(old, name)}
