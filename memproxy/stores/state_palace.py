"""The palace's numbers and names (`ports.PalaceStore`).

A number is given once. What it named may be erased; the ``last`` rows, which hold no names of subjects, see to it that
it is never given again while its owner is there.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec

from memproxy.core.palace import Names, circle, circles, is_role, is_shown_to, pointer, read_circle, read_pointer
from memproxy.core.scope import OwnerKey, Scope
from memproxy.core.transfer_lines import PalaceRow
from memproxy.ports import PalacePlace, Placed
from memproxy.stores.state_part import OWNED, Columns, Db, StatePart, owned

NAMED_IN_WORDS = ("wing", "closet", "alias")
"""Kinds of rows whose names are words of the user's; rooms are named by sessions."""

_NAMED = ("wing", "room", "closet")
"""Kinds in which a number means one name; an alias shares its wing's."""

_ADOPTED = ("wing", "room", "closet", "alias", "home", "last")
"""Kinds in the order in which they can be taken over: what others stand in comes first."""

_TOP = ""
_Key = tuple[str, str, str]
"""Kind, parent and name of a row."""

_Circles = tuple[str, ...]
"""Circles whose aliases hold (`core.palace.circles`); new aliases are added to the first of them."""


class PlaceTaken(Exception):
    """A number or a name means something else here; nothing of the transaction may stay."""


class Palace:
    """An owner's rows that were read, and the rules that number new ones (``changed``). Names are as written."""

    def __init__(self, numbers: Mapping[_Key, int], columns: Columns) -> None:
        self._numbers = dict(numbers)
        self._names = {(kind, parent, number): name for (kind, parent, name), number in numbers.items()}
        self._columns = columns
        self.changed: dict[_Key, int] = {}

    def allot(self, requests: Sequence[Names]) -> list[Placed]:
        """Where each of these written names stands; what has no number yet gets one."""
        placed = []
        for names in requests:
            for name, other in names.same:
                self._join_names(name, other, names.circles_here)
            wing = self._home(names) if names.drawer else self._wing(names.wing, names.circles_here)
            numbers = (wing, self._number("room", pointer(wing), names.room))
            room = pointer(*numbers)
            self._number("closet", room, names.closet)
            wing_name = self._columns.plain_name(self._names["wing", _TOP, wing])
            placed.append(Placed(wing_name, pointer(*numbers, self._next("drawer", room)) if names.drawer else room))
        return placed

    def _home(self, names: Names) -> int:
        """The wing of a session's turns: the one that the first of them was put into, or that they moved to."""
        home = self._numbers.get(("home", _TOP, names.room))
        if home is None or names.moves:
            home = self._wing(names.wing, names.circles_here)
            self._keep("home", _TOP, names.room, home)
        return home

    def _wing(self, name: str, in_circles: _Circles) -> int:
        wing = self._known_wing(name, in_circles)
        return wing if wing is not None else self._number("wing", _TOP, name)

    def _known_wing(self, name: str, in_circles: _Circles) -> int | None:
        """The wing of this name. What it was told here it means here, also when it is a wing elsewhere."""
        number = self._known_alias(name, in_circles)
        return number if number is not None else self._numbers.get(("wing", _TOP, name))

    def _known_alias(self, name: str, in_circles: _Circles) -> int | None:
        numbers = (self._numbers.get(("alias", within, name)) for within in in_circles)
        return next((number for number in numbers if number is not None), None)

    def _join_names(self, name: str, other: str, in_circles: _Circles) -> None:
        """Note that two names mean one subject, in their circle: the name with a wing shares it with the other; two
        wings are never merged. A role ("boss") moves from the person who had it to the one who has it now.
        """
        first, second = self._known_wing(name, in_circles), self._known_wing(other, in_circles)
        is_role_of_another = is_role(self._columns.plain_name(name)) and first is not None and first != second
        if is_role_of_another and self._has_a_name_beside(name, in_circles, first):
            wing = second if second is not None else self._wing(other, in_circles)
            if self._known_alias(name, in_circles) is not None:  # a role that has a wing of its own keeps it
                self._keep("alias", in_circles[0], name, wing)
        elif first is not None and second is None:
            self._keep("alias", in_circles[0], other, first)
        elif first is None:
            wing = second if second is not None else self._wing(other, in_circles)
            self._keep("alias", in_circles[0], name, wing)

    def _has_a_name_beside(self, role: str, in_circles: _Circles, wing: int | None) -> bool:
        """Whether a role's wing is known by a name too."""
        return any(
            kind in {"wing", "alias"} and within in in_circles and number == wing and name != role
            for (kind, within, name), number in self._numbers.items()
        )

    def _number(self, kind: str, parent: str, name: str) -> int:
        """The number of a name, a new one where it has none."""
        number = self._numbers.get((kind, parent, name))
        if number is None:
            number = self._next(kind, parent)
            self._keep(kind, parent, name, number)
        return number

    def _next(self, kind: str, parent: str) -> int:
        """A number that was never given."""
        number = self._numbers.get(("last", parent, kind), 0) + 1
        self._keep("last", parent, kind, number)
        return number

    def adopt(self, places: Sequence[PalaceRow]) -> None:
        """Take these over; all rows were read. Raises `PlaceTaken`: one means something else, or has no ground."""
        for row in sorted(places, key=lambda row: _ADOPTED.index(row.kind)):
            name = self._columns.name(row.name) if row.kind in NAMED_IN_WORDS else row.name
            number = self._numbers.get((row.kind, row.parent, name))
            if self._means_another(row, number) or not self._has_ground(row):
                raise PlaceTaken
            self._keep(row.kind, row.parent, name, max(row.number, number or 0))

    def _means_another(self, row: PalaceRow, number: int | None) -> bool:
        """Whether its name, which has ``number`` here, or its own number means something else here."""
        if row.kind == "last":
            return False
        if number is not None:
            return number != row.number
        if row.kind not in _NAMED:
            return False
        # a number that was given once and is free again keeps its old meaning
        was_given = row.number <= self._numbers.get(("last", row.parent, row.kind), -1)
        return was_given or (row.kind, row.parent, row.number) in self._names

    def _has_ground(self, row: PalaceRow) -> bool:
        """Whether the wing or room that a place stands in, or that it is another name of, is there."""
        if row.kind == "last" or (row.kind == "wing" and row.parent == _TOP):
            return True
        if row.kind in {"alias", "home"}:
            is_named = row.parent == _TOP or (row.kind == "alias" and read_circle(row.parent) is not None)
            return is_named and ("wing", _TOP, row.number) in self._names
        numbers = read_pointer(row.parent)
        if numbers is None or numbers[2] is not None or (numbers[1] is None) != (row.kind == "room"):
            return False
        if numbers[1] is None:
            return ("wing", _TOP, numbers[0]) in self._names
        return ("room", pointer(numbers[0]), numbers[1]) in self._names

    def _keep(self, kind: str, parent: str, name: str, number: int) -> None:
        self._numbers[kind, parent, name] = self.changed[kind, parent, name] = number
        self._names[kind, parent, number] = name


class StatePalace(StatePart):
    """`ports.PalaceStore`. An owner without a key has no palace."""

    async def allot_numbers(self, scope: Scope, names: Sequence[Names]) -> list[Placed]:
        async def work(db: Db) -> list[Placed]:
            columns = await self._sealing.for_writing(db, scope.owner)
            requests = [_sealed_names(columns, entry) for entry in names]
            palace = Palace(await _nearby_rows(db, scope.owner, requests), columns)
            placed = palace.allot(requests)
            await _save(db, scope.owner, palace)
            return placed

        return await self._database.write(work, scope.owner)

    async def palace(
        self, scope: Scope, parent: str, *, after: int, limit: int, name: str | None = None
    ) -> list[PalacePlace]:
        numbers = read_pointer(parent) if parent else None
        kind = "wing" if numbers is None else "room" if numbers[1] is None else "closet"

        async def work(db: Db) -> list[PalacePlace]:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return []
            rows = await db.all(
                f"SELECT number, name FROM palace WHERE {OWNED} AND kind = :kind AND parent = :parent "
                f"AND number > :after {'' if name is None else 'AND name = :name '}ORDER BY number LIMIT :limit",
                kind=kind,
                parent=parent,
                after=after,
                name=name if name is None or kind == "room" else columns.name(name),
                limit=limit,
                **owned(scope.owner),
            )
            return [PalacePlace(number, columns.plain_name(written)) for number, written in rows]

        return await self._database.read(work)

    async def palace_names(self, scope: Scope, *, writing: bool = False) -> dict[str, str]:
        place = (scope.project, scope.agent)
        in_circles = circles(*place)

        async def work(db: Db) -> dict[str, str]:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return {}
            rows = await _rows(db, scope.owner, "kind IN ('wing', 'alias') ORDER BY parent, name")
            names = {number: name for kind, _, name, number in rows if kind == "wing"}
            wings = {name: name for name in names.values()}
            aliases = {
                name: names[number]
                for kind, within, name, number in rows
                if kind == "alias"
                and number in names
                and (within in in_circles if writing else is_shown_to(within, *place))
            }
            # who sees all finds every wing by its own name
            by_name = wings | aliases if writing or place != (None, None) else aliases | wings
            read = {columns.plain_name(name): columns.plain_name(wing) for name, wing in by_name.items()}
            return {name: wing for name, wing in read.items() if name and wing}

        return await self._database.glance(work)

    async def palace_rows(self, scope: Scope) -> list[PalaceRow]:
        async def work(db: Db) -> list[PalaceRow]:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return []
            read = [
                PalaceRow(kind=kind, parent=parent, name=columns.plain_name(name), number=number)
                for kind, parent, name, number in await _rows(db, scope.owner, "true ORDER BY parent, number, name")
            ]
            return sorted(read, key=lambda row: _ADOPTED.index(row.kind))

        return await self._database.read(work)

    async def adopt_palace(self, scope: Scope, rows: Sequence[PalaceRow]) -> bool:
        async def work(db: Db) -> None:
            columns = await self._sealing.for_writing(db, scope.owner)
            palace = Palace(_by_key(await _rows(db, scope.owner, "true")), columns)
            palace.adopt(rows)
            await _save(db, scope.owner, palace)

        with suppress(PlaceTaken):
            await self._database.write(work, scope.owner)
            return True
        return False

    async def stand(self, scope: Scope, places: Sequence[tuple[str, str, str]]) -> list[bool]:
        async def work(db: Db) -> list[bool]:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return [False] * len(places)
            named = {*(columns.name(wing) for wing, _, _ in places), *(room for _, room, _ in places)}
            rows = await _rows(db, scope.owner, "kind IN ('wing', 'room') AND name = ANY(:named)", named=list(named))
            existing = set(rows)
            standing = []
            for wing, room, where in places:
                numbers = read_pointer(where)
                standing.append(
                    numbers is not None
                    and ("wing", _TOP, columns.name(wing), numbers[0]) in existing
                    and ("room", pointer(numbers[0]), room, numbers[1]) in existing
                )
            return standing

        return await self._database.read(work)

    async def erase_wings(self, scope: Scope, wings: Sequence[str]) -> None:
        async def work(db: Db, columns: Columns) -> None:
            named = [columns.name(name) for name in wings]
            for *_, number in await _rows(db, scope.owner, "kind = 'wing' AND name = ANY(:named)", named=named):
                is_it = "number = :number AND (kind = 'alias' OR (kind IN ('wing', 'home') AND parent = ''))"
                await _erase(db, scope.owner, is_it, number=number)
                await _erase_below(db, scope.owner, pointer(number))

        await self._change(scope, work)

    async def erase_aliases(self, scope: Scope, project: str) -> None:
        told_in = circle(project, None)

        async def work(db: Db, _: Columns) -> None:
            where = f"kind = 'alias' AND (parent = :told_in OR {db.begins('parent', 'agents')})"
            await _erase(db, scope.owner, where, told_in=told_in, agents=f"{told_in}&")

        await self._change(scope, work)

    async def erase_closets(self, scope: Scope, closets: Sequence[tuple[str, str]]) -> None:
        async def work(db: Db, columns: Columns) -> None:
            for room, name in closets:
                where = "kind = 'closet' AND parent = :room AND name = :name"
                await _erase(db, scope.owner, where, room=room, name=columns.name(name))

        await self._change(scope, work)

    async def rename_wings(self, scope: Scope, wings: Mapping[str, str], aliases: Collection[str]) -> None:
        async def work(db: Db, columns: Columns) -> None:
            gone = [columns.name(alias) for alias in aliases]
            await _erase(db, scope.owner, "kind = 'alias' AND name = ANY(:gone)", gone=gone)
            for plain, plain_other in wings.items():
                name, other = columns.name(plain), columns.name(plain_other)
                for *_, number in await _rows(db, scope.owner, "kind = 'wing' AND name = :name", name=name):
                    is_alias = "kind = 'alias' AND name = :other AND number = :number AND parent = ''"
                    await _erase(db, scope.owner, is_alias, other=other, number=number)
                    rename = f"UPDATE palace SET name = :other WHERE {OWNED} AND kind = 'wing' AND name = :name"
                    await db.run(rename, other=other, name=name, **owned(scope.owner))

        await self._change(scope, work)

    async def _change(self, scope: Scope, change: Callable[[Db, Columns], Awaitable[None]]) -> None:
        async def work(db: Db) -> None:
            if (columns := await self._sealing.of(db, scope.owner)) is not None:
                await change(db, columns)

        await self._database.write(work, scope.owner)


async def erase(db: Db, owner: OwnerKey, session: str | None) -> None:
    """Erase the owner's palace, or the rooms of one session."""
    if session is None:
        await _erase(db, owner, "true")
        return
    for _, parent, _, number in await _rows(db, owner, "kind = 'room' AND name = :session", session=session):
        await _erase_below(db, owner, f"{parent}/{pointer(0, number).partition('/')[2]}")
    await _erase(db, owner, "kind IN ('room', 'home') AND name = :session", session=session)


async def _erase_below(db: Db, owner: OwnerKey, parent: str) -> None:
    # what stands right after a slash in the order of characters is the digit zero: the range holds what is below
    below = "kind IN ('room', 'closet', 'last') AND (parent = :parent OR (parent >= :first AND parent < :end))"
    await _erase(db, owner, below, parent=parent, first=f"{parent}/", end=f"{parent}0")


async def _erase(db: Db, owner: OwnerKey, where: str, **values: Any) -> None:
    await db.run(f"DELETE FROM palace WHERE {OWNED} AND {where}", **owned(owner), **values)


async def _rows(db: Db, owner: OwnerKey, where: str, **values: Any) -> list[tuple[str, str, str, int]]:
    """Kind, parent, name and number of the owner's rows."""
    read = f"SELECT kind, parent, name, number FROM palace WHERE {OWNED} AND {where}"
    return [(kind, parent, name, number) for kind, parent, name, number in await db.all(read, **owned(owner), **values)]


def _by_key(rows: Sequence[tuple[str, str, str, int]]) -> dict[_Key, int]:
    return {(kind, parent, name): number for kind, parent, name, number in rows}


async def _nearby_rows(db: Db, owner: OwnerKey, requests: Sequence[Names]) -> dict[_Key, int]:
    """What decides where these written names stand: names of wings, what is in the rooms, and last numbers."""
    named = {name for names in requests for name in (names.wing, *chain(*names.same))}
    rows = await _rows(db, owner, "kind IN ('wing', 'alias')")
    wings = {number for _, _, name, number in rows if name in named}
    condition = "kind IN ('home', 'room') AND name = ANY(:rooms)"
    here_rows = await _rows(db, owner, condition, rooms=list({names.room for names in requests}))
    wings |= {number for kind, _, _, number in here_rows if kind == "home"}
    inside = [f"{parent}/{pointer(0, number).partition('/')[2]}" for _, parent, _, number in here_rows if parent]
    parents = [_TOP, *map(pointer, wings), *inside]
    within = await _rows(db, owner, "kind IN ('closet', 'last') AND parent = ANY(:parents)", parents=parents)
    return _by_key([*rows, *here_rows, *within])


async def _save(db: Db, owner: OwnerKey, palace: Palace) -> None:
    await db.insert(
        "palace",
        "tenant, user_id, kind, parent, name, number",
        [(*owner, *key, number) for key, number in palace.changed.items()],
        "(tenant, user_id, kind, parent, name) DO UPDATE SET number = excluded.number",
    )


def _sealed_names(columns: Columns, names: Names) -> Names:
    """The names as they are written."""
    return msgspec.structs.replace(
        names,
        wing=columns.name(names.wing),
        closet=columns.name(names.closet),
        same=tuple((columns.name(name), columns.name(other)) for name, other in names.same),
    )
