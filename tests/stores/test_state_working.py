"""Working memory as the state keeps it; in an encrypted one no word of it is in the files."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memproxy.core.scope import Scope
from memproxy.core.working_memory import WorkingEntry, WorkingPage
from memproxy.ports import JournalEntry, JournalKind, WorkingStore
from memproxy.settings import CacheSettings, Settings
from memproxy.stores.redis_working import RedisWorking
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_working import AT_ONCE
from memproxy.wiring.cache import make_caches
from tests.bench.working import multiply_sqlite
from tests.retention.residue import residue
from tests.stores.making import ANN, BEN, NOON
from tests.stores.states import opened_state, state_in
from tests.support.waiting import LONGEST_S, eventually


@dataclass
class Working:
    """Working memory, and how it is erased with its owner or a session."""

    entries: WorkingStore
    state: SqliteState

    async def forget(self, scope: Scope, *, session: str | None) -> None:
        """As `learn.index` does."""
        await self.state.forget(scope, session=session)
        if isinstance(self.entries, RedisWorking):
            await self.entries.forget_working(scope, session)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.entries, name)


@pytest.fixture(params=["plain", "sealed", "redis-plain", "redis-sealed"])
async def state(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Working]:
    """Working memory of each kind, in an open state or in Redis."""
    kind = request.param.removeprefix("redis-")
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(state_in(tmp_path, sealed=kind == "sealed"))
        if kind == request.param:
            yield Working(opened, opened)
            return
        settings = Settings(cache=CacheSettings(backend="redis", url=request.getfixturevalue("redis").url))
        caches = make_caches(settings, opened)
        assert caches.server is not None
        assert caches.working is not None
        stack.push_async_callback(caches.server.close)
        await caches.server.start(LONGEST_S)
        yield Working(caches.working, opened)


async def test_encrypted_entries_are_read_and_listed_and_leave_no_word_in_the_files(tmp_path: Path) -> None:
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
        async with opened_state(tmp_path / "state.db", "sealed") as state:
            assert await state.put_working(ANN, kept, most=1) in {True, False}
            assert await state.working(ANN, kept.key, NOON) == msgspec.structs.replace(kept, words="")
            (listed,) = await state.newest_working(ANN, NOON, most=9, words=True)
            assert [one.key for one in await entries(state, ANN, "session/zebulonia/", NOON)] == [kept.key]
            assert (listed.words, listed.data, listed.tags) == ("valparaiso", b"", ["ouagadougou"])
            assert await entries(state, ANN, "session/z", NOON + timedelta(seconds=60)) == []
            assert await state.working(BEN, kept.key, NOON) is None
    assert residue(("zebulonia", "theremin", "ouagadougou", "timbuktu", "valparaiso"), tmp_path) == []


async def entries(working: Any, scope: Scope, prefix: str, now: datetime, *, most: int = 3) -> list[WorkingEntry]:
    """All entries of the prefix, a page after the other."""
    found: list[WorkingEntry] = []
    page = WorkingPage(after=("", ""))
    while page.after is not None:
        page = await working.working_page(scope, prefix, now, after=page.after, most=most)
        found += page.entries
    return found


def entry(key: str, *, seconds: float = 60, at: float = 0, project: str | None = None, **fields: Any) -> WorkingEntry:
    """An entry that was written ``at`` seconds after noon and lives for some ``seconds``."""
    written = NOON + timedelta(seconds=at)
    defaults: dict[str, Any] = {"created_at": written, "updated_at": written, "size": 1, "data": b"1"}
    return WorkingEntry(key=key, expires_at=written + timedelta(seconds=seconds), project=project, **defaults | fields)


async def test_an_entry_is_new_once_then_replaced_and_keeps_its_beginning(state: Working) -> None:
    assert await state.put_working(ANN, entry("session/a/x", tags=["t"], category="c", agent="w"), most=9) is True
    assert await state.put_working(ANN, entry("session/a/x", at=5, data=b"2"), most=9) is False
    found = await state.working(ANN, "session/a/x", NOON)
    assert found is not None
    assert (found.created_at, found.updated_at, found.data) == (NOON, NOON + timedelta(seconds=5), b"2")
    assert await state.drop_working(ANN, "session/a/x", NOON) is True
    assert await state.drop_working(ANN, "session/a/x", NOON) is False
    assert await state.working(ANN, "session/a/x", NOON) is None


async def test_a_namespace_that_is_full_takes_what_replaces_or_follows_what_expired(state: Working) -> None:
    for name in ("x", "y"):
        await state.put_working(ANN, entry(f"session/a/{name}", seconds=10), most=2)
    assert await state.put_working(ANN, entry("session/a/z"), most=2) is None
    assert await state.put_working(ANN, entry("session/b/z"), most=2) is True
    assert await state.put_working(BEN, entry("session/a/z"), most=2) is True
    assert await state.put_working(ANN, entry("session/a/x"), most=2) is False
    assert await state.put_working(ANN, entry("session/a/z", at=10), most=2) is True
    assert {one.key for one in await entries(state, ANN, "session/a/", NOON)} == {"session/a/x", "session/a/z"}


async def test_a_project_sees_its_own_entries_and_those_of_none(state: Working) -> None:
    one, two = (msgspec.structs.replace(ANN, project=name) for name in ("one", "two"))
    await state.put_working(ANN, entry("plan/x", data=b"0"), most=9)
    await state.put_working(one, entry("plan/x", project="one", data=b"1"), most=9)
    assert await state.put_working(two, entry("plan/y", project="two"), most=1) is True  # one's entry does not count
    assert await state.drop_working(two, "plan/y", NOON) is True
    for scope, data in ((one, b"1"), (two, b"0")):
        found = await state.working(scope, "plan/x", NOON)
        assert found is not None
        assert found.data == data
    assert len(await entries(state, two, "", NOON)) == 1
    assert await state.drop_working(two, "plan/x", NOON) is True
    assert [one.project for one in await entries(state, ANN, "plan", NOON)] == ["one"]


async def test_forgetting_a_session_or_a_user_takes_the_entries_along(state: Working) -> None:
    for key in ("session/a/x", "session/b/x"):
        await state.put_working(ANN, entry(key), most=9)
    await state.put_working(BEN, entry("session/a/x"), most=9)
    await state.forget(ANN, session="a")
    assert [one.key for one in await entries(state, ANN, "", NOON)] == ["session/b/x"]
    await state.forget(ANN, session=None)
    assert await entries(state, ANN, "", NOON) == []
    assert len(await entries(state, BEN, "", NOON)) == 1


async def test_others_write_while_very_many_entries_are_erased(tmp_path: Path) -> None:
    async with state_in(tmp_path) as state:
        await state.put_working(ANN, entry("run/r0/k0"), most=9)
        await asyncio.to_thread(multiply_sqlite, tmp_path / "state.db", 1, 4 * AT_ONCE)
        erasing = asyncio.get_running_loop().create_task(state.forget(ANN, session=None))
        await asyncio.sleep(0)
        await state.put_working(BEN, entry("session/a/x"), most=9)
        assert not erasing.done()
        assert await state.newest_working(ANN, NOON, most=1)
        await erasing
        assert await state.newest_working(ANN, NOON, most=1) == []
        assert len(await state.newest_working(BEN, NOON, most=9)) == 1


async def test_what_an_erased_users_key_sealed_is_not_in_the_way_of_what_comes(tmp_path: Path) -> None:
    async with state_in(tmp_path, sealed=True) as state:
        await state.put_working(ANN, entry("session/a/x"), most=9)
        await state.begin_erasure(JournalEntry(kind=JournalKind.PLAN, scope=ANN, body=b"{}", erases=(ANN,)))
        await state.put_working(ANN, entry("session/a/y"), most=9)
        assert [one.key for one in await entries(state, ANN, "", NOON)] == ["session/a/y"]
        assert [one.key for one in await state.newest_working(ANN, NOON, most=9)] == ["session/a/y"]


async def test_a_user_who_was_erased_may_fill_a_namespace_anew(state: Working) -> None:
    one = msgspec.structs.replace(ANN, project="one")
    for session in ("a", None):
        for scope in (ANN, one):
            for name in ("x", "y"):
                kept = entry(f"session/a/{name}", project=scope.project)
                assert await state.put_working(scope, kept, most=2) is True
        await state.forget(ANN, session=session)
        assert await entries(state, ANN, "session/a/", NOON) == []
    assert await state.put_working(ANN, entry("session/a/x"), most=2) is True


async def test_a_sweep_removes_what_has_expired(state: Working) -> None:
    if isinstance(getattr(state, "entries", None), RedisWorking):
        await state.put_working(ANN, entry("run/1/x", seconds=0.05), most=9)  # by Redis's own clock
        await eventually(partial(_is_gone, state), what="gone by itself")
        return
    for number in range(30):
        await state.put_working(ANN, entry(f"run/{number}/x", seconds=number), most=9)
    assert await state.sweep_working(NOON + timedelta(seconds=9)) == 10
    assert len(await entries(state, ANN, "", NOON)) == 20


async def _is_gone(state: Working) -> bool:
    return await state.working(ANN, "run/1/x", NOON) is None


async def test_a_clock_that_jumps_decides_each_time_anew(state: Working) -> None:
    """An entry is there while the clock is before its end, whichever way it came there; a sweep alone is for ever."""
    if isinstance(getattr(state, "entries", None), RedisWorking):
        pytest.skip("Redis removes entries by its own clock")
    year = timedelta(days=365)
    await state.put_working(ANN, entry("run/a/x", seconds=60), most=2)
    assert await state.working(ANN, "run/a/x", NOON + year) is None
    assert await state.working(ANN, "run/a/x", NOON - year) is not None
    assert await state.put_working(ANN, entry("run/a/x", at=-3600, seconds=60), most=2) is False
    assert await state.working(ANN, "run/a/x", NOON) is None
    assert await state.put_working(ANN, entry("run/a/y", at=-7200), most=1) is None
    assert await state.put_working(ANN, entry("run/a/y"), most=1) is True
    assert [one.key for one in await entries(state, ANN, "run/", NOON)] == ["run/a/y"]
    assert await state.sweep_working(NOON + year) == 1
    assert await entries(state, ANN, "", NOON - year) == []


async def test_pages_hold_each_entry_once_in_an_order_that_stays(state: Working) -> None:
    """Whatever is written or deleted between two pages: what was there all the time is told once."""
    one = msgspec.structs.replace(ANN, project="one")
    names = [f"run/r{number // 5}/k{number}" for number in range(23)] + [
        "run/r1",
        "runs/r1/k",
        "ru/n/k",
        "session/z~/k",
    ]
    for name in names:
        await state.put_working(ANN, entry(name, data=b"2"), most=9)
    for name in names[:3]:
        await state.put_working(one, entry(name, project="one"), most=9)
    await state.put_working(BEN, entry("run/r0/hers"), most=9)
    await state.put_working(ANN, entry("run/r0/over", seconds=-1), most=9)
    for most in (1, 4, 99):
        found = [(each.key, each.project or "") for each in await entries(state, ANN, "", NOON, most=most)]
        assert sorted(found) == sorted([*((name, "") for name in names), *((name, "one") for name in names[:3])])
        below = [each.key for each in await entries(state, ANN, "run/r1/", NOON, most=most)]
        assert sorted(below) == sorted(name for name in names if name.startswith("run/r1/"))
        some = [each.key for each in await entries(state, ANN, "run/r", NOON, most=most)]
        assert sorted(some) == sorted(found[0] for found in found if found[0].startswith("run/r"))
    first = await state.working_page(ANN, "run/", NOON, after=None, most=7)
    assert 1 <= len(first.entries) == len(first.places) <= 7, (
        "some that are looked at may have expired, or not begin so"
    )
    told, left = {each.key for each in first.entries}, [name for name in names if name.startswith("run/")]
    for gone in [*told][:2]:
        await state.drop_working(ANN, gone, NOON)
    await state.put_working(ANN, entry(next(name for name in left if name not in told), at=9, data=b"3"), most=9)
    after = first.after
    while after is not None:
        page = await state.working_page(ANN, "run/", NOON, after=after, most=7)
        told, after = told | {each.key for each in page.entries}, page.after
    assert told == set(left)


async def test_the_newest_are_those_changed_last(state: Working) -> None:
    for number in range(9):
        await state.put_working(ANN, entry(f"run/a/{number}", at=number, seconds=-1 if number == 7 else 60), most=9)
    await state.put_working(ANN, entry("run/a/2", at=20, words="again"), most=9)
    found = await state.newest_working(ANN, NOON, most=3, words=True)
    assert [(one.key, one.words) for one in found] == [("run/a/2", "again"), ("run/a/8", ""), ("run/a/6", "")]
    assert [one.key for one in await state.newest_working(ANN, NOON, most=99)][-1] == "run/a/0"
    assert await state.newest_working(BEN, NOON, most=3) == []
