import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memproxy.core.protocol import CAPTURED_PATH, RECALL_PATH, Captured, RecallAnswer, RecallRequest, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.settings import ModelSettings
from memproxy.stores.edge import EdgeStore
from tests.support.engine import DIMENSION, Api, SwitchedStore, make_engine, serve_engine
from tests.support.waiting import LONGEST_S, eventually

SCOPE = Scope(tenant="acme", user="default", session="s1")
BUDGET = RecallRequest(request_id="r1", scope=SCOPE, queries=["What's my budget for the Hawaii trip?"], nonce="abc")


async def recall(api: Api, request: RecallRequest = BUDGET) -> RecallAnswer:
    answer = await api.client.post(RECALL_PATH, content=msgspec.json.encode(request))
    assert answer.status_code == 200
    return msgspec.json.decode(answer.content, type=RecallAnswer)


def switched(folder: Path) -> SwitchedStore:
    return SwitchedStore(EdgeStore(folder / "store", dimension=DIMENSION, embedder_name=None))


async def store_is(api: Api, how: str) -> dict[str, str]:
    """Readiness, as soon as it says this of the store."""

    async def said() -> dict[str, str]:
        parts = await api.readiness()
        return parts if parts["store"].startswith(how) else {}

    return await eventually(said, what=f"that the store is {how} is said")


async def written(api: Api, count: int, *, last: str = "") -> list[dict[str, Any]]:
    """The memories, as soon as there are so many, and this one among them."""

    async def found() -> list[dict[str, Any]]:
        page: list[dict[str, Any]] = await api.page()
        return page if len(page) >= count and (not last or last in [one["content"] for one in page]) else []

    return await eventually(found, what="what was queued is written")


async def test_the_relay_gets_the_block_of_a_request(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path)) as api:
        await api.store("User's budget for the Hawaii trip is $10,000")
        answer = await recall(api)
        assert answer.result == "injected"
        assert "$10,000" in answer.context
        assert 'id="abc"' in answer.context
        parts = {"state": "ready", "store": "ready", "worker": "ready", "embedder": "off", "learning": "off"}
        assert await api.readiness() == parts


async def test_what_the_relay_sends_and_nobody_can_read_is_refused_in_shape(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path)) as api:
        for path in (RECALL_PATH, CAPTURED_PATH):
            for body in (b"", b"{}", b"nonsense"):
                answer = await api.client.post(path, content=body)
                assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
            assert (await api.client.get(path)).status_code == 404


async def test_a_captured_turn_brings_the_way_to_its_model(tmp_path: Path) -> None:
    engine = make_engine(tmp_path)
    access = UpstreamAccess(base_url="http://127.0.0.1:9/v1", model="small", api_key="sk-one")
    captured = msgspec.json.encode(Captured(scope=SCOPE, access=access))
    async with serve_engine(engine) as api:
        answer = await api.client.post(CAPTURED_PATH, content=captured)
        assert answer.status_code == 204
        credential = engine.parts.access.credential("acme", ModelSettings())
        assert credential is not None
        assert (credential.model, credential.api_key) == ("small", "sk-one")
        assert engine.parts.access.credential("rival", ModelSettings(model="small")) is None


async def test_a_memory_outlives_its_engine(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path, own_store=True)) as api:
        memory = await api.store("User's budget for the Hawaii trip is $10,000")
    async with serve_engine(make_engine(tmp_path, own_store=True)) as api:
        assert await api.page() == [memory]
        assert (await recall(api)).result == "injected"


async def test_a_store_that_is_away_at_the_start_heals_later(tmp_path: Path) -> None:
    store = switched(tmp_path)
    store.away = True
    engine = make_engine(tmp_path, store=store.as_store(), write_timeout_s=0.2)
    async with serve_engine(engine, wait=False) as api:
        assert "away" in (await store_is(api, "degraded"))["store"]
        assert (await recall(api)).result == "degraded"
        refused = await api.call("GET", "/v1/memory")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
        assert int(refused.headers["retry-after"]) > 0
        queued = await api.call("POST", "/v1/memory", json={"content": "written during the outage"})
        assert (queued.status_code, queued.headers["x-memproxy-write"]) == (202, "queued")
        store.away = False
        await engine.wait_open()
        found = await eventually(api.page, what="what was queued is written")
        assert [memory["id"] for memory in found] == [queued.json()["id"]]
        assert (await api.readiness())["store"] == "ready"


async def test_an_outage_while_running_queues_writes_and_refuses_reads(tmp_path: Path) -> None:
    store = switched(tmp_path)
    engine = make_engine(tmp_path, store=store.as_store(), write_timeout_s=0.2)
    async with serve_engine(engine) as api:
        memory = (await api.call("POST", "/v1/memory", json={"content": "before"})).json()
        await eventually(api.page, what="the first memory is written")
        store.away = True
        calls: list[tuple[str, str, Any]] = [
            ("GET", "/v1/memory", None),
            ("GET", f"/v1/memory/{memory['id']}", None),
            ("PATCH", f"/v1/memory/{memory['id']}", {"content": "x"}),
            ("DELETE", f"/v1/memory/{memory['id']}", None),
            ("POST", "/v1/memory/search", {"query": "before"}),
            ("POST", "/v1/memory/recall", {"query": "What did I say before?"}),
        ]
        for method, path, body in calls:
            answer = await api.call(method, path, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable"), (method, path)
            assert "retry-after" in answer.headers
        assert (await recall(api)).result == "degraded"
        said = {"session_id": "s1", "messages": [{"role": "user", "content": "said during the outage"}]}
        assert (await api.call("POST", "/v1/memory/turns", json=said)).status_code == 202
        gone = await api.call("DELETE", "/v1/memory", params={"session_id": "other"})
        assert (gone.status_code, gone.json()["queued"]) == (202, True)
        store.away = False
        found = await eventually(lambda: api.page(kind="turn"), what="the queued turn is indexed")
        assert [turn["content"] for turn in found] == ["said during the outage"]


async def test_deleting_a_scope_also_takes_what_still_waits_to_be_written(tmp_path: Path) -> None:
    store = switched(tmp_path)
    engine = make_engine(tmp_path, store=store.as_store(), write_timeout_s=0.2)
    async with serve_engine(engine) as api:
        store.away = True
        for session in ("s1", "s2"):
            body = {"content": f"waiting in {session}", "session_id": session}
            assert (await api.call("POST", "/v1/memory", json=body)).status_code == 202
        gone = await api.call("DELETE", "/v1/memory", params={"session_id": "s1"})
        assert gone.status_code == 202
        store.away = False
        done = await api.call("POST", "/v1/memory", json={"content": "behind them"})
        assert done.status_code in {201, 202}
        found = await written(api, 2, last="behind them")
        assert {memory["content"] for memory in found} == {"waiting in s2", "behind them"}


async def test_a_store_of_another_dimension_is_refused_and_chat_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_engine(make_engine(tmp_path, own_store=True)) as api:
        await api.store("kept")
    engine = make_engine(tmp_path, dimension=DIMENSION * 2, own_store=True)
    async with serve_engine(engine, wait=False) as api:
        assert "memproxy reindex" in (await store_is(api, "refused"))["store"]
        assert (await recall(api)).result == "degraded"
        assert (await api.call("GET", "/v1/memory")).status_code == 503
    assert "memory stays OFF" in caplog.text
    async with serve_engine(make_engine(tmp_path, own_store=True)) as api:
        assert [memory["content"] for memory in await api.page()] == ["kept"]


async def test_a_store_whose_files_are_gone_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path, own_store=True)) as api:
        memory = await api.store("kept elsewhere")
    (tmp_path / "store").rename(tmp_path / "moved")
    engine = make_engine(tmp_path, write_timeout_s=0.2, own_store=True)
    async with serve_engine(engine, wait=False) as api:
        await store_is(api, "degraded")
        assert (await recall(api)).result == "degraded"
        assert (await api.call("GET", "/v1/memory")).status_code == 503
        assert (await api.call("POST", "/v1/memory", json={"content": "later"})).status_code == 202
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    (tmp_path / "moved").rename(tmp_path / "store")
    async with serve_engine(make_engine(tmp_path, own_store=True)) as api:
        found = await written(api, 2)
        assert (memory in found, len(found)) == (True, 2)


async def test_turns_that_come_during_a_recall_are_looked_at_once_after_it(tmp_path: Path) -> None:
    engine = make_engine(tmp_path)
    with engine._recalls.used():
        engine.captured(Captured(scope=SCOPE))
        looking = engine._indexing
        assert looking is not None
        engine.captured(Captured(scope=SCOPE))
        await asyncio.wait([looking], timeout=0.1)
        assert (engine._indexing, looking.done()) == (looking, False)
    await asyncio.wait_for(looking, LONGEST_S)
    engine.captured(Captured(scope=SCOPE))
    assert engine._indexing is not looking
    await engine.close(0)
