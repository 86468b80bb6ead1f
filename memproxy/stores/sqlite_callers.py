"""What is kept about callers: uses and tokens, choices, answers given, the audit log and proxy keys."""

import mmap
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

import msgspec

from memproxy.core.audit import AUDIT_VERSION, BY_JWT, Audited, AuditEntry
from memproxy.core.choices import CHOICES_VERSION, NOTHING_CHOSEN, Choices
from memproxy.core.proxykey import KeyRecord
from memproxy.core.scope import Scope
from memproxy.ports import ARM, Charge, GivenAnswer, Spent, Use
from memproxy.ports.state import ANSWERS_KEPT
from memproxy.stores.sqlite_erased import MARK, is_gone, name_now, name_of
from memproxy.stores.sqlite_file import SharedCommit, SqliteFile
from memproxy.stores.sqlite_part import PRUNE_EVERY, Owner, Sealing, SqlitePart, micros, moment, run
from memproxy.tasks import TaskOwner

CHOICES_SECONDS = 5.0
"""How long choices that were read count at most, should the news of a change not come."""

MOST_AUDITED = 100_000
"""Audit entries kept of all tenants together, some 300 bytes each; the oldest go first."""

TOKENS_KEPT = timedelta(days=400)
"""How long hours of tokens are kept: a year can be compared with the one before."""

USER = "user_id"
"""The field of an audit entry's scope that names a user."""

_MOST_KNOWN = 10_000
_PRUNED_AT_ONCE = 500
_WHOLE_TENANT = ""
"""Stands for the tenant as a whole among its users: no user has an empty name."""

_KEY_RECORD = msgspec.json.Decoder(KeyRecord)


class News:
    """Eight bytes that every process of the state sees, and that change with every change of choices or proxy keys: a
    cache knows without asking whether it is still right. In a file beside the state's, mapped into memory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes: mmap.mmap | None = None

    def open(self) -> None:
        """Map the file, made where there is none. Its place on the disk is taken first: a page that has none ends the
        process when it is touched and the disk is full.
        """
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(handle).st_size < 8:
                os.pwrite(handle, bytes(8), 0)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, 8)  # of a file that an earlier version made as a hole
            self._bytes = mmap.mmap(handle, 8)
        finally:
            os.close(handle)

    def close(self) -> None:
        """Let go."""
        if self._bytes is not None:
            self._bytes.close()
            self._bytes = None

    @property
    def last(self) -> bytes:
        """What stands there now."""
        return self._bytes[:8] if self._bytes is not None else b""

    def spread(self) -> None:
        """Something changed, and is committed. Random, so that two at once cannot make the same."""
        if self._bytes is not None:
            self._bytes[:8] = os.urandom(8)


class _Known(msgspec.Struct, frozen=True):
    choices: Choices
    news: bytes
    read_at: float


class SqliteCallers(SqlitePart):
    """`ports.UsageStore`, `ports.ChoiceStore`, `ports.AnswerStore`, `ports.AuditStore` and `ports.KeyStore`."""

    _spendings = 0

    def __init__(self, file: SqliteFile, tasks: TaskOwner, sealing: Sealing) -> None:
        super().__init__(file, tasks, sealing)
        self._spends: SharedCommit[tuple[Sequence[Charge], datetime], Spent | None] = SharedCommit(file, tasks, spend)
        self._news = News(file.path.with_name(f"{file.path.name}-choices"))
        self._known: OrderedDict[tuple[str, str, str | None], _Known] = OrderedDict()

    async def open_news(self) -> None:
        """Begin to hear of changed choices; after the file is open.

        Raises:
            StateUnavailable: the file beside the state's cannot be used.
        """
        await self._file.beside(self._news.open)

    def close_news(self) -> None:
        """Hear no more."""
        self._news.close()

    def news(self) -> bytes:
        return self._news.last

    async def spend(self, charges: Sequence[Charge], now: datetime) -> Spent | None:
        self._spendings += 1
        if self._spendings % PRUNE_EVERY == 0:
            past = "DELETE FROM uses WHERE ends <= ?"
            await self._file.write(lambda db: run(db, past, (_seconds(now),)))
        return await self._spends.add((charges, now))

    async def spent(self, charge: Charge, now: datetime) -> Spent:
        return await self._file.read(lambda db: spent(db, charge, now))

    async def uses(self, tenant: str, beginning: str) -> list[Use]:
        def work(db: sqlite3.Connection) -> list[Use]:
            wanted = "SELECT user, what, used FROM uses WHERE tenant = ? AND substr(what, 1, ?) = ? AND user != ?"
            return [Use(*row) for row in db.execute(wanted, (tenant, len(beginning), beginning, _WHOLE_TENANT))]

        return await self._file.read(work)

    async def choices(self, scope: Scope) -> Choices:
        name, news = (*scope.owner, scope.agent), self._news.last
        known = self._known.get(name)
        if known is not None and known.news == news and monotonic() - known.read_at < CHOICES_SECONDS:
            return known.choices
        found = await self._file.glance(lambda db: choices(db, scope))
        self._known[name] = _Known(found, news, monotonic())
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return found

    async def own_choices(self, scope: Scope) -> Choices | None:
        return await self._file.read(lambda db: own_choices(db, scope))

    async def choose(self, scope: Scope, choices: Choices, at: datetime) -> None:
        await self._file.write(lambda db: choose(db, scope, choices, at))
        self._news.spread()

    async def given_answer(self, scope: Scope, name: str) -> GivenAnswer | None:
        def work(db: sqlite3.Connection) -> GivenAnswer | None:
            row = db.execute(
                "SELECT asked, at, answer, erased FROM answers WHERE tenant = ? AND user = ? AND name = ?",
                (*_owner(db, scope), name),
            ).fetchone()
            return GivenAnswer(asked=row[0], at=moment(row[1]), answer=row[2], erased=bool(row[3])) if row else None

        return await self._file.read(work)

    async def keep_answer(self, scope: Scope, name: str, given: GivenAnswer) -> None:
        def work(db: sqlite3.Connection) -> None:
            row = (*_owner(db, scope), name, given.asked, micros(given.at), given.answer, int(given.erased))
            db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            db.execute(
                "DELETE FROM answers WHERE rowid IN (SELECT rowid FROM answers WHERE at < ? LIMIT ?)",
                (micros(given.at - ANSWERS_KEPT), _PRUNED_AT_ONCE),
            )

        await self._file.write(work)

    async def drop_answer(self, scope: Scope, name: str) -> None:
        drop = "DELETE FROM answers WHERE tenant = ? AND user = ? AND name = ?"
        await self._file.write(lambda db: run(db, drop, (*_owner(db, scope), name)))

    async def erase_answers(self, scope: Scope) -> None:
        await self._file.write(lambda db: erase_answers(db, scope))

    async def note_audit(self, entries: Sequence[AuditEntry]) -> None:
        await self._file.write(lambda db: note_audit(db, entries))

    async def audit(self, tenant: str | None, *, before: int | None, limit: int) -> list[Audited]:
        def work(db: sqlite3.Connection) -> list[Audited]:
            rows = db.execute(
                """
                SELECT number, entry FROM audit WHERE (tenant = ? OR ? IS NULL) AND (number < ? OR ? IS NULL)
                ORDER BY number DESC LIMIT ?
                """,
                (tenant, tenant, before, before, limit),
            )
            return [Audited(number=number, entry=msgspec.json.decode(entry, type=AuditEntry)) for number, entry in rows]

        return await self._file.read(work)

    async def note_tokens(self, tenant: str, source: str, *, given: int, made: int, at: datetime) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute(
                """
                INSERT INTO model_tokens VALUES (?, ?, ?, ?, ?) ON CONFLICT (tenant, hour, source) DO UPDATE SET
                    given = given + excluded.given, made = made + excluded.made
                """,
                (tenant, micros(at), source, given, made),
            )
            db.execute("DELETE FROM model_tokens WHERE tenant = ? AND hour < ?", (tenant, micros(at - TOKENS_KEPT)))

        await self._commits.add(work)

    async def tokens_spent(self, tenant: str, *, since: datetime) -> dict[str, tuple[int, int]]:
        def work(db: sqlite3.Connection) -> dict[str, tuple[int, int]]:
            rows = db.execute(
                "SELECT source, sum(given), sum(made) FROM model_tokens WHERE tenant = ? AND hour >= ? GROUP BY source",
                (tenant, micros(since)),
            )
            return {source: (given, made) for source, given, made in rows}

        return await self._file.read(work)

    async def proxy_key(self, key_id: str) -> KeyRecord | None:
        return await self._file.read(lambda db: proxy_key(db, key_id))

    async def proxy_keys(self, tenant: str | None) -> list[KeyRecord]:
        def work(db: sqlite3.Connection) -> list[KeyRecord]:
            wanted = "SELECT record FROM proxy_keys WHERE tenant = ? OR ? IS NULL ORDER BY rowid"
            return [_KEY_RECORD.decode(record) for (record,) in db.execute(wanted, (tenant, tenant))]

        return await self._file.read(work)

    async def add_proxy_key(self, record: KeyRecord) -> None:
        row = (record.id, record.tenant, msgspec.json.encode(record).decode())
        await self._file.write(lambda db: run(db, "INSERT INTO proxy_keys VALUES (?, ?, ?)", row))

    async def revoke_proxy_key(self, key_id: str, at: datetime) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            record = proxy_key(db, key_id)
            if record is None or record.revoked_at is not None:
                return False
            ended = msgspec.json.encode(msgspec.structs.replace(record, revoked_at=at)).decode()
            db.execute("UPDATE proxy_keys SET record = ? WHERE id = ?", (ended, key_id))
            return True

        revoked = await self._file.write(work)
        self._news.spread()
        return revoked


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


def _leave_audit(db: sqlite3.Connection, owner: Owner) -> None:
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


def _owner(db: sqlite3.Connection, scope: Scope) -> Owner:
    """Answers are found by a digest: one is given to who erases a user, and stands there after it."""
    return scope.tenant, name_of(db, scope.owner)


def erase(db: sqlite3.Connection, scope: Scope, session: str | None) -> None:
    """Delete the owner's answers, or of a session's what they said, and the name in the audit log. Choices stay, under
    a digest (`sqlite_journal.insert`): they say nothing of what was remembered, and who switched memory off does not
    want it on again for having erased everything. So does the count of uses, which is past in an hour; what an
    experiment counted goes.
    """
    if session is None:
        gone = "DELETE FROM uses WHERE tenant = ? AND user = ? AND substr(what, 1, ?) = ?"
        db.execute(gone, (*_owner(db, scope), len(ARM), ARM))
        db.execute("DELETE FROM answers WHERE tenant = ? AND user = ?", _owner(db, scope))
        _leave_audit(db, scope.owner)
    else:
        erase_answers(db, scope)


def proxy_key(db: sqlite3.Connection, key_id: str) -> KeyRecord | None:
    """One record."""
    row = db.execute("SELECT record FROM proxy_keys WHERE id = ?", (key_id,)).fetchone()
    return _KEY_RECORD.decode(row[0]) if row else None
