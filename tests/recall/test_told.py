"""A message stands beside its facts as long as they leave out what it says."""

import pytest

from memproxy.core.memory import Memory
from memproxy.recall.search import Scored
from memproxy.recall.select import select
from tests.recall.making import NOW, fact, turn
from tests.recall.test_elbow import LIMITS


def reasons(*found: tuple[Memory, float], wanted: str = "") -> list[str | None]:
    scored = [Scored(memory=memory, score=score, signals={}) for memory, score in found]
    terms = frozenset(wanted.split())
    return [one.rejected for one in select(scored, LIMITS, present=frozenset(), now=NOW, wanted=terms)]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_fact_that_leaves_out_a_name_does_not_stand_for_its_message(ahead: bool) -> None:
    said = turn("We have a cat too, named Pixel", id="t1")
    learned = fact("User has a cat.", turn_ids=["t1"])
    assert reasons((said, 0.94 if ahead else 0.9), (learned, 0.92)) == [None, None]


def test_a_fact_that_leaves_out_an_amount_does_not_stand_for_its_message() -> None:
    said = turn("I pay 900 for the flat", id="t1")
    assert reasons((fact("User pays for a flat.", turn_ids=["t1"]), 0.95), (said, 0.94)) == [None, None]


def test_of_two_facts_learned_of_a_message_one_does_not_stand_for_it() -> None:
    said = turn("I'm allergic to peanuts and shellfish", id="t1")
    first = fact("User is allergic to peanuts.", turn_ids=["t1"])
    second = fact("User is allergic to shellfish.", turn_ids=["t1"])
    assert reasons((said, 0.93), (first, 0.92), (second, 0.1)) == [None, None, "score"]
    assert reasons((said, 0.93), (first, 0.92), (second, 0.91)) == ["fact", None, None]


def test_a_message_that_says_what_its_fact_says_gives_way_to_it() -> None:
    said = turn("I live in Lisbon, in Portugal", id="t1")
    assert reasons((said, 0.93), (fact("User lives in Lisbon, Portugal.", turn_ids=["t1"]), 0.92)) == ["fact", None]


def test_a_message_that_is_likelier_stays_where_its_fact_leaves_open_half_of_what_is_asked() -> None:
    said = turn("Picking up my son Leo from judo", id="t1")
    learned = fact("User's son is named Leo.", turn_ids=["t1"])
    assert reasons((said, 0.93), (learned, 0.92), wanted="sport leo") == [None, None]
    assert reasons((said, 0.93), (learned, 0.92), wanted="son name") == ["fact", None]
