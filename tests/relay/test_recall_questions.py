"""What the relay tells the engine with a question, how long it waits, and questions nobody should ask: real engine."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import PlanBody, RecallAnswer, RecallRequest
from memproxy.core.scope import Scope
from memproxy.engine.app import build_app
from memproxy.engine.engine import Engine
from memproxy.ports import JournalEntry, JournalKind
from memproxy.relay.engine_client import recall_seconds
from memproxy.serve.server import Server
from memproxy.settings import Settings
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner
from tests.relay.rig import Rig, Running, running_relay
from tests.support.engine import make_engine
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

QUESTION = "What is my budget for the Hawaii trip?"


async def test_the_engine_is_told_the_verdict_and_where_the_session_begins(running: Running) -> None:
    async with running() as relay:
        await relay.chat(QUESTION)
        await relay.chat("Hello!", "Draft a mail to Priya")
        await relay.chat(QUESTION, "And the flights of my trip?")
        told = [(one.verdict, one.first_turn) for one in relay.engine.asked]
    assert told == [("personal", True), ("default", True), ("personal", False)]


async def test_the_time_of_a_rewriting_model_is_not_the_deadlines(running: Running) -> None:
    async def rewritten(_request: RecallRequest) -> RecallAnswer:
        return RecallAnswer(result="empty", timings={"rewrite": 812.5, "rerank": 3.0, "recall": 900.0})

    rewrite = {"mode": "llm", "timeout_s": 30}
    recall = {"deadline_ms": 1, "rerank": "model", "rerank_timeout_s": 10}
    async with running(rewrite=rewrite, recall=recall) as relay:
        relay.engine.recall = rewritten
        answer = await relay.chat(QUESTION)
    assert answer.headers["x-memproxy-recall"] == "empty"
    assert "rewrite;dur=812.50" in answer.headers["server-timing"]
    assert "rerank;dur=3.00" in answer.headers["server-timing"]


@pytest.mark.parametrize(
    ("sections", "seconds"),
    [
        ({}, 0.15),
        ({"rewrite": {"mode": "none"}}, 0.15),
        ({"rewrite": {"mode": "llm"}}, 2.15),
        ({"rewrite": {"mode": "hyde", "timeout_s": 1}, "recall": {"rerank": "model"}}, 3.15),
    ],
)
def test_the_relay_waits_as_long_as_the_engine_may_take(sections: dict[str, Any], seconds: float) -> None:
    assert recall_seconds(Settings.model_validate(sections)) == pytest.approx(seconds)


@contextlib.asynccontextmanager
async def both(upstream: ScriptedUpstream, state: SqliteState, folder: Path) -> AsyncIterator[tuple[Rig, Engine]]:
    """The relay with a real engine at the socket's other end."""
    recall = {"deadline_ms": 20_000}
    settings = Settings.model_validate({"learn": {"enabled": False}, "recall": recall})
    engine, tasks = make_engine(folder, settings=settings), TaskOwner("test.engine")
    config = uvicorn.Config(build_app(engine), uds=str(folder / "engine.sock"), log_config=None, lifespan="on")
    server = Server(config)
    serving = tasks.start(server.serve(), "serve")
    try:
        await engine.wait_open()
        await eventually((folder / "engine.sock").exists, what="the engine listens")
        async with running_relay(upstream.base_url, state, folder, engine_runs=False, recall=recall) as relay:
            yield relay, engine
    finally:
        server.leave()
        await serving


ODD = {
    "empty": "",
    "blank": " \n\t ",
    "huge": "what is my budget? " * 5_500,
    "one huge word": "my" + "x" * 100_000,
    "emoji": "👍👩‍👩‍👧‍👦🏳️‍🌈",
    "emoji after words": "my budget 💸💸💸?",
    "unspaced": "我的夏威夷旅行预算是多少",
    "mixed": "my 预算 für Гавайи क्या है؟ ฮาวาย",
    "controls": "my\x00 budget\x1b[2J\x07 \u202e?",
    "no such dates": "what did I say on 2023-13-45, on 31 April and 30 February 0000?",
    "events": "what did I do two days before my birthday, since I moved, the year after my wedding? " * 300,
    "relations": "my sister's brother's owner's vet's boss of the user's dog of me's?" * 20,
}


async def test_odd_questions_are_answered_by_the_upstream_and_never_degrade(
    upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path
) -> None:
    async with both(upstream, state, tmp_path) as (relay, _):
        results = {}
        for name, text in ODD.items():
            answer = await relay.chat("Hello", text)
            assert answer.status_code == 200, name
            results[name] = answer.headers["x-memproxy-recall"].partition(";")[0]
    assert set(results.values()) <= {"empty", "skipped", "injected"}, results
    assert results["emoji"] == "skipped"


@pytest.mark.parametrize("year", [1970, 9999])
async def test_memories_of_a_clock_far_off_are_recalled(
    upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path, year: int
) -> None:
    async with both(upstream, state, tmp_path) as (relay, engine):
        scope = Scope(tenant="anonymous", user="default")
        stamp = engine.parts.clock.now().replace(year=year, month=12, day=31)
        memory = Memory(
            id="far", tenant=scope.tenant, user_id="default", kind=Kind.SEMANTIC, created_at=stamp, updated_at=stamp,
            content="User's budget for the Hawaii trip is $10,000", valid_from=stamp if year == 1970 else None,
        )  # fmt: skip
        plan, worker = msgspec.json.encode(PlanBody(upserts=[memory])), engine.backends().parts.worker
        row = await worker.submit(JournalEntry(kind=JournalKind.PLAN, scope=scope, body=plan))
        assert await worker.applied(row, 30)
        answer = await relay.chat("What was my budget for the Hawaii trip last week, in June 1970 and 200 years ago?")
        assert answer.headers["x-memproxy-recall"].startswith(("injected", "empty"))
        assert (await relay.chat(QUESTION)).headers["x-memproxy-recall"] == "injected"
        assert f"[{year}-12-31]" in upstream.last.body.decode()


@pytest.mark.parametrize(
    "config", [{"retrieval_limit": 0}, {"retrieval_limit": -1}, {"max_tokens": -5}, {"similarity_threshold": -0.1}]
)
async def test_limits_that_are_none_are_refused_by_name(running: Running, config: dict[str, float]) -> None:
    async with running() as relay:
        answer = await relay.chat(QUESTION, memory_config=config)
    assert answer.status_code == 400
    assert next(iter(config)) in answer.json()["error"]["message"]


async def test_a_budget_of_nothing_injects_nothing(
    upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path
) -> None:
    async with both(upstream, state, tmp_path) as (relay, _):
        for tokens in (0, 1, 20):
            answer = await relay.chat(QUESTION, memory_config={"max_tokens": tokens})
            assert (answer.status_code, answer.headers["x-memproxy-recall"]) == (200, "empty")
