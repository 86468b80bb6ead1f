"""The state store in PostgreSQL: all contracts of `ports.state` for any number of replicas, put together of its parts.

What a process cannot hand over because the database is away waits beside it in a local file, as with the embedded state
(`journal_spill`): nothing that was acknowledged is lost with a process.

The palace's rules (`state_palace`) are statements of SQLite: they run on a copy of the owner's rows in memory, under
the owner's lock, and what they changed is written back. Of rooms and closets, which may be many, the copy has those
alone that are named.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from memproxy.core.changes import ChangeNotices
from memproxy.core.scope import OwnerKey, Scope
from memproxy.errors import StateUnavailable
from memproxy.stores.postgres_state_database import PostgresDatabase
from memproxy.stores.postgres_state_journal import PostgresJournal
from memproxy.stores.postgres_state_replicas import CHOSEN, LEASE, ROWS
from memproxy.stores.postgres_state_schema import migrate
from memproxy.stores.state_owners import StateOwners
from memproxy.stores.state_palace import Palace
from memproxy.stores.state_part import OWNED, Db, PlainColumns, Result, owned
from memproxy.tasks import TaskOwner

if TYPE_CHECKING:
    from memproxy.stores.sealing import MasterKeys  # cryptography, which few need

_TABLE = """
    CREATE TABLE palace (
        tenant TEXT, user TEXT, kind TEXT, parent TEXT, name TEXT, number INTEGER,
        PRIMARY KEY (tenant, user, kind, parent, name)
    ) WITHOUT ROWID
"""
_Key = tuple[str, str, str]


class PostgresState(PostgresJournal, StateOwners):
    """`ports.StateStore` in a database."""

    place_anew = "database"

    def __init__(
        self,
        url: str,
        spill: Path,
        *,
        sync: Literal["normal", "full"],
        spares: bool = False,
        masters: "MasterKeys | None" = None,
        lease: timedelta = LEASE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``url``, ``sync`` and ``now`` are `PostgresDatabase`'s, ``spill`` and ``masters`` `StateOwners`'. With
        ``spares`` the room of what is set aside is taken when it opens.

        Raises:
            ConfigError: ``url`` is no connection string.
        """
        database, tasks = PostgresDatabase(url, sync=sync, now=now), TaskOwner("state")
        super().__init__(database, tasks, masters, spill, durable=sync == "full")
        self._share(database, lease)
        self._spares = spares

    @property
    def where(self) -> str:
        return self._database.location

    async def open(self) -> None:
        if self._spares:
            await self._spill.make()
        await self._database.open()
        try:
            async with self._database.alone() as db:
                await migrate(db)
            await self._check_usable()
            await self._replicas.begin()
            await self._begin()
        except BaseException:  # what is set aside waits where it is
            await self._replicas.end()
            await self._database.close()
            raise

    async def close(self) -> None:
        await self._replicas.end()
        await self._end()
        await self._database.close()

    @property
    def changes(self) -> ChangeNotices:
        """Notices of changes, by all processes on this database."""
        return self._replicas.changes

    def clock(self) -> Callable[[], datetime]:
        """The database's clock, for a process that gives all times by it."""
        return self._database.clock()

    def on_rows(self, callback: Callable[[], None]) -> None:
        """``callback`` is called when any replica has written rows that may be claimed."""
        self._replicas.on(ROWS, lambda _: callback())

    def news(self) -> bytes:
        return self._replicas.news()

    async def _tell_news(self, db: Db) -> None:
        await self._replicas.tell(db, CHOSEN)

    def _changed(self) -> None:
        self._replicas.changed()

    async def _see(
        self,
        scope: Scope,
        work: Callable[[Palace], Result],
        *,
        named: Collection[str] | None = None,
        parent: str | None = None,
    ) -> Result | None:
        async def see(db: Db) -> Result | None:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return None
            with closing(_copy(scope.owner, await _rows(db, scope.owner, named, parent))) as copy:
                return work(Palace(copy, scope.owner, columns))

        return await self._database.read(see)

    async def _change(
        self,
        scope: Scope,
        change: Callable[[Palace], Result],
        *,
        named: Collection[str] | None = None,
        makes: bool = False,
    ) -> Result | None:
        async def work(db: Db) -> Result | None:
            columns = await (self._sealing.for_writing if makes else self._sealing.of)(db, scope.owner)
            if columns is None:
                return None
            names = None if named is None else {*named, *map(columns.name, named)}
            async with _changing(db, scope.owner, names) as copy:
                return change(Palace(copy, scope.owner, columns))

        return await self._database.write(work, scope.owner)

    async def _erase_palace(self, db: Db, owner: OwnerKey, session: str | None) -> None:
        async with _changing(db, owner) as copy:
            Palace(copy, owner, PlainColumns()).erase(session)

    async def _erase_texts(self, db: Db, scope: Scope, session: str | None, until: int | None = None) -> list[int]:
        if session is None:
            await db.run(f"DELETE FROM refusals WHERE {OWNED}", **owned(scope.owner))
        return await super()._erase_texts(db, scope, session, until)

    async def wipe(self) -> None:
        """Nothing to do: what was deleted is overwritten by the server, in its own time (docs/postgres.md)."""

    async def backup(self, path: Path) -> None:
        raise StateUnavailable(
            f"The state is in {self._database.location}, and no file to copy to {path}: back it up with pg_dump."
        )


async def _rows(db: Db, owner: OwnerKey, named: Collection[str] | None, parent: str | None = None) -> dict[_Key, int]:
    """The owner's rows; of rooms and closets those of these names alone, or those in ``parent`` (None: all)."""
    some = "" if named is None else "AND (kind NOT IN ('room', 'closet') OR name = ANY(:named)) "
    inside = "" if parent is None else "AND parent = :parent"
    rows = await db.all(
        f"SELECT kind, parent, name, number FROM palace WHERE {OWNED} {some}{inside}",
        named=list(named or ()),
        parent=parent,
        **owned(owner),
    )
    return {(kind, within, name): number for kind, within, name, number in rows}


def _copy(owner: OwnerKey, rows: Mapping[_Key, int]) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    copy.execute(_TABLE)
    copy.executemany(
        "INSERT INTO palace VALUES (?, ?, ?, ?, ?, ?)", [(*owner, *key, number) for key, number in rows.items()]
    )
    return copy


@asynccontextmanager
async def _changing(db: Db, owner: OwnerKey, named: Collection[str] | None = None) -> AsyncIterator[sqlite3.Connection]:
    """A copy of the owner's rows, and what was changed there written back at the block's end."""
    before = await _rows(db, owner, named)
    with closing(_copy(owner, before)) as copy:
        yield copy
        rows = copy.execute("SELECT kind, parent, name, number FROM palace WHERE (tenant, user) = (?, ?)", owner)
        after = {(kind, parent, name): number for kind, parent, name, number in rows}
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
