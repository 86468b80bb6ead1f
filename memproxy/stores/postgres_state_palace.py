"""The palace in PostgreSQL (`ports.PalaceStore`).

Its rules (`state_palace`) are statements of SQLite: they run on a copy of the owner's rows in memory, under the owner's
lock, and what they changed is written back. Of rooms and closets, which may be many, the copy has those alone that are
named.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, closing

from memproxy.core.scope import Scope
from memproxy.stores.postgres_state_database import PostgresDatabase
from memproxy.stores.state_palace import Palace, StatePalace
from memproxy.stores.state_part import OWNED, Db, Owner, PlainColumns, Result, owned

_TABLE = """
    CREATE TABLE palace (
        tenant TEXT, user TEXT, kind TEXT, parent TEXT, name TEXT, number INTEGER,
        PRIMARY KEY (tenant, user, kind, parent, name)
    ) WITHOUT ROWID
"""
_Key = tuple[str, str, str]


class PostgresPalace(StatePalace):
    """`ports.PalaceStore`."""

    _database: PostgresDatabase

    async def _see(
        self,
        scope: Scope,
        work: Callable[[Palace], Result],
        *,
        named: Collection[str] | None = None,
        parent: str | None = None,
    ) -> Result | None:
        async with self._database.connected() as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return None
            rows = await _rows(db, scope.owner, named, parent)
        with closing(_copy(scope.owner, rows)) as copy:
            return work(Palace(copy, scope.owner, columns))

    async def _change(
        self,
        scope: Scope,
        change: Callable[[Palace], Result],
        *,
        named: Collection[str] | None = None,
        makes: bool = False,
    ) -> Result | None:
        async with self._database.of(scope.owner) as db:
            columns = await (self._sealing.made if makes else self._sealing.of)(db, scope.owner)
            if columns is None:
                return None
            names = None if named is None else {*named, *map(columns.name, named)}
            async with _changing(db, scope.owner, names) as copy:
                return change(Palace(copy, scope.owner, columns))


async def erase(db: Db, owner: Owner, session: str | None) -> None:
    """Erase the owner's palace, or the rooms of one session."""
    async with _changing(db, owner) as copy:
        Palace(copy, owner, PlainColumns()).erase(session)


async def _rows(db: Db, owner: Owner, named: Collection[str] | None, parent: str | None = None) -> dict[_Key, int]:
    """The owner's rows; of rooms and closets those of these names alone, or those in ``parent`` (None: all)."""
    some = "" if named is None else "AND (kind NOT IN ('room', 'closet') OR name = ANY(:named)) "
    inside = "" if parent is None else "AND parent = :parent"
    found = await db.all(
        f"SELECT kind, parent, name, number FROM palace WHERE {OWNED} {some}{inside}",
        named=list(named or ()),
        parent=parent,
        **owned(owner),
    )
    return {(kind, within, name): number for kind, within, name, number in found}


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
    if gone := before.keys() - after.keys():
        kinds, parents, names = _columns(gone)
        await db.run(
            f"DELETE FROM palace WHERE {OWNED} AND (kind, parent, name) IN "
            "(SELECT * FROM unnest(:kinds::text[], :parents::text[], :names::text[]))",
            kinds=kinds,
            parents=parents,
            names=names,
            **owned(owner),
        )
    await db.insert(
        "palace",
        "tenant, user_id, kind, parent, name, number",
        [(*owner, *key, number) for key, number in after.items() if before.get(key) != number],
        "(tenant, user_id, kind, parent, name) DO UPDATE SET number = excluded.number",
    )


def _columns(keys: Collection[_Key]) -> list[list[str]]:
    return [list(column) for column in zip(*keys, strict=True)]
