"""The statements of what is kept about callers. Each function runs inside a transaction that its caller opened."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

import msgspec

from memproxy.core.audit import AUDIT_VERSION, BY_JWT, Audited, AuditEntry
from memproxy.core.choices import CHOICES_VERSION, NOTHING_CHOSEN, Choices
from memproxy.core.scope import Scope
from memproxy.ports import Charge, GivenAnswer, Spent
from memproxy.ports.state import ANSWERS_KEPT
from memproxy.stores.sqlite_erased import MARK, is_gone, name_now, name_of
from memproxy.stores.sqlite_journal import micros, moment

MOST_AUDITED = 100_000
"""Audit entries kept of all tenants together, some 300 bytes each; the oldest go first."""

USER = "user_id"
"""The field of an audit entry's scope that names a user."""

_PRUNED_AT_ONCE = 500
_WHOLE_TENANT = ""
"""Stands for the tenant as a whole among its users: no user has an empty name."""


def spend(db: sqlite3.Connection, batch: Sequence[tuple[Sequence[Charge], datetime]]) -> list[Spent | None]:
    """Count each one's charges, in their order; for one that would go over a limit none of its own."""
    return [_spend(db, charges, now) for charges, now in batch]


def _spend(db: sqlite3.Connection, charges: Sequence[Charge], now: datetime) -> Spent | None:
    before = [spent(db, charge, now) for charge in charges]
    for one in before:
        if one.charge.limit is not None and one.used + one.charge.amount > one.charge.limit:
            return one
    for one in before:
        charge = one.charge
        db.execute(
            """
            INSERT INTO uses (tenant, user, what, ends, used) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (tenant, user, what) DO UPDATE SET
                used = CASE WHEN ends > ? THEN used ELSE 0 END + excluded.used,
                ends = CASE WHEN ends > ? THEN ends ELSE excluded.ends END
            """,
            (*_place(db, charge), _seconds(now) + charge.seconds, charge.amount, _seconds(now), _seconds(now)),
        )
    return None


def spent(db: sqlite3.Connection, charge: Charge, now: datetime) -> Spent:
    """What was counted in the window under way."""
    row = db.execute(
        "SELECT used, ends FROM uses WHERE tenant = ? AND user = ? AND what = ? AND ends > ?",
        (*_place(db, charge), _seconds(now)),
    ).fetchone()
    used, ends = row or (0, _seconds(now) + charge.seconds)
    return Spent(charge=charge, used=used, wait_s=ends - _seconds(now))


def _place(db: sqlite3.Connection, charge: Charge) -> tuple[str, str, str]:
    user = name_of(db, (charge.tenant, charge.user)) if charge.user else _WHOLE_TENANT
    return charge.tenant, user, charge.what


def _seconds(now: datetime) -> int:
    """Seconds since 1970."""
    return micros(now) // 1_000_000


def prune_uses(db: sqlite3.Connection, now: datetime) -> None:
    """Drop windows that are past."""
    db.execute("DELETE FROM uses WHERE ends <= ?", (_seconds(now),))


def own_choices(db: sqlite3.Connection, scope: Scope) -> Choices | None:
    """What was set for exactly this owner or agent."""
    row = db.execute(
        "SELECT chosen FROM choices WHERE tenant = ? AND user IN (?, ?) AND agent = ?",
        (*scope.owner, name_of(db, scope.owner), scope.agent or ""),
    ).fetchone()
    return msgspec.json.decode(row[0], type=Choices) if row else None


def choices(db: sqlite3.Connection, scope: Scope) -> Choices:
    """What holds for the owner and its agent."""
    owner = Scope(tenant=scope.tenant, user=scope.user)
    wider = own_choices(db, owner) or NOTHING_CHOSEN
    own = own_choices(db, scope) if scope.agent is not None else None
    return own.over(wider) if own is not None else wider


def choose(db: sqlite3.Connection, scope: Scope, chosen: Choices, at: datetime) -> None:
    """Set, or delete, what is chosen for the owner or its agent."""
    other, agent = name_of(db, scope.owner), scope.agent or ""
    db.execute("DELETE FROM choices WHERE tenant = ? AND user IN (?, ?) AND agent = ?", (*scope.owner, other, agent))
    if chosen != NOTHING_CHOSEN:
        form = msgspec.json.encode(chosen).decode()
        learns = None if chosen.learning is None else int(chosen.learning)
        db.execute(
            "INSERT INTO choices (tenant, user, agent, at, version, learning, chosen) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (scope.tenant, name_now(db, scope.owner), agent, micros(at), CHOICES_VERSION, learns, form),
        )


def given_answer(db: sqlite3.Connection, scope: Scope, name: str) -> GivenAnswer | None:
    """One kept answer."""
    row = db.execute(
        "SELECT asked, at, answer, erased FROM answers WHERE tenant = ? AND user = ? AND name = ?",
        (*_owner(db, scope), name),
    ).fetchone()
    return GivenAnswer(asked=row[0], at=moment(row[1]), answer=row[2], erased=bool(row[3])) if row else None


def keep_answer(db: sqlite3.Connection, scope: Scope, name: str, given: GivenAnswer) -> None:
    """Keep one; some that are too old go."""
    db.execute(
        "INSERT OR REPLACE INTO answers (tenant, user, name, asked, at, answer, erased) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*_owner(db, scope), name, given.asked, micros(given.at), given.answer, int(given.erased)),
    )
    old = micros(given.at - ANSWERS_KEPT)
    db.execute(
        "DELETE FROM answers WHERE rowid IN (SELECT rowid FROM answers WHERE at < ? LIMIT ?)", (old, _PRUNED_AT_ONCE)
    )


def drop_answer(db: sqlite3.Connection, scope: Scope, name: str) -> None:
    """Delete one."""
    db.execute("DELETE FROM answers WHERE tenant = ? AND user = ? AND name = ?", (*_owner(db, scope), name))


def erase_answers(db: sqlite3.Connection, scope: Scope) -> None:
    """Delete what the owner's answers said."""
    db.execute(
        "UPDATE answers SET answer = NULL, erased = 1 WHERE tenant = ? AND user = ? AND answer IS NOT NULL",
        _owner(db, scope),
    )


def note_audit(db: sqlite3.Connection, entries: Sequence[AuditEntry]) -> None:
    """Write entries; the oldest beyond `MOST_AUDITED` go."""
    number = 0
    for entry in entries:
        named = _named(db, entry)
        written = db.execute(
            "INSERT INTO audit (tenant, at, version, entry) VALUES (?, ?, ?, ?)",
            (entry.tenant, micros(entry.at), AUDIT_VERSION, msgspec.json.encode(named).decode()),
        )
        number = written.lastrowid or number
    db.execute("DELETE FROM audit WHERE number <= ?", (number - MOST_AUDITED,))


def _named(db: sqlite3.Connection, entry: AuditEntry) -> AuditEntry:
    """The entry, with a digest for the name of a user who was erased, and of who did it if it is one."""
    for user in {entry.scope.get(USER), entry.by.removeprefix(BY_JWT) if entry.by.startswith(BY_JWT) else None}:
        if user is not None and not user.startswith(MARK) and is_gone(db, (entry.tenant, user)):
            entry = _without(entry, user, name_of(db, (entry.tenant, user)))
    return entry


def _without(entry: AuditEntry, user: str, name: str) -> AuditEntry:
    scope = {**entry.scope, USER: name} if entry.scope.get(USER) == user else entry.scope
    return msgspec.structs.replace(entry, scope=scope, by=BY_JWT + name if entry.by == BY_JWT + user else entry.by)


def _leave_audit(db: sqlite3.Connection, owner: tuple[str, str]) -> None:
    """Put the digest for the owner's name in what was written before."""
    tenant, user = owner
    rows = db.execute(
        """
        SELECT number, entry FROM audit
        WHERE tenant = ? AND (json_extract(entry, '$.scope.user_id') = ? OR json_extract(entry, '$.by') = ?)
        """,
        (tenant, user, BY_JWT + user),
    ).fetchall()
    for number, stored in rows:
        left = _without(msgspec.json.decode(stored, type=AuditEntry), user, name_of(db, owner))
        db.execute("UPDATE audit SET entry = ? WHERE number = ?", (msgspec.json.encode(left).decode(), number))


def _owner(db: sqlite3.Connection, scope: Scope) -> tuple[str, str]:
    """Answers are found by a digest: one is given to who erases a user, and stands there after it."""
    return scope.tenant, name_of(db, scope.owner)


def audit(db: sqlite3.Connection, tenant: str | None, before: int | None, limit: int) -> list[Audited]:
    """Entries, newest first."""
    rows = db.execute(
        """
        SELECT number, entry FROM audit WHERE (tenant = ? OR ? IS NULL) AND (number < ? OR ? IS NULL)
        ORDER BY number DESC LIMIT ?
        """,
        (tenant, tenant, before, before, limit),
    )
    return [Audited(number=number, entry=msgspec.json.decode(entry, type=AuditEntry)) for number, entry in rows]


def erase(db: sqlite3.Connection, scope: Scope, session: str | None) -> None:
    """Delete the owner's answers, or of a session's what they said, and the name in the audit log. Choices stay, under
    a digest (`sqlite_journal.insert`): they say nothing of what was remembered, and who switched memory off does not
    want it on again for having erased everything. So does the count of uses, which is past in an hour.
    """
    if session is None:
        db.execute("DELETE FROM answers WHERE tenant = ? AND user = ?", _owner(db, scope))
        _leave_audit(db, scope.owner)
    else:
        erase_answers(db, scope)
