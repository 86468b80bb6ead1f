"""Places in the palace as callers name them: by a wing's name, any alias of it, or a pointer."""

import msgspec

from memproxy.api.context import Backends
from memproxy.api.schemas import Filters
from memproxy.core.palace import pointer, read_pointer, read_room, slug, subject_name
from memproxy.core.scope import Scope
from memproxy.ports import MemoryFilter, PalacePlace

NOWHERE = "\x00"
"""A name that no place has: what is asked of it finds nothing."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A wing, and a room when one is named, by the names under which memories hold them."""

    wing: str | None = None
    room: str | None = None


class PalaceNames:
    """Reads what a caller calls a place."""

    def __init__(self, backends: Backends, scope: Scope) -> None:
        self._state = backends.state
        self._scope = scope
        backends.require_state()

    async def wing(self, said: str) -> Place:
        """The wing of this name, alias or pointer (a room's pointer names the room too); `NOWHERE` if there is none.

        Raises:
            StateUnavailable: the names cannot be read.
        """
        if (numbers := read_pointer(said)) is not None:
            return await self._at(numbers[0], numbers[1])
        names = await self._state.palace_names(self._scope)
        return Place(wing=names.get(subject_name(said)) or names.get(slug(said)) or NOWHERE)

    async def room(self, said: str, wing: str | None = None) -> Place:
        """The room of this session, or of this pointer, which names the wing too; in a wing (its name) the pointer's
        last part does, unless a session there is called so.

        Raises:
            StateUnavailable: the names cannot be read.
        """
        numbers = read_pointer(said)
        if numbers is not None and numbers[1] is not None:
            return await self._at(numbers[0], numbers[1])
        number = read_room(said)
        if wing is None or number is None:
            return Place(room=said)
        return Place(wing=wing, room=await self._in_wing(wing, said, number) or said)

    async def _in_wing(self, wing: str, said: str, number: int) -> str | None:
        """The name of a wing's room of this number; None when there is none, or one that is called as was said."""
        parent = await self._state.palace(self._scope, "", after=0, limit=1, name=wing)
        if not parent:
            return None
        within = pointer(parent[0].number)
        if await self._state.palace(self._scope, within, after=0, limit=1, name=said):
            return None
        found = await self._numbered(within, number)
        return found.name if found else None

    async def _at(self, wing: int, room: int | None) -> Place:
        found = await self._numbered("", wing)
        if found is None or room is None:
            return Place(wing=found.name if found else NOWHERE)
        there = await self._numbered(pointer(wing), room)
        return Place(wing=found.name, room=there.name if there else NOWHERE)

    async def _numbered(self, parent: str, number: int) -> PalacePlace | None:
        found = await self._state.palace(self._scope, parent, after=number - 1, limit=1)
        return found[0] if found and found[0].number == number else None


async def in_palace(backends: Backends, scope: Scope, filters: Filters, where: MemoryFilter) -> MemoryFilter:
    """The filter narrowed to the wings, rooms and closets that are named.

    Raises:
        StateUnavailable: the palace's names cannot be read.
    """
    if not filters.wing and not filters.room and not filters.closet:
        return where
    names = PalaceNames(backends, scope)
    wings = [await names.wing(said) for said in filters.wing]
    only = wings[0].wing if len(wings) == 1 else None
    places = wings + [await names.room(said, only) for said in filters.room]
    return msgspec.structs.replace(
        where,
        wings=tuple(dict.fromkeys(place.wing for place in places if place.wing is not None)),
        rooms=tuple(dict.fromkeys(place.room for place in places if place.room is not None)),
        closets=tuple(slug(closet) or closet for closet in filters.closet),
    )
