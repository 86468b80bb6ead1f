"""Copying a whole installation between stores: the state's tables as rows that mean the same in SQLite and PostgreSQL,
and points as the engines hold them, encrypted where they are.

A pass reads all of the source and writes what differs in the target: the next one goes on with what was broken off, or
brings what has changed since. Nothing here is bound to an owner: only `memproxy move` may use it.
"""

import hashlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from memproxy.ports import MOVED, STORE_ID
from memproxy.stores.backend import Backend, Stored
from memproxy.stores.filters import HasId, Where
from memproxy.stores.rebuild import EVERYBODY
from memproxy.stores.sqlite_schema import migrate
from memproxy.stores.state_owners import read_meta, write_meta
from memproxy.stores.state_part import Database, Db

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
    key = [column for column, _, position in sorted(columns, key=lambda column: column[2]) if position]
    if not key:
        (unique,) = db.execute('SELECT name FROM pragma_index_list(?) WHERE "unique"', [name]).fetchone()
        key = [column for (column,) in db.execute("SELECT name FROM pragma_index_info(?)", [unique])]
    return Table(
        name=name,
        columns=tuple(column for column, _, _ in columns),
        texts=frozenset(column for column, declared, _ in columns if declared == "TEXT"),
        key=tuple(key),
    )


class StateTables(ABC):
    """The tables of one state. Rows and columns are as SQLite has them, but for the user's column (`column_name`)."""

    inserting: ClassVar[str] = ""
    """The clause behind the inserted columns that lets a row keep its number."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        """Rows in the order of their keys, from behind ``after``."""
        columns, key = self._columns(table), ", ".join(map(column_name, table.key))
        values = {} if after is None else self._key(table, after)
        condition = f"WHERE ({key}) > ({_placeholders(values)})" if values else ""
        text = f"SELECT {', '.join(columns)} FROM {table.name} {condition} ORDER BY {key} LIMIT :most"  # noqa: S608 - names of our own schema
        rows = await self._database.read(lambda db: db.all(text, most=limit, **values))
        return [self._row(table, dict(zip(columns, row, strict=True))) for row in rows]

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        values = [self._values(table, row) for row in rows]
        columns, key = list(map(column_name, values[0])), list(map(column_name, table.key))
        changed = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
        text = (
            f"INSERT INTO {table.name} ({', '.join(columns)}) {self.inserting} VALUES ({_placeholders(values[0])}) "  # noqa: S608 - as above
            f"ON CONFLICT ({', '.join(key)}) DO {f'UPDATE SET {changed}' if changed else 'NOTHING'}"
        )
        await self._database.write(lambda db: db.run_each(text, values))

    async def remove(self, table: Table, keys: Sequence[Key]) -> None:
        condition = " AND ".join(f"{column_name(name)} = :{name}" for name in table.key)
        values = [self._key(table, key) for key in keys]
        await self._database.write(lambda db: db.run_each(f"DELETE FROM {table.name} WHERE {condition}", values))  # noqa: S608 - as above

    async def count(self, table: Table) -> int:
        row = await self._database.read(lambda db: db.first(f"SELECT count(*) FROM {table.name}"))  # noqa: S608 - as above
        return int(row[0]) if row else 0

    @abstractmethod
    async def last_numbers(self) -> dict[str, int]:
        """The last number that was given to a row, by table; none is given twice."""

    @abstractmethod
    async def set_last_numbers(self, numbers: dict[str, int]) -> None:
        """Number the next rows from after these."""

    async def meta(self, key: str) -> str | None:
        return await read_meta(self._database, key)

    async def set_meta(self, key: str, value: str) -> None:
        """Note a fact; an empty one takes it away."""
        await write_meta(self._database, key, value)

    @abstractmethod
    async def check_unused(self) -> None:
        """Raise `ConfigError` if another process uses the state."""

    def _columns(self, table: Table) -> list[str]:
        """The columns that are read."""
        return [column_name(name) for name in table.columns]

    def _row(self, table: Table, stored: Mapping[str, Any]) -> Row:
        return {name: stored[column_name(name)] for name in table.columns}

    def _values(self, table: Table, row: Row) -> Row:
        """The row as it is written."""
        return {name: row[name] for name in table.columns}

    def _key(self, table: Table, key: Key) -> Row:
        """The same of a key."""
        return dict(zip(table.key, key, strict=True))


def column_name(column: str) -> str:
    """A column of SQLite's as statements for both databases write it (`state_part.Db`)."""
    return "user_id" if column == "user" else column


def _placeholders(names: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in names)


class SqliteTables(StateTables):
    """`StateTables` of a state file, which is open."""

    async def last_numbers(self) -> dict[str, int]:
        return dict(await self._database.read(lambda db: db.all("SELECT name, seq FROM sqlite_sequence")))

    async def set_last_numbers(self, numbers: dict[str, int]) -> None:
        async def work(db: Db) -> None:
            for name, number in numbers.items():
                await db.run("DELETE FROM sqlite_sequence WHERE name = :name", name=name)
                await db.run("INSERT INTO sqlite_sequence VALUES (:name, :number)", name=name, number=number)

        await self._database.write(work)

    async def check_unused(self) -> None:
        """As `StateTables` says: a process that has the file open holds its lock (`serve.instance`)."""


class Copied(Protocol, Generic[Item]):
    """Something that is copied, piece by piece: a table's rows, or a store's points."""

    def pages(self) -> AsyncIterator[list[Item]]:
        """All that is there."""

    def name(self, item: Item) -> bytes:
        """The key of an item."""

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
        after: Key | None = None
        while page := await self._tables.page(self._table, after, ROWS):
            after = self._table.key_of(page[-1])
            if self._table.name == "meta":
                yield [row for row in page if row["key"] not in NOT_COPIED]
            elif self._table.name == "journal":
                yield [{**row, "state": "waiting"} if row["state"] == "running" else row for row in page]
            else:
                yield page

    def name(self, row: Row) -> bytes:
        return msgspec.msgpack.encode(self._table.key_of(row))

    def digest(self, row: Row) -> bytes:
        return _digest(msgspec.msgpack.encode([row[name] for name in self._table.columns]))

    async def write(self, rows: Sequence[Row]) -> None:
        await self._tables.write(self._table, rows)

    async def remove(self, names: Sequence[bytes]) -> None:
        await self._tables.remove(self._table, [tuple(msgspec.msgpack.decode(name)) for name in names])


class StoredPoints:
    """The points of a store, of all owners, as its engine holds them, as `Copied`."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine

    async def pages(self) -> AsyncIterator[list[Stored]]:
        after: str | None = None
        while points := await self._engine.scroll(EVERYBODY, limit=ROWS, fields=["tenant"], after_id=after):
            yield await self._engine.stored([point.id for point in points])
            after = points[-1].id

    async def count(self) -> int:
        return await self._engine.count(EVERYBODY)

    def name(self, point: Stored) -> bytes:
        return point.id.encode()

    def digest(self, point: Stored) -> bytes:
        """Of its payload, how many vectors it has, and its words: engines round vectors."""
        parts = [_plain(point.payload), len(point.dense), sorted(point.bm25.indices)]
        return _digest(msgspec.json.encode(parts, order="deterministic"))

    async def write(self, points: Sequence[Stored]) -> None:
        await self._engine.upsert(points)

    async def remove(self, names: Sequence[bytes]) -> None:
        await self._engine.delete(Where((HasId(tuple(name.decode() for name in names)),)))


async def digests(copied: Copied[Item]) -> Digests:
    """The digests of all that is there."""
    return {copied.name(item): copied.digest(item) async for page in copied.pages() for item in page}


async def copy(source: Copied[Item], target: Copied[Item], held: Digests, shown: Callable[[int], None]) -> int:
    """Bring the target to what the source has; ``held`` says what the target holds, and is updated. ``shown`` is called
    with how many were looked at. How many were written or removed.
    """
    changed, names = 0, set[bytes]()
    async for page in source.pages():
        page_digests = {source.name(item): source.digest(item) for item in page}
        new = [item for item in page if held.get(source.name(item)) != page_digests[source.name(item)]]
        if new:
            await target.write(new)
        held |= page_digests
        names |= page_digests.keys()
        changed += len(new)
        shown(len(page))
    gone = list(held.keys() - names)
    for start in range(0, len(gone), ROWS):
        await target.remove(gone[start : start + ROWS])
    for name in gone:
        del held[name]
    return changed + len(gone)


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def _plain(value: Any) -> Any:
    """The same for what engines write in several ways: whole numbers as floats, null or nothing."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
