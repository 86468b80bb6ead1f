"""Gives memories their place in the palace when they are written. Doing it twice gives the same wing and room."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.palace import Names, assign, assign_turns, moved_turns
from memproxy.core.scope import Scope
from memproxy.ports import PalaceStore

_AT_ONCE = 50_000  # characters that are looked through on the event loop; more are in a thread

_Found = TypeVar("_Found")

_PLACE_FIELDS = ("wing", "room", "closet", "pointer")


def places_of(memory: Memory) -> dict[str, str | None]:
    """The fields that say where a memory stands."""
    return {name: getattr(memory, name) for name in _PLACE_FIELDS}


async def place_turns(state: PalaceStore, scope: Scope, turns: Sequence[Memory]) -> list[Memory]:
    """New turns of the scope's session, in their order, with their drawers."""
    return await _place(state, scope, turns, await _looked_through(state, assign_turns, scope, turns))


async def place_new(state: PalaceStore, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
    """The memories, those with places that have none yet; the order stays."""
    new = [memory for memory in memories if memory.pointer is None]
    placed = iter(await place_anew(state, scope, new))
    return [next(placed) if memory.pointer is None else memory for memory in memories]


async def place_anew(state: PalaceStore, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
    """The memories with the places that they belong to by now; what their old pointers meant, nothing else will."""
    return await _place(state, scope, memories, [assign(memory) for memory in memories])


async def is_elsewhere(state: PalaceStore, scope: Scope, turns: Sequence[Memory]) -> bool:
    """Whether some of a session's turns stand in another wing than that of what they are about."""
    return bool((await _looked_through(state, moved_turns, scope, turns))[0])


async def new_places(state: PalaceStore, scope: Scope, turns: Sequence[Memory]) -> dict[str, dict[str, str | None]]:
    """The new places, by id, of those of a session's turns that move into the wing of what the session is about."""
    moving, names = await _looked_through(state, moved_turns, scope, turns)
    return {turn.id: places_of(turn) for turn in await _place(state, scope, moving, names)}


async def _looked_through(
    state: PalaceStore, find: Callable[..., _Found], scope: Scope, turns: Sequence[Memory]
) -> _Found:
    """What ``find`` answers for the turns, given the names of the owner's wings."""
    wing_names = await state.palace_names(scope, writing=True)
    if sum(len(turn.content) for turn in turns) < _AT_ONCE:
        return find(turns, wing_names)
    return await asyncio.to_thread(find, turns, wing_names)


async def _place(state: PalaceStore, scope: Scope, memories: Sequence[Memory], names: Sequence[Names]) -> list[Memory]:
    places = await state.allot_numbers(scope, names) if names else []
    placed = []
    for memory, name, place in zip(memories, names, places, strict=True):
        where = {"wing": place.wing, "room": name.room, "closet": name.closet, "pointer": place.pointer}
        placed.append(msgspec.structs.replace(memory, **where))
    return placed
