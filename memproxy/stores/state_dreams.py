"""Records of dreams in the state (`ports.DreamStore`)."""

from datetime import UTC, datetime

import msgspec

from memproxy.core.dream import Dream
from memproxy.core.scope import OwnerKey, Scope
from memproxy.stores.state_part import OWNED, Db, StatePart, owned

MOST_KEPT = 200  # records of one owner; older ones go

_EVERYBODY = ("dreams", "of everybody")
"""An owner whose lock engines take to resume open dreams one after the other."""


class StateDreams(StatePart):
    """`ports.DreamStore`."""

    async def begin_dream(self, scope: Scope, dream: Dream) -> bool:
        async def work(db: Db) -> bool:
            begun = await db.run(
                "INSERT INTO dreams (tenant, user_id, id, open, due, body) "
                "VALUES (:tenant, :user, :id, :open, :due, :body) ON CONFLICT DO NOTHING",
                id=dream.id,
                open=dream.is_open,
                due=self._database.shared(dream.created_at),
                body=dream,
                **owned(scope.owner),
            )
            await db.run(
                f"DELETE FROM dreams WHERE {OWNED} AND number <= "
                f"(SELECT number FROM dreams WHERE {OWNED} ORDER BY number DESC LIMIT 1 OFFSET :most)",
                most=MOST_KEPT,
                **owned(scope.owner),
            )
            return begun > 0

        return await self._database.write(work, scope.owner)

    async def put_dream(self, scope: Scope, dream: Dream, *, due: datetime | None = None) -> bool:
        async def work(db: Db) -> bool:
            changed = await db.run(
                f"UPDATE dreams SET open = :open, due = :due, body = :body WHERE {OWNED} AND id = :id",
                open=dream.is_open,
                due=self._database.shared(due or datetime.now(UTC)),
                body=dream,
                id=dream.id,
                **owned(scope.owner),
            )
            return changed > 0

        return await self._database.write(work, scope.owner)

    async def dream(self, scope: Scope, dream_id: str) -> Dream | None:
        query = f"SELECT body FROM dreams WHERE {OWNED} AND id = :id"
        row = await self._database.read(lambda db: db.first(query, id=dream_id, **owned(scope.owner)))
        return None if row is None else msgspec.json.decode(row[0], type=Dream)

    async def dreams(self, scope: Scope, *, after: int, limit: int) -> list[Dream]:
        query = f"SELECT body FROM dreams WHERE {OWNED} ORDER BY number DESC LIMIT :limit OFFSET :after"
        rows = await self._database.read(lambda db: db.all(query, limit=limit, after=after, **owned(scope.owner)))
        return [msgspec.json.decode(body, type=Dream) for (body,) in rows]

    async def take_up_dreams(self, now: datetime, due: datetime) -> list[Scope]:
        async def work(db: Db) -> list[Scope]:
            rows = await db.all(
                f"UPDATE dreams SET due = :due WHERE open = {db.true} AND due <= :now RETURNING tenant, user_id",
                due=self._database.shared(due),
                now=self._database.shared(now),
            )
            return [Scope(tenant=tenant, user=user) for tenant, user in rows]

        return await self._database.write(work, _EVERYBODY)


async def erase(db: Db, owner: OwnerKey) -> None:
    """Erase all of the owner's."""
    await db.run(f"DELETE FROM dreams WHERE {OWNED}", **owned(owner))
