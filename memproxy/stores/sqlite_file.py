"""One SQLite file, used from one thread of this process: opening, transactions, and its errors in our words.

A transaction is one piece of work in that thread, so that neither another caller nor a cancelled one can ever stand
inside it. Writes that come together share one (`shared_commit`).
"""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from memproxy.core.scope import OwnerKey
from memproxy.errors import RequestError, StateUnavailable
from memproxy.stores.shared_commit import SharedCommit
from memproxy.stores.sqlite_db import SqliteDb, driven
from memproxy.stores.sqlite_schema import migrate
from memproxy.stores.state_part import Db, Work
from memproxy.stores.thread import OwnThread
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

Result = TypeVar("Result")
_Kind = Literal["read", "write"]

BUSY_TIMEOUT_S = 5.0  # longest wait for another process's transaction; ours take milliseconds
HELD_TIMEOUT_S = 0.5
"""The same once a transaction of its kind has waited in vain, until one gets through: all wait in one queue."""

HELD_TRY_S = 0.02  # even then the lock is tried for this long
BUSY_PAUSE_MS = 1
"""Pause before it is looked again whether another process's transaction has ended: SQLite's own get too long."""

WIPE_PAUSE_S = 0.01  # pause between two tries to empty the write-ahead log, in which others may write
GONE_S = 5.0  # how long to wait for a deleted file to come back before a new one is made
GLANCE_S = 0.005
"""A read on the caller's own thread takes 0.02 ms. After one that took longer than this (it waited for a disk) there
is none for `GLANCE_PAUSE_S`."""

GLANCE_PAUSE_S = 1.0  # how long all reads go to the file's thread after such a slow one
CHECKPOINT_PAGES = 1000
"""Pages in the write-ahead log after which a commit writes them into the file: SQLite's own number."""

_REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk (or the file's size limit) is full; free some space",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only; make both writable for this user",
    sqlite3.SQLITE_BUSY: "another process holds it; end that process",
    sqlite3.SQLITE_LOCKED: "another process holds it; end that process",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a backup, or move it away to start with an empty state",
    sqlite3.SQLITE_NOTADB: "the file is no state file; restore a backup, or move it away to start with an empty state",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that its folder is there and may be used, and that its "
    "path has fewer than 512 bytes",
    sqlite3.SQLITE_PERM: "access is not permitted; check the file's permissions",
    sqlite3.SQLITE_IOERR: "reading or writing failed; check the disk and its free space",
}


class SqliteFile:
    """The connection to a state file. Every call is one transaction in the file's own thread.

    Args:
        checkpoint_pages: pages in the write-ahead log after which a commit of this process brings them into the file,
            which takes it as long as the disk does. Where another process does so sooner, none of ours waits for it.
        renews: where the file was deleted or replaced while it was open, go on with what is there, or with a new one.
            For a process that keeps nothing of the old one; others fail until they are started again.
        reads_only: another process writes for this one (docs/decisions/0032). The file is there already, in its
            newest form.
    """

    def __init__(
        self,
        path: Path,
        *,
        sync: Literal["normal", "full"],
        checkpoint_pages: int = CHECKPOINT_PAGES,
        renews: bool = False,
        reads_only: bool = False,
    ) -> None:
        self.path = path
        self._path_text = os.fspath(path)
        self._renews = renews
        self._gone_since: float | None = None
        self._held: int | None = None
        self._held_up: set[_Kind] = set()
        self._sync = sync
        self._checkpoint_pages = checkpoint_pages
        self._reads_only = reads_only
        self._thread = OwnThread("memproxy-state")
        self._db: SqliteDb | None = None
        self._glances: SqliteDb | None = None
        self._glance_again = 0.0
        self._inode: int | None = None

    async def open(self) -> None:
        """Open, create or migrate. Raises `StateUnavailable`; `ConfigError`: a newer memproxy wrote it."""
        await self.beside(self._open)

    async def close(self) -> None:
        self._inode = None
        glances, self._glances = self._glances, None
        if glances is not None:
            glances.close()  # first: the last connection to be closed takes the log with it
        try:
            await self.beside(self._close)
        finally:
            self._thread.close()

    async def read(self, work: Callable[[SqliteDb], Result]) -> Result:
        """Run ``work`` in a read transaction."""
        asked_at = time.monotonic()
        return await self.beside(lambda: self._patiently("read", asked_at, lambda: _transaction(self._open_db(), work)))

    async def glance(self, work: Callable[[SqliteDb], Result]) -> Result:
        """Run ``work`` in a read transaction on the caller's own thread: for a few rows found by an index. Readers of a
        write-ahead log wait for nobody. Where one would have to (the log is recovered), the last one met a slow disk,
        or anything is wrong, the file's thread does the work and tells what.
        """
        db, began = self._glances, time.monotonic()
        if db is None or began < self._glance_again:
            return await self.read(work)
        try:
            self._open_db()
            result = _transaction(db, work)
        except (sqlite3.Error, OSError, StateUnavailable):
            self._glance_again = began + GLANCE_PAUSE_S
            return await self.read(work)
        ended = time.monotonic()
        if ended - began > GLANCE_S:
            self._glance_again = ended + GLANCE_PAUSE_S
        return result

    def _patiently(self, kind: _Kind, asked_at: float, work: Callable[[], Result]) -> Result:
        """Do again what another process keeps from being done, for `BUSY_TIMEOUT_S` (``asked_at`` by `time.monotonic`).
        The connection waits for `BUSY_PAUSE_MS`: to set that for each transaction takes 20 µs of a commit.
        """
        now = time.monotonic()
        until = max(asked_at + HELD_TIMEOUT_S, now + HELD_TRY_S) if kind in self._held_up else now + BUSY_TIMEOUT_S
        while True:
            try:
                result = work()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() > until:
                    self._held_up.add(kind)
                    raise
            else:
                self._held_up.discard(kind)
                return result

    async def write(self, work: Callable[[SqliteDb], Result]) -> Result:
        """Run ``work`` in a write transaction: all of it is durable on return, or none of it happened."""
        if self._reads_only:
            raise RuntimeError(f"{self.path} was opened for reading: its own process writes it.")
        asked_at = time.monotonic()

        def alone() -> Result:
            db = self._open_db()
            self._patiently("write", asked_at, lambda: db.execute("BEGIN IMMEDIATE"))
            return _commit(db, work)

        return await self.beside(alone)

    async def wipe(self) -> None:
        """Move everything from the write-ahead log into the file and empty it: erased text is in neither then. It is
        tried briefly, again and again: while SQLite waits for a reader, nobody can write. Raises `StateUnavailable`.
        """

        def kept_waiting() -> bool:
            # what the first has moved keeps no writer waiting in the second
            checkpoints = (f"PRAGMA wal_checkpoint({how})" for how in ("PASSIVE", "TRUNCATE"))
            return any(self._open_db().execute(checkpoint).fetchone()[0] for checkpoint in checkpoints)

        until = time.monotonic() + BUSY_TIMEOUT_S
        while await self.beside(kept_waiting):
            if time.monotonic() > until:
                raise StateUnavailable(
                    f"The write-ahead log of {self.path} cannot be emptied while another process reads; try again."
                )
            await asyncio.sleep(WIPE_PAUSE_S)

    async def backup(self, path: Path) -> None:
        """Copy everything, as it is at one moment, into a new file."""

        def copied() -> None:
            db = self._open_db()
            # SQLite itself waits for others: this cannot be done again
            db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")
            try:
                db.execute("VACUUM INTO ?", (str(path),))
            finally:
                db.execute(f"PRAGMA busy_timeout = {BUSY_PAUSE_MS}")
            path.chmod(0o600)

        await self.beside(copied)

    async def beside(self, work: Callable[[], Result]) -> Result:
        """Run ``work`` in the file's thread, with its errors in our words."""

        def guarded() -> Result:
            try:
                self._reopen_deleted()
                return work()
            except (sqlite3.DataError, UnicodeEncodeError) as error:
                raise RequestError(f"This cannot be written to the state: {type(error).__name__}.") from error
            except (sqlite3.IntegrityError, sqlite3.InterfaceError):
                raise  # a mistake of ours; waiting does not mend it
            except (sqlite3.Error, OSError) as error:
                raise self._failed(error) from error

        return await self._thread.run(guarded)

    def _failed(self, error: sqlite3.Error | OSError) -> StateUnavailable:
        code = getattr(error, "sqlite_errorcode", 0) or 0
        remedy = _REMEDIES.get(code & 0xFF, "check the file, its folder and the disk")
        return StateUnavailable(f"The state in {self.path} does not work ({error}): {remedy}.")

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its side files the same mode
        db = _connect(self.path, timeout_s=BUSY_TIMEOUT_S)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {self._sync}")
            db.execute(f"PRAGMA wal_autocheckpoint = {self._checkpoint_pages}")
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA foreign_keys = ON")
            migrate(db)
            if self._reads_only:
                db.execute("PRAGMA query_only = ON")
            db.execute(f"PRAGMA busy_timeout = {BUSY_PAUSE_MS}")
            glances = _connect(self.path, timeout_s=0)  # it reads and never waits
            glances.execute("PRAGMA query_only = ON")
        except BaseException:
            db.close()
            raise
        self._inode = self.path.stat().st_ino
        self._held = os.open(self.path, os.O_PATH) if self._renews and hasattr(os, "O_PATH") else None
        self._db, self._glances = db, glances

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()
        held, self._held = self._held, None
        if held is not None:
            os.close(held)

    def _reopen_deleted(self) -> None:
        """In the file's thread: open the file anew where ours is deleted for good, or where another is in its place."""
        if not self._renews or self._inode is None or (self._db is not None and not self._is_gone()):
            return
        self._glances = None  # closed by whoever uses it last
        self._close()
        self._open()
        self._gone_since = None
        log.error("the state's file %s was deleted or replaced while in use; going on with the one there", self.path)

    def _is_gone(self) -> bool:
        """Whether ours is not there, and will not be again: one that was moved away may come back."""
        try:
            return os.stat(self._path_text).st_ino != self._inode  # noqa: PTH116 - as in `_open_db`
        except FileNotFoundError:
            self._gone_since = self._gone_since or time.monotonic()
            deleted = self._held is not None and os.fstat(self._held).st_nlink == 0
            return deleted and time.monotonic() - self._gone_since > GONE_S

    def _open_db(self) -> SqliteDb:
        if self._db is None:
            raise StateUnavailable(f"The state in {self.path} is not open; open it, or wait until it is.")
        # an unlinked file would go on taking writes that nobody can ever read
        if os.stat(self._path_text).st_ino != self._inode:  # noqa: PTH116 - half of what a `Path` takes
            raise StateUnavailable(f"The state file {self.path} was replaced while in use. Start again.")
        return self._db


class SqliteDatabase:
    """`state_part.Database`; what is written at once shares a commit."""

    is_measured = True

    def __init__(self, file: SqliteFile, tasks: TaskOwner) -> None:
        self.location = str(file.path)
        self._file = file
        self._commits: SharedCommit[Work[Any], Any] = SharedCommit(tasks, self._write)

    def _write(self, works: Sequence[Work[Any]]) -> Awaitable[list[Any]]:
        return self._file.write(lambda db: [driven(work(db)) for work in works])

    def read(self, work: Work[Result]) -> Coroutine[Any, Any, Result]:
        """As `state_part.Database` says. Nothing is awaited here: requests wait for each step."""
        return self._file.read(lambda db: driven(work(db)))

    def glance(self, work: Work[Result]) -> Coroutine[Any, Any, Result]:
        return self._file.glance(lambda db: driven(work(db)))

    def write(self, work: Work[Result], *owners: OwnerKey) -> Coroutine[Any, Any, Result]:  # noqa: ARG002
        """As `state_part.Database` says: nobody else writes meanwhile anyway."""
        return self._commits.add(work)

    once = write

    def run(self, statement: str, /, **values: Any) -> Coroutine[Any, Any, int]:
        return self.write(lambda db: db.run(statement, **values))

    def shared(self, time: datetime) -> datetime:
        return time

    local = shared

    def clock(self) -> Callable[[], datetime]:
        return self.time

    def time(self) -> datetime:
        return datetime.now(UTC)

    async def erased_key(self, db: Db) -> bytes:
        """Read each time, since the file may have been replaced."""
        row = await db.first("SELECT value FROM secrets WHERE name = 'erased'")
        assert row is not None  # noqa: S101 - made with the table
        return bytes(row[0])

    async def has_erased(self, db: Db) -> bool:
        return await db.first("SELECT 1 FROM erased LIMIT 1") is not None


def _connect(path: Path, *, timeout_s: float) -> SqliteDb:
    return sqlite3.connect(path, timeout_s, isolation_level=None, check_same_thread=False, factory=SqliteDb)


def _transaction(db: SqliteDb, work: Callable[[SqliteDb], Result]) -> Result:
    db.execute("BEGIN")
    return _commit(db, work)


def _commit(db: SqliteDb, work: Callable[[SqliteDb], Result]) -> Result:
    """End the transaction that was begun: with all of ``work``, or with nothing."""
    try:
        result = work(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # some errors, a full disk among them, have rolled back already
            db.execute("ROLLBACK")
        raise
    return result
