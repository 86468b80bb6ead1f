"""Rows of the state mean the same in SQLite and PostgreSQL, whatever they hold."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memproxy.core.scope import Scope
from memproxy.stores.moving import Rows, SqliteTables, StateTables, Table, copy, digests, state_tables
from memproxy.stores.postgres_moving import PostgresTables
from memproxy.stores.postgres_state_database import PostgresDatabase
from memproxy.stores.sqlite_file import SqliteDatabase, SqliteFile
from memproxy.tasks import TaskOwner
from tests.support.postgres import Databases

TEXT = 'a\x00b\\0 "ü" \u202e 日本'


def full_row(table: Table, number: int) -> dict[str, Any]:
    """A row with something in every column."""
    scope = Scope(tenant=f"t{number}", user=TEXT, project="p", agent=None, session="s")
    known: dict[str, Any] = {
        "tenant": scope.tenant,
        "user": scope.user,
        "session": scope.session,
        "scope": msgspec.json.encode(scope).decode(),
        "state": "waiting",
        "entry": '{"at":"2026-01-01T00:00:00Z","tenant":"t","action":"erase","by":"jwt:u","scope":{"user":"u"}}',
    }
    flags = {"head", "learning", "erased", "open"}
    numbers = {"number": number + 1, "outcome": number + 1, "journal": number + 1}

    def value(name: str) -> Any:
        if name in known:
            return known[name]
        if name in table.texts:
            return TEXT if name not in table.key else f"{TEXT} {number}"
        if name in {"body", "plan", "data", "answer", "id", "wrapped", "name", "value"} and name not in table.texts:
            return bytes([0, 255, number])
        if name in table.key:
            return number + 1
        return numbers.get(name, int(name in flags) or 1_700_000_000_123_456 % 2_000_000_000)

    return {name: value(name) for name in table.columns}


@asynccontextmanager
async def both(tmp_path: Path, url: str) -> AsyncIterator[tuple[StateTables, StateTables]]:
    """The tables of a state file, and of a database."""
    async with AsyncExitStack() as held:
        file, server = SqliteFile(tmp_path / "state.db", sync="normal"), PostgresDatabase(url, sync="normal")
        await file.open()
        held.push_async_callback(file.close)
        await server.open()
        held.push_async_callback(server.close)
        yield SqliteTables(SqliteDatabase(file, TaskOwner("test"))), await PostgresTables.of(server)


def test_every_table_of_the_state_has_a_key_and_columns() -> None:
    tables = {table.name: table for table in state_tables()}
    assert {"journal", "slots", "receipts", "proxy_keys", "data_keys", "working", "meta"} <= tables.keys()
    assert tables["proxy_keys"].key == ("id",)
    assert list(tables).index("outcomes") < list(tables).index("outcome_requests")


async def test_every_column_of_every_table_comes_back_as_it_was(tmp_path: Path, postgres: Databases) -> None:
    tables = state_tables()
    async with both(tmp_path, postgres.new()) as (sqlite, database):
        for table in tables:
            await sqlite.write(table, [full_row(table, number) for number in range(3)])
            source, target = Rows(table, sqlite), Rows(table, database)
            known = await digests(target)
            assert await copy(source, target, known, lambda _: None) >= 3, table.name
            assert await digests(target) == await digests(source) == known, table.name
            assert await copy(source, target, known, lambda _: None) == 0, "a second pass has nothing to do"
        for table in reversed(tables):
            await sqlite.remove(table, [table.key_of(full_row(table, 0))])
            source, target = Rows(table, sqlite), Rows(table, database)
            assert await copy(source, target, await digests(target), lambda _: None) == 1, table.name
            assert await digests(target) == await digests(source)


async def test_no_number_is_given_twice_after_a_move(tmp_path: Path, postgres: Databases) -> None:
    async with both(tmp_path, postgres.new()) as (sqlite, database):
        await sqlite.set_last_numbers({"journal": 4711})
        await database.set_last_numbers(await sqlite.last_numbers())
        assert (await database.last_numbers())["journal"] == 4711
        await sqlite.set_last_numbers({"journal": 1})
        await sqlite.set_last_numbers(await database.last_numbers())
        assert (await sqlite.last_numbers())["journal"] == 4711


async def test_a_row_that_was_at_work_waits_after_a_move(tmp_path: Path, postgres: Databases) -> None:
    journal = next(table for table in state_tables() if table.name == "journal")
    async with both(tmp_path, postgres.new()) as (sqlite, database):
        await sqlite.write(journal, [{**full_row(journal, 1), "state": "running"}])
        await copy(Rows(journal, sqlite), Rows(journal, database), {}, lambda _: None)
        (row,) = await database.page(journal, None, 10)
        assert (row["state"], row["due"]) == ("waiting", full_row(journal, 1)["due"])


@pytest.mark.parametrize("key", ["store_id", "moved"])
async def test_what_an_installation_knows_of_itself_is_not_copied(
    tmp_path: Path, postgres: Databases, key: str
) -> None:
    meta = next(table for table in state_tables() if table.name == "meta")
    async with both(tmp_path, postgres.new()) as (sqlite, database):
        await sqlite.set_meta(key, "the source's")
        await database.set_meta(key, "the target's")
        await copy(Rows(meta, sqlite), Rows(meta, database), await digests(Rows(meta, database)), lambda _: None)
        assert await database.meta(key) == "the target's"
