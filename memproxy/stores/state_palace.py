"""The palace's numbers and names (`ports.PalaceStore`).

A number is given once. What it named may be erased; the ``last`` rows, which hold no names of subjects, see to it that
it is never given again while its owner is there.
"""

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from memproxy.core.palace import Names, circle, circles, is_role, is_told, pointer, read_circle, read_pointer
from memproxy.core.scope import Scope
from memproxy.core.transfer_lines import PalaceRow
from memproxy.ports import PalacePlace, Placed
from memproxy.stores.state_part import Columns, Owner, Result, StatePart

NAMED_IN_WORDS = ("wing", "closet", "alias")
"""Kinds of rows whose names are words of the user's; rooms are named by sessions."""

_TOP = ""
_Told = tuple[str, ...]
"""Circles whose aliases hold (`core.palace.circles`); new aliases are added to the first of them."""


class StatePalace(StatePart):
    """`ports.PalaceStore`: its rules are statements of SQLite, on the owner's rows or on a copy of them."""

    @abstractmethod
    async def _see(
        self,
        scope: Scope,
        work: Callable[[sqlite3.Connection, Columns], Result],
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
        change: Callable[[sqlite3.Connection, Columns], Result],
        *,
        named: Collection[str] | None = None,
        makes: bool = False,
    ) -> Result | None:
        """The same of what changes them; ``makes``: an owner without a key gets one."""

    async def place(self, scope: Scope, names: Sequence[Names]) -> list[Placed]:
        def work(db: sqlite3.Connection, columns: Columns) -> list[Placed]:
            sealed = [written(columns, one) for one in names]
            placed = place(db, scope.owner, sealed, role=lambda name: is_role(columns.plain_name(name)))
            return [Placed(columns.plain_name(one.wing), one.pointer) for one in placed]

        named = {name for one in names for name in (one.room, one.closet)}
        return await self._change(scope, work, named=named, makes=True) or []

    async def palace(
        self, scope: Scope, parent: str, *, after: int, limit: int, name: str | None = None
    ) -> list[PalacePlace]:
        def work(db: sqlite3.Connection, columns: Columns) -> list[PalacePlace]:
            is_room = bool(parent) and "/" not in parent
            wanted = columns.name(name) if name is not None and not is_room else name
            found = below(db, scope.owner, parent, wanted, after=after, limit=limit)
            return [PalacePlace(one.number, columns.plain_name(one.name)) for one in found]

        return await self._see(scope, work, parent=parent) or []

    async def palace_names(self, scope: Scope, *, writing: bool = False) -> dict[str, str]:
        def work(db: sqlite3.Connection, columns: Columns) -> dict[str, str]:
            found = names(db, scope, writing=writing)
            read = {columns.plain_name(name): columns.plain_name(wing) for name, wing in found.items()}
            return {name: wing for name, wing in read.items() if name and wing}

        return await self._see(scope, work, named=()) or {}

    async def palace_rows(self, scope: Scope) -> list[PalaceRow]:
        def work(db: sqlite3.Connection, columns: Columns) -> list[PalaceRow]:
            found = rows(db, scope.owner)
            return [msgspec.structs.replace(row, name=columns.plain_name(row.name)) for row in found]

        return await self._see(scope, work) or []

    async def adopt_palace(self, scope: Scope, rows: Sequence[PalaceRow]) -> bool:
        def work(db: sqlite3.Connection, columns: Columns) -> None:
            adopt(db, scope.owner, [written_row(columns, row) for row in rows])

        with suppress(PlaceTaken):
            await self._change(scope, work, makes=True)
            return True
        return False

    async def stand(self, scope: Scope, places: Sequence[tuple[str, str, str]]) -> list[bool]:
        def work(db: sqlite3.Connection, columns: Columns) -> list[bool]:
            return stand(db, scope.owner, [(columns.name(wing), room, where) for wing, room, where in places])

        return await self._see(scope, work, named={room for _, room, _ in places}) or [False] * len(places)

    async def leave_palace(self, scope: Scope, wings: Sequence[str]) -> None:
        await self._change(scope, lambda db, columns: leave(db, scope.owner, list(map(columns.name, wings))))

    async def leave_aliases(self, scope: Scope, project: str) -> None:
        await self._change(scope, lambda db, _: leave_aliases(db, scope.owner, project))

    async def rename_wings(self, scope: Scope, wings: Mapping[str, str], aliases: Collection[str]) -> None:
        def work(db: sqlite3.Connection, columns: Columns) -> None:
            others = {columns.name(name): columns.name(other) for name, other in wings.items()}
            rename(db, scope.owner, others, list(map(columns.name, aliases)))

        await self._change(scope, work)

    async def leave_closets(self, scope: Scope, closets: Sequence[tuple[str, str]]) -> None:
        def work(db: sqlite3.Connection, columns: Columns) -> None:
            leave_closets(db, scope.owner, [(room, columns.name(name)) for room, name in closets])

        await self._change(scope, work)


def written(columns: Columns, given: Names) -> Names:
    """Names as they are written."""
    return msgspec.structs.replace(
        given,
        wing=columns.name(given.wing),
        closet=columns.name(given.closet),
        same=tuple((columns.name(one), columns.name(other)) for one, other in given.same),
    )


def written_row(columns: Columns, row: PalaceRow) -> PalaceRow:
    """A row as it is written."""
    return msgspec.structs.replace(row, name=columns.name(row.name)) if row.kind in NAMED_IN_WORDS else row


def place(
    db: sqlite3.Connection, owner: Owner, wanted: Sequence[Names], *, role: Callable[[str], bool]
) -> list[Placed]:
    """Where each stands; what has no number yet gets one. ``role`` says whether a name is a role (`core.palace`)."""
    rooms: dict[tuple[bool, str, str, tuple[str, ...]], _Room] = {}
    given, placed = _Given(db, owner), []
    for names in wanted:
        if names.same or names.moves:
            rooms.clear()  # another name of a wing, or another wing of a conversation
        told = names.told
        for one, other in names.same:
            _same(db, owner, (one, other), told, role)
        key = (names.drawer, names.wing, names.room, told)
        if key not in rooms:
            rooms[key] = _room(db, owner, names)
        placed.append(_placed(given, names, rooms[key]))
    given.keep()
    return placed


class _Room(NamedTuple):
    """A room that was looked up: most of what comes together stands in a few, and each lookup is four statements."""

    wing: str
    pointer: str
    numbers: tuple[int, int]


class _Given:
    """Numbers of drawers and closets that one call gives: the last one of a room is read once and kept once."""

    def __init__(self, db: sqlite3.Connection, owner: Owner) -> None:
        self._db = db
        self._owner = owner
        self._last: dict[tuple[str, str], int] = {}
        self._closets: dict[tuple[str, str], int | None] = {}

    def drawer(self, room: str) -> int:
        """A new drawer's number."""
        return self._next("drawer", room)

    def closet(self, room: str, name: str) -> None:
        """See that a closet has a number."""
        if (room, name) not in self._closets:
            is_new = _find(self._db, self._owner, "closet", room, name) is None
            self._closets[room, name] = self._next("closet", room) if is_new else None

    def _next(self, kind: str, room: str) -> int:
        if (kind, room) not in self._last:
            self._last[kind, room] = _find(self._db, self._owner, "last", room, kind) or 0
        self._last[kind, room] += 1
        return self._last[kind, room]

    def keep(self) -> None:
        """Write what was given."""
        closets = [("closet", *place, number) for place, number in self._closets.items() if number is not None]
        lasts = [("last", room, kind, number) for (kind, room), number in self._last.items()]
        self._db.executemany(
            """
            INSERT INTO palace (tenant, user, kind, parent, name, number) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (tenant, user, kind, parent, name) DO UPDATE SET number = excluded.number
            """,
            [(*self._owner, *row) for row in (*closets, *lasts)],
        )


def _room(db: sqlite3.Connection, owner: Owner, names: Names) -> _Room:
    number = _home(db, owner, names) if names.drawer else _wing(db, owner, names.wing, names.told)
    room = _number(db, owner, "room", pointer(number), names.room)
    return _Room(_name_of(db, owner, number), pointer(number, room), (number, room))


def _placed(given: _Given, names: Names, room: _Room) -> Placed:
    given.closet(room.pointer, names.closet)
    if not names.drawer:
        return Placed(room.wing, room.pointer)
    return Placed(room.wing, pointer(*room.numbers, given.drawer(room.pointer)))


def _home(db: sqlite3.Connection, owner: Owner, names: Names) -> int:
    """The wing of a session's turns: the one that the first of them was put into, or that they moved to."""
    known = _find(db, owner, "home", _TOP, names.room)
    if known is not None and not names.moves:
        return known
    number = _wing(db, owner, names.wing, names.told)
    _put(db, owner, "home", (_TOP, names.room), number)
    return number


def _wing(db: sqlite3.Connection, owner: Owner, name: str, told: _Told) -> int:
    known = _known_wing(db, owner, name, told)
    return known if known is not None else _number(db, owner, "wing", _TOP, name)


def _known_wing(db: sqlite3.Connection, owner: Owner, name: str, told: _Told) -> int | None:
    """The wing of this name. One that was told here means here what it was told, also when it is a wing elsewhere."""
    number = _known_alias(db, owner, name, told)
    return number if number is not None else _find(db, owner, "wing", _TOP, name)


def _known_alias(db: sqlite3.Connection, owner: Owner, name: str, told: _Told) -> int | None:
    found = (_find(db, owner, "alias", within, name) for within in told)
    return next((number for number in found if number is not None), None)


def _same(
    db: sqlite3.Connection, owner: Owner, names: tuple[str, str], told: _Told, role: Callable[[str], bool]
) -> None:
    """Note that two names mean one subject: the name with a wing shares it with the other; two wings are never merged.
    A role ("boss") moves from the person who had it to the one who has it now. An alias holds in its circle.
    """
    one, other = names
    first, second = _known_wing(db, owner, one, told), _known_wing(db, owner, other, told)
    if first is not None and first != second and role(one) and _is_taken(db, owner, one, told, first):
        _take_over(db, owner, one, told, second if second is not None else _wing(db, owner, other, told))
    elif first is not None and second is None:
        _put(db, owner, "alias", (told[0], other), first)
    elif first is None:
        _put(db, owner, "alias", (told[0], one), second if second is not None else _wing(db, owner, other, told))


def _is_taken(db: sqlite3.Connection, owner: Owner, role: str, told: _Told, wing: int) -> bool:
    """Whether a role's wing is known by a name too."""
    rows = db.execute(
        "SELECT parent FROM palace WHERE tenant = ? AND user = ? AND kind IN ('wing', 'alias') AND number = ? "
        "AND name != ?",
        (*owner, wing, role),
    )
    return any(within in told for (within,) in rows)


def _take_over(db: sqlite3.Connection, owner: Owner, role: str, told: _Told, wing: int) -> None:
    """A role that is another name of a wing becomes one of this wing; one that has a wing of its own keeps it."""
    if _known_alias(db, owner, role, told) is not None:
        _put(db, owner, "alias", (told[0], role), wing)


def _number(db: sqlite3.Connection, owner: Owner, kind: str, parent: str, name: str) -> int:
    known = _find(db, owner, kind, parent, name)
    if known is not None:
        return known
    number = _next(db, owner, kind, parent)
    _put(db, owner, kind, (parent, name), number)
    return number


def _next(db: sqlite3.Connection, owner: Owner, kind: str, parent: str) -> int:
    (number,) = db.execute(
        """
        INSERT INTO palace (tenant, user, kind, parent, name, number) VALUES (?, ?, 'last', ?, ?, 1)
        ON CONFLICT (tenant, user, kind, parent, name) DO UPDATE SET number = number + 1 RETURNING number
        """,
        (*owner, parent, kind),
    ).fetchone()
    return int(number)


def _find(db: sqlite3.Connection, owner: Owner, kind: str, parent: str, name: str) -> int | None:
    row = db.execute(
        "SELECT number FROM palace WHERE tenant = ? AND user = ? AND kind = ? AND parent = ? AND name = ?",
        (*owner, kind, parent, name),
    ).fetchone()
    return None if row is None else int(row[0])


def _put(db: sqlite3.Connection, owner: Owner, kind: str, place: tuple[str, str], number: int) -> None:
    db.execute(
        "INSERT OR REPLACE INTO palace (tenant, user, kind, parent, name, number) VALUES (?, ?, ?, ?, ?, ?)",
        (*owner, kind, *place, number),
    )


def _name_of(db: sqlite3.Connection, owner: Owner, wing: int) -> str:
    (name,) = db.execute(
        "SELECT name FROM palace WHERE tenant = ? AND user = ? AND kind = 'wing' AND parent = '' AND number = ?",
        (*owner, wing),
    ).fetchone()
    return str(name)


def below(
    db: sqlite3.Connection, owner: Owner, parent: str, name: str | None, *, after: int, limit: int
) -> list[PalacePlace]:
    """The places in ``parent`` with numbers over ``after``, in order; with a name, that one alone."""
    numbers = read_pointer(parent) if parent else None
    kind = "wing" if numbers is None else "room" if numbers[1] is None else "closet"
    where, values = ("AND name = ?", (name,)) if name is not None else ("", ())
    rows = db.execute(
        "SELECT number, name FROM palace WHERE tenant = ? AND user = ? AND kind = ? AND parent = ? "
        f"{where} AND number > ? ORDER BY number LIMIT ?",  # (no value in the text)
        (*owner, kind, parent, *values, after, limit),
    )
    return [PalacePlace(number, name) for number, name in rows]


def names(db: sqlite3.Connection, scope: Scope, *, writing: bool = False) -> dict[str, str]:
    """Every name of a wing, and every alias that holds in the scope (`ports.PalaceStore`), and the wing's own name."""
    rows = db.execute(
        """
        SELECT given.kind, given.parent, given.name, wing.name FROM palace AS given JOIN palace AS wing
            ON wing.tenant = given.tenant AND wing.user = given.user AND wing.kind = 'wing' AND wing.parent = ''
            AND wing.number = given.number
        WHERE given.tenant = ? AND given.user = ? AND given.kind IN ('wing', 'alias')
        ORDER BY given.parent, given.name
        """,
        scope.owner,
    ).fetchall()
    here = (scope.project, scope.agent)
    told = circles(*here)
    wings = {name: wing for kind, _, name, wing in rows if kind == "wing"}
    aliases = {
        name: wing
        for kind, within, name, wing in rows
        if kind == "alias" and (within in told if writing else is_told(within, *here))
    }
    # who sees all finds every wing by its own name
    return wings | aliases if writing or here != (None, None) else aliases | wings


_NAMED = ("wing", "room", "closet")
"""Kinds in which a number means one name; an alias shares its wing's."""

_ADOPTED = ("wing", "room", "closet", "alias", "home", "last")
"""Kinds in the order in which they can be taken over: what others stand in comes first."""


def rows(db: sqlite3.Connection, owner: Owner) -> list[PalaceRow]:
    """The whole palace of the owner, what others stand in first."""
    found = db.execute(
        "SELECT kind, parent, name, number FROM palace WHERE tenant = ? AND user = ? ORDER BY parent, number, name",
        owner,
    )
    read = [PalaceRow(kind=kind, parent=parent, name=name, number=number) for kind, parent, name, number in found]
    return sorted(read, key=lambda row: _ADOPTED.index(row.kind))


class PlaceTaken(Exception):
    """A number or a name means something else here; nothing of the transaction may stay."""


def adopt(db: sqlite3.Connection, owner: Owner, places: Sequence[PalaceRow]) -> None:
    """Take these over.

    Raises:
        PlaceTaken: one of them means something else here, or stands in nothing.
    """
    for place in sorted(places, key=lambda row: _ADOPTED.index(row.kind)):
        if _means_another(db, owner, place) or not _has_ground(db, owner, place):
            raise PlaceTaken
        db.execute(
            """
            INSERT INTO palace (tenant, user, kind, parent, name, number) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (tenant, user, kind, parent, name) DO UPDATE SET number = max(number, excluded.number)
            """,
            (*owner, place.kind, place.parent, place.name, place.number),
        )


def _means_another(db: sqlite3.Connection, owner: Owner, place: PalaceRow) -> bool:
    if place.kind == "last":
        return False
    known = _find(db, owner, place.kind, place.parent, place.name)
    if known is not None:
        return known != place.number
    if place.kind not in _NAMED:
        return False
    given = db.execute(
        "SELECT number FROM palace WHERE tenant = ? AND user = ? AND kind = 'last' AND parent = ? AND name = ?",
        (*owner, place.parent, place.kind),
    ).fetchone()
    # a number that was given once and is free again keeps its old meaning
    taken = _is_there(db, owner, place.kind, place.parent, place.number)
    return taken or (given is not None and place.number <= given[0])


def _has_ground(db: sqlite3.Connection, owner: Owner, place: PalaceRow) -> bool:
    """Whether the wing or room that a place stands in, or that it is another name of, is there."""
    if place.kind == "last" or (place.kind == "wing" and place.parent == _TOP):
        return True
    if place.kind in {"alias", "home"}:
        is_named = place.parent == _TOP or (place.kind == "alias" and read_circle(place.parent) is not None)
        return is_named and _is_there(db, owner, "wing", _TOP, place.number)
    numbers = read_pointer(place.parent)
    if numbers is None or numbers[2] is not None or (numbers[1] is None) != (place.kind == "room"):
        return False
    if numbers[1] is None:
        return _is_there(db, owner, "wing", _TOP, numbers[0])
    return _is_there(db, owner, "room", pointer(numbers[0]), numbers[1])


def _is_there(db: sqlite3.Connection, owner: Owner, kind: str, parent: str, number: int) -> bool:
    row = db.execute(
        "SELECT 1 FROM palace WHERE tenant = ? AND user = ? AND kind = ? AND parent = ? AND number = ?",
        (*owner, kind, parent, number),
    ).fetchone()
    return row is not None


def stand(db: sqlite3.Connection, owner: Owner, places: Sequence[tuple[str, str, str]]) -> list[bool]:
    """Whether wing and room of these names have the numbers of this pointer, for each; the drawer does not matter."""
    known: dict[tuple[str, str, int, int], bool] = {}
    return [_stands(db, owner, place, known) for place in places]


def _stands(
    db: sqlite3.Connection, owner: Owner, place: tuple[str, str, str], known: dict[tuple[str, str, int, int], bool]
) -> bool:
    wing, room, where = place
    numbers = read_pointer(where)
    if numbers is None or numbers[1] is None:
        return False
    key = (wing, room, numbers[0], numbers[1])
    if key not in known:
        above = pointer(numbers[0])
        is_wing = _find(db, owner, "wing", _TOP, wing) == numbers[0]
        known[key] = is_wing and _find(db, owner, "room", above, room) == numbers[1]
    return known[key]


def leave(db: sqlite3.Connection, owner: Owner, wings: Sequence[str]) -> None:
    """Erase wings, with their aliases, rooms and closets."""
    for name in wings:
        number = _find(db, owner, "wing", _TOP, name)
        if number is None:
            continue
        db.execute(
            """
            DELETE FROM palace WHERE tenant = ? AND user = ? AND number = ?
                AND (kind = 'alias' OR (kind IN ('wing', 'home') AND parent = ''))
            """,
            (*owner, number),
        )
        _erase_below(db, owner, pointer(number))


def leave_aliases(db: sqlite3.Connection, owner: Owner, project: str) -> None:
    """Erase the other names of wings that were told in a project, to whichever agent."""
    told = circle(project, None)
    db.execute(
        "DELETE FROM palace WHERE tenant = ? AND user = ? AND kind = 'alias' AND (parent = ? OR parent GLOB ?)",
        (*owner, told, f"{told}&*"),
    )


def leave_closets(db: sqlite3.Connection, owner: Owner, closets: Sequence[tuple[str, str]]) -> None:
    """Erase closets by their room's pointer and their name; their numbers are not given again."""
    db.executemany(
        "DELETE FROM palace WHERE tenant = ? AND user = ? AND kind = 'closet' AND parent = ? AND name = ?",
        [(*owner, room, name) for room, name in closets],
    )


def _erase_below(db: sqlite3.Connection, owner: Owner, place_pointer: str) -> None:
    # what stands right after a slash in the order of characters is the digit zero: the range holds what is below
    db.execute(
        """
        DELETE FROM palace WHERE tenant = ? AND user = ? AND kind IN ('room', 'closet', 'last')
            AND (parent = ? OR (parent >= ? AND parent < ?))
        """,
        (*owner, place_pointer, f"{place_pointer}/", f"{place_pointer}0"),
    )


def erase(db: sqlite3.Connection, owner: Owner, session: str | None) -> None:
    """Erase the owner's palace, or the rooms of one session."""
    if session is None:
        db.execute("DELETE FROM palace WHERE tenant = ? AND user = ?", owner)
        return
    rooms = db.execute(
        "SELECT parent, number FROM palace WHERE tenant = ? AND user = ? AND kind = 'room' AND name = ?",
        (*owner, session),
    ).fetchall()
    for parent, number in rooms:
        _erase_below(db, owner, f"{parent}/{pointer(0, number).partition('/')[2]}")
    db.execute(
        "DELETE FROM palace WHERE tenant = ? AND user = ? AND kind IN ('room', 'home') AND name = ?", (*owner, session)
    )


def rename(db: sqlite3.Connection, owner: Owner, wings: Mapping[str, str], aliases: Collection[str]) -> None:
    """Give wings another name, which is no other name of them any longer, and erase these other names. Numbers stay."""
    erase = "DELETE FROM palace WHERE tenant = ? AND user = ? AND kind = 'alias' AND name = ?"
    db.executemany(erase, [(*owner, name) for name in aliases])
    for name, other in wings.items():
        found = db.execute(
            "SELECT number FROM palace WHERE tenant = ? AND user = ? AND kind = 'wing' AND parent = '' AND name = ?",
            (*owner, name),
        ).fetchone()
        if found is None:
            continue
        db.execute(f"{erase} AND number = ? AND parent = ''", (*owner, other, *found))
        db.execute(
            "UPDATE palace SET name = ? WHERE tenant = ? AND user = ? AND kind = 'wing' AND parent = '' AND name = ?",
            (other, *owner, name),
        )
