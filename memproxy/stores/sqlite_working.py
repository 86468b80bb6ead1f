"""Working memory in the state's file (`ports.WorkingStore`)."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.scope import Scope
from memproxy.core.working_memory import Place, WorkingEntry, WorkingPage, namespace_of
from memproxy.stores.sqlite_part import Columns, Owner, SqlitePart, micros, moment

HEAD, DATA, WORDS = "working.head", "working.data", "working.words"
"""What the columns with texts are sealed as."""

AT_ONCE = 2_000
"""Rows that one transaction of a sweep or an erasure removes: others write between two of them."""

_FIELDS = "name, project, created_at, updated_at, expires_at, size, head"


class Head(msgspec.Struct):
    """What is kept of an entry in one text."""

    category: str | None = None
    tags: list[str] = []
    agent: str | None = None

    @classmethod
    def of(cls, entry: WorkingEntry) -> str:
        """The entry's, as JSON."""
        return msgspec.json.encode(cls(entry.category, entry.tags, entry.agent)).decode()


class SqliteWorking(SqlitePart):
    """`ports.WorkingStore` in the state's file."""

    async def put_working(self, scope: Scope, entry: WorkingEntry, *, most: int) -> bool | None:
        def work(db: sqlite3.Connection) -> bool | None:
            return put(db, self._sealing.made(db, scope.owner), scope.owner, entry, most)

        return await self._commits.add(work)

    async def working(self, scope: Scope, key: str, now: datetime) -> WorkingEntry | None:
        def work(db: sqlite3.Connection) -> WorkingEntry | None:
            columns = self._sealing.of(db, scope.owner)
            return None if columns is None else find(db, columns, scope, key, now)

        return await self._file.read(work)

    async def newest_working(
        self, scope: Scope, now: datetime, *, most: int, words: bool = False
    ) -> list[WorkingEntry]:
        def work(db: sqlite3.Connection) -> list[WorkingEntry]:
            columns = self._sealing.of(db, scope.owner)
            return [] if columns is None else newest(db, columns, scope, now, most=most, words=words)

        return await self._file.read(work)

    async def working_page(
        self, scope: Scope, prefix: str, now: datetime, *, after: Place | None, most: int, words: bool = False
    ) -> WorkingPage:
        def work(db: sqlite3.Connection) -> WorkingPage:
            columns = self._sealing.of(db, scope.owner)
            if columns is None:
                return WorkingPage()
            return page(db, columns, scope, prefix, now, after=after, most=most, words=words)

        return await self._file.read(work)

    async def drop_working(self, scope: Scope, key: str, now: datetime) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            columns = self._sealing.of(db, scope.owner)
            entry = None if columns is None else find(db, columns, scope, key, now)
            if columns is None or entry is None:
                return False
            db.execute(
                "DELETE FROM working WHERE tenant = ? AND user = ? AND name = ? AND project = ?",
                (*scope.owner, columns.name(key), entry.project or ""),
            )
            return True

        return await self._file.write(work)

    async def sweep_working(self, now: datetime) -> int:
        swept = 0
        while gone := await self._file.write(lambda db: sweep(db, now)):
            swept += gone
        return swept

    async def _empty_working(self, owner: Owner, session: str | None) -> None:
        """Erase most of what there is before a transaction erases the rest with all else, which thus is not long."""

        def work(db: sqlite3.Connection) -> int:
            return erase(db, self._sealing.of(db, owner), owner, session, most=AT_ONCE)

        while await self._file.write(work) == AT_ONCE:
            pass


def put(db: sqlite3.Connection, columns: Columns, owner: Owner, entry: WorkingEntry, most: int) -> bool | None:
    """Keep the entry: True when it is new, False when it takes the place of one, None when its namespace is full."""
    namespace = columns.name(entry.namespace)
    place = (*owner, columns.name(entry.key), entry.project or "")
    db.execute(
        "DELETE FROM working WHERE tenant = ? AND user = ? AND namespace = ? AND expires_at <= ?",
        (*owner, namespace, micros(entry.updated_at)),
    )
    there = db.execute(
        "SELECT created_at FROM working WHERE tenant = ? AND user = ? AND name = ? AND project = ?", place
    ).fetchone()
    if there is None:
        (held,) = db.execute(
            # of its own project: what others keep is told to nobody
            "SELECT count(*) FROM working WHERE tenant = ? AND user = ? AND namespace = ? AND project = ?",
            (*owner, namespace, entry.project or ""),
        ).fetchone()
        if held >= most:
            return None
    db.execute(
        """
        INSERT OR REPLACE INTO working (tenant, user, name, project, namespace, created_at, updated_at, expires_at,
            size, head, words, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            *place,
            namespace,
            micros(entry.created_at) if there is None else there[0],
            micros(entry.updated_at),
            micros(entry.expires_at),
            entry.size,
            columns.seal_text(Head.of(entry), HEAD),
            columns.seal_text(entry.words, WORDS),
            columns.seal(entry.data, DATA),
        ),
    )
    return there is None


def find(db: sqlite3.Connection, columns: Columns, scope: Scope, key: str, now: datetime) -> WorkingEntry | None:
    """The entry with its data; its own project's before one of none."""
    row = db.execute(
        f"SELECT {_FIELDS}, '', data FROM working WHERE tenant = ? AND user = ? AND name = ? "  # noqa: S608 - constants
        "AND expires_at > ? AND (?5 IS NULL OR project IN ('', ?5)) ORDER BY project = ifnull(?5, '') DESC",
        (*scope.owner, columns.name(key), micros(now), scope.project),
    ).fetchone()
    return None if row is None else _entry(columns, row)


def newest(
    db: sqlite3.Connection, columns: Columns, scope: Scope, now: datetime, *, most: int, words: bool
) -> list[WorkingEntry]:
    """The entries that were changed last, without their data."""
    rows = db.execute(
        f"SELECT {_FIELDS}, {'words' if words else repr('')}, x'' FROM working "  # noqa: S608 - constants
        "WHERE tenant = ? AND user = ? AND expires_at > ? AND (?4 IS NULL OR project IN ('', ?4)) "
        "ORDER BY updated_at DESC LIMIT ?5",
        (*scope.owner, micros(now), scope.project, most),
    )
    return [_entry(columns, row) for row in rows]


def page(
    db: sqlite3.Connection,
    columns: Columns,
    scope: Scope,
    prefix: str,
    now: datetime,
    *,
    after: Place | None,
    most: int,
    words: bool,
) -> WorkingPage:
    """Some entries by their names, without their data."""
    low, high, namespace = bounds(columns, prefix, after)
    rows = db.execute(
        f"SELECT {_FIELDS}, {'words' if words else repr('')}, x'' FROM working "  # noqa: S608 - constants
        "WHERE tenant = ? AND user = ? AND name >= ? AND name < ? AND (name, project) > (?, ?) "
        f"{'' if namespace is None else 'AND namespace = ? '}ORDER BY name, project LIMIT ?",
        (*scope.owner, low, high, *(after or ("", "")), *([] if namespace is None else [namespace]), most),
    ).fetchall()
    found = [_entry(columns, row) for row in rows]
    return page_of(found, rows, scope, prefix, now, most=most)


def bounds(columns: Columns, prefix: str, after: Place | None) -> tuple[str, str, str | None]:
    """What names behind the place are not below, and below; and the namespace that they must have, None: any. Names
    that are encrypted are not narrowed by their beginnings, but by a whole namespace.
    """
    behind = after[0] if after is not None else ""
    if columns.name(prefix) == prefix:
        return max(prefix, behind), f"{prefix}\x7f", None  # a key is ASCII
    return behind, "\x7f", columns.name(namespace_of(prefix)) if prefix.count("/") > 1 else None


def page_of(
    found: Sequence[WorkingEntry], rows: Sequence[Sequence[Any]], scope: Scope, prefix: str, now: datetime, *, most: int
) -> WorkingPage:
    """The page of entries that were read from these rows: those that the scope sees now."""
    projects = {None, scope.project}
    shown = [
        (one, (row[0], row[1]))
        for one, row in zip(found, rows, strict=True)
        if one.expires_at > now and one.key.startswith(prefix) and (scope.project is None or one.project in projects)
    ]
    after = (rows[-1][0], rows[-1][1]) if len(rows) == most else None
    return WorkingPage([one for one, _ in shown], [place for _, place in shown], after)


def _entry(columns: Columns, row: tuple[Any, ...]) -> WorkingEntry:
    name, project, created_at, updated_at, expires_at, *rest = row
    return opened(columns, (name, project, moment(created_at), moment(updated_at), moment(expires_at), *rest))


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


def sweep(db: sqlite3.Connection, now: datetime) -> int:
    """Remove some of what has expired, and answer how many."""
    return db.execute(
        "DELETE FROM working WHERE rowid IN (SELECT rowid FROM working WHERE expires_at <= ? LIMIT ?)",
        (micros(now), AT_ONCE),
    ).rowcount


def erase(db: sqlite3.Connection, columns: Columns | None, owner: Owner, session: str | None, *, most: int = -1) -> int:
    """Erase the owner's entries, or the namespace of one session: ``most`` of them, -1 for all; how many went."""
    if session is not None and columns is None:
        return 0
    namespace = None if session is None or columns is None else columns.name(f"session/{session}")
    return db.execute(
        "DELETE FROM working WHERE rowid IN (SELECT rowid FROM working WHERE tenant = ? AND user = ? "  # noqa: S608 - constants
        f"{'' if namespace is None else 'AND namespace = ? '}LIMIT ?)",
        (*owner, *([] if namespace is None else [namespace]), most),
    ).rowcount
