"""The journal and the slot register, which a journal row's plan changes."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from memproxy.core.scope import Scope
from memproxy.errors import NotFound
from memproxy.ports import Ending, JournalEntry, JournalKind, JournalRow, ParkedRow, Recovered, SlotChange
from memproxy.stores import sqlite_erased as erased
from memproxy.stores.sqlite_file import SharedCommit, SqliteFile
from memproxy.stores.sqlite_part import Columns, Owner, Sealing, SqlitePart, chunks, marks, micros, moment
from memproxy.tasks import TaskOwner

LANES = {JournalKind.TURNS: "index", JournalKind.PLAN: "index", JournalKind.LEARN: "learn"}
CRASH_DELAY = timedelta(seconds=0.5)
"""After a first death of the engine a row goes on at once, after the next ones in 1.5, 7.5, 31.5, 127.5 s: what ran
beside the one that kills is done meanwhile, and is not blamed again.
"""

BODY, PLAN = "journal.body", "journal.plan"
"""What the columns with texts are sealed as."""

STATES = ("waiting", "running", "parked")

MOST_RUN_BYTES = 64 * 1024
"""Bodies of rows that are claimed together: large ones are handled and acknowledged one at a time."""

MOST_PLAN_BYTES = 24 * 1024 * 1024
"""The same of plans, all owners' in one claim: each is handled alone, they only share the flush that acknowledges them.
Somewhat more than a piece of an import (`transfers.PIECE_BYTES`) makes: a flush for each row would take longer than all
else that it needs.
"""

_HEADS = "lane = ? AND head = 1 AND state = 'waiting' AND due <= ?"
_LEARNABLE = """
    AND NOT EXISTS (
        SELECT 1 FROM journal AS earlier
        WHERE earlier.tenant = row.tenant AND earlier.user = row.user AND earlier.lane = 'index'
        AND earlier.state != 'parked' AND earlier.number < row.number)
"""
_COLUMNS = "number, kind, version, scope, request_id, body, plan, attempts"


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a row ended: done, or ``refused`` for good."""

    number: int
    refused: bool


class SqliteJournal(SqlitePart):
    """`ports.JournalStore` and `ports.SlotStore`."""

    def __init__(self, file: SqliteFile, tasks: TaskOwner, sealing: Sealing) -> None:
        super().__init__(file, tasks, sealing)
        self._ends: SharedCommit[End, None] = SharedCommit(file, tasks, remove)

    async def other_engines(self) -> int:
        return 0

    def shared(self, time: datetime) -> datetime:
        return time

    @property
    def knows_time(self) -> bool:
        return True

    async def append(self, entry: JournalEntry) -> int:
        return await self._commits.add(lambda db: append(db, self._sealing, entry))

    async def recover(self, *, max_attempts: int, now: datetime) -> Recovered:
        return await self._file.write(lambda db: recover(db, max_attempts, now))

    is_shared = False

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
        return await self._file.write(lambda db: claim(db, self._sealing, lane, limit, now, run=run))

    async def save_plan(self, number: int, plan: bytes, slots: Sequence[SlotChange]) -> bool:
        def work(db: sqlite3.Connection) -> None:
            owner = owner_of(db, number)
            if owner is None:
                raise NotFound(f"Journal row {number} is gone: its owner was erased. Nothing is left to do for it.")
            columns = self._sealing.made(db, owner)
            change_slots(db, columns, owner, slots)
            sealed = columns.seal(plan, PLAN)
            db.execute("UPDATE journal SET plan = ? WHERE number = ?", (sealed, number))

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

    async def make_due(self, numbers: Sequence[int], now: datetime) -> None:
        await self._file.write(lambda db: make_due(db, numbers, now))

    async def park(self, number: int, *, error: str) -> None:
        now = datetime.now(UTC)
        await self._file.write(lambda db: park(db, number, error=error, now=now))

    async def parked(self, scope: Scope | None, *, limit: int) -> list[ParkedRow]:
        return await self._file.read(lambda db: parked(db, scope, limit))

    async def unpark(self, scope: Scope | None) -> int:
        return await self._file.write(lambda db: unpark(db, scope))

    async def backlog(self, scope: Scope) -> dict[str, dict[str, int]]:
        return await self._file.read(lambda db: sizes_of(db, scope.owner))

    async def queue_sizes(self) -> dict[str, dict[str, int]]:
        return await self._file.read(sizes)

    async def queue_ages(self, now: datetime) -> dict[str, float]:
        return await self._file.read(lambda db: ages(db, now))

    async def slots(self, scope: Scope, names: Sequence[str]) -> dict[str, str]:
        def work(db: sqlite3.Connection) -> dict[str, str]:
            columns = self._sealing.of(db, scope.owner)
            return {} if columns is None else holders(db, columns, scope.owner, names)

        return await self._file.read(work)

    async def change_slots(self, scope: Scope, changes: Sequence[SlotChange]) -> bool:
        return await self._unless_taken(
            lambda db: change_slots(db, self._sealing.made(db, scope.owner), scope.owner, changes)
        )

    async def drop_slots(self, scope: Scope, prefix: str) -> None:
        await self._file.write(lambda db: drop_slots(db, scope.owner, prefix))

    async def _unless_taken(self, work: Callable[[sqlite3.Connection], None]) -> bool:
        with suppress(SlotTaken):
            await self._file.write(work)
            return True
        return False

    async def refused(self) -> dict[str, int]:
        """Rows that were refused for good since the file was made, by lane."""
        return await self._file.read(lambda db: dict(db.execute("SELECT lane, rows FROM refused").fetchall()))


def append(db: sqlite3.Connection, sealing: Sealing, entry: JournalEntry) -> int:
    """Append an entry, unless its owner was erased meanwhile (0); what it erases is erased from now on."""
    if erased.is_too_late(db, entry.scope, entry.captured_at):
        return 0  # before a key is made
    for scope in entry.erases:
        erased.note(db, scope)
    erased.came_back(db, entry.scope.owner)
    return insert(db, sealing.made(db, entry.scope.owner), entry)


def insert(db: sqlite3.Connection, columns: Columns, entry: JournalEntry) -> int:
    """Write a row; answers its number."""
    scope, lane = entry.scope, LANES[entry.kind]
    db.execute("INSERT OR IGNORE INTO owners VALUES (?, ?)", scope.owner)
    cursor = db.execute(
        """
        INSERT INTO journal (lane, kind, version, tenant, user, session, scope, request_id, body, at, head)
        VALUES (:lane, :kind, :version, :tenant, :user, :session, :scope, :request, :body, :at, NOT EXISTS (
            SELECT 1 FROM journal WHERE tenant = :tenant AND user = :user AND lane = :lane AND state != 'parked'))
        """,
        {
            "lane": lane,
            "kind": entry.kind.value,
            "version": entry.version,
            "tenant": scope.tenant,
            "user": scope.user,
            "session": scope.session,
            "scope": msgspec.json.encode(scope).decode(),
            "request": entry.request_id,
            "body": columns.seal(entry.body, BODY),
            "at": micros(datetime.now(UTC)),
        },
    )
    return int(cursor.lastrowid or 0)


def recover(db: sqlite3.Connection, max_attempts: int, now: datetime) -> Recovered:
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


def claimable(db: sqlite3.Connection, lane: str, now: datetime) -> bool:
    """Whether there is something to claim (a question that keeps nobody else from writing)."""
    where = f"{_HEADS} {_LEARNABLE if lane == 'learn' else ''}"
    found = db.execute(f"SELECT 1 FROM journal AS row WHERE {where} LIMIT 1", (lane, micros(now)))  # noqa: S608
    return found.fetchone() is not None


def claim(
    db: sqlite3.Connection, sealing: Sealing, lane: str, limit: int, now: datetime, *, run: int = 1
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
        plan_bytes = max(MOST_RUN_BYTES, plan_bytes - sum(len(row[5]) for row in behind))
        rows += [head, *behind]
    db.executemany("UPDATE journal SET state = 'running' WHERE number = ?", [(row[0],) for row in rows])
    return [_claimed(db, sealing, row) for row in rows]


def _behind(
    db: sqlite3.Connection, lane: str, head: tuple[Any, ...], *, limit: int, plan_bytes: int, now: datetime
) -> list[Any]:
    """Rows of the head's owner that may go with it. A row that was tried before goes alone, so that the one that fails,
    or ends the engine, can be told from its neighbours. Plans go with plans up to ``plan_bytes``.
    """
    if limit <= 0 or head[-1]:
        return []
    scope = msgspec.json.decode(head[3], type=Scope)
    candidates = db.execute(
        f"SELECT {_COLUMNS}, state = 'waiting' AND due <= ? AND attempts = 0 FROM journal "  # noqa: S608 (as above)
        "WHERE tenant = ? AND user = ? AND lane = ? AND state != 'parked' AND number > ? ORDER BY number LIMIT ?",
        (micros(now), *scope.owner, lane, head[0], limit),
    )
    rows, size, only_plans = [], len(head[5]), head[1] == JournalKind.PLAN
    for *row, free in candidates:
        size += len(row[5])
        only_plans = only_plans and row[1] == JournalKind.PLAN
        if not free or size > (plan_bytes if only_plans else MOST_RUN_BYTES):
            break
        rows.append(tuple(row))
    return rows


def _claimed(db: sqlite3.Connection, sealing: Sealing, row: tuple[Any, ...]) -> JournalRow:
    number, kind, version, stored, request_id, body, plan, attempts = row
    scope = msgspec.json.decode(stored, type=Scope)
    columns = sealing.of(db, scope.owner)
    entry = JournalEntry(
        kind=JournalKind(kind),
        scope=scope,
        body=b"" if columns is None else columns.open(body, BODY),
        request_id=request_id,
        version=version,
    )
    opened = None if plan is None or columns is None else columns.open(plan, PLAN)
    return JournalRow(number=number, entry=entry, attempts=attempts, plan=opened)


def owner_of(db: sqlite3.Connection, number: int) -> tuple[str, str] | None:
    """Tenant and user of a row."""
    found: tuple[str, str] | None = db.execute(
        "SELECT tenant, user FROM journal WHERE number = ?", (number,)
    ).fetchone()
    return found


def remove(db: sqlite3.Connection, ends: Sequence[End]) -> list[None]:
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


def put_back(db: sqlite3.Connection, number: int, *, error: str, due: datetime, counted: bool) -> None:
    """Wait until ``due``."""
    db.execute(
        """
        UPDATE journal SET state = 'waiting', due = ?, error = ?, attempts = attempts + ?
        WHERE number = ? AND state = 'running'
        """,
        (micros(due), error, int(counted), number),
    )


def make_due(db: sqlite3.Connection, numbers: Sequence[int], now: datetime) -> None:
    """Those of these rows that wait may be claimed from now on; what was claimed or parked meanwhile stays as it is."""
    rows = [(micros(now), number) for number in numbers]
    db.executemany("UPDATE journal SET due = ? WHERE number = ? AND state = 'waiting'", rows)


def park(db: sqlite3.Connection, number: int, *, error: str, now: datetime) -> None:
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


def _advance(db: sqlite3.Connection, tenant: str, user: str, lane: str) -> None:
    """The oldest unfinished row of an owner and lane becomes the head."""
    db.execute(
        """
        UPDATE journal SET head = 1 WHERE number = (
            SELECT min(number) FROM journal WHERE tenant = ? AND user = ? AND lane = ? AND state != 'parked')
        """,
        (tenant, user, lane),
    )


def unpark(db: sqlite3.Connection, scope: Scope | None) -> int:
    """Parked rows wait again, as if they had never been tried, behind all others: under new numbers."""
    where, owner = ("AND tenant = ? AND user = ?", scope.owner) if scope is not None else ("", ())
    now = micros(datetime.now(UTC))
    numbers = db.execute(
        f"SELECT number FROM journal WHERE state = 'parked' {where} ORDER BY number",  # noqa: S608 (no value in it)
        owner,
    ).fetchall()
    for number in numbers:
        db.execute(
            """
            INSERT INTO journal (lane, kind, version, tenant, user, session, scope, request_id, body, plan, at, head)
            SELECT lane, kind, version, tenant, user, session, scope, request_id, body, plan, ?, NOT EXISTS (
                SELECT 1 FROM journal AS other WHERE other.tenant = own.tenant AND other.user = own.user
                AND other.lane = own.lane AND other.state != 'parked')
            FROM journal AS own WHERE number = ?
            """,
            (now, *number),
        )
        db.execute("DELETE FROM journal WHERE number = ?", number)
    return len(numbers)


def seen(where: str, scope: Scope) -> tuple[str, tuple[str, ...]]:
    """A condition on the owner, and on the column ``scope``: what is of the scope's project (agent) or of none. With
    its values.
    """
    values: tuple[str, ...] = scope.owner
    for name, mine in (("project", scope.project), ("agent", scope.agent)):
        if mine is not None:
            where += f" AND coalesce(json_extract(scope, '$.{name}'), ?) = ?"
            values = (*values, mine, mine)
    return where, values


def parked(db: sqlite3.Connection, scope: Scope | None, limit: int) -> list[ParkedRow]:
    """Parked rows, newest first."""
    where, owner = ("", ()) if scope is None else seen("AND tenant = ? AND user = ?", scope)
    rows = db.execute(
        "SELECT number, kind, scope, error, attempts, parked_at FROM journal "  # noqa: S608 (no value in the text)
        f"WHERE state = 'parked' {where} ORDER BY parked_at DESC, number DESC LIMIT ?",
        (*owner, limit),
    )
    return [
        ParkedRow(
            number=number,
            kind=JournalKind(kind),
            scope=msgspec.json.decode(stored, type=Scope),
            error=error or "",
            attempts=attempts,
            parked_at=moment(at),
        )
        for number, kind, stored, error, attempts, at in rows
    ]


def sizes(db: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Rows by lane and state, zeros included."""
    counted = {lane: dict.fromkeys(STATES, 0) for lane in ("index", "learn")}
    for lane, state, rows in db.execute("SELECT lane, state, count(*) FROM journal GROUP BY lane, state"):
        counted[lane][state] = rows
    return counted


def ages(db: sqlite3.Connection, now: datetime) -> dict[str, float]:
    """Seconds since the oldest row of each lane was written that waits or runs; 0 where there is none."""
    found = {}
    for lane in ("index", "learn"):
        # one question for each state: for each the index has the answer at once, however many rows there are
        oldest = [
            db.execute(
                "SELECT at FROM journal WHERE number = (SELECT min(number) FROM journal WHERE lane = ? AND state = ?)",
                (lane, state),
            ).fetchone()
            for state in ("waiting", "running")
        ]
        times = [row[0] for row in oldest if row is not None]
        found[lane] = max(0.0, (micros(now) - min(times)) / 1_000_000) if times else 0.0
    return found


def sizes_of(db: sqlite3.Connection, owner: tuple[str, str]) -> dict[str, dict[str, int]]:
    """An owner's rows by lane and state, zeros included."""
    counted = {lane: dict.fromkeys(STATES, 0) for lane in ("index", "learn")}
    # two questions, for each of which there is an index
    for which in ("state != 'parked'", "state = 'parked' AND lane IN ('index', 'learn')"):
        rows = db.execute(
            "SELECT lane, state, count(*) FROM journal "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND {which} GROUP BY lane, state",
            owner,
        )
        for lane, state, number in rows:
            counted[lane][state] = number
    return counted


def erase(db: sqlite3.Connection, scope: Scope, session: str | None, until: int | None = None) -> list[int]:
    """Delete the rows of an owner, or of one of its sessions, up to the number ``until``; and all that learn, because
    what came after ``until`` is indexed later, and not learned from yet. With an owner go its slots. The rows' numbers.
    """
    where, values = ("AND session = ?", (session,)) if session is not None else ("", ())
    gone = db.execute(
        "DELETE FROM journal WHERE tenant = ? AND user = ? "  # noqa: S608 (no value in the text)
        f"AND (lane = 'learn' OR number <= ifnull(?, number)) {where} RETURNING number",
        (*scope.owner, until, *values),
    ).fetchall()
    for lane in ("index", "learn"):
        _advance(db, *scope.owner, lane)
    if session is None:  # a slot belongs to no session
        db.execute("DELETE FROM slots WHERE tenant = ? AND user = ?", scope.owner)
    return [number for (number,) in gone]


class SlotTaken(Exception):
    """A slot does not hold what was expected; raised to roll the transaction back."""


def holders(db: sqlite3.Connection, columns: Columns, owner: Owner, names: Sequence[str]) -> dict[str, str]:
    """Slot name to the memory id that holds it."""
    wanted = {columns.slot(name): name for name in names}
    held: dict[str, str] = {}
    for some in chunks(list(wanted)):
        rows = db.execute(
            "SELECT slot, holder FROM slots "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND slot IN ({marks(some)})",
            (*owner, *some),
        )
        held |= {wanted[slot]: holder for slot, holder in rows}
    return held


def change_slots(db: sqlite3.Connection, columns: Columns, owner: Owner, changes: Sequence[SlotChange]) -> None:
    """Change slots one after the other.

    Raises:
        SlotTaken: one does not hold what was expected.
    """
    for change in changes:
        if holders(db, columns, owner, [change.slot]).get(change.slot) != change.expected:
            raise SlotTaken
        place = (*owner, columns.slot(change.slot))
        if change.new is None:
            db.execute("DELETE FROM slots WHERE tenant = ? AND user = ? AND slot = ?", place)
        else:
            db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?)", (*place, change.new))


def drop_slots(db: sqlite3.Connection, owner: Owner, prefix: str) -> None:
    """Free the slots whose names begin so."""
    db.execute(
        "DELETE FROM slots WHERE tenant = ? AND user = ? AND slot >= ? AND substr(slot, 1, ?) = ?",
        (*owner, prefix, len(prefix), prefix),
    )
