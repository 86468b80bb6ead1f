"""Everyday messages without capitals, with slips of the pen and in six languages. By their source: the mistakes among
those "held-out" were not read while the gate was written, and those "later" were written after it.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from memproxy.core.gate import Verdict, judge
from memproxy.evals.gate import SKIP, evaluate, load

LINES = Path(__file__).with_name("gate_everyday.jsonl")


def searched_share(source: str) -> float:
    judged = [one for one in evaluate(load(LINES)) if one.line.source.partition("/")[2] == source]
    return sum(one.verdict.searched for one in judged) / len(judged)


@pytest.mark.parametrize("source", ["name", "said", "follow-up"])
def test_everyday_questions_for_memory_are_searched(source: str) -> None:
    assert searched_share(source) >= 0.92


@pytest.mark.parametrize(("source", "most"), [("fact", 0.05), ("smalltalk", 0.0), ("greeting", 0.0), ("tool", 0.0)])
def test_everyday_messages_that_need_no_memory_are_not_searched(source: str, most: float) -> None:
    assert searched_share(source) <= most


@pytest.mark.parametrize(
    "text",
    [
        "how tall is quill now",
        "what does zofia have on thursdays",
        "is umay afraid of dogs",
        "what is otis' and bram's address",
        "who taught zofia the cello",
        "when did ilse and kwame meet",
        "HOW MUCH DID NOOR WEIGH AT BIRTH",
    ],
)
def test_a_name_is_told_by_where_it_stands(text: str) -> None:
    assert judge(text, SKIP).searched


@pytest.mark.parametrize(
    "text",
    [
        "what does oxygen do",
        "how does blockchain work",
        "what did isaac newton discover",
        "what did leonardo da vinci invent",
        "what does target heart rate mean",
        "what is avogadro's number",
        "what is cloud computing",
        "What is Valentine's Day?",
        "What instrument did Glenn Miller play?",
    ],
)
def test_things_full_names_and_terms_are_nobody_s_name(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="fact")


@pytest.mark.parametrize(
    ("earlier", "text", "verdict"),
    [
        (["what is my new address"], "what is the postcode", Verdict(searched=True, reason="personal")),
        (
            ["what is my new address", "thanks!", "and then?"],
            "who lives there now",
            Verdict(searched=True, reason="personal"),
        ),
        (["which sofa did we order", "ok"], "and what colour", Verdict(searched=True, reason="personal")),
        (["the hotel in porto is booked"], "how far is the airport", Verdict(searched=True, reason="personal")),
        (["what is a sonnet", "what is my address"], "who wrote hamlet", Verdict(searched=False, reason="fact")),
        (["what is my address", "what is a sonnet"], "how many lines", Verdict(searched=False, reason="fact")),
        (["hello"], "what is the population of chile", Verdict(searched=False, reason="fact")),
        ([], "what is the postcode", Verdict(searched=False, reason="fact")),
    ],
)
def test_a_question_that_leans_on_earlier_messages_is_judged_as_they_are(
    earlier: Sequence[str], text: str, verdict: Verdict
) -> None:
    assert judge(text, SKIP, earlier=earlier) == verdict


@pytest.mark.parametrize(
    "text",
    ["what's my timezone?", "which time zone am i in?", "What time zone do I live in", "whats my time zone again"],
)
def test_ones_own_time_zone_is_a_fact_about_oneself(text: str) -> None:
    assert judge(text, SKIP).searched


def test_another_places_time_zone_is_a_tools_business() -> None:
    assert not judge("what time zone is tokyo in", SKIP).searched
