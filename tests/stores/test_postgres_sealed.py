"""The encrypted state in PostgreSQL: what is kept of a text, keys that end, and a state that becomes encrypted."""

import re
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psycopg
import pytest

from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.ports import JournalEntry, JournalKind
from memproxy.stores.postgres_state import PostgresState
from memproxy.stores.postgres_state_database import SCHEMA
from memproxy.stores.postgres_state_sealed import PostgresSealedState
from memproxy.stores.sealing import MasterKeys, new_master_key
from tests.retention.test_sealed_state import ANN, BEN, NOON, TEXT, WORDS, check, fill
from tests.support.opening import opening
from tests.support.postgres import Databases
from tests.support.waiting import eventually

OWNER = Scope(tenant=ANN.tenant, user=ANN.user)
IN_THE_CLEAR = re.compile(
    "|".join(re.escape(one) for word in WORDS for one in (word, word.encode().hex())), re.IGNORECASE
)
MASTER = new_master_key()


@pytest.fixture
def database(postgres: Databases) -> str:
    """The address of an empty database."""
    return postgres.new()


def opened(database: str, folder: Path, *, master: str | None = MASTER) -> AbstractAsyncContextManager[PostgresState]:
    """A state, encrypted where there is a master key."""
    state = PostgresState(database, folder / "state.db", sync="normal")
    if master is not None:
        masters = MasterKeys.read(master)
        state = PostgresSealedState(database, folder / "state.db", sync="normal", masters=masters)
    return opening(state)


def holding(database: str) -> list[str]:
    """The tables in which one of the words stands in the clear."""
    with psycopg.connect(database) as db:
        names = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [SCHEMA]).fetchall()
        return [
            name
            for (name,) in names
            if any(
                IN_THE_CLEAR.search(str(row))
                for row in db.execute(f"SELECT t::text FROM {SCHEMA}.{name} AS t").fetchall()
            )
        ]


async def test_no_text_is_in_the_database_in_the_clear(database: str, tmp_path: Path) -> None:
    async with opened(database, tmp_path) as state:
        await fill(state, ANN)
        assert holding(database) == []
        await check(state, ANN)


async def test_a_state_that_was_not_encrypted_becomes_so_and_is_not_opened_without_again(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, master=None) as state:
        await fill(state, ANN)
    assert len(holding(database)) == 7
    async with opened(database, tmp_path) as state:
        assert holding(database) == []
        await check(state, ANN)
        (row,) = await state.claim("index", limit=5, now=NOON)
        assert (row.entry.body, row.plan) == (TEXT.encode(), TEXT.encode())
    with pytest.raises(StateUnavailable, match=r"privacy\.encrypt is off"):
        async with opened(database, tmp_path, master=None):
            pass
    with pytest.raises(StateUnavailable, match="wrapped by master key"):
        async with opened(database, tmp_path, master=new_master_key()):
            pass


async def test_keys_are_wrapped_by_another_master_key(database: str, tmp_path: Path) -> None:
    other = new_master_key()
    async with opened(database, tmp_path) as state:
        await fill(state, ANN)
    async with opened(database, tmp_path, master=f"{other},{MASTER}") as state:
        assert isinstance(state, PostgresSealedState)
        assert await state.rewrap() == 1
        assert await state.rewrap() == 0
    async with opened(database, tmp_path, master=other) as state:
        await check(state, ANN)


async def test_a_users_key_goes_in_the_commit_that_begins_the_erasure_and_all_replicas_hear_of_it(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path) as one, opened(database, tmp_path / "two") as two:
        assert isinstance(one, PostgresSealedState)
        assert isinstance(two, PostgresSealedState)
        await fill(one, ANN)
        told: list[bool] = []
        two.on_destroyed(lambda: told.append(True))
        key = await two.data_key(OWNER.owner, make=False)
        assert key is not None
        erasing = JournalEntry(kind=JournalKind.PLAN, scope=OWNER, body=b"{}", erases=(OWNER,))
        number, gone = await one.begin_erasure(erasing)
        assert gone == [1]
        await eventually(lambda: told, what="the other replica hears of the destroyed key")
        after = await two.data_key(OWNER.owner, make=False)
        assert after is not None
        assert after.id != key.id
        (row,) = await two.claim("index", limit=9, now=NOON)
        assert (row.number, row.entry.body) == (number, b"{}")
        await two.finish(number)
        await two.forget(OWNER, session=None)
        assert await one.data_key(OWNER.owner, make=False) is None


async def test_what_waits_beside_the_database_is_sealed_and_ends_with_its_users_key(
    database: str, tmp_path: Path
) -> None:
    entries = [JournalEntry(kind=JournalKind.TURNS, scope=scope, body=TEXT.encode()) for scope in (ANN, BEN)]
    async with opened(database, tmp_path) as state:
        assert isinstance(state, PostgresSealedState)
        await state.append(entries[0])
        for entry in entries:
            number = await state.set_aside(entry)
            assert number is not None
            assert await state.read_aside(number) == entry
        (path,) = tmp_path.glob("state.db-aside-*")
        assert TEXT.encode() not in path.read_bytes()
        await state.destroy_key(OWNER)
    async with opened(database, tmp_path) as state:
        rows = await state.claim("index", limit=9, now=NOON)
        assert [(row.entry.scope, row.entry.body) for row in rows] == [(BEN, TEXT.encode())]
