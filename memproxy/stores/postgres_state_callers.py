"""What is kept about callers in PostgreSQL: uses and tokens, choices, answers given, the audit log and proxy keys
(`ports.UsageStore`, `ports.ChoiceStore`, `ports.AnswerStore`, `ports.AuditStore`, `ports.KeyStore`).
"""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic

import msgspec

from memproxy.core.audit import AUDIT_VERSION, BY_JWT, Audited, AuditEntry
from memproxy.core.choices import CHOICES_VERSION, NOTHING_CHOSEN, Choices
from memproxy.core.proxykey import KeyRecord
from memproxy.core.scope import Scope
from memproxy.ports import ARM, Charge, GivenAnswer, Spent, Use
from memproxy.ports.state import ANSWERS_KEPT
from memproxy.stores.postgres_state_database import Db, Owner, PostgresDatabase, Row
from memproxy.stores.postgres_state_journal import PostgresJournal
from memproxy.stores.postgres_state_part import Sealing
from memproxy.stores.postgres_state_replicas import CHOSEN
from memproxy.stores.sqlite_callers import CHOICES_SECONDS, MOST_AUDITED, TOKENS_KEPT, USER
from memproxy.stores.sqlite_erased import MARK
from memproxy.stores.sqlite_part import PRUNE_EVERY
from memproxy.tasks import TaskOwner

_MOST_KNOWN = 10_000
_PRUNED_AT_ONCE = 500
_WHOLE_TENANT = ""
"""Stands for the tenant as a whole among its users: no user has an empty name."""

_KEY_RECORD = msgspec.json.Decoder(KeyRecord)


class _Known(msgspec.Struct, frozen=True):
    choices: Choices
    news: bytes
    read_at: float


class PostgresCallers(PostgresJournal):
    """The contracts about callers, beside the journal's news."""

    _spendings = 0

    def __init__(self, database: PostgresDatabase, tasks: TaskOwner, sealing: Sealing, lease: timedelta) -> None:
        super().__init__(database, tasks, sealing, lease)
        self._known: OrderedDict[tuple[str, str, str | None], _Known] = OrderedDict()

    def news(self) -> bytes:
        return self._replicas.news()

    async def spend(self, charges: Sequence[Charge], now: datetime) -> Spent | None:
        self._spendings += 1
        seconds = self._seconds(now)
        if self._spendings % PRUNE_EVERY == 0:
            async with self._database.connected() as db:
                await db.execute("DELETE FROM uses WHERE ends <= %s", [seconds])
        # whoever counts something locks its place, so that all processes count together
        places = [self._place(charge) for charge in charges]
        async with self._database.of(*{(tenant, f"uses of {user}") for tenant, user, _ in places}) as db:
            found = await self._used(db, places, seconds)
            for charge, place in zip(charges, places, strict=True):
                used, ends = found.get(place, (0, seconds + charge.seconds))
                if charge.limit is not None and used + charge.amount > charge.limit:
                    return Spent(charge=charge, used=used, wait_s=ends - seconds)
            await _count(db, charges, places, seconds)
        return None

    async def spent(self, charge: Charge, now: datetime) -> Spent:
        place, seconds = self._place(charge), self._seconds(now)
        async with self._database.glance() as db:
            found = await self._used(db, [place], seconds)
        used, ends = found.get(place, (0, seconds + charge.seconds))
        return Spent(charge=charge, used=used, wait_s=ends - seconds)

    async def uses(self, tenant: str, beginning: str) -> list[Use]:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT user_id, what, used FROM uses WHERE tenant = %s AND starts_with(what, %s) AND user_id != %s",
                [tenant, beginning, _WHOLE_TENANT],
            )
            return [Use(*row) for row in await found.fetchall()]

    async def _used(
        self, db: Db, places: Sequence[tuple[str, str, str]], seconds: int
    ) -> dict[tuple[str, str, str], tuple[int, int]]:
        """What was counted in the windows under way, and when they end."""
        found = await db.execute(
            "SELECT tenant, user_id, what, used, ends FROM uses "
            "WHERE ends > %s AND (tenant, user_id, what) IN (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]))",
            [seconds, *(list(column) for column in zip(*places, strict=True))],
        )
        return {(tenant, user, what): (used, ends) for tenant, user, what, used, ends in await found.fetchall()}

    def _place(self, charge: Charge) -> tuple[str, str, str]:
        user = self._erased.name_of((charge.tenant, charge.user)) if charge.user else _WHOLE_TENANT
        return charge.tenant, user, charge.what

    def _seconds(self, now: datetime) -> int:
        """Seconds since 1970, by the clock that replicas share."""
        return int((self._database.shared(now) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() // 1)

    async def choices(self, scope: Scope) -> Choices:
        name, news = (*scope.owner, scope.agent), self.news()
        known = self._known.get(name)
        if known is not None and known.news == news and monotonic() - known.read_at < CHOICES_SECONDS:
            return known.choices
        async with self._database.glance() as db:
            chosen = await self._chosen(db, scope.owner, ["", scope.agent or ""])
        found = chosen.get("", NOTHING_CHOSEN)
        if scope.agent and scope.agent in chosen:
            found = chosen[scope.agent].over(found)
        self._known[name] = _Known(found, news, monotonic())
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return found

    async def own_choices(self, scope: Scope) -> Choices | None:
        agent = scope.agent or ""
        async with self._database.connected() as db:
            return (await self._chosen(db, scope.owner, [agent])).get(agent)

    async def _chosen(self, db: Db, owner: Owner, agents: Sequence[str]) -> dict[str, Choices]:
        """What was set for the owner and its agents, by agent."""
        found = await db.execute(
            "SELECT agent, chosen FROM choices WHERE tenant = %s AND user_id IN (%s, %s) AND agent = ANY(%s)",
            [*owner, self._erased.name_of(owner), list(agents)],
        )
        return {agent: msgspec.json.decode(chosen, type=Choices) for agent, chosen in await found.fetchall()}

    async def choose(self, scope: Scope, choices: Choices, at: datetime) -> None:
        agent = scope.agent or ""
        async with self._database.of(scope.owner) as db:
            await db.execute(
                "DELETE FROM choices WHERE tenant = %s AND user_id IN (%s, %s) AND agent = %s",
                [*scope.owner, self._erased.name_of(scope.owner), agent],
            )
            if choices != NOTHING_CHOSEN:
                user = await self._erased.name_now(db, scope.owner)
                await db.execute(
                    "INSERT INTO choices (tenant, user_id, agent, at, version, learning, chosen) "
                    "VALUES (%s, %s, %s, %s, %s, %s, %s)",
                    [
                        scope.tenant,
                        user,
                        agent,
                        at,
                        CHOICES_VERSION,
                        choices.learning,
                        msgspec.json.encode(choices),
                    ],
                )
            await self._replicas.tell(db, CHOSEN)
        self._replicas.changed()

    async def given_answer(self, scope: Scope, name: str) -> GivenAnswer | None:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT asked, at, answer, erased FROM answers WHERE tenant = %s AND user_id = %s AND name = %s",
                [*self._answerer(scope), name],
            )
            row = await found.fetchone()
        return None if row is None else GivenAnswer(asked=row[0], at=row[1], answer=row[2], erased=row[3])

    async def keep_answer(self, scope: Scope, name: str, given: GivenAnswer) -> None:
        async with self._database.transaction() as db:
            await db.execute(
                """
                INSERT INTO answers (tenant, user_id, name, asked, at, answer, erased)
                VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (tenant, user_id, name) DO UPDATE SET
                    asked = excluded.asked, at = excluded.at, answer = excluded.answer, erased = excluded.erased
                """,
                [*self._answerer(scope), name, given.asked, given.at, given.answer, given.erased],
            )
            await db.execute(
                "DELETE FROM answers WHERE ctid IN (SELECT ctid FROM answers WHERE at < %s LIMIT %s)",
                [given.at - ANSWERS_KEPT, _PRUNED_AT_ONCE],
            )

    async def drop_answer(self, scope: Scope, name: str) -> None:
        async with self._database.connected() as db:
            await db.execute(
                "DELETE FROM answers WHERE tenant = %s AND user_id = %s AND name = %s", [*self._answerer(scope), name]
            )

    async def erase_answers(self, scope: Scope) -> None:
        async with self._database.connected() as db:
            await self._erase_answers(db, scope)

    async def _erase_answers(self, db: Db, scope: Scope) -> None:
        await db.execute(
            "UPDATE answers SET answer = NULL, erased = true WHERE tenant = %s AND user_id = %s AND answer IS NOT NULL",
            self._answerer(scope),
        )

    def _answerer(self, scope: Scope) -> Owner:
        """Answers are found by a digest: one is given to who erases a user, and stands there after it."""
        return scope.tenant, self._erased.name_of(scope.owner)

    async def note_audit(self, entries: Sequence[AuditEntry]) -> None:
        async with self._database.transaction() as db:
            for entry in entries:
                named = await self._named(db, entry)
                await db.execute(
                    "INSERT INTO audit (tenant, about, by_user, at, version, entry) VALUES (%s, %s, %s, %s, %s, %s)",
                    [entry.tenant, *users_of(named), entry.at, AUDIT_VERSION, msgspec.json.encode(named)],
                )
            await db.execute("DELETE FROM audit WHERE number <= (SELECT max(number) FROM audit) - %s", [MOST_AUDITED])

    async def _named(self, db: Db, entry: AuditEntry) -> AuditEntry:
        """The entry, with a digest for the name of a user who was erased, and of who did it if it is one."""
        for user in set(users_of(entry)):
            owner = (entry.tenant, user or "")
            if user is not None and not user.startswith(MARK) and await self._erased.is_gone(db, owner):
                entry = _without(entry, user, self._erased.name_of(owner))
        return entry

    async def audit(self, tenant: str | None, *, before: int | None, limit: int) -> list[Audited]:
        async with self._database.connected() as db:
            found = await db.execute(
                """
                SELECT number, entry FROM audit WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
                    AND (%(before)s::bigint IS NULL OR number < %(before)s) ORDER BY number DESC LIMIT %(limit)s
                """,
                {"tenant": tenant, "before": before, "limit": limit},
            )
            return [
                Audited(number=number, entry=msgspec.json.decode(entry, type=AuditEntry))
                for number, entry in await found.fetchall()
            ]

    async def erase_caller(self, db: Db, scope: Scope, session: str | None) -> None:
        """Delete the owner's answers, or of a session's what they said, and the name in the audit log. Choices stay,
        under a digest: they say nothing of what was remembered, and who switched memory off does not want it on again
        for having erased everything. So does the count of uses, which is past in an hour; what an experiment counted
        goes.
        """
        if session is not None:
            await self._erase_answers(db, scope)
            return
        await db.execute("DELETE FROM answers WHERE tenant = %s AND user_id = %s", self._answerer(scope))
        gone = "DELETE FROM uses WHERE tenant = %s AND user_id = %s AND starts_with(what, %s)"
        await db.execute(gone, [scope.tenant, self._erased.name_of(scope.owner), ARM])
        found = await db.execute(
            "SELECT number, entry FROM audit WHERE tenant = %(tenant)s AND %(user)s IN (about, by_user)",
            {"tenant": scope.tenant, "user": scope.user},
        )
        for number, stored in await found.fetchall():
            entry = msgspec.json.decode(stored, type=AuditEntry)
            left = _without(entry, scope.user, self._erased.name_of(scope.owner))
            await db.execute(
                "UPDATE audit SET about = %s, by_user = %s, entry = %s WHERE number = %s",
                [*users_of(left), msgspec.json.encode(left), number],
            )

    async def note_tokens(self, tenant: str, source: str, *, given: int, made: int, at: datetime) -> None:
        async with self._database.transaction() as db:
            await db.execute(
                """
                INSERT INTO model_tokens VALUES (%s, %s, %s, %s, %s) ON CONFLICT (tenant, hour, source) DO UPDATE SET
                    given = model_tokens.given + excluded.given, made = model_tokens.made + excluded.made
                """,
                [tenant, at, source, given, made],
            )
            await db.execute("DELETE FROM model_tokens WHERE tenant = %s AND hour < %s", [tenant, at - TOKENS_KEPT])

    async def tokens_spent(self, tenant: str, *, since: datetime) -> dict[str, tuple[int, int]]:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT source, sum(given)::bigint, sum(made)::bigint FROM model_tokens "
                "WHERE tenant = %s AND hour >= %s GROUP BY source",
                [tenant, since],
            )
            return {source: (given, made) for source, given, made in await found.fetchall()}

    async def proxy_key(self, key_id: str) -> KeyRecord | None:
        async with self._database.glance() as db:
            return _record(await (await db.execute("SELECT record FROM proxy_keys WHERE id = %s", [key_id])).fetchone())

    async def proxy_keys(self, tenant: str | None) -> list[KeyRecord]:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT record FROM proxy_keys WHERE %(tenant)s::text IS NULL OR tenant = %(tenant)s ORDER BY number",
                {"tenant": tenant},
            )
            return [_KEY_RECORD.decode(record) for (record,) in await found.fetchall()]

    async def add_proxy_key(self, record: KeyRecord) -> None:
        async with self._database.connected() as db:
            await db.execute(
                "INSERT INTO proxy_keys (id, tenant, record) VALUES (%s, %s, %s)",
                [record.id, record.tenant, msgspec.json.encode(record)],
            )

    async def revoke_proxy_key(self, key_id: str, at: datetime) -> bool:
        async with self._database.transaction() as db:
            found = await db.execute("SELECT record FROM proxy_keys WHERE id = %s FOR UPDATE", [key_id])
            record = _record(await found.fetchone())
            if record is None or record.revoked_at is not None:
                return False
            ended = msgspec.structs.replace(record, revoked_at=at)
            await db.execute("UPDATE proxy_keys SET record = %s WHERE id = %s", [msgspec.json.encode(ended), key_id])
            await self._replicas.tell(db, CHOSEN)
        self._replicas.changed()
        return True


async def _count(db: Db, charges: Sequence[Charge], places: Sequence[tuple[str, str, str]], seconds: int) -> None:
    for charge, place in zip(charges, places, strict=True):
        await db.execute(
            """
            INSERT INTO uses (tenant, user_id, what, ends, used)
            VALUES (%(tenant)s, %(user)s, %(what)s, %(ends)s, %(used)s)
            ON CONFLICT (tenant, user_id, what) DO UPDATE SET
                used = CASE WHEN uses.ends > %(now)s THEN uses.used ELSE 0 END + excluded.used,
                ends = CASE WHEN uses.ends > %(now)s THEN uses.ends ELSE excluded.ends END
            """,
            {
                "tenant": place[0],
                "user": place[1],
                "what": place[2],
                "ends": seconds + charge.seconds,
                "used": charge.amount,
                "now": seconds,
            },
        )


def users_of(entry: AuditEntry) -> tuple[str | None, str | None]:
    """The users that an entry names: whom it was about, and who did it."""
    by = entry.by.removeprefix(BY_JWT) if entry.by.startswith(BY_JWT) else None
    return entry.scope.get(USER), by


def _without(entry: AuditEntry, user: str, name: str) -> AuditEntry:
    """The entry with another name for a user."""
    scope = {**entry.scope, USER: name} if entry.scope.get(USER) == user else entry.scope
    return msgspec.structs.replace(entry, scope=scope, by=BY_JWT + name if entry.by == BY_JWT + user else entry.by)


def _record(row: Row | None) -> KeyRecord | None:
    return None if row is None else _KEY_RECORD.decode(row[0])
