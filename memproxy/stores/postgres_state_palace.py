"""The palace in PostgreSQL (`ports.PalaceStore`).

Its rules are those of `sqlite_palace`: they run on a copy of the owner's rows in memory, under the owner's lock, and
what they changed is written back. Of rooms and closets, which may be many, the copy has those alone that are named.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from typing import TypeVar

import msgspec

from memproxy.core.palace import Names, is_role
from memproxy.core.scope import Scope
from memproxy.core.transfer_lines import PalaceRow
from memproxy.ports import PalacePlace, Placed
from memproxy.stores import sqlite_palace as rules
from memproxy.stores.postgres_state_database import Db, Owner
from memproxy.stores.postgres_state_part import PostgresPart
from memproxy.stores.sqlite_part import Columns

Result = TypeVar("Result")

_TABLE = """
    CREATE TABLE palace (
        tenant TEXT, user TEXT, kind TEXT, parent TEXT, name TEXT, number INTEGER,
        PRIMARY KEY (tenant, user, kind, parent, name)
    ) WITHOUT ROWID
"""
_Key = tuple[str, str, str]


class PostgresPalace(PostgresPart):
    """`ports.PalaceStore`."""

    async def place(self, scope: Scope, names: Sequence[Names]) -> list[Placed]:
        async with self._database.of(scope.owner) as db:
            columns = await self._sealing.made(db, scope.owner)
            written = [rules.written(columns, one) for one in names]
            named = {name for one in written for name in (one.room, one.closet)}
            async with _changing(db, scope.owner, named) as copy:
                placed = rules.place(copy, scope.owner, written, role=lambda name: is_role(columns.plain_name(name)))
        return [Placed(columns.plain_name(one.wing), one.pointer) for one in placed]

    async def palace(
        self, scope: Scope, parent: str, *, after: int, limit: int, name: str | None = None
    ) -> list[PalacePlace]:
        def work(copy: sqlite3.Connection, columns: Columns) -> list[PalacePlace]:
            is_room = bool(parent) and "/" not in parent
            wanted = columns.name(name) if name is not None and not is_room else name
            found = rules.below(copy, scope.owner, parent, wanted, after=after, limit=limit)
            return [PalacePlace(one.number, columns.plain_name(one.name)) for one in found]

        return await self._read(scope, work, parent=parent) or []

    async def palace_names(self, scope: Scope, *, writing: bool = False) -> dict[str, str]:
        def work(copy: sqlite3.Connection, columns: Columns) -> dict[str, str]:
            found = rules.names(copy, scope, writing=writing)
            read = {columns.plain_name(name): columns.plain_name(wing) for name, wing in found.items()}
            return {name: wing for name, wing in read.items() if name and wing}

        return await self._read(scope, work, named=()) or {}

    async def palace_rows(self, scope: Scope) -> list[PalaceRow]:
        def work(copy: sqlite3.Connection, columns: Columns) -> list[PalaceRow]:
            found = rules.rows(copy, scope.owner)
            return [msgspec.structs.replace(row, name=columns.plain_name(row.name)) for row in found]

        return await self._read(scope, work) or []

    async def adopt_palace(self, scope: Scope, rows: Sequence[PalaceRow]) -> bool:
        with suppress(rules.PlaceTaken):
            async with self._database.of(scope.owner) as db:
                columns = await self._sealing.made(db, scope.owner)
                async with _changing(db, scope.owner) as copy:
                    rules.adopt(copy, scope.owner, [rules.written_row(columns, row) for row in rows])
            return True
        return False

    async def stand(self, scope: Scope, places: Sequence[tuple[str, str, str]]) -> list[bool]:
        def work(copy: sqlite3.Connection, columns: Columns) -> list[bool]:
            wanted = [(columns.name(wing), room, where) for wing, room, where in places]
            return rules.stand(copy, scope.owner, wanted)

        return await self._read(scope, work, named={room for _, room, _ in places}) or [False] * len(places)

    async def leave_palace(self, scope: Scope, wings: Sequence[str]) -> None:
        def change(copy: sqlite3.Connection, columns: Columns) -> None:
            rules.leave(copy, scope.owner, list(map(columns.name, wings)))

        await self._change(scope, change)

    async def leave_aliases(self, scope: Scope, project: str) -> None:
        await self._change(scope, lambda copy, _: rules.leave_aliases(copy, scope.owner, project))

    async def rename_wings(self, scope: Scope, wings: Mapping[str, str], aliases: Collection[str]) -> None:
        def change(copy: sqlite3.Connection, columns: Columns) -> None:
            others = {columns.name(name): columns.name(other) for name, other in wings.items()}
            rules.rename(copy, scope.owner, others, list(map(columns.name, aliases)))

        await self._change(scope, change)

    async def leave_closets(self, scope: Scope, closets: Sequence[tuple[str, str]]) -> None:
        def change(copy: sqlite3.Connection, columns: Columns) -> None:
            rules.leave_closets(copy, scope.owner, [(room, columns.name(name)) for room, name in closets])

        await self._change(scope, change)

    async def _read(
        self,
        scope: Scope,
        work: Callable[[sqlite3.Connection, Columns], Result],
        *,
        named: Collection[str] | None = None,
        parent: str | None = None,
    ) -> Result | None:
        """What ``work`` finds in a copy of the owner's rows; None for an owner without a key, who has nothing."""
        async with self._database.connected() as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return None
            rows = await _rows(db, scope.owner, named, parent)
        with closing(_copy(scope.owner, rows)) as copy:
            return work(copy, columns)

    async def _change(self, scope: Scope, change: Callable[[sqlite3.Connection, Columns], None]) -> None:
        """Change what has names here; an owner without a key has nothing."""
        async with self._database.of(scope.owner) as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is not None:
                async with _changing(db, scope.owner) as copy:
                    change(copy, columns)


async def erase(db: Db, owner: Owner, session: str | None) -> None:
    """Erase the owner's palace, or the rooms of one session."""
    async with _changing(db, owner) as copy:
        rules.erase(copy, owner, session)


async def _rows(db: Db, owner: Owner, named: Collection[str] | None, parent: str | None = None) -> dict[_Key, int]:
    """The owner's rows; of rooms and closets those of these names alone, or those in ``parent`` (None: all)."""
    found = await db.execute(
        """
        SELECT kind, parent, name, number FROM palace WHERE tenant = %(tenant)s AND user_id = %(user)s
            AND (%(named)s::text[] IS NULL OR kind NOT IN ('room', 'closet') OR name = ANY(%(named)s))
            AND (%(parent)s::text IS NULL OR parent = %(parent)s)
        """,
        {
            "tenant": owner[0],
            "user": owner[1],
            "named": None if named is None else list(named),
            "parent": parent,
        },
    )
    return {(kind, within, name): number for kind, within, name, number in await found.fetchall()}


def _copy(owner: Owner, rows: Mapping[_Key, int]) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    copy.execute(_TABLE)
    copy.executemany(
        "INSERT INTO palace VALUES (?, ?, ?, ?, ?, ?)", [(*owner, *key, number) for key, number in rows.items()]
    )
    return copy


@asynccontextmanager
async def _changing(db: Db, owner: Owner, named: Collection[str] | None = None) -> AsyncIterator[sqlite3.Connection]:
    """A copy of the owner's rows, and what was changed there written back at the block's end."""
    before = await _rows(db, owner, named)
    with closing(_copy(owner, before)) as copy:
        yield copy
        found = copy.execute("SELECT kind, parent, name, number FROM palace WHERE (tenant, user) = (?, ?)", owner)
        after = {(kind, parent, name): number for kind, parent, name, number in found}
    gone = before.keys() - after.keys()
    if gone:
        await db.execute(
            "DELETE FROM palace WHERE tenant = %s AND user_id = %s AND (kind, parent, name) IN "
            "(SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]))",
            [*owner, *_columns(gone)],
        )
    put = {key: number for key, number in after.items() if before.get(key) != number}
    if put:
        await db.execute(
            """
            INSERT INTO palace SELECT %s, %s, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::integer[])
            ON CONFLICT (tenant, user_id, kind, parent, name) DO UPDATE SET number = excluded.number
            """,
            [*owner, *_columns(put), list(put.values())],
        )


def _columns(keys: Collection[_Key]) -> list[list[str]]:
    return [list(column) for column in zip(*keys, strict=True)]
