"""Several engines behind one relay: its own is asked first, and another one when that cannot answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from memproxy.core.protocol import Captured, RecallAnswer, RecallRequest, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.errors import EngineUnavailable
from memproxy.relay.engines import Engines
from tests.relay.rig import ScriptedEngine, after, unix_server
from tests.support.waiting import LONGEST_S, eventually

ANN = Scope(tenant="acme", user="ann")
ASKED = RecallRequest(request_id="r", scope=ANN, queries=["my bike"], nonce="0" * 12)


@asynccontextmanager
async def two(folder: Path, *, first: bool = True) -> AsyncIterator[tuple[Engines, ScriptedEngine, ScriptedEngine]]:
    """Both engines, of which the ``first`` one may not run, and who asks them."""
    one, other = ScriptedEngine(), ScriptedEngine()
    async with AsyncExitStack() as held:
        if first:
            await held.enter_async_context(unix_server(one.app(), folder / "engine.sock"))
        await held.enter_async_context(unix_server(other.app(), folder / "engine-2.sock"))
        engines = Engines([folder / "engine.sock", folder / "engine-2.sock"], deadline_s=LONGEST_S)
        await engines.open()
        held.push_async_callback(engines.close)
        yield engines, one, other


async def call(engines: Engines, method: str) -> bytes:
    _, _, chunks = await engines.api(method, "/v1/memory", {}, b"")
    return b"".join([chunk async for chunk in chunks])


async def test_requests_that_come_one_by_one_ask_the_own_engine_alone(tmp_path: Path) -> None:
    async with two(tmp_path) as (engines, one, other):
        for _ in range(5):
            assert (await engines.recall(ASKED)).result == "empty"
        assert await call(engines, "POST") == b'{"data": []}'
        assert (len(one.asked), len(other.asked)) == (5, 0)
        assert (len(one.api_calls), len(other.api_calls)) == (1, 0)
        assert (await engines.readiness())["engine"] == "ready"


async def test_an_engine_that_is_down_costs_no_request_its_memory(tmp_path: Path) -> None:
    async with two(tmp_path, first=False) as (engines, _, other):
        for _ in range(10):
            assert (await engines.recall(ASKED)).result == "empty"
        assert len(other.asked) == 10
        for method in ("POST", "GET"):
            assert await call(engines, method) == b'{"data": []}'
        other.full = "user"
        assert await engines.full(ANN) == "user"
        ready = await engines.readiness()
        assert (ready["engine"], ready["store"]) == ("loading: 1 of 2 engines, the others answer", "ready")


async def test_an_engine_that_still_loads_what_the_other_one_has_is_not_called_ready(tmp_path: Path) -> None:
    async with two(tmp_path) as (engines, one, other):
        one.parts = {"store": "loading"}
        ready = await engines.readiness()
        assert (ready["engine"], ready["store"]) == ("loading: 1 of 2 engines, the others answer", "ready")
        other.parts = {"store": "loading"}
        ready = await engines.readiness()
        assert (ready["engine"], ready["store"]) == ("ready", "loading")


async def test_an_engine_that_starts_or_has_enough_to_do_is_left_alone(tmp_path: Path) -> None:
    async def loading(_asked: RecallRequest) -> RecallAnswer:
        return RecallAnswer(result="degraded", reason="loading")

    async with two(tmp_path) as (engines, one, other):
        one.recall = loading
        assert (await engines.recall(ASKED)).result == "empty"
        other.recall = loading
        assert (await engines.recall(ASKED)).reason == "loading"

        release = asyncio.Event()
        one.recall = other.recall = after(release)
        before = len(one.asked), len(other.asked)
        async with asyncio.TaskGroup() as asking:
            answers = [asking.create_task(engines.recall(ASKED)) for _ in range(8)]
            await eventually(lambda: len(one.asked) + len(other.asked) == sum(before) + 8, what="all are asked")
            assert (len(one.asked) - before[0], len(other.asked) - before[1]) == (4, 4)
            release.set()
        assert {answer.result().result for answer in answers} == {"empty"}


async def test_an_engine_that_hangs_costs_what_was_asked_of_it_and_nothing_more(tmp_path: Path) -> None:
    release = asyncio.Event()
    async with two(tmp_path) as (engines, one, other):
        one.recall, engines._deadline_s = after(release), 0.1
        assert (await engines.recall(ASKED)).reason == "timeout"
        engines._deadline_s = LONGEST_S
        assert [(await engines.recall(ASKED)).result for _ in range(3)] == ["empty"] * 3
        assert len(other.asked) == 3
        release.set()


async def test_a_call_that_may_have_been_carried_out_is_not_made_again(tmp_path: Path) -> None:
    async with two(tmp_path) as (engines, one, other):
        assert (await engines.readiness())["engine"] == "ready"
        one.breaks = True
        with pytest.raises(EngineUnavailable):
            await call(engines, "POST")
        assert len(other.api_calls) == 0
        assert await call(engines, "GET") == b'{"data": []}'
        assert len(other.api_calls) == 1


async def test_all_are_told_how_a_tenants_model_is_reached(tmp_path: Path) -> None:
    access = UpstreamAccess(base_url="http://127.0.0.1:9/v1", model="m", api_key="sk-1")
    async with two(tmp_path) as (engines, one, other):
        engines.notify(Captured(scope=ANN, access=access))
        engines.share_access(Captured(scope=ANN, access=access))
        await engines.close()
    assert len(one.captured) == len(other.captured) == 2
