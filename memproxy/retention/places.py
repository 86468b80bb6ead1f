"""What deleted (or moved) memories leave behind in the state, besides themselves: words of the user's, too."""

from collections.abc import Sequence

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.ports import MemoryFilter, MemoryStore, StateStore


async def forget_queries_of(state: StateStore, scope: Scope, gone: Sequence[Memory]) -> None:
    """Erase the queries that deleted messages became. (The names of their places went with the row that deleted them,
    `learn.erasure`.)

    Raises:
        StateUnavailable: some may be left.
    """
    if turns := [one for one in gone if one.kind is Kind.TURN]:
        owner = Scope(tenant=scope.tenant, user=scope.user)
        await state.forget_queries(owner, {one.session_id or "" for one in turns}, {one.id for one in turns})


async def leave_empty_places(store: MemoryStore, state: StateStore, scope: Scope, gone: Sequence[Memory]) -> None:
    """Erase the wings and closets of memories that were deleted, or moved, in which nothing is left.

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
