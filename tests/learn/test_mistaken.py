"""What a model takes for a fact of the user's and is none; ends in words; what is over."""

from datetime import UTC, datetime

import pytest

from memproxy.core.memory import Kind, Memory
from memproxy.learn.admission import dated, mistaken, turns
from memproxy.learn.candidates import Extracted, Grounded, Intent
from memproxy.learn.parse import parse
from tests.learn.rig import NOON, fact


def said(content: str, predicate: str, value: str | None, subject: str = "user") -> Memory:
    return fact("f", content=content, subject=subject, predicate=predicate, object=value)


@pytest.mark.parametrize(
    ("one", "other", "turned"),
    [
        ("User cancelled the trip to Japan", "User plans a trip to Japan", True),
        ("User plans a trip to Japan", "User cancelled the trip to Japan", True),
        ("User no longer smokes", "User quit smoking", False),
        ("User plans to go to Japan", "User plans a trip to Japan", False),
    ],
)
def test_saying_that_something_is_over_is_no_repetition_of_it(one: str, other: str, *, turned: bool) -> None:
    assert turns(said(one, "trip", "Japan"), said(other, "trip", "Japan")) is turned


@pytest.mark.parametrize(
    ("message", "content", "value", "reason"),
    [
        ("My sister lives in Rome and loves it.", "User lives in Rome", "Rome", "other"),
        ("My wife's favorite film is Amelie.", "User's favorite film is Amelie", "Amelie", "other"),
        ("My brother Tom got laid off from Ikea.", "User was laid off from Ikea", "Ikea", "other"),
        ("My sister lives in Rome.", "User's sister lives in Rome", "Rome", None),
        ("My wife and I live in Rome.", "User lives in Rome", "Rome", None),
        ("My boss wants the report by Friday.", "User has to deliver the report by Friday", "Friday", None),
        ("My dog is Rex, my sister Anna is allergic to dogs.", "User has a dog named Rex", "Rex", None),
        ("My friend Ole recommended Dune, I'm reading it.", "User is reading Dune", "Dune", None),
        ("Good morning!", "User says good morning", "good morning", "pleasantry"),
        ("What can I cook with salmon?", "The user asked what to cook with salmon", "salmon", "question"),
        ("I asked for a raise.", "User asked for a raise", "raise", None),
        ("I prefer tea.", "The user said they prefer tea", "tea", None),
        ("Only vegan recipes please.", "User asked for vegan recipes", "vegan recipes", None),
    ],
)
def test_what_a_model_takes_for_the_users_own_and_is_not(
    message: str, content: str, value: str, reason: str | None
) -> None:
    turn = fact("t", kind=Kind.TURN, content=message)
    candidate = Extracted(content=content, subject="user", predicate="p", object=value, evidence=(message,))
    assert mistaken(Grounded(candidate, turn)) == reason


@pytest.mark.parametrize(
    ("content", "until", "end"),
    [
        ("User is in Zurich", "next Friday", datetime(2024, 5, 4, tzinfo=UTC)),
        ("User is in Zurich", "Friday", datetime(2024, 5, 4, tzinfo=UTC)),
        ("User is in Zurich", "until May 6th", datetime(2024, 5, 7, tzinfo=UTC)),
        ("User is staying in Kiel until Sunday", None, datetime(2024, 5, 6, tzinfo=UTC)),
        ("User is in Zurich", "the end of time", None),
        ("The shop is open until 6", None, None),
    ],
)
def test_an_end_in_words_counts_from_the_message(content: str, until: str | None, end: datetime | None) -> None:
    assert dated(Extracted(content=content, until=until), NOON).valid_to == end


def test_a_statement_that_rests_on_an_order_to_forget_is_that_order() -> None:
    order = '{"content": "salary", "evidence": "please forget my salary"}'
    told = '{"content": "User goes to Portugal now", "evidence": "Forget Japan, we go to Portugal"}'
    intents = [one.intent for one in parse(f'{{"candidates": [{order}, {told}]}}').candidates]
    assert intents == [Intent.FORGET, Intent.STATE]


def test_a_yes_to_a_question_is_more_than_a_pleasantry() -> None:
    turn = fact("t", kind=Kind.TURN, content="Yes")
    found = Grounded(Extracted(content="User is vegetarian", object="vegetarian", evidence=("Yes",)), turn)
    assert mistaken(found) == "pleasantry"
    assert mistaken(found, asked=True) is None
