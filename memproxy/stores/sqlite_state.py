"""The embedded state store: journal, slots, sessions and learning progress in one SQLite file.

Several processes open the same file: relays append, the engine claims. What is appended at once shares a commit, and so
does what ends at once. Erased bodies are overwritten (`secure_delete`), and `forget` empties the write-ahead log as
well.
"""

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from memproxy.core.palace import Names
from memproxy.core.proxykey import KeyRecord
from memproxy.core.receipt import Noted, Outcome, Receipt, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.core.transfer import PalaceRow
from memproxy.errors import NotFound, StateUnavailable
from memproxy.ports import (
    BlockLine,
    JournalEntry,
    JournalRow,
    KnownSession,
    PalacePlace,
    ParkedRow,
    Placed,
    Recovered,
    SessionBlocks,
    SessionProgress,
    SlotChange,
)
from memproxy.stores import sqlite_blocks as blocks
from memproxy.stores import sqlite_callers as callers
from memproxy.stores import sqlite_erased as erased
from memproxy.stores import sqlite_journal as journal
from memproxy.stores import sqlite_keys
from memproxy.stores import sqlite_palace as palace
from memproxy.stores import sqlite_palace_names as palace_names
from memproxy.stores import sqlite_receipts as receipts
from memproxy.stores import sqlite_sessions as sessions
from memproxy.stores import sqlite_tokens as tokens
from memproxy.stores.sqlite_access import SqliteAccess
from memproxy.stores.sqlite_aside import Aside, TakingUp
from memproxy.stores.sqlite_file import CHECKPOINT_PAGES, SqliteFile
from memproxy.stores.sqlite_group import SharedCommit, SharedWork
from memproxy.tasks import TaskOwner

PRUNE_EVERY = 500
"""Remembered sessions between two prunings of old keys; receipts likewise."""

SEALED = "privacy.sealed"
"""Fact of a state whose texts are encrypted (`sealed_state`)."""


class SqliteState(SqliteAccess):
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
    ) -> None:
        """``checkpoint_pages`` and ``reads_only`` are `SqliteFile`'s. ``spares``: it captures, and keeps nothing that
        it has read: room for entries that are set aside is taken when it opens, and it goes on where the file is
        replaced.
        """
        self._spares = spares
        self._reads_only = reads_only
        renews = spares and not self.seals  # keys of users are in the file that was there
        self._file = SqliteFile(
            path, sync=sync, checkpoint_pages=checkpoint_pages, renews=renews, reads_only=reads_only
        )
        self._aside = Aside(path, durable=sync == "full")
        self._tasks = TaskOwner("state")
        self._taking_up = TakingUp(path, self._append_left, self._tasks)
        super().__init__(self._file, self._tasks)
        self._exchanges = SharedWork(self._file, self._tasks)
        self._ends: SharedCommit[journal.End, None] = SharedCommit(self._file, self._tasks, journal.remove)
        self._remembered = 0
        self._saved_blocks = 0
        self._receipts = 0

    async def open(self) -> None:
        if self._spares:
            await self._aside.make()
        await self._file.open()
        await self.open_news()
        if not self.seals and await self.get_meta(SEALED) is not None:
            await self.close()
            raise StateUnavailable(
                f"The state in {self._file.path} is encrypted, and privacy.encrypt is off. Switch it on again with its "
                "MEMPROXY_MASTER_KEY; to be without encryption, export with it and import into a new installation."
            )
        if not self.seals and not self._reads_only:
            await self._taking_up.begin()

    async def close(self) -> None:
        self._taking_up.stop()
        await self._tasks.drain(grace_s=10.0)
        self.close_news()
        await self._aside.close()
        await self._file.close()

    async def set_aside(self, entry: JournalEntry) -> int | None:
        return await self._aside.put(entry)

    async def read_aside(self, number: int) -> JournalEntry | None:
        return await self._aside.read(number)

    async def drop_aside(self, number: int) -> None:
        await self._aside.drop(number)

    async def _append_left(self, entry: JournalEntry) -> int:
        """Append what a process that ended had set aside."""
        return await self.append(entry)

    async def append(self, entry: JournalEntry) -> int:
        return await self._exchanges.add(lambda db: self._insert(db, entry))

    def _insert(self, db: sqlite3.Connection, entry: JournalEntry) -> int:
        if erased.is_too_late(db, entry.scope, entry.captured_at):
            return 0
        for scope in entry.erases:
            erased.note(db, scope)
        erased.came_back(db, entry.scope.owner)
        return journal.insert(db, [entry])[0]

    async def recover(self, *, max_attempts: int, now: datetime) -> Recovered:
        return await self._file.write(lambda db: journal.recover(db, max_attempts, now))

    async def claim(self, lane: str, *, limit: int, now: datetime, run: int = 1) -> list[JournalRow]:
        if not await self._file.glance(lambda db: journal.claimable(db, lane, now)):
            return []
        return await self._file.write(lambda db: journal.claim(db, lane, limit, now, run=run))

    async def save_plan(self, number: int, plan: bytes, slots: Sequence[SlotChange]) -> bool:
        """As the port says.

        Raises:
            NotFound: the row is gone (its owner was erased meanwhile): there is nothing to plan for.
        """

        def work(db: sqlite3.Connection) -> None:
            owner = journal.owner_of(db, number)
            if owner is None:
                raise NotFound(f"Journal row {number} is gone: its owner was erased. Nothing is left to do for it.")
            sessions.change_slots(db, owner, slots)
            journal.set_plan(db, number, plan)

        return await self._unless_taken(work)

    async def finish(self, number: int, *, error: str | None = None) -> None:
        await self._ends.add(journal.End(number=number, refused=error is not None))

    async def retry(self, number: int, *, error: str, due: datetime, counted: bool) -> None:
        await self._file.write(lambda db: journal.put_back(db, number, error=error, due=due, counted=counted))

    async def park(self, number: int, *, error: str) -> None:
        now = datetime.now(UTC)
        await self._file.write(lambda db: journal.park(db, number, error=error, now=now))

    async def parked(self, scope: Scope | None, *, limit: int) -> list[ParkedRow]:
        return await self._file.read(lambda db: journal.parked(db, scope, limit))

    async def unpark(self, scope: Scope | None) -> int:
        return await self._file.write(lambda db: journal.unpark(db, scope))

    async def backlog(self, scope: Scope) -> dict[str, dict[str, int]]:
        return await self._file.read(lambda db: journal.sizes_of(db, scope.owner))

    async def queue_sizes(self) -> dict[str, dict[str, int]]:
        return await self._file.read(journal.sizes)

    async def queue_ages(self, now: datetime) -> dict[str, float]:
        return await self._file.read(lambda db: journal.ages(db, now))

    async def refused(self) -> dict[str, int]:
        """Rows that were refused for good since the file was made, by lane."""
        return await self._file.read(journal.refused)

    async def slots(self, scope: Scope, names: Sequence[str]) -> dict[str, str]:
        return await self._file.read(lambda db: sessions.slots(db, scope.owner, names))

    async def change_slots(self, scope: Scope, changes: Sequence[SlotChange]) -> bool:
        return await self._unless_taken(lambda db: sessions.change_slots(db, scope.owner, changes))

    async def drop_slots(self, scope: Scope, prefix: str) -> None:
        await self._file.write(lambda db: sessions.drop_slots(db, scope.owner, prefix))

    async def _unless_taken(self, work: Callable[[sqlite3.Connection], None]) -> bool:
        with suppress(sessions.SlotTaken):
            await self._file.write(work)
            return True
        return False

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        def work(db: sqlite3.Connection) -> list[int]:
            gone = journal.erase(db, scope, session, until)
            sessions.erase(db, scope, session)
            blocks.erase(db, scope, session)
            receipts.erase(db, scope, session)
            palace.erase(db, scope.owner, session)
            callers.erase(db, scope, session)
            erased.note(db, Scope(tenant=scope.tenant, user=scope.user, session=session))
            if session is None:
                sessions.leave_owners(db, scope.owner)
                erased.leave_choices(db, scope.owner)
            return gone

        gone = await self._file.write(work)
        await self._file.wipe()
        return gone

    async def owners(self, *, after: tuple[str, str] | None, limit: int) -> list[tuple[str, str]]:
        def work(db: sqlite3.Connection) -> list[tuple[str, str]]:
            rows = db.execute(
                "SELECT tenant, user FROM owners WHERE (tenant, user) > (?, ?) ORDER BY tenant, user LIMIT ?",
                (*(after or ("", "")), limit),
            )
            return [(tenant, user) for tenant, user in rows]

        return await self._file.read(work)

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        return await self.append(entry), []  # nothing is encrypted here

    async def wipe(self) -> None:
        await self._file.wipe()

    async def forget_receipts(self, scope: Scope, projects: Collection[str], sessions: Collection[str]) -> None:
        await self._file.write(lambda db: receipts.erase_projects(db, scope.owner, projects, sessions))

    async def forget_queries(self, scope: Scope, sessions: Collection[str], turn_ids: Collection[str]) -> None:
        await self._file.write(lambda db: receipts.forget_queries(db, scope.owner, sessions, turn_ids))

    async def note_turns(self, scope: Scope, *, count: int, at: datetime) -> None:
        await self._exchanges.add(lambda db: sessions.note_turns(db, scope, count, at))

    async def note_end(self, scope: Scope, *, at: datetime) -> None:
        await self._exchanges.add(lambda db: sessions.note_end(db, scope, at))

    async def ended(self, scope: Scope, names: Sequence[str]) -> set[str]:
        return await self._file.read(lambda db: sessions.ended(db, scope.owner, names))

    async def due_sessions(self, *, every: int, idle_before: datetime, limit: int) -> list[SessionProgress]:
        return await self._file.read(lambda db: sessions.due_sessions(db, every, idle_before, limit))

    async def progress(self, scope: Scope) -> SessionProgress | None:
        return await self._file.glance(lambda db: sessions.progress(db, scope))

    async def begin_learning(self, entry: JournalEntry, *, unlearned: int) -> int | None:
        def work(db: sqlite3.Connection) -> int | None:
            if sessions.is_learning(db, entry.scope):
                return None
            sessions.take_unlearned(db, entry.scope, unlearned)
            return journal.insert(db, [entry])[0]

        return await self._exchanges.add(work)

    async def note_tokens(self, tenant: str, source: str, *, given: int, made: int, at: datetime) -> None:
        await self._exchanges.add(lambda db: tokens.note(db, tenant, source, (given, made), at))

    async def tokens_spent(self, tenant: str, *, since: datetime) -> dict[str, tuple[int, int]]:
        return await self._file.read(lambda db: tokens.spent(db, tenant, since))

    async def find_session(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[KnownSession]]:
        return await self._file.glance(lambda db: sessions.find_sessions(db, scope.owner, keys))

    async def remember_session(
        self, scope: Scope, keys: Sequence[str], known: KnownSession, *, asked_at: datetime | None = None
    ) -> None:
        def work(db: sqlite3.Connection) -> None:
            if not erased.is_too_late(db, msgspec.structs.replace(scope, session=known.session), asked_at):
                self._remember(db, scope.owner, keys, known)

        self._remembered += 1
        await self._exchanges.add(work)
        if self._remembered % PRUNE_EVERY == 1:
            await self._file.write(lambda db: sessions.prune_sessions(db, known.said_at))

    def _remember(
        self, db: sqlite3.Connection, owner: tuple[str, str], keys: Sequence[str], known: KnownSession
    ) -> None:
        sessions.remember_session(db, owner, keys, known)

    async def note_receipts(self, parts: Sequence[ReceiptPart]) -> None:
        before = self._receipts
        self._receipts += len(parts)
        prune = not before or before // PRUNE_EVERY != self._receipts // PRUNE_EVERY

        def work(db: sqlite3.Connection) -> None:
            self._note(db, [part for part in parts if not erased.is_too_late(db, part.scope, part.at)])
            if prune and parts:
                receipts.prune(db, max(part.at for part in parts))

        await self._exchanges.add(work)

    def _note(self, db: sqlite3.Connection, parts: Sequence[ReceiptPart]) -> None:
        receipts.note(db, parts)

    async def receipt(self, scope: Scope, request_id: str) -> Receipt | None:
        return await self._file.read(lambda db: receipts.find(db, scope, request_id))

    async def note_outcomes(self, number: int, outcomes: Sequence[Outcome], at: datetime) -> None:
        await self._file.write(lambda db: receipts.note_outcomes(db, number, outcomes, at))

    async def outcomes(self, scope: Scope, *, session: str | None, limit: int) -> list[Noted]:
        return await self._file.read(lambda db: receipts.recent(db, scope, session, limit))

    async def find_blocks(self, scope: Scope, messages: Sequence[str]) -> SessionBlocks:
        now = datetime.now(UTC)
        return await self._file.glance(lambda db: blocks.find(db, scope, messages, now))

    async def save_block(
        self, scope: Scope, message: str, lines: Sequence[BlockLine], *, erasures: int, at: datetime
    ) -> bool:
        self._saved_blocks += 1
        prune = self._saved_blocks % PRUNE_EVERY == 1

        def work(db: sqlite3.Connection) -> bool:
            if prune:
                blocks.prune(db, at)
            return blocks.save(db, scope, message, lines, erasures=erasures, at=at)

        return await self._exchanges.add(work)

    async def drop_from_blocks(self, scope: Scope, memory_ids: Sequence[str] | None) -> int:
        return await self._file.write(lambda db: blocks.drop_lines(db, scope.owner, memory_ids))

    async def place(self, scope: Scope, names: Sequence[Names]) -> list[Placed]:
        return await self._exchanges.add(lambda db: palace.place(db, scope.owner, names))

    async def palace(
        self, scope: Scope, parent: str, *, after: int, limit: int, name: str | None = None
    ) -> list[PalacePlace]:
        return await self._file.read(lambda db: palace.below(db, scope.owner, parent, name, after=after, limit=limit))

    async def palace_names(self, scope: Scope, *, writing: bool = False) -> dict[str, str]:
        return await self._file.glance(lambda db: palace.names(db, scope, writing=writing))

    async def palace_rows(self, scope: Scope) -> list[PalaceRow]:
        return await self._file.read(lambda db: palace.rows(db, scope.owner))

    async def adopt_palace(self, scope: Scope, rows: Sequence[PalaceRow]) -> bool:
        with suppress(palace.PlaceTaken):
            await self._file.write(lambda db: palace.adopt(db, scope.owner, rows))
            return True
        return False

    async def stand(self, scope: Scope, places: Sequence[tuple[str, str, str]]) -> list[bool]:
        return await self._file.read(lambda db: palace.stand(db, scope.owner, places))

    async def leave_palace(self, scope: Scope, wings: Sequence[str]) -> None:
        await self._file.write(lambda db: palace.leave(db, scope.owner, wings))

    async def leave_aliases(self, scope: Scope, project: str) -> None:
        await self._file.write(lambda db: palace.leave_aliases(db, scope.owner, project))

    async def rename_wings(self, scope: Scope, wings: Mapping[str, str], aliases: Collection[str]) -> None:
        await self._file.write(lambda db: palace_names.rename(db, scope.owner, wings, aliases))

    async def leave_closets(self, scope: Scope, closets: Sequence[tuple[str, str]]) -> None:
        await self._file.write(lambda db: palace.leave_closets(db, scope.owner, closets))

    async def proxy_key(self, key_id: str) -> KeyRecord | None:
        return await self._file.read(lambda db: sqlite_keys.find(db, key_id))

    async def proxy_keys(self, tenant: str | None) -> list[KeyRecord]:
        return await self._file.read(lambda db: sqlite_keys.listed(db, tenant))

    async def add_proxy_key(self, record: KeyRecord) -> None:
        await self._file.write(lambda db: sqlite_keys.add(db, record))

    async def revoke_proxy_key(self, key_id: str, at: datetime) -> bool:
        revoked = await self._file.write(lambda db: sqlite_keys.revoke(db, key_id, at))
        self.spread_news()
        return revoked

    async def backup(self, path: Path) -> None:
        await self._file.backup(path)

    async def get_meta(self, key: str) -> str | None:
        def work(db: sqlite3.Connection) -> str | None:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            return str(row[0]) if row is not None else None

        return await self._file.read(work)

    async def set_meta(self, key: str, value: str) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

        await self._file.write(work)
