"""Receipts of requests, and what was learned from their turns (`ports.ReceiptStore`)."""

import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import msgspec

from memproxy.core.receipt import RECEIPT_VERSION, Decided, Noted, Outcome, Recalled, Receipt, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.stores import sqlite_erased as erased
from memproxy.stores.sqlite_journal import owner_of, seen
from memproxy.stores.sqlite_part import PRUNE_EVERY, Columns, Owner, SqlitePart, micros, moment

RECEIPTS_KEPT = timedelta(days=7)
"""Receipts and outcomes answer questions about the last days; they are no archive."""

MOST_RECEIPTS = 100_000
"""Receipts (and as many outcomes) kept of all owners together, about 4 KB each; the oldest go first."""

MOST_OF_A_TENANT = 20_000
"""The same of one tenant, so that a busy one does not cost the others their receipts."""

PRUNED_AT_ONCE = 2_000
"""Rows of one pruning, so that no single transaction is long."""

QUERY, CONTENT = "receipt.query", "outcome.content"
"""What the columns with texts are sealed as."""


class SqliteReceipts(SqlitePart):
    """`ports.ReceiptStore` in the state's file."""

    _noted = 0

    async def note_receipts(self, parts: Sequence[ReceiptPart]) -> None:
        before = self._noted
        self._noted += len(parts)
        prunes = not before or before // PRUNE_EVERY != self._noted // PRUNE_EVERY

        def work(db: sqlite3.Connection) -> None:
            for part in parts:
                if not erased.is_too_late(db, part.scope, part.at):
                    note(db, self._sealing.made(db, part.scope.owner), part)
            if prunes and parts:
                prune(db, max(part.at for part in parts))

        await self._commits.add(work)

    async def receipt(self, scope: Scope, request_id: str) -> Receipt | None:
        def work(db: sqlite3.Connection) -> Receipt | None:
            columns = self._sealing.of(db, scope.owner)
            return None if columns is None else find(db, columns, scope, request_id)

        return await self._file.read(work)

    async def receipts(
        self,
        scope: Scope,
        *,
        session: str | None,
        memory_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> list[Receipt]:
        def work(db: sqlite3.Connection) -> list[Receipt]:
            columns = self._sealing.of(db, scope.owner)
            if columns is None:
                return []
            return newest(db, columns, scope, session=session, memory_id=memory_id, before=before, limit=limit)

        return await self._file.read(work)

    async def note_outcomes(self, number: int, outcomes: Sequence[Outcome], at: datetime) -> None:
        def work(db: sqlite3.Connection) -> None:
            if (owner := owner_of(db, number)) is not None:
                note_outcomes(db, self._sealing.made(db, owner), number, outcomes, at)

        await self._file.write(work)

    async def outcomes(self, scope: Scope, *, session: str | None, limit: int) -> list[Noted]:
        def work(db: sqlite3.Connection) -> list[Noted]:
            columns = self._sealing.of(db, scope.owner)
            return [] if columns is None else recent(db, columns, scope, session, limit)

        return await self._file.read(work)

    async def forget_receipts(self, scope: Scope, projects: Collection[str], sessions: Collection[str]) -> None:
        await self._file.write(lambda db: erase_projects(db, scope.owner, projects, sessions))

    async def forget_queries(self, scope: Scope, sessions: Collection[str], turn_ids: Collection[str]) -> None:
        await self._file.write(lambda db: forget_queries(db, scope.owner, sessions, turn_ids))


def note(db: sqlite3.Connection, columns: Columns, part: ReceiptPart) -> None:
    """Write a part; it replaces an earlier one of its kind and leaves the other kind as it is."""
    db.execute(
        """
        INSERT INTO receipts (tenant, user, request_id, session, scope, at, version, recalled, decided)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, user, request_id) DO UPDATE SET
            version = excluded.version, recalled = ifnull(excluded.recalled, recalled),
            decided = ifnull(excluded.decided, decided)
        """,
        (
            *part.scope.owner,
            part.request_id,
            part.scope.session,
            msgspec.json.encode(part.scope).decode(),
            micros(part.at),
            RECEIPT_VERSION,
            _text(sealed_query(columns, part.recalled)),
            _text(part.decided),
        ),
    )


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


def _outcome(columns: Columns, stored: str) -> Outcome:
    outcome = msgspec.json.decode(stored, type=Outcome)
    if outcome.content is None:
        return outcome
    return msgspec.structs.replace(outcome, content=columns.open_text(outcome.content, CONTENT))


def find(db: sqlite3.Connection, columns: Columns, scope: Scope, request_id: str) -> Receipt | None:
    """The owner's receipt of this request, with its outcomes, oldest first."""
    row = db.execute(
        "SELECT request_id, scope, at, recalled, decided FROM receipts "
        "WHERE tenant = ? AND user = ? AND request_id = ?",
        (*scope.owner, request_id),
    ).fetchone()
    if row is None:
        return None
    outcomes = db.execute(
        """
        SELECT body FROM outcomes JOIN outcome_requests ON outcomes.number = outcome_requests.outcome
        WHERE outcome_requests.tenant = ? AND outcome_requests.user = ? AND outcome_requests.request_id = ?
        ORDER BY outcomes.number
        """,
        (*scope.owner, request_id),
    )
    return msgspec.structs.replace(_receipt(columns, row), outcomes=[_outcome(columns, body) for (body,) in outcomes])


def newest(
    db: sqlite3.Connection,
    columns: Columns,
    scope: Scope,
    *,
    session: str | None,
    memory_id: str | None,
    before: tuple[datetime, str] | None,
    limit: int,
) -> list[Receipt]:
    """Receipts without their outcomes, newest first."""
    where, values = seen("tenant = ? AND user = ?", scope)
    parameters: list[str | int] = [*values]
    if session is not None:
        where, parameters = f"{where} AND session = ?", [*parameters, session]
    if memory_id is not None:  # as JSON writes it; the caller looks closer
        text = msgspec.json.encode(memory_id).decode()
        where, parameters = f"{where} AND instr(ifnull(decided, recalled), ?)", [*parameters, text]
    if before is not None:
        where, parameters = f"{where} AND (at, request_id) < (?, ?)", [*parameters, micros(before[0]), before[1]]
    rows = db.execute(
        "SELECT request_id, scope, at, recalled, decided FROM receipts "  # noqa: S608 (no value in the text)
        f"WHERE {where} ORDER BY at DESC, request_id DESC LIMIT ?",
        [*parameters, limit],
    )
    return [_receipt(columns, row) for row in rows]


def _receipt(columns: Columns, row: tuple[str, str, int, str | None, str | None]) -> Receipt:
    request_id, place, at, stored, decided = row
    recalled = None if stored is None else msgspec.json.decode(stored, type=Recalled)
    if recalled is not None:
        recalled = msgspec.structs.replace(recalled, query=columns.open_text(recalled.query, QUERY))
    return Receipt(
        request_id=request_id,
        scope=msgspec.json.decode(place, type=Scope),
        at=moment(at),
        recalled=recalled,
        decided=None if decided is None else msgspec.json.decode(decided, type=Decided),
    )


def note_outcomes(
    db: sqlite3.Connection, columns: Columns, number: int, outcomes: Sequence[Outcome], at: datetime
) -> None:
    """Write the outcomes of learning from a journal row; once, however often it is called, and not if the row was
    erased.
    """
    row = db.execute("SELECT tenant, user, session, scope FROM journal WHERE number = ?", (number,)).fetchone()
    if row is None:
        return
    tenant, user, session, scope = row
    for place, given in enumerate(outcomes):
        outcome = _news(db, (tenant, user), given)
        if outcome is None:
            continue
        body = _text(sealed_content(columns, outcome))
        cursor = db.execute(
            """
            INSERT INTO outcomes (tenant, user, session, scope, journal, place, at, result, version, body)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (journal, place) DO NOTHING RETURNING number
            """,
            (tenant, user, session, scope, number, place, micros(at), outcome.result, RECEIPT_VERSION, body),
        ).fetchone()
        if cursor is not None:
            db.executemany(
                "INSERT OR IGNORE INTO outcome_requests VALUES (?, ?, ?, ?)",
                [(tenant, user, request_id, cursor[0]) for request_id in outcome.request_ids],
            )


def _news(db: sqlite3.Connection, owner: Owner, outcome: Outcome) -> Outcome | None:
    """The outcome, unless it says that nothing was found in turns from which something was learned before."""
    if outcome.result != "nothing":
        return outcome
    asked = "SELECT 1 FROM outcome_requests WHERE tenant = ? AND user = ? AND request_id = ?"
    new = [each for each in outcome.request_ids if db.execute(asked, (*owner, each)).fetchone() is None]
    return msgspec.structs.replace(outcome, request_ids=new) if new else None


def recent(db: sqlite3.Connection, columns: Columns, scope: Scope, session: str | None, limit: int) -> list[Noted]:
    """The outcomes that the scope sees (or one session's), newest first; those that changed nothing are left out."""
    where, values = seen("tenant = ? AND user = ?", scope)
    if session is not None:
        where, values = f"{where} AND session = ?", (*values, session)
    rows = db.execute(
        "SELECT at, scope, body FROM outcomes "  # noqa: S608 (no value in the text)
        f"WHERE {where} AND result NOT IN ('nothing', 'tokens') ORDER BY number DESC LIMIT ?",
        (*values, limit),
    )
    return [
        Noted(
            at=moment(at),
            scope=msgspec.json.decode(place, type=Scope),
            outcome=_outcome(columns, body),
        )
        for at, place, body in rows
    ]


def prune(
    db: sqlite3.Connection, now: datetime, *, most: int = MOST_RECEIPTS, most_of_a_tenant: int = MOST_OF_A_TENANT
) -> None:
    """Forget some of what is too old, and some of the oldest beyond ``most``, and beyond ``most_of_a_tenant`` of one
    tenant; called now and then.
    """
    before = micros(now - RECEIPTS_KEPT)
    for table in ("receipts", "outcomes"):
        db.execute(
            f"DELETE FROM {table} WHERE rowid IN "  # noqa: S608 (no value in the text)
            f"(SELECT rowid FROM {table} WHERE at < ? ORDER BY at LIMIT ?)",
            (before, PRUNED_AT_ONCE),
        )
        _prune_tenants(db, table, most_of_a_tenant)
        (rows,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 (no value in the text)
        if rows > most:
            db.execute(
                f"DELETE FROM {table} WHERE rowid IN "  # noqa: S608 (no value in the text)
                f"(SELECT rowid FROM {table} ORDER BY at LIMIT ?)",
                (min(rows - most, PRUNED_AT_ONCE),),
            )


def _prune_tenants(db: sqlite3.Connection, table: str, most: int) -> None:
    crowded = db.execute(
        f"SELECT tenant, count(*) FROM {table} GROUP BY tenant HAVING count(*) > ?",  # noqa: S608 (no value in the text)
        (most,),
    ).fetchall()
    for tenant, rows in crowded:
        db.execute(
            f"DELETE FROM {table} WHERE rowid IN "  # noqa: S608 (no value in the text)
            f"(SELECT rowid FROM {table} WHERE tenant = ? ORDER BY at LIMIT ?)",
            (tenant, min(rows - most, PRUNED_AT_ONCE)),
        )


def erase(db: sqlite3.Connection, scope: Scope, session: str | None) -> None:
    """Delete the receipts and outcomes of an owner, or of one of its sessions."""
    where, values = ("AND session = ?", (session,)) if session is not None else ("", ())
    for table in ("receipts", "outcomes"):
        db.execute(
            f"DELETE FROM {table} WHERE tenant = ? AND user = ? {where}",  # noqa: S608 (no value in the text)
            (*scope.owner, *values),
        )


def erase_projects(
    db: sqlite3.Connection, owner: Owner, projects: Collection[str], sessions_of: Collection[str]
) -> None:
    """Delete the receipts and outcomes of an owner's requests in these projects, and sessions if there are any."""
    for table in ("receipts", "outcomes"):
        rows = db.execute(
            f"SELECT rowid, scope FROM {table} WHERE tenant = ? AND user = ?",  # noqa: S608 (no value in the text)
            owner,
        ).fetchall()
        places = [(number, msgspec.json.decode(scope, type=Scope)) for number, scope in rows]
        here = [(number, one) for number, one in places if not sessions_of or one.session in sessions_of]
        gone = [(number,) for number, one in here if one.project in projects]
        db.executemany(f"DELETE FROM {table} WHERE rowid = ?", gone)  # noqa: S608 (no value in the text)


def forget_queries(
    db: sqlite3.Connection, owner: Owner, sessions_of: Collection[str], turn_ids: Collection[str]
) -> None:
    """Erase the words that receipts hold of deleted turns: of their sessions the searched queries (a query may be
    completed from earlier messages), and what learning rejected from them. The rest of the receipts stays.
    """
    gone = set(turn_ids)
    for session in sessions_of:
        rows = db.execute(
            "SELECT rowid, recalled FROM receipts "
            "WHERE tenant = ? AND user = ? AND ifnull(session, '') = ? AND recalled IS NOT NULL",
            (*owner, session),
        ).fetchall()
        for number, stored in rows:
            recalled = msgspec.json.decode(stored, type=Recalled)
            if recalled.query:
                left = msgspec.structs.replace(recalled, query="")
                db.execute("UPDATE receipts SET recalled = ? WHERE rowid = ?", (_text(left), number))
    rows = db.execute("SELECT number, body FROM outcomes WHERE tenant = ? AND user = ?", owner).fetchall()
    for number, stored in rows:
        outcome = msgspec.json.decode(stored, type=Outcome)
        if outcome.content is not None and outcome.turn_id in gone:
            bare = msgspec.structs.replace(outcome, content=None)
            db.execute("UPDATE outcomes SET body = ? WHERE number = ?", (_text(bare), number))


def _text(part: msgspec.Struct | None) -> str | None:
    return None if part is None else msgspec.json.encode(part).decode()
