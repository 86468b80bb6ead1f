"""The state in PostgreSQL: each contract test of the embedded one that asks for a state and nothing of its file."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from memproxy.stores.postgres_state import PostgresState
from tests.stores import (
    test_state_blocks,
    test_state_erased,
    test_state_journal,
    test_state_palace,
    test_state_receipts,
    test_state_working,
)
from tests.support.postgres import Databases

CONTRACTS = (
    test_state_journal,
    test_state_receipts,
    test_state_blocks,
    test_state_palace,
    test_state_erased,
    test_state_working,
)


def parameters_of(test: Callable[..., object]) -> set[str]:
    """What a test names kinds of: of a state, those of the embedded one."""
    return {mark.args[0] for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"}


def contract_tests(module: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    """Tests of any state."""
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(test):
            wanted = inspect.signature(test).parameters
            if "state" in wanted and not {"file", "tmp_path"} & set(wanted) and "state" not in parameters_of(test):
                yield f"test_{module.__name__.rpartition('test_')[2]}_{name.removeprefix('test_')}", test


for _module in CONTRACTS:
    globals().update(contract_tests(_module))


@pytest.fixture
async def state(postgres: Databases, tmp_path: Path) -> AsyncIterator[PostgresState]:
    """An open state in an empty database."""
    opened = PostgresState(postgres.new(), tmp_path / "state.db", sync="normal")
    await opened.open()
    yield opened
    await opened.close()
