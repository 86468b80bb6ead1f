"""The palace's numbers. Each function runs inside a transaction that its caller opened.

A number is given once. What it named may be erased; the ``last`` rows, which hold no names of subjects, see to it that
it is never given again while its owner is there.
"""

import sqlite3
from collections.abc import Sequence

from memproxy.core.palace import Names, is_role, pointer, read_pointer
from memproxy.ports import PalacePlace, Placed

Owner = tuple[str, str]

_TOP = ""


def place(db: sqlite3.Connection, owner: Owner, wanted: Sequence[Names]) -> list[Placed]:
    """Where each stands; what has no number yet gets one."""
    return [_placed(db, owner, names) for names in wanted]


def _placed(db: sqlite3.Connection, owner: Owner, names: Names) -> Placed:
    for one, other in names.same:
        _same(db, owner, one, other)
    number = _home(db, owner, names) if names.drawer else _wing(db, owner, names.wing)
    wing = _name_of(db, owner, number)
    room = _number(db, owner, "room", pointer(number), names.room)
    where = pointer(number, room)
    _number(db, owner, "closet", where, names.closet)
    return Placed(wing, pointer(number, room, _next(db, owner, "drawer", where)) if names.drawer else where)


def _home(db: sqlite3.Connection, owner: Owner, names: Names) -> int:
    """The wing of a session's turns: the one that the first of them was put into."""
    known = _find(db, owner, "home", _TOP, names.room)
    if known is not None:
        return known
    number = _wing(db, owner, names.wing)
    _insert(db, owner, "home", (_TOP, names.room), number)
    return number


def _wing(db: sqlite3.Connection, owner: Owner, name: str) -> int:
    known = _known_wing(db, owner, name)
    return known if known is not None else _number(db, owner, "wing", _TOP, name)


def _known_wing(db: sqlite3.Connection, owner: Owner, name: str) -> int | None:
    number = _find(db, owner, "wing", _TOP, name)
    return number if number is not None else _find(db, owner, "alias", _TOP, name)


def _same(db: sqlite3.Connection, owner: Owner, one: str, other: str) -> None:
    """Two names of one subject: the one that has a wing gives it to the other; two wings stay two, for ever. A role
    that somebody else had before ("boss") goes over to whoever has it now.
    """
    first, second = _known_wing(db, owner, one), _known_wing(db, owner, other)
    if first is not None and first != second and is_role(one) and _is_taken(db, owner, one, first):
        _take_over(db, owner, one, second if second is not None else _wing(db, owner, other))
    elif first is not None and second is None:
        _insert(db, owner, "alias", (_TOP, other), first)
    elif first is None:
        _insert(db, owner, "alias", (_TOP, one), second if second is not None else _wing(db, owner, other))


def _is_taken(db: sqlite3.Connection, owner: Owner, role: str, wing: int) -> bool:
    """Whether a role's wing is known by a name too."""
    row = db.execute(
        "SELECT 1 FROM palace WHERE tenant = ? AND user = ? AND kind IN ('wing', 'alias') AND parent = '' "
        "AND number = ? AND name != ?",
        (*owner, wing, role),
    ).fetchone()
    return row is not None


def _take_over(db: sqlite3.Connection, owner: Owner, role: str, wing: int) -> None:
    """A role that is another name of a wing becomes one of this wing; one that has a wing of its own keeps it."""
    db.execute(
        "UPDATE palace SET number = ? WHERE tenant = ? AND user = ? AND kind = 'alias' AND parent = '' AND name = ?",
        (wing, *owner, role),
    )


def _number(db: sqlite3.Connection, owner: Owner, kind: str, parent: str, name: str) -> int:
    known = _find(db, owner, kind, parent, name)
    if known is not None:
        return known
    number = _next(db, owner, kind, parent)
    _insert(db, owner, kind, (parent, name), number)
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


def _insert(db: sqlite3.Connection, owner: Owner, kind: str, place: tuple[str, str], number: int) -> None:
    db.execute(
        "INSERT INTO palace (tenant, user, kind, parent, name, number) VALUES (?, ?, ?, ?, ?, ?)",
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
        "SELECT number, name FROM palace WHERE tenant = ? AND user = ? AND kind = ? AND parent = ? "  # noqa: S608
        f"{where} AND number > ? ORDER BY number LIMIT ?",  # (no value in the text)
        (*owner, kind, parent, *values, after, limit),
    )
    return [PalacePlace(number, name) for number, name in rows]


def names(db: sqlite3.Connection, owner: Owner) -> dict[str, str]:
    """Every name and alias of a wing, and the wing's own name."""
    rows = db.execute(
        """
        SELECT given.name, wing.name FROM palace AS given JOIN palace AS wing
            ON wing.tenant = given.tenant AND wing.user = given.user AND wing.kind = 'wing' AND wing.parent = ''
            AND wing.number = given.number
        WHERE given.tenant = ? AND given.user = ? AND given.kind IN ('wing', 'alias') AND given.parent = ''
        """,
        owner,
    )
    return dict(rows.fetchall())


def leave(db: sqlite3.Connection, owner: Owner, wings: Sequence[str]) -> None:
    """Erase wings, with their aliases, rooms and closets."""
    for name in wings:
        number = _find(db, owner, "wing", _TOP, name)
        if number is None:
            continue
        db.execute(
            """
            DELETE FROM palace WHERE tenant = ? AND user = ? AND parent = '' AND number = ?
                AND kind IN ('wing', 'alias', 'home')
            """,
            (*owner, number),
        )
        _erase_below(db, owner, pointer(number))


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
