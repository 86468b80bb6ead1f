"""The embedded state with every text of a user encrypted by that user's data key (`sealing`).

What a row is looked up by becomes a name (encrypted, always the same) or a token (a keyed hash); ids, times, counts and
who owns a row stay as they are. Keys are looked up inside the transaction that uses them.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from memproxy.core.palace import Names, is_role
from memproxy.core.receipt import Noted, Outcome, Receipt, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.core.transfer import PalaceRow
from memproxy.errors import StateUnavailable
from memproxy.ports import (
    BlockLine,
    JournalEntry,
    JournalRow,
    KnownSession,
    PalacePlace,
    Placed,
    SessionBlocks,
    SlotChange,
)
from memproxy.stores import sqlite_blocks as blocks
from memproxy.stores import sqlite_erased as erased
from memproxy.stores import sqlite_journal as journal
from memproxy.stores import sqlite_palace as palace
from memproxy.stores import sqlite_receipts as receipts
from memproxy.stores import sqlite_sessions as sessions
from memproxy.stores.apart_state import WritesApart
from memproxy.stores.sealed_rows import (
    opened,
    opened_lines,
    opened_outcome,
    opened_text,
    plain_name,
    sealed_outcome,
    sealed_part,
    sealed_slot,
)
from memproxy.stores.sealing import DataKey, MasterKeys, Unreadable, is_sealed_by_data_key, is_sealed_by_master
from memproxy.stores.sqlite_data_keys import MOST_KNOWN, DataKeys, Owner, owners
from memproxy.stores.sqlite_file import CHECKPOINT_PAGES
from memproxy.stores.sqlite_sealing import NAMED_IN_WORDS, SEALED_TABLES, seal_owner, slot_name
from memproxy.stores.sqlite_state import SEALED, SqliteState

log = logging.getLogger(__name__)

ASIDE = "aside.body"
"""What the body of an entry that is set aside is sealed as."""

KEY_READ_S = 0.2
"""How long a user's key is waited for when something is set aside."""


class SealedState(SqliteState):
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
        super().__init__(path, sync=sync, checkpoint_pages=checkpoint_pages, spares=spares, reads_only=reads_only)
        self._masters = masters
        self._keys = DataKeys(masters)
        self._current: dict[Owner, DataKey] = {}
        self._destroyed = 0
        self._listeners: list[Callable[[], None]] = []

    def on_destroyed(self, told: Callable[[], None]) -> None:
        """``told`` is called whenever a key was destroyed."""
        self._listeners.append(told)

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
        """Check the keys; who writes seals what is plain, too, and takes up what waits. How many users that was."""
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
        everybody = list(owners(db, SEALED_TABLES))
        for owner in everybody:
            seal_owner(db, self._keys.made(db, owner, datetime.now(UTC)))
        db.execute("INSERT INTO meta VALUES (?, '1')", (SEALED,))
        return len(everybody)

    async def data_key(self, owner: Owner, *, make: bool) -> DataKey | None:
        """The owner's key for what is kept outside of the state; None when there is none and none is to be made.

        Raises:
            StateUnavailable: the state does not answer.
        """
        known = self._current.get(owner)
        if known is not None:
            return known
        before = self._destroyed
        found = await self._known_key(owner)
        while found is None and make:  # it may be destroyed right away
            await self.make_key(Scope(tenant=owner[0], user=owner[1]))
            found = await self._known_key(owner)
        if found is not None and before == self._destroyed:
            if len(self._current) >= MOST_KNOWN:
                self._current.clear()
            self._current[owner] = found
        return found

    async def make_key(self, scope: Scope) -> None:
        """See that the owner has a key."""
        await self._file.write(lambda db: self._made(db, scope.owner))

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        def work(db: sqlite3.Connection) -> tuple[int, list[int]]:
            gone = self._destroy(db, entry.scope)
            return self._insert(db, entry), gone

        number, gone = await self._file.write(work)
        self.drop_key(entry.scope.owner)
        await self._file.wipe()
        return number, gone

    async def destroy_key(self, scope: Scope) -> None:
        """Destroy the owner's key, and what of the state it sealed."""
        await self._file.write(lambda db: self._destroy(db, scope))
        self.drop_key(scope.owner)
        await self._file.wipe()

    def _destroy(self, db: sqlite3.Connection, scope: Scope) -> list[int]:
        """All that is sealed goes with its key: nobody could read it, and it would stand in the way of what comes. The
        numbers of the journal's rows.
        """
        gone = journal.erase(db, scope, None)
        sessions.erase(db, scope, None)
        blocks.erase(db, scope, None)
        receipts.erase(db, scope, None)
        palace.erase(db, scope.owner, None)
        erased.note(db, Scope(tenant=scope.tenant, user=scope.user))
        self._keys.destroy(db, scope.owner)
        return gone

    async def rewrap(self) -> int:
        """Wrap every data key by the current master key; how many were wrapped by another one."""
        wrapped = await self._file.write(self._keys.rewrap)
        await self._wiped()
        return wrapped

    def drop_key(self, owner: Owner) -> None:
        """The owner's key was destroyed: what is known of it here counts no more."""
        self._destroyed += 1
        self._current.pop(owner, None)
        for told in self._listeners:
            told()

    def _made(self, db: sqlite3.Connection, owner: Owner) -> DataKey:
        return self._keys.made(db, owner, datetime.now(UTC))

    async def set_aside(self, entry: JournalEntry) -> int | None:
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
                return await self._file.glance(lambda db: DataKeys(self._masters).of(db, owner))
        except (StateUnavailable, TimeoutError):
            return None  # the installation's key does as well

    async def read_aside(self, number: int) -> JournalEntry | None:
        entry = await super().read_aside(number)
        try:
            return None if entry is None else await self._opened_aside(entry)
        except Unreadable:
            return None

    async def _append_left(self, entry: JournalEntry) -> int:
        try:
            return await self.append(await self._opened_aside(entry))
        except Unreadable:
            log.info("turns of %s that were set aside are dropped: their user was erased", entry.request_id)
            return 0

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
            if (key := await self._known_key(owner)) is None:
                raise Unreadable("its key was destroyed")
            body = key.open(body, ASIDE)
        return msgspec.structs.replace(entry, body=body)

    def _insert(self, db: sqlite3.Connection, entry: JournalEntry) -> int:
        if erased.is_too_late(db, entry.scope, entry.captured_at):
            return 0  # before a key is made
        return super()._insert(db, self._sealed_entry(db, entry))

    def _sealed_entry(self, db: sqlite3.Connection, entry: JournalEntry) -> JournalEntry:
        key = self._made(db, entry.scope.owner)
        return msgspec.structs.replace(entry, body=key.seal(entry.body, "journal.body"))

    async def claim(self, lane: str, *, limit: int, now: datetime, run: int = 1) -> list[JournalRow]:
        if not await self._file.read(lambda db: journal.claimable(db, lane, now)):
            return []
        return await self._file.write(
            lambda db: [self._opened_row(db, row) for row in journal.claim(db, lane, limit, now, run=run)]
        )

    def _opened_row(self, db: sqlite3.Connection, row: JournalRow) -> JournalRow:
        """The row in the clear; one that cannot be read has an empty body, which is refused for good."""
        key = self._keys.of(db, row.entry.scope.owner)
        body = opened(key, row.entry.body, "journal.body")
        plan = None if row.plan is None else opened(key, row.plan, "journal.plan")
        return msgspec.structs.replace(row, entry=msgspec.structs.replace(row.entry, body=body), plan=plan)

    async def save_plan(self, number: int, plan: bytes, slots: Sequence[SlotChange]) -> bool:
        owner = await self._file.read(lambda db: journal.owner_of(db, number))
        if owner is None:
            return await super().save_plan(number, plan, slots)
        key = await self._key(owner)
        return await super().save_plan(number, key.seal(plan, "journal.plan"), [sealed_slot(key, one) for one in slots])

    async def begin_learning(self, entry: JournalEntry, *, unlearned: int) -> int | None:
        key = await self._key(entry.scope.owner)
        sealed = msgspec.structs.replace(entry, body=key.seal(entry.body, "journal.body"))
        return await super().begin_learning(sealed, unlearned=unlearned)

    async def _key(self, owner: Owner) -> DataKey:
        """The owner's key, looked up in the state itself: another process may have destroyed the one known here."""
        known = await self._known_key(owner)
        return known if known is not None else await self._file.write(lambda db: self._made(db, owner))

    async def _known_key(self, owner: Owner) -> DataKey | None:
        return await self._file.read(lambda db: self._keys.of(db, owner))

    async def slots(self, scope: Scope, names: Sequence[str]) -> dict[str, str]:
        key = await self._known_key(scope.owner)
        if key is None or not names:
            return {}
        plain = {slot_name(key, name): name for name in names}
        return {plain[name]: holder for name, holder in (await super().slots(scope, list(plain))).items()}

    async def change_slots(self, scope: Scope, changes: Sequence[SlotChange]) -> bool:
        key = await self._key(scope.owner)
        return await super().change_slots(scope, [sealed_slot(key, one) for one in changes])

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        gone = await super().forget(scope, session=session, until=until)
        if session is None:
            await self._file.write(lambda db: self._destroy_unless_used(db, scope.owner))
            self.drop_key(scope.owner)
            await self._file.wipe()
        return gone

    def _destroy_unless_used(self, db: sqlite3.Connection, owner: Owner) -> None:
        """Rows that came after the erasure was asked for are sealed with a key that is made after it."""
        rows = db.execute("SELECT 1 FROM journal WHERE tenant = ? AND user = ? LIMIT 1", owner)
        if rows.fetchone() is None:
            self._keys.destroy(db, owner)

    async def find_session(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[KnownSession]]:
        key = await self._known_key(scope.owner)
        if key is None:
            return {}
        plain = {key.name(name): name for name in keys}
        found = await super().find_session(scope, list(plain))
        return {
            plain[name]: [
                msgspec.structs.replace(one, answer=plain_name(key, one.answer)) if one.answer is not None else one
                for one in known
            ]
            for name, known in found.items()
        }

    def _remember(self, db: sqlite3.Connection, owner: Owner, keys: Sequence[str], known: KnownSession) -> None:
        key = self._made(db, owner)
        answer = key.name(known.answer) if known.answer is not None else None
        sealed = msgspec.structs.replace(known, answer=answer)
        super()._remember(db, owner, [key.name(name) for name in keys], sealed)

    def _note(self, db: sqlite3.Connection, parts: Sequence[ReceiptPart]) -> None:
        super()._note(db, [sealed_part(self._made(db, part.scope.owner), part) for part in parts])

    async def receipt(self, scope: Scope, request_id: str) -> Receipt | None:
        found, key = await super().receipt(scope, request_id), await self._known_key(scope.owner)
        if found is None:
            return None
        recalled = found.recalled
        if recalled is not None:
            recalled = msgspec.structs.replace(recalled, query=opened_text(key, recalled.query, "receipt.query"))
        outcomes = [opened_outcome(key, one) for one in found.outcomes]
        return msgspec.structs.replace(found, recalled=recalled, outcomes=outcomes)

    async def note_outcomes(self, number: int, outcomes: Sequence[Outcome], at: datetime) -> None:
        owner = await self._file.read(lambda db: journal.owner_of(db, number))
        if owner is None:
            return
        key = await self._key(owner)
        await super().note_outcomes(number, [sealed_outcome(key, one) for one in outcomes], at)

    async def outcomes(self, scope: Scope, *, session: str | None, limit: int) -> list[Noted]:
        found = await super().outcomes(scope, session=session, limit=limit)
        key = await self._known_key(scope.owner)
        return [msgspec.structs.replace(one, outcome=opened_outcome(key, one.outcome)) for one in found]

    async def find_blocks(self, scope: Scope, messages: Sequence[str]) -> SessionBlocks:
        key = await self._known_key(scope.owner)
        plain = {key.name(name): name for name in messages} if key is not None else {}
        found = await super().find_blocks(scope, list(plain))
        blocks = {plain[name]: opened_lines(key, lines) for name, lines in found.blocks.items()}
        return msgspec.structs.replace(found, blocks={name: lines for name, lines in blocks.items() if lines})

    async def save_block(
        self, scope: Scope, message: str, lines: Sequence[BlockLine], *, erasures: int, at: datetime
    ) -> bool:
        if (key := await self._known_key(scope.owner)) is None:
            return False  # the owner was erased: there is nothing that a block could show
        sealed = [msgspec.structs.replace(line, text=key.seal_text(line.text, "block.line")) for line in lines]
        return await super().save_block(scope, key.name(message), sealed, erasures=erasures, at=at)

    async def place(self, scope: Scope, names: Sequence[Names]) -> list[Placed]:
        key = await self._key(scope.owner)
        sealed = [
            msgspec.structs.replace(
                one,
                wing=key.name(one.wing),
                closet=key.name(one.closet),
                same=tuple((key.name(mine), key.name(other)) for mine, other in one.same),
            )
            for one in names
        ]

        def role(name: str) -> bool:
            return is_role(key.plain_name(name))

        placed = await self._file.write(lambda db: palace.place(db, scope.owner, sealed, role=role))
        return [Placed(key.plain_name(one.wing), one.pointer) for one in placed]

    async def palace(
        self, scope: Scope, parent: str, *, after: int, limit: int, name: str | None = None
    ) -> list[PalacePlace]:
        key = await self._known_key(scope.owner)
        if key is None:
            return []
        rooms = bool(parent) and "/" not in parent  # named by sessions
        sealed = key.name(name) if name is not None and not rooms else name
        found = await super().palace(scope, parent, after=after, limit=limit, name=sealed)
        return [PalacePlace(one.number, plain_name(key, one.name)) for one in found]

    async def palace_names(self, scope: Scope, *, writing: bool = False) -> dict[str, str]:
        key = await self._known_key(scope.owner)
        if key is None:
            return {}
        found = await super().palace_names(scope, writing=writing)
        names = {plain_name(key, name): plain_name(key, wing) for name, wing in found.items()}
        return {name: wing for name, wing in names.items() if name and wing}

    async def palace_rows(self, scope: Scope) -> list[PalaceRow]:
        key = await self._known_key(scope.owner)
        found = await super().palace_rows(scope) if key is not None else []
        return [msgspec.structs.replace(row, name=key.plain_name(row.name)) for row in found if key is not None]

    async def adopt_palace(self, scope: Scope, rows: Sequence[PalaceRow]) -> bool:
        key = await self._key(scope.owner)
        sealed = [
            msgspec.structs.replace(row, name=key.name(row.name)) if row.kind in NAMED_IN_WORDS else row for row in rows
        ]
        return await super().adopt_palace(scope, sealed)

    async def stand(self, scope: Scope, places: Sequence[tuple[str, str, str]]) -> list[bool]:
        key = await self._key(scope.owner)
        return await super().stand(scope, [(key.name(wing), room, pointer) for wing, room, pointer in places])

    async def leave_closets(self, scope: Scope, closets: Sequence[tuple[str, str]]) -> None:
        key = await self._known_key(scope.owner)
        if key is not None:
            await super().leave_closets(scope, [(room, key.name(name)) for room, name in closets])

    async def rename_wings(self, scope: Scope, wings: Mapping[str, str], aliases: Collection[str]) -> None:
        key = await self._known_key(scope.owner)
        if key is not None:
            sealed = {key.name(name): key.name(other) for name, other in wings.items()}
            await super().rename_wings(scope, sealed, [key.name(name) for name in aliases])

    async def leave_palace(self, scope: Scope, wings: Sequence[str]) -> None:
        key = await self._known_key(scope.owner)
        if key is not None:
            await super().leave_palace(scope, [key.name(wing) for wing in wings])


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
