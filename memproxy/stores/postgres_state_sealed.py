"""The state in PostgreSQL with every text of a user encrypted (`sqlite_sealing`): users' keys, and how they end."""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec

from memproxy.core.receipt import Outcome, Recalled
from memproxy.core.scope import Scope
from memproxy.ports import JournalEntry
from memproxy.stores import postgres_state_working as working
from memproxy.stores.postgres_state import PostgresState, erase_texts
from memproxy.stores.postgres_state_database import Db, Owner, lock_key, one
from memproxy.stores.postgres_state_replicas import DESTROYED, LEASE
from memproxy.stores.sealed_state import UsersKeys
from memproxy.stores.sealing import (
    DataKey,
    MasterKeys,
    new_data_key,
)
from memproxy.stores.sqlite_journal import BODY, PLAN
from memproxy.stores.sqlite_palace import NAMED_IN_WORDS
from memproxy.stores.sqlite_part import Columns
from memproxy.stores.sqlite_receipts import sealed_content, sealed_query
from memproxy.stores.sqlite_sealing import SEALED_TABLES, SealedColumns, UnwrappedKeys
from memproxy.stores.sqlite_sessions import LINE
from memproxy.stores.sqlite_state import SEALED

log = logging.getLogger(__name__)

SEALED_S = 3600.0
"""How long it may take to encrypt a state that was not."""


class PostgresDataKeys(UnwrappedKeys):
    """`postgres_state_part.Sealing` by users' data keys, with those used lately unwrapped in memory. Keys are looked up
    in the transaction that uses them: another replica may have destroyed the one known here.
    """

    async def of(self, db: Db, owner: Owner) -> Columns | None:
        """As `Sealing`. Raises as `key`."""
        key = await self.key(db, owner)
        return None if key is None else SealedColumns(key)

    async def made(self, db: Db, owner: Owner) -> Columns:
        """As `Sealing`. Raises as `key`."""
        return SealedColumns(await self.made_key(db, owner))

    async def key(self, db: Db, owner: Owner) -> DataKey | None:
        """The owner's key; None when there is none (yet, or any more).

        Raises:
            StateUnavailable: it was wrapped by a master key that is not here.
        """
        found = await db.execute("SELECT id, master, wrapped FROM data_keys WHERE tenant = %s AND user_id = %s", owner)
        row = await found.fetchone()
        return None if row is None else self._unwrapped(owner, *row)

    async def made_key(self, db: Db, owner: Owner) -> DataKey:
        """The owner's key, made when there is none, under the owner's lock. Raises as `key`."""
        known = await self.key(db, owner)
        if known is not None:
            return known
        key_id, key = new_data_key()
        await db.execute(
            "INSERT INTO data_keys (tenant, user_id, id, master, wrapped) VALUES (%s, %s, %s, %s, %s)",
            [*owner, key_id, self._masters.current, self._masters.wrap(key, owner)],
        )
        return DataKey(key_id, key, owner)  # not kept yet: this transaction may be rolled back

    async def destroy(self, db: Db, owner: Owner) -> None:
        """Nothing that was sealed for the owner can be read from here on."""
        found = await db.execute("DELETE FROM data_keys WHERE tenant = %s AND user_id = %s RETURNING id", owner)
        self._dropped(key_id for (key_id,) in await found.fetchall())

    async def check(self, db: Db) -> None:
        """See that every key can be unwrapped.

        Raises:
            StateUnavailable: some were wrapped by a master key that is not here.
        """
        found = await db.execute("SELECT DISTINCT master FROM data_keys")
        self._wraps_are_known({master for (master,) in await found.fetchall()})

    async def rewrap(self, db: Db) -> int:
        """Wrap all keys by the current master key that are wrapped by another one; how many these were.

        Raises:
            StateUnavailable: one cannot be unwrapped; nothing is changed.
        """
        found = await db.execute(
            "SELECT tenant, user_id, master, wrapped FROM data_keys WHERE master != %s FOR UPDATE",
            [self._masters.current],
        )
        rows = await found.fetchall()
        for tenant, user, master, wrapped in rows:
            again = self._masters.wrap(self._opened(master, wrapped, (tenant, user)), (tenant, user))
            await db.execute(
                "UPDATE data_keys SET master = %s, wrapped = %s WHERE tenant = %s AND user_id = %s",
                [self._masters.current, again, tenant, user],
            )
        return len(rows)


class PostgresSealedState(UsersKeys, PostgresState):
    """`ports.StateStore` in a database, with the texts in it encrypted."""

    seals = True

    def __init__(
        self,
        url: str,
        spill: Path,
        *,
        sync: Literal["normal", "full"],
        masters: MasterKeys,
        spares: bool = False,
        lease: timedelta = LEASE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``masters``: the installation's keys. The rest is `PostgresState`'s."""
        self._keys = PostgresDataKeys(masters)
        UsersKeys.__init__(self, masters)
        PostgresState.__init__(self, url, spill, sync=sync, spares=spares, sealing=self._keys, lease=lease, now=now)
        self._replicas.on(DESTROYED, lambda _: self.drop_key(None))

    async def open(self) -> None:
        """As the port says. A state that is not encrypted yet is, before this returns.

        Raises:
            StateUnavailable: also when its keys are wrapped by a master key that is not here.
        """
        await super().open()
        try:
            sealed = await self._prepare()
        except BaseException:
            await self.close()
            raise
        if sealed:
            log.info("the state of %d users is encrypted now; `memproxy reindex` encrypts their memories", sealed)
        await self._taking_up.begin()

    async def _prepare(self) -> int:
        """Check the keys, and seal what is plain; how many users that concerned."""
        async with self._database.transaction(SEALED_S) as db:
            await self._keys.check(db)
            await db.execute("SELECT set_config('statement_timeout', '0', true)")
            await db.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("sealing")])
            (done,) = await one(db, "SELECT EXISTS (SELECT FROM meta WHERE key = %s)", [SEALED])
            if done:
                return 0
            await db.execute(f"LOCK TABLE {', '.join(SEALED_TABLES)} IN EXCLUSIVE MODE")
            await db.execute("DELETE FROM working")  # it lives for minutes, and is not worth a second reading
            asked = " UNION ".join(f"SELECT tenant, user_id FROM {table}" for table in SEALED_TABLES)
            owners = await (await db.execute(asked)).fetchall()
            for tenant, user in owners:
                await _seal_owner(db, await self._keys.made(db, (tenant, user)), (tenant, user))
            await db.execute("INSERT INTO meta VALUES (%s, '1')", [SEALED])
        return len(owners)

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        await self._empty_working(entry.scope.owner, None)
        async with self._database.of(entry.scope.owner) as db:
            gone = await self._destroy(db, entry.scope)
            number = await self._append(db, entry)
        self.drop_key(None)
        self._replicas.rows_came()
        return number, gone

    async def destroy_key(self, scope: Scope) -> None:
        """Destroy the owner's key, and what of the state it sealed."""
        async with self._database.of(scope.owner) as db:
            await self._destroy(db, scope)
        self.drop_key(None)

    async def _destroy(self, db: Db, scope: Scope) -> list[int]:
        """All that is sealed goes with its key: nobody could read it, and it would stand in the way of what comes. The
        numbers of the journal's rows.
        """
        gone = await erase_texts(db, scope, None)
        await working.erase(db, None, scope.owner, None)
        await self._erased.note(db, Scope(tenant=scope.tenant, user=scope.user))
        await self._keys.destroy(db, scope.owner)
        await self._replicas.tell(db, DESTROYED)
        return gone

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        gone = await super().forget(scope, session=session, until=until)
        if session is None:
            self.drop_key(None)
        return gone

    async def _forget(self, db: Db, scope: Scope, session: str | None, until: int | None) -> list[int]:
        gone = await super()._forget(db, scope, session, until)
        # rows that came after the erasure was asked for are sealed with a key that was made after it
        rows = await db.execute("SELECT FROM journal WHERE tenant = %s AND user_id = %s LIMIT 1", scope.owner)
        if session is None and await rows.fetchone() is None:
            await self._keys.destroy(db, scope.owner)
            await self._replicas.tell(db, DESTROYED)
        return gone

    async def rewrap(self) -> int:
        """Wrap every data key by the current master key; how many were wrapped by another one."""
        async with self._database.transaction() as db:
            return await self._keys.rewrap(db)

    async def _append_left(self, entry: JournalEntry) -> int:
        left = await self._opened_left(entry)
        return 0 if left is None else await self.append(left)

    async def make_key(self, scope: Scope) -> None:
        async with self._database.of(scope.owner) as db:
            await self._keys.made_key(db, scope.owner)

    async def _key(self, owner: Owner) -> DataKey | None:
        async with self._database.glance() as db:
            return await self._keys.key(db, owner)

    _key_at_once = _key


async def _seal_owner(db: Db, columns: Columns, owner: Owner) -> None:
    """Seal what an owner has in a state that was not encrypted."""
    await _seal_texts(db, columns, owner)
    await _seal_names(db, columns, owner)


async def _seal_texts(db: Db, columns: Columns, owner: Owner) -> None:
    for number, body, plan in await _all(db, "number, body, plan", "journal", owner):
        sealed = None if plan is None else columns.seal(plan, PLAN)
        await db.execute(
            "UPDATE journal SET body = %s, plan = %s WHERE number = %s", [columns.seal(body, BODY), sealed, number]
        )
    for request_id, stored in await _all(db, "request_id, recalled", "receipts", owner):
        if stored is not None:
            recalled = sealed_query(columns, msgspec.json.decode(stored, type=Recalled))
            await db.execute(
                "UPDATE receipts SET recalled = %s WHERE tenant = %s AND user_id = %s AND request_id = %s",
                [msgspec.json.encode(recalled), *owner, request_id],
            )
    for number, stored in await _all(db, "number, body", "outcomes", owner):
        outcome = sealed_content(columns, msgspec.json.decode(stored, type=Outcome))
        await db.execute("UPDATE outcomes SET body = %s WHERE number = %s", [msgspec.json.encode(outcome), number])


async def _seal_names(db: Db, columns: Columns, owner: Owner) -> None:
    for session, message, place, line in await _all(db, "session, message, place, line", "block_lines", owner):
        await db.execute(
            "UPDATE block_lines SET line = %s, message = %s "
            "WHERE tenant = %s AND user_id = %s AND session = %s AND message = %s AND place = %s",
            [columns.seal_text(line, LINE), columns.name(message), *owner, session, message, place],
        )
    for (slot,) in await _all(db, "slot", "slots", owner):
        await db.execute(
            "UPDATE slots SET slot = %s WHERE tenant = %s AND user_id = %s AND slot = %s",
            [columns.slot(slot), *owner, slot],
        )
    for kind, parent, name in await _all(db, "kind, parent, name", "palace", owner):
        if kind in NAMED_IN_WORDS:
            await db.execute(
                "UPDATE palace SET name = %s "
                "WHERE tenant = %s AND user_id = %s AND kind = %s AND parent = %s AND name = %s",
                [columns.name(name), *owner, kind, parent, name],
            )
    for key, session, answer in await _all(db, "key, session, answer", "session_keys", owner):
        await db.execute(
            "UPDATE session_keys SET key = %s, answer = %s "
            "WHERE tenant = %s AND user_id = %s AND key = %s AND session = %s",
            [columns.name(key), None if answer is None else columns.name(answer), *owner, key, session],
        )


async def _all(db: Db, columns: str, table: str, owner: Owner) -> Sequence[tuple[Any, ...]]:
    found = await db.execute(f"SELECT {columns} FROM {table} WHERE tenant = %s AND user_id = %s", owner)
    return await found.fetchall()
