"""A deletion by scope that is asked for while the store is away: queued, and then complete."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memproxy.core.scope import Scope
from memproxy.stores.edge import EdgeStore
from tests.support.disk import TestDisk
from tests.support.engine import DIMENSION, Api, SwitchedStore, make_engine, serve_engine
from tests.support.waiting import LONGEST_S, eventually

ANN: dict[str, Any] = {"user_id": "ann"}
LIVES = {"subject": "user", "predicate": "lives_in", "session_id": "s1", **ANN}


class UnwritableStore(SwitchedStore):
    """A store that can be made to refuse what is written, and only that."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        writes = name in {"upsert", "set_fields", "delete", "flush"}
        return super().__getattr__(name) if writes else getattr(self._inner, name)


def embedded(tmp_path: Path, **options: Any) -> EdgeStore:
    return EdgeStore(tmp_path / "store", dimension=DIMENSION, embedder_name=None, lull_s=0, **options)


@pytest.fixture
async def store(tmp_path: Path) -> SwitchedStore:
    return SwitchedStore(embedded(tmp_path))


@pytest.fixture
async def api(tmp_path: Path, store: SwitchedStore) -> AsyncIterator[Api]:
    async with serve_engine(make_engine(tmp_path, store=store.as_store(), write_timeout_s=0.1)) as api:
        yield api


async def told(api: Api, message: dict[str, str]) -> None:
    """Say this in a session, and wait until it is written."""
    said = {"session_id": "s1", "messages": [message], **ANN}
    assert await api.status("POST", "turns", json=said) in {201, 202}
    await eventually(lambda: api.page(**ANN, kind="turn"), what="the turn is written")


async def contents(api: Api) -> set[str]:
    return {memory["content"] for memory in await api.page(**ANN)}


@pytest.mark.parametrize("path", ["/v1/memory?user_id=ann", "/v1/memory/users/ann"])
async def test_a_users_deletion_is_completed_when_the_store_is_back(api: Api, store: SwitchedStore, path: str) -> None:
    scope, state = Scope(tenant=api.tenant, user="ann"), api.engine.backends().state
    before = await api.store("Ann lives in Quokkaville", object="Quokkaville", **LIVES)
    await api.store("Quokkaville has a zoo", subject="Quokkaville", **ANN)
    store.away = True
    answer = await api.call("DELETE", path)
    assert (answer.status_code, answer.headers["x-memproxy-write"]) == (202, "queued")
    assert answer.json()["queued"] is True
    await api.post(status=202, content="Ann lives in Oslo", object="Oslo", **LIVES)
    store.away = False

    async def done() -> bool:
        return await contents(api) == {"Ann lives in Oslo"}

    await eventually(done, what="the deletion, and what came after it")
    (now,) = await api.page(**ANN)
    assert (now["active"], now["supersedes"]) == (True, None)
    assert set(await state.palace_names(scope)) == {"user"}
    assert before["id"] not in (await state.slots(scope, ["user|lives_in|"])).values()


async def test_an_undone_session_is_undone_when_the_store_is_back(api: Api, store: SwitchedStore) -> None:
    await told(api, {"role": "user", "content": "I live in Oslo"})
    await api.store("kept", **ANN)
    store.away = True
    assert (await api.ok("DELETE", "sessions/s1", status=202, params=ANN))["queued"] is True
    store.away = False
    scope, state = Scope(tenant=api.tenant, user="ann", session="s1"), api.engine.backends().state

    async def done() -> bool:
        return await contents(api) == {"kept"} and await state.progress(scope) is None

    await eventually(done, what="the session is gone, also from the state")


async def test_single_memories_that_are_deleted_later_leave_no_name_behind(tmp_path: Path) -> None:
    store = UnwritableStore(embedded(tmp_path))
    async with serve_engine(make_engine(tmp_path, store=store.as_store(), write_timeout_s=0.1)) as api:
        scope, state = Scope(tenant=api.tenant, user="ann"), api.engine.backends().state
        gone = await api.store("The zoo opens", subject="Quokkaville", category="zoology", **ANN)
        kept = await api.store("User likes tea", subject="user", category="drinks", session_id="s1", **ANN)
        await told(api, {"role": "user", "content": "Zebulon, Zebulon", "id": "t1"})
        known = {row.name for row in await state.palace_rows(scope) if row.kind == "closet"}
        store.away = True
        for name in (gone["id"], "t1"):
            assert await api.status("DELETE", name, params=ANN) == 202
        store.away = False

        async def done() -> bool:
            left = {row.name for row in await state.palace_rows(scope) if row.kind in {"closet", "wing"}}
            return left == {"user", "drinks"}

        await eventually(done, what="the names are gone with the memories")
        assert known > {"zoology", "drinks"}
        assert [memory["id"] for memory in await api.page(**ANN)] == [kept["id"]]


@pytest.mark.parametrize(("path", "left"), [("users/ann", set[str]()), ("sessions/s1", {"kept", "It rains"})])
async def test_a_full_disk_holds_up_no_deletion(tmp_path: Path, path: str, left: set[str]) -> None:
    disk = TestDisk()
    store = embedded(tmp_path, disk=disk)
    async with serve_engine(make_engine(tmp_path, store=store, write_timeout_s=0.1)) as api:
        await api.store("Ann lives in Oslo", object="Oslo", **LIVES)
        await api.store("kept", **ANN)
        disk.mib = 20
        for session, text in (("s1", "I live in Oslo"), ("s2", "It rains")):
            said = {"session_id": session, "messages": [{"role": "user", "content": text}], **ANN}
            async with asyncio.timeout(LONGEST_S):
                assert await api.status("POST", "turns", json=said) == 202
        await api.ask("DELETE", path, params=ANN if "sessions" in path else {})

        async def gone() -> bool:
            return await contents(api) == left - {"It rains"}

        await eventually(gone, what="the deletion")
        disk.mib = 1024

        async def settled() -> bool:
            scope = Scope(tenant=api.tenant, user="ann")
            return await api.engine.backends().parts.worker.indexed(scope, 1.0) and await contents(api) == left

        await eventually(settled, what="what waited, as far as it was not deleted")
