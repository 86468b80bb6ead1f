"""What must not crowd the one answer: superseded statements, earlier questions, echoes of a fact."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from memproxy.core.memory import Memory, Trust
from memproxy.models.embed import FastembedEmbedder
from memproxy.ports import Embedder
from memproxy.recall.aside import asks_again
from memproxy.settings import EmbeddingSettings, Settings
from tests.recall.making import NOW, asking, bench, fact, turn
from tests.recall.waiting import until_ready
from tests.support.shared import MODEL_PATH, needs_model

ASSISTANT = {"trust": Trust.ASSISTANT, "metadata": {"role": "assistant", "seq": 1}}
QUERIES = ["What's my budget for the trip?", "What is my budget for the Hawaii vacation?", "What is my budget?"]
PATIENT = Settings.model_validate({"recall": {"deadline_ms": 30_000}})


def told_once() -> list[Memory]:
    return [
        turn("My budget for the Hawaii vacation is $10,000.", id="t1"),
        turn("Great, noted: your budget for the Hawaii vacation is $10,000.", id="a1", **ASSISTANT),
        fact("The user's budget for the Hawaii vacation is $10,000", id="f1", turn_ids=["t1"]),
    ]


def changed_after_a_question() -> list[Memory]:
    """As after three conversations: told, asked, told anew."""
    later = NOW + timedelta(hours=1)
    old = {"superseded_by": "f2"}
    return [
        turn("My budget for the Hawaii vacation is $10,000.", id="t1", **old),
        turn("Great, noted: your budget for the Hawaii vacation is $10,000.", id="a1", **ASSISTANT, **old),
        fact("The user's budget for the Hawaii vacation is $10,000", id="f1", turn_ids=["t1"], active=False, **old),
        turn("What's my budget for the trip?", id="q1", session_id="s2", created_at=later),
        turn("Your budget is $10,000.", id="b1", session_id="s2", created_at=later, **ASSISTANT, **old),
        turn("Good news: my budget for the Hawaii vacation is now $15,000.", id="t2", session_id="s3"),
        fact("The user's budget for the Hawaii vacation is $15,000", id="f2", turn_ids=["t2"], supersedes="f1"),
    ]


@pytest.fixture(params=["words", pytest.param("model", marks=[needs_model, pytest.mark.model])])
async def embedder(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Embedder | None]:
    if request.param == "words":
        yield None
        return
    made = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH), tmp_path / "cache")
    await made.start()
    await until_ready(made)
    yield made
    await made.close()


async def test_a_fact_is_found_beside_its_own_echoes(tmp_path: Path, embedder: Embedder | None) -> None:
    async with bench(tmp_path / "store", embedder=embedder, settings=PATIENT) as shop:
        await shop.put(*told_once())
        blocks = [(await shop.recall.recall(asking(query))).context for query in QUERIES]
    assert ["$10,000" in block for block in blocks] == [True] * len(QUERIES)


async def test_what_replaced_a_statement_is_found_although_the_question_was_asked_before(
    tmp_path: Path, embedder: Embedder | None
) -> None:
    async with bench(tmp_path / "store", embedder=embedder, settings=PATIENT) as shop:
        await shop.put(*changed_after_a_question())
        answers = [await shop.recall.recall(asking(query)) for query in QUERIES]
    for answer in answers:
        assert "$15,000" in answer.context
        assert "$10,000" not in answer.context
        assert "?" not in answer.context
        assert {one["memory_id"]: one["rejected"] for one in answer.candidates}["t1"] == "superseded"


@pytest.mark.parametrize(
    ("query", "said", "again"),
    [
        ("What's my budget for the trip?", "What's my budget for the trip?", True),
        ("What is my budget?", "What's my budget for the trip?", True),
        ("What should I cook?", "I am vegetarian, what should I cook?", False),
        ("When is the dentist?", "Should I take my son Max to the dentist?", False),
        ("What is my budget?", "What is my budget? It is $10,000.", False),
        ("How old is Max?", "Is Max 7?", False),
        ("What is my budget?", "My budget is $10,000.", False),
    ],
)
def test_only_a_bare_question_about_the_same_is_taken_as_asked_again(query: str, said: str, again: bool) -> None:
    assert asks_again(query, turn(said)) is again


def test_a_fact_is_never_a_question() -> None:
    assert not asks_again("What is my budget?", fact("What is my budget?"))
