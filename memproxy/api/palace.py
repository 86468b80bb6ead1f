"""`GET /v1/memory/palace`: wings, their rooms, their closets, their drawers; one level a call, counted and paged.

Places are named by a wing's name, any alias of it, or a pointer.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from memproxy.api.calls import Call, operation
from memproxy.api.context import Backends, number_after, write_cursor
from memproxy.api.fields import Label, Limit, Name, Phrase
from memproxy.api.models import Cursor, Filters, PlaceQuery, Shown, ShownMemory, one_of
from memproxy.core.memory import Kind
from memproxy.core.palace import pointer, read_pointer, read_room, slug, subject_name
from memproxy.core.scope import Scope
from memproxy.errors import RequestError
from memproxy.ports import MemoryFilter, PalacePlace, StateStore

NOWHERE = "\x00"
"""A name that no place has: what is asked of it finds nothing."""

_READ_AT_ONCE = 200
"""Places."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A wing, and a room when one is named, by the names under which memories hold them."""

    wing: str | None = None
    room: str | None = None


@dataclass(frozen=True)
class PalaceNames:
    """Reads what a caller calls a place. Every call raises `errors.StateUnavailable` where the names cannot be read."""

    _state: StateStore
    _scope: Scope

    async def wing(self, named: str) -> Place:
        """The wing of this name, alias or pointer (a room's pointer names the room too); `NOWHERE` if there is none."""
        if (numbers := read_pointer(named)) is not None:
            return await self._place_at(numbers[0], numbers[1])
        names = await self._state.palace_names(self._scope)
        return Place(wing=names.get(subject_name(named)) or names.get(slug(named)) or NOWHERE)

    async def room(self, named: str, wing: str | None = None) -> Place:
        """The room of this session, or of this pointer, which names the wing too; in a wing (its name) the pointer's
        last part does, unless a session there is called so.
        """
        numbers = read_pointer(named)
        if numbers is not None and numbers[1] is not None:
            return await self._place_at(numbers[0], numbers[1])
        number = read_room(named)
        if wing is None or number is None:
            return Place(room=named)
        within = await self.pointer_of(Place(wing=wing))
        if within is None or await self._state.palace(self._scope, within, after=0, limit=1, name=named):
            return Place(wing=wing, room=named)
        numbered = await self._place_numbered(within, number)
        return Place(wing=wing, room=numbered.name if numbered else named)

    async def pointer_of(self, place: Place) -> str | None:
        """The pointer of a place, empty for the whole palace; None when there is no such place."""
        parent = ""
        for name in (place.wing, place.room):
            if name is None:
                break
            places = await self._state.palace(self._scope, parent, after=0, limit=1, name=name)
            if not places:
                return None
            parent = _pointer_within(parent, places[0].number)
        return parent

    async def _place_at(self, wing: int, room: int | None) -> Place:
        wing_place = await self._place_numbered("", wing)
        if wing_place is None or room is None:
            return Place(wing=wing_place.name if wing_place else NOWHERE)
        room_place = await self._place_numbered(pointer(wing), room)
        return Place(wing=wing_place.name, room=room_place.name if room_place else NOWHERE)

    async def _place_numbered(self, parent: str, number: int) -> PalacePlace | None:
        places = await self._state.palace(self._scope, parent, after=number - 1, limit=1)
        return places[0] if places and places[0].number == number else None


async def in_palace(api: Backends, scope: Scope, filters: Filters, where: MemoryFilter) -> MemoryFilter:
    """The filter narrowed to the wings, rooms and closets that are named."""
    if not filters.wing and not filters.room and not filters.closet:
        return where
    names = PalaceNames(api.state, scope)
    wings = [await names.wing(named) for named in filters.wing]
    only = wings[0].wing if len(wings) == 1 else None
    places = wings + [await names.room(named, only) for named in filters.room]
    return msgspec.structs.replace(
        where,
        wings=tuple(dict.fromkeys(place.wing for place in places if place.wing is not None)),
        rooms=tuple(dict.fromkeys(place.room for place in places if place.room is not None)),
        closets=tuple(slug(closet) or closet for closet in filters.closet),
    )


class PalaceQuery(PlaceQuery, Shown):
    """`GET /v1/memory/palace`: one level below the place that is given. Names or pointers; beside its ``wing`` a room
    may also be given by its pointer's last part (``R-01``).
    """

    wing: Phrase | None = None
    room: Name | None = None
    closet: Label | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


Level = Annotated[Any, one_of("wing", "room", "closet", "drawer")]


class PalaceEntry(msgspec.Struct, kw_only=True):
    """A place with what it holds, or (a drawer) one memory."""

    level: Level
    name: str
    pointer: str | None
    aliases: list[str] | UnsetType = UNSET
    memories: int | UnsetType = UNSET
    turns: int | UnsetType = UNSET
    facts: int | UnsetType = UNSET
    memory: ShownMemory | UnsetType = UNSET


class PalaceLevel(msgspec.Struct):
    """What is in one place of the palace, a page of it."""

    level: Level
    data: list[PalaceEntry]
    next_cursor: str | None


@operation("GET", "/v1/memory/palace", "memory:read")
async def palace(api: Backends, call: Call, query: PalaceQuery) -> PalaceLevel:
    """What is in a place of the palace: wings, a wing's rooms, a room's closets, a closet's drawers.

    What is in the place that is named: without one the wings. Places without memories that the caller sees are left
    out.
    """
    scope = call.scope()
    api.require("store")
    names = PalaceNames(api.state, scope)
    place = await names.wing(query.wing) if query.wing is not None else Place()
    if query.room is not None:
        room = await names.room(query.room, place.wing)
        place = Place(wing=room.wing or place.wing, room=room.room)
        if place.wing is None:
            raise RequestError("room: name its wing too, or give its whole pointer (W-001/R-01).", param="wing")
    if query.closet is not None:
        if place.room is None:
            raise RequestError("closet: name its wing and room too.", param="room")
        where = _within(place, "closet", slug(query.closet) or query.closet)
        where = msgspec.structs.replace(where, now=api.parts.clock.now())
        page = await api.store.page(scope, where, limit=query.limit, cursor=query.cursor)
        drawers = [
            PalaceEntry(level="drawer", name=memory.id, pointer=memory.pointer, memory=call.show(memory))
            for memory in page.memories
        ]
        return PalaceLevel("drawer", drawers, page.next_cursor)
    parent = await names.pointer_of(place)
    level = "wing" if place.wing is None else "room" if place.room is None else "closet"
    after = number_after(f"palace.{level}", query.cursor)
    if parent is None:
        return PalaceLevel(level, [], None)
    entries, last = await _entries(api, scope, level, parent, place, after=after, limit=query.limit)
    return PalaceLevel(level, entries, write_cursor(f"palace.{level}", last) if last is not None else None)


async def _entries(
    api: Backends, scope: Scope, level: str, parent: str, place: Place, *, after: int, limit: int
) -> tuple[list[PalaceEntry], int | None]:
    """The next places that hold something for the caller, and the number after which a page that is not empty goes on:
    how many others there are is not told.
    """
    entries: list[PalaceEntry] = []
    aliases: dict[str, list[str]] = {}  # those that were told in another project (agent) are not among the names
    for name, wing in sorted((await api.state.palace_names(scope)).items()) if level == "wing" else ():
        if name != wing:
            aliases.setdefault(wing, []).append(name)
    last = None
    while places := await api.state.palace(scope, parent, after=after, limit=_READ_AT_ONCE):
        for found_place in places:
            after = found_place.number
            where = msgspec.structs.replace(_within(place, level, found_place.name), now=api.parts.clock.now())
            total = await api.store.count(scope, where)
            if not total:
                continue
            if len(entries) == limit:
                return entries, last
            turns = await api.store.count(scope, msgspec.structs.replace(where, kinds=(Kind.TURN,)))
            entries.append(
                PalaceEntry(
                    level=level,
                    name=found_place.name,
                    pointer=parent if level == "closet" else _pointer_within(parent, found_place.number),
                    aliases=aliases.get(found_place.name, []) if level == "wing" else UNSET,
                    memories=total,
                    turns=turns,
                    facts=total - turns,
                )
            )
            last = found_place.number
    return entries, None


def _within(place: Place, level: str, name: str) -> MemoryFilter:
    """What is in the place of this name, which is in ``place``."""
    if level == "wing":
        return MemoryFilter(wings=(name,))
    wings = (place.wing or "",)
    if level == "room":
        return MemoryFilter(wings=wings, rooms=(name,))
    return MemoryFilter(wings=wings, rooms=(place.room or "",), closets=(name,))


def _pointer_within(parent: str, number: int) -> str:
    """The pointer of a wing (in nothing) or of a room (in a wing)."""
    numbers = read_pointer(parent)
    return pointer(numbers[0], number) if numbers is not None else pointer(number)
