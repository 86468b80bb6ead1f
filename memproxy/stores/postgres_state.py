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
from memproxy.stores import postgres_state_palace as palace
from memproxy.stores.journal_spill import Spill, TakingUp
from memproxy.stores.postgres_state_database import PostgresDatabase
from memproxy.stores.postgres_state_journal import PostgresJournal
from memproxy.stores.postgres_state_palace import PostgresPalace
from memproxy.stores.postgres_state_replicas import CHOSEN, LEASE, ROWS
from memproxy.stores.postgres_state_schema import migrate
from memproxy.stores.state_owners import StateOwners
from memproxy.stores.state_part import Db, NoSealing, Sealing
from memproxy.tasks import TaskOwner


class PostgresState(PostgresJournal, PostgresPalace, StateOwners):
    """`ports.StateStore` in a database."""

    place_anew = "database"

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
        return self._database.place

    async def open(self) -> None:
        if self._spares:
            await self._spill.make()
        await self._database.open()
        try:
            async with self._database.alone() as db:
                await migrate(db)
            await self._check_usable()
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

    def news(self) -> bytes:
        return self._replicas.news()

    async def _tell_news(self, db: Db) -> None:
        await self._replicas.tell(db, CHOSEN)

    def _changed(self) -> None:
        self._replicas.changed()

    async def _erase_rows(self, db: Db, scope: Scope, session: str | None, until: int | None = None) -> list[int]:
        gone = await super()._erase_rows(db, scope, session, until)
        await palace.erase(db, scope.owner, session)
        return gone

    async def wipe(self) -> None:
        """Nothing to do: what was deleted is overwritten by the server, in its own time (docs/postgres.md)."""

    async def backup(self, path: Path) -> None:
        raise StateUnavailable(
            f"The state is in {self._database.place}, and no file to copy to {path}: back it up with pg_dump."
        )
