"""What is kept about callers in the state's file: a part of `sqlite_state.SqliteState`."""

import mmap
import os
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from time import monotonic

import msgspec

from memproxy.core.audit import Audited, AuditEntry
from memproxy.core.choices import Choices
from memproxy.core.scope import Scope
from memproxy.ports import Charge, GivenAnswer, Spent
from memproxy.stores import sqlite_callers as callers
from memproxy.stores.sqlite_file import SqliteFile
from memproxy.stores.sqlite_group import SharedCommit
from memproxy.tasks import TaskOwner

CHOICES_SECONDS = 5.0
"""How long choices that were read count at most, should the news of a change not come."""

_PRUNE_EVERY = 500
_MOST_KNOWN = 10_000


class News:
    """Eight bytes that every process of the state sees, and that change with every change of choices or proxy keys: a
    cache knows without asking whether it is still right. In a file beside the state's, mapped into memory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes: mmap.mmap | None = None

    def open(self) -> None:
        """Map the file, made where there is none. Its place on the disk is taken first: a page that has none ends the
        process when it is touched and the disk is full.
        """
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
        """Let go."""
        if self._bytes is not None:
            self._bytes.close()
            self._bytes = None

    @property
    def last(self) -> bytes:
        """What stands there now."""
        return self._bytes[:8] if self._bytes is not None else b""

    def spread(self) -> None:
        """Something changed, and is committed. Random, so that two at once cannot make the same."""
        if self._bytes is not None:
            self._bytes[:8] = os.urandom(8)


class _Known(msgspec.Struct, frozen=True):
    choices: Choices
    news: bytes
    read_at: float


class SqliteAccess:
    """`ports` about callers in the state's file."""

    def __init__(self, file: SqliteFile, tasks: TaskOwner) -> None:
        self._file = file
        self._spends: SharedCommit[tuple[Sequence[Charge], datetime], Spent | None] = SharedCommit(
            file, tasks, callers.spend
        )
        self._news = News(file.path.with_name(f"{file.path.name}-choices"))
        self._known: OrderedDict[tuple[str, str, str | None], _Known] = OrderedDict()
        self._spendings = 0

    async def open_news(self) -> None:
        """Begin to hear of changed choices; after the file is open.

        Raises:
            StateUnavailable: the file beside the state's cannot be used.
        """
        await self._file.beside(self._news.open)

    def close_news(self) -> None:
        """Hear no more."""
        self._news.close()

    def news(self) -> bytes:
        """Other bytes than before whenever choices or proxy keys were changed, by whatever process."""
        return self._news.last

    def spread_news(self) -> None:
        """Something of that was changed, and is committed."""
        self._news.spread()

    async def spend(self, charges: Sequence[Charge], now: datetime) -> Spent | None:
        self._spendings += 1
        if self._spendings % _PRUNE_EVERY == 0:
            await self._file.write(lambda db: callers.prune_uses(db, now))
        return await self._spends.add((charges, now))

    async def spent(self, charge: Charge, now: datetime) -> Spent:
        return await self._file.read(lambda db: callers.spent(db, charge, now))

    async def choices(self, scope: Scope) -> Choices:
        name, news = (*scope.owner, scope.agent), self._news.last
        known = self._known.get(name)
        if known is not None and known.news == news and monotonic() - known.read_at < CHOICES_SECONDS:
            return known.choices
        found = await self._file.glance(lambda db: callers.choices(db, scope))
        self._known[name] = _Known(found, news, monotonic())
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return found

    async def own_choices(self, scope: Scope) -> Choices | None:
        return await self._file.read(lambda db: callers.own_choices(db, scope))

    async def choose(self, scope: Scope, choices: Choices, at: datetime) -> None:
        await self._file.write(lambda db: callers.choose(db, scope, choices, at))
        self.spread_news()

    async def given_answer(self, scope: Scope, name: str) -> GivenAnswer | None:
        return await self._file.read(lambda db: callers.given_answer(db, scope, name))

    async def keep_answer(self, scope: Scope, name: str, given: GivenAnswer) -> None:
        await self._file.write(lambda db: callers.keep_answer(db, scope, name, given))

    async def drop_answer(self, scope: Scope, name: str) -> None:
        await self._file.write(lambda db: callers.drop_answer(db, scope, name))

    async def erase_answers(self, scope: Scope) -> None:
        await self._file.write(lambda db: callers.erase_answers(db, scope))

    async def note_audit(self, entries: Sequence[AuditEntry]) -> None:
        await self._file.write(lambda db: callers.note_audit(db, entries))

    async def audit(self, tenant: str | None, *, before: int | None, limit: int) -> list[Audited]:
        return await self._file.read(lambda db: callers.audit(db, tenant, before, limit))
