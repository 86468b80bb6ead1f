"""Working memory in the state (`ports.WorkingStore`)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.scope import OwnerKey, Scope
from memproxy.core.working_memory import Place, WorkingEntry, WorkingPage, namespace_of
from memproxy.stores.state_part import OWNED, Columns, Db, Row, StatePart, owned

HEAD, DATA, WORDS = "working.head", "working.data", "working.words"

AT_ONCE = 2_000  # rows that one transaction of a sweep or an erasure removes: others write between two of them

_FIELDS = "name, project, created_at, updated_at, expires_at, size, head"
_KEY = "tenant, user_id, name, project"


class Head(msgspec.Struct):
    """What is kept of an entry in one text."""

    category: str | None = None
    tags: list[str] = []
    agent: str | None = None

    @classmethod
    def of(cls, entry: WorkingEntry) -> str:
        """The entry's, as JSON."""
        return msgspec.json.encode(cls(entry.category, entry.tags, entry.agent)).decode()


class StateWorking(StatePart):
    """`ports.WorkingStore`."""

    async def put_working(self, scope: Scope, entry: WorkingEntry, *, most: int) -> bool | None:
        async def work(db: Db) -> bool | None:
            columns, shared = await self._sealing.for_writing(db, scope.owner), self._database.shared
            values: dict[str, Any] = {
                **owned(scope.owner),
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
            past = f"DELETE FROM working WHERE {OWNED} AND namespace = :namespace AND expires_at <= :updated_at"
            await db.run(past, **values)
            stored = await db.first(
                f"SELECT 1 FROM working WHERE {OWNED} AND name = :name AND project = :project", **values
            )
            # of its own project: what others keep is told to nobody
            held = f"SELECT count(*) FROM working WHERE {OWNED} AND namespace = :namespace AND project = :project"
            if stored is None and (count := await db.first(held, **values)) is not None and count[0] >= most:
                return None
            await db.run(
                """
                INSERT INTO working (tenant, user_id, name, project, namespace, created_at, updated_at, expires_at,
                    size, head, words, data)
                VALUES (:tenant, :user, :name, :project, :namespace, :created_at, :updated_at, :expires_at,
                    :size, :head, :words, :data)
                ON CONFLICT (tenant, user_id, name, project) DO UPDATE SET updated_at = excluded.updated_at,
                    expires_at = excluded.expires_at, size = excluded.size, head = excluded.head,
                    words = excluded.words, data = excluded.data
                """,
                **values,
            )
            return stored is None

        return await self._database.write(work, scope.owner)

    async def working(self, scope: Scope, key: str, now: datetime) -> WorkingEntry | None:
        return await self._database.read(lambda db: self._find(db, scope, key, now))

    async def _find(self, db: Db, scope: Scope, key: str, now: datetime) -> WorkingEntry | None:
        """The entry with its data; its own project's before one of none."""
        columns = await self._sealing.of(db, scope.owner)
        if columns is None:
            return None
        row = await db.first(
            f"SELECT {_FIELDS}, NULL, data FROM working WHERE {_visible(scope)} AND name = :name "
            "ORDER BY CASE WHEN project = :project THEN 0 ELSE 1 END LIMIT 1",
            name=columns.name(key),
            **self._values(scope, now),
        )
        return None if row is None else self._entry(db, columns, row)

    async def newest_working(
        self, scope: Scope, now: datetime, *, most: int, words: bool = False
    ) -> list[WorkingEntry]:
        async def work(db: Db) -> list[WorkingEntry]:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return []
            rows = await db.all(
                f"SELECT {_FIELDS}, {'words' if words else 'NULL'}, NULL FROM working WHERE {_visible(scope)} "
                "ORDER BY updated_at DESC LIMIT :most",
                most=most,
                **self._values(scope, now),
            )
            return [self._entry(db, columns, row) for row in rows]

        return await self._database.read(work)

    async def working_page(
        self, scope: Scope, prefix: str, now: datetime, *, after: Place | None, most: int, words: bool = False
    ) -> WorkingPage:
        async def work(db: Db) -> WorkingPage:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return WorkingPage()
            low, high, namespace = bounds(columns, prefix, after)
            after_name, project = after or ("", "")
            rows = await db.all(
                f"SELECT {_FIELDS}, {'words' if words else 'NULL'}, NULL FROM working WHERE {OWNED} "
                "AND name >= :low AND name < :high AND (name, project) > (:behind, :project) "
                f"{'' if namespace is None else 'AND namespace = :namespace '}ORDER BY name, project LIMIT :most",
                low=low,
                high=high,
                behind=after_name,
                project=project,
                namespace=namespace,
                most=most,
                **owned(scope.owner),
            )
            shown = [
                (entry, (row[0], row[1]))
                for row in rows
                if (entry := self._entry(db, columns, row)).expires_at > now
                and entry.key.startswith(prefix)
                and (scope.project is None or entry.project in {None, scope.project})
            ]
            last = (rows[-1][0], rows[-1][1]) if len(rows) == most else None
            return WorkingPage([entry for entry, _ in shown], [place for _, place in shown], last)

        return await self._database.read(work)

    async def drop_working(self, scope: Scope, key: str, now: datetime) -> bool:
        async def work(db: Db) -> bool:
            entry = await self._find(db, scope, key, now)
            columns = await self._sealing.of(db, scope.owner)
            if columns is None or entry is None:
                return False
            key_values = {"name": columns.name(key), "project": entry.project or "", **owned(scope.owner)}
            gone = f"DELETE FROM working WHERE {OWNED} AND name = :name AND project = :project"
            return await db.run(gone, **key_values) > 0

        return await self._database.write(work, scope.owner)

    async def sweep_working(self, now: datetime) -> int:
        swept, past = 0, self._database.shared(now)
        while gone := await self._database.write(
            lambda db: db.drop_some("working", _KEY, "expires_at <= :now", AT_ONCE, now=past)
        ):
            swept += gone
        return swept

    async def _empty_working(self, owner: OwnerKey, session: str | None) -> None:
        """Erase most of what there is before a transaction erases the rest with all else, which thus is not long."""

        async def work(db: Db) -> int:
            return await erase(db, await self._sealing.of(db, owner), owner, session, most=AT_ONCE)

        while await self._database.write(work) == AT_ONCE:
            pass

    def _entry(self, db: Db, columns: Columns, row: Row) -> WorkingEntry:
        name, project, *times = row[:5]
        local_times = [self._database.local(db.moment(time)) for time in times]
        return opened(columns, (name, project, *local_times, *row[5:]))

    def _values(self, scope: Scope, now: datetime) -> dict[str, Any]:
        return {**owned(scope.owner), "project": scope.project or "", "now": self._database.shared(now)}


def _visible(scope: Scope) -> str:
    """Condition on a row: the scope sees the entry now."""
    in_project = "" if scope.project is None else " AND project IN (:project, '')"
    return f"{OWNED} AND expires_at > :now{in_project}"


def bounds(columns: Columns, prefix: str, after: Place | None) -> tuple[str, str, str | None]:
    """What names behind the place are not below, and below; and the namespace that they must have, None: any. Names
    that are encrypted are not narrowed by their beginnings, but by a whole namespace.
    """
    after_name = after[0] if after is not None else ""
    if columns.name(prefix) == prefix:
        return max(prefix, after_name), f"{prefix}\x7f", None  # a key is ASCII
    return after_name, "\x7f", columns.name(namespace_of(prefix)) if prefix.count("/") > 1 else None


def opened(columns: Columns, row: Sequence[Any]) -> WorkingEntry:
    """The entry of a row: name, project, its three times, size, head, words and data."""
    name, project, created_at, updated_at, expires_at, size, sealed, words, data = row
    head = msgspec.json.decode(columns.open_text(sealed, HEAD) or "{}", type=Head)
    return WorkingEntry(
        key=columns.plain_name(name),
        created_at=created_at,
        updated_at=updated_at,
        expires_at=expires_at,
        size=size,
        category=head.category,
        tags=head.tags,
        project=project or None,
        agent=head.agent,
        data=columns.open(data, DATA) if data else b"",
        words=columns.open_text(words, WORDS) if words else "",
    )


async def erase(
    db: Db, columns: Columns | None, owner: OwnerKey, session: str | None, *, most: int | None = None
) -> int:
    """Erase the owner's entries, or the namespace of one session; how many, of ``most``."""
    where, values = OWNED, owned(owner)
    if session is not None:
        if columns is None:
            return 0  # without a key there are none
        where, values["namespace"] = f"{OWNED} AND namespace = :namespace", columns.name(f"session/{session}")
    if most is None:
        return await db.run(f"DELETE FROM working WHERE {where}", **values)
    return await db.drop_some("working", _KEY, where, most, **values)
