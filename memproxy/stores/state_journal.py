"""What is the same of the journal in every database: how rows are written, claimed, listed and ended, and the slot
register. Which engine may claim a row, and what becomes of one that is gone, is each database's own.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

import msgspec

from memproxy.core.scope import OwnerKey, Scope
from memproxy.errors import NotFound
from memproxy.ports import JournalEntry, JournalKind, JournalRow, ParkedRow, Recovered, SlotChange
from memproxy.stores.shared_commit import SharedCommit
from memproxy.stores.state_part import OWNED, Columns, Database, Db, Row, Sealing, StatePart, owned, visible, within
from memproxy.tasks import TaskOwner

LANES = {JournalKind.TURNS: "index", JournalKind.PLAN: "index", JournalKind.LEARN: "learn"}
CRASH_DELAY = timedelta(seconds=0.5)
"""After its 2nd to 5th death of the engine a row waits 1.5, 7.5, 31.5, 127.5 s: what runs beside it is done by then."""

PARKED_FOR = (timedelta(hours=1), timedelta(hours=4), timedelta(hours=16))
"""After these a row at which engines died is tried once more each: something else may have killed them."""

_NEVER = datetime(9999, 12, 31, tzinfo=UTC)

BODY, PLAN = "journal.body", "journal.plan"
"""The labels that columns with texts are sealed with."""

STATES = ("waiting", "running", "parked")

MOST_RUN_BYTES = 64 * 1024
"""Bodies of rows that are claimed together: large ones are handled and acknowledged one at a time."""

MOST_PLAN_BYTES = 24 * 1024 * 1024
"""The same of plans, all owners' in one claim, which only share the flush that acknowledges them: somewhat more than a
piece of an import (`transfers.PIECE_BYTES`) makes, for which a flush for each row would take longest.
"""

_LEARNABLE = """
    AND NOT EXISTS (
        SELECT 1 FROM journal AS earlier
        WHERE earlier.tenant = journal.tenant AND earlier.user_id = journal.user_id AND earlier.lane = 'index'
        AND earlier.state != 'parked' AND earlier.number < journal.number)
"""


_PLACE_AT = 7  # where the scope stands in a row that is claimed


class SlotTaken(Exception):
    """A slot does not hold what was expected; raised to roll the transaction back."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a row ended: done, or with an ``error`` (``kind``: its class) refused for good."""

    number: int
    error: str | None
    kind: str


class StateJournal(StatePart):
    """The part of `ports.JournalStore` that is the same in every database."""

    is_shared: ClassVar[bool]

    mine: ClassVar[str]
    """Condition on a row that this process may change: no other engine runs it (``me``)."""

    released: ClassVar[str]
    """Changed columns of a row that nobody runs any more, with a comma behind them."""

    claims: ClassVar[str]
    """The same of a row that this process runs from now on (``me``), with a comma before them."""

    me: Mapping[str, str]
    """The value ``me``, where conditions have one."""

    heads: ClassVar[str] = "journal"
    """The table, by the index of heads where the database must be told: rows without number may wait behind each."""

    def __init__(self, database: Database, tasks: TaskOwner, sealing: Sealing) -> None:
        super().__init__(database, tasks, sealing)
        self._ends: SharedCommit[End, None] = SharedCommit(tasks, self._remove)

    def shared(self, time: datetime) -> datetime:
        return self._database.shared(time)

    @property
    def knows_time(self) -> bool:
        return self._database.is_measured

    def clock(self) -> Callable[[], datetime]:
        return self._database.clock()

    @abstractmethod
    async def _heads(self, db: Db, where: str, values: dict[str, Any]) -> list[Row]:
        """Number, kind, size of the body, attempts, tenant and user of the oldest ``limit`` heads that ``where`` lets
        be claimed. From here to the transaction's end no other engine claims rows of these owners.
        """

    async def _refuse(self, db: Db, end: End, owner: OwnerKey) -> None:
        """A row was refused for good; it is counted already."""

    async def append(self, entry: JournalEntry) -> int:
        entry = self._in_time(entry)
        number = await self._database.write(lambda db: self._append(db, entry), entry.scope.owner)
        self._rows_came()
        return number

    def _in_time(self, entry: JournalEntry) -> JournalEntry:
        """The entry, with times by the clock that all machines go by."""
        return entry

    def _rows_came(self) -> None:
        """Rows were written. Where several engines share the state, they are told."""

    async def _append(self, db: Db, entry: JournalEntry) -> int:
        """Append an entry, unless its owner was erased meanwhile (0); what it erases is erased from now on."""
        if await self._erased.is_too_late(db, entry.scope, entry.captured_at):
            return 0  # before a key is made
        for scope in entry.erases:
            await self._erased.note(db, scope)
        return await self._insert(db, entry)

    async def _insert(self, db: Db, entry: JournalEntry) -> int:
        await self._erased.came_back(db, entry.scope.owner)
        columns = await self._sealing.for_writing(db, entry.scope.owner)
        written = await db.numbered(
            f"""
            INSERT INTO journal (lane, kind, version, {db.scope_columns}, request_id, body, at, head)
            VALUES (:lane, :kind, :version, {db.scope_values}, :request, :body, {db.now}, NOT EXISTS (
                SELECT 1 FROM journal WHERE {OWNED} AND lane = :lane AND state != 'parked'))
            """,
            lane=LANES[entry.kind],
            kind=entry.kind.value,
            version=entry.version,
            request=entry.request_id,
            body=columns.seal(entry.body, BODY),
            now=datetime.now(UTC),
            **db.scope_params(entry.scope),
        )
        return written or 0

    async def claim(
        self, lane: str, *, limit: int, now: datetime, run: int = 1, leaving: Collection[str] = ()
    ) -> list[JournalRow]:
        values = {"lane": lane, "now": self._database.shared(now), "leaving": list(leaving), **self.me}

        async def look(db: Db) -> bool:
            due = f"SELECT 1 FROM {self.heads} WHERE {self._claimable(db, lane)} LIMIT 1"
            return await db.first(due, **values) is not None

        async def work(db: Db) -> list[JournalRow]:
            numbers, plan_bytes = list[int](), MOST_PLAN_BYTES
            for head in await self._heads(db, self._claimable(db, lane), {**values, "limit": limit}):
                later_numbers, size = await _run_rows(db, head, values, limit=run - 1, plan_bytes=plan_bytes)
                plan_bytes = max(MOST_RUN_BYTES, plan_bytes - size)
                numbers += [head[0], *later_numbers]
            # not by RETURNING, for which SQLite takes four times as long
            await db.run(
                f"UPDATE journal SET state = 'running'{self.claims} WHERE number = ANY(:numbers)",
                numbers=numbers,
                **self.me,
            )
            claimed = await db.all(
                f"SELECT number, kind, version, request_id, body, plan, attempts, {db.scope_read} FROM journal "
                "WHERE number = ANY(:numbers)",
                numbers=numbers,
            )
            rows = {row[0]: row for row in claimed}
            owners = {number: db.scope(*row[_PLACE_AT:]).owner for number, row in rows.items()}
            columns = {owner: await self._sealing.of(db, owner) for owner in set(owners.values())}
            return [_claimed_row(db, columns[owners[number]], rows[number]) for number in numbers if number in rows]

        # a question that keeps nobody else from writing
        if not await (self._database.read if self.is_shared else self._database.glance)(look):
            return []
        return await self._database.write(work)

    async def give_back(self, lane: str, held: Collection[int]) -> int:
        return await self._database.run(
            f"UPDATE journal SET {self.released} state = 'waiting' "
            f"WHERE lane = :lane AND state = 'running' AND {self.mine} AND NOT number = ANY(:held)",
            lane=lane,
            held=list(held),
            **self.me,
        )

    def _claimable(self, db: Db, lane: str) -> str:
        """Condition on a row: it is a head that is due, with nothing before it that it must wait for."""
        due = f"lane = :lane AND head = {db.true} AND state = 'waiting' AND (due IS NULL OR due <= :now)"
        return f"{due} {_LEARNABLE if lane == 'learn' else ''}"

    async def save_plan(self, number: int, plan: bytes, slots: Sequence[SlotChange]) -> bool:
        gone = NotFound(
            f"Journal row {number} is gone: its owner was erased, or another replica has taken it over. Nothing is "
            "left to do for it here."
        )
        owners = await self._owners_of([number])
        if not owners:
            raise gone

        async def work(db: Db) -> None:
            columns = await self._sealing.for_writing(db, owners[0])
            saved = await db.run(
                f"UPDATE journal SET plan = :plan WHERE number = :number AND {self.mine}",
                plan=columns.seal(plan, PLAN),
                number=number,
                **self.me,
            )
            if not saved:
                raise gone
            await change_slots(db, columns, owners[0], slots)

        return await self._unless_taken(work, *owners)

    async def _owners_of(self, numbers: Collection[int]) -> list[OwnerKey]:
        """The owners of those of these rows that are there."""
        of = "SELECT DISTINCT tenant, user_id FROM journal WHERE number = ANY(:numbers)"
        return [
            (tenant, user) for tenant, user in await self._database.read(lambda db: db.all(of, numbers=list(numbers)))
        ]

    async def finish(self, number: int, *, error: str | None = None, kind: str = "MemproxyError") -> None:
        await self._ends.add(End(number=number, error=error, kind=kind))

    async def _remove(self, ends: Sequence[End]) -> list[None]:
        """Delete rows, and let the next of their owners be claimed."""
        by_number = {end.number: end for end in ends}

        async def work(db: Db) -> None:
            gone = await db.all(
                f"DELETE FROM journal WHERE number = ANY(:numbers) AND {self.mine} "
                "RETURNING number, tenant, user_id, lane",
                numbers=list(by_number),
                **self.me,
            )
            await _advance(db, {(tenant, user, lane) for _, tenant, user, lane in gone})
            for number, tenant, user, lane in gone:
                if by_number[number].error is not None:
                    counted = (
                        "INSERT INTO refused VALUES (:lane, 1) ON CONFLICT (lane) DO UPDATE SET rows = refused.rows + 1"
                    )
                    await db.run(counted, lane=lane)
                    await self._refuse(db, by_number[number], (tenant, user))

        # a file that one engine alone claims from needs no owner's lock, and no question whose rows these are
        await self._database.write(work, *(await self._owners_of(by_number) if self.is_shared else ()))
        return [None] * len(ends)

    async def retry(self, number: int, *, error: str, due: datetime, counted: bool) -> None:
        due = self._database.shared(due)
        await self._database.once(lambda db: self._put_back(db, number, error, due, counted=counted, where=self.mine))

    async def park(self, number: int, *, error: str) -> None:
        owners = await self._owners_of([number])
        await self._database.write(lambda db: self._park(db, number, error, None, where=self.mine), *owners)

    async def _give_back(self, db: Db, running: Iterable[Row], most: int, now: datetime) -> Recovered:
        """Rows (number and tries) whose engine is gone wait again, or are parked after too many tries."""
        waiting, parked = 0, {}
        for number, attempts in running:
            died = f"the engine ended while it worked on this row, {attempts + 1} tries in all"
            if attempts + 1 >= most:
                again_after = dict(enumerate(PARKED_FOR, start=most)).get(attempts + 1)
                await self._park(db, number, died, now, due=now + again_after if again_after else _NEVER)
                parked[number] = attempts + 1
            else:
                due = now + CRASH_DELAY * (4 ** min(attempts, 4) - 1)
                await self._put_back(db, number, died, due, counted=True)
                waiting += 1
        return Recovered(again=waiting, parked=parked)

    async def _put_back(
        self, db: Db, number: int, error: str, due: datetime, *, counted: bool, where: str = "true"
    ) -> None:
        """Let a running row wait until ``due``, where the condition holds."""
        await db.run(
            f"UPDATE journal SET state = 'waiting', {self.released} due = :due, error = :error, "
            f"attempts = attempts + :counted WHERE number = :number AND state = 'running' AND {where}",
            due=due,
            error=error,
            counted=int(counted),
            number=number,
            **self.me,
        )

    async def _park(
        self, db: Db, number: int, error: str, at: datetime | None, *, due: datetime = _NEVER, where: str = "true"
    ) -> None:
        """Set a row aside until ``due`` where the condition holds, and let the next of its owner be claimed. ``at``
        None: now.
        """
        parked = await db.all(
            f"UPDATE journal SET state = 'parked', head = false, {self.released} attempts = attempts + 1, "
            f"error = :error, due = :due, parked_at = coalesce(:at, {db.now}) WHERE number = :number AND {where} "
            "RETURNING tenant, user_id, lane",
            error=error,
            due=due,
            at=at,
            now=datetime.now(UTC),
            number=number,
            **self.me,
        )
        await _advance(db, {(tenant, user, lane) for tenant, user, lane in parked})

    async def make_due(self, numbers: Sequence[int], now: datetime) -> None:
        due = "UPDATE journal SET due = :due WHERE number = ANY(:numbers) AND state = 'waiting'"
        await self._database.run(due, due=self._database.shared(now), numbers=list(numbers))

    async def parked(self, scope: Scope | None, *, limit: int) -> list[ParkedRow]:
        async def work(db: Db) -> list[ParkedRow]:
            where, values = ("true", dict[str, str]()) if scope is None else visible(db, scope)
            rows = await db.all(
                f"SELECT number, kind, error, attempts, parked_at, {db.scope_read} FROM journal "
                f"WHERE state = 'parked' AND {where} ORDER BY parked_at DESC, number DESC LIMIT :limit",
                limit=limit,
                **values,
            )
            return [
                ParkedRow(
                    number=number,
                    kind=JournalKind(kind),
                    scope=db.scope(*scope_row),
                    error=error or "",
                    attempts=attempts,
                    parked_at=db.moment(at),
                )
                for number, kind, error, attempts, at, *scope_row in rows
            ]

        return await self._database.read(work)

    async def unpark(self, scope: Scope | None) -> int:
        where, values = ("true", dict[str, str]()) if scope is None else (OWNED, owned(scope.owner))
        return await self._unpark(where, values)

    async def unpark_killed(self, now: datetime) -> int:
        return await self._unpark("due <= :due", {"due": self._database.shared(now)}, tries_kept=True)

    async def _unpark(self, where: str, values: dict[str, Any], *, tries_kept: bool = False) -> int:
        """Let parked rows for which the condition holds wait again, behind all others of their owners."""
        parked = f"state = 'parked' AND {where}"
        query = f"SELECT DISTINCT tenant, user_id FROM journal WHERE {parked}"
        count = 0
        for tenant, user in sorted(await self._database.read(lambda db: db.all(query, **values))):
            work = partial(_let_wait, owner=(tenant, user), parked=parked, values=values, tries_kept=tries_kept)
            count += await self._database.write(work, (tenant, user))
        self._rows_came()
        return count

    async def backlog(self, scope: Scope) -> dict[str, dict[str, int]]:
        # two questions, for each of which there is an index
        which = ("state != 'parked'", "state = 'parked' AND lane IN ('index', 'learn')")
        return await self._sizes([f"{OWNED} AND {condition}" for condition in which], **owned(scope.owner))

    async def queue_sizes(self) -> dict[str, dict[str, int]]:
        return await self._sizes(["true"])

    async def _sizes(self, which: Sequence[str], **values: str) -> dict[str, dict[str, int]]:
        """Rows by lane and state, zeros included."""

        async def work(db: Db) -> list[Row]:
            counted = "SELECT lane, state, count(*) FROM journal WHERE {} GROUP BY lane, state"
            return [row for condition in which for row in await db.all(counted.format(condition), **values)]

        sizes = {lane: dict.fromkeys(STATES, 0) for lane in ("index", "learn")}
        for lane, state, rows in await self._database.read(work):
            sizes[lane][state] = rows
        return sizes

    async def queue_ages(self, now: datetime) -> dict[str, float]:
        shared_now = self._database.shared(now)

        async def work(db: Db) -> dict[str, float]:
            by_lane = {}
            for lane in ("index", "learn"):
                # one question for each state: for each the index has the answer at once, however many rows there are
                first = "SELECT at FROM journal WHERE lane = :lane AND state = :state ORDER BY number LIMIT 1"
                oldest = [await db.first(first, lane=lane, state=state) for state in ("waiting", "running")]
                ages = [(shared_now - db.moment(row[0])).total_seconds() for row in oldest if row is not None]
                by_lane[lane] = max([0.0, *ages])
            return by_lane

        return await self._database.read(work)

    async def refused(self) -> dict[str, int]:
        """Rows that were refused for good since the state was made, by lane."""
        return dict(await self._database.read(lambda db: db.all("SELECT lane, rows FROM refused")))

    async def slots(self, scope: Scope, names: Sequence[str]) -> dict[str, str]:
        async def work(db: Db) -> dict[str, str]:
            columns = await self._sealing.of(db, scope.owner)
            return {} if columns is None else await _holders(db, columns, scope.owner, names)

        return await self._database.read(work)

    async def change_slots(self, scope: Scope, changes: Sequence[SlotChange]) -> bool:
        async def work(db: Db) -> None:
            await change_slots(db, await self._sealing.for_writing(db, scope.owner), scope.owner, changes)

        return await self._unless_taken(work, scope.owner)

    async def _unless_taken(self, work: Callable[[Db], Coroutine[Any, Any, None]], *owners: OwnerKey) -> bool:
        with suppress(SlotTaken):
            await self._database.write(work, *owners)
            return True
        return False

    async def drop_slots(self, scope: Scope, prefix: str) -> None:
        async def work(db: Db) -> None:
            gone = f"DELETE FROM slots WHERE {OWNED} AND slot >= :prefix AND {db.begins('slot', 'prefix')}"
            await db.run(gone, prefix=prefix, **owned(scope.owner))

        await self._database.write(work, scope.owner)


async def _run_rows(db: Db, head: Row, values: dict[str, Any], *, limit: int, plan_bytes: int) -> tuple[list[int], int]:
    """Rows of the head's owner that may go with it, and how many bytes they are. What was tried before goes alone, so
    that a row that fails, or ends the engine, is told from those beside it. Plans go with plans up to ``plan_bytes``.
    """
    number, kind, head_size, attempts, tenant, user = head
    if limit <= 0 or attempts:
        return [], 0
    rows = await db.all(
        "SELECT number, kind, length(body), "
        "state = 'waiting' AND (due IS NULL OR due <= :now) AND attempts = 0 FROM journal "
        f"WHERE {OWNED} AND lane = :lane AND state != 'parked' AND number > :head ORDER BY number LIMIT :most",
        head=number,
        most=limit,
        **owned((tenant, user)),
        **values,
    )
    numbers, size, only_plans = list[int](), head_size, kind == JournalKind.PLAN
    for following, its_kind, its_size, is_free in rows:
        only_plans = only_plans and its_kind == JournalKind.PLAN
        if not is_free or size + its_size > (plan_bytes if only_plans else MOST_RUN_BYTES):
            break
        numbers.append(following)
        size += its_size
    return numbers, size - head_size


async def _advance(db: Db, places: Collection[tuple[str, str, str]]) -> None:
    """The oldest unfinished row of each owner (tenant, user) and lane becomes the head."""
    await db.run_each(
        f"UPDATE journal SET head = {db.true} WHERE NOT head AND number = ("
        f"SELECT min(number) FROM journal WHERE {OWNED} AND lane = :lane AND state != 'parked')",
        [{"tenant": tenant, "user": user, "lane": lane} for tenant, user, lane in places],
    )


def _claimed_row(db: Db, columns: Columns | None, row: Row) -> JournalRow:
    """The row in the clear, with its scope behind. Unreadable, it has an empty body, which is refused for good."""
    number, kind, version, request_id, body, plan, attempts, *scope_row = row
    entry = JournalEntry(
        kind=JournalKind(kind),
        scope=db.scope(*scope_row),
        body=b"" if columns is None else columns.open(body, BODY),
        request_id=request_id,
        version=version,
    )
    opened = None if plan is None or columns is None else columns.open(plan, PLAN)
    return JournalRow(number=number, entry=entry, attempts=attempts, plan=opened)


async def _let_wait(db: Db, owner: OwnerKey, parked: str, values: dict[str, Any], *, tries_kept: bool) -> int:
    """Let an owner's parked rows wait again behind all others, under new numbers; how many."""
    numbered = f"SELECT number FROM journal WHERE {parked} AND {OWNED} ORDER BY number"
    numbers = [number for (number,) in await db.all(numbered, **{**values, **owned(owner)})]
    await db.run_each(
        f"""
        INSERT INTO journal (lane, kind, version, {db.scope_columns}, request_id, body, plan, attempts, at, head)
        SELECT lane, kind, version, {db.scope_columns}, request_id, body, plan, attempts * :kept, {db.now}, NOT EXISTS (
            SELECT 1 FROM journal AS other WHERE other.tenant = own.tenant AND other.user_id = own.user_id
            AND other.lane = own.lane AND other.state != 'parked')
        FROM journal AS own WHERE number = :number
        """,
        [{"number": number, "kept": int(tries_kept), "now": datetime.now(UTC)} for number in numbers],
    )
    await db.run("DELETE FROM journal WHERE number = ANY(:numbers)", numbers=numbers)
    return len(numbers)


async def erase(db: Db, scope: Scope, session: str | None, until: int | None) -> list[int]:
    """Delete the rows of an owner, or of one of its sessions, up to the number ``until``; and all that learn, because
    what came after it is indexed later. With an owner go its slots: one belongs to no session. The rows' numbers.
    """
    reached = "" if until is None else " AND (lane = 'learn' OR number <= :until)"
    gone = await db.all(
        f"DELETE FROM journal WHERE {OWNED}{reached}{within(session)} RETURNING number",
        until=until,
        session=session,
        **owned(scope.owner),
    )
    await _advance(db, [(*scope.owner, lane) for lane in ("index", "learn")])
    if session is None:
        await db.run(f"DELETE FROM slots WHERE {OWNED}", **owned(scope.owner))
    return [number for (number,) in gone]


async def _holders(db: Db, columns: Columns, owner: OwnerKey, names: Sequence[str]) -> dict[str, str]:
    """Slot name to the memory id that holds it."""
    by_slot = {columns.slot(name): name for name in names}
    held = f"SELECT slot, holder FROM slots WHERE {OWNED} AND slot = ANY(:slots)"
    return {by_slot[slot]: holder for slot, holder in await db.all(held, slots=list(by_slot), **owned(owner))}


async def change_slots(db: Db, columns: Columns, owner: OwnerKey, changes: Sequence[SlotChange]) -> None:
    """Change slots in their order, under their owner's lock. Raises `SlotTaken`: one holds something unexpected."""
    held = await _holders(db, columns, owner, [change.slot for change in changes]) if changes else {}
    old_holders = dict(held)
    for change in changes:
        if held.get(change.slot) != change.expected:
            raise SlotTaken
        if change.new is None:
            held.pop(change.slot, None)
        else:
            held[change.slot] = change.new
    if freed := [columns.slot(name) for name in old_holders if name not in held]:
        await db.run(f"DELETE FROM slots WHERE {OWNED} AND slot = ANY(:slots)", slots=freed, **owned(owner))
    await db.insert(
        "slots",
        "tenant, user_id, slot, holder",
        [(*owner, columns.slot(name), holder) for name, holder in held.items() if old_holders.get(name) != holder],
        "(tenant, user_id, slot) DO UPDATE SET holder = excluded.holder",
    )
