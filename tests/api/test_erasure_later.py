"""A deletion by scope that is asked for while the store is away: queued, and then complete."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from memproxy.core.scope import Scope
from memproxy.stores.edge import EdgeStore
from tests.support.engine import DIMENSION, Api, SwitchedStore, make_engine, serve_engine
from tests.support.waiting import eventually

ANN: dict[str, Any] = {"user_id": "ann"}
LIVES = {"subject": "user", "predicate": "lives_in", "session_id": "s1", **ANN}


@pytest.fixture
async def store(tmp_path: Path) -> SwitchedStore:
    return SwitchedStore(EdgeStore(tmp_path / "store", dimension=DIMENSION, embedder_name=None, lull_s=0))


@pytest.fixture
async def api(tmp_path: Path, store: SwitchedStore) -> AsyncIterator[Api]:
    engine = make_engine(tmp_path, store=store.as_store(), write_timeout_s=0.1)
    async with serve_engine(engine) as api:
        yield api


async def contents(api: Api, **query: Any) -> set[str]:
    return {memory["content"] for memory in await api.page(**ANN, **query)}


@pytest.mark.parametrize("path", ["/v1/memory?user_id=ann", "/v1/memory/users/ann"])
async def test_a_users_deletion_is_completed_when_the_store_is_back(api: Api, store: SwitchedStore, path: str) -> None:
    scope, state = Scope(tenant=api.tenant, user="ann"), api.engine.backends().state
    before = await api.store("Ann lives in Quokkaville", object="Quokkaville", **LIVES)
    await api.store("Quokkaville has a zoo", subject="Quokkaville", **ANN)
    store.away = True
    answer = await api.call("DELETE", path)
    assert (answer.status_code, answer.headers["x-memproxy-write"]) == (202, "queued")
    assert answer.json()["queued"] is True
    later = await api.call("POST", "/v1/memory", json={"content": "Ann lives in Oslo", "object": "Oslo", **LIVES})
    assert later.status_code == 202
    store.away = False

    async def done() -> bool:
        return await contents(api) == {"Ann lives in Oslo"}

    await eventually(done, what="the deletion, and what came after it")
    (now,) = await api.page(**ANN)
    assert (now["active"], now["supersedes"]) == (True, None)
    assert set(await state.palace_names(scope)) == {"user"}
    assert before["id"] not in (await state.slots(scope, ["user|lives_in|"])).values()


async def test_an_undone_session_is_undone_when_the_store_is_back(api: Api, store: SwitchedStore) -> None:
    said = {"session_id": "s1", "messages": [{"role": "user", "content": "I live in Oslo"}], **ANN}
    assert (await api.call("POST", "/v1/memory/turns", json=said)).status_code == 201
    await api.store("kept", **ANN)
    store.away = True
    answer = await api.call("DELETE", "/v1/memory/sessions/s1", params=ANN)
    assert (answer.status_code, answer.json()["queued"]) == (202, True)
    store.away = False
    scope, state = Scope(tenant=api.tenant, user="ann", session="s1"), api.engine.backends().state

    async def done() -> bool:
        return await contents(api) == {"kept"} and await state.progress(scope) is None

    await eventually(done, what="the session is gone, also from the state")
