"""What is the same of the journal in every database: how rows are written and listed, and the slot register, which a
row's plan changes. Who claims rows, and how they end, is each database's own.
"""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from memproxy.core.scope import Scope
from memproxy.ports import JournalEntry, JournalKind, JournalRow, ParkedRow, SlotChange
from memproxy.stores.state_part import OWNED, Columns, Db, Owner, Row, StatePart, owned, seen, within

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


class SlotTaken(Exception):
    """A slot does not hold what was expected; raised to roll the transaction back."""


class StateJournal(StatePart):
    """The part of `ports.JournalStore` and `ports.SlotStore` that is the same in every database."""

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
        columns = await self._sealing.made(db, entry.scope.owner)
        written = await db.numbered(
            f"""
            INSERT INTO journal (lane, kind, version, {db.place}, request_id, body, at, head)
            VALUES (:lane, :kind, :version, {db.places}, :request, :body, {db.now}, NOT EXISTS (
                SELECT 1 FROM journal WHERE {OWNED} AND lane = :lane AND state != 'parked'))
            """,
            lane=LANES[entry.kind],
            kind=entry.kind.value,
            version=entry.version,
            request=entry.request_id,
            body=columns.seal(entry.body, BODY),
            now=datetime.now(UTC),
            **db.place_of(entry.scope),
        )
        return written or 0

    async def make_due(self, numbers: Sequence[int], now: datetime) -> None:
        due = "UPDATE journal SET due = :due WHERE number = ANY(:numbers) AND state = 'waiting'"
        await self._database.run(due, due=self._database.shared(now), numbers=list(numbers))

    async def parked(self, scope: Scope | None, *, limit: int) -> list[ParkedRow]:
        async def work(db: Db) -> list[ParkedRow]:
            where, values = ("true", dict[str, str]()) if scope is None else seen(db, scope)
            rows = await db.all(
                f"SELECT number, kind, error, attempts, parked_at, {db.place_read} FROM journal "
                f"WHERE state = 'parked' AND {where} ORDER BY parked_at DESC, number DESC LIMIT :limit",
                limit=limit,
                **values,
            )
            return [
                ParkedRow(
                    number=number,
                    kind=JournalKind(kind),
                    scope=db.scope(*place),
                    error=error or "",
                    attempts=attempts,
                    parked_at=db.moment(at),
                )
                for number, kind, error, attempts, at, *place in rows
            ]

        return await self._database.read(work)

    async def unpark(self, scope: Scope | None) -> int:
        where, values = ("true", dict[str, str]()) if scope is None else (OWNED, owned(scope.owner))
        asked = f"SELECT DISTINCT tenant, user_id FROM journal WHERE state = 'parked' AND {where}"
        count = 0
        for tenant, user in sorted(await self._database.read(lambda db: db.all(asked, **values))):
            count += await self._database.write(_unparks((tenant, user)), (tenant, user))
        self._rows_came()
        return count

    async def backlog(self, scope: Scope) -> dict[str, dict[str, int]]:
        # two questions, for each of which there is an index
        which = ("state != 'parked'", "state = 'parked' AND lane IN ('index', 'learn')")
        return await self._sizes([f"{OWNED} AND {one}" for one in which], **owned(scope.owner))

    async def queue_sizes(self) -> dict[str, dict[str, int]]:
        return await self._sizes(["true"])

    async def _sizes(self, which: Sequence[str], **values: str) -> dict[str, dict[str, int]]:
        """Rows by lane and state, zeros included."""

        async def work(db: Db) -> list[Row]:
            counted = "SELECT lane, state, count(*) FROM journal WHERE {} GROUP BY lane, state"
            return [row for one in which for row in await db.all(counted.format(one), **values)]

        sizes = {lane: dict.fromkeys(STATES, 0) for lane in ("index", "learn")}
        for lane, state, rows in await self._database.read(work):
            sizes[lane][state] = rows
        return sizes

    async def queue_ages(self, now: datetime) -> dict[str, float]:
        there = self._database.shared(now)

        async def work(db: Db) -> dict[str, float]:
            found = {}
            for lane in ("index", "learn"):
                # one question for each state: for each the index has the answer at once, however many rows there are
                first = "SELECT at FROM journal WHERE lane = :lane AND state = :state ORDER BY number LIMIT 1"
                oldest = [await db.first(first, lane=lane, state=state) for state in ("waiting", "running")]
                ages = [(there - db.moment(row[0])).total_seconds() for row in oldest if row is not None]
                found[lane] = max([0.0, *ages])
            return found

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
            await change_slots(db, await self._sealing.made(db, scope.owner), scope.owner, changes)

        return await self._unless_taken(work, scope.owner)

    async def _unless_taken(self, work: Callable[[Db], Coroutine[Any, Any, None]], *owners: Owner) -> bool:
        with suppress(SlotTaken):
            await self._database.write(work, *owners)
            return True
        return False

    async def drop_slots(self, scope: Scope, prefix: str) -> None:
        await self._database.write(
            lambda db: db.run(
                f"DELETE FROM slots WHERE {OWNED} AND slot >= :prefix AND {db.begins('slot', 'prefix', 'long')}",
                prefix=prefix,
                long=len(prefix),
                **owned(scope.owner),
            ),
            scope.owner,
        )


def claimed(db: Db, columns: Columns | None, row: Row) -> JournalRow:
    """The row in the clear: number, kind, version, request, body, plan, attempts, and its scope. One that cannot be
    read has an empty body, which is refused for good.
    """
    number, kind, version, request_id, body, plan, attempts, *place = row
    entry = JournalEntry(
        kind=JournalKind(kind),
        scope=db.scope(*place),
        body=b"" if columns is None else columns.open(body, BODY),
        request_id=request_id,
        version=version,
    )
    opened = None if plan is None or columns is None else columns.open(plan, PLAN)
    return JournalRow(number=number, entry=entry, attempts=attempts, plan=opened)


def _unparks(owner: Owner) -> Callable[[Db], Coroutine[Any, Any, int]]:
    """Lets an owner's parked rows wait again, as if they had never been tried, behind all others: under new numbers."""

    async def work(db: Db) -> int:
        parked = f"SELECT number FROM journal WHERE state = 'parked' AND {OWNED} ORDER BY number"
        numbers = [number for (number,) in await db.all(parked, **owned(owner))]
        for number in numbers:
            await db.run(
                f"""
                INSERT INTO journal (lane, kind, version, {db.place}, request_id, body, plan, at, head)
                SELECT lane, kind, version, {db.place}, request_id, body, plan, {db.now}, NOT EXISTS (
                    SELECT 1 FROM journal AS other WHERE other.tenant = own.tenant AND other.user_id = own.user_id
                    AND other.lane = own.lane AND other.state != 'parked')
                FROM journal AS own WHERE number = :number
                """,
                number=number,
                now=datetime.now(UTC),
            )
            await db.run("DELETE FROM journal WHERE number = :number", number=number)
        return len(numbers)

    return work


async def erase(db: Db, scope: Scope, session: str | None, until: int | None) -> list[int]:
    """Delete the rows of an owner, or of one of its sessions, up to the number ``until``; and all that learn, because
    what came after ``until`` is indexed later, and not learned from yet. With an owner go its slots: one belongs to no
    session. The rows' numbers.
    """
    reached = "" if until is None else " AND (lane = 'learn' OR number <= :until)"
    gone = await db.all(
        f"DELETE FROM journal WHERE {OWNED}{reached}{within(session)} RETURNING number",
        until=until,
        session=session,
        **owned(scope.owner),
    )
    for lane in ("index", "learn"):  # the oldest that is left becomes the head
        await db.run(
            f"UPDATE journal SET head = {db.true} WHERE number = ("
            f"SELECT min(number) FROM journal WHERE {OWNED} AND lane = :lane AND state != 'parked')",
            lane=lane,
            **owned(scope.owner),
        )
    if session is None:
        await db.run(f"DELETE FROM slots WHERE {OWNED}", **owned(scope.owner))
    return [number for (number,) in gone]


async def _holders(db: Db, columns: Columns, owner: Owner, names: Sequence[str]) -> dict[str, str]:
    """Slot name to the memory id that holds it."""
    wanted = {columns.slot(name): name for name in names}
    held = f"SELECT slot, holder FROM slots WHERE {OWNED} AND slot = ANY(:slots)"
    return {wanted[slot]: holder for slot, holder in await db.all(held, slots=list(wanted), **owned(owner))}


async def change_slots(db: Db, columns: Columns, owner: Owner, changes: Sequence[SlotChange]) -> None:
    """Change slots one after the other, under their owner's lock.

    Raises:
        SlotTaken: one does not hold what was expected.
    """
    held = await _holders(db, columns, owner, [change.slot for change in changes]) if changes else {}
    before = dict(held)
    for change in changes:
        if held.get(change.slot) != change.expected:
            raise SlotTaken
        if change.new is None:
            held.pop(change.slot, None)
        else:
            held[change.slot] = change.new
    if freed := [columns.slot(name) for name in before if name not in held]:
        await db.run(f"DELETE FROM slots WHERE {OWNED} AND slot = ANY(:slots)", slots=freed, **owned(owner))
    await db.insert(
        "slots",
        "tenant, user_id, slot, holder",
        [(*owner, columns.slot(name), holder) for name, holder in held.items() if before.get(name) != holder],
        "(tenant, user_id, slot) DO UPDATE SET holder = excluded.holder",
    )
