"""The state in PostgreSQL: each contract test of the embedded one that asks for a state and nothing of its file."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from memproxy.stores.postgres_state import PostgresState
from memproxy.stores.postgres_state_database import SCHEMA
from memproxy.stores.postgres_state_sealed import PostgresSealedState
from memproxy.stores.sealing import MasterKeys, new_master_key
from tests.stores import (
    test_state_blocks,
    test_state_callers,
    test_state_dreams,
    test_state_erased,
    test_state_journal,
    test_state_palace,
    test_state_receipts,
    test_state_working,
)
from tests.stores.making import ANN, BEN
from tests.support.postgres import Databases

CONTRACTS = (
    test_state_journal,
    test_state_receipts,
    test_state_blocks,
    test_state_callers,
    test_state_palace,
    test_state_erased,
    test_state_working,
    test_state_dreams,
)

IN_A_MOMENT = {"test_every_process_knows_changed_choices_at_once"}
"""What takes a message to come true (`test_postgres_replicas`)."""


def parameters_of(test: Callable[..., object]) -> set[str]:
    """What a test names kinds of: of a state, those of the embedded one."""
    return {mark.args[0] for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"}


def contract_tests(module: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    """Tests of any state."""
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(test):
            wanted = inspect.signature(test).parameters
            is_any = {"state", "states"} & set(wanted) and not {"file", "tmp_path"} & set(wanted)
            if is_any and "state" not in parameters_of(test) and name not in IN_A_MOMENT:
                yield f"test_{module.__name__.rpartition('test_')[2]}_{name.removeprefix('test_')}", test


for _module in CONTRACTS:
    globals().update(contract_tests(_module))


@pytest.fixture(scope="module")
def database(postgres: Databases) -> str:
    """The address of a database; each test finds its tables empty."""
    return postgres.new()


@pytest.fixture(params=["plain", "encrypted"])
async def state(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> AsyncIterator[PostgresState]:
    """An open state without content."""
    opened = PostgresState(database, tmp_path / "state.db", sync="normal")
    if request.param == "encrypted":
        masters = MasterKeys.read(new_master_key())
        opened = PostgresSealedState(database, tmp_path / "state.db", sync="normal", masters=masters)
    await opened.open()
    if isinstance(opened, PostgresSealedState):  # a block is kept of nobody of whom nothing was ever written
        for scope in (ANN, BEN):
            await opened.data_key(scope.owner, make=True)
    yield opened
    await opened.close()
    with psycopg.connect(database) as db:
        found = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [SCHEMA]).fetchall()
        emptied = [f"{SCHEMA}.{name}" for (name,) in found if name not in {"version", "secrets"}]
        db.execute(f"TRUNCATE {', '.join(emptied)} RESTART IDENTITY")


@pytest.fixture
async def states(postgres: Databases, tmp_path: Path) -> AsyncIterator[list[PostgresState]]:
    """The same state, opened by three processes."""
    address = postgres.new()
    opened = [PostgresState(address, tmp_path / f"state-{number}.db", sync="normal") for number in range(3)]
    for one in opened:
        await one.open()
    yield opened
    for one in opened:
        await one.close()
