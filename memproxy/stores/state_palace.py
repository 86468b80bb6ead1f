"""The palace's numbers and names (`ports.PalaceStore`).

A number is given once. What it named may be erased; the ``last`` rows, which hold no names of subjects, see to it that
it is never given again while its owner is there.
"""

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from memproxy.core.palace import Names, circle, circles, is_role, is_shown_to, pointer, read_circle, read_pointer
from memproxy.core.scope import OwnerKey, Scope
from memproxy.core.transfer_lines import PalaceRow
from memproxy.ports import PalacePlace, Placed
from memproxy.stores.state_part import Columns, Db, Result, Row, StatePart

NAMED_IN_WORDS = ("wing", "closet", "alias")
"""Kinds of rows whose names are words of the user's; rooms are named by sessions."""

_NAMED = ("wing", "room", "closet")
"""Kinds in which a number means one name; an alias shares its wing's."""

_ADOPTED = ("wing", "room", "closet", "alias", "home", "last")
"""Kinds in the order in which they can be taken over: what others stand in comes first."""

_TOP = ""
_MINE = "tenant = ? AND user = ?"
_Key = tuple[str, str, str]
"""Kind, parent and name of a row."""

_Circles = tuple[str, ...]
"""Circles whose aliases hold (`core.palace.circles`); new aliases are added to the first of them."""


class PlaceTaken(Exception):
    """A number or a name means something else here; nothing of the transaction may stay."""


class _Room(NamedTuple):
    """A room that was looked up: most of what comes together stands in a few, and each lookup is four statements."""

    wing: str
    pointer: str
    numbers: tuple[int, int]


class Palace:
    """One owner's rows in a table of SQLite, and the rules by which they change. Names come and go as they are written
    (``columns``).
    """

    def __init__(self, db: sqlite3.Connection, owner: OwnerKey, columns: Columns) -> None:
        self._db = db
        self._owner = owner
        self._columns = columns
        self._last: dict[tuple[str, str], int] = {}

    def allot(self, requests: Sequence[Names]) -> list[Placed]:
        """Where each stands; what has no number yet gets one."""
        rooms: dict[tuple[bool, str, str, _Circles], _Room] = {}
        closets: dict[_Key, int | None] = {}
        placed = []
        for requested in requests:
            names = self._written(requested)
            if names.same or names.moves:
                rooms.clear()  # another name of a wing, or another wing of a conversation
            for one, other in names.same:
                self._same(one, other, names.circles_here)
            key = (names.drawer, names.wing, names.room, names.circles_here)
            room = rooms.get(key) or rooms.setdefault(key, self._room(names))
            closet = ("closet", room.pointer, names.closet)
            if closet not in closets:
                closets[closet] = self._next_number("closet", room.pointer) if self._find(*closet) is None else None
            numbers = (*room.numbers, self._next_number("drawer", room.pointer)) if names.drawer else room.numbers
            placed.append(Placed(self._columns.plain_name(room.wing), pointer(*numbers)))
        self._keep([(key, number) for key, number in closets.items() if number is not None])
        self._keep([(("last", room, kind), number) for (kind, room), number in self._last.items()])
        return placed

    def _written(self, names: Names) -> Names:
        name = self._columns.name
        return msgspec.structs.replace(
            names,
            wing=name(names.wing),
            closet=name(names.closet),
            same=tuple((name(one), name(other)) for one, other in names.same),
        )

    def _next_number(self, kind: str, room: str) -> int:
        """A new number of a drawer or closet: a room's last one is read once, and kept once at the end."""
        if (kind, room) not in self._last:
            self._last[kind, room] = self._find("last", room, kind) or 0
        self._last[kind, room] += 1
        return self._last[kind, room]

    def _room(self, names: Names) -> _Room:
        number = self._home(names) if names.drawer else self._wing(names.wing, names.circles_here)
        room = self._number("room", pointer(number), names.room)
        ((wing,), *_) = self._all("name", "kind = 'wing' AND parent = '' AND number = ?", number)
        return _Room(wing, pointer(number, room), (number, room))

    def _home(self, names: Names) -> int:
        """The wing of a session's turns: the one that the first of them was put into, or that they moved to."""
        home = self._find("home", _TOP, names.room)
        if home is not None and not names.moves:
            return home
        number = self._wing(names.wing, names.circles_here)
        self._keep([(("home", _TOP, names.room), number)])
        return number

    def _wing(self, name: str, in_circles: _Circles) -> int:
        wing = self._known_wing(name, in_circles)
        return wing if wing is not None else self._number("wing", _TOP, name)

    def _known_wing(self, name: str, in_circles: _Circles) -> int | None:
        """The wing of this name. What it was told here it means here, also when it is a wing elsewhere."""
        number = self._known_alias(name, in_circles)
        return number if number is not None else self._find("wing", _TOP, name)

    def _known_alias(self, name: str, in_circles: _Circles) -> int | None:
        numbers = (self._find("alias", within, name) for within in in_circles)
        return next((number for number in numbers if number is not None), None)

    def _same(self, one: str, other: str, in_circles: _Circles) -> None:
        """Note that two names mean one subject: the name with a wing shares it with the other; two wings are never
        merged. A role ("boss") moves from the person who had it to the one who has it now. An alias holds in its
        circle.
        """
        first, second = self._known_wing(one, in_circles), self._known_wing(other, in_circles)
        is_role_of_another = is_role(self._columns.plain_name(one)) and first is not None and first != second
        if is_role_of_another and self._has_a_name_beside(one, in_circles, first):
            wing = second if second is not None else self._wing(other, in_circles)
            if self._known_alias(one, in_circles) is not None:  # a role that has a wing of its own keeps it
                self._keep([(("alias", in_circles[0], one), wing)])
        elif first is not None and second is None:
            self._keep([(("alias", in_circles[0], other), first)])
        elif first is None:
            wing = second if second is not None else self._wing(other, in_circles)
            self._keep([(("alias", in_circles[0], one), wing)])

    def _has_a_name_beside(self, role: str, in_circles: _Circles, wing: int | None) -> bool:
        """Whether a role's wing is known by a name too."""
        rows = self._all("parent", "kind IN ('wing', 'alias') AND number = ? AND name != ?", wing, role)
        return any(within in in_circles for (within,) in rows)

    def _number(self, kind: str, parent: str, name: str) -> int:
        """The number of a name, a new one where it has none."""
        if (existing := self._find(kind, parent, name)) is not None:
            return existing
        number = (self._find("last", parent, kind) or 0) + 1
        self._keep([(("last", parent, kind), number), ((kind, parent, name), number)])
        return number

    def below(self, parent: str, name: str | None, *, after: int, limit: int) -> list[PalacePlace]:
        """The places in ``parent`` with numbers over ``after``, in order; with a name, that one alone."""
        numbers = read_pointer(parent) if parent else None
        kind = "wing" if numbers is None else "room" if numbers[1] is None else "closet"
        where, values = "kind = ? AND parent = ? AND number > ?", [kind, parent, after]
        if name is not None:
            where, values = f"{where} AND name = ?", [*values, name if kind == "room" else self._columns.name(name)]
        rows = self._all("number, name", f"{where} ORDER BY number LIMIT ?", *values, limit)
        return [PalacePlace(number, self._columns.plain_name(name)) for number, name in rows]

    def names(self, scope: Scope, *, writing: bool = False) -> dict[str, str]:
        """Every name of a wing, and every alias that holds in the scope (`ports.PalaceStore`), and the wing's own
        name.
        """
        rows = self._all("kind, parent, name, number", "kind IN ('wing', 'alias') ORDER BY parent, name")
        of = {number: name for kind, _, name, number in rows if kind == "wing"}
        here = (scope.project, scope.agent)
        in_circles = circles(*here)
        wings = {name: of[number] for kind, _, name, number in rows if kind == "wing"}
        aliases = {
            name: of[number]
            for kind, within, name, number in rows
            if kind == "alias" and number in of and (within in in_circles if writing else is_shown_to(within, *here))
        }
        # who sees all finds every wing by its own name
        by_name = wings | aliases if writing or here != (None, None) else aliases | wings
        plain = self._columns.plain_name
        read = {plain(name): plain(wing) for name, wing in by_name.items()}
        return {name: wing for name, wing in read.items() if name and wing}

    def rows(self) -> list[PalaceRow]:
        """The whole palace, what others stand in first."""
        plain = self._columns.plain_name
        read = [
            PalaceRow(kind=kind, parent=parent, name=plain(name), number=number)
            for kind, parent, name, number in self._all(
                "kind, parent, name, number", "true ORDER BY parent, number, name"
            )
        ]
        return sorted(read, key=lambda row: _ADOPTED.index(row.kind))

    def adopt(self, places: Sequence[PalaceRow]) -> None:
        """Take these over.

        Raises:
            PlaceTaken: one of them means something else here, or stands in nothing.
        """
        for row in sorted(places, key=lambda row: _ADOPTED.index(row.kind)):
            name = self._columns.name(row.name) if row.kind in NAMED_IN_WORDS else row.name
            number = self._find(row.kind, row.parent, name)
            if self._means_another(row, number) or not self._has_ground(row):
                raise PlaceTaken
            self._keep([((row.kind, row.parent, name), max(row.number, number or 0))])

    def _means_another(self, row: PalaceRow, number: int | None) -> bool:
        """Whether its name, which has ``number`` here, or its own number means something else here."""
        if row.kind == "last":
            return False
        if number is not None:
            return number != row.number
        if row.kind not in _NAMED:
            return False
        # a number that was given once and is free again keeps its old meaning
        last = self._find("last", row.parent, row.kind)
        was_given = last is not None and row.number <= last
        return was_given or self._is_there(row.kind, row.parent, row.number)

    def _has_ground(self, row: PalaceRow) -> bool:
        """Whether the wing or room that a place stands in, or that it is another name of, is there."""
        if row.kind == "last" or (row.kind == "wing" and row.parent == _TOP):
            return True
        if row.kind in {"alias", "home"}:
            is_named = row.parent == _TOP or (row.kind == "alias" and read_circle(row.parent) is not None)
            return is_named and self._is_there("wing", _TOP, row.number)
        numbers = read_pointer(row.parent)
        if numbers is None or numbers[2] is not None or (numbers[1] is None) != (row.kind == "room"):
            return False
        if numbers[1] is None:
            return self._is_there("wing", _TOP, numbers[0])
        return self._is_there("room", pointer(numbers[0]), numbers[1])

    def _is_there(self, kind: str, parent: str, number: int) -> bool:
        return self._first("1", "kind = ? AND parent = ? AND number = ?", kind, parent, number) is not None

    def stand(self, places: Iterable[tuple[str, str, str]]) -> list[bool]:
        """Whether wing and room of these names have the numbers of this pointer, for each; the drawer does not
        matter.
        """
        checked: dict[tuple[str, str, int, int], bool] = {}
        standing = []
        for wing, room, where in places:
            numbers = read_pointer(where)
            if numbers is None or numbers[1] is None:
                standing.append(False)
                continue
            key = (wing, room, numbers[0], numbers[1])
            if key not in checked:
                is_wing = self._find("wing", _TOP, self._columns.name(wing)) == numbers[0]
                checked[key] = is_wing and self._find("room", pointer(numbers[0]), room) == numbers[1]
            standing.append(checked[key])
        return standing

    def leave(self, wings: Iterable[str]) -> None:
        """Erase wings, with their aliases, rooms and closets."""
        for name in wings:
            if (number := self._find("wing", _TOP, self._columns.name(name))) is not None:
                is_it = "number = ? AND (kind = 'alias' OR (kind IN ('wing', 'home') AND parent = ''))"
                self._erase(is_it, number)
                self._erase_below(pointer(number))

    def erase_aliases(self, project: str) -> None:
        """Erase the other names of wings that were told in a project, to whichever agent."""
        in_circles = circle(project, None)
        self._erase("kind = 'alias' AND (parent = ? OR parent GLOB ?)", in_circles, f"{in_circles}&*")

    def erase_closets(self, closets: Iterable[tuple[str, str]]) -> None:
        """Erase closets by their room's pointer and their name; their numbers are not given again."""
        for room, name in closets:
            self._erase("kind = 'closet' AND parent = ? AND name = ?", room, self._columns.name(name))

    def rename(self, wings: Mapping[str, str], aliases: Iterable[str]) -> None:
        """Give wings another name, which is no other name of them any longer, and erase these other names. Numbers
        stay.
        """
        for alias in aliases:
            self._erase("kind = 'alias' AND name = ?", self._columns.name(alias))
        for plain, plain_other in wings.items():
            name, other = self._columns.name(plain), self._columns.name(plain_other)
            if (number := self._find("wing", _TOP, name)) is not None:
                self._erase("kind = 'alias' AND name = ? AND number = ? AND parent = ''", other, number)
                self._db.execute(
                    f"UPDATE palace SET name = ? WHERE {_MINE} AND kind = 'wing' AND parent = '' AND name = ?",
                    (other, *self._owner, name),
                )

    def erase(self, session: str | None) -> None:
        """Erase all of it, or the rooms of one session."""
        if session is None:
            self._erase("true")
            return
        for parent, number in self._all("parent, number", "kind = 'room' AND name = ?", session):
            self._erase_below(f"{parent}/{pointer(0, number).partition('/')[2]}")
        self._erase("kind IN ('room', 'home') AND name = ?", session)

    def _erase_below(self, parent: str) -> None:
        # what stands right after a slash in the order of characters is the digit zero: the range holds what is below
        below = "kind IN ('room', 'closet', 'last') AND (parent = ? OR (parent >= ? AND parent < ?))"
        self._erase(below, parent, f"{parent}/", f"{parent}0")

    def _erase(self, where: str, *values: object) -> None:
        self._db.execute(f"DELETE FROM palace WHERE {_MINE} AND {where}", (*self._owner, *values))

    def _keep(self, rows: Iterable[tuple[_Key, int]]) -> None:
        """Insert or replace these."""
        self._db.executemany(
            """
            INSERT INTO palace (tenant, user, kind, parent, name, number) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (tenant, user, kind, parent, name) DO UPDATE SET number = excluded.number
            """,
            [(*self._owner, *key, number) for key, number in rows],
        )

    def _find(self, kind: str, parent: str, name: str) -> int | None:
        row = self._first("number", "kind = ? AND parent = ? AND name = ?", kind, parent, name)
        return None if row is None else int(row[0])

    def _first(self, columns: str, where: str, *values: object) -> Row | None:
        return next(iter(self._all(columns, where, *values)), None)

    def _all(self, columns: str, where: str, *values: object) -> list[Row]:
        query = f"SELECT {columns} FROM palace WHERE {_MINE} AND {where}"
        return self._db.execute(query, (*self._owner, *values)).fetchall()


class StatePalace(StatePart):
    """`ports.PalaceStore`: its rules are statements of SQLite, on the owner's rows or on a copy of them."""

    @abstractmethod
    async def _see(
        self,
        scope: Scope,
        work: Callable[[Palace], Result],
        *,
        named: Collection[str] | None = None,
        parent: str | None = None,
    ) -> Result | None:
        """What ``work`` finds among the owner's rows; None for an owner without a key, who has nothing. It needs of
        rooms and closets those of these names alone (none: a request waits for it), and those in ``parent``.
        """

    @abstractmethod
    async def _change(
        self,
        scope: Scope,
        change: Callable[[Palace], Result],
        *,
        named: Collection[str] | None = None,
        makes: bool = False,
    ) -> Result | None:
        """The same of what changes them; ``makes``: an owner without a key gets one."""

    @abstractmethod
    async def _erase_palace(self, db: Db, owner: OwnerKey, session: str | None) -> None:
        """Erase the owner's palace, or the rooms of one session, within a transaction."""

    async def allot_numbers(self, scope: Scope, names: Sequence[Names]) -> list[Placed]:
        named = {name for entry in names for name in (entry.room, entry.closet)}
        return await self._change(scope, lambda palace: palace.allot(names), named=named, makes=True) or []

    async def palace(
        self, scope: Scope, parent: str, *, after: int, limit: int, name: str | None = None
    ) -> list[PalacePlace]:
        def work(palace: Palace) -> list[PalacePlace]:
            return palace.below(parent, name, after=after, limit=limit)

        return await self._see(scope, work, parent=parent) or []

    async def palace_names(self, scope: Scope, *, writing: bool = False) -> dict[str, str]:
        return await self._see(scope, lambda palace: palace.names(scope, writing=writing), named=()) or {}

    async def palace_rows(self, scope: Scope) -> list[PalaceRow]:
        return await self._see(scope, Palace.rows) or []

    async def adopt_palace(self, scope: Scope, rows: Sequence[PalaceRow]) -> bool:
        with suppress(PlaceTaken):
            await self._change(scope, lambda palace: palace.adopt(rows), makes=True)
            return True
        return False

    async def stand(self, scope: Scope, places: Sequence[tuple[str, str, str]]) -> list[bool]:
        standing = await self._see(scope, lambda palace: palace.stand(places), named={room for _, room, _ in places})
        return standing or [False] * len(places)

    async def erase_wings(self, scope: Scope, wings: Sequence[str]) -> None:
        await self._change(scope, lambda palace: palace.leave(wings))

    async def erase_aliases(self, scope: Scope, project: str) -> None:
        await self._change(scope, lambda palace: palace.erase_aliases(project))

    async def rename_wings(self, scope: Scope, wings: Mapping[str, str], aliases: Collection[str]) -> None:
        await self._change(scope, lambda palace: palace.rename(wings, aliases))

    async def erase_closets(self, scope: Scope, closets: Sequence[tuple[str, str]]) -> None:
        await self._change(scope, lambda palace: palace.erase_closets(closets))
