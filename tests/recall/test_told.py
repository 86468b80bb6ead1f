"""A message stands beside its facts as long as they leave out what it says; and why anything is left out."""

from datetime import timedelta

import msgspec
import pytest

from memproxy.core.memory import Memory, Trust
from memproxy.recall.ranking import Scored
from memproxy.recall.select import select
from tests.recall.making import LIMITS, NOW, fact, turn


def reasons(*found: tuple[Memory, float], wanted: str = "") -> list[str | None]:
    scored = [Scored(memory=memory, score=score, signals={}) for memory, score in found]
    return [one.rejected for one in select(scored, LIMITS, present=frozenset(), now=NOW, query=wanted)]


@pytest.mark.parametrize(
    ("said", "score", "learned", "reason"),
    [
        ("We have a cat too, named Pixel", 0.94, "User has a cat.", None),
        ("We have a cat too, named Pixel", 0.9, "User has a cat.", None),
        ("I pay 900 for the flat", 0.91, "User pays for a flat.", None),
        ("I live in Lisbon, in Portugal", 0.93, "User lives in Lisbon, Portugal.", "fact"),
    ],
)
def test_a_fact_stands_for_its_message_unless_it_leaves_out_a_name_or_an_amount(
    said: str, score: float, learned: str, reason: str | None
) -> None:
    assert reasons((turn(said, id="t1"), score), (fact(learned, turn_ids=["t1"]), 0.92)) == [reason, None]


def test_of_two_facts_learned_of_a_message_one_does_not_stand_for_it() -> None:
    said = turn("I'm allergic to peanuts and shellfish", id="t1")
    first = fact("User is allergic to peanuts.", turn_ids=["t1"])
    second = fact("User is allergic to shellfish.", turn_ids=["t1"])
    assert reasons((said, 0.93), (first, 0.92), (second, 0.1)) == [None, None, "score"]
    assert reasons((said, 0.93), (first, 0.92), (second, 0.91)) == ["fact", None, None]


def test_a_message_that_is_likelier_stays_where_its_fact_leaves_open_half_of_what_is_asked() -> None:
    said = turn("Picking up my son Leo from judo", id="t1")
    learned = fact("User's son is named Leo.", turn_ids=["t1"])
    assert reasons((said, 0.93), (learned, 0.92), wanted="sport leo") == [None, None]
    assert reasons((said, 0.93), (learned, 0.92), wanted="son name") == ["fact", None]


def test_what_is_below_the_floor_is_judged_as_what_is_above_it_is() -> None:
    """Nobody looks at it before somebody asks what became of it."""
    gone, before = fact("gone", superseded_by="other"), NOW - timedelta(days=1)
    others = [
        fact("hidden", quarantined=True),
        fact("old", expires_at=before),
        fact("past", valid_to=before),
        fact("guessed", confidence=0.1),
        turn("a page says so", trust=Trust.DOCUMENT),
    ]
    limits = msgspec.structs.replace(LIMITS, min_confidence=0.5, min_trust=Trust.TOOL)
    for score in (0.1, 0.95):
        scored = [Scored(memory=memory, score=score, signals={}) for memory in (gone, *others)]
        judged = select(scored, limits, present=frozenset(), now=NOW)
        assert [one.scored for one in judged] == scored
        assert [one.rejected for one in judged] == [
            *("superseded", "quarantined", "expired", "ended", "confidence", "trust")
        ]
        assert judged.kept == []
    for most in (1, 3, 9):
        assert select(scored, limits, present=frozenset(), now=NOW).explained(most) == list(judged)[:most]


def test_a_shown_fact_below_the_floor_still_stands_for_its_message() -> None:
    said, learned = turn("I live in Lisbon", id="t1"), fact("User lives in Lisbon.", turn_ids=["t1"], id="f1")
    low = fact("User likes tea.")
    scored = [Scored(memory=one, score=score, signals={}) for one, score in ((said, 0.65), (learned, 0.59), (low, 0.1))]
    judged = select(scored, LIMITS, present=frozenset(), shown=frozenset({"f1"}), now=NOW)
    assert [one.rejected for one in judged] == ["fact", "shown", "score"]
