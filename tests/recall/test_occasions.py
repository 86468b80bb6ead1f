"""Times told by another memory, against a real store: by words alone and with the real model."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from memproxy.core.memory import Memory
from memproxy.evals.vectors import until_ready
from memproxy.models.embed import FastembedEmbedder
from memproxy.ports import Embedder, MemoryFilter
from memproxy.settings import EmbeddingSettings
from tests.recall.making import ANN, Bench, asking, bench, fact, turn
from tests.support.folders import Folders
from tests.support.shared import MODEL_PATH, needs_model

pytestmark = pytest.mark.asyncio(loop_scope="module")


def said(text: str, day: str) -> Memory:
    return turn(text, id=text, session_id=day, created_at=datetime.fromisoformat(day).replace(tzinfo=UTC))


DIARY = (
    said("I moved to Berlin today, what a day!", "2026-03-05"),
    said("Went to a great ramen restaurant called Takumi with Lena.", "2026-03-20"),
    said("Dinner at Marina, the new seafood restaurant, was overpriced.", "2026-01-10"),
    said("Our wedding is on 20 June, the venue is booked.", "2026-02-01"),
    said("We are hiking in Madeira with the whole family, it is lovely.", "2026-06-23"),
    said("We are hiking in Tuscany with the whole family, it is lovely.", "2026-08-23"),
    said("Bought a red bicycle at the flea market.", "2026-05-01"),
    said("Bought a green tent at the flea market.", "2026-07-09"),
)
BIRTHDAY = fact("User's birthday is on 3 May", id="birthday", session_id="2026-01-01")


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["words", pytest.param("model", marks=[needs_model, pytest.mark.model])]
)
async def embedder(request: pytest.FixtureRequest, folders: Folders) -> AsyncIterator[Embedder | None]:
    """Loaded once: that takes longer than most of the tests."""
    if request.param == "words":
        yield None
        return
    with folders.new("cache") as cache:
        made = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH), cache)
        await until_ready(made)
        yield made
        await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def diary(embedder: Embedder | None, tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench(tmp_path / "store", embedder=embedder) as shop:
        for memory in (*DIARY, BIRTHDAY):
            await shop.put(memory)
        yield shop


async def best(diary: Bench, question: str) -> str:
    found = await diary.recall.search(ANN, question, limit=1, where=MemoryFilter())
    return found[0].memory.content


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What did I buy at the flea market two days before my birthday?", DIARY[6]),
        ("Which restaurant have I been to since I moved to Berlin?", DIARY[1]),
        ("Where did we go hiking in the week after our wedding?", DIARY[4]),
        ("Which restaurant did I try two months before I moved to Berlin?", DIARY[2]),
    ],
)
async def test_the_event_that_a_question_goes_by_tells_its_time(diary: Bench, question: str, answer: Memory) -> None:
    assert await best(diary, question) == answer.content


async def test_a_receipt_says_which_days_were_searched(diary: Bench) -> None:
    answer = await diary.recall.recall(asking("What did I buy at the flea market two days before my birthday?"))
    assert answer.query == "What did I buy at the flea market on 1 May 2026?"


@pytest.mark.parametrize(
    "question",
    ["What did I buy two days before my graduation?", "What did I do since I moved to Rome?", "What did I buy?"],
)
async def test_an_event_that_nothing_tells_changes_nothing(diary: Bench, question: str) -> None:
    assert (await diary.recall.recall(asking(question))).query == question


async def test_a_plan_is_not_the_event(diary: Bench) -> None:
    await diary.put(said("I want to move to Oslo some day.", "2026-04-01"))
    question = "What did I do since I moved to Oslo?"
    assert (await diary.recall.recall(asking(question))).query == question


@pytest.mark.parametrize("year", [1970, 9999])
async def test_an_event_at_the_edge_of_the_calendar_is_no_trouble(diary: Bench, year: int) -> None:
    await diary.put(said("I moved to Rome today.", f"{year}-12-31"))
    for way in ("since", "after", "two years before", "the weekend after"):
        assert (await diary.recall.recall(asking(f"What did I do {way} I moved to Rome?"))).result != "degraded"


async def test_nobody_elses_event_is_looked_at(diary: Bench) -> None:
    other = ANN.__class__(tenant="acme", user="bob")
    question = "What did I buy two days before my birthday?"
    assert (await diary.recall.recall(asking(question, scope=other))).query == question
