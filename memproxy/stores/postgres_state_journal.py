"""The journal and the slot register in PostgreSQL (`ports.JournalStore`).

Rows are claimed with ``FOR UPDATE SKIP LOCKED``, heads alone: of each owner and lane one row at a time stands at the
head, so that an owner's order holds over all replicas. A replica that was away so long that others took over what it
had claimed changes nothing of it any more, unless it waits again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import msgspec

from memproxy.core.protocol import TurnsBody
from memproxy.core.scope import OwnerKey, Scope
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Ending, JournalEntry, JournalKind, JournalRow, Recovered
from memproxy.stores.postgres_state_database import PostgresDatabase
from memproxy.stores.postgres_state_replicas import IS_DEAD, Replicas
from memproxy.stores.state_journal import End, StateJournal
from memproxy.stores.state_part import OWNED, Db, Row, owned

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 5  # tries of a row whose replica dies, until `recover` says how many they are to be

_FREE = """
    AND NOT EXISTS (
        SELECT FROM journal AS other
        WHERE other.tenant = journal.tenant AND other.user_id = journal.user_id
        AND other.state = 'running' AND other.claimant != :me)
    AND tenant != ALL(:leaving)
"""
"""Condition on a row: no other replica handles rows of its owner, who is of no tenant that is left to others."""

_NOT_HELD = """
    (held_by IS NULL OR held_by = :me
     OR NOT EXISTS (SELECT FROM claimants WHERE id = held_by AND until > clock_timestamp()))
"""

_MACHINE_TIME = b'"is_machine_time":true'
"""What a body holds whose time is by its machine's clock (a message may hold it, too)."""

_REFUSALS_KEPT = timedelta(minutes=10)  # longer than anybody waits for a row


class PostgresJournal(StateJournal):
    """`ports.JournalStore`."""

    is_shared = True
    mine = "(state != 'running' OR claimant = :me)"
    released, claims = "claimant = NULL,", ", claimant = :me"

    _database: PostgresDatabase

    def _share(self, database: PostgresDatabase, lease: timedelta) -> None:
        self._database = database
        self._replicas = Replicas(database, self._tasks, self.take_over, lease)
        self.me = {"me": self._replicas.name}
        self._held: Counter[OwnerKey] = Counter()
        self._holding = asyncio.Lock()
        self._most_attempts = MOST_ATTEMPTS

    async def other_engines(self) -> int:
        statement = "SELECT count(*) FROM claimants WHERE id != :me AND until > clock_timestamp()"
        row = await self._database.read(lambda db: db.first(statement, **self.me))
        return int(row[0]) if row else 0

    def _in_time(self, entry: JournalEntry) -> JournalEntry:
        """The entry; where it was taken in before the database had been reached, with the time that it was there."""
        if entry.kind is not JournalKind.TURNS or _MACHINE_TIME not in entry.body:
            return entry
        body = msgspec.json.decode(entry.body, type=TurnsBody)
        if not body.is_machine_time:
            return entry
        body = msgspec.structs.replace(body, said_at=self._database.of_machine(body.said_at), is_machine_time=False)
        return msgspec.structs.replace(entry, body=msgspec.json.encode(body))

    async def recover(self, *, max_attempts: int, now: datetime) -> Recovered:
        self._most_attempts = max_attempts
        await self._database.write(self._replicas.release_dead)
        # a restart often comes because what rows wait for was mended
        await self._database.run("UPDATE journal SET due = NULL WHERE state = 'waiting' AND due IS NOT NULL")
        recovered = await self._release(self._database.shared(now))
        await self._database.once(self._replicas.live)
        self._replicas.claimed()
        return recovered

    async def take_over(self) -> None:
        """Give back what replicas that show no life any more had claimed, and what of this one was left held."""
        held = "SELECT tenant, user_id FROM owners WHERE held_by = :me"
        owners = await self._database.read(lambda db: db.all(held, **self.me))
        async with self._holding:
            for tenant, user in owners:
                if (tenant, user) not in self._held:
                    await self._let_go((tenant, user))
        recovered = await self._release(None)
        if recovered.again or recovered.parked:
            log.warning(
                "%d rows of a replica that is gone are taken over, %d of them parked",
                recovered.again + len(recovered.parked),
                len(recovered.parked),
            )
        for _ in recovered.parked:
            metrics().internal_errors.labels(where="state.taken_over").inc()

    async def _release(self, now: datetime | None) -> Recovered:
        """Rows whose claimant is dead wait again, or are parked after too many tries."""
        dead = f"FROM journal WHERE state = 'running' AND {IS_DEAD}"
        owners = await self._database.read(lambda db: db.all(f"SELECT DISTINCT tenant, user_id {dead}"))
        if not owners:
            return Recovered()

        async def work(db: Db) -> Recovered:
            running = await db.all(
                f"SELECT number, attempts {dead} "
                "AND (tenant, user_id) IN (SELECT * FROM unnest(:tenants::text[], :users::text[])) FOR UPDATE",
                tenants=[tenant for tenant, _ in owners],
                users=[user for _, user in owners],
            )
            begun = await db.first("SELECT coalesce(:now, clock_timestamp())", now=now)
            assert begun is not None  # noqa: S101 - it always answers a row
            return await self._give_back(db, running, self._most_attempts, begun[0])

        return await self._database.write(work, *((tenant, user) for tenant, user in owners))

    async def claim(
        self, lane: str, *, limit: int, now: datetime, run: int = 1, leaving: Collection[str] = ()
    ) -> list[JournalRow]:
        rows = await super().claim(lane, limit=limit, now=now, run=run, leaving=leaving)
        if rows:
            self._replicas.claimed()
        return rows

    def _claimable(self, db: Db, lane: str) -> str:
        return super()._claimable(db, lane) + _FREE

    async def _heads(self, db: Db, where: str, values: dict[str, Any]) -> list[Row]:
        await self._replicas.claims(db)
        # whoever claims of an owner has the lock of its place meanwhile: looked at again after that, nobody else can
        # have begun
        owners = await db.all(
            f"SELECT owners.tenant, owners.user_id FROM journal JOIN owners USING (tenant, user_id) "
            f"WHERE {where} AND {_NOT_HELD} ORDER BY number LIMIT :limit FOR UPDATE OF owners SKIP LOCKED",
            **values,
        )
        return await db.all(
            f"SELECT number, kind, length(body), attempts, tenant, user_id FROM journal "
            f"JOIN unnest(:tenants::text[], :users::text[]) AS free (tenant, user_id) "
            f"USING (tenant, user_id) WHERE {where} ORDER BY number FOR UPDATE OF journal SKIP LOCKED",
            tenants=[tenant for tenant, _ in owners],
            users=[user for _, user in owners],
            **values,
        )

    @asynccontextmanager
    async def alone(self, scope: Scope) -> AsyncIterator[bool]:
        owner = scope.owner
        async with self._holding:
            held = await self._hold(owner)
            self._held[owner] += held
        try:
            yield held
        finally:
            if held:
                async with self._holding:
                    self._held[owner] -= 1
                    if not self._held[owner]:
                        del self._held[owner]
                        with suppress(StateUnavailable):  # else `take_over` gives it back
                            await self._let_go(owner)

    async def _let_go(self, owner: OwnerKey) -> None:
        free = f"UPDATE owners SET held_by = NULL WHERE {OWNED} AND held_by = :me"
        await self._database.run(free, **owned(owner), **self.me)

    async def _hold(self, owner: OwnerKey) -> bool:
        values = {**owned(owner), **self.me}
        async with self._database.transaction() as db:
            await self._replicas.claims(db)
            if await db.first(f"SELECT FROM owners WHERE {OWNED} FOR UPDATE", **values) is None:
                return True  # nothing of it is here
            updated = await db.run(
                f"""
                UPDATE owners SET held_by = :me WHERE {OWNED} AND {_NOT_HELD} AND NOT EXISTS (
                    SELECT FROM journal WHERE {OWNED} AND state = 'running' AND claimant != :me)
                """,
                **values,
            )
        self._replicas.claimed()
        return updated > 0

    async def ending(self, number: int) -> Ending | None:
        ended = (
            "SELECT state, error, 'MemproxyError' FROM journal WHERE number = :number "
            "UNION ALL SELECT 'refused', error, kind FROM refusals WHERE number = :number"
        )
        row = await self._database.read(lambda db: db.first(ended, number=number))
        if row is None:
            return Ending()
        state, error, kind = row
        return Ending(error=error or "", kind=kind) if state in {"refused", "parked"} else None

    def _rows_came(self) -> None:
        self._replicas.rows_came()

    async def _refuse(self, db: Db, end: End, owner: OwnerKey) -> None:
        await db.run("DELETE FROM refusals WHERE at < clock_timestamp() - :kept", kept=_REFUSALS_KEPT)
        await db.run(
            "INSERT INTO refusals (number, tenant, user_id, kind, error) "
            "VALUES (:number, :tenant, :user, :kind, :error)",
            **msgspec.structs.asdict(end),
            **owned(owner),
        )
