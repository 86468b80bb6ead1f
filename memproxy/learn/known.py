"""What is known of an owner while a plan is made: the store and the slot register, with the plan so far laid over."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import PlanBody
from memproxy.core.scope import Scope
from memproxy.core.slots import slot_name
from memproxy.learn.vectors import merged
from memproxy.ports import MemoryStore, SlotChange, StateStore

_LONGEST_CHAIN = 100


class Known:
    """A view that changes with the plan; nothing is written. Made anew for every attempt at a plan."""

    def __init__(self, scope: Scope, store: MemoryStore, state: StateStore) -> None:
        # The session only tells which turn is meant where an id is used in several.
        self.owner = Scope(tenant=scope.tenant, user=scope.user, session=scope.session)
        self._store = store
        self._state = state
        self._seen: dict[str, Memory] = {}
        self._new: dict[str, Memory] = {}
        self._changes: dict[str, dict[str, Any]] = {}
        self._turn_changes: dict[str, dict[str, dict[str, Any]]] = {}
        self._deletes: list[str] = []
        self._held: dict[str, str | None] = {}
        self._registered: dict[str, str | None] = {}

    async def load(self, ids: Sequence[str]) -> None:
        """Read memories that are not known yet."""
        missing = [name for name in ids if name not in self._seen and name not in self._new]
        if missing:
            self._seen |= await self._store.get(self.owner, missing)

    def current(self, memory: Memory) -> Memory:
        """A memory that a search found, as the plan so far leaves it."""
        known = self._new.get(memory.id) or self._seen.get(memory.id)
        return known or self._seen.setdefault(memory.id, memory)

    async def memory(self, name: str) -> Memory | None:
        """The memory of this id as the plan so far leaves it."""
        await self.load([name])
        return self._new.get(name) or self._seen.get(name)

    async def holder(self, slot: str) -> str | None:
        """The id registered for a slot, as the plan so far leaves it."""
        if slot not in self._held:
            held = (await self._state.slots(self.owner, [slot])).get(slot)
            self._held[slot] = self._registered[slot] = held
        return self._held[slot]

    async def chain(self, last: str | None) -> list[Memory]:
        """A chain of supersession ending in ``last``, oldest first; empty when that memory is not there."""
        found: list[Memory] = []
        while last is not None and len(found) < _LONGEST_CHAIN:
            memory = await self.memory(last)
            if memory is None or memory in found:
                break
            found.append(memory)
            last = memory.supersedes
        return found[::-1]

    def new_memories(self) -> list[Memory]:
        """What the plan adds so far."""
        return list(self._new.values())

    async def add(self, memory: Memory) -> None:
        """Write a whole memory; it takes its slot when it is active."""
        self._new[memory.id] = memory
        if memory.active and memory.slot:
            await self.holder(memory.slot)
            self._held[memory.slot] = memory.id

    async def change(self, name: str, fields: Mapping[str, Any]) -> None:
        """Change fields of a memory; unknown ids are passed over. A memory that ends gives its slot up."""
        memory = await self.memory(name)
        if memory is None or not fields:
            return
        changed = merged(memory, fields)
        if name in self._new:
            self._new[name] = changed
        else:
            self._seen[name] = changed
            self._changes.setdefault(name, {}).update(fields)
        if not changed.active or changed.slot != memory.slot:
            await self._release(memory)

    async def turns(self, session: str | None, ids: Sequence[str]) -> list[Memory]:
        """The turns of these ids, those of that session where an id is used in several."""
        place = msgspec.structs.replace(self.owner, session=session)
        found = await self._store.get(place, ids) if ids else {}
        return [turn for turn in found.values() if turn.kind is Kind.TURN]

    def mark(self, turn: Memory, fields: Mapping[str, Any]) -> None:
        """Change fields of a turn."""
        self._turn_changes.setdefault(turn.session_id or "", {}).setdefault(turn.id, {}).update(fields)

    async def delete(self, name: str) -> None:
        """Forget a memory; its slot becomes free."""
        memory = await self.memory(name)
        if memory is not None:
            await self._release(memory)
        self._new.pop(name, None)
        self._changes.pop(name, None)
        self._deletes.append(name)

    async def _release(self, memory: Memory) -> None:
        if memory.slot and await self.holder(memory.slot) == memory.id:
            self._held[memory.slot] = None

    async def take(self, name: str) -> None:
        """Give a changed memory the slot that its present form names; answers with its former holder superseded."""
        memory = await self.memory(name)
        if memory is None:
            return
        slot = slot_name(memory) if memory.active else None
        if slot != memory.slot:
            await self.change(name, {"slot": slot})
        if slot is not None:
            await self.holder(slot)
            self._held[slot] = name

    def plan(self) -> PlanBody:
        """The writes, JSON types only."""
        changes = {name: msgspec.to_builtins(fields) for name, fields in self._changes.items() if fields}
        return PlanBody(
            upserts=list(self._new.values()),
            changes=changes,
            turn_changes=self._turn_changes,
            deletes=self._deletes,
        )

    def slot_changes(self) -> list[SlotChange]:
        """The register's changes, against what was read."""
        return [
            SlotChange(slot=slot, expected=self._registered[slot], new=held)
            for slot, held in self._held.items()
            if held != self._registered[slot]
        ]
