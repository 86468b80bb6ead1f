"""What a session begins with, and how a block's tokens are shared."""

from datetime import timedelta
from typing import Any

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.settings import Settings
from tests.recall.making import NOW, Bench, asking, bench, fact

POEM = "Write a poem about autumn leaves"
FACTS = [
    fact("User is allergic to nuts", id="nuts", importance=0.9),
    fact("User's name is Ann", id="name", importance=0.8, confidence=0.9),
    fact("User speaks Catalan", id="catalan", importance=0.8, confidence=0.5),
    fact("User once saw a heron", id="heron", importance=0.1),
]


def settings(**recall: Any) -> Settings:
    return Settings.model_validate({"recall": {"deadline_ms": 60_000, **recall}})


def first(request: RecallRequest) -> RecallRequest:
    return msgspec.structs.replace(request, first_turn=True)


def given(answer: RecallAnswer) -> list[str]:
    return [citation.memory_id for citation in answer.citations]


async def put(it: Bench, *memories: Memory) -> None:
    await it.put(*FACTS, *memories)


async def test_by_default_nothing_is_given_that_is_not_relevant() -> None:
    async with bench(settings=settings()) as it:
        await put(it)
        assert (await it.recall.recall(first(asking(POEM)))).result == "empty"


async def test_a_session_may_begin_with_the_most_important_facts() -> None:
    async with bench(settings=settings(first_turn_facts=3)) as it:
        await put(it)
        answer = await it.recall.recall(first(asking(POEM)))
        later = await it.recall.recall(asking(POEM))
    assert given(answer) == ["nuts", "name", "catalan"]
    assert "heron" not in answer.context
    assert later.result == "empty"


async def test_they_come_after_what_is_relevant_and_once() -> None:
    async with bench(settings=settings(first_turn_facts=2)) as it:
        await put(it, fact("User's budget for the Hawaii vacation is $10,000", id="budget", importance=0.2))
        answer = await it.recall.recall(first(asking("What's my budget for the Hawaii vacation?")))
        nuts = await it.recall.recall(first(asking("Am I allergic to nuts?")))
    assert given(answer) == ["budget", "nuts", "name"]
    assert given(nuts) == ["nuts", "name"]


async def test_what_must_not_be_injected_is_no_first_fact_either() -> None:
    gone: list[dict[str, Any]] = [
        {"active": False},
        {"quarantined": True},
        {"superseded_by": "x"},
        {"confidence": 0.1},
        {"valid_to": NOW - timedelta(days=1)},
        {"expires_at": NOW - timedelta(days=1)},
    ]
    async with bench(settings=settings(first_turn_facts=50)) as it:
        facts = [fact("User is allergic to nuts", id=f"f{place}", **fields) for place, fields in enumerate(gone)]
        await it.put(*facts)
        answer = await it.recall.recall(first(asking(POEM)))
    assert (answer.result, answer.candidates) == ("empty", [])


async def test_they_stay_within_the_budget_and_the_kinds_of_the_request() -> None:
    async with bench(settings=settings(first_turn_facts=4)) as it:
        await put(it)
        assert given(await it.recall.recall(first(asking(POEM, memory_types=["turn"])))) == []
        assert given(await it.recall.recall(first(asking(POEM, max_tokens=0)))) == []
        some = await it.recall.recall(first(asking(POEM, max_tokens=130)))
    assert 0 < some.tokens <= 130
    assert 0 < len(some.citations) < 4
