"""What must not crowd the one answer: superseded statements, earlier questions, echoes of a fact."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from memproxy.core.memory import Memory, Trust
from memproxy.models.embed import FastembedEmbedder
from memproxy.ports import Embedder
from memproxy.recall.aside import Aside
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


def given_back() -> list[Memory]:
    """The same, by an assistant that repeats what it hears."""
    later = NOW + timedelta(hours=1)
    given = [
        turn("You said: What's my budget for the trip?", id="e1", session_id="s2", created_at=later, **ASSISTANT),
        turn(
            "You said: Good news: my budget for the Hawaii vacation is now $15,000.",
            id="e2",
            session_id="s3",
            **ASSISTANT,
        ),
    ]
    return [*changed_after_a_question(), *given]


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


@pytest.mark.parametrize("known", [changed_after_a_question, given_back])
async def test_what_replaced_a_statement_is_found_although_the_question_was_asked_before(
    tmp_path: Path, embedder: Embedder | None, known: Callable[[], list[Memory]]
) -> None:
    async with bench(tmp_path / "store", embedder=embedder, settings=PATIENT) as shop:
        await shop.put(*known())
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
        ("What's my budget for the trip?", "You said: What's my budget for the trip?", True),
        ("What's my budget for the trip?", 'You asked: "What is my budget for the trip?"', True),
        ("What is my budget?", "Budget for Hawaii, 10,000: what is my budget?", False),
        ("Where did Ann go?", "Ann: where did Bob's sister move after the wedding?", False),
        ("What is my budget?", "You said: my budget is high?", False),
        ("What is my budget?", "My budget is $10,000.", False),
        ("How much can we spend in Hawaii?", "What's my budget for the trip?", True),
        ("How much can we spend in Hawaii?", "How much did I pay for the flights last time?", True),
        ("How much can we spend in Hawaii?", "And when do we leave for the airport again?", True),
        ("Where do I live?", "Where did I meet my sister Anna?", False),
        ("Do I have any injuries?", "How can I relieve my knee pain?", False),
        ("Do I have any injuries?", "What is good for my knee to get better?", False),
        ("Where do I live?", "What is the capital of my country of birth?", True),
        ("Where do I live?", "Who is the president of the country?", False),
        ("What did I ask you about the trip?", "What's my budget for the trip?", False),
        ("Which of my questions was about money?", "What's my budget?", False),
        ("Where do I live?", "Suppose I lived in Rome.", True),
        ("Where do I live?", "What if I moved to Rome, for a year?", True),
        ("Where do I live?", "Imagine that! I live in Rome now.", False),
        ("Where do I live?", "I suppose I live in Rome.", False),
        ("Where do I work?", "Imagine my surprise when Arup gave me the job.", False),
    ],
)
def test_only_a_bare_question_that_tells_nothing_is_set_aside(query: str, said: str, again: bool) -> None:
    assert Aside().asked_again(query, [turn("Hello there."), turn(said)]) == ({1} if again else set())


def test_a_fact_is_never_a_question() -> None:
    assert not Aside().asked_again("What is my budget?", [fact("What is my budget?")])
