"""Receipts of requests, and what was learned from their turns, in PostgreSQL (`ports.ReceiptStore`)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.receipt import RECEIPT_VERSION, Decided, Noted, Outcome, Recalled, Receipt, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.stores.postgres_state_database import Db, Owner, one
from memproxy.stores.postgres_state_part import PLACE, PostgresPart, place_of, scope_of, seen
from memproxy.stores.sqlite_part import PRUNE_EVERY, Columns
from memproxy.stores.sqlite_receipts import (
    CONTENT,
    MOST_OF_A_TENANT,
    MOST_RECEIPTS,
    PRUNED_AT_ONCE,
    QUERY,
    RECEIPTS_KEPT,
    sealed_content,
    sealed_query,
)

TABLES = ("receipts", "outcomes")


class PostgresReceipts(PostgresPart):
    """`ports.ReceiptStore`."""

    _noted = 0

    async def note_receipts(self, parts: Sequence[ReceiptPart]) -> None:
        if not parts:
            return
        before = self._noted
        self._noted += len(parts)
        async with self._database.of(*{part.scope.owner for part in parts}) as db:
            for part in parts:
                if not await self._erased.is_too_late(db, part.scope, part.at):
                    await _note(db, await self._sealing.made(db, part.scope.owner), part)
        if not before or before // PRUNE_EVERY != self._noted // PRUNE_EVERY:
            async with self._database.transaction() as db:
                await prune(db, max(part.at for part in parts))

    async def receipt(self, scope: Scope, request_id: str) -> Receipt | None:
        async with self._database.connected() as db:
            columns = await self._sealing.of(db, scope.owner)
            return None if columns is None else await _find(db, columns, scope, request_id)

    async def receipts(
        self,
        scope: Scope,
        *,
        session: str | None,
        memory_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> list[Receipt]:
        where, values = seen(scope)
        at, request_id = before or (None, None)
        given = None if memory_id is None else msgspec.json.encode(memory_id)  # as JSON writes it
        async with self._database.connected() as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return []
            found = await db.execute(
                f"SELECT request_id, at, recalled, decided, {PLACE} FROM receipts WHERE {where} "
                "AND (%(session)s::text IS NULL OR session = %(session)s) "
                "AND (%(given)s::bytea IS NULL OR position(%(given)s::bytea IN coalesce(decided, recalled)) > 0) "
                "AND (%(at)s::timestamptz IS NULL OR (at, request_id) < (%(at)s, %(before)s)) "
                "ORDER BY at DESC, request_id DESC LIMIT %(limit)s",
                {**values, "session": session, "given": given, "at": at, "before": request_id, "limit": limit},
            )
            return [_receipt(columns, row) for row in await found.fetchall()]

    async def note_outcomes(self, number: int, outcomes: Sequence[Outcome], at: datetime) -> None:
        async with self._database.connected() as db:
            row = await (await db.execute(f"SELECT {PLACE} FROM journal WHERE number = %s", [number])).fetchone()
        if row is None:
            return
        scope = scope_of(*row)
        async with self._database.of(scope.owner) as db:
            (is_there,) = await one(db, "SELECT EXISTS (SELECT FROM journal WHERE number = %s)", [number])
            if is_there:
                columns = await self._sealing.made(db, scope.owner)
                await _note_outcomes(db, columns, scope, number, outcomes, at=at)

    async def outcomes(self, scope: Scope, *, session: str | None, limit: int) -> list[Noted]:
        where, values = seen(scope)
        async with self._database.connected() as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return []
            found = await db.execute(
                f"SELECT at, body, {PLACE} FROM outcomes WHERE {where} "
                "AND (%(session)s::text IS NULL OR session = %(session)s) AND result NOT IN ('nothing', 'tokens') "
                "ORDER BY number DESC LIMIT %(limit)s",
                {**values, "session": session, "limit": limit},
            )
            return [
                Noted(at=at, scope=scope_of(*place), outcome=_outcome(columns, body))
                for at, body, *place in await found.fetchall()
            ]

    async def forget_receipts(self, scope: Scope, projects: Collection[str], sessions: Collection[str]) -> None:
        async with self._database.of(scope.owner) as db:
            for table in TABLES:
                await db.execute(
                    f"DELETE FROM {table} WHERE tenant = %(tenant)s AND user_id = %(user)s "
                    "AND project = ANY(%(projects)s) AND (%(any)s OR session = ANY(%(sessions)s))",
                    {
                        "tenant": scope.tenant,
                        "user": scope.user,
                        "projects": list(projects),
                        "any": not sessions,
                        "sessions": list(sessions),
                    },
                )

    async def forget_queries(self, scope: Scope, sessions: Collection[str], turn_ids: Collection[str]) -> None:
        async with self._database.of(scope.owner) as db:
            await _forget_queries(db, scope.owner, sessions)
            await _forget_contents(db, scope.owner, set(turn_ids))


async def _note(db: Db, columns: Columns, part: ReceiptPart) -> None:
    """Write a part; it replaces an earlier one of its kind and leaves the other kind as it is."""
    await db.execute(
        f"""
        INSERT INTO receipts ({PLACE}, request_id, at, version, recalled, decided)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (tenant, user_id, request_id) DO UPDATE SET
            version = excluded.version, recalled = coalesce(excluded.recalled, receipts.recalled),
            decided = coalesce(excluded.decided, receipts.decided)
        """,
        [
            *place_of(part.scope),
            part.request_id,
            part.at,
            RECEIPT_VERSION,
            _json(sealed_query(columns, part.recalled)),
            _json(part.decided),
        ],
    )


def _outcome(columns: Columns, stored: bytes) -> Outcome:
    outcome = msgspec.json.decode(stored, type=Outcome)
    if outcome.content is None:
        return outcome
    return msgspec.structs.replace(outcome, content=columns.open_text(outcome.content, CONTENT))


async def _find(db: Db, columns: Columns, scope: Scope, request_id: str) -> Receipt | None:
    """The owner's receipt of this request, with its outcomes, oldest first."""
    row = await (
        await db.execute(
            f"SELECT request_id, at, recalled, decided, {PLACE} FROM receipts "
            "WHERE tenant = %s AND user_id = %s AND request_id = %s",
            [*scope.owner, request_id],
        )
    ).fetchone()
    if row is None:
        return None
    outcomes = await db.execute(
        """
        SELECT body FROM outcomes JOIN outcome_requests ON outcomes.number = outcome_requests.outcome
        WHERE outcome_requests.tenant = %s AND outcome_requests.user_id = %s AND outcome_requests.request_id = %s
        ORDER BY outcomes.number
        """,
        [*scope.owner, request_id],
    )
    learned = [_outcome(columns, body) for (body,) in await outcomes.fetchall()]
    return msgspec.structs.replace(_receipt(columns, row), outcomes=learned)


def _receipt(columns: Columns, row: Sequence[Any]) -> Receipt:
    request_id, at, stored, decided, *place = row
    recalled = None if stored is None else msgspec.json.decode(stored, type=Recalled)
    if recalled is not None:
        recalled = msgspec.structs.replace(recalled, query=columns.open_text(recalled.query, QUERY))
    return Receipt(
        request_id=request_id,
        scope=scope_of(*place),
        at=at,
        recalled=recalled,
        decided=None if decided is None else msgspec.json.decode(decided, type=Decided),
    )


async def _note_outcomes(
    db: Db, columns: Columns, scope: Scope, number: int, outcomes: Sequence[Outcome], *, at: datetime
) -> None:
    """Write the outcomes of learning from a journal row; once, however often it is called."""
    for place, given in enumerate(outcomes):
        outcome = await _news(db, scope.owner, given)
        if outcome is None:
            continue
        written = await db.execute(
            f"""
            INSERT INTO outcomes ({PLACE}, journal, place, at, result, version, body)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (journal, place) DO NOTHING
            RETURNING number
            """,
            [
                *place_of(scope),
                number,
                place,
                at,
                outcome.result,
                RECEIPT_VERSION,
                _json(sealed_content(columns, outcome)),
            ],
        )
        if (row := await written.fetchone()) is not None:
            await db.execute(
                "INSERT INTO outcome_requests SELECT %s, %s, request, %s FROM unnest(%s::text[]) AS request "
                "ON CONFLICT DO NOTHING",
                [*scope.owner, row[0], list(outcome.request_ids)],
            )


async def _news(db: Db, owner: Owner, outcome: Outcome) -> Outcome | None:
    """The outcome, unless it says that nothing was found in turns from which something was learned before."""
    if outcome.result != "nothing":
        return outcome
    found = await db.execute(
        "SELECT request_id FROM outcome_requests WHERE tenant = %s AND user_id = %s AND request_id = ANY(%s)",
        [*owner, list(outcome.request_ids)],
    )
    known = {request_id for (request_id,) in await found.fetchall()}
    new = [each for each in outcome.request_ids if each not in known]
    return msgspec.structs.replace(outcome, request_ids=new) if new else None


async def prune(db: Db, now: datetime, *, most: int = MOST_RECEIPTS, most_of_a_tenant: int = MOST_OF_A_TENANT) -> None:
    """Forget some of what is too old, and some of the oldest beyond ``most``, and beyond ``most_of_a_tenant`` of one
    tenant; called now and then.
    """
    for table in TABLES:
        await _drop_oldest(db, table, "at < %(before)s", {"before": now - RECEIPTS_KEPT}, PRUNED_AT_ONCE)
        found = await db.execute(f"SELECT tenant, count(*) FROM {table} GROUP BY tenant")
        rows: dict[str, int] = dict(await found.fetchall())
        for tenant, number in rows.items():
            if number > most_of_a_tenant:
                await _drop_oldest(db, table, "tenant = %(tenant)s", {"tenant": tenant}, number - most_of_a_tenant)
        if (number := sum(rows.values())) > most:
            await _drop_oldest(db, table, "true", {}, number - most)


async def _drop_oldest(db: Db, table: str, where: str, values: dict[str, object], number: int) -> None:
    await db.execute(
        f"DELETE FROM {table} WHERE ctid IN (SELECT ctid FROM {table} WHERE {where} ORDER BY at LIMIT %(number)s)",
        {**values, "number": min(number, PRUNED_AT_ONCE)},
    )


async def erase(db: Db, scope: Scope, session: str | None) -> None:
    """Delete the receipts and outcomes of an owner, or of one of its sessions."""
    for table in TABLES:
        await db.execute(
            f"DELETE FROM {table} WHERE tenant = %(tenant)s AND user_id = %(user)s "
            "AND (%(session)s::text IS NULL OR session = %(session)s)",
            {"tenant": scope.tenant, "user": scope.user, "session": session},
        )


async def _forget_queries(db: Db, owner: Owner, sessions: Collection[str]) -> None:
    """Erase what was searched for in these sessions: a query may be completed from earlier messages."""
    found = await db.execute(
        "SELECT request_id, recalled FROM receipts WHERE tenant = %s AND user_id = %s "
        "AND coalesce(session, '') = ANY(%s) AND recalled IS NOT NULL",
        [*owner, list(sessions)],
    )
    for request_id, stored in await found.fetchall():
        recalled = msgspec.json.decode(stored, type=Recalled)
        if recalled.query:
            await db.execute(
                "UPDATE receipts SET recalled = %s WHERE tenant = %s AND user_id = %s AND request_id = %s",
                [_json(msgspec.structs.replace(recalled, query="")), *owner, request_id],
            )


async def _forget_contents(db: Db, owner: Owner, turn_ids: set[str]) -> None:
    """Erase what learning rejected from these turns."""
    found = await db.execute("SELECT number, body FROM outcomes WHERE tenant = %s AND user_id = %s", owner)
    for number, stored in await found.fetchall():
        outcome = msgspec.json.decode(stored, type=Outcome)
        if outcome.content is not None and outcome.turn_id in turn_ids:
            bare = msgspec.structs.replace(outcome, content=None)
            await db.execute("UPDATE outcomes SET body = %s WHERE number = %s", [_json(bare), number])


def _json(part: msgspec.Struct | None) -> bytes | None:
    return None if part is None else msgspec.json.encode(part)
