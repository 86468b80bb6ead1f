"""Encryption of the state's columns: each user's texts by that user's data key (`sealing`).

What a row is looked up by becomes a name (encrypted, always the same) or a token (a keyed hash); ids, times, counts and
who owns a row stay as they are. The keys are in the state's file too, wrapped by a master key.
"""

import logging
import re
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from threading import Lock
from typing import TypeVar

import msgspec

from memproxy.core.receipt import Outcome, Recalled
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.stores.sealing import MASTER_KEY, DataKey, MasterKeys, Unreadable, new_data_key
from memproxy.stores.sqlite_journal import BODY, PLAN
from memproxy.stores.sqlite_palace import NAMED_IN_WORDS
from memproxy.stores.sqlite_part import Columns, Owner, micros
from memproxy.stores.sqlite_receipts import sealed_content, sealed_query
from memproxy.stores.sqlite_sessions import LINE

log = logging.getLogger(__name__)

Read = TypeVar("Read")

MOST_KNOWN = 10_000
"""Data keys kept unwrapped in memory, a few hundred bytes each. Unwrapping one takes some 20 microseconds."""

SEALED_TABLES = ("journal", "block_lines", "receipts", "outcomes", "palace", "slots", "session_keys")
"""Tables that hold texts, or names made of them."""

_MARKED = re.compile(r"(forgotten\|[0-9a-f]{24}\|[0-9a-f]{24}\||gone\|)(.*)", re.DOTALL)
"""Entries of the slot register that are no slots: they are dropped by how they begin, which is hashes of ids."""


class SealedColumns:
    """`sqlite_part.Columns` of the key's owner. What cannot be read counts as empty; it is counted and logged."""

    def __init__(self, key: DataKey) -> None:
        self._key = key

    def seal(self, plain: bytes, what: str) -> bytes:
        return self._key.seal(plain, what)

    def open(self, sealed: bytes, what: str) -> bytes:
        return _read(lambda: self._key.open(sealed, what), b"", what)

    def seal_text(self, plain: str, what: str) -> str:
        return self._key.seal_text(plain, what)

    def open_text(self, sealed: str, what: str) -> str:
        return _read(lambda: self._key.open_text(sealed, what), "", what)

    def name(self, plain: str) -> str:
        return self._key.name(plain)

    def plain_name(self, name: str) -> str:
        return _read(lambda: self._key.plain_name(name), "", "name")

    def slot(self, name: str) -> str:
        """A keyed hash, after what the entry is dropped by."""
        marked = _MARKED.fullmatch(name)
        head, rest = marked.groups() if marked else ("", name)
        return f"{head}{self._key.token(rest, 'slot')}"


def _read(work: Callable[[], Read], empty: Read, what: str) -> Read:
    try:
        return work()
    except Unreadable as error:
        metrics().internal_errors.labels(where="state.sealed").inc()
        log.error("an encrypted %s cannot be read and counts as empty: %s", what, error)
        return empty


class UnwrappedKeys:
    """Data keys of one state that were used lately, unwrapped in memory."""

    def __init__(self, masters: MasterKeys) -> None:
        self._masters = masters
        self._known: OrderedDict[bytes, DataKey] = OrderedDict()
        self._lock = Lock()  # some reads are in the file's thread, some in the loop's

    def _unwrapped(self, owner: Owner, key_id: bytes, master: str, wrapped: bytes) -> DataKey:
        with self._lock:
            known = self._known.get(key_id)
            if known is None:
                known = self._known[key_id] = DataKey(key_id, self._opened(master, wrapped, owner), owner)
                while len(self._known) > MOST_KNOWN:
                    self._known.popitem(last=False)
            self._known.move_to_end(key_id)
            return known

    def _dropped(self, key_ids: Iterable[bytes]) -> None:
        for key_id in key_ids:
            with self._lock:
                self._known.pop(key_id, None)

    def _opened(self, master: str, wrapped: bytes, owner: Owner) -> bytes:
        try:
            return self._masters.unwrap(master, wrapped, owner)
        except Unreadable as error:
            raise wrong_master([master], self._masters.ids) from error

    def _wraps_are_known(self, used: Collection[str]) -> None:
        if missing := sorted(set(used) - set(self._masters.ids)):
            raise wrong_master(missing, self._masters.ids)


class DataKeys(UnwrappedKeys):
    """`sqlite_part.Sealing` by the data keys of one state, with those used lately unwrapped in memory. Keys are looked
    up inside the transaction that uses them: another process may have destroyed the one known here.
    """

    def of(self, db: sqlite3.Connection, owner: Owner) -> Columns | None:
        """As `Sealing`. Raises as `key`."""
        key = self.key(db, owner)
        return None if key is None else SealedColumns(key)

    def made(self, db: sqlite3.Connection, owner: Owner) -> Columns:
        """As `Sealing`. Raises as `key`."""
        return SealedColumns(self.made_key(db, owner))

    def key(self, db: sqlite3.Connection, owner: Owner) -> DataKey | None:
        """The owner's key; None when there is none (yet, or any more).

        Raises:
            StateUnavailable: it was wrapped by a master key that is not here.
        """
        row = db.execute("SELECT id, master, wrapped FROM data_keys WHERE tenant = ? AND user = ?", owner).fetchone()
        return None if row is None else self._unwrapped(owner, *row)

    def made_key(self, db: sqlite3.Connection, owner: Owner) -> DataKey:
        """The owner's key, made when there is none. Raises as `key`."""
        known = self.key(db, owner)
        if known is not None:
            return known
        key_id, key = new_data_key()
        wrapped = self._masters.wrap(key, owner)
        db.execute(
            "INSERT INTO data_keys VALUES (?, ?, ?, ?, ?, ?)",
            (*owner, key_id, self._masters.current, wrapped, micros(datetime.now(UTC))),
        )
        return DataKey(key_id, key, owner)  # not kept yet: this transaction may be rolled back

    def destroy(self, db: sqlite3.Connection, owner: Owner) -> None:
        """Nothing that was sealed for the owner can be read from here on."""
        gone = db.execute("DELETE FROM data_keys WHERE tenant = ? AND user = ? RETURNING id", owner)
        self._dropped(key_id for (key_id,) in gone)

    def check(self, db: sqlite3.Connection) -> None:
        """See that every key can be unwrapped.

        Raises:
            StateUnavailable: some were wrapped by a master key that is not here.
        """
        self._wraps_are_known({master for (master,) in db.execute("SELECT DISTINCT master FROM data_keys")})

    def rewrap(self, db: sqlite3.Connection) -> int:
        """Wrap all keys by the current master key that are wrapped by another one; how many these were.

        Raises:
            StateUnavailable: one cannot be unwrapped; nothing is changed.
        """
        rows = db.execute(
            "SELECT tenant, user, id, master, wrapped FROM data_keys WHERE master != ?", (self._masters.current,)
        ).fetchall()
        for tenant, user, _, master, wrapped in rows:
            again = self._masters.wrap(self._opened(master, wrapped, (tenant, user)), (tenant, user))
            db.execute(
                "UPDATE data_keys SET master = ?, wrapped = ? WHERE tenant = ? AND user = ?",
                (self._masters.current, again, tenant, user),
            )
        return len(rows)


def wrong_master(wanted: list[str], given: tuple[str, ...]) -> StateUnavailable:
    """Keys are wrapped by master keys that are not here."""
    return StateUnavailable(
        f"privacy.encrypt: the state's data keys are wrapped by master key {', '.join(wanted)}, {MASTER_KEY} holds "
        f"{', '.join(given)}. Set {MASTER_KEY} to the former (or to both, separated by a comma) and start again."
    )


def seal_everything(db: sqlite3.Connection, keys: DataKeys) -> int:
    """Seal a state that was not encrypted; how many users that concerned."""
    db.execute("DELETE FROM working")  # it lives for minutes, and is not worth a second reading
    asked = " UNION ".join(f"SELECT tenant, user FROM {table}" for table in SEALED_TABLES)  # noqa: S608 (no value in it)
    owners: list[Owner] = db.execute(asked).fetchall()
    for owner in owners:
        _seal_owner(db, keys.made(db, owner), owner)
    return len(owners)


def _seal_owner(db: sqlite3.Connection, columns: Columns, owner: Owner) -> None:
    functions = _functions(columns)
    for called, (arguments, function) in functions.items():
        db.create_function(called, arguments, function)
    for change in (
        "journal SET body = sealed_body(body), plan = sealed_plan(plan)",
        "block_lines SET line = sealed_line(line), message = sealed_name(message)",
        "receipts SET recalled = sealed_recalled(recalled)",
        "outcomes SET body = sealed_outcome(body)",
        "slots SET slot = sealed_slot(slot)",
        "palace SET name = sealed_place(kind, name)",
        "session_keys SET key = sealed_name(key), answer = sealed_name(answer)",
    ):
        db.execute(f"UPDATE {change} WHERE tenant = ? AND user = ?", owner)
    for called, (arguments, _) in functions.items():
        db.create_function(called, arguments, None)


def _functions(columns: Columns) -> dict[str, tuple[int, Callable[..., str | bytes | None]]]:
    """What seals columns within SQLite, by name, each with how many arguments it takes."""

    def name(plain: str | None) -> str | None:
        return None if plain is None else columns.name(plain)

    def body(plain: bytes) -> bytes:
        return columns.seal(plain, BODY)

    def plan(plain: bytes | None) -> bytes | None:
        return None if plain is None else columns.seal(plain, PLAN)

    def recalled(stored: str | None) -> str | None:
        read = None if stored is None else sealed_query(columns, msgspec.json.decode(stored, type=Recalled))
        return None if read is None else msgspec.json.encode(read).decode()

    def outcome(stored: str) -> str:
        return msgspec.json.encode(sealed_content(columns, msgspec.json.decode(stored, type=Outcome))).decode()

    def palace_name(kind: str, plain: str) -> str:
        return columns.name(plain) if kind in NAMED_IN_WORDS else plain

    return {
        "sealed_name": (1, name),
        "sealed_slot": (1, columns.slot),
        "sealed_body": (1, body),
        "sealed_plan": (1, plan),
        "sealed_line": (1, lambda line: columns.seal_text(line, LINE)),
        "sealed_recalled": (1, recalled),
        "sealed_outcome": (1, outcome),
        "sealed_place": (2, palace_name),
    }
