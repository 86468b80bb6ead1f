"""The models that recall may ask: through the real engine and a real socket, and done without when they fail."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memproxy.core.breaker import FAILURES_TO_OPEN
from memproxy.core.protocol import (
    CAPTURED_PATH,
    RECALL_PATH,
    Captured,
    RecallAnswer,
    RecallLimits,
    RecallRequest,
    UpstreamAccess,
)
from memproxy.core.scope import Scope
from memproxy.metrics import metrics
from memproxy.settings import Settings
from tests.support.answers import Answer, Answerer, Received, completion, text_of
from tests.support.engine import Api, make_engine, serve_engine
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S

SCOPE = Scope(tenant="acme", user="default", session="s1")
BUDGET = "User's budget for the Hawaii vacation is $10,000"
DOG = "User's dog is named Biscuit"
VAGUE = ["We talked about the money for our island holiday", "How much?"]
BRIEF, COMPLETED = ["Planning our Hawaii vacation", "How much?"], "How much? hawaii vacation"
LINE = "What is the budget for the island holiday, the Hawaii vacation?"


def settings(upstream: ScriptedUpstream, *, own: bool = True, **recall: Any) -> Settings:
    """Recall that may ask models at the upstream; ``own``: they have a name and need no request's key."""
    role = {"base_url": upstream.base_url, "model": "small", "api_key": "k"} if own else {}
    rewrite = recall.pop("rewrite", {"mode": "none"})
    return Settings.model_validate(
        {
            "upstream": {"base_url": upstream.base_url},
            "learn": {"enabled": False},
            "rewrite": rewrite,
            "recall": {"deadline_ms": 60_000, **recall},
            "models": {"rewrite": role, "rerank": role},
        }
    )


async def recall(api: Api, *queries: str, scope: Scope = SCOPE, **fields: Any) -> RecallAnswer:
    request = RecallRequest(request_id="r1", scope=scope, queries=list(queries), nonce="abc", explain=True, **fields)
    answer = await api.client.post(RECALL_PATH, content=msgspec.json.encode(request))
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=RecallAnswer)


def spent(source: str) -> float:
    labels = metrics().model_tokens.labels
    return float(sum(labels(source=source, direction=one)._value.get() for one in ("input", "output")))


def hanging(_received: Received) -> Answer:
    return Answer(wait=asyncio.Event())


async def test_a_vague_query_is_searched_as_a_model_completes_it(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.default = lambda _received: completion(LINE)
    before = spent("rewrite")
    async with serve_engine(make_engine(tmp_path, settings=settings(upstream, rewrite={"mode": "llm"}))) as api:
        await api.store(BUDGET)
        await api.store(DOG)
        answer = await recall(api, *VAGUE)
        assert answer.query == LINE
        assert "$10,000" in answer.context
        assert answer.notes == []
        assert answer.timings["rewrite"] > 0
        assert (await recall(api, "What's my budget for the Hawaii vacation?")).query.startswith("What's my")
        since = api.engine.backends().parts.clock.now().replace(hour=0, minute=0)
        noted = await api.engine.backends().state.tokens_spent("acme", since=since - timedelta(days=1))
        assert noted == {"rewrite": (7, 3)}
    assert len(upstream.received) == 1
    assert spent("rewrite") == before + 10
    sent = upstream.last
    assert sent.header("x-memproxy-internal") == "rewrite"
    assert sent.header("x-memproxy-memory") == "off"
    assert sent.json["max_tokens"] == 100


UNUSABLE: dict[str, tuple[Answerer, str]] = {
    "apologises": (lambda _received: completion("I'm sorry, I cannot help with that."), "unreadable"),
    "empty": (lambda _received: completion(""), "unreadable"),
    "fails": (lambda _received: Answer([b"<html>"], 500), "error"),
    "refuses": (lambda _received: Answer([b"{}"], 401), "refused"),
}


async def test_without_a_usable_line_the_query_takes_its_context(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    rewrite = {"mode": "llm", "timeout_s": LONGEST_S}
    async with serve_engine(make_engine(tmp_path, settings=settings(upstream, rewrite=rewrite))) as api:
        for tenant, (answering, why) in UNUSABLE.items():
            upstream.default = answering
            scope = Scope(tenant=tenant, user="default", session="s1")
            answer = await recall(api, *BRIEF, scope=scope)
            assert (answer.query, answer.notes) == (COMPLETED, [f"rewrite: {why}"])
            assert answer.result == "empty"


async def test_a_model_that_keeps_failing_is_left_alone(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.default = hanging
    rewrite = {"mode": "llm", "timeout_s": 0.05}
    async with serve_engine(make_engine(tmp_path, settings=settings(upstream, rewrite=rewrite))) as api:
        answers = [await recall(api, *BRIEF) for _ in range(FAILURES_TO_OPEN + 2)]
    assert [answer.notes for answer in answers] == (
        [["rewrite: timeout"]] * FAILURES_TO_OPEN + [["rewrite: error"]] * 2
    )
    assert {(answer.query, answer.result) for answer in answers} == {(COMPLETED, "empty")}
    assert len(upstream.received) <= FAILURES_TO_OPEN


async def test_the_requests_own_model_and_key_are_used_once_they_are_known(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.default = lambda _received: completion(LINE)
    chosen = settings(upstream, own=False, rewrite={"mode": "llm"})
    async with serve_engine(make_engine(tmp_path, settings=chosen)) as api:
        await api.store(BUDGET)
        first = await recall(api, *VAGUE)
        assert first.notes == ["rewrite: refused"]
        assert upstream.received == []
        access = UpstreamAccess(base_url=upstream.base_url, model="their-model", api_key="sk-theirs")
        await api.client.post(CAPTURED_PATH, content=msgspec.json.encode(Captured(scope=SCOPE, access=access)))
        assert (await recall(api, *VAGUE)).query == LINE
        rival = Scope(tenant="rival", user="default", session="s1")
        assert (await recall(api, *VAGUE, scope=rival)).notes == ["rewrite: refused"]
    (sent,) = upstream.received
    assert (sent.json["model"], sent.header("authorization")) == ("their-model", "Bearer sk-theirs")


async def test_a_hypothetical_statement_is_searched_for_when_nothing_was_relevant(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    statement = "The user's dog is named Rex, an animal of the household"
    upstream.default = lambda _received: completion(statement)
    async with serve_engine(make_engine(tmp_path, settings=settings(upstream, rewrite={"mode": "hyde"}))) as api:
        await api.store(DOG)
        await api.store(BUDGET)
        answer = await recall(api, "Which creature shares my household?")
        assert answer.query == statement
        assert "Biscuit" in answer.context
        found = await recall(api, "What's my budget for the Hawaii vacation?")
        assert "$10,000" in found.context
        assert "rewrite" not in found.timings
    assert len(upstream.received) == 1
    assert text_of(upstream.last.messages[0]).startswith("You write what a user's notes might say")


async def test_a_statement_that_cannot_be_had_leaves_the_first_search(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.default = lambda _received: completion("Nothing to say.")
    async with serve_engine(make_engine(tmp_path, settings=settings(upstream, rewrite={"mode": "hyde"}))) as api:
        await api.store(DOG)
        answer = await recall(api, "Which creature shares my household?")
    assert (answer.result, answer.notes) == ("empty", ["rewrite: unreadable"])
    assert answer.query == "Which creature shares my household?"


def judging(best: str) -> Callable[[Received], Answer]:
    """A reranker that has a word of its own for what it thinks is best."""

    def answer(received: Received) -> Answer:
        lines = [
            json.loads(line) for line in text_of(received.messages[1]).splitlines() if line.startswith('{"number"')
        ]
        return completion(json.dumps({"scores": [1.0 if best in one["text"] else 0.0 for one in lines]}))

    return answer


TRIPS = [f"User's budget for the {place} trip is ${sum_},000" for sum_, place in enumerate(("Oslo", "Rome", "Bonn"), 3)]


async def test_a_model_may_reorder_what_was_found(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.default = judging("Bonn")
    before = spent("rerank")
    async with serve_engine(make_engine(tmp_path, settings=settings(upstream, rerank="model"))) as api:
        for trip in TRIPS:
            await api.store(trip)
        answer = await recall(api, "What's my budget for the trip?", limits=RecallLimits(similarity_threshold=0.3))
    assert "Bonn" in answer.citations[0].snippet
    assert answer.candidates[0]["signals"]["rerank"] == 1.0
    assert answer.timings["rerank"] > 0
    assert spent("rerank") == before + 10


MISJUDGING: list[tuple[Answerer, float, str]] = [
    (hanging, 0.1, "timeout"),
    (lambda _received: completion("The first is best."), LONGEST_S, "unreadable"),
    (lambda _received: completion('{"scores": [1]}'), LONGEST_S, "unreadable"),
]


@pytest.mark.parametrize(("answering", "patience_s", "why"), MISJUDGING)
async def test_a_reranker_that_fails_leaves_the_order_and_the_receipt_says_so(
    tmp_path: Path, upstream: ScriptedUpstream, answering: Answerer, patience_s: float, why: str
) -> None:
    failures = metrics().internal_errors.labels(where="recall.rerank")
    before = failures._value.get()
    chosen = settings(upstream, rerank="model", rerank_timeout_s=patience_s)
    async with serve_engine(make_engine(tmp_path, settings=chosen)) as api:
        for trip in TRIPS:
            await api.store(trip)
        upstream.default = answering
        answer = await recall(api, "What's my budget for the Rome trip?", verdict="personal")
        assert answer.result == "injected"
        assert "Rome" in answer.citations[0].snippet
        assert answer.notes == [f"rerank: {why}"]
        await api.engine.backends().receipts_written()
        receipt = await api.engine.backends().state.receipt(SCOPE, "r1")
    assert failures._value.get() == before + 1
    assert receipt is not None
    assert receipt.recalled is not None
    assert (receipt.recalled.notes, receipt.recalled.verdict) == (answer.notes, "personal")
