"""Records of dreams in the state's file (`ports.DreamStore`)."""

import sqlite3
from datetime import UTC, datetime

import msgspec

from memproxy.core.dream import Dream
from memproxy.core.scope import Scope
from memproxy.stores.sqlite_part import Owner, SqlitePart, micros

MOST_KEPT = 200
"""Records of one owner; older ones go."""


class SqliteDreams(SqlitePart):
    """`ports.DreamStore` in the state's file."""

    async def begin_dream(self, scope: Scope, dream: Dream) -> bool:
        return await self._file.write(lambda db: begin(db, scope.owner, dream))

    async def put_dream(self, scope: Scope, dream: Dream, *, due: datetime | None = None) -> bool:
        values = (dream.is_open, micros(due or datetime.now(UTC)), msgspec.json.encode(dream).decode())

        def work(db: sqlite3.Connection) -> bool:
            changed = db.execute(
                "UPDATE dreams SET open = ?, due = ?, body = ? WHERE tenant = ? AND user = ? AND id = ?",
                (*values, *scope.owner, dream.id),
            )
            return changed.rowcount > 0

        return await self._file.write(work)

    async def dream(self, scope: Scope, dream_id: str) -> Dream | None:
        def work(db: sqlite3.Connection) -> Dream | None:
            row = db.execute(
                "SELECT body FROM dreams WHERE tenant = ? AND user = ? AND id = ?", (*scope.owner, dream_id)
            ).fetchone()
            return None if row is None else msgspec.json.decode(row[0], type=Dream)

        return await self._file.read(work)

    async def dreams(self, scope: Scope, *, after: int, limit: int) -> list[Dream]:
        def work(db: sqlite3.Connection) -> list[Dream]:
            rows = db.execute(
                "SELECT body FROM dreams WHERE tenant = ? AND user = ? ORDER BY number DESC LIMIT ? OFFSET ?",
                (*scope.owner, limit, after),
            )
            return [msgspec.json.decode(body, type=Dream) for (body,) in rows]

        return await self._file.read(work)

    async def take_up_dreams(self, now: datetime, due: datetime) -> list[Scope]:
        def work(db: sqlite3.Connection) -> list[Scope]:
            rows = db.execute(
                "UPDATE dreams SET due = ? WHERE open = 1 AND due <= ? RETURNING tenant, user",
                (micros(due), micros(now)),
            )
            return [Scope(tenant=tenant, user=user) for tenant, user in rows]

        return await self._file.write(work)


def begin(db: sqlite3.Connection, owner: Owner, dream: Dream) -> bool:
    """Keep a new record, unless another one of the owner is open; the oldest of many go."""
    begun = db.execute(
        "INSERT INTO dreams (tenant, user, id, open, due, body) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*owner, dream.id, dream.is_open, micros(dream.created_at), msgspec.json.encode(dream).decode()),
    )
    db.execute(
        "DELETE FROM dreams WHERE tenant = ?1 AND user = ?2 AND number <= "
        "(SELECT number FROM dreams WHERE tenant = ?1 AND user = ?2 ORDER BY number DESC LIMIT 1 OFFSET ?3)",
        (*owner, MOST_KEPT),
    )
    return begun.rowcount > 0


def erase(db: sqlite3.Connection, owner: Owner) -> None:
    """Erase all of the owner's."""
    db.execute("DELETE FROM dreams WHERE tenant = ? AND user = ?", owner)
