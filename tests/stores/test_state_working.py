"""Working memory as the state keeps it; in an encrypted one no word of it is in the files."""

import base64
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memproxy.core.working import WorkingEntry
from memproxy.ports import StateStore
from memproxy.stores.sealed_state import SealedState
from memproxy.stores.sealing import MasterKeys
from memproxy.stores.sqlite_state import SqliteState
from tests.stores.making import ANN, BEN, NOON


@pytest.fixture(params=["plain", "sealed"])
async def state(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[SqliteState]:
    """An open state of either kind."""
    masters = MasterKeys.read(base64.b64encode(b"k" * 32).decode())
    path = tmp_path / "state.db"
    opened = (
        SqliteState(path, sync="normal")
        if request.param == "plain"
        else SealedState(path, sync="normal", masters=masters)
    )
    await opened.open()
    yield opened
    await opened.close()


async def test_encrypted_entries_are_read_and_listed_and_leave_no_word_in_the_files(tmp_path: Path) -> None:
    masters = MasterKeys.read(base64.b64encode(b"k" * 32).decode())
    kept = WorkingEntry(
        key="session/zebulonia/theremin",
        created_at=NOON,
        updated_at=NOON,
        expires_at=NOON + timedelta(seconds=60),
        size=13,
        tags=["ouagadougou"],
        agent="timbuktu",
        data=b'"valparaiso"',
        words="valparaiso",
    )
    for _ in range(2):
        state = SealedState(tmp_path / "state.db", sync="normal", masters=masters)
        await state.open()
        assert await state.put_working(ANN, kept, most=1) in {True, False}
        assert await state.working(ANN, kept.key, NOON) == WorkingEntry(
            **{name: getattr(kept, name) for name in kept.__struct_fields__} | {"words": ""}
        )
        (listed,) = await state.working_entries(ANN, "session/zebulonia/", NOON, words=True)
        assert (listed.words, listed.data, listed.tags) == ("valparaiso", b"", ["ouagadougou"])
        assert await state.working_entries(ANN, "session/z", NOON + timedelta(seconds=60)) == []
        assert await state.working(BEN, kept.key, NOON) is None
        await state.close()
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert not [
        word for word in (b"zebulonia", b"theremin", b"ouagadougou", b"timbuktu", b"valparaiso") if word in files
    ]


def entry(key: str, *, seconds: float = 60, at: float = 0, project: str | None = None, **fields: Any) -> WorkingEntry:
    """An entry that was written ``at`` seconds after noon and lives for some ``seconds``."""
    written = NOON + timedelta(seconds=at)
    defaults: dict[str, Any] = {"created_at": written, "updated_at": written, "size": 1, "data": b"1"}
    return WorkingEntry(key=key, expires_at=written + timedelta(seconds=seconds), project=project, **defaults | fields)


async def test_an_entry_is_new_once_then_replaced_and_keeps_its_beginning(state: StateStore) -> None:
    assert await state.put_working(ANN, entry("session/a/x", tags=["t"], category="c", agent="w"), most=9) is True
    assert await state.put_working(ANN, entry("session/a/x", at=5, data=b"2"), most=9) is False
    found = await state.working(ANN, "session/a/x", NOON)
    assert found is not None
    assert (found.created_at, found.updated_at, found.data) == (NOON, NOON + timedelta(seconds=5), b"2")
    assert await state.drop_working(ANN, "session/a/x", NOON) is True
    assert await state.drop_working(ANN, "session/a/x", NOON) is False
    assert await state.working(ANN, "session/a/x", NOON) is None


async def test_a_namespace_that_is_full_takes_what_replaces_or_follows_what_expired(state: StateStore) -> None:
    for name in ("x", "y"):
        await state.put_working(ANN, entry(f"session/a/{name}", seconds=10), most=2)
    assert await state.put_working(ANN, entry("session/a/z"), most=2) is None
    assert await state.put_working(ANN, entry("session/b/z"), most=2) is True
    assert await state.put_working(BEN, entry("session/a/z"), most=2) is True
    assert await state.put_working(ANN, entry("session/a/x"), most=2) is False
    assert await state.put_working(ANN, entry("session/a/z", at=10), most=2) is True
    assert {one.key for one in await state.working_entries(ANN, "session/a/", NOON)} == {"session/a/x", "session/a/z"}


async def test_a_project_sees_its_own_entries_and_those_of_none(state: StateStore) -> None:
    one, two = (msgspec.structs.replace(ANN, project=name) for name in ("one", "two"))
    await state.put_working(ANN, entry("plan/x", data=b"0"), most=9)
    await state.put_working(one, entry("plan/x", project="one", data=b"1"), most=9)
    assert await state.put_working(two, entry("plan/y", project="two"), most=1) is True  # one's entry does not count
    assert await state.drop_working(two, "plan/y", NOON) is True
    for scope, data in ((one, b"1"), (two, b"0")):
        found = await state.working(scope, "plan/x", NOON)
        assert found is not None
        assert found.data == data
    assert len(await state.working_entries(two, "", NOON)) == 1
    assert await state.drop_working(two, "plan/x", NOON) is True
    assert [one.project for one in await state.working_entries(ANN, "plan", NOON)] == ["one"]


async def test_forgetting_a_session_or_a_user_takes_the_entries_along(state: StateStore) -> None:
    for key in ("session/a/x", "session/b/x"):
        await state.put_working(ANN, entry(key), most=9)
    await state.put_working(BEN, entry("session/a/x"), most=9)
    await state.forget(ANN, session="a")
    assert [one.key for one in await state.working_entries(ANN, "", NOON)] == ["session/b/x"]
    await state.forget(ANN, session=None)
    assert await state.working_entries(ANN, "", NOON) == []
    assert len(await state.working_entries(BEN, "", NOON)) == 1


async def test_a_sweep_removes_what_has_expired(state: StateStore) -> None:
    for number in range(30):
        await state.put_working(ANN, entry(f"run/{number}/x", seconds=number), most=9)
    assert await state.sweep_working(NOON + timedelta(seconds=9)) == 10
    assert len(await state.working_entries(ANN, "", NOON)) == 20
