"""What is kept about callers: uses, tokens, choices, answers, the audit log, keys (`UsageStore`, `CallerStore`)."""

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import msgspec

from memproxy.core.audit import AUDIT_VERSION, BY_JWT, Audited, AuditEntry
from memproxy.core.choices import CHOICES_VERSION, NOTHING_CHOSEN, Choices
from memproxy.core.proxykey import KeyRecord
from memproxy.core.scope import Scope
from memproxy.ports import ARM, Charge, GivenAnswer, Spent, Use
from memproxy.ports.state import ANSWERS_KEPT
from memproxy.stores.state_part import MARK, OWNED, PRUNE_EVERY, Database, Db, Sealing, StatePart, owned
from memproxy.tasks import TaskOwner

CHOICES_SECONDS = 5.0  # how long choices that were read count at most, should the news of a change not come
MOST_AUDITED = 100_000  # audit entries kept of all tenants together, some 300 bytes each; the oldest go first
TOKENS_KEPT = timedelta(days=400)  # how long hours of tokens are kept: a year can be compared with the one before

USER = "user_id"
"""The field of an audit entry's scope that names a user."""

_MOST_KNOWN = 10_000
_PRUNED_AT_ONCE = 500
_WHOLE_TENANT = ""
"""Stands for the tenant as a whole among its users: no user has an empty name."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEY_RECORD = msgspec.json.Decoder(KeyRecord)

Place = tuple[str, str, str]
"""Where something is counted: tenant, the digest of the user, and what it is."""


class _CachedChoices(msgspec.Struct, frozen=True):
    choices: Choices
    news: bytes
    read_at: float


class StateCallers(StatePart):
    """`ports.UsageStore` and `ports.CallerStore`."""

    _spendings = 0

    def __init__(self, database: Database, tasks: TaskOwner, sealing: Sealing) -> None:
        super().__init__(database, tasks, sealing)
        self._cached_choices: OrderedDict[tuple[str, str, str | None], _CachedChoices] = OrderedDict()

    @abstractmethod
    def news(self) -> bytes:
        """As `ports.CallerStore` says."""

    async def _tell_news(self, db: Db) -> None:
        """Choices or proxy keys are changed in this transaction: others that do not see it are told at its commit."""

    @abstractmethod
    def _changed(self) -> None:
        """It is committed."""

    async def spend(self, charges: Sequence[Charge], now: datetime) -> Spent | None:
        self._spendings += 1
        seconds = self._seconds(now)
        if self._spendings % PRUNE_EVERY == 0:
            await self._database.run("DELETE FROM uses WHERE ends <= :now", now=seconds)
        # whoever counts something locks its place, so that all processes count together
        places = {(charge.tenant, f"uses of {charge.user or _WHOLE_TENANT}") for charge in charges}

        async def work(db: Db) -> Spent | None:
            windows = await self._used(db, charges, seconds)
            for spent, _ in windows:
                if spent.charge.limit is not None and spent.used + spent.charge.amount > spent.charge.limit:
                    return spent
            for spent, (tenant, user, purpose) in windows:
                await db.run(
                    """
                    INSERT INTO uses (tenant, user_id, what, ends, used) VALUES (:tenant, :user, :what, :ends, :used)
                    ON CONFLICT (tenant, user_id, what) DO UPDATE SET
                        used = CASE WHEN uses.ends > :now THEN uses.used ELSE 0 END + excluded.used,
                        ends = CASE WHEN uses.ends > :now THEN uses.ends ELSE excluded.ends END
                    """,
                    tenant=tenant,
                    user=user,
                    what=purpose,
                    ends=seconds + spent.charge.seconds,
                    used=spent.charge.amount,
                    now=seconds,
                )
            return None

        return await self._database.write(work, *places)

    async def spent(self, charge: Charge, now: datetime) -> Spent:
        ((spent, _),) = await self._database.glance(lambda db: self._used(db, [charge], self._seconds(now)))
        return spent

    async def _used(self, db: Db, charges: Sequence[Charge], seconds: int) -> list[tuple[Spent, Place]]:
        """The uses counted in the current windows, and their places."""
        windows = [await self._window_of(db, charge) for charge in charges]
        rows = await db.all(
            "SELECT tenant, user_id, what, used, ends FROM uses "
            "WHERE tenant = ANY(:tenants) AND user_id = ANY(:users) AND what = ANY(:whats) AND ends > :now",
            tenants=list({tenant for tenant, _, _ in windows}),
            users=list({user for _, user, _ in windows}),
            whats=list({purpose for _, _, purpose in windows}),
            now=seconds,
        )
        counted = {(tenant, user, purpose): (used, ends) for tenant, user, purpose, used, ends in rows}
        result = []
        for charge, window in zip(charges, windows, strict=True):
            used, ends = counted.get(window, (0, seconds + charge.seconds))
            result.append((Spent(charge=charge, used=used, wait_s=ends - seconds), window))
        return result

    async def _window_of(self, db: Db, charge: Charge) -> Place:
        user = await self._erased.name_of(db, (charge.tenant, charge.user)) if charge.user else _WHOLE_TENANT
        return charge.tenant, user, charge.what

    def _seconds(self, now: datetime) -> int:
        """Seconds since 1970, by the clock that replicas share."""
        return (self._database.shared(now) - _EPOCH) // timedelta(seconds=1)

    async def uses(self, tenant: str, beginning: str) -> list[Use]:
        async def work(db: Db) -> list[Use]:
            rows = await db.all(
                "SELECT user_id, what, used FROM uses "
                f"WHERE tenant = :tenant AND {db.begins('what', 'beginning')} AND user_id != :all",
                tenant=tenant,
                beginning=beginning,
                all=_WHOLE_TENANT,
            )
            return [Use(*row) for row in rows]

        return await self._database.read(work)

    async def choices(self, scope: Scope) -> Choices:
        name, news = (*scope.owner, scope.agent), self.news()
        cached = self._cached_choices.get(name)
        if cached is not None and cached.news == news and monotonic() - cached.read_at < CHOICES_SECONDS:
            return cached.choices
        chosen = await self._database.glance(lambda db: self._chosen(db, scope, ["", scope.agent or ""]))
        choices = chosen.get("", NOTHING_CHOSEN)
        if scope.agent and scope.agent in chosen:
            choices = chosen[scope.agent].over(choices)
        self._cached_choices[name] = _CachedChoices(choices, news, monotonic())
        while len(self._cached_choices) > _MOST_KNOWN:
            self._cached_choices.popitem(last=False)
        return choices

    async def own_choices(self, scope: Scope) -> Choices | None:
        agent = scope.agent or ""
        return (await self._database.read(lambda db: self._chosen(db, scope, [agent]))).get(agent)

    async def _chosen(self, db: Db, scope: Scope, agents: list[str]) -> dict[str, Choices]:
        """The choices of the owner and its agents, by agent."""
        rows = await db.all(
            "SELECT agent, chosen FROM choices "
            "WHERE tenant = :tenant AND user_id IN (:user, :digest) AND agent = ANY(:agents)",
            digest=await self._erased.name_of(db, scope.owner),
            agents=agents,
            **owned(scope.owner),
        )
        return {agent: msgspec.json.decode(chosen, type=Choices) for agent, chosen in rows}

    async def choose(self, scope: Scope, choices: Choices, at: datetime) -> None:
        async def work(db: Db) -> None:
            values = {**owned(scope.owner), "agent": scope.agent or ""}
            await db.run(
                "DELETE FROM choices WHERE tenant = :tenant AND user_id IN (:user, :digest) AND agent = :agent",
                digest=await self._erased.name_of(db, scope.owner),
                **values,
            )
            if choices != NOTHING_CHOSEN:
                values |= {"user": await self._erased.name_now(db, scope.owner)}
                await db.run(
                    "INSERT INTO choices (tenant, user_id, agent, at, version, learning, chosen) "
                    "VALUES (:tenant, :user, :agent, :at, :version, :learning, :chosen)",
                    at=at,
                    version=CHOICES_VERSION,
                    learning=choices.learning,
                    chosen=choices,
                    **values,
                )
            await self._tell_news(db)

        await self._database.write(work, scope.owner)
        self._changed()

    async def given_answer(self, scope: Scope, name: str) -> GivenAnswer | None:
        async def work(db: Db) -> GivenAnswer | None:
            row = await db.first(
                f"SELECT asked, at, answer, erased FROM answers WHERE {OWNED} AND name = :name",
                name=name,
                **await self._answerer(db, scope),
            )
            if row is None:
                return None
            return GivenAnswer(request_digest=row[0], at=db.moment(row[1]), answer=row[2], erased=bool(row[3]))

        return await self._database.read(work)

    async def keep_answer(self, scope: Scope, name: str, answer: GivenAnswer) -> None:
        async def work(db: Db) -> None:
            await db.run(
                """
                INSERT INTO answers (tenant, user_id, name, asked, at, answer, erased)
                VALUES (:tenant, :user, :name, :request_digest, :at, :answer, :erased)
                ON CONFLICT (tenant, user_id, name) DO UPDATE SET
                    asked = excluded.asked, at = excluded.at, answer = excluded.answer, erased = excluded.erased
                """,
                name=name,
                **msgspec.structs.asdict(answer),
                **await self._answerer(db, scope),
            )
            kept_since = answer.at - ANSWERS_KEPT
            await db.drop_some("answers", "tenant, user_id, name", "at < :before", _PRUNED_AT_ONCE, before=kept_since)

        await self._database.write(work)

    async def drop_answer(self, scope: Scope, name: str) -> None:
        async def work(db: Db) -> None:
            gone = f"DELETE FROM answers WHERE {OWNED} AND name = :name"
            await db.run(gone, name=name, **await self._answerer(db, scope))

        await self._database.write(work)

    async def erase_answers(self, scope: Scope) -> None:
        await self._database.write(lambda db: self._erase_answers(db, scope))

    async def _erase_answers(self, db: Db, scope: Scope) -> None:
        await db.run(
            f"UPDATE answers SET answer = NULL, erased = true WHERE {OWNED} AND answer IS NOT NULL",
            **await self._answerer(db, scope),
        )

    async def _answerer(self, db: Db, scope: Scope) -> dict[str, str]:
        """Answers are found by a digest: one is given to who erases a user, and stands there after it."""
        return owned((scope.tenant, await self._erased.name_of(db, scope.owner)))

    async def note_audit(self, entries: Sequence[AuditEntry]) -> None:
        async def work(db: Db) -> None:
            columns, places = "tenant, at, version, entry", ":tenant, :at, :version, :entry"
            if db.names_users:
                columns, places = f"{columns}, about, by_user", f"{places}, :about, :by"
            for entry in entries:
                named = await self._named(db, entry)
                await db.run(
                    f"INSERT INTO audit ({columns}) VALUES ({places})",
                    tenant=entry.tenant,
                    at=entry.at,
                    version=AUDIT_VERSION,
                    **_entry(named),
                )
            await db.run("DELETE FROM audit WHERE number <= (SELECT max(number) FROM audit) - :most", most=MOST_AUDITED)

        await self._database.write(work)

    async def _named(self, db: Db, entry: AuditEntry) -> AuditEntry:
        """The entry, with a digest for the name of a user who was erased, and of who did it if it is one."""
        for user in set(users_of(entry)):
            owner = (entry.tenant, user or "")
            if user is not None and not user.startswith(MARK) and await self._erased.is_gone(db, owner):
                entry = _without(entry, user, await self._erased.name_of(db, owner))
        return entry

    async def audit(self, tenant: str | None, *, before: int | None, limit: int) -> list[Audited]:
        condition = "true"
        if tenant is not None:
            condition += " AND tenant = :tenant"
        if before is not None:
            condition += " AND number < :before"
        text = f"SELECT number, entry FROM audit WHERE {condition} ORDER BY number DESC LIMIT :limit"
        rows = await self._database.read(lambda db: db.all(text, tenant=tenant, before=before, limit=limit))
        return [Audited(number=number, entry=msgspec.json.decode(entry, type=AuditEntry)) for number, entry in rows]

    async def _unname_audit(self, db: Db, scope: Scope, name: str) -> None:
        """Put the digest for the owner's name in what was written before."""
        is_named = ":user IN (about, by_user)"
        if not db.names_users:
            is_named = "(json_extract(entry, '$.scope.user_id') = :user OR json_extract(entry, '$.by') = :by)"
        rows = await db.all(
            f"SELECT number, entry FROM audit WHERE tenant = :tenant AND {is_named}",
            by=BY_JWT + scope.user,
            **owned(scope.owner),
        )
        changed = "entry = :entry, about = :about, by_user = :by" if db.names_users else "entry = :entry"
        for number, stored in rows:
            unnamed = _without(msgspec.json.decode(stored, type=AuditEntry), scope.user, name)
            await db.run(f"UPDATE audit SET {changed} WHERE number = :number", number=number, **_entry(unnamed))

    async def erase_caller(self, db: Db, scope: Scope, session: str | None) -> None:
        """Delete the owner's answers, or of a session's what they said, and the name in the audit log. Choices stay,
        under a digest: they say nothing of what was remembered, and who switched memory off does not want it on again
        for having erased everything. Uses stay, too, but for an experiment's: they are past in an hour.
        """
        if session is not None:
            await self._erase_answers(db, scope)
            return
        digest = await self._answerer(db, scope)
        await db.run(f"DELETE FROM answers WHERE {OWNED}", **digest)
        await db.run(f"DELETE FROM uses WHERE {OWNED} AND {db.begins('what', 'arm')}", arm=ARM, **digest)
        await self._unname_audit(db, scope, digest["user"])

    async def note_tokens(
        self, tenant: str, source: str, *, input_tokens: int, output_tokens: int, at: datetime
    ) -> None:
        async def work(db: Db) -> None:
            await db.run(
                """
                INSERT INTO model_tokens VALUES (:tenant, :at, :source, :given, :made)
                ON CONFLICT (tenant, hour, source) DO UPDATE SET
                    given = model_tokens.given + excluded.given, made = model_tokens.made + excluded.made
                """,
                tenant=tenant,
                at=at,
                source=source,
                given=input_tokens,
                made=output_tokens,
            )
            past = "DELETE FROM model_tokens WHERE tenant = :tenant AND hour < :before"
            await db.run(past, tenant=tenant, before=at - TOKENS_KEPT)

        await self._database.write(work)

    async def tokens_spent(self, tenant: str, *, since: datetime) -> dict[str, tuple[int, int]]:
        query = (
            "SELECT source, CAST(sum(given) AS bigint), CAST(sum(made) AS bigint) FROM model_tokens "
            "WHERE tenant = :tenant AND hour >= :since GROUP BY source"
        )
        rows = await self._database.read(lambda db: db.all(query, tenant=tenant, since=since))
        return {source: (input_tokens, output_tokens) for source, input_tokens, output_tokens in rows}

    async def proxy_key(self, key_id: str) -> KeyRecord | None:
        return await self._database.glance(lambda db: _key(db, key_id))

    async def proxy_keys(self, tenant: str | None) -> list[KeyRecord]:
        async def work(db: Db) -> list[KeyRecord]:
            of = "" if tenant is None else "WHERE tenant = :tenant "
            rows = await db.all(f"SELECT record FROM proxy_keys {of}ORDER BY {db.arrival}", tenant=tenant)
            return [_KEY_RECORD.decode(record) for (record,) in rows]

        return await self._database.read(work)

    async def add_proxy_key(self, record: KeyRecord) -> None:
        new = "INSERT INTO proxy_keys (id, tenant, record) VALUES (:id, :tenant, :record)"
        await self._database.run(new, id=record.id, tenant=record.tenant, record=record)

    async def revoke_proxy_key(self, key_id: str, at: datetime) -> bool:
        async def work(db: Db) -> bool:
            record = await _key(db, key_id)
            if record is None or record.revoked_at is not None:
                return False
            ended = msgspec.structs.replace(record, revoked_at=at)
            await db.run("UPDATE proxy_keys SET record = :record WHERE id = :id", record=ended, id=key_id)
            await self._tell_news(db)
            return True

        revoked = await self._database.write(work, ("proxy key", key_id))
        self._changed()
        return revoked


async def _key(db: Db, key_id: str) -> KeyRecord | None:
    row = await db.first("SELECT record FROM proxy_keys WHERE id = :id", id=key_id)
    return None if row is None else _KEY_RECORD.decode(row[0])


def users_of(entry: AuditEntry) -> tuple[str | None, str | None]:
    """The users that an entry names: whom it was about, and who did it."""
    by = entry.by.removeprefix(BY_JWT) if entry.by.startswith(BY_JWT) else None
    return entry.scope.get(USER), by


def _entry(entry: AuditEntry) -> dict[str, Any]:
    about, by = users_of(entry)
    return {"entry": entry, "about": about, "by": by}


def _without(entry: AuditEntry, user: str, name: str) -> AuditEntry:
    """The entry with another name for a user."""
    scope = {**entry.scope, USER: name} if entry.scope.get(USER) == user else entry.scope
    return msgspec.structs.replace(entry, scope=scope, by=BY_JWT + name if entry.by == BY_JWT + user else entry.by)
