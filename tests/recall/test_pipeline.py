import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from memproxy.core.memory import Kind, Trust
from memproxy.core.scope import Scope
from memproxy.core.turn import text_digest
from memproxy.errors import StoreUnavailable
from memproxy.metrics import metrics
from memproxy.models.embedding import NoEmbedder
from memproxy.ports import Candidate, HybridQuery, MemoryFilter, Question
from memproxy.settings import Settings
from memproxy.stores.edge import EdgeStore
from tests.recall.making import ANN, NOW, Bench, asking, bench, fact, turn

ALL = MemoryFilter()
BUDGET = "User's budget for the Hawaii vacation is $10,000"
DOG = "User's dog is named Biscuit"


async def test_what_was_learned_is_recalled(it: Bench) -> None:
    await it.put(fact(BUDGET), fact(DOG))
    answer = await it.recall.recall(asking("What's my budget for the Hawaii trip?"))
    assert answer.result == "injected"
    assert BUDGET in answer.context
    assert "Biscuit" not in answer.context
    assert answer.citations[0].score >= 0.6
    assert set(answer.timings) == {"embed", "search", "rank", "assemble", "recall"}


async def test_where_nothing_is_known_relevant_or_asked_nothing_is_injected(it: Bench) -> None:
    assert (await it.recall.recall(asking("What's my budget?"))).result == "empty"
    await it.put(fact(BUDGET), fact(DOG))
    answer = await it.recall.recall(asking("Which programming language should I learn first?"))
    assert (answer.result, answer.context, answer.tokens, answer.citations) == ("empty", "", 0, [])
    assert (await it.recall.recall(asking())).result == "empty"


async def test_another_users_memories_are_never_found(it: Bench) -> None:
    await it.put(fact(BUDGET))
    ben = Scope(tenant="acme", user="ben")
    assert (await it.recall.recall(asking("What's my budget for the Hawaii trip?", scope=ben))).result == "empty"
    assert await it.recall.search(ben, "budget", limit=10, where=MemoryFilter()) == []


async def test_a_vague_query_is_searched_with_what_was_said_before(it: Bench) -> None:
    await it.put(fact(BUDGET), fact(DOG))
    answer = await it.recall.recall(asking("Planning Hawaii vacation", "Looking at hotels", "How much?"))
    alone = await it.recall.recall(asking("How much?"))
    assert BUDGET in answer.context
    assert alone.query == "How much?"
    assert alone.result == "empty"


async def test_rewriting_can_be_turned_off() -> None:
    async with bench(settings=Settings.model_validate({"rewrite": {"mode": "none"}})) as it:
        assert (await it.recall.recall(asking("Planning Hawaii vacation", "How much?"))).query == "How much?"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"superseded_by": "other"}, "superseded"),
        ({"trust": Trust.DOCUMENT}, "trust"),
        ({"confidence": 0.2}, "confidence"),
        ({"valid_to": NOW - timedelta(days=1)}, "ended"),
    ],
)
async def test_what_must_not_be_injected_is_left_out_and_the_receipt_says_why(
    fields: dict[str, object], reason: str
) -> None:
    settings = Settings.model_validate({"learn": {"min_trust": "tool"}})
    async with bench(settings=settings) as it:
        await it.put(fact(BUDGET, **fields))
        answer = await it.recall.recall(asking("What's my budget for the Hawaii trip?"))
    assert answer.result == "empty"
    assert [one["rejected"] for one in answer.candidates] == [reason]


@pytest.mark.parametrize(
    "fields", [{"quarantined": True}, {"active": False}, {"expires_at": NOW - timedelta(seconds=1)}]
)
async def test_what_does_not_count_any_more_is_not_even_searched(it: Bench, fields: dict[str, object]) -> None:
    await it.put(fact(BUDGET, **fields))
    assert (await it.recall.recall(asking("What's my budget for the Hawaii trip?"))).candidates == []


async def test_what_the_request_already_contains_is_not_injected_again(it: Bench) -> None:
    said = "My budget for the Hawaii trip is $10,000"
    await it.put(turn(said))
    question = "What's my budget for the Hawaii trip?"
    assert (await it.recall.recall(asking(question))).result == "injected"
    assert (await it.recall.recall(asking(question, present=[text_digest(said)]))).result == "empty"


async def test_a_fact_displaces_the_turn_it_came_from(it: Bench) -> None:
    said = turn("Well, so for the trip to Hawaii we have a budget of about $10,000, flights and all", id="t1")
    await it.put(said, fact(BUDGET, turn_ids=["t1"]))
    answer = await it.recall.recall(asking("What's my budget for the Hawaii vacation?", similarity_threshold=0.2))
    assert [citation.memory_id for citation in answer.citations] == [f"semantic-{BUDGET}"]
    assert {one["memory_id"]: one["rejected"] for one in answer.candidates}["t1"] == "fact"


async def test_a_fact_displaces_its_turn_also_when_that_ranks_a_little_better(it: Bench) -> None:
    question = "What's my budget for the Hawaii trip?"
    said = turn("My budget for the Hawaii trip is $10,000, all in all", id="t1")
    await it.put(said, fact("User's budget for the Hawaii trip is $10,000", turn_ids=["t1"]))
    scores = {one.memory.id: one.score for one in await it.recall.search(ANN, question, limit=9, where=ALL)}
    answer = await it.recall.recall(asking(question, similarity_threshold=0.2))
    (fact_id,) = scores.keys() - {"t1"}
    assert scores["t1"] - scores[fact_id] <= 0.1
    assert [citation.memory_id for citation in answer.citations] == [fact_id]
    assert {one["memory_id"]: one["rejected"] for one in answer.candidates}["t1"] == "fact"


async def test_a_turn_whose_fact_was_superseded_is_not_in_the_block(it: Bench) -> None:
    old = turn("My budget for the Hawaii trip is $10,000", id="t1", superseded_by="f2")
    new = turn("My budget for the Hawaii trip is $15,000 now", id="t2", created_at=NOW + timedelta(days=1))
    gone = fact("User's budget for the Hawaii trip is $10,000", id="f1", active=False, superseded_by="f2")
    await it.put(old, new, gone, fact("User's budget for the Hawaii trip is $15,000", id="f2", supersedes="f1"))
    answer = await it.recall.recall(asking("What's my budget for the Hawaii trip?"))
    assert "$15,000" in answer.context
    assert "$10,000" not in answer.context


async def test_a_request_narrows_what_is_recalled(it: Bench) -> None:
    question = "What's my budget for the Hawaii trip?"
    await it.put(fact(BUDGET), turn("The Hawaii budget is $10,000 for the trip"))
    only_turns = await it.recall.recall(asking(question, memory_types=["turn"]))
    one = await it.recall.recall(asking(question, retrieval_limit=1))
    strict = await it.recall.recall(asking(question, similarity_threshold=1.0))
    none = await it.recall.recall(asking(question, retrieval_limit=0))
    no_kind = await it.recall.recall(asking(question, memory_types=[]))
    tiny = await it.recall.recall(asking(question, max_tokens=20))
    assert all("said" in line for line in only_turns.context.splitlines() if line.startswith("- "))
    assert len(one.citations) == 1
    assert {strict.result, none.result, no_kind.result, tiny.result} == {"empty"}
    assert "budget" in [candidate["rejected"] for candidate in tiny.candidates]


async def test_the_block_stays_within_its_tokens(it: Bench) -> None:
    await it.put(*(fact(f"User's budget for the Hawaii trip, part {number}, is ${number},000") for number in range(40)))
    answer = await it.recall.recall(asking("What's my budget for the Hawaii trip?", similarity_threshold=0.0))
    assert 0 < answer.tokens <= Settings().recall.max_tokens
    assert len(answer.citations) == Settings().recall.limit


class FailingStore(EdgeStore):
    """A store that is there but does not answer searches."""

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        raise StoreUnavailable("the store does not answer")


class SlowStore(EdgeStore):
    """A store whose searches never end."""

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize(("store", "reason"), [(FailingStore, "store"), (SlowStore, "timeout")])
async def test_trouble_costs_the_memories_and_is_said(tmp_path: Path, store: type[EdgeStore], reason: str) -> None:
    async with bench(settings=Settings()) as it:
        it.recall._store = store(tmp_path / "other", dimension=4, embedder_name=None)
        answer = await it.recall.recall(asking("What's my budget?"))
        await it.recall._store.close()
    assert (answer.result, answer.reason, answer.context) == ("degraded", reason, "")


class LateEmbedder(NoEmbedder):
    """An embedder that never answers in time."""

    async def embed_question(self, text: str) -> Question:
        await asyncio.Event().wait()
        raise AssertionError(text)


class AwayEmbedder(NoEmbedder):
    """An embedder that is configured and not there."""

    state = "unavailable: no model in the folder"


class LoadingEmbedder(NoEmbedder):
    """An embedder whose model is being read."""

    state = "loading"


@pytest.mark.parametrize(
    ("embedder", "vector"),
    [(LateEmbedder, "timeout"), (AwayEmbedder, "unavailable"), (LoadingEmbedder, "loading"), (NoEmbedder, "off")],
)
async def test_words_alone_are_used_and_it_is_counted_why(embedder: type[NoEmbedder], vector: str) -> None:
    async with bench(settings=Settings()) as it:
        await it.put(fact(BUDGET))
        it.recall._embedder = embedder(384)
        before = _queries(vector), _queries("yes")
        answer = await it.recall.recall(asking("What's my budget for the Hawaii trip?"))
    assert answer.result == "injected"
    assert (_queries(vector), _queries("yes")) == (before[0] + 1, before[1])


def _queries(vector: str) -> float:
    return float(metrics().queries.labels(vector)._value.get())


class AlmostEmbedder(NoEmbedder):
    """Knows queries by a made-up vector, documents not at all."""

    async def embed_question(self, text: str) -> Question:
        return Question(vector=[1.0] + [0.0] * 383)


async def test_memories_that_have_no_vector_yet_are_found_by_words(it: Bench) -> None:
    await it.put(fact(BUDGET), fact(DOG))
    it.recall._embedder = AlmostEmbedder(384)
    found = await it.recall.search(ANN, "budget for the Hawaii trip", limit=10, where=MemoryFilter())
    assert found[0].memory.content == BUDGET
    assert found[0].score >= 0.6
    assert "cosine" not in found[0].signals


async def test_the_search_api_has_no_floor_and_says_its_signals(it: Bench) -> None:
    await it.put(fact(BUDGET), fact("User's budget for books is small"), turn("budget talk"))
    found = await it.recall.search(ANN, "Hawaii budget", limit=10, where=MemoryFilter())
    limited = await it.recall.search(ANN, "Hawaii budget", limit=1, where=MemoryFilter(kinds=(Kind.TURN,)))
    scores = [one.score for one in found]
    assert len(found) == 3
    assert scores == sorted(scores, reverse=True)
    assert all(set(one.signals) == {"bm25", "coverage"} and 0 <= one.score <= 1 for one in found)
    assert [one.memory.content for one in limited] == ["budget talk"]


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("我的狗叫小白,今年三岁", "我的狗叫什么名字?"),
        ("Mein Hund heißt Biscuit und wohnt in Köln", "Wie heißt mein Hund?"),
        ("My budget für die Reise nach 夏威夷 is 10000", "夏威夷 budget?"),
        ("Le café préféré d'Anna est Chez Émile", "cafe prefere d'Anna"),
    ],
)
async def test_other_scripts_and_languages_are_found_by_words(it: Bench, told: str, question: str) -> None:
    await it.put(turn(told), fact("User's favorite color is green"))
    found = await it.recall.search(ANN, question, limit=1, where=MemoryFilter())
    assert [one.memory.content for one in found] == [told]


ODD = [
    "\ud800 budget",
    "x" * 200_000,
    "what about 30 February 2023? " * 4000,
    "the of and",
    "👍",
    "👩‍👩‍👧‍👦🏳️‍🌈" * 500,
    "",
    "   \n\t ",
    "\x00\x01\x1b[2J budget",
    "我的 budget für die Reise в Москву 夏威夷 क्या है؟",
    "on 2023-13-45, 99 May 0000, 31 April, 9999-12-31, 0 days ago, last last week",
    "((((((((" * 5000,
    "since I since my before our " * 5000,
    "12 weeks after my " + "long " * 5000,
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("query", ODD)
async def test_odd_queries_are_searched_without_trouble(it: Bench, query: str) -> None:
    await it.put(fact(BUDGET), turn("We meet on 31 April", created_at=NOW), turn("👍"))
    assert (await it.recall.recall(asking(query))).result in {"empty", "injected"}
    assert (await it.recall.recall(asking("hello", query))).result in {"empty", "injected"}
    assert len(await it.recall.search(ANN, query, limit=5, where=ALL)) <= 5


async def test_who_asks_what_was_on_a_day_is_given_what_was_said_then(it: Bench) -> None:
    for ago, text in ((6, "We climbed Helvellyn with the kids."), (40, "I planted beans."), (1, "I fixed the shed.")):
        said = NOW - timedelta(days=ago)
        await it.put(turn(text, session_id=f"s{ago}", created_at=said))
    yesterday = await it.recall.recall(asking("What did I do yesterday?"))
    weekend = await it.recall.recall(asking("What did I do last weekend?"))
    assert "shed" in yesterday.context
    assert "beans" not in yesterday.context
    assert "Helvellyn" in weekend.context
