"""Data keys of users, wrapped. Each function runs inside a transaction that its caller opened.

Looked up inside the transaction that uses them, so that nothing is ever sealed with a key that is gone when it is
committed.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime

from memproxy.errors import StateUnavailable
from memproxy.stores.sealing import MASTER_KEY, DataKey, MasterKeys, Unreadable, new_data_key
from memproxy.stores.sqlite_journal import micros

Owner = tuple[str, str]

MOST_KNOWN = 10_000
"""Unwrapped keys kept in memory, those used longest ago go first; unwrapping takes some 20 microseconds."""


class DataKeys:
    """The data keys of one state, with those used lately unwrapped in memory. For one thread."""

    def __init__(self, masters: MasterKeys) -> None:
        self._masters = masters
        self._known: OrderedDict[bytes, DataKey] = OrderedDict()

    def of(self, db: sqlite3.Connection, owner: Owner) -> DataKey | None:
        """The owner's key; None when there is none (yet, or any more).

        Raises:
            StateUnavailable: it was wrapped by a master key that is not here.
        """
        row = db.execute("SELECT id, master, wrapped FROM data_keys WHERE tenant = ? AND user = ?", owner).fetchone()
        return None if row is None else self._unwrapped(owner, *row)

    def made(self, db: sqlite3.Connection, owner: Owner, now: datetime) -> DataKey:
        """The owner's key, made when there is none. Raises as `of`."""
        known = self.of(db, owner)
        if known is not None:
            return known
        key_id, key = new_data_key()
        wrapped = self._masters.wrap(key, owner)
        db.execute(
            "INSERT INTO data_keys VALUES (?, ?, ?, ?, ?, ?)",
            (*owner, key_id, self._masters.current, wrapped, micros(now)),
        )
        return DataKey(key_id, key, owner)  # not kept yet: this transaction may be rolled back

    def destroy(self, db: sqlite3.Connection, owner: Owner) -> None:
        """Nothing that was sealed for the owner can be read from here on."""
        for (key_id,) in db.execute("DELETE FROM data_keys WHERE tenant = ? AND user = ? RETURNING id", owner):
            self._known.pop(key_id, None)

    def check(self, db: sqlite3.Connection) -> None:
        """See that every key can be unwrapped.

        Raises:
            StateUnavailable: some were wrapped by a master key that is not here.
        """
        used = [master for (master,) in db.execute("SELECT DISTINCT master FROM data_keys")]
        if missing := sorted(set(used) - set(self._masters.ids)):
            raise _wrong_master(missing, self._masters.ids)

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

    def _unwrapped(self, owner: Owner, key_id: bytes, master: str, wrapped: bytes) -> DataKey:
        known = self._known.get(key_id)
        if known is None:
            known = DataKey(key_id, self._opened(master, wrapped, owner), owner)
            self._known[key_id] = known
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        self._known.move_to_end(key_id)
        return known

    def _opened(self, master: str, wrapped: bytes, owner: Owner) -> bytes:
        try:
            return self._masters.unwrap(master, wrapped, owner)
        except Unreadable as error:
            raise _wrong_master([master], self._masters.ids) from error


def owners(db: sqlite3.Connection, tables: tuple[str, ...]) -> Iterator[Owner]:
    """Everybody who has a row in one of these tables."""
    asked = " UNION ".join(f"SELECT tenant, user FROM {table}" for table in tables)  # noqa: S608 (no value in it)
    yield from db.execute(asked).fetchall()


def _wrong_master(wanted: list[str], given: tuple[str, ...]) -> StateUnavailable:
    return StateUnavailable(
        f"privacy.encrypt: the state's data keys are wrapped by master key {', '.join(wanted)}, {MASTER_KEY} holds "
        f"{', '.join(given)}. Set {MASTER_KEY} to the former (or to both, separated by a comma) and start again."
    )
