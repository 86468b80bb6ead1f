from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.memory import Trust
from memproxy.recall.query import MOST_PARTS, parts_of
from memproxy.recall.ranking import Scored, merge_searches
from tests.recall.making import Bench, asking, bench, conversation, fact, turn
from tests.support.model import WITH_AND_WITHOUT, found_by

LIFE = [
    "User's dog is called Biscuit",
    "User's dentist appointment is on 4 December",
    "User works as a nurse in Berlin",
    "User plays the cello",
    "User's dog was at the vet on 3 November",
]


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        (
            "What is my dog called and when is my dentist appointment?",
            ["What is my dog called", "when is my dentist appointment?"],
        ),
        ("What is Biscuit allergic to? And where do I work?", ["What is Biscuit allergic to", "where do I work?"]),
        ("Tell me what my budget is and which hotel I booked", ["Tell me what my budget is", "which hotel I booked"]),
        ("Where do I live, and does my sister eat gluten?", ["Where do I live", "does my sister eat gluten?"]),
        (
            "What is my dog's name and how old is my cat and where do I live?",
            ["What is my dog's name", "how old is my cat", "where do I live?"],
        ),
        ("How much does Ewan pay, and who's the landlord?", ["How much does Ewan pay", "who's the landlord?"]),
        ("What is my job and what are the duties?", ["What is my job", "what are the duties?"]),
        ("How do vaccines work and why do people get fevers?", ["How do vaccines work", "why do people get fevers?"]),
    ],
)
def test_whole_questions_are_searched_one_by_one(query: str, parts: list[str]) -> None:
    assert parts_of(query) == parts


@pytest.mark.parametrize(
    "query",
    [
        "Who did Caroline meet and where did she go?",
        "What did I buy and when did it arrive?",
        "What does my editor Hanne want, and by when?",
        "How did I feel and why?",
        "Where and when is my appointment?",
        "Which bread and butter do I like?",
        "I told you what I eat and when I sleep",
        "",
    ],
)
def test_what_hangs_together_is_searched_as_one(query: str) -> None:
    assert parts_of(query) == [query]


@given(st.text(st.sampled_from("whatend Iymo?, .") | st.characters(), max_size=400))
def test_parts_are_few_and_made_of_the_querys_own_text(query: str) -> None:
    parts = parts_of(query)
    assert 1 <= len(parts) <= MOST_PARTS
    assert all(part in query for part in parts)


def test_the_order_is_that_of_the_mean_and_the_floor_sees_the_best() -> None:
    one, other, third = (fact(text) for text in ("one", "other", "third"))
    first = [Scored(memory=one, score=0.9, signals={}), Scored(memory=third, score=0.4, signals={})]
    second = [Scored(memory=other, score=0.8, signals={}), Scored(memory=third, score=0.3, signals={})]
    found = merge_searches([first, second])
    assert [(item.memory.content, item.score) for item in found] == [("one", 0.9), ("other", 0.8), ("third", 0.4)]


@pytest.fixture(params=WITH_AND_WITHOUT)
async def known(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    async with found_by(request.param, tmp_path / "cache") as embedder, bench(embedder=embedder) as it:
        await it.put(*(fact(text) for text in LIFE))
        yield it


async def test_both_answers_come_in_for_a_message_with_two_questions(known: Bench) -> None:
    answer = await known.recall.recall(asking("What is my dog called and when is my dentist appointment?"))
    assert all(text in answer.context for text in LIFE[:2])
    assert all(text not in answer.context for text in LIFE[2:4])


async def test_a_vague_question_of_a_chain_is_completed_by_what_was_captured_and_a_clear_one_is_not(it: Bench) -> None:
    talk = conversation("I plan my Hawaii vacation.", "Lovely!", "What about the budget for it?")
    talk[1] = msgspec.structs.replace(talk[1], trust=Trust.ASSISTANT)
    other = turn("My cello lesson is on Tuesday.", session_id="s2")
    await it.put(*talk, other, fact("User's budget for the Hawaii vacation is $10,000"))

    async def searched(question: str, *, chained: bool) -> str:
        return (await it.recall.recall(msgspec.structs.replace(asking(question), chained=chained))).query

    assert await searched("How much?", chained=False) == "How much?"
    assert {"hawaii", "budget"} <= set((await searched("How much?", chained=True)).lower().split())
    clear = "What is the name of my daughter's school?"
    assert await searched(clear, chained=True) == clear
