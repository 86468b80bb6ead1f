"""Which messages only ask: few kinds, for what asks is not found any more."""

import pytest

from memproxy.core.memory import Trust
from memproxy.core.questions import about_questions, tells_nothing
from tests.recall.making import fact, turn


@pytest.mark.parametrize(
    ("said", "silent"),
    [
        ("Where do I work?", True),
        ("What's my budget for the trip?", True),
        ("How much did I pay for the flights last time?", True),
        ("And when do we leave for the airport again?", True),
        ("What medicine am I allergic to?", True),
        ("Suppose I lived in Rome.", True),
        ("Where do I work? I forgot that I am at Arup now.", False),
        ("Where did I meet my sister Anna?", False),
        ("When is the appointment on 12 May for my knee?", False),
        ("When did Caroline go to the support group?", False),
        ("What did Melanie paint for our class?", False),
        ("What should I cook for my vegetarian friend?", False),
        ("What are some tips for my roses?", False),
        ("What are the benefits of setting up a trust fund for my child's education?", False),
        ("Do you like my new car?", False),
        ("Who is the president of the country?", False),
        ("I wonder where I work.", False),
        ("I suppose I live in Rome.", False),
        ("?", False),
        ("", False),
    ],
)
def test_only_a_bare_question_for_ones_own_matter_or_a_supposition_tells_nothing(said: str, silent: bool) -> None:
    assert tells_nothing(turn(said)) is silent
    assert not tells_nothing(turn(said, trust=Trust.ASSISTANT))
    assert not tells_nothing(fact(said))


def test_who_asks_for_what_was_asked_is_told_from_who_asks_the_same() -> None:
    assert about_questions("What did I ask you about the trip?")
    assert about_questions("Which of my questions was about money?")
    assert not about_questions("Where do I work?")
