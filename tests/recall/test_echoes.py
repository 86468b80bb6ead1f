"""What stands in the way of an answer without being one does not count in the ranking of the others."""

import pytest

from memproxy.core.memory import Memory
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate
from memproxy.recall import echoes
from memproxy.recall.recipes import DEFAULT
from memproxy.recall.search import Ranker
from tests.recall.making import fact, turn

RANKER = Ranker(Bm25Encoder(), DEFAULT)


def places(query: str, *memories: Memory) -> echoes.Places:
    candidates = [Candidate(memory=memory) for memory in memories]
    return echoes.places(query, candidates, RANKER.read(candidates))


def test_a_message_without_a_word_but_the_questions_is_noise() -> None:
    found = places(
        "What size are my climbing shoes?", turn("climbing shoes size?"), turn("My climbing shoes are 42.5.")
    )
    assert found.noise == {0}


def test_a_statement_that_has_the_questions_words_alone_is_none() -> None:
    assert not places("Am I allergic to peanuts?", turn("I'm allergic to peanuts.")).noise


def test_the_same_question_again_is_noise_though_it_tells_something() -> None:
    asked = "It's a year since we adopted her, so I want to make our dog a cake. What goes in it?"
    assert places(asked, turn(f"{asked} "), turn("We adopted Tuppence, our greyhound.")).noise == {0}


@pytest.mark.parametrize("query", ["What did I ask you about shoes?", "Which questions about shoes did I have?"])
def test_who_asks_for_questions_is_given_them(query: str) -> None:
    assert not places(query, turn("shoes?")).noise


def test_what_was_superseded_is_noise() -> None:
    old = fact("User's budget is $10,000", superseded_by="new", active=False)
    assert places("What is my budget?", old, fact("User's budget is $15,000")).noise == {0}


def test_the_message_that_a_fact_was_learned_from_does_not_count_beside_it() -> None:
    said = turn("My budget for Hawaii is $10,000.", id="t1")
    found = places("What is my budget?", said, fact("User's Hawaii budget is $10,000", turn_ids=["t1"]), turn("Hi Ann"))
    assert found.told == {0}
