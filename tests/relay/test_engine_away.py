"""The engine dead, hung or broken: requests succeed and say so."""

import asyncio
import logging
from pathlib import Path

import pytest

from memproxy.core.breaker import FAILURES_TO_OPEN
from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.metrics import metrics
from memproxy.relay.engine_client import AT_ONCE, BUSY
from memproxy.relay.health import STATES
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner
from tests.relay.rig import Running, after, running_relay, unix_server
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually


async def test_without_an_engine_requests_succeed_and_say_degraded(running: Running) -> None:
    async with running(engine_runs=False) as relay:
        for _ in range(FAILURES_TO_OPEN + 2):
            answer = await relay.chat("What is my budget?")
            assert answer.status_code == 200
            assert answer.headers["x-memproxy-recall"] == "degraded; reason=engine"
        ready = await relay.client.get("/readyz")
        assert ready.status_code == 200
        assert (ready.json()["status"], ready.json()["parts"]["engine"]) == ("loading", "loading"), (
            "it may be on its way"
        )
        relay.app.parts.engine._clients[0]._start_patience_s = 0.1
        api = await relay.client.get("/v1/memory")
        assert api.status_code == 503
        assert api.json()["error"]["code"] == "engine_unavailable"


async def test_why_recall_is_degraded_is_told_once_and_not_with_each_request(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(engine_runs=False) as relay:
        for _ in range(5):
            await relay.chat("What is my budget?")
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert told[0].getMessage().startswith("recall is degraded (engine), 1 requests went on without memory: the engine")


async def test_a_scrape_tells_the_state_of_each_part_while_the_engine_is_away(running: Running) -> None:
    async with running() as relay:
        await relay.client.get("/metrics")
        seen = {part: _state_of(part) for part in ("relay", "engine", "store")}
        relay.engine.idle.clear()
        await relay.client.get("/metrics")
        silent = {part: _state_of(part) for part in ("relay", "engine", "store")}
        relay.engine.idle.set()
    assert seen == {"relay": ["ready"], "engine": ["ready"], "store": ["ready"]}
    assert silent == {"relay": ["ready"], "engine": ["degraded"], "store": ["unknown"]}


def _state_of(part: str) -> list[str]:
    """The states whose gauge is set, of which there must be one."""
    return [state for state in STATES if metrics().part_state.labels(part, state)._value.get()]


async def test_a_memory_call_waits_for_an_engine_that_starts(running: Running, tmp_path: Path) -> None:
    async with running(engine_runs=False) as relay:
        owner = TaskOwner("test")
        calling = owner.start(relay.client.get("/v1/memory"), "call")
        assert (await relay.client.get("/readyz")).json()["parts"]["engine"] == "loading"
        async with unix_server(relay.engine.app(), tmp_path / "engine.sock"):
            assert (await calling).status_code == 200
            assert (await relay.client.get("/readyz")).json()["status"] == "ready"


async def test_an_engine_too_busy_to_say_how_it_is_makes_no_relay_unready(running: Running) -> None:
    async with running() as relay:
        relay.engine.idle.clear()
        starting = await relay.client.get("/readyz")
        relay.engine.idle.set()
        assert (await relay.client.get("/readyz")).json()["status"] == "ready"
        relay.engine.idle.clear()
        ready = await relay.client.get("/readyz")
        relay.engine.idle.set()
        again = await relay.client.get("/readyz")
    told = starting.json()
    assert (told["status"], told["parts"]) == ("loading", {"relay": "ready", "engine": "loading"})
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert ready.json()["parts"] == {"relay": "ready", "engine": BUSY}
    assert (again.status_code, again.json()["status"]) == (200, "ready")


async def test_a_memory_call_waits_for_an_engine_that_is_busy(running: Running) -> None:
    async with running() as relay:
        relay.engine.idle.clear()
        calling = TaskOwner("test").start(relay.client.get("/v1/memory"), "call")
        await eventually(lambda: relay.engine.probes > 1 or calling.done(), what="it is asked once more how it is")
        relay.engine.idle.set()
        assert (await calling).status_code == 200
    assert len(relay.engine.api_calls) == 1


async def test_a_hung_engine_costs_a_request_its_memory_and_soon_no_time_at_all(running: Running) -> None:
    never = asyncio.Event()
    async with running(recall={"deadline_ms": 20}) as relay:
        relay.engine.recall = after(never)
        told: list[str] = []
        async with asyncio.timeout(60):
            while told[-1:] != ["degraded; reason=engine"]:
                told.append((await relay.chat("What is my budget?")).headers["x-memproxy-recall"])
        never.set()
    waited = told.count("degraded; reason=timeout")
    assert FAILURES_TO_OPEN <= waited <= AT_ONCE, "those that hang have no more beside them"
    assert len(relay.engine.asked) <= waited
    assert told[0] == "degraded; reason=timeout"
    assert set(told[:-1]) <= {"degraded; reason=timeout", "degraded; reason=busy"}


async def test_an_engine_that_answers_nonsense_costs_a_request_its_memory_only(running: Running) -> None:
    async def broken(_request: RecallRequest) -> RecallAnswer:
        raise ValueError("a fault of the engine's")

    async with running() as relay:
        relay.engine.recall = broken
        answer = await relay.chat("What is my budget?")
    assert answer.status_code == 200
    assert answer.headers["x-memproxy-recall"] == "degraded; reason=engine"


async def test_an_engine_that_comes_back_is_used_again(
    running: Running, upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path
) -> None:
    async with running(engine_runs=False) as away:
        await away.chat("What is my budget?")
    again = SqliteState(tmp_path / "state.db", sync="normal")
    async with running_relay(upstream.base_url, again, tmp_path) as relay:
        answer = await relay.chat("What is my budget?")
    assert answer.headers["x-memproxy-recall"] == "empty"


async def test_a_message_to_memory_goes_to_the_model_while_the_engine_is_away(running: Running) -> None:
    control = {"in_chat": True}
    messages = ("What do you know about me?", "Forget my birthday", "Stop remembering")
    async with running(engine_runs=False, control=control) as rig:
        answers = await asyncio.gather(*map(rig.chat, messages))
        for said, answer in zip(messages, answers, strict=True):
            assert answer.json()["choices"][0]["message"]["content"] == f"You said: {said}"
            assert answer.headers["x-memproxy-recall"] == "degraded; reason=engine"
