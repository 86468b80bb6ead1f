"""The tables of a state in PostgreSQL, as `moving.StateTables`: rows are as SQLite has them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.audit import AuditEntry
from memproxy.core.scope import Scope
from memproxy.errors import ConfigError
from memproxy.stores.moving import Key, Row, StateTables, Table, column_name
from memproxy.stores.postgres_state_database import SCHEMA, PostgresDatabase, scope_of, single_row
from memproxy.stores.postgres_state_schema import migrate
from memproxy.stores.state_callers import users_of
from memproxy.stores.state_part import micros, moment

_SCOPE, _PLACE = "scope", ("project", "agent")
"""What is one column of JSON in SQLite, and what of it stands in columns of its own here beside owner and session."""


class PostgresTables(StateTables):
    """`StateTables` of a database, which is open and has its tables."""

    inserting = "OVERRIDING SYSTEM VALUE"

    def __init__(self, database: PostgresDatabase, types: Mapping[tuple[str, str], str]) -> None:
        super().__init__(database)
        self._database: PostgresDatabase = database
        self._types = types

    @classmethod
    async def of(cls, database: PostgresDatabase) -> "PostgresTables":
        """Those of this database, which is open; made where they are not there."""
        async with database.alone() as db:
            await migrate(db)
            result = await db.execute(
                "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns "
                "WHERE table_schema = %s",
                [SCHEMA],
            )
            types = {(table, column): kind for table, column, kind in await result.fetchall()}
        return cls(database, types)

    async def check_unused(self) -> None:
        """See that no replica works on it. Raises `errors.ConfigError`."""
        async with self._database.connected() as db:
            (running,) = await single_row(db, "SELECT count(*) FROM claimants WHERE until > clock_timestamp()")
        if running:
            raise ConfigError(
                f"{running} engines still work on the state in {self._database.location}. Stop every `memproxy serve` "
                "that uses it, and run this again a minute later."
            )

    async def last_numbers(self) -> dict[str, int]:
        async with self._database.connected() as db:
            result = await db.execute(
                "SELECT sequencename::text, last_value FROM pg_sequences "
                "WHERE schemaname = %s AND last_value IS NOT NULL",
                [SCHEMA],
            )
            return {name.removesuffix("_number_seq"): last for name, last in await result.fetchall()}

    async def set_last_numbers(self, numbers: dict[str, int]) -> None:
        async with self._database.connected() as db:
            for table, number in numbers.items():
                if (table, "number") in self._types and number:
                    await db.execute("SELECT setval(%s::regclass, %s)", [f"{SCHEMA}.{table}_number_seq", number])

    def _columns(self, table: Table) -> list[str]:
        """The columns here that hold what SQLite's do."""
        names = [part for name in table.columns for part in (_PLACE if name == _SCOPE else (column_name(name),))]
        if missing := [name for name in names if (table.name, name) not in self._types]:
            raise ConfigError(f"The state in {self._database.location} has no column {table.name}.{missing[0]}.")
        return names

    def _row(self, table: Table, stored: Mapping[str, Any]) -> Row:
        row = {}
        for name in table.columns:
            if name == _SCOPE:
                scope_values = (stored[column] for column in ("tenant", "user_id", *_PLACE, "session"))
                row[name] = msgspec.json.encode(scope_of(*scope_values)).decode()
            else:
                row[name] = self._read(table, name, stored[column_name(name)])
        return row

    def _read(self, table: Table, name: str, value: Any) -> Any:
        if isinstance(value, datetime):
            return micros(value)
        if isinstance(value, bytes) and name in table.texts:
            return value.decode()
        if table.name == "journal" and name == "due":
            return 0  # null: at once
        return int(value) if isinstance(value, bool) else value

    def _values(self, table: Table, row: Row) -> Row:
        values: Row = {}
        for name in table.columns:
            if name == _SCOPE:
                scope = msgspec.json.decode(row[name], type=Scope)
                values |= {"project": scope.project, "agent": scope.agent}
            else:
                values[name] = self._written(table, name, row[name])
        if table.name == "audit":
            about, by_user = users_of(msgspec.json.decode(row["entry"], type=AuditEntry))
            values |= {"about": about, "by_user": by_user}
        return values

    def _key(self, table: Table, key: Key) -> Row:
        return {name: self._written(table, name, value) for name, value in super()._key(table, key).items()}

    def _written(self, table: Table, name: str, value: Any) -> Any:
        kind = self._types[table.name, column_name(name)]
        if value is None or (table.name == "journal" and name == "due" and not value):
            return None
        if kind == "timestamp with time zone":
            return moment(value)
        if kind == "bytea" and isinstance(value, str):
            return value.encode()
        return bool(value) if kind == "boolean" else value
