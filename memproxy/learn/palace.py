"""Gives memories their place in the palace when they are written. Doing it twice gives the same wing and room."""

from collections.abc import Sequence

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.palace import Names, assign, assign_turns, moved_turns
from memproxy.core.scope import Scope
from memproxy.ports import StateStore

_PLACE_FIELDS = ("wing", "room", "closet", "pointer")


def places_of(memory: Memory) -> dict[str, str | None]:
    """The fields that say where a memory stands."""
    return {name: getattr(memory, name) for name in _PLACE_FIELDS}


class Palace:
    """Assigns places; the state allots the numbers."""

    def __init__(self, state: StateStore) -> None:
        self._state = state

    async def turns(self, scope: Scope, turns: Sequence[Memory]) -> list[Memory]:
        """New turns of the scope's session, in their order, with their drawers.

        Raises:
            StateUnavailable: try again later.
        """
        return await self._placed(scope, turns, assign_turns(turns, await self._names(scope)))

    async def memories(self, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
        """The memories, those with places that have none yet; the order stays.

        Raises:
            StateUnavailable: try again later.
        """
        new = [memory for memory in memories if memory.pointer is None]
        placed = iter(await self._placed(scope, new, [assign(memory) for memory in new]))
        return [next(placed) if memory.pointer is None else memory for memory in memories]

    async def again(self, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
        """The memories with the places that they belong to by now; what their old pointers meant, nothing else will.

        Raises:
            StateUnavailable: try again later.
        """
        return await self._placed(scope, memories, [assign(memory) for memory in memories])

    async def is_elsewhere(self, scope: Scope, turns: Sequence[Memory]) -> bool:
        """Whether some of a session's turns stand in another wing than that of what they are about.

        Raises:
            StateUnavailable: try again later.
        """
        return bool(moved_turns(turns, await self._names(scope))[0])

    async def moved(self, scope: Scope, turns: Sequence[Memory]) -> dict[str, dict[str, str | None]]:
        """The new places, by id, of those of a session's turns that move into the wing of what the session is about.

        Raises:
            StateUnavailable: try again later.
        """
        moving, names = moved_turns(turns, await self._names(scope))
        return {turn.id: places_of(turn) for turn in await self._placed(scope, moving, names)}

    async def _names(self, scope: Scope) -> dict[str, str]:
        return await self._state.palace_names(scope, writing=True)

    async def _placed(self, scope: Scope, memories: Sequence[Memory], names: Sequence[Names]) -> list[Memory]:
        places = await self._state.place(scope, names) if names else []
        return [
            msgspec.structs.replace(memory, wing=place.wing, room=name.room, closet=name.closet, pointer=place.pointer)
            for memory, name, place in zip(memories, names, places, strict=True)
        ]
