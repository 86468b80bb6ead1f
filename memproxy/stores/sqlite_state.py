"""The embedded state store: one SQLite file with all contracts of `ports.state`, put together of its parts.

Several processes open the same file: relays append, the engine claims. What is appended at once shares a commit, and so
does what ends at once. Erased bodies are overwritten (`secure_delete`), and `forget` empties the write-ahead log as
well.
"""

import sqlite3
from pathlib import Path
from typing import Literal

from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.ports import MOVED, JournalEntry, has_moved
from memproxy.stores import sqlite_callers as callers
from memproxy.stores import sqlite_dreams as dreams
from memproxy.stores import sqlite_erased as erased
from memproxy.stores import sqlite_journal as journal
from memproxy.stores import sqlite_palace as palace
from memproxy.stores import sqlite_receipts as receipts
from memproxy.stores import sqlite_sessions as sessions
from memproxy.stores import sqlite_working as working
from memproxy.stores.journal_spill import SetsAside, Spill, TakingUp
from memproxy.stores.sqlite_callers import SqliteCallers
from memproxy.stores.sqlite_dreams import SqliteDreams
from memproxy.stores.sqlite_file import CHECKPOINT_PAGES, SqliteFile
from memproxy.stores.sqlite_journal import SqliteJournal
from memproxy.stores.sqlite_palace import SqlitePalace
from memproxy.stores.sqlite_part import NoSealing, Owner, Sealing, run
from memproxy.stores.sqlite_receipts import SqliteReceipts
from memproxy.stores.sqlite_sessions import SqliteSessions
from memproxy.stores.sqlite_working import SqliteWorking
from memproxy.tasks import TaskOwner

SEALED = "privacy.sealed"
"""Fact of a state whose texts are encrypted (`sealed_state`)."""


class SqliteState(
    SetsAside, SqliteJournal, SqliteSessions, SqliteReceipts, SqlitePalace, SqliteCallers, SqliteWorking, SqliteDreams
):
    """`ports.StateStore` in one SQLite file."""

    seals = False
    """Whether it encrypts texts, and can read those that are."""

    def __init__(
        self,
        path: Path,
        *,
        sync: Literal["normal", "full"],
        checkpoint_pages: int = CHECKPOINT_PAGES,
        spares: bool = False,
        reads_only: bool = False,
        sealing: Sealing | None = None,
    ) -> None:
        """``checkpoint_pages`` and ``reads_only`` are `SqliteFile`'s. ``spares``: it captures, and keeps nothing that
        it has read: room for entries that are set aside is taken when it opens, and it goes on where the file is
        replaced.
        """
        self._spares = spares
        self._reads_only = reads_only
        renews = spares and not self.seals  # keys of users are in the file that was there
        file = SqliteFile(path, sync=sync, checkpoint_pages=checkpoint_pages, renews=renews, reads_only=reads_only)
        super().__init__(file, TaskOwner("state"), sealing or NoSealing())
        self._spill = Spill(path, durable=sync == "full")
        self._taking_up = TakingUp(path, self._append_left, self._tasks)

    @property
    def where(self) -> str:
        """Where it is, in words."""
        return str(self._file.path)

    async def open(self) -> None:
        if self._spares:
            await self._spill.make()
        await self._file.open()
        await self.open_news()
        if not self.seals and await self.get_meta(SEALED) is not None:
            await self.close()
            raise StateUnavailable(
                f"The state in {self._file.path} is encrypted, and privacy.encrypt is off. Switch it on again with its "
                "MEMPROXY_MASTER_KEY; to be without encryption, export with it and import into a new installation."
            )
        if moved := await self.get_meta(MOVED):
            await self.close()
            raise has_moved(str(self._file.path), moved)
        if not self.seals and not self._reads_only:
            await self._taking_up.begin()

    async def close(self) -> None:
        self._taking_up.stop()
        await self._tasks.drain(grace_s=10.0)
        self.close_news()
        await self._spill.close()
        await self._file.close()

    async def _append_left(self, entry: JournalEntry) -> int:
        """Append what a process that ended had set aside."""
        return await self.append(entry)

    async def owners(self, *, after: Owner | None, limit: int) -> list[Owner]:
        def work(db: sqlite3.Connection) -> list[Owner]:
            rows = db.execute(
                "SELECT tenant, user FROM owners WHERE (tenant, user) > (?, ?) ORDER BY tenant, user LIMIT ?",
                (*(after or ("", "")), limit),
            )
            return [(tenant, user) for tenant, user in rows]

        return await self._file.read(work)

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        await self._empty_working(scope.owner, session)
        gone = await self._file.write(lambda db: self._forget(db, scope, session, until))
        await self._file.wipe()
        return gone

    def _forget(self, db: sqlite3.Connection, scope: Scope, session: str | None, until: int | None) -> list[int]:
        gone = erase_texts(db, scope, session, until)
        callers.erase(db, scope, session)
        working.erase(db, self._sealing.of(db, scope.owner), scope.owner, session)
        erased.note(db, Scope(tenant=scope.tenant, user=scope.user, session=session))
        if session is None:
            db.execute(  # what came after it was to be forgotten keeps the owner here
                """
                DELETE FROM owners WHERE tenant = ?1 AND user = ?2
                    AND NOT EXISTS (SELECT 1 FROM journal WHERE tenant = ?1 AND user = ?2)
                """,
                scope.owner,
            )
            erased.leave_choices(db, scope.owner)
        return gone

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        return await self.append(entry), []  # nothing is encrypted here

    async def wipe(self) -> None:
        await self._file.wipe()

    async def backup(self, path: Path) -> None:
        await self._file.backup(path)

    async def get_meta(self, key: str) -> str | None:
        def work(db: sqlite3.Connection) -> str | None:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            return str(row[0]) if row is not None else None

        return await self._file.read(work)

    async def set_meta(self, key: str, value: str) -> None:
        await self._file.write(lambda db: run(db, "INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value)))

    async def swap_meta(self, key: str, expected: str | None, value: str) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            if (None if row is None else row[0]) != expected:
                return False
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
            return True

        return await self._file.write(work)


def erase_texts(db: sqlite3.Connection, scope: Scope, session: str | None, until: int | None = None) -> list[int]:
    """Erase all that was said by the owner, or in one session, and what was made of it. The numbers of the journal's
    rows that go.
    """
    gone = journal.erase(db, scope, session, until)
    sessions.erase(db, scope, session)
    receipts.erase(db, scope, session)
    palace.erase(db, scope.owner, session)
    if session is None:
        dreams.erase(db, scope.owner)
    return gone
