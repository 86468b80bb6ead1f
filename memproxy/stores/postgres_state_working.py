"""Working memory in PostgreSQL (`ports.WorkingStore`)."""

from datetime import datetime
from typing import Any

from memproxy.core.scope import Scope
from memproxy.core.working_memory import Place, WorkingEntry, WorkingPage
from memproxy.stores.postgres_state_database import Db, Owner, one
from memproxy.stores.postgres_state_part import PostgresPart
from memproxy.stores.sqlite_part import Columns
from memproxy.stores.sqlite_working import AT_ONCE, DATA, HEAD, WORDS, Head, bounds, opened, page_of

_FIELDS = "name, project, created_at, updated_at, expires_at, size, head"
_OWNED = "tenant = %(tenant)s AND user_id = %(user)s"
_VISIBLE = (
    f"{_OWNED} AND expires_at > %(now)s AND (%(project)s::text IS NULL OR project = '' OR project = %(project)s::text)"
)


class PostgresWorking(PostgresPart):
    """`ports.WorkingStore`."""

    async def put_working(self, scope: Scope, entry: WorkingEntry, *, most: int) -> bool | None:
        async with self._database.of(scope.owner) as db:
            columns = await self._sealing.made(db, scope.owner)
            return await self._put(db, columns, scope.owner, entry, most)

    async def _put(self, db: Db, columns: Columns, owner: Owner, entry: WorkingEntry, most: int) -> bool | None:
        shared = self._database.shared
        values: dict[str, Any] = {
            "tenant": owner[0],
            "user": owner[1],
            "name": columns.name(entry.key),
            "project": entry.project or "",
            "namespace": columns.name(entry.namespace),
            "created_at": shared(entry.created_at),
            "updated_at": shared(entry.updated_at),
            "expires_at": shared(entry.expires_at),
            "size": entry.size,
            "head": columns.seal_text(Head.of(entry), HEAD),
            "words": columns.seal_text(entry.words, WORDS),
            "data": columns.seal(entry.data, DATA),
        }
        await db.execute(
            f"DELETE FROM working WHERE {_OWNED} AND namespace = %(namespace)s AND expires_at <= %(updated_at)s", values
        )
        replaced, held = await one(
            db,
            # of its own project: what others keep is told to nobody
            "SELECT coalesce(bool_or(name = %(name)s), false), count(*) FROM working "
            f"WHERE {_OWNED} AND namespace = %(namespace)s AND project = %(project)s",
            values,
        )
        if not replaced and held >= most:
            return None
        await db.execute(
            """
            INSERT INTO working (tenant, user_id, name, project, namespace, created_at, updated_at, expires_at, size,
                head, words, data) VALUES (%(tenant)s, %(user)s, %(name)s, %(project)s, %(namespace)s, %(created_at)s,
                %(updated_at)s, %(expires_at)s, %(size)s, %(head)s, %(words)s, %(data)s)
            ON CONFLICT (tenant, user_id, name, project) DO UPDATE SET updated_at = excluded.updated_at,
                expires_at = excluded.expires_at, size = excluded.size, head = excluded.head, words = excluded.words,
                data = excluded.data
            """,
            values,
        )
        return not replaced

    async def working(self, scope: Scope, key: str, now: datetime) -> WorkingEntry | None:
        async with self._database.connected() as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return None
            found = await db.execute(
                f"SELECT {_FIELDS}, '', data FROM working WHERE {_VISIBLE} AND name = %(name)s "
                "ORDER BY project = coalesce(%(project)s::text, '') DESC LIMIT 1",
                {**self._values(scope, now), "name": columns.name(key)},
            )
            row = await found.fetchone()
        return None if row is None else self._entry(columns, row)

    async def newest_working(
        self, scope: Scope, now: datetime, *, most: int, words: bool = False
    ) -> list[WorkingEntry]:
        async with self._database.connected() as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return []
            rows = await db.execute(
                f"SELECT {_FIELDS}, {'words' if words else repr('')}, ''::bytea FROM working WHERE {_VISIBLE} "
                "ORDER BY updated_at DESC LIMIT %(most)s",
                {**self._values(scope, now), "most": most},
            )
            return [self._entry(columns, row) for row in await rows.fetchall()]

    async def working_page(
        self, scope: Scope, prefix: str, now: datetime, *, after: Place | None, most: int, words: bool = False
    ) -> WorkingPage:
        async with self._database.connected() as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return WorkingPage()
            low, high, namespace = bounds(columns, prefix, after)
            values = dict(zip(("behind", "project"), after or ("", ""), strict=True))
            narrowed = "" if namespace is None else "AND namespace = %(namespace)s "
            read = await db.execute(
                f"SELECT {_FIELDS}, {'words' if words else repr('')}, ''::bytea FROM working WHERE {_OWNED} "
                "AND name >= %(low)s AND name < %(high)s AND (name, project) > (%(behind)s, %(project)s) "
                f"{narrowed}ORDER BY name, project LIMIT %(most)s",
                values
                | {"tenant": scope.tenant, "user": scope.user}
                | {"low": low, "high": high, "namespace": namespace, "most": most},
            )
            rows = await read.fetchall()
            return page_of([self._entry(columns, row) for row in rows], rows, scope, prefix, now, most=most)

    async def drop_working(self, scope: Scope, key: str, now: datetime) -> bool:
        entry = await self.working(scope, key, now)
        if entry is None:
            return False
        async with self._database.of(scope.owner) as db:
            columns = await self._sealing.made(db, scope.owner)
            gone = await db.execute(
                f"DELETE FROM working WHERE {_OWNED} AND name = %(name)s AND project = %(project)s",
                {**self._values(scope, now), "name": columns.name(key), "project": entry.project or ""},
            )
            return gone.rowcount > 0

    async def sweep_working(self, now: datetime) -> int:
        swept = 0
        while True:
            async with self._database.transaction() as db:
                gone = await db.execute(
                    "DELETE FROM working WHERE ctid = ANY(ARRAY(SELECT ctid FROM working WHERE expires_at <= %s "
                    "LIMIT %s FOR UPDATE SKIP LOCKED))",
                    [self._database.shared(now), AT_ONCE],
                )
            if not gone.rowcount:
                return swept
            swept += gone.rowcount

    async def _empty_working(self, owner: Owner, session: str | None) -> None:
        """Erase most of what there is before a transaction erases the rest with all else: no statement takes long."""
        gone = AT_ONCE
        while gone == AT_ONCE:
            async with self._database.transaction() as db:
                gone = await erase(db, await self._sealing.of(db, owner), owner, session, most=AT_ONCE)

    def _entry(self, columns: Columns, row: tuple[Any, ...]) -> WorkingEntry:
        name, project, *times = row[:5]
        return opened(columns, (name, project, *map(self._database.own, times), *row[5:]))

    def _values(self, scope: Scope, now: datetime) -> dict[str, Any]:
        return {
            "tenant": scope.tenant,
            "user": scope.user,
            "project": scope.project,
            "now": self._database.shared(now),
        }


async def erase(db: Db, columns: Columns | None, owner: Owner, session: str | None, *, most: int | None = None) -> int:
    """Erase the owner's entries, or the namespace of one session: ``most`` of them, None for all; how many went."""
    if session is not None and columns is None:
        return 0
    namespace = None if session is None or columns is None else columns.name(f"session/{session}")
    gone = await db.execute(
        "DELETE FROM working WHERE ctid = ANY(ARRAY(SELECT ctid FROM working WHERE tenant = %s AND user_id = %s "
        f"{'' if namespace is None else 'AND namespace = %s '}LIMIT %s FOR UPDATE))",
        [*owner, *([] if namespace is None else [namespace]), most],
    )
    return gone.rowcount
