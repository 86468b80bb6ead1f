"""Receipts of requests, and what was learned from their turns (`ports.ReceiptStore`)."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from memproxy.core.receipt import RECEIPT_VERSION, Decided, Noted, Outcome, Recalled, Receipt, ReceiptPart
from memproxy.core.scope import OwnerKey, Scope
from memproxy.stores.state_part import OWNED, PRUNE_EVERY, Columns, Db, Row, StatePart, owned, visible, within

RECEIPTS_KEPT = timedelta(days=7)  # receipts and outcomes answer questions about the last days; they are no archive
MOST_RECEIPTS = 100_000
"""Receipts (and as many outcomes) kept of all owners together, about 4 KB each; the oldest go first."""

MOST_OF_A_TENANT = 20_000  # the same of one tenant, so that a busy one does not cost the others their receipts
PRUNED_AT_ONCE = 2_000  # rows of one pruning, so that no single transaction is long

QUERY, CONTENT = "receipt.query", "outcome.content"

_TABLES = {"receipts": "tenant, user_id, request_id", "outcomes": "number"}
"""With the key of each."""


class StateReceipts(StatePart):
    """`ports.ReceiptStore`."""

    _noted = 0

    async def note_receipts(self, parts: Sequence[ReceiptPart]) -> None:
        if not parts:
            return
        old_count = self._noted
        self._noted += len(parts)

        async def work(db: Db) -> None:
            for part in parts:
                if await self._erased.is_too_late(db, part.scope, part.at):
                    continue
                columns = await self._sealing.for_writing(db, part.scope.owner)
                await db.run(  # it replaces an earlier one of its kind and leaves the other kind as it is
                    f"""
                    INSERT INTO receipts ({db.scope_columns}, request_id, at, version, recalled, decided)
                    VALUES ({db.scope_values}, :request, :at, :version, :recalled, :decided)
                    ON CONFLICT (tenant, user_id, request_id) DO UPDATE SET version = excluded.version,
                        recalled = coalesce(excluded.recalled, receipts.recalled),
                        decided = coalesce(excluded.decided, receipts.decided)
                    """,
                    request=part.request_id,
                    at=part.at,
                    version=RECEIPT_VERSION,
                    recalled=sealed_query(columns, part.recalled),
                    decided=part.decided,
                    **db.scope_params(part.scope),
                )

        await self._database.write(work, *{part.scope.owner for part in parts})
        if not old_count or old_count // PRUNE_EVERY != self._noted // PRUNE_EVERY:
            await self._database.write(lambda db: prune(db, max(part.at for part in parts)))

    async def receipt(self, scope: Scope, request_id: str) -> Receipt | None:
        async def work(db: Db) -> Receipt | None:
            columns, values = await self._sealing.of(db, scope.owner), {"request": request_id, **owned(scope.owner)}
            row = await db.first(
                f"SELECT request_id, at, recalled, decided, {db.scope_read} FROM receipts "
                f"WHERE {OWNED} AND request_id = :request",
                **values,
            )
            if columns is None or row is None:
                return None
            outcomes = await db.all(
                """
                SELECT body FROM outcomes JOIN outcome_requests ON outcomes.number = outcome_requests.outcome
                WHERE outcome_requests.tenant = :tenant AND outcome_requests.user_id = :user
                    AND outcome_requests.request_id = :request ORDER BY outcomes.number
                """,
                **values,
            )
            learned = [_outcome(columns, body) for (body,) in outcomes]
            return msgspec.structs.replace(_receipt(db, columns, row), outcomes=learned)

        return await self._database.read(work)

    async def receipts(
        self,
        scope: Scope,
        *,
        session: str | None,
        memory_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> list[Receipt]:
        async def work(db: Db) -> list[Receipt]:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return []
            where, values = visible(db, scope)
            where += within(session)
            if memory_id is not None:  # as JSON writes it; the caller looks closer
                where += f" AND {db.holds('coalesce(decided, recalled)', 'given')}"
            at, request_id = before or (None, None)
            if before is not None:
                where += " AND (at, request_id) < (:at, :before)"
            rows = await db.all(
                f"SELECT request_id, at, recalled, decided, {db.scope_read} FROM receipts WHERE {where} "
                "ORDER BY at DESC, request_id DESC LIMIT :limit",
                session=session,
                given=db.json(memory_id),
                at=at,
                before=request_id,
                limit=limit,
                **values,
            )
            return [_receipt(db, columns, row) for row in rows]

        return await self._database.read(work)

    async def note_outcomes(self, number: int, outcomes: Sequence[Outcome], at: datetime) -> None:
        async def find(db: Db) -> Scope | None:
            row = await db.first(f"SELECT {db.scope_read} FROM journal WHERE number = :number", number=number)
            return None if row is None else db.scope(*row)

        async def work(db: Db) -> None:
            if (receipt := await find(db)) is not None:
                columns = await self._sealing.for_writing(db, receipt.owner)
                await _note_outcomes(db, columns, receipt, number, outcomes, at=at)

        scope = await self._database.read(find)
        if scope is not None:
            await self._database.write(work, scope.owner)

    async def outcomes(self, scope: Scope, *, session: str | None, limit: int) -> list[Noted]:
        async def work(db: Db) -> list[Noted]:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return []
            where, values = visible(db, scope)
            rows = await db.all(
                f"SELECT at, body, {db.scope_read} FROM outcomes WHERE {where}{within(session)} "
                "AND result NOT IN ('nothing', 'tokens') ORDER BY number DESC LIMIT :limit",
                session=session,
                limit=limit,
                **values,
            )
            return [
                Noted(at=db.moment(at), scope=db.scope(*scope_row), outcome=_outcome(columns, body))
                for at, body, *scope_row in rows
            ]

        return await self._database.read(work)

    async def forget_receipts(self, scope: Scope, projects: Collection[str], sessions: Collection[str]) -> None:
        async def work(db: Db) -> None:
            for table in _TABLES:
                await db.run(
                    f"DELETE FROM {table} WHERE {OWNED} AND {db.scoped('project')} = ANY(:projects)"
                    f"{' AND session = ANY(:sessions)' if sessions else ''}",
                    projects=list(projects),
                    **({"sessions": list(sessions)} if sessions else {}),
                    **owned(scope.owner),
                )

        await self._database.write(work, scope.owner)

    async def forget_queries(self, scope: Scope, sessions: Collection[str], turn_ids: Collection[str]) -> None:
        owner = owned(scope.owner)

        async def work(db: Db) -> None:
            receipts = await db.all(  # a query may be completed from earlier messages
                f"SELECT request_id, recalled FROM receipts "
                f"WHERE {OWNED} AND coalesce(session, '') = ANY(:sessions) AND recalled IS NOT NULL",
                sessions=list(sessions),
                **owner,
            )
            for request_id, stored in receipts:
                recalled = msgspec.json.decode(stored, type=Recalled)
                if recalled.query:
                    emptied = msgspec.structs.replace(recalled, query="")
                    text = f"UPDATE receipts SET recalled = :left WHERE {OWNED} AND request_id = :request"
                    await db.run(text, left=emptied, request=request_id, **owner)
            for number, stored in await db.all(f"SELECT number, body FROM outcomes WHERE {OWNED}", **owner):
                outcome = msgspec.json.decode(stored, type=Outcome)
                if outcome.content is not None and outcome.turn_id in turn_ids:
                    bare = msgspec.structs.replace(outcome, content=None)
                    await db.run("UPDATE outcomes SET body = :left WHERE number = :number", left=bare, number=number)

        await self._database.write(work, scope.owner)


def sealed_query(columns: Columns, recalled: Recalled | None) -> Recalled | None:
    """What was recalled, as it is written."""
    if recalled is None or not recalled.query:
        return recalled
    return msgspec.structs.replace(recalled, query=columns.seal_text(recalled.query, QUERY))


def sealed_content(columns: Columns, outcome: Outcome) -> Outcome:
    """The outcome as it is written."""
    if outcome.content is None:
        return outcome
    return msgspec.structs.replace(outcome, content=columns.seal_text(outcome.content, CONTENT))


def _outcome(columns: Columns, stored: str | bytes) -> Outcome:
    outcome = msgspec.json.decode(stored, type=Outcome)
    if outcome.content is None:
        return outcome
    return msgspec.structs.replace(outcome, content=columns.open_text(outcome.content, CONTENT))


def _receipt(db: Db, columns: Columns, row: Row) -> Receipt:
    request_id, at, stored, decided, *scope_row = row
    recalled = None if stored is None else msgspec.json.decode(stored, type=Recalled)
    if recalled is not None:
        recalled = msgspec.structs.replace(recalled, query=columns.open_text(recalled.query, QUERY))
    return Receipt(
        request_id=request_id,
        scope=db.scope(*scope_row),
        at=db.moment(at),
        recalled=recalled,
        decided=None if decided is None else msgspec.json.decode(decided, type=Decided),
    )


async def _note_outcomes(
    db: Db, columns: Columns, scope: Scope, number: int, outcomes: Sequence[Outcome], *, at: datetime
) -> None:
    """Write the outcomes of learning from a journal row; once, however often it is called."""
    for index, noted in enumerate(outcomes):
        outcome = await _new_outcome(db, scope.owner, noted)
        if outcome is None:
            continue
        written = await db.numbered(
            f"""
            INSERT INTO outcomes ({db.scope_columns}, journal, place, at, result, version, body)
            VALUES ({db.scope_values}, :journal, :place, :at, :result, :version, :body)
            ON CONFLICT (journal, place) DO NOTHING
            """,
            journal=number,
            place=index,
            at=at,
            result=outcome.result,
            version=RECEIPT_VERSION,
            body=sealed_content(columns, outcome),
            **db.scope_params(scope),
        )
        if written is not None:
            rows = [(*scope.owner, request_id, written) for request_id in outcome.request_ids]
            await db.insert("outcome_requests", "tenant, user_id, request_id, outcome", rows)


async def _new_outcome(db: Db, owner: OwnerKey, outcome: Outcome) -> Outcome | None:
    """The outcome, unless it says that nothing was found in turns from which something was learned before."""
    if outcome.result != "nothing":
        return outcome
    rows = await db.all(
        f"SELECT request_id FROM outcome_requests WHERE {OWNED} AND request_id = ANY(:ids)",
        ids=list(outcome.request_ids),
        **owned(owner),
    )
    known_ids = {request_id for (request_id,) in rows}
    new = [name for name in outcome.request_ids if name not in known_ids]
    return msgspec.structs.replace(outcome, request_ids=new) if new else None


async def prune(db: Db, now: datetime, *, most: int = MOST_RECEIPTS, most_of_a_tenant: int = MOST_OF_A_TENANT) -> None:
    """Forget some of what is too old, and of the oldest beyond ``most``, and beyond ``most_of_a_tenant`` of one."""
    for table in _TABLES:
        await _drop_oldest(db, table, "at < :before", PRUNED_AT_ONCE, before=now - RECEIPTS_KEPT)
        rows: dict[str, int] = dict(await db.all(f"SELECT tenant, count(*) FROM {table} GROUP BY tenant"))
        for tenant, number in rows.items():
            if number > most_of_a_tenant:
                await _drop_oldest(db, table, "tenant = :tenant", number - most_of_a_tenant, tenant=tenant)
        if (number := sum(rows.values())) > most:
            await _drop_oldest(db, table, "true", number - most)


async def _drop_oldest(db: Db, table: str, where: str, number: int, **values: Any) -> None:
    await db.drop_some(table, _TABLES[table], f"{where} ORDER BY at", min(number, PRUNED_AT_ONCE), **values)


async def erase(db: Db, scope: Scope, session: str | None) -> None:
    """Delete the receipts and outcomes of an owner, or of one of its sessions."""
    for table in _TABLES:
        await db.run(f"DELETE FROM {table} WHERE {OWNED}{within(session)}", session=session, **owned(scope.owner))
