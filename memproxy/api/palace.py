"""`GET /v1/memory/palace`: wings, their rooms, their closets, their drawers; one level a call, counted and paged."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends
from memproxy.api.http import answer, caller, read_query
from memproxy.api.pages import number_after, write_cursor
from memproxy.api.places import PalaceNames, Place
from memproxy.api.queries import PalaceQuery
from memproxy.auth import resolve_scope
from memproxy.core.memory import Kind, to_public
from memproxy.core.palace import pointer, read_pointer, slug
from memproxy.core.scope import Scope
from memproxy.errors import RequestError
from memproxy.ports import MemoryFilter, PalacePlace

_PLACES = 200
"""Places that are read at once."""


class PalaceView:
    """The call that shows the palace."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    async def tree(self, request: Request) -> Response:
        """What is in the place that is named: without one the wings. Places without memories that the caller sees are
        left out.
        """
        identity = caller(request, "memory:read")
        query = read_query(request, PalaceQuery)
        scope = resolve_scope(identity, user=query.user_id, project=query.project_id, agent=query.agent_id)
        self._backends.require_store()
        place = await self._place(scope, query)
        if query.closet is not None:
            return await self._drawers(scope, query, place)
        return await self._level(scope, query, place)

    async def _place(self, scope: Scope, query: PalaceQuery) -> Place:
        """The wing and room of the query.

        Raises:
            RequestError: a room or closet is named without what it is in.
        """
        names = PalaceNames(self._backends, scope)
        place = await names.wing(query.wing) if query.wing is not None else Place()
        if query.room is not None:
            room = await names.room(query.room, place.wing)
            place = Place(wing=room.wing or place.wing, room=room.room)
        if query.room is not None and place.wing is None:
            raise RequestError("room: name its wing too, or give its whole pointer (W-001/R-01).", param="wing")
        if query.closet is not None and place.room is None:
            raise RequestError("closet: name its wing and room too.", param="room")
        return place

    async def _level(self, scope: Scope, query: PalaceQuery, place: Place) -> Response:
        parent = await self._parent(scope, place)
        level = "wing" if place.wing is None else "room" if place.room is None else "closet"
        after = number_after(f"palace.{level}", query.cursor)
        if parent is None:
            return answer({"level": level, "data": [], "next_cursor": None})
        shown, after_last = await self._shown(scope, level, parent, place, after=after, limit=query.limit)
        data = [described for _, described in shown]
        if level == "wing":
            aliases = await self._aliases(scope)
            data = [one | {"aliases": aliases.get(one["name"], [])} for one in data]
        cursor = write_cursor(f"palace.{level}", after_last) if after_last is not None else None
        return answer({"level": level, "data": data, "next_cursor": cursor})

    async def _shown(
        self, scope: Scope, level: str, parent: str, place: Place, *, after: int, limit: int
    ) -> tuple[list[tuple[int, dict[str, Any]]], int | None]:
        """The next places that hold something for the caller, each with its number, and the number after which a page
        that is not empty goes on: how many others there are is not told.
        """
        shown: list[tuple[int, dict[str, Any]]] = []
        while found := await self._backends.state.palace(scope, parent, after=after, limit=_PLACES):
            for one in found:
                after = one.number
                if (described := await self._described(scope, level, parent, place, one)) is None:
                    continue
                if len(shown) == limit:
                    return shown, shown[-1][0]
                shown.append((one.number, described))
        return shown, None

    async def _parent(self, scope: Scope, place: Place) -> str | None:
        """The pointer of the place; None when there is no such place."""
        if place.wing is None:
            return ""
        wing = await self._numbered(scope, "", place.wing)
        if wing is None or place.room is None:
            return None if wing is None else pointer(wing)
        room = await self._numbered(scope, pointer(wing), place.room)
        return None if room is None else pointer(wing, room)

    async def _numbered(self, scope: Scope, parent: str, name: str) -> int | None:
        found = await self._backends.state.palace(scope, parent, name=name, after=0, limit=1)
        return found[0].number if found else None

    async def _aliases(self, scope: Scope) -> dict[str, list[str]]:
        """The other names of each wing, those that were told in another project (agent) left out."""
        found: dict[str, list[str]] = {}
        for name, wing in sorted((await self._backends.state.palace_names(scope)).items()):
            found.setdefault(wing, [])
            if name != wing:
                found[wing].append(name)
        return found

    async def _described(
        self, scope: Scope, level: str, parent: str, place: Place, one: PalacePlace
    ) -> dict[str, Any] | None:
        """A place with its counts; None when nothing that the caller may see is in it."""
        where = _within(place, level, one.name)
        where = msgspec.structs.replace(where, now=self._backends.clock.now())
        total = await self._backends.store.count(scope, where)
        if not total:
            return None
        turns = await self._backends.store.count(scope, msgspec.structs.replace(where, kinds=(Kind.TURN,)))
        described = {"level": level, "name": one.name, "pointer": _pointer(parent, level, one.number)}
        return described | {"memories": total, "turns": turns, "facts": total - turns}

    async def _drawers(self, scope: Scope, query: PalaceQuery, place: Place) -> Response:
        where = _within(place, "closet", slug(query.closet or "") or (query.closet or ""))
        where = msgspec.structs.replace(where, now=self._backends.clock.now())
        page = await self._backends.store.page(scope, where, limit=query.limit, cursor=query.cursor)
        data = [
            {
                "level": "drawer",
                "name": memory.id,
                "pointer": memory.pointer,
                "memory": to_public(memory, nulls=query.nulls),
            }
            for memory in page.memories
        ]
        return answer({"level": "drawer", "data": data, "next_cursor": page.next_cursor})


def _within(place: Place, level: str, name: str) -> MemoryFilter:
    """What is in the place of this name, which is in ``place``."""
    if level == "wing":
        return MemoryFilter(wings=(name,))
    wings = (place.wing or "",)
    if level == "room":
        return MemoryFilter(wings=wings, rooms=(name,))
    return MemoryFilter(wings=wings, rooms=(place.room or "",), closets=(name,))


def _pointer(parent: str, level: str, number: int) -> str:
    """A place's pointer; a closet has its room's."""
    if level == "wing":
        return pointer(number)
    numbers = read_pointer(parent)
    return pointer(numbers[0], number) if level == "room" and numbers is not None else parent
