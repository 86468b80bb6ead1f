"""The journal and the slot register in PostgreSQL (`ports.JournalStore`, `ports.SlotStore`).

Rows are claimed with ``FOR UPDATE SKIP LOCKED``, heads alone: of each owner and lane one row at a time stands at the
head, so that an owner's order holds over all replicas. A replica that was away so long that others took over what it
had claimed changes nothing of it any more, unless it waits again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import msgspec

from memproxy.core.protocol import TurnsBody
from memproxy.core.scope import Scope
from memproxy.errors import NotFound, StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Ending, JournalEntry, JournalKind, JournalRow, Recovered, SlotChange
from memproxy.stores.postgres_state_database import PLACE, Db, PostgresDatabase, one
from memproxy.stores.postgres_state_replicas import IS_DEAD, Replicas, release_dead
from memproxy.stores.shared_commit import SharedCommit
from memproxy.stores.state_journal import (
    CRASH_DELAY,
    MOST_PLAN_BYTES,
    MOST_RUN_BYTES,
    PLAN,
    StateJournal,
    change_slots,
    claimed,
    erase,
)
from memproxy.stores.state_part import OWNED, Owner, Row, Sealing, owned
from memproxy.stores.state_part import Db as AnyDb
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 5
"""Tries of a row whose replica dies, until `recover` says how many they are to be."""

_HEADS = "lane = %(lane)s AND head AND state = 'waiting' AND (due IS NULL OR due <= %(now)s)"
_LEARNABLE = """
    AND (lane != 'learn' OR NOT EXISTS (
        SELECT FROM journal AS earlier
        WHERE earlier.tenant = journal.tenant AND earlier.user_id = journal.user_id AND earlier.lane = 'index'
        AND earlier.state != 'parked' AND earlier.number < journal.number))
"""
_FREE = """
    AND NOT EXISTS (
        SELECT FROM journal AS other
        WHERE other.tenant = journal.tenant AND other.user_id = journal.user_id
        AND other.state = 'running' AND other.claimant != %(mine)s)
"""
"""Condition on a row: no other replica handles rows of its owner."""

_NOT_HELD = """
    (held_by IS NULL OR held_by = %(mine)s
     OR NOT EXISTS (SELECT FROM claimants WHERE id = held_by AND until > clock_timestamp()))
"""

_MACHINE_TIME = b'"is_machine_time":true'
"""What a body holds whose time is by its machine's clock (a message may hold it, too)."""

_REFUSALS_KEPT = timedelta(minutes=10)
"""Longer than anybody waits for a row."""

_PLACE_AT = 7
"""Where the scope stands in a row that is claimed."""

_MINE = "(state != 'running' OR claimant = %(mine)s)"
"""Condition on a row that this process may change: nobody else runs it."""


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """How a row ended: done, or with an ``error`` refused for good."""

    number: int
    error: str | None
    kind: str


class PostgresJournal(StateJournal):
    """`ports.JournalStore` and `ports.SlotStore`."""

    is_shared = True

    def __init__(self, database: PostgresDatabase, tasks: TaskOwner, sealing: Sealing, lease: timedelta) -> None:
        super().__init__(database, tasks, sealing)
        self._database: PostgresDatabase = database
        self._replicas = Replicas(database, tasks, self.take_over, lease)
        self._ends: SharedCommit[_End, None] = SharedCommit(tasks, self._remove)
        self._held: Counter[Owner] = Counter()
        self._holding = asyncio.Lock()
        self._most_attempts = MOST_ATTEMPTS

    async def other_engines(self) -> int:
        async with self._database.connected() as db:
            (others,) = await one(
                db,
                "SELECT count(*) FROM claimants WHERE id != %s AND until > clock_timestamp()",
                [self._replicas.name],
            )
        return int(others)

    def shared(self, time: datetime) -> datetime:
        return self._database.shared(time)

    @property
    def knows_time(self) -> bool:
        return self._database.is_measured

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
        async with self._database.transaction() as db:
            await release_dead(db, self._replicas.name)
        async with self._database.connected() as db:
            # a restart often comes because what rows wait for was mended
            await db.execute("UPDATE journal SET due = NULL WHERE state = 'waiting' AND due IS NOT NULL")
        taken = await self._release(self._database.shared(now))
        async with self._database.connected() as db:
            await self._replicas.live(db)
        self._replicas.claimed()
        return taken

    async def take_over(self) -> None:
        """Give back what replicas that show no life any more had claimed, and what of this one was left held."""
        async with self._database.connected() as db:
            found = await db.execute("SELECT tenant, user_id FROM owners WHERE held_by = %s", [self._replicas.name])
            left = await found.fetchall()
        async with self._holding:
            for tenant, user in left:
                if (tenant, user) not in self._held:
                    await self._let_go((tenant, user))
        taken = await self._release(None)
        if taken.again or taken.parked:
            log.warning(
                "%d rows of a replica that is gone are taken over, %d of them parked",
                taken.again + len(taken.parked),
                len(taken.parked),
            )
        for _ in taken.parked:
            metrics().internal_errors.labels(where="state.taken_over").inc()

    async def _release(self, now: datetime | None) -> Recovered:
        """Rows whose claimant is dead wait again, or are parked after too many tries."""
        async with self._database.connected() as db:
            found = await db.execute(f"SELECT tenant, user_id FROM journal WHERE state = 'running' AND {IS_DEAD}")
            owners = {(tenant, user) for tenant, user in await found.fetchall()}
        if not owners:
            return Recovered()
        again, parked = 0, {}
        async with self._database.of(*owners) as db:
            found = await db.execute(
                f"SELECT number, attempts FROM journal WHERE state = 'running' AND {IS_DEAD} "
                "AND (tenant, user_id) IN (SELECT * FROM unnest(%s::text[], %s::text[])) FOR UPDATE",
                [[tenant for tenant, _ in owners], [user for _, user in owners]],
            )
            begun = now or (await one(db, "SELECT clock_timestamp()"))[0]
            for number, attempts in await found.fetchall():
                died = f"the engine ended while it worked on this row, {attempts + 1} tries in all"
                if attempts + 1 >= self._most_attempts:
                    await _park(db, number, died, begun)
                    parked[number] = attempts + 1
                else:
                    due = begun + CRASH_DELAY * (4 ** min(attempts, 4) - 1)
                    await _put_back(db, number, died, due, counted=True)
                    again += 1
        return Recovered(again=again, parked=parked)

    async def claim(
        self, lane: str, *, limit: int, now: datetime, run: int = 1, leaving: Collection[str] = ()
    ) -> list[JournalRow]:
        values: dict[str, Any] = {
            "lane": lane,
            "now": self._database.shared(now),
            "limit": limit,
            "mine": self._replicas.name,
            "leaving": list(leaving),
        }
        mine = f"{_HEADS} {_LEARNABLE} {_FREE} AND tenant != ALL(%(leaving)s)"
        async with self._database.connected() as db:
            (some,) = await one(db, f"SELECT EXISTS (SELECT FROM journal WHERE {mine})", values)
        if not some:
            return []
        async with self._database.transaction() as db:
            await self._replicas.claims(db)
            numbers, plan_bytes = list[int](), MOST_PLAN_BYTES
            for head in await _heads(db, mine, values):
                behind, size = await _behind(db, head, values, limit=run - 1, plan_bytes=plan_bytes)
                plan_bytes = max(MOST_RUN_BYTES, plan_bytes - size)
                numbers += [head[0], *behind]
            found = await db.execute(
                f"UPDATE journal SET state = 'running', claimant = %s WHERE number = ANY(%s) "
                f"RETURNING number, kind, version, request_id, body, plan, attempts, {PLACE}",
                [self._replicas.name, numbers],
            )
            rows = {row[0]: row for row in await found.fetchall()}
            owners = {number: db.scope(*row[_PLACE_AT:]).owner for number, row in rows.items()}
            columns = {owner: await self._sealing.of(db, owner) for owner in set(owners.values())}
            taken = [claimed(db, columns[owners[number]], rows[number]) for number in numbers if number in rows]
        self._replicas.claimed()
        return taken

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

    async def _let_go(self, owner: Owner) -> None:
        async with self._database.connected() as db:
            await db.execute(
                "UPDATE owners SET held_by = NULL WHERE tenant = %s AND user_id = %s AND held_by = %s",
                [*owner, self._replicas.name],
            )

    async def _hold(self, owner: Owner) -> bool:
        values = {"tenant": owner[0], "user": owner[1], "mine": self._replicas.name}
        async with self._database.transaction() as db:
            await self._replicas.claims(db)
            found = await db.execute(
                "SELECT FROM owners WHERE tenant = %(tenant)s AND user_id = %(user)s FOR UPDATE", values
            )
            if not found.rowcount:
                return True  # nothing of it is here
            taken = await db.execute(
                f"""
                UPDATE owners SET held_by = %(mine)s
                WHERE tenant = %(tenant)s AND user_id = %(user)s AND {_NOT_HELD} AND NOT EXISTS (
                    SELECT FROM journal WHERE tenant = %(tenant)s AND user_id = %(user)s
                    AND state = 'running' AND claimant != %(mine)s)
                """,
                values,
            )
        self._replicas.claimed()
        return bool(taken.rowcount)

    async def ending(self, number: int) -> Ending | None:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT state, error, 'MemproxyError' FROM journal WHERE number = %(number)s "
                "UNION ALL SELECT 'refused', error, kind FROM refusals WHERE number = %(number)s",
                {"number": number},
            )
            row = await found.fetchone()
        if row is None:
            return Ending()
        state, error, kind = row
        return Ending(error=error or "", kind=kind) if state in {"refused", "parked"} else None

    def _rows_came(self) -> None:
        self._replicas.rows_came()

    async def _erase_rows(self, db: AnyDb, scope: Scope, session: str | None, until: int | None = None) -> list[int]:
        gone = await erase(db, scope, session, until)
        if session is None:
            await db.run(f"DELETE FROM refusals WHERE {OWNED}", **owned(scope.owner))
        return gone

    async def save_plan(self, number: int, plan: bytes, slots: Sequence[SlotChange]) -> bool:
        gone = NotFound(
            f"Journal row {number} is gone: its owner was erased, or another replica has taken it over. Nothing is "
            "left to do for it here."
        )
        owner = await self._owner_of(number)
        if owner is None:
            raise gone

        async def work(db: AnyDb) -> None:
            columns = await self._sealing.made(db, owner)
            saved = await db.run(
                f"UPDATE journal SET plan = :plan WHERE number = :number AND {_MINE.replace('%(mine)s', ':mine')}",
                plan=columns.seal(plan, PLAN),
                number=number,
                mine=self._replicas.name,
            )
            if not saved:
                raise gone
            await change_slots(db, columns, owner, slots)

        return await self._unless_taken(work, owner)

    async def _owner_of(self, number: int) -> Owner | None:
        """Tenant and user of a row."""
        async with self._database.connected() as db:
            found = await db.execute("SELECT tenant, user_id FROM journal WHERE number = %s", [number])
            row = await found.fetchone()
        return None if row is None else (row[0], row[1])

    async def finish(self, number: int, *, error: str | None = None, kind: str = "MemproxyError") -> None:
        await self._ends.add(_End(number=number, error=error, kind=kind))

    async def _remove(self, ends: Sequence[_End]) -> list[None]:
        """Delete rows, and let the next of their owners be claimed."""
        numbers = [end.number for end in ends]
        async with self._database.connected() as db:
            found = await db.execute("SELECT tenant, user_id FROM journal WHERE number = ANY(%s)", [numbers])
            owners = {(tenant, user) for tenant, user in await found.fetchall()}
        refused = {end.number: end for end in ends if end.error is not None}
        async with self._database.of(*owners) as db:
            found = await db.execute(
                f"DELETE FROM journal WHERE number = ANY(%(numbers)s) AND {_MINE} "
                "RETURNING number, tenant, user_id, lane",
                {"numbers": numbers, "mine": self._replicas.name},
            )
            gone = await found.fetchall()
            await _advance(db, {(tenant, user, lane) for _, tenant, user, lane in gone})
            for number, tenant, user, lane in (row for row in gone if row[0] in refused):
                await db.execute(
                    "INSERT INTO refused VALUES (%s, 1) ON CONFLICT (lane) DO UPDATE SET rows = refused.rows + 1",
                    [lane],
                )
                await db.execute("DELETE FROM refusals WHERE at < clock_timestamp() - %s", [_REFUSALS_KEPT])
                await db.execute(
                    "INSERT INTO refusals (number, tenant, user_id, kind, error) VALUES (%s, %s, %s, %s, %s)",
                    [number, tenant, user, refused[number].kind, refused[number].error],
                )
        return [None] * len(ends)

    async def retry(self, number: int, *, error: str, due: datetime, counted: bool) -> None:
        async with self._database.connected() as db:
            due = self._database.shared(due)
            await _put_back(db, number, error, due, counted=counted, mine=self._replicas.name)

    async def park(self, number: int, *, error: str) -> None:
        owner = await self._owner_of(number)
        if owner is None:
            return
        async with self._database.of(owner) as db:
            (now,) = await one(db, "SELECT clock_timestamp()")
            await _park(db, number, error, now, mine=self._replicas.name)


async def _heads(db: Db, mine: str, values: dict[str, Any]) -> list[Row]:
    """The first rows of owners of whom nobody else works on any."""
    # whoever claims of an owner has the lock of its place meanwhile: looked at again after that, nobody else can have
    # begun
    found = await db.execute(
        f"SELECT owners.tenant, owners.user_id FROM journal JOIN owners USING (tenant, user_id) "
        f"WHERE {mine} AND {_NOT_HELD} ORDER BY number LIMIT %(limit)s FOR UPDATE OF owners SKIP LOCKED",
        values,
    )
    owners = await found.fetchall()
    found = await db.execute(
        f"SELECT number, kind, octet_length(body), attempts, tenant, user_id FROM journal "
        f"JOIN unnest(%(tenants)s::text[], %(users)s::text[]) AS free (tenant, user_id) "
        f"USING (tenant, user_id) WHERE {mine} ORDER BY number FOR UPDATE OF journal SKIP LOCKED",
        values | {"tenants": [tenant for tenant, _ in owners], "users": [user for _, user in owners]},
    )
    return await found.fetchall()


async def _behind(
    db: Db, head: Row, values: dict[str, object], *, limit: int, plan_bytes: int
) -> tuple[list[int], int]:
    """Rows of the head's owner that may go with it, and how many bytes they are. What was tried before goes alone, so
    that a row that fails, or ends the engine, is told from those beside it. Plans go with plans up to ``plan_bytes``.
    """
    number, kind, head_size, attempts, tenant, user = head
    if limit <= 0 or attempts:
        return [], 0
    found = await db.execute(
        "SELECT number, kind, octet_length(body), "
        "state = 'waiting' AND (due IS NULL OR due <= %(now)s) AND attempts = 0 FROM journal "
        "WHERE tenant = %(tenant)s AND user_id = %(user)s AND lane = %(lane)s AND state != 'parked' "
        "AND number > %(head)s ORDER BY number LIMIT %(most)s",
        {**values, "tenant": tenant, "user": user, "head": number, "most": limit},
    )
    numbers, size, only_plans = [], head_size, kind == JournalKind.PLAN
    total = 0
    for behind, its_kind, its_size, is_free in await found.fetchall():
        size += its_size
        only_plans = only_plans and its_kind == JournalKind.PLAN
        if not is_free or size > (plan_bytes if only_plans else MOST_RUN_BYTES):
            break
        numbers.append(behind)
        total += its_size
    return numbers, total


async def _put_back(db: Db, number: int, error: str, due: datetime, *, counted: bool, mine: str | None = None) -> None:
    """Wait until ``due``; with ``mine``, unless somebody else runs it."""
    await db.execute(
        "UPDATE journal SET state = 'waiting', claimant = NULL, due = %(due)s, error = %(error)s, "
        f"attempts = attempts + %(counted)s WHERE number = %(number)s AND state = 'running' AND {_unless(mine)}",
        {"due": due, "error": error, "counted": int(counted), "number": number, "mine": mine},
    )


async def _park(db: Db, number: int, error: str, now: datetime, *, mine: str | None = None) -> None:
    """Set a row aside and let the next of its owner be claimed; with ``mine``, unless somebody else runs it."""
    found = await db.execute(
        "UPDATE journal SET state = 'parked', head = false, claimant = NULL, attempts = attempts + 1, "
        f"error = %(error)s, parked_at = %(now)s WHERE number = %(number)s AND {_unless(mine)} "
        "RETURNING tenant, user_id, lane",
        {"error": error, "now": now, "number": number, "mine": mine},
    )
    await _advance(db, {(tenant, user, lane) for tenant, user, lane in await found.fetchall()})


def _unless(mine: str | None) -> str:
    return "true" if mine is None else _MINE


async def _advance(db: Db, places: set[tuple[str, str, str]]) -> None:
    """The oldest unfinished row of each owner and lane becomes the head."""
    if places:
        await db.execute(
            """
            UPDATE journal SET head = true FROM unnest(%s::text[], %s::text[], %s::text[]) AS at (tenant, user_id, lane)
            WHERE NOT head AND number = (
                SELECT min(number) FROM journal AS row WHERE row.tenant = at.tenant AND row.user_id = at.user_id
                AND row.lane = at.lane AND row.state != 'parked')
            """,
            [list(column) for column in zip(*places, strict=True)],
        )
