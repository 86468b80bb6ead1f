"""Copying a whole installation between stores: the state's tables as rows that mean the same in SQLite and PostgreSQL,
and points as the engines hold them.

What is encrypted stays so: rows and points are copied as they are stored. A pass reads all of the source and writes
what differs in the target, so that a pass that was broken off is gone on with by the next one, and a later pass only
brings what has changed since. Nothing here is bound to an owner: only `memproxy move` may use it.
"""

import hashlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from memproxy.ports import MOVED, STORE_ID
from memproxy.stores.backend import Backend, Written
from memproxy.stores.filters import HasId, Where
from memproxy.stores.rebuild import EVERYBODY
from memproxy.stores.sqlite_file import SqliteFile
from memproxy.stores.sqlite_schema import migrate

ROWS = 100
"""Rows, or points, that are read and written at once: an entry of working memory, or a long turn, may be a megabyte."""

NOT_COPIED = frozenset({STORE_ID, MOVED})
"""Facts of a state (``meta``) that are the installation's own."""

Item = TypeVar("Item")
Row = dict[str, Any]
Key = tuple[Any, ...]
Digests = dict[bytes, bytes]
"""The digest of each row, or point, by its name."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the state as SQLite has it: its columns, those that are declared as text, and its key."""

    name: str
    columns: tuple[str, ...]
    texts: frozenset[str]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Key:
        """What a row is found by."""
        return tuple(row[name] for name in self.key)


def state_tables() -> list[Table]:
    """All tables of the state, those first that others refer to."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    try:
        migrate(db)
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        return [_table(db, name) for (name,) in names.fetchall()]
    finally:
        db.close()


def _table(db: sqlite3.Connection, name: str) -> Table:
    columns = db.execute("SELECT name, type, pk FROM pragma_table_info(?)", [name]).fetchall()
    key = [column for column, _, place in sorted(columns, key=lambda one: one[2]) if place]
    if not key:
        (unique,) = db.execute('SELECT name FROM pragma_index_list(?) WHERE "unique"', [name]).fetchone()
        key = [column for (column,) in db.execute("SELECT name FROM pragma_index_info(?)", [unique])]
    return Table(
        name=name,
        columns=tuple(column for column, _, _ in columns),
        texts=frozenset(column for column, declared, _ in columns if declared == "TEXT"),
        key=tuple(key),
    )


class StateTables(Protocol):
    """The tables of one state. Rows are as SQLite has them."""

    async def page(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        """Rows in the order of their keys, from behind ``after``."""

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert or replace rows."""

    async def remove(self, table: Table, keys: Sequence[Key]) -> None:
        """Delete rows."""

    async def count(self, table: Table) -> int:
        """How many rows there are."""

    async def last_numbers(self) -> dict[str, int]:
        """The last number that was given to a row, by table; none is given twice."""

    async def set_last_numbers(self, numbers: dict[str, int]) -> None:
        """The next rows are numbered from behind these."""

    async def meta(self, key: str) -> str | None:
        """A fact of the state."""

    async def set_meta(self, key: str, value: str) -> None:
        """Note a fact; an empty one takes it away."""

    async def check_unused(self) -> None:
        """See that nobody works on it. Raises `ConfigError`."""


class SqliteTables:
    """`StateTables` of a state file, which is open."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def page(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        key = ", ".join(table.key)
        behind = f"WHERE ({key}) > ({', '.join('?' * len(table.key))})" if after is not None else ""
        text = f"SELECT {', '.join(table.columns)} FROM {table.name} {behind} ORDER BY {key} LIMIT ?"  # noqa: S608
        rows = await self._file.read(lambda db: db.execute(text, [*(after or ()), limit]).fetchall())
        return [dict(zip(table.columns, row, strict=True)) for row in rows]

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        changed = ", ".join(f"{name} = excluded.{name}" for name in table.columns)
        text = (
            f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({', '.join('?' * len(table.columns))}) "  # noqa: S608 - names of our own schema
            f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {changed}"
        )
        values = [[row[name] for name in table.columns] for row in rows]
        await self._file.write(lambda db: db.executemany(text, values))

    async def remove(self, table: Table, keys: Sequence[Key]) -> None:
        text = f"DELETE FROM {table.name} WHERE {' AND '.join(f'{name} = ?' for name in table.key)}"  # noqa: S608 - as above
        await self._file.write(lambda db: db.executemany(text, keys))

    async def count(self, table: Table) -> int:
        text = f"SELECT count(*) FROM {table.name}"  # noqa: S608 - as above
        return await self._file.read(lambda db: int(db.execute(text).fetchone()[0]))

    async def last_numbers(self) -> dict[str, int]:
        return await self._file.read(lambda db: dict(db.execute("SELECT name, seq FROM sqlite_sequence").fetchall()))

    async def set_last_numbers(self, numbers: dict[str, int]) -> None:
        def work(db: sqlite3.Connection) -> None:
            for name, number in numbers.items():
                db.execute("DELETE FROM sqlite_sequence WHERE name = ?", [name])
                db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", [name, number])

        await self._file.write(work)

    async def meta(self, key: str) -> str | None:
        row = await self._file.read(lambda db: db.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchone())
        return None if row is None else str(row[0])

    async def set_meta(self, key: str, value: str) -> None:
        await self._file.write(lambda db: db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [key, value]))

    async def check_unused(self) -> None:
        """As `StateTables` says: a process that has the file open holds its lock (`serve.instance`)."""


class Copied(Protocol, Generic[Item]):
    """Something that is copied, piece by piece: a table's rows, or a store's points."""

    def pages(self) -> AsyncIterator[list[Item]]:
        """All that is there."""

    def name(self, item: Item) -> bytes:
        """What one is found by."""

    def digest(self, item: Item) -> bytes:
        """The same for the same one in every store."""

    async def write(self, items: Sequence[Item]) -> None:
        """Insert or replace."""

    async def remove(self, names: Sequence[bytes]) -> None:
        """Delete those of these names."""


class Rows:
    """The rows of one table, as `Copied`. A row that runs waits, as after a restart."""

    def __init__(self, table: Table, tables: StateTables) -> None:
        self._table = table
        self._tables = tables

    async def pages(self) -> AsyncIterator[list[Row]]:
        """All rows that are copied."""
        after: Key | None = None
        while page := await self._tables.page(self._table, after, ROWS):
            yield [self._at_rest(row) for row in page if not self._is_own(row)]
            after = self._table.key_of(page[-1])

    def _is_own(self, row: Row) -> bool:
        return self._table.name == "meta" and row["key"] in NOT_COPIED

    def _at_rest(self, row: Row) -> Row:
        runs = self._table.name == "journal" and row["state"] == "running"
        return {**row, "state": "waiting"} if runs else row

    def name(self, row: Row) -> bytes:
        """Its key."""
        return msgspec.msgpack.encode(self._table.key_of(row))

    def digest(self, row: Row) -> bytes:
        """Of all its columns."""
        return _digest(msgspec.msgpack.encode([row[name] for name in self._table.columns]))

    async def write(self, rows: Sequence[Row]) -> None:
        """Insert or replace rows."""
        await self._tables.write(self._table, rows)

    async def remove(self, names: Sequence[bytes]) -> None:
        """Delete rows."""
        await self._tables.remove(self._table, [tuple(msgspec.msgpack.decode(name)) for name in names])


class StoredPoints:
    """The points of a store, of all owners, as its engine holds them, as `Copied`."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine

    async def pages(self) -> AsyncIterator[list[Written]]:
        """All points, in the order of their ids."""
        after: str | None = None
        while found := await self._engine.scroll(EVERYBODY, limit=ROWS, fields=["tenant"], after_id=after):
            stored = await self._engine.stored([one.id for one in found])
            yield [Written(one.id, one.found.payload, one.dense, one.bm25) for one in stored]
            after = found[-1].id

    async def count(self) -> int:
        """How many there are."""
        return await self._engine.count(EVERYBODY)

    def name(self, point: Written) -> bytes:
        """Its id."""
        return point.id.encode()

    def digest(self, point: Written) -> bytes:
        """Of its payload, how many vectors it has, and its words: engines round vectors."""
        known = [_plain(point.payload), len(point.dense), sorted(point.bm25.indices)]
        return _digest(msgspec.json.encode(known, order="deterministic"))

    async def write(self, points: Sequence[Written]) -> None:
        """Insert or replace points."""
        await self._engine.upsert(points)

    async def remove(self, names: Sequence[bytes]) -> None:
        """Delete points."""
        await self._engine.delete(Where((HasId(tuple(name.decode() for name in names)),)))


async def digests(copied: Copied[Item]) -> Digests:
    """The digests of all that is there."""
    return {copied.name(one): copied.digest(one) async for page in copied.pages() for one in page}


async def copy(source: Copied[Item], target: Copied[Item], known: Digests, shown: Callable[[int], None]) -> int:
    """Bring the target, of which ``known`` is what it holds, to what the source has; ``known`` is that then.
    ``shown`` is called with how many were looked at. How many were written or removed.
    """
    changed, seen = 0, set[bytes]()
    async for page in source.pages():
        found = {source.name(one): source.digest(one) for one in page}
        new = [one for one in page if known.get(source.name(one)) != found[source.name(one)]]
        if new:
            await target.write(new)
        known |= found
        seen |= found.keys()
        changed += len(new)
        shown(len(page))
    gone = list(known.keys() - seen)
    for start in range(0, len(gone), ROWS):
        await target.remove(gone[start : start + ROWS])
    for name in gone:
        del known[name]
    return changed + len(gone)


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def _plain(value: Any) -> Any:
    """The same for what engines write in several ways: whole numbers as floats, null or nothing."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
