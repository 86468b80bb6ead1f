"""What a statement answers, told from its sentence where a model's names for that vary."""

from datetime import UTC, datetime

import pytest

from memproxy.core.memory import Kind, Memory
from memproxy.learn.candidates import Extracted, Grounded, Intent
from memproxy.learn.mistaken import mistaken
from memproxy.learn.moments import dated
from memproxy.learn.parse import parse
from memproxy.learn.questions import another, asks_the_same, exact, turns
from tests.learn.rig import NOON, fact


def said(content: str, predicate: str, value: str | None, subject: str = "user") -> Memory:
    return fact("f", content=content, subject=subject, predicate=predicate, object=value)


@pytest.mark.parametrize(
    ("content", "predicate", "value", "named"),
    [
        ("User's shift now starts at 10", "shift_now_starts_at", "10", "shift_starts_at"),
        ("User lives in Lyon", "current_city", "Lyon", "lives_in"),
        ("User lives in a small flat", "housing", "small flat", "housing"),
        ("User now works at Bosch", "company_name", "Bosch", "works_at"),
        ("User is a nurse", "position", "nurse", "works_as"),
        ("User's roof budget is $14,000", "budget", "$14,000", "roof budget"),
        ("User's budget for the roof is $14,000", "budget", "$14,000", "budget"),
        ("User's roof budget is $14,000", "budget_for_roof", "$14,000", "budget_for_roof"),
        ("User's sister's birthday is May 3", "birthday", "May 3", "sister's birthday"),
        ("User moved to Slack", "chat_tool", "Slack", "chat_tool"),
        ("User moved to Lyon", "location", "Lyon", "lives_in"),
        ("User's wedding is on May 3", "wedding_date", "May 3", "wedding_date"),
        ("User's new phone is a Pixel", "phone", "Pixel", "phone"),
        ("Anna's roof budget is $14,000", "budget", "$14,000", "budget"),
    ],
)
def test_a_predicate_is_as_exact_as_its_sentence_and_says_no_time(
    content: str, predicate: str, value: str, named: str
) -> None:
    assert exact(Extracted(content=content, predicate=predicate, object=value)).predicate == named


SAME = [
    ("User's wedding is on May 3", "wedding_date", "May 3", "User's wedding is on June 1", "date_of_wedding", "June 1"),
    ("User's email is a@b.example", "email", "a@b.example", "User's email is now c@d.example", "mail", "c@d.example"),
    ("User drives a Volvo", "car", "Volvo", "User drives a Tesla", "drives", "Tesla"),
    ("User's team has 8 people", "headcount", "8", "User's team has nine people", "team_size", "9"),
    ("User gets up at 5:30", "wakes_up_at", "5:30", "User gets up at 7", "alarm", "7"),
]
OTHER = [
    ("User's visit is on May 3", "dentist_visit", "May 3", "User's visit is on June 1", "doctor_visit", "June 1"),
    ("User's garden budget is $3,000", "budget", "$3,000", "User's roof budget is $9,000", "roof_budget", "$9,000"),
    ("User's meeting is at 10", "meeting_time", "10", "User's meeting is at Joe's", "meeting_place", "Joe's"),
    ("User flies from Berlin", "flies_from", "Berlin", "User flies to Rome", "flies_to", "Rome"),
    ("User paid 20 for lunch", "lunch_cost", "20", "User paid 18 for lunch", "lunch_price", "18"),
    ("User works on Atlas", "works_on", "Atlas", "User works on Hermes", "assignment", "Hermes"),
    ("User has a cat named Pixel", "cat", "Pixel", "User has a cat named Byte", "cat_of_user", "Byte"),
    ("User's fallback is Mary", "fallback", "Mary", "User's fallback is May 3", "fallback_date", "May 3"),
]


@pytest.mark.parametrize("pair", SAME)
def test_two_names_of_one_question_are_one(pair: tuple[str, str, str, str, str, str]) -> None:
    assert asks_the_same(said(*pair[:3]), said(*pair[3:]))


@pytest.mark.parametrize("pair", OTHER)
def test_statements_of_two_things_answer_two_questions(pair: tuple[str, str, str, str, str, str]) -> None:
    assert not asks_the_same(said(*pair[:3]), said(*pair[3:]))


def test_what_somebody_else_answers_is_another_question() -> None:
    own, mothers = said("User lives in Graz", "home", "Graz"), said("Mother lives in Linz", "city", "Linz", "mother")
    assert not asks_the_same(own, mothers)


@pytest.mark.parametrize(
    ("one", "other", "of"),
    [
        ("User's roof budget is 9", "User's garden budget is 3", "roof budget"),
        ("User takes 20 mg omeprazole", "User takes 50 mg sertraline", "dose omeprazole"),
        ("User takes 20 mg omeprazole", "User takes 50 mg omeprazole", None),
        ("User's budget is 9", "User's roof budget is 3", None),
        ("User gets up at 7", "User wakes up at 5:30", None),
    ],
)
def test_one_predicate_of_two_things_is_told_apart_by_the_sentences(one: str, other: str, of: str | None) -> None:
    assert another(said(one, "dose", "9"), said(other, "dose", "3")) == of


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
