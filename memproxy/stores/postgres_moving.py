"""The tables of a state in PostgreSQL, as `moving.StateTables`: rows are as SQLite has them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg import sql

from memproxy.core.audit import AuditEntry
from memproxy.core.scope import Scope
from memproxy.errors import ConfigError
from memproxy.stores.moving import Key, Row, Table
from memproxy.stores.postgres_state_database import SCHEMA, PostgresDatabase, one, scope_of
from memproxy.stores.postgres_state_schema import migrate
from memproxy.stores.state_callers import users_of
from memproxy.stores.state_owners import read_meta, write_meta
from memproxy.stores.state_part import micros, moment

_SCOPE, _PLACE = "scope", ("project", "agent")
"""What is one column of JSON in SQLite, and what of it stands in columns of its own here beside owner and session."""


class PostgresTables:
    """`StateTables` of a database, which is open and has its tables."""

    def __init__(self, database: PostgresDatabase, types: Mapping[tuple[str, str], str]) -> None:
        self._database = database
        self._types = types

    @classmethod
    async def of(cls, database: PostgresDatabase) -> "PostgresTables":
        """Those of this database, which is open; made where they are not there."""
        async with database.alone() as db:
            await migrate(db)
            found = await db.execute(
                "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns "
                "WHERE table_schema = %s",
                [SCHEMA],
            )
            types = {(table, column): kind for table, column, kind in await found.fetchall()}
        return cls(database, types)

    async def check_unused(self) -> None:
        """See that no replica works on it.

        Raises:
            ConfigError: one does.
        """
        async with self._database.connected() as db:
            (running,) = await one(db, "SELECT count(*) FROM claimants WHERE until > clock_timestamp()")
        if running:
            raise ConfigError(
                f"{running} engines still work on the state in {self._database.place}. Stop every `memproxy serve` "
                "that uses it, and run this again a minute later."
            )

    async def page(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        columns, key = self._columns(table), [_named(name) for name in table.key]
        names = sql.SQL(", ").join(map(sql.Identifier, key))
        behind: sql.SQL | sql.Composed = sql.SQL("")
        values: list[Any] = []
        if after is not None:
            places = sql.SQL(", ").join(sql.Placeholder() * len(key))
            behind = sql.SQL("WHERE ({}) > ({})").format(names, places)
            values = [self._written(table, name, value) for name, value in zip(table.key, after, strict=True)]
        text = sql.SQL("SELECT {} FROM {} {} ORDER BY {} LIMIT {}").format(
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            sql.Identifier(table.name),
            behind,
            names,
            sql.Literal(limit),
        )
        async with self._database.connected() as db:
            rows = await (await db.execute(text, values)).fetchall()
        return [self._row(table, dict(zip(columns, row, strict=True))) for row in rows]

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        columns = [*self._columns(table), *(("about", "by_user") if table.name == "audit" else ())]
        key = [_named(name) for name in table.key]
        others = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns if name not in key]
        text = sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({}) ON CONFLICT ({}) DO {}").format(
            sql.Identifier(table.name),
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            sql.SQL(", ").join(sql.Placeholder() * len(columns)),
            sql.SQL(", ").join(map(sql.Identifier, key)),
            sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(others)) if others else sql.SQL("NOTHING"),
        )
        async with self._database.transaction() as db, db.cursor() as cursor:
            await cursor.executemany(text, [self._values(table, row) for row in rows])

    async def remove(self, table: Table, keys: Sequence[Key]) -> None:
        text = sql.SQL("DELETE FROM {} WHERE {}").format(
            sql.Identifier(table.name),
            sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(_named(name))) for name in table.key),
        )
        values = [[self._written(table, name, one) for name, one in zip(table.key, key, strict=True)] for key in keys]
        async with self._database.transaction() as db, db.cursor() as cursor:
            await cursor.executemany(text, values)

    async def count(self, table: Table) -> int:
        async with self._database.connected() as db:
            found = await db.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table.name)))
            row = await found.fetchone()
        return int(row[0]) if row else 0

    async def last_numbers(self) -> dict[str, int]:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT sequencename::text, last_value FROM pg_sequences "
                "WHERE schemaname = %s AND last_value IS NOT NULL",
                [SCHEMA],
            )
            return {name.removesuffix("_number_seq"): last for name, last in await found.fetchall()}

    async def set_last_numbers(self, numbers: dict[str, int]) -> None:
        async with self._database.connected() as db:
            for table, number in numbers.items():
                if (table, "number") in self._types and number:
                    await db.execute("SELECT setval(%s::regclass, %s)", [f"{SCHEMA}.{table}_number_seq", number])

    async def meta(self, key: str) -> str | None:
        return await read_meta(self._database, key)

    async def set_meta(self, key: str, value: str) -> None:
        await write_meta(self._database, key, value)

    def _columns(self, table: Table) -> list[str]:
        """The columns here that hold what SQLite's do."""
        names = [part for name in table.columns for part in (_PLACE if name == _SCOPE else (_named(name),))]
        if missing := [name for name in names if (table.name, name) not in self._types]:
            raise ConfigError(f"The state in {self._database.place} has no column {table.name}.{missing[0]}.")
        return names

    def _row(self, table: Table, stored: Mapping[str, Any]) -> Row:
        row = {}
        for name in table.columns:
            if name == _SCOPE:
                place = (stored[one] for one in ("tenant", "user_id", *_PLACE, "session"))
                row[name] = msgspec.json.encode(scope_of(*place)).decode()
            else:
                row[name] = self._read(table, name, stored[_named(name)])
        return row

    def _read(self, table: Table, name: str, value: Any) -> Any:
        if isinstance(value, datetime):
            return micros(value)
        if isinstance(value, bytes) and name in table.texts:
            return value.decode()
        if table.name == "journal" and name == "due":
            return 0  # null: at once
        return int(value) if isinstance(value, bool) else value

    def _values(self, table: Table, row: Row) -> list[Any]:
        values: list[Any] = []
        for name in table.columns:
            if name == _SCOPE:
                scope = msgspec.json.decode(row[name], type=Scope)
                values += [scope.project, scope.agent]
            else:
                values.append(self._written(table, name, row[name]))
        if table.name == "audit":
            values += users_of(msgspec.json.decode(row["entry"], type=AuditEntry))
        return values

    def _written(self, table: Table, name: str, value: Any) -> Any:
        kind = self._types[table.name, _named(name)]
        if value is None or (table.name == "journal" and name == "due" and not value):
            return None
        if kind == "timestamp with time zone":
            return moment(value)
        if kind == "bytea" and isinstance(value, str):
            return value.encode()
        return bool(value) if kind == "boolean" else value


def _named(column: str) -> str:
    return "user_id" if column == "user" else column
