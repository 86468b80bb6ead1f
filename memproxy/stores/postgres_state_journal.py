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
from memproxy.ports import Ending, JournalEntry, JournalKind, JournalRow, ParkedRow, Recovered, SlotChange
from memproxy.stores.postgres_state_database import Db, Owner, PostgresDatabase, Row, Together, one
from memproxy.stores.postgres_state_part import PLACE, PostgresPart, Sealing, scope_of, seen
from memproxy.stores.postgres_state_replicas import IS_DEAD, Replicas, release_dead
from memproxy.stores.sqlite_journal import (
    BODY,
    CRASH_DELAY,
    LANES,
    MOST_PLAN_BYTES,
    MOST_RUN_BYTES,
    PLAN,
    STATES,
    SlotTaken,
)
from memproxy.stores.sqlite_part import Columns
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

_MINE = "(state != 'running' OR claimant = %(mine)s)"
"""Condition on a row that this process may change: nobody else runs it."""


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """How a row ended: done, or with an ``error`` refused for good."""

    number: int
    error: str | None
    kind: str


class PostgresJournal(PostgresPart):
    """`ports.JournalStore` and `ports.SlotStore`."""

    is_shared = True

    def __init__(self, database: PostgresDatabase, tasks: TaskOwner, sealing: Sealing, lease: timedelta) -> None:
        super().__init__(database, tasks, sealing)
        self._replicas = Replicas(database, tasks, self.take_over, lease)
        self._ends: Together[_End] = Together(tasks, self._remove)
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

    async def append(self, entry: JournalEntry) -> int:
        async with self._database.of(entry.scope.owner) as db:
            number = await self._append(db, self._in_time(entry))
        self._replicas.rows_came()
        return number

    def _in_time(self, entry: JournalEntry) -> JournalEntry:
        """The entry; where it was taken in before the database had been reached, with the time that it was there."""
        if entry.kind is not JournalKind.TURNS or _MACHINE_TIME not in entry.body:
            return entry
        body = msgspec.json.decode(entry.body, type=TurnsBody)
        if not body.is_machine_time:
            return entry
        body = msgspec.structs.replace(body, said_at=self._database.of_machine(body.said_at), is_machine_time=False)
        return msgspec.structs.replace(entry, body=msgspec.json.encode(body))

    async def _append(self, db: Db, entry: JournalEntry) -> int:
        """Append an entry, unless its owner was erased meanwhile (0); what it erases is erased from now on."""
        if await self._erased.is_too_late(db, entry.scope, entry.captured_at):
            return 0  # before a key is made
        for scope in entry.erases:
            await self._erased.note(db, scope)
        return await self._insert(db, entry)

    async def _insert(self, db: Db, entry: JournalEntry) -> int:
        """Write a row, under its owner's lock; answers its number."""
        owner = entry.scope.owner
        await self._erased.came_back(db, owner)
        columns = await self._sealing.made(db, owner)
        (number,) = await one(
            db,
            f"""
            INSERT INTO journal (lane, kind, version, {PLACE}, request_id, body, head)
            VALUES (%(lane)s, %(kind)s, %(version)s, %(tenant)s, %(user)s, %(project)s, %(agent)s, %(session)s,
                %(request)s, %(body)s, NOT EXISTS (
                SELECT FROM journal
                WHERE tenant = %(tenant)s AND user_id = %(user)s AND lane = %(lane)s AND state != 'parked'))
            RETURNING number
            """,
            {
                "lane": LANES[entry.kind],
                "kind": entry.kind.value,
                "version": entry.version,
                "tenant": entry.scope.tenant,
                "user": entry.scope.user,
                "project": entry.scope.project,
                "agent": entry.scope.agent,
                "session": entry.scope.session,
                "request": entry.request_id,
                "body": columns.seal(entry.body, BODY),
            },
        )
        return int(number)

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
                f"RETURNING number, kind, version, {PLACE}, request_id, body, plan, attempts",
                [self._replicas.name, numbers],
            )
            rows = {row[0]: row for row in await found.fetchall()}
            columns = {
                owner: await self._sealing.of(db, owner) for owner in {(row[3], row[4]) for row in rows.values()}
            }
        claimed = [_claimed(columns[row[3], row[4]], row) for row in map(rows.get, numbers) if row]
        self._replicas.claimed()
        return claimed

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

    async def save_plan(self, number: int, plan: bytes, slots: Sequence[SlotChange]) -> bool:
        gone = NotFound(
            f"Journal row {number} is gone: its owner was erased, or another replica has taken it over. Nothing is "
            "left to do for it here."
        )
        owner = await self._owner_of(number)
        if owner is None:
            raise gone
        with suppress(SlotTaken):
            async with self._database.of(owner) as db:
                columns = await self._sealing.made(db, owner)
                saved = await db.execute(
                    f"UPDATE journal SET plan = %(plan)s WHERE number = %(number)s AND {_MINE}",
                    {"plan": columns.seal(plan, PLAN), "number": number, "mine": self._replicas.name},
                )
                if not saved.rowcount:
                    raise gone
                await _change_slots(db, columns, owner, slots)
            return True
        return False

    async def _owner_of(self, number: int) -> Owner | None:
        """Tenant and user of a row."""
        async with self._database.connected() as db:
            found = await db.execute("SELECT tenant, user_id FROM journal WHERE number = %s", [number])
            row = await found.fetchone()
        return None if row is None else (row[0], row[1])

    async def finish(self, number: int, *, error: str | None = None, kind: str = "MemproxyError") -> None:
        await self._ends.add(_End(number=number, error=error, kind=kind))

    async def _remove(self, ends: Sequence[_End]) -> None:
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

    async def retry(self, number: int, *, error: str, due: datetime, counted: bool) -> None:
        async with self._database.connected() as db:
            due = self._database.shared(due)
            await _put_back(db, number, error, due, counted=counted, mine=self._replicas.name)

    async def make_due(self, numbers: Sequence[int], now: datetime) -> None:
        async with self._database.connected() as db:
            await db.execute(
                "UPDATE journal SET due = %s WHERE number = ANY(%s) AND state = 'waiting'",
                [self._database.shared(now), list(numbers)],
            )

    async def park(self, number: int, *, error: str) -> None:
        owner = await self._owner_of(number)
        if owner is None:
            return
        async with self._database.of(owner) as db:
            (now,) = await one(db, "SELECT clock_timestamp()")
            await _park(db, number, error, now, mine=self._replicas.name)

    async def parked(self, scope: Scope | None, *, limit: int) -> list[ParkedRow]:
        where, values = ("true", {}) if scope is None else seen(scope)
        async with self._database.connected() as db:
            found = await db.execute(
                f"SELECT number, kind, error, attempts, parked_at, {PLACE} FROM journal "
                f"WHERE state = 'parked' AND {where} ORDER BY parked_at DESC, number DESC LIMIT %(limit)s",
                {**values, "limit": limit},
            )
            rows = await found.fetchall()
        return [
            ParkedRow(
                number=number,
                kind=JournalKind(kind),
                scope=scope_of(*place),
                error=error or "",
                attempts=attempts,
                parked_at=at,
            )
            for number, kind, error, attempts, at, *place in rows
        ]

    async def unpark(self, scope: Scope | None) -> int:
        where, values = ("true", {}) if scope is None else seen(Scope(tenant=scope.tenant, user=scope.user))
        async with self._database.connected() as db:
            found = await db.execute(
                f"SELECT DISTINCT tenant, user_id FROM journal WHERE state = 'parked' AND {where}", values
            )
            owners = sorted((tenant, user) for tenant, user in await found.fetchall())
        count = 0
        for owner in owners:
            async with self._database.of(owner) as db:
                count += await _unpark(db, owner)
        self._replicas.rows_came()
        return count

    async def queue_sizes(self) -> dict[str, dict[str, int]]:
        return await self._sizes("true", [])

    async def backlog(self, scope: Scope) -> dict[str, dict[str, int]]:
        return await self._sizes("tenant = %s AND user_id = %s", scope.owner)

    async def _sizes(self, where: str, values: Sequence[str]) -> dict[str, dict[str, int]]:
        counted = {lane: dict.fromkeys(STATES, 0) for lane in ("index", "learn")}
        async with self._database.connected() as db:
            found = await db.execute(
                f"SELECT lane, state, count(*) FROM journal WHERE {where} GROUP BY lane, state", values
            )
            for lane, state, rows in await found.fetchall():
                counted[lane][state] = rows
        return counted

    async def queue_ages(self, now: datetime) -> dict[str, float]:
        # of each lane and state the row with the lowest number: for each the index has the answer at once
        async with self._database.connected() as db:
            found = await db.execute(
                """
                SELECT lane, min(at) FROM unnest(ARRAY['index', 'learn']) AS lane,
                    unnest(ARRAY['waiting', 'running']) AS state, LATERAL (
                        SELECT at FROM journal WHERE journal.lane = lane.lane AND journal.state = state.state
                        ORDER BY number LIMIT 1) AS oldest
                GROUP BY lane
                """
            )
            oldest = dict(await found.fetchall())
        there = self._database.shared(now)
        return {
            lane: max(0.0, (there - oldest[lane]).total_seconds()) if lane in oldest else 0.0
            for lane in ("index", "learn")
        }

    async def refused(self) -> dict[str, int]:
        """Rows that were refused for good since the database was made, by lane."""
        async with self._database.connected() as db:
            return dict(await (await db.execute("SELECT lane, rows FROM refused")).fetchall())

    async def slots(self, scope: Scope, names: Sequence[str]) -> dict[str, str]:
        async with self._database.connected() as db:
            columns = await self._sealing.of(db, scope.owner)
            return {} if columns is None else await _holders(db, columns, scope.owner, names)

    async def change_slots(self, scope: Scope, changes: Sequence[SlotChange]) -> bool:
        with suppress(SlotTaken):
            async with self._database.of(scope.owner) as db:
                await _change_slots(db, await self._sealing.made(db, scope.owner), scope.owner, changes)
            return True
        return False

    async def drop_slots(self, scope: Scope, prefix: str) -> None:
        async with self._database.of(scope.owner) as db:
            await db.execute(
                "DELETE FROM slots WHERE tenant = %s AND user_id = %s AND starts_with(slot, %s)",
                [*scope.owner, prefix],
            )


def _claimed(columns: Columns | None, row: Row) -> JournalRow:
    """The row in the clear; one that cannot be read has an empty body, which is refused for good."""
    number, kind, version, *place, request_id, body, plan, attempts = row
    entry = JournalEntry(
        kind=JournalKind(kind),
        scope=scope_of(*place),
        body=b"" if columns is None else columns.open(body, BODY),
        request_id=request_id,
        version=version,
    )
    opened = None if plan is None or columns is None else columns.open(plan, PLAN)
    return JournalRow(number=number, entry=entry, attempts=attempts, plan=opened)


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


async def _unpark(db: Db, owner: Owner) -> int:
    """Parked rows wait again, as if they had never been tried, behind all others: under new numbers."""
    found = await db.execute(
        "SELECT number FROM journal WHERE state = 'parked' AND tenant = %s AND user_id = %s ORDER BY number", owner
    )
    numbers = [number for (number,) in await found.fetchall()]
    for number in numbers:
        await db.execute(
            f"""
            INSERT INTO journal (lane, kind, version, {PLACE}, request_id, body, plan, head)
            SELECT lane, kind, version, {PLACE}, request_id, body, plan, NOT EXISTS (
                SELECT FROM journal AS other WHERE other.tenant = own.tenant AND other.user_id = own.user_id
                AND other.lane = own.lane AND other.state != 'parked')
            FROM journal AS own WHERE number = %s
            """,
            [number],
        )
        await db.execute("DELETE FROM journal WHERE number = %s", [number])
    return len(numbers)


async def erase(db: Db, scope: Scope, session: str | None, until: int | None = None) -> list[int]:
    """Delete the rows of an owner, or of one of its sessions, up to the number ``until``; and all that learn, because
    what came after ``until`` is indexed later, and not learned from yet. And an owner's slots, for a slot belongs to no
    session. The numbers of the rows.
    """
    found = await db.execute(
        "DELETE FROM journal WHERE tenant = %(tenant)s AND user_id = %(user)s "
        "AND (lane = 'learn' OR number <= coalesce(%(until)s::bigint, number)) "
        "AND (%(session)s::text IS NULL OR session = %(session)s) RETURNING number",
        {"tenant": scope.tenant, "user": scope.user, "until": until, "session": session},
    )
    gone = [number for (number,) in await found.fetchall()]
    await _advance(db, {(*scope.owner, lane) for lane in ("index", "learn")})
    if session is None:
        await db.execute("DELETE FROM refusals WHERE tenant = %s AND user_id = %s", scope.owner)
        await db.execute("DELETE FROM slots WHERE tenant = %s AND user_id = %s", scope.owner)
    return gone


async def _holders(db: Db, columns: Columns, owner: Owner, names: Sequence[str]) -> dict[str, str]:
    """Slot name to the memory id that holds it."""
    wanted = {columns.slot(name): name for name in names}
    found = await db.execute(
        "SELECT slot, holder FROM slots WHERE tenant = %s AND user_id = %s AND slot = ANY(%s)", [*owner, list(wanted)]
    )
    return {wanted[slot]: holder for slot, holder in await found.fetchall()}


async def _change_slots(db: Db, columns: Columns, owner: Owner, changes: Sequence[SlotChange]) -> None:
    """Change slots one after the other, under their owner's lock.

    Raises:
        SlotTaken: one does not hold what was expected.
    """
    if not changes:
        return
    held = await _holders(db, columns, owner, [change.slot for change in changes])
    before = dict(held)
    for change in changes:
        if held.get(change.slot) != change.expected:
            raise SlotTaken
        if change.new is None:
            held.pop(change.slot, None)
        else:
            held[change.slot] = change.new
    freed = [columns.slot(name) for name in before if name not in held]
    await db.execute("DELETE FROM slots WHERE tenant = %s AND user_id = %s AND slot = ANY(%s)", [*owner, freed])
    taken = {columns.slot(name): holder for name, holder in held.items() if before.get(name) != holder}
    await db.execute(
        """
        INSERT INTO slots SELECT %s, %s, * FROM unnest(%s::text[], %s::text[])
        ON CONFLICT (tenant, user_id, slot) DO UPDATE SET holder = excluded.holder
        """,
        [*owner, list(taken), list(taken.values())],
    )
