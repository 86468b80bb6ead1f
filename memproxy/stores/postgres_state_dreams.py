"""Records of dreams in PostgreSQL (`ports.DreamStore`)."""

from datetime import UTC, datetime

import msgspec

from memproxy.core.dream import Dream
from memproxy.core.scope import Scope
from memproxy.stores.postgres_state_database import Db, Owner
from memproxy.stores.postgres_state_part import PostgresPart
from memproxy.stores.sqlite_dreams import MOST_KEPT

_OWNED = "tenant = %(tenant)s AND user_id = %(user)s"


class PostgresDreams(PostgresPart):
    """`ports.DreamStore`."""

    async def begin_dream(self, scope: Scope, dream: Dream) -> bool:
        values = self._record(scope, dream, dream.created_at)
        async with self._database.of(scope.owner) as db:
            begun = await db.execute(
                "INSERT INTO dreams (tenant, user_id, id, open, due, body) VALUES "
                "(%(tenant)s, %(user)s, %(id)s, %(open)s, %(due)s, %(body)s) ON CONFLICT DO NOTHING",
                values,
            )
            await db.execute(
                f"DELETE FROM dreams WHERE {_OWNED} AND number <= (SELECT number FROM dreams WHERE {_OWNED} "
                "ORDER BY number DESC LIMIT 1 OFFSET %(most)s)",
                values | {"most": MOST_KEPT},
            )
            return begun.rowcount > 0

    async def put_dream(self, scope: Scope, dream: Dream, *, due: datetime | None = None) -> bool:
        async with self._database.of(scope.owner) as db:
            changed = await db.execute(
                f"UPDATE dreams SET open = %(open)s, due = %(due)s, body = %(body)s WHERE {_OWNED} AND id = %(id)s",
                self._record(scope, dream, due or datetime.now(UTC)),
            )
            return changed.rowcount > 0

    async def dream(self, scope: Scope, dream_id: str) -> Dream | None:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT body FROM dreams WHERE tenant = %s AND user_id = %s AND id = %s", [*scope.owner, dream_id]
            )
            row = await found.fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Dream)

    async def dreams(self, scope: Scope, *, after: int, limit: int) -> list[Dream]:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT body FROM dreams WHERE tenant = %s AND user_id = %s ORDER BY number DESC LIMIT %s OFFSET %s",
                [*scope.owner, limit, after],
            )
            return [msgspec.json.decode(body, type=Dream) for (body,) in await found.fetchall()]

    async def take_up_dreams(self, now: datetime, due: datetime) -> list[Scope]:
        shared = self._database.shared
        async with self._database.transaction() as db:
            found = await db.execute(
                "UPDATE dreams SET due = %s WHERE number = ANY(ARRAY("
                "SELECT number FROM dreams WHERE open AND due <= %s FOR UPDATE SKIP LOCKED)) RETURNING tenant, user_id",
                [shared(due), shared(now)],
            )
            return [Scope(tenant=tenant, user=user) for tenant, user in await found.fetchall()]

    def _record(self, scope: Scope, dream: Dream, due: datetime) -> dict[str, object]:
        return {
            "tenant": scope.tenant,
            "user": scope.user,
            "id": dream.id,
            "open": dream.is_open,
            "due": self._database.shared(due),
            "body": msgspec.json.encode(dream),
        }


async def erase(db: Db, owner: Owner) -> None:
    """Erase all of the owner's."""
    await db.execute("DELETE FROM dreams WHERE tenant = %s AND user_id = %s", owner)
