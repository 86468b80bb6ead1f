"""What stands in the way of an answer without being one does not count in the ranking of the others."""

from datetime import timedelta

from memproxy.core.memory import Memory
from memproxy.ports import Candidate
from memproxy.recall.ranking import set_aside
from tests.recall.making import NOW, fact, turn


def places(query: str, *memories: Memory) -> tuple[set[int], set[int]]:
    candidates = [Candidate(memory=memory) for memory in memories]
    aside, noise = set_aside(query, candidates)
    return set(aside), set(noise)


def test_the_same_question_again_is_noise_though_it_tells_something() -> None:
    asked = "It's a year since we adopted her, so I want to make our dog a cake. What goes in it?"
    assert places(asked, turn(f"{asked} "), turn("We adopted Tuppence, our greyhound.")) == (set(), {0})


def test_what_was_superseded_is_noise() -> None:
    old = fact("User's budget is $10,000", superseded_by="new", active=False)
    assert places("What is my budget?", old, fact("User's budget is $15,000")) == (set(), {0})


def test_the_message_that_a_fact_was_learned_from_does_not_count_beside_it() -> None:
    said = turn("My budget for Hawaii is $10,000.", id="t1")
    learned = fact("User's Hawaii budget is $10,000", turn_ids=["t1"])
    assert places("What is my budget?", said, learned, turn("My rent is $950.")) == ({0}, set())


def test_of_what_was_said_again_in_the_same_words_the_newest_counts() -> None:
    said = [turn("I like tea.", id=f"t{day}", created_at=NOW - timedelta(days=day)) for day in (3, 1, 2)]
    ended = turn("I like tea.", id="t0", created_at=NOW, superseded_by="t9")
    assert places("What do I like?", *said, turn("I like jam."), ended) == ({0, 2}, {4})
