"""The state store in PostgreSQL: all contracts of `ports.state` for any number of replicas, put together of its parts.

What a process cannot hand over because the database is away waits beside it in a local file, as with the embedded state
(`journal_spill`): nothing that was acknowledged is lost with a process.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from memproxy.core.changes import ChangeNotices
from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.ports import MOVED, JournalEntry, has_moved
from memproxy.stores import postgres_state_dreams as dreams
from memproxy.stores import postgres_state_journal as journal
from memproxy.stores import postgres_state_palace as palace
from memproxy.stores import postgres_state_receipts as receipts
from memproxy.stores import postgres_state_sessions as sessions
from memproxy.stores import postgres_state_working as working
from memproxy.stores.journal_spill import SetsAside, Spill, TakingUp
from memproxy.stores.postgres_state_callers import PostgresCallers
from memproxy.stores.postgres_state_database import Db, Owner, PostgresDatabase
from memproxy.stores.postgres_state_dreams import PostgresDreams
from memproxy.stores.postgres_state_palace import PostgresPalace
from memproxy.stores.postgres_state_part import NoSealing, Sealing, read_meta, write_meta
from memproxy.stores.postgres_state_receipts import PostgresReceipts
from memproxy.stores.postgres_state_replicas import LEASE, ROWS
from memproxy.stores.postgres_state_schema import migrate
from memproxy.stores.postgres_state_sessions import PostgresSessions
from memproxy.stores.postgres_state_working import PostgresWorking
from memproxy.stores.sqlite_state import SEALED
from memproxy.tasks import TaskOwner


class PostgresState(
    SetsAside, PostgresSessions, PostgresReceipts, PostgresPalace, PostgresCallers, PostgresWorking, PostgresDreams
):
    """`ports.StateStore` in a database."""

    seals = False
    """Whether it encrypts texts, and can read those that are."""

    def __init__(
        self,
        url: str,
        spill: Path,
        *,
        sync: Literal["normal", "full"],
        spares: bool = False,
        sealing: Sealing | None = None,
        lease: timedelta = LEASE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``url``, ``sync`` and ``now`` are `PostgresDatabase`'s. ``spill`` names the local files of what the database
        does not take; ``spares``: their room is taken when it opens.

        Raises:
            ConfigError: ``url`` is no connection string.
        """
        super().__init__(PostgresDatabase(url, sync=sync, now=now), TaskOwner("state"), sealing or NoSealing(), lease)
        self._spares = spares
        self._spill = Spill(spill, durable=sync == "full")
        self._taking_up = TakingUp(spill, self._append_left, self._tasks)

    @property
    def where(self) -> str:
        """Where it is, in words."""
        return self._database.place

    async def open(self) -> None:
        if self._spares:
            await self._spill.make()
        await self._database.open()
        try:
            async with self._database.alone() as db:
                await migrate(db)
                await self._erased.open(db)
            if not self.seals and await self.get_meta(SEALED) is not None:
                raise StateUnavailable(
                    f"The state in {self._database.place} is encrypted, and privacy.encrypt is off. Switch it on again "
                    "with its MEMPROXY_MASTER_KEY; to be without encryption, export with it and import into a new "
                    "database."
                )
            if moved := await self.get_meta(MOVED):
                raise has_moved(self._database.place, moved)
        except BaseException:
            await self._database.close()
            raise
        await self._replicas.begin()
        if not self.seals:
            await self._taking_up.begin()

    async def close(self) -> None:
        self._taking_up.stop()
        await self._replicas.end()
        await self._tasks.drain(grace_s=10.0)
        await self._spill.close()
        await self._database.close()

    @property
    def changes(self) -> ChangeNotices:
        """Notices of changes, by all processes on this database."""
        return self._replicas.changes

    def clock(self) -> Callable[[], datetime]:
        """The database's clock, for a process that gives all times by it."""
        return self._database.clock()

    def on_rows(self, told: Callable[[], None]) -> None:
        """``told`` is called when any replica has written rows that may be claimed."""
        self._replicas.on(ROWS, lambda _: told())

    async def _append_left(self, entry: JournalEntry) -> int:
        """Append what a process that ended had set aside."""
        return await self.append(entry)

    async def owners(self, *, after: Owner | None, limit: int) -> list[Owner]:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT tenant, user_id FROM owners WHERE (tenant, user_id) > (%s, %s) "
                "ORDER BY tenant, user_id LIMIT %s",
                [*(after or ("", "")), limit],
            )
            return [(tenant, user) for tenant, user in await found.fetchall()]

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        await self._empty_working(scope.owner, session)
        async with self._database.of(scope.owner) as db:
            return await self._forget(db, scope, session, until)

    async def _forget(self, db: Db, scope: Scope, session: str | None, until: int | None) -> list[int]:
        gone = await erase_texts(db, scope, session, until)
        await self.erase_caller(db, scope, session)
        await working.erase(db, await self._sealing.of(db, scope.owner), scope.owner, session)
        await self._erased.note(db, Scope(tenant=scope.tenant, user=scope.user, session=session))
        if session is None:
            await db.execute(  # what came after it was to be forgotten keeps the owner here
                """
                DELETE FROM owners WHERE tenant = %(tenant)s AND user_id = %(user)s AND NOT EXISTS (
                    SELECT FROM journal WHERE tenant = %(tenant)s AND user_id = %(user)s)
                """,
                {"tenant": scope.tenant, "user": scope.user},
            )
            await self._erased.leave_choices(db, scope.owner)
        return gone

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        return await self.append(entry), []  # nothing is encrypted here

    async def wipe(self) -> None:
        """Nothing to do: what was deleted is overwritten by the server, in its own time (docs/postgres.md)."""

    async def backup(self, path: Path) -> None:
        raise StateUnavailable(
            f"The state is in {self._database.place}, and no file to copy to {path}: back it up with pg_dump."
        )

    async def get_meta(self, key: str) -> str | None:
        return await read_meta(self._database, key)

    async def set_meta(self, key: str, value: str) -> None:
        await write_meta(self._database, key, value)

    async def swap_meta(self, key: str, expected: str | None, value: str) -> bool:
        async with self._database.connected() as db:
            if expected is None:
                done = await db.execute("INSERT INTO meta VALUES (%s, %s) ON CONFLICT DO NOTHING", [key, value])
            else:
                done = await db.execute(
                    "UPDATE meta SET value = %s WHERE key = %s AND value = %s", [value, key, expected]
                )
            return done.rowcount == 1


async def erase_texts(db: Db, scope: Scope, session: str | None, until: int | None = None) -> list[int]:
    """Erase all that was said by the owner, or in one session, and what was made of it. The numbers of the journal's
    rows that go.
    """
    gone = await journal.erase(db, scope, session, until)
    await sessions.erase(db, scope, session)
    await receipts.erase(db, scope, session)
    await palace.erase(db, scope.owner, session)
    if session is None:
        await dreams.erase(db, scope.owner)
    return gone
