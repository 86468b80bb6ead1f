"""Encryption of the state's columns: each user's texts by that user's data key (`sealing`), and the life of the keys.

What a row is looked up by becomes a name (encrypted, always the same) or a token (a keyed hash); ids, times, counts and
who owns a row stay as they are. The keys are in the state too, wrapped by a master key.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Any, TypeVar

import msgspec

from memproxy.core.receipt import Outcome, Recalled
from memproxy.core.scope import OwnerKey, Scope
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import JournalEntry
from memproxy.stores import state_working as working
from memproxy.stores.apart_state import WritesApart
from memproxy.stores.sealing import (
    MASTER_KEY,
    DataKey,
    MasterKeys,
    Unreadable,
    is_sealed_by_data_key,
    is_sealed_by_master,
    new_data_key,
)
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_journal import BODY, PLAN
from memproxy.stores.state_owners import SEALED, StateOwners
from memproxy.stores.state_palace import NAMED_IN_WORDS
from memproxy.stores.state_part import OWNED, Columns, Db, PlainColumns, owned
from memproxy.stores.state_receipts import sealed_content, sealed_query
from memproxy.stores.state_sessions import LINE

log = logging.getLogger(__name__)

Read = TypeVar("Read")

MOST_KNOWN = 10_000
"""Data keys kept unwrapped in memory, a few hundred bytes each. Unwrapping one takes some 20 microseconds."""

ASIDE = "aside.body"

KEY_READ_S = 0.2  # how long a user's key is waited for when something is set aside

_MARKED = re.compile(r"(forgotten\|[0-9a-f]{24}\|[0-9a-f]{24}\||gone\|)(.*)", re.DOTALL)
"""Entries of the slot register that are no slots: they are dropped by how they begin, which is hashes of ids."""


class SealedColumns:
    """`state_part.Columns` of the key's owner. What cannot be read counts as empty; it is counted and logged."""

    def __init__(self, key: DataKey) -> None:
        self._key = key

    def seal(self, plain: bytes, label: str) -> bytes:
        return self._key.seal(plain, label)

    def open(self, sealed: bytes, label: str) -> bytes:
        return _read(lambda: self._key.open(sealed, label), b"", label)

    def seal_text(self, plain: str, label: str) -> str:
        return self._key.seal_text(plain, label)

    def open_text(self, sealed: str, label: str) -> str:
        return _read(lambda: self._key.open_text(sealed, label), "", label)

    def name(self, plain: str) -> str:
        return self._key.name(plain)

    def plain_name(self, name: str) -> str:
        return _read(lambda: self._key.plain_name(name), "", "name")

    def slot(self, name: str) -> str:
        """A keyed hash, after what the entry is dropped by."""
        marked = _MARKED.fullmatch(name)
        head, rest = marked.groups() if marked else ("", name)
        return f"{head}{self._key.token(rest, 'slot')}"


def _read(work: Callable[[], Read], empty: Read, label: str) -> Read:
    try:
        return work()
    except Unreadable as error:
        metrics().internal_errors.labels(where="state.sealed").inc()
        log.error("an encrypted %s cannot be read and counts as empty: %s", label, error)
        return empty


class DataKeys:
    """`state_part.Sealing` by the data keys of one state, with those used lately unwrapped in memory. Keys are looked
    up in the transaction that uses them: another process may have destroyed the one known here.
    """

    def __init__(self, masters: MasterKeys) -> None:
        self._masters = masters
        self._cache: OrderedDict[bytes, DataKey] = OrderedDict()
        self._lock = Lock()  # some reads are in the file's thread, some in the loop's

    async def of(self, db: Db, owner: OwnerKey) -> Columns | None:
        """As `Sealing`. Raises as `key`."""
        key = await self.key(db, owner)
        return None if key is None else SealedColumns(key)

    async def for_writing(self, db: Db, owner: OwnerKey) -> Columns:
        """As `Sealing`. Raises as `key`."""
        return SealedColumns(await self.ensure_key(db, owner))

    async def key(self, db: Db, owner: OwnerKey) -> DataKey | None:
        """The owner's key; None: there is none. Raises `StateUnavailable`: the master key of it is not here."""
        row = await db.first(f"SELECT id, master, wrapped FROM data_keys WHERE {OWNED}", **owned(owner))
        return None if row is None else self._unwrap(owner, *row)

    async def ensure_key(self, db: Db, owner: OwnerKey) -> DataKey:
        """The owner's key, made when there is none, under the owner's lock. Raises as `key`."""
        existing = await self.key(db, owner)
        if existing is not None:
            return existing
        key_id, key = new_data_key()
        await db.run(
            "INSERT INTO data_keys (tenant, user_id, id, master, wrapped, made_at) "
            "VALUES (:tenant, :user, :id, :master, :wrapped, :now)",
            id=key_id,
            master=self._masters.current,
            wrapped=self._masters.wrap(key, owner),
            now=datetime.now(UTC),
            **owned(owner),
        )
        return DataKey(key_id, key, owner)  # not kept yet: this transaction may be rolled back

    async def destroy(self, db: Db, owner: OwnerKey) -> None:
        """Nothing that was sealed for the owner can be read from here on."""
        gone = await db.all(f"DELETE FROM data_keys WHERE {OWNED} RETURNING id", **owned(owner))
        with self._lock:
            for (key_id,) in gone:
                self._cache.pop(key_id, None)

    async def check(self, db: Db) -> None:
        """See that every key can be unwrapped. Raises `StateUnavailable`: a master key of theirs is not here."""
        used = {master for (master,) in await db.all("SELECT DISTINCT master FROM data_keys")}
        if missing := sorted(used - set(self._masters.ids)):
            raise wrong_master(missing, self._masters.ids)

    async def rewrap(self, db: Db) -> int:
        """Wrap all keys by the current master key; how many changed. Raises `StateUnavailable`: one is unreadable."""
        current = self._masters.current
        rows = await db.all(
            "SELECT tenant, user_id, id, master, wrapped FROM data_keys WHERE master != :current", current=current
        )
        for tenant, user, key_id, master, wrapped in rows:
            rewrapped = self._masters.wrap(self._open_wrapped(master, wrapped, (tenant, user)), (tenant, user))
            await db.run(
                f"UPDATE data_keys SET master = :current, wrapped = :again WHERE {OWNED} AND id = :id",
                current=current,
                again=rewrapped,
                id=key_id,
                **owned((tenant, user)),
            )
        return len(rows)

    def _unwrap(self, owner: OwnerKey, key_id: bytes, master: str, wrapped: bytes) -> DataKey:
        with self._lock:
            data_key = self._cache.get(key_id)
            if data_key is None:
                data_key = self._cache[key_id] = DataKey(key_id, self._open_wrapped(master, wrapped, owner), owner)
                while len(self._cache) > MOST_KNOWN:
                    self._cache.popitem(last=False)
            self._cache.move_to_end(key_id)
            return data_key

    def _open_wrapped(self, master: str, wrapped: bytes, owner: OwnerKey) -> bytes:
        try:
            return self._masters.unwrap(master, wrapped, owner)
        except Unreadable as error:
            raise wrong_master([master], self._masters.ids) from error


def wrong_master(missing: list[str], present: tuple[str, ...]) -> StateUnavailable:
    """Keys are wrapped by master keys that are not here."""
    return StateUnavailable(
        f"privacy.encrypt: the state's data keys are wrapped by master key {', '.join(missing)}, {MASTER_KEY} holds "
        f"{', '.join(present)}. Set {MASTER_KEY} to the former (or to both, separated by a comma) and start again."
    )


Stored = dict[str, Any]
"""Columns of a row, by name."""


def _sealed_by(columns: Columns) -> dict[str, tuple[str, dict[str, Callable[[Stored], object]]]]:
    """Tables that hold texts, or names made of them: what a row is found by, and how each such column is sealed."""

    def name(column: str) -> Callable[[Stored], object]:
        return lambda row: None if row[column] is None else columns.name(row[column])

    def recalled(row: Stored) -> Recalled | None:
        stored = row["recalled"]
        return None if stored is None else sealed_query(columns, msgspec.json.decode(stored, type=Recalled))

    return {
        "journal": (
            "number",
            {
                "body": lambda row: columns.seal(row["body"], BODY),
                "plan": lambda row: None if row["plan"] is None else columns.seal(row["plan"], PLAN),
            },
        ),
        "block_lines": (
            "session message place",
            {"line": lambda row: columns.seal_text(row["line"], LINE), "message": name("message")},
        ),
        "receipts": ("request_id", {"recalled": recalled}),
        "outcomes": (
            "number",
            {"body": lambda row: sealed_content(columns, msgspec.json.decode(row["body"], type=Outcome))},
        ),
        "slots": ("slot", {"slot": lambda row: columns.slot(row["slot"])}),
        "palace": (
            "kind parent name",
            {"name": lambda row: columns.name(row["name"]) if row["kind"] in NAMED_IN_WORDS else row["name"]},
        ),
        "session_keys": ("key session", {"key": name("key"), "answer": name("answer")}),
    }


SEALED_TABLES = tuple(_sealed_by(PlainColumns()))


async def seal_everything(db: Db, keys: DataKeys) -> int:
    """Seal a state that was not encrypted; how many users that concerned."""
    await db.run("DELETE FROM working")  # it lives for minutes, and is not worth a second reading
    owners = await db.all(" UNION ".join(f"SELECT tenant, user_id FROM {table}" for table in SEALED_TABLES))
    for tenant, user in owners:
        for table, (key, sealed) in _sealed_by(await keys.for_writing(db, (tenant, user))).items():
            await _seal(db, (tenant, user), table, key.split(), sealed)
    return len(owners)


async def _seal(
    db: Db, owner: OwnerKey, table: str, key: list[str], sealed: dict[str, Callable[[Stored], object]]
) -> None:
    names = list(dict.fromkeys([*key, *sealed]))
    changes = ", ".join(f"{name} = :new_{name}" for name in sealed)
    condition = " AND ".join(f"{name} = :{name}" for name in key)
    for row in await db.all(f"SELECT {', '.join(names)} FROM {table} WHERE {OWNED}", **owned(owner)):
        stored = dict(zip(names, row, strict=True))
        new = {f"new_{name}": seal(stored) for name, seal in sealed.items()}
        where = {name: stored[name] for name in key}
        await db.run(f"UPDATE {table} SET {changes} WHERE {OWNED} AND {condition}", **new, **where, **owned(owner))


class SealedOwners(StateOwners):
    """What every encrypted state does alike: it makes, keeps and destroys users' keys, and seals what it sets aside."""

    seals = True

    _keys: DataKeys
    _masters: MasterKeys

    def _seal_by(self, masters: MasterKeys | None) -> DataKeys:
        assert masters is not None, "what encrypts has keys"  # noqa: S101
        self._masters = masters
        self._keys = DataKeys(masters)
        self._current: dict[OwnerKey, DataKey] = {}
        self._destroyed = 0
        self._listeners: list[Callable[[], None]] = []
        return self._keys

    async def _tell_destroyed(self, db: Db) -> None:
        """A key goes in this transaction: others that do not look for it before they use it are told at its commit."""

    async def _lock_tables(self, db: Db) -> None:
        """Keep others from writing while plain texts are sealed, where this transaction does not yet."""

    async def _prepare(self, db: Db) -> int:
        """Check the keys, and seal what is plain; how many users that concerned."""
        await self._keys.check(db)
        if await db.first("SELECT 1 FROM meta WHERE key = :key", key=SEALED) is not None:
            return 0
        await self._lock_tables(db)
        sealed = await seal_everything(db, self._keys)
        await db.run("INSERT INTO meta VALUES (:key, '1')", key=SEALED)
        return sealed

    async def _sealed(self) -> int:
        """Check the keys, and seal what is plain, in a transaction; how many users that concerned."""
        return await self._database.write(self._prepare)

    async def _begin(self) -> None:
        """A state that is not encrypted yet is, before this returns. Raises `StateUnavailable`."""
        if self._reads_only:
            await self._database.read(self._keys.check)
        elif sealed := await self._sealed():
            log.info("the state of %d users is encrypted now; `memproxy reindex` encrypts their memories", sealed)
            await self._wiped()
        await super()._begin()

    async def _wiped(self) -> None:
        """Plain texts, or wrapped keys, were replaced."""
        try:
            await self.wipe()
        except StateUnavailable as error:  # another process reads: the next checkpoint overwrites it
            log.warning("the log of the state may hold plain text until it is written over: %s", error.message)

    async def make_key(self, scope: Scope) -> None:
        await self._database.write(lambda db: self._keys.ensure_key(db, scope.owner), scope.owner)

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        async def work(db: Db) -> tuple[int, list[int]]:
            gone = await self._destroy(db, entry.scope)
            return await self._append(db, entry), gone

        await self._empty_working(entry.scope.owner, None)
        begun = await self._database.write(work, entry.scope.owner)
        self.drop_key(entry.scope.owner)
        self._rows_came()
        await self.wipe()
        return begun

    async def destroy_key(self, scope: Scope) -> None:
        """Destroy the owner's key, and what of the state it sealed."""
        await self._database.write(lambda db: self._destroy(db, scope), scope.owner)
        self.drop_key(scope.owner)
        await self.wipe()

    async def _destroy(self, db: Db, scope: Scope) -> list[int]:
        """All that is sealed goes with its key: it would stand in the way of what comes. The journal rows' numbers."""
        gone = await self._erase_texts(db, scope, None)
        await working.erase(db, None, scope.owner, None)
        await self._erased.note(db, Scope(tenant=scope.tenant, user=scope.user))
        await self._keys.destroy(db, scope.owner)
        await self._tell_destroyed(db)
        return gone

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        gone = await super().forget(scope, session=session, until=until)
        if session is None:
            self.drop_key(scope.owner)
        return gone

    async def _forget(self, db: Db, scope: Scope, session: str | None, until: int | None) -> list[int]:
        gone = await super()._forget(db, scope, session, until)
        # rows that came after the erasure was asked for are sealed with a key that was made after it
        remaining = await db.first(f"SELECT 1 FROM journal WHERE {OWNED} LIMIT 1", **owned(scope.owner))
        if session is None and remaining is None:
            await self._keys.destroy(db, scope.owner)
            await self._tell_destroyed(db)
        return gone

    async def rewrap(self) -> int:
        """Wrap every data key by the current master key; how many were wrapped by another one."""
        wrapped = await self._database.write(self._keys.rewrap)
        await self._wiped()
        return wrapped

    def on_destroyed(self, callback: Callable[[], None]) -> None:
        """``callback`` is called whenever a key was destroyed, by whatever process of this state tells of it."""
        self._listeners.append(callback)

    def drop_key(self, owner: OwnerKey | None) -> None:
        """A key was destroyed: forget the owner's key (None: all keys) as known in memory."""
        self._destroyed += 1
        if owner is None:
            self._current.clear()
        else:
            self._current.pop(owner, None)
        for callback in self._listeners:
            callback()

    async def data_key(self, owner: OwnerKey, *, make: bool) -> DataKey | None:
        """The owner's key for what is kept outside of the state; None: there is none. Raises `StateUnavailable`."""
        cached = self._current.get(owner)
        if cached is not None:
            return cached
        destroyed = self._destroyed
        key = await self._key(owner)
        while key is None and make:  # it may be destroyed right away
            await self.make_key(Scope(tenant=owner[0], user=owner[1]))
            key = await self._key(owner)
        if key is not None and destroyed == self._destroyed:
            if len(self._current) >= MOST_KNOWN:
                self._current.clear()
            self._current[owner] = key
        return key

    async def _key(self, owner: OwnerKey) -> DataKey | None:
        return await self._database.glance(lambda db: self._keys.key(db, owner))

    async def set_aside(self, entry: JournalEntry) -> int | None:
        key = await self._readable_key(entry.scope.owner)
        if key is not None:
            body = key.seal(entry.body, ASIDE)
        else:
            body = self._masters.seal(entry.body, entry.scope.owner, ASIDE)
        return await super().set_aside(msgspec.structs.replace(entry, body=body))

    async def _readable_key(self, owner: OwnerKey) -> DataKey | None:
        """The owner's key, if it can be read at once: the state does not work while something is set aside."""
        try:
            async with asyncio.timeout(KEY_READ_S):
                return await self._key(owner)
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
        """The entry in the clear. Raises `Unreadable`: its user's key was destroyed; `StateUnavailable`."""
        owner, body = entry.scope.owner, entry.body
        if is_sealed_by_master(body):
            body = self._masters.open(body, owner, ASIDE)
        elif is_sealed_by_data_key(body):
            if (key := await self._key(owner)) is None:
                raise Unreadable("its key was destroyed")
            body = key.open(body, ASIDE)
        return msgspec.structs.replace(entry, body=body)


class SealedState(SealedOwners, SqliteState):
    """`ports.StateStore` in one SQLite file, with the texts in it encrypted."""


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
