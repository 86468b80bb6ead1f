"""The journal in the state's file: who claims rows, and how they end (`ports.JournalStore`)."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from memproxy.core.scope import Scope
from memproxy.errors import NotFound
from memproxy.ports import Ending, JournalKind, JournalRow, Recovered, SlotChange
from memproxy.stores.shared_commit import SharedCommit
from memproxy.stores.sqlite_db import SqliteDb, driven
from memproxy.stores.sqlite_file import SqliteDatabase, SqliteFile
from memproxy.stores.state_journal import (
    CRASH_DELAY,
    MOST_PLAN_BYTES,
    MOST_RUN_BYTES,
    PLAN,
    StateJournal,
    change_slots,
    claimed,
)
from memproxy.stores.state_part import Db, Sealing, micros
from memproxy.tasks import TaskOwner

_HEADS = "lane = ? AND head = 1 AND state = 'waiting' AND due <= ?"
_LEARNABLE = """
    AND NOT EXISTS (
        SELECT 1 FROM journal AS earlier
        WHERE earlier.tenant = row.tenant AND earlier.user = row.user AND earlier.lane = 'index'
        AND earlier.state != 'parked' AND earlier.number < row.number)
"""
_COLUMNS = "number, kind, version, request_id, body, plan, attempts, scope"
_BODY, _ATTEMPTS = 4, 6


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a row ended: done, or ``refused`` for good."""

    number: int
    refused: bool


class SqliteJournal(StateJournal):
    """`ports.JournalStore` in the state's file."""

    is_shared = False

    def __init__(self, file: SqliteFile, tasks: TaskOwner, sealing: Sealing) -> None:
        super().__init__(SqliteDatabase(file, tasks), tasks, sealing)
        self._file = file
        self._ends: SharedCommit[End, None] = SharedCommit(tasks, lambda ends: file.write(lambda db: remove(db, ends)))

    async def other_engines(self) -> int:
        return 0

    def shared(self, time: datetime) -> datetime:
        return time

    @property
    def knows_time(self) -> bool:
        return True

    async def recover(self, *, max_attempts: int, now: datetime) -> Recovered:
        return await self._file.write(lambda db: recover(db, max_attempts, now))

    async def claim(
        self,
        lane: str,
        *,
        limit: int,
        now: datetime,
        run: int = 1,
        leaving: Collection[str] = (),  # noqa: ARG002 - the protocol's
    ) -> list[JournalRow]:
        if not await self._file.glance(lambda db: claimable(db, lane, now)):
            return []
        return await self._file.write(lambda db: driven(claim(db, self._sealing, lane, limit, now, run=run)))

    async def save_plan(self, number: int, plan: bytes, slots: Sequence[SlotChange]) -> bool:
        async def work(db: Db) -> None:
            owner = await db.first("SELECT tenant, user_id FROM journal WHERE number = :number", number=number)
            if owner is None:
                raise NotFound(f"Journal row {number} is gone: its owner was erased. Nothing is left to do for it.")
            tenant, user = owner
            columns = await self._sealing.made(db, (tenant, user))
            await change_slots(db, columns, (tenant, user), slots)
            sealed = columns.seal(plan, PLAN)
            await db.run("UPDATE journal SET plan = :plan WHERE number = :number", plan=sealed, number=number)

        return await self._unless_taken(work)

    @asynccontextmanager
    async def alone(self, scope: Scope) -> AsyncIterator[bool]:  # noqa: ARG002 - the protocol's
        yield True

    async def finish(
        self,
        number: int,
        *,
        error: str | None = None,
        kind: str = "MemproxyError",  # noqa: ARG002 - the protocol's
    ) -> None:
        await self._ends.add(End(number=number, refused=error is not None))

    async def ending(self, number: int) -> Ending | None:  # noqa: ARG002 - the protocol's
        return None

    async def retry(self, number: int, *, error: str, due: datetime, counted: bool) -> None:
        await self._file.write(lambda db: put_back(db, number, error=error, due=due, counted=counted))

    async def park(self, number: int, *, error: str) -> None:
        now = datetime.now(UTC)
        await self._file.write(lambda db: park(db, number, error=error, now=now))


def recover(db: SqliteDb, max_attempts: int, now: datetime) -> Recovered:
    """Running rows become waiting, or parked after too many tries; what waited for its time is due now."""
    # a restart often comes because what rows wait for was mended
    db.execute("UPDATE journal SET due = 0 WHERE state = 'waiting'")
    running = db.execute("SELECT number, attempts FROM journal WHERE state = 'running'").fetchall()
    parked = {}
    for number, attempts in running:
        died = f"the engine ended while it worked on this row, {attempts + 1} tries in all"
        if attempts + 1 >= max_attempts:
            park(db, number, error=died, now=now)
            parked[number] = attempts + 1
        else:
            due = now + CRASH_DELAY * (4 ** min(attempts, 4) - 1)
            put_back(db, number, error=died, due=due, counted=True)
    return Recovered(again=len(running) - len(parked), parked=parked)


def claimable(db: SqliteDb, lane: str, now: datetime) -> bool:
    """Whether there is something to claim (a question that keeps nobody else from writing)."""
    where = f"{_HEADS} {_LEARNABLE if lane == 'learn' else ''}"
    found = db.execute(f"SELECT 1 FROM journal AS row WHERE {where} LIMIT 1", (lane, micros(now)))  # noqa: S608
    return found.fetchone() is not None


async def claim(
    db: SqliteDb, sealing: Sealing, lane: str, limit: int, now: datetime, *, run: int = 1
) -> list[JournalRow]:
    """Take the oldest heads that are due, and with each up to ``run`` - 1 rows that stand right behind it. One that
    cannot be read has an empty body, which is refused for good.
    """
    where = f"{_HEADS} {_LEARNABLE if lane == 'learn' else ''}"
    heads = db.execute(
        f"SELECT {_COLUMNS} FROM journal AS row WHERE {where} ORDER BY number LIMIT ?",  # noqa: S608 (no value in it)
        (lane, micros(now), limit),
    ).fetchall()
    rows, plan_bytes = [], MOST_PLAN_BYTES
    for head in heads:
        behind = _behind(db, lane, head, limit=run - 1, plan_bytes=plan_bytes, now=now)
        plan_bytes = max(MOST_RUN_BYTES, plan_bytes - sum(len(row[_BODY]) for row in behind))
        rows += [head, *behind]
    db.executemany("UPDATE journal SET state = 'running' WHERE number = ?", [(row[0],) for row in rows])
    owners = [db.scope(row[-1]).owner for row in rows]
    return [claimed(db, await sealing.of(db, owner), row) for owner, row in zip(owners, rows, strict=True)]


def _behind(db: SqliteDb, lane: str, head: tuple[Any, ...], *, limit: int, plan_bytes: int, now: datetime) -> list[Any]:
    """Rows of the head's owner that may go with it. A row that was tried before goes alone, so that the one that fails,
    or ends the engine, can be told from its neighbours. Plans go with plans up to ``plan_bytes``.
    """
    if limit <= 0 or head[_ATTEMPTS]:
        return []
    scope = db.scope(head[-1])
    candidates = db.execute(
        f"SELECT {_COLUMNS}, state = 'waiting' AND due <= ? AND attempts = 0 FROM journal "  # noqa: S608 (as above)
        "WHERE tenant = ? AND user = ? AND lane = ? AND state != 'parked' AND number > ? ORDER BY number LIMIT ?",
        (micros(now), *scope.owner, lane, head[0], limit),
    )
    rows, size, only_plans = [], len(head[_BODY]), head[1] == JournalKind.PLAN
    for *row, free in candidates:
        size += len(row[_BODY])
        only_plans = only_plans and row[1] == JournalKind.PLAN
        if not free or size > (plan_bytes if only_plans else MOST_RUN_BYTES):
            break
        rows.append(tuple(row))
    return rows


def remove(db: SqliteDb, ends: Sequence[End]) -> list[None]:
    """Delete rows (`secure_delete` overwrites them) and let the next of their owners be claimed."""
    waiting = set()
    for end in ends:
        row = db.execute("DELETE FROM journal WHERE number = ? RETURNING tenant, user, lane", (end.number,)).fetchone()
        if row is None:
            continue
        waiting.add(row)
        if end.refused:
            db.execute("INSERT INTO refused VALUES (?, 1) ON CONFLICT (lane) DO UPDATE SET rows = rows + 1", (row[2],))
    for owner in waiting:
        _advance(db, *owner)
    return [None] * len(ends)


def put_back(db: SqliteDb, number: int, *, error: str, due: datetime, counted: bool) -> None:
    """Wait until ``due``."""
    db.execute(
        """
        UPDATE journal SET state = 'waiting', due = ?, error = ?, attempts = attempts + ?
        WHERE number = ? AND state = 'running'
        """,
        (micros(due), error, int(counted), number),
    )


def park(db: SqliteDb, number: int, *, error: str, now: datetime) -> None:
    """Set a row aside and let the next of its owner be claimed."""
    row = db.execute(
        """
        UPDATE journal SET state = 'parked', head = 0, attempts = attempts + 1, error = ?, parked_at = ?
        WHERE number = ? RETURNING tenant, user, lane
        """,
        (error, micros(now), number),
    ).fetchone()
    if row is not None:
        _advance(db, *row)


def _advance(db: SqliteDb, tenant: str, user: str, lane: str) -> None:
    """The oldest unfinished row of an owner and lane becomes the head."""
    db.execute(
        """
        UPDATE journal SET head = 1 WHERE number = (
            SELECT min(number) FROM journal WHERE tenant = ? AND user = ? AND lane = ? AND state != 'parked')
        """,
        (tenant, user, lane),
    )
