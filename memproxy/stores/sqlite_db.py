"""How SQLite takes statements that are written for both databases (`state_part.Db`)."""

import re
import sqlite3
from collections.abc import Coroutine, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from memproxy.core.scope import Scope
from memproxy.stores.state_part import Result, Row, micros, moment

_LONGEST = 500  # elements of a list in one statement: well below SQLite's limit
_AT_ONCE = 32  # rows of one statement: between two, Python's lock may go to another thread
_USER = re.compile(r"user_id(?!')")  # no part of a path in JSON
_ENCODER = msgspec.json.Encoder()


class SqliteDb(sqlite3.Connection):
    """`state_part.Db`. What it is asked for is done when a call returns: `driven` runs what waits for nothing else."""

    scope_columns, scope_values = "tenant, user_id, session, scope", ":tenant, :user, :session, :scope"
    scope_update, scope_read = "scope = excluded.scope", "scope"
    now, arrival, true, names_users = ":now", "rowid", "1", False

    async def all(self, statement: str, /, **values: Any) -> list[Row]:
        if (text := _prepare(statement, values)) is not None:
            return self.execute(text, values).fetchall()
        return [row for part in _pieces(values) for row in await self.all(statement, **part)]

    async def first(self, statement: str, /, **values: Any) -> Row | None:
        if (text := _prepare(statement, values)) is not None:
            row: Row | None = self.execute(text, values).fetchone()
            return row
        return next(iter(await self.all(statement, **values)), None)

    async def run(self, statement: str, /, **values: Any) -> int:
        if (text := _prepare(statement, values)) is not None:
            return self.execute(text, values).rowcount
        return sum([await self.run(statement, **part) for part in _pieces(values)])

    async def run_each(self, statement: str, values: Sequence[dict[str, Any]]) -> None:
        for row in values:
            await self.run(statement, **row)

    async def numbered(self, statement: str, /, **values: Any) -> int | None:
        cursor = self.execute(_prepare(statement, values) or statement, values)
        return cursor.lastrowid if cursor.rowcount else None

    async def insert(
        self, table: str, columns: str, rows: Sequence[Sequence[Any]], conflict: str = "DO NOTHING"
    ) -> None:
        for start in range(0, len(rows), _AT_ONCE):
            batch = rows[start : start + _AT_ONCE]
            row = f"({', '.join('?' * len(batch[0]))})"
            text = f"INSERT INTO {table} ({columns}) VALUES {', '.join([row] * len(batch))} ON CONFLICT {conflict}"  # noqa: S608 - constants of the parts
            self.execute(_translate(text), [value for entry in batch for value in entry])

    async def drop_some(self, table: str, key: str, where: str, most: int, **values: Any) -> int:
        chosen = f"SELECT {key} FROM {table} WHERE {where} LIMIT :most"  # noqa: S608 - as above
        gone = f"DELETE FROM {table} WHERE ({key}) IN ({chosen})"  # noqa: S608 - as above
        return await self.run(gone, most=most, **values)

    def json(self, value: Any) -> str:
        return _ENCODER.encode(value).decode()

    def stored_time(self, time: datetime) -> int:
        return micros(time)

    def moment(self, stored: int) -> datetime:
        return moment(stored)

    def scope(self, *stored: str) -> Scope:
        return msgspec.json.decode(stored[0], type=Scope)

    def scope_params(self, scope: Scope) -> dict[str, Any]:
        return {"tenant": scope.tenant, "user": scope.user, "session": scope.session, "scope": self.json(scope)}

    def scoped(self, name: str) -> str:
        table, dot, field = name.rpartition(".")
        return f"json_extract({table}{dot}scope, '$.{field}')"

    def begins(self, column: str, text: str) -> str:
        return f"substr({column}, 1, length(:{text})) = :{text}"

    def holds(self, column: str, text: str) -> str:
        return f"instr({column}, :{text}) > 0"


def _prepare(statement: str, values: dict[str, Any]) -> str | None:
    """The statement as SQLite takes it, and the values made so; None: there is a list that it does not take at once."""
    lists = []
    for name, value in values.items():
        kind = type(value)
        if kind is str or kind is int or value is None:
            continue
        if kind is list:
            lists.append(name)
        elif isinstance(value, datetime):
            values[name] = micros(value)
        elif isinstance(value, msgspec.Struct):
            values[name] = _ENCODER.encode(value).decode()
    for name in lists:
        if len(values[name]) > _LONGEST:
            return None
    for name in lists:
        items = values.pop(name)
        names = _names(name, len(items))
        values.update(zip(names, items, strict=True))
        statement = _expand(statement, name, names)
    return _translate(statement)


@lru_cache(maxsize=1024)
def _translate(statement: str) -> str:
    return _USER.sub("user", statement)


@lru_cache(maxsize=1024)
def _names(name: str, count: int) -> tuple[str, ...]:
    """Of the values of a list."""
    return tuple(f"{name}{index}" for index in range(count))


@lru_cache(maxsize=1024)
def _expand(statement: str, name: str, names: tuple[str, ...]) -> str:
    marks = ", ".join(f":{item}" for item in names)
    return statement.replace(f"= ANY(:{name})", f"IN ({marks})")


def _pieces(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The values with pieces of the longest list in its place."""
    name = max(values, key=lambda key: len(values[key]) if isinstance(values[key], list) else 0)
    for start in range(0, len(values[name]), _LONGEST):
        yield {**values, name: values[name][start : start + _LONGEST]}


def driven(work: Coroutine[Any, Any, Result]) -> Result:
    """The coroutine's result. It uses the file alone, and so ends without having waited."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    work.close()
    raise RuntimeError("What runs in a transaction of SQLite waits for something else.")
