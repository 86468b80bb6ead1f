"""The embedded state with every text of a user encrypted (`sqlite_sealing`): the life of the users' keys."""

import asyncio
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.ports import JournalEntry
from memproxy.stores import sqlite_erased as erased
from memproxy.stores import sqlite_journal as journal
from memproxy.stores import sqlite_working as working
from memproxy.stores.apart_state import WritesApart
from memproxy.stores.journal_spill import SetsAside
from memproxy.stores.sealing import DataKey, MasterKeys, Unreadable, is_sealed_by_data_key, is_sealed_by_master
from memproxy.stores.sqlite_file import CHECKPOINT_PAGES
from memproxy.stores.sqlite_part import Owner
from memproxy.stores.sqlite_sealing import MOST_KNOWN, DataKeys, seal_everything
from memproxy.stores.sqlite_state import SEALED, SqliteState, erase_texts

log = logging.getLogger(__name__)

ASIDE = "aside.body"
"""What the body of an entry that is set aside is sealed as."""

KEY_READ_S = 0.2
"""How long a user's key is waited for when something is set aside."""


class UsersKeys(SetsAside, ABC):
    """What every state with encrypted texts does alike: it keeps keys in memory, and seals what it sets aside."""

    def __init__(self, masters: MasterKeys) -> None:
        self._masters = masters
        self._current: dict[Owner, DataKey] = {}
        self._destroyed = 0
        self._listeners: list[Callable[[], None]] = []

    @abstractmethod
    async def make_key(self, scope: Scope) -> None:
        """See that the owner has a key."""

    @abstractmethod
    async def _key(self, owner: Owner) -> DataKey | None:
        """The owner's key as the state has it."""

    @abstractmethod
    async def _key_at_once(self, owner: Owner) -> DataKey | None:
        """The same while the state does not work: it waits behind nothing else."""

    def on_destroyed(self, told: Callable[[], None]) -> None:
        """``told`` is called whenever a key was destroyed, by whatever process of this state tells of it."""
        self._listeners.append(told)

    def drop_key(self, owner: Owner | None) -> None:
        """A key was destroyed: forget the owner's key (None: all keys) as known in memory."""
        self._destroyed += 1
        if owner is None:
            self._current.clear()
        else:
            self._current.pop(owner, None)
        for told in self._listeners:
            told()

    async def data_key(self, owner: Owner, *, make: bool) -> DataKey | None:
        """The owner's key for what is kept outside of the state; None when there is none and none is to be made.

        Raises:
            StateUnavailable: the state does not answer.
        """
        known = self._current.get(owner)
        if known is not None:
            return known
        before = self._destroyed
        found = await self._key(owner)
        while found is None and make:  # it may be destroyed right away
            await self.make_key(Scope(tenant=owner[0], user=owner[1]))
            found = await self._key(owner)
        if found is not None and before == self._destroyed:
            if len(self._current) >= MOST_KNOWN:
                self._current.clear()
            self._current[owner] = found
        return found

    async def set_aside(self, entry: JournalEntry) -> int | None:
        """As the port says."""
        key = await self._readable_key(entry.scope.owner)
        if key is not None:
            body = key.seal(entry.body, ASIDE)
        else:
            body = self._masters.seal(entry.body, entry.scope.owner, ASIDE)
        return await super().set_aside(msgspec.structs.replace(entry, body=body))

    async def _readable_key(self, owner: Owner) -> DataKey | None:
        """The owner's key, if it can be read at once: the state does not work while something is set aside."""
        try:
            async with asyncio.timeout(KEY_READ_S):
                return await self._key_at_once(owner)
        except (StateUnavailable, TimeoutError):
            return None  # the installation's key does as well

    async def read_aside(self, number: int) -> JournalEntry | None:
        """As the port says."""
        entry = await super().read_aside(number)
        try:
            return None if entry is None else await self._opened_aside(entry)
        except Unreadable:
            return None

    async def _opened_left(self, entry: JournalEntry) -> JournalEntry | None:
        """What a process that ended had set aside; None where its user was erased since."""
        try:
            return await self._opened_aside(entry)
        except Unreadable:
            log.info("turns of %s that were set aside are dropped: their user was erased", entry.request_id)
            return None

    async def _opened_aside(self, entry: JournalEntry) -> JournalEntry:
        """The entry in the clear; one that an unencrypted state had set aside is answered as it is.

        Raises:
            Unreadable: its user's key was destroyed.
            StateUnavailable: the state does not answer, or the master key that sealed it is not here.
        """
        owner, body = entry.scope.owner, entry.body
        if is_sealed_by_master(body):
            body = self._masters.open(body, owner, ASIDE)
        elif is_sealed_by_data_key(body):
            if (key := await self._key(owner)) is None:
                raise Unreadable("its key was destroyed")
            body = key.open(body, ASIDE)
        return msgspec.structs.replace(entry, body=body)


class SealedState(UsersKeys, SqliteState):
    """`ports.StateStore` in one SQLite file, with the texts in it encrypted."""

    seals = True

    def __init__(
        self,
        path: Path,
        *,
        sync: Literal["normal", "full"],
        masters: MasterKeys,
        checkpoint_pages: int = CHECKPOINT_PAGES,
        spares: bool = False,
        reads_only: bool = False,
    ) -> None:
        """``masters``: the installation's keys. The rest is `SqliteState`'s."""
        self._keys = DataKeys(masters)
        UsersKeys.__init__(self, masters)
        SqliteState.__init__(
            self,
            path,
            sync=sync,
            checkpoint_pages=checkpoint_pages,
            spares=spares,
            reads_only=reads_only,
            sealing=self._keys,
        )

    async def open(self) -> None:
        """As the port says. A state that is not encrypted yet is, before this returns.

        Raises:
            StateUnavailable: also when its keys are wrapped by a master key that is not here.
        """
        await super().open()
        try:
            sealed = await self._begun()
        except StateUnavailable:
            await self.close()
            raise
        if sealed:
            log.info("the state of %d users is encrypted now; `memproxy reindex` encrypts their memories", sealed)
            await self._wiped()

    async def _begun(self) -> int:
        """Check the keys; a process that writes also seals plain texts and takes up what waits. How many users it
        sealed.
        """
        if self._reads_only:
            await self._file.read(self._keys.check)
            return 0
        sealed = await self._file.write(self._prepare)
        await self._taking_up.begin()
        return sealed

    async def _wiped(self) -> None:
        try:
            await self._file.wipe()
        except StateUnavailable as error:  # another process reads: the next checkpoint overwrites it
            log.warning("the log of the state may hold plain text until it is written over: %s", error.message)

    def _prepare(self, db: sqlite3.Connection) -> int:
        """Check the keys, and seal what is plain; how many users that concerned."""
        self._keys.check(db)
        if db.execute("SELECT 1 FROM meta WHERE key = ?", (SEALED,)).fetchone() is not None:
            return 0
        sealed = seal_everything(db, self._keys)
        db.execute("INSERT INTO meta VALUES (?, '1')", (SEALED,))
        return sealed

    async def make_key(self, scope: Scope) -> None:
        """See that the owner has a key."""
        await self._file.write(lambda db: self._keys.made_key(db, scope.owner))

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        def work(db: sqlite3.Connection) -> tuple[int, list[int]]:
            gone = self._destroy(db, entry.scope)
            return journal.append(db, self._keys, entry), gone

        await self._empty_working(entry.scope.owner, None)
        begun = await self._file.write(work)
        self.drop_key(entry.scope.owner)
        await self._file.wipe()
        return begun

    async def destroy_key(self, scope: Scope) -> None:
        """Destroy the owner's key, and what of the state it sealed."""
        await self._file.write(lambda db: self._destroy(db, scope))
        self.drop_key(scope.owner)
        await self._file.wipe()

    def _destroy(self, db: sqlite3.Connection, scope: Scope) -> list[int]:
        """All that is sealed goes with its key: nobody could read it, and it would stand in the way of what comes. The
        numbers of the journal's rows.
        """
        gone = erase_texts(db, scope, None)
        working.erase(db, None, scope.owner, None)
        erased.note(db, Scope(tenant=scope.tenant, user=scope.user))
        self._keys.destroy(db, scope.owner)
        return gone

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        gone = await super().forget(scope, session=session, until=until)
        if session is None:
            self.drop_key(scope.owner)
        return gone

    def _forget(self, db: sqlite3.Connection, scope: Scope, session: str | None, until: int | None) -> list[int]:
        gone = super()._forget(db, scope, session, until)
        # rows that came after the erasure was asked for are sealed with a key that was made after it
        rows = db.execute("SELECT 1 FROM journal WHERE tenant = ? AND user = ? LIMIT 1", scope.owner)
        if session is None and rows.fetchone() is None:
            self._keys.destroy(db, scope.owner)
        return gone

    async def rewrap(self) -> int:
        """Wrap every data key by the current master key; how many were wrapped by another one."""
        wrapped = await self._file.write(self._keys.rewrap)
        await self._wiped()
        return wrapped

    async def _append_left(self, entry: JournalEntry) -> int:
        left = await self._opened_left(entry)
        return 0 if left is None else await self.append(left)

    async def _key(self, owner: Owner) -> DataKey | None:
        return await self._file.read(lambda db: self._keys.key(db, owner))

    async def _key_at_once(self, owner: Owner) -> DataKey | None:
        return await self._file.glance(lambda db: self._keys.key(db, owner))


class ApartSealedState(WritesApart, SealedState):
    """The engine's view of it: its keys are read here, and made and destroyed by the state's process."""

    async def make_key(self, scope: Scope) -> None:
        await self._calls.call("make_key", scope)

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        begun = await super().begin_erasure(entry)
        self.drop_key(entry.scope.owner)
        return begun

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        gone = await super().forget(scope, session=session, until=until)
        if session is None:
            self.drop_key(scope.owner)
        return gone
