"""What was taken back between a plan's saving and its being applied (it was parked, or a crash lies between): the plan
must not bring that back.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.chain import RETRACTED_BY, last_said_at, retracted_at, take_back
from memproxy.core.forget_all import ALL_FORGOTTEN_BY, is_all_forgotten
from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import PlanBody
from memproxy.core.scope import Scope
from memproxy.learn.orders import ended_with
from memproxy.learn.traces import taken_back, traces_of
from memproxy.ports import MemoryStore, SlotChange, SlotStore


class Meanwhile:
    """Ends in a learn row's saved plan what orders to forget, carried out since, mean of it."""

    def __init__(self, store: MemoryStore, state: SlotStore) -> None:
        self._store = store
        self._state = state

    async def ended(self, scope: Scope, plan: PlanBody, now: datetime) -> PlanBody:
        """The plan with what was taken back written as ended, and without changes to what is; ended facts free their
        slots.

        Raises:
            StoreUnavailable, StateUnavailable: what happened since could not be read.
        """
        owner = Scope(tenant=scope.tenant, user=scope.user, session=scope.session)
        names = [name for one in plan.upserts for name in (one.id, one.supersedes) if name is not None]
        stored = await self._store.get(owner, [*names, *plan.changes]) if names or plan.changes else {}
        upserts = [stored[one.id] if _was_ended(stored.get(one.id), one) else one for one in plan.upserts]
        upserts = [_with_its_chain(one, stored.get(one.supersedes or ""), now) for one in upserts]
        upserts = [await self._by_orders(owner, one, now) for one in upserts]
        if any(_is_learned(one) for one in upserts):
            traces = await traces_of(self._store, owner, now)
            upserts = [taken_back(traces, one, now) or one if _is_learned(one) else one for one in upserts]
        for before, after in zip(plan.upserts, upserts, strict=True):
            if before.active and not after.active and before.slot:
                change = SlotChange(slot=before.slot, expected=before.id, new=None)
                await self._state.change_slots(owner, [change])
        kept = {name: fields for name, fields in plan.changes.items() if not _is_outdated(stored.get(name), fields)}
        turns = {session: await self._shown(owner, session, fields) for session, fields in plan.turn_changes.items()}
        return msgspec.structs.replace(plan, upserts=upserts, changes=kept, turn_changes=turns)

    async def _by_orders(self, owner: Scope, memory: Memory, now: datetime) -> Memory:
        """A fact as an order to forget everything, carried out since, leaves it."""
        if not _is_learned(memory):
            return memory
        place = msgspec.structs.replace(owner, session=memory.session_id)
        turns = await self._store.get(place, memory.turn_ids)
        by = {str(turn.metadata[ALL_FORGOTTEN_BY]) for turn in turns.values() if is_all_forgotten(turn.metadata)}
        orders = (await self._store.get(owner, sorted(by))).values() if by else ()
        meant = [order for order in orders if last_said_at(memory) <= order.created_at]
        if not meant:
            return memory
        first = min(meant, key=lambda order: order.created_at)
        return msgspec.structs.replace(memory, **ended_with(memory, first, now=now))

    async def _shown(
        self, owner: Scope, session: str, changes: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """The changes of a session's turns without those that would show one again."""
        place = msgspec.structs.replace(owner, session=session or None)
        turns = await self._store.get(place, list(changes)) if changes else {}
        return {name: dict(fields) for name, fields in changes.items() if not _shows(turns.get(name), fields)}


def _is_learned(memory: Memory) -> bool:
    return memory.active and memory.kind is not Kind.TURN and bool(memory.turn_ids) and "extractor" in memory.metadata


def _was_ended(stored: Memory | None, planned: Memory) -> bool:
    """Whether a fact of the plan was written before, and taken back since."""
    return stored is not None and planned.active and not stored.active and RETRACTED_BY in stored.metadata


def _with_its_chain(memory: Memory, before: Memory | None, now: datetime) -> Memory:
    """A fact as it is where what it follows was taken back after it was said: that was meant by it too."""
    taken = retracted_at(before) if before is not None and not before.active else None
    if before is None or taken is None or not _is_learned(memory) or last_said_at(memory) >= taken:
        return memory
    return msgspec.structs.replace(memory, **take_back(memory, str(before.metadata[RETRACTED_BY]), taken, now=now))


def _is_outdated(stored: Memory | None, fields: Mapping[str, Any]) -> bool:
    """Whether a fact that the plan changes was taken back after the plan was made."""
    if stored is None or stored.active or RETRACTED_BY not in stored.metadata or "updated_at" not in fields:
        return False
    return stored.updated_at > msgspec.convert(fields["updated_at"], datetime)


def _shows(stored: Memory | None, fields: Mapping[str, Any]) -> bool:
    """Whether a change to a turn would leave out by what it was taken back."""
    if stored is None or "metadata" not in fields:
        return False
    noted = [name for name in (RETRACTED_BY, ALL_FORGOTTEN_BY) if name in stored.metadata]
    return any(name not in fields["metadata"] for name in noted)
