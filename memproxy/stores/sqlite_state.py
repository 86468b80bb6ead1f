"""The embedded state store: one SQLite file with all contracts of `ports.state`, put together of its parts.

Several processes open the file: relays append, the engine claims. What is appended, or ends, at once shares a commit.
Erased bodies are overwritten (`secure_delete`), and `forget` empties the write-ahead log as well.
"""

import mmap
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from memproxy.core.changes import ChangeNotices
from memproxy.core.scope import Scope
from memproxy.ports import Ending, Recovered
from memproxy.stores.sqlite_file import CHECKPOINT_PAGES, SqliteDatabase, SqliteFile
from memproxy.stores.state_owners import StateOwners
from memproxy.stores.state_part import Db, Row
from memproxy.tasks import TaskOwner

if TYPE_CHECKING:
    from memproxy.stores.sealing import MasterKeys  # cryptography, which few need


class News:
    """Eight bytes that every process of the state sees, and that change with every change of choices or proxy keys: a
    cache knows without asking whether it is still right. In a file beside the state's, mapped into memory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes: mmap.mmap | None = None

    def open(self) -> None:
        """Map the file. Its place on the disk is taken first: on a full disk, touching a hole ends the process."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(handle).st_size < 8:
                os.pwrite(handle, bytes(8), 0)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, 8)  # of a file that an earlier version made as a hole
            self._bytes = mmap.mmap(handle, 8)
        finally:
            os.close(handle)

    def close(self) -> None:
        if self._bytes is not None:
            self._bytes.close()
            self._bytes = None

    @property
    def last(self) -> bytes:
        return self._bytes[:8] if self._bytes is not None else b""

    def spread(self) -> None:
        """Something changed, and is committed. Random, so that two at once cannot make the same."""
        if self._bytes is not None:
            self._bytes[:8] = os.urandom(8)


class SqliteState(StateOwners):
    """`ports.StateStore` in one SQLite file. One engine alone handles the journal's rows."""

    place_anew = "installation"
    is_shared = False
    mine, released, claims = "true", "", ""
    heads = "journal INDEXED BY journal_claimable"
    me: Mapping[str, str] = {}

    def __init__(
        self,
        path: Path,
        *,
        sync: Literal["normal", "full"],
        checkpoint_pages: int = CHECKPOINT_PAGES,
        spares: bool = False,
        reads_only: bool = False,
        masters: "MasterKeys | None" = None,
    ) -> None:
        """``checkpoint_pages`` and ``reads_only`` are `SqliteFile`'s, ``masters`` `StateOwners`'. ``spares``: it
        captures, and keeps nothing that it has read: room for entries that are set aside is taken when it opens, and it
        goes on where the file is replaced.
        """
        self._spares = spares
        self._reads_only = reads_only
        renews = spares and not self.seals  # keys of users are in the file that was there
        file = SqliteFile(path, sync=sync, checkpoint_pages=checkpoint_pages, renews=renews, reads_only=reads_only)
        tasks = TaskOwner("state")
        super().__init__(SqliteDatabase(file, tasks), tasks, masters, path, durable=sync == "full")
        self._file = file
        self.changes = ChangeNotices()
        self._news = News(path.with_name(f"{path.name}-choices"))

    async def open(self) -> None:
        if self._spares:
            await self._spill.make()
        await self._file.open()
        await self._file.beside(self._news.open)
        try:
            await self._check_usable()
            await self._begin()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._end()
        self._news.close()
        await self._file.close()

    def on_rows(self, callback: Callable[[], None]) -> None:
        """There is no other engine."""

    async def other_engines(self) -> int:
        return 0

    async def recover(self, *, max_attempts: int, now: datetime) -> Recovered:
        async def work(db: Db) -> Recovered:
            # a restart often comes because what rows wait for was mended
            await db.run("UPDATE journal SET due = 0 WHERE state = 'waiting'")
            running = await db.all("SELECT number, attempts FROM journal WHERE state = 'running'")
            return await self._give_back(db, running, max_attempts, now)

        return await self._database.write(work)

    async def _heads(self, db: Db, where: str, values: dict[str, Any]) -> list[Row]:
        heads = f"SELECT number, kind, length(body), attempts, tenant, user_id FROM {self.heads} WHERE {where}"  # noqa: S608 - a constant
        return await db.all(f"{heads} ORDER BY number LIMIT :limit", **values)

    @asynccontextmanager
    async def alone(self, scope: Scope) -> AsyncIterator[bool]:  # noqa: ARG002 - the protocol's
        yield True

    async def ending(self, number: int) -> Ending | None:  # noqa: ARG002 - the protocol's
        return None

    def news(self) -> bytes:
        return self._news.last

    def _changed(self) -> None:
        self._news.spread()

    async def wipe(self) -> None:
        await self._file.wipe()

    async def backup(self, path: Path) -> None:
        await self._file.backup(path)
