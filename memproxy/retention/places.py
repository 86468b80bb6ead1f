"""What deleted memories leave in the palace: names of places in which nothing is left are the user's words too."""

from collections.abc import Sequence

from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.ports import MemoryFilter, MemoryStore, StateStore


async def leave_empty_places(store: MemoryStore, state: StateStore, scope: Scope, gone: Sequence[Memory]) -> None:
    """Erase the wings and closets of deleted memories in which nothing is left.

    Raises:
        StoreUnavailable, StateUnavailable: some may be left.
    """
    owner = Scope(tenant=scope.tenant, user=scope.user)
    wings = {memory.wing for memory in gone if memory.wing is not None}
    empty = [wing for wing in sorted(wings) if not await store.count(owner, MemoryFilter(wings=(wing,)))]
    if empty:
        await state.leave_palace(owner, empty)
    closets = {
        (memory.wing, memory.room, memory.closet, "/".join(memory.pointer.split("/")[:2]))
        for memory in gone
        if memory.wing and memory.room and memory.closet and memory.pointer and memory.wing not in empty
    }
    left = [
        (parent, closet)
        for wing, room, closet, parent in sorted(closets)
        if not await store.count(owner, MemoryFilter(wings=(wing,), rooms=(room,), closets=(closet,)))
    ]
    if left:
        await state.leave_closets(owner, left)
