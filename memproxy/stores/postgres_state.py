"""The state store in PostgreSQL: all contracts of `ports.state` for any number of replicas, put together of its parts.

What a process cannot hand over because the database is away waits beside it in a local file, as with the embedded state
(`journal_spill`): nothing that was acknowledged is lost with a process.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from memproxy.core.changes import ChangeNotices
from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.stores.postgres_state_database import PostgresDatabase
from memproxy.stores.postgres_state_journal import PostgresJournal
from memproxy.stores.postgres_state_replicas import CHOSEN, LEASE, ROWS
from memproxy.stores.postgres_state_schema import migrate
from memproxy.stores.state_owners import StateOwners
from memproxy.stores.state_part import OWNED, Db, owned
from memproxy.tasks import TaskOwner

if TYPE_CHECKING:
    from memproxy.stores.sealing import MasterKeys  # cryptography, which few need


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
        ``spares`` the room of what is set aside is taken when it opens. Raises `ConfigError`: ``url`` is none.
        """
        database, tasks = PostgresDatabase(url, sync=sync, now=now), TaskOwner("state")
        super().__init__(database, tasks, masters, spill, durable=sync == "full")
        self._share(database, lease)
        self.changes: ChangeNotices = self._replicas.changes
        self._spares = spares

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

    def on_rows(self, callback: Callable[[], None]) -> None:
        """``callback`` is called when any replica has written rows that may be claimed."""
        self._replicas.on(ROWS, lambda _: callback())

    def news(self) -> bytes:
        return self._replicas.news()

    async def _tell_news(self, db: Db) -> None:
        await self._replicas.tell(db, CHOSEN)

    def _changed(self) -> None:
        self._replicas.changed()

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
