"""What ends, what holds until a day, what another language takes back, and what looks like a fact and is none."""

import pytest

from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.ledger import Ledger
from tests.learn.rules_rig import contents, said

TAKEN_BACK = [
    ("I have a VW Polo", "I don't have the car any more"),
    ("my car is a Golf", "I don't have a car"),
    ("I own an iPhone 13", "I no longer have the phone"),
    ("We're moving to Spain in May", "we're not moving to Spain after all"),
    ("I work at Ford", "I was laid off"),
    ("My boss is Ann", "Ann isn't my boss any more"),
    ("I live with my parents", "I moved out of my parents' place"),
    ("call me Al", "don't call me Al"),
    ("I'm 10 weeks pregnant", "We lost the baby last week."),
    ("my girlfriend Mia is visiting at easter", "me and Mia broke up"),
    ("I want to learn Polish this year", "scratch that, no time"),
    ("ich wohne in Berlin", "ich wohne nicht mehr in Berlin"),
    ("ich bin allergisch gegen Nüsse", "ich bin nicht mehr allergisch gegen Nüsse"),
    ("ich arbeite als Koch", "ich arbeite nicht mehr als Koch"),
    ("mein Hund heißt Rex", "mein Hund ist gestorben"),
    ("vivo en Madrid", "ya no vivo en Madrid"),
    ("j'habite à Lyon", "je n'habite plus à Lyon"),
]
"""What is told, and what takes all of it back."""

PUT_RIGHT = [
    ("ich heiße Anna", "ich heiße nicht Anna, sondern Hanna", "Hanna"),
    ("mein Hund heißt Rex", "mein Hund heißt Max, nicht Rex", "Max"),
    ("trabajo como cocinero", "ahora trabajo como conductor", "conductor"),
    ("ich mag Pilze", "ich mag keine Pilze mehr", "no longer likes Pilze"),
    ("me gusta el café", "ya no me gusta el café", "no longer likes café"),
    ("j'aime le fromage", "je n'aime plus le fromage", "no longer likes fromage"),
    ("my tablet is a Galaxy Tab", "not on the Galaxy any more, I have an iPad Air now", "an iPad Air"),
    ("Our dog is a labrador", "The vet says he's not a labrador at all, more of a golden retriever mix.", "retriever"),
    ("My favourite food is sushi", "sushi isn't my favourite any more, it's ramen", "ramen"),
    ("we're going to Rome in May", "we ended up going to Naples instead", "Naples in May"),
    ("I have two dogs", "I only have one dog now", "one dog"),
]
"""What is told, what puts it right, and what the only statement then holds."""

SILENT = [
    "I don't drink and drive, obviously.",
    "We live in strange times.",
    "Someone on my team is allergic to nuts.",
    "I'm in line at Starbucks",
    "I have 3 tabs open",
    "I am vegetarian until Easter",
    "Let's practise French: you're the waiter. Je suis allergique aux noix.",
    "sushi isn't my favourite, you know",
    "Remember to buy milk",
]


def _held(read: list[Extracted]) -> list[str]:
    ledger = Ledger([])
    for one in read:
        ledger.add(one, 0)
    return [one.statement.content for one in ledger.newest()]


@pytest.mark.parametrize(("told", "ended"), TAKEN_BACK)
def test_what_is_taken_back_holds_no_more(told: str, ended: str) -> None:
    assert said(("user", told))
    assert _held(said(("user", told), ("assistant", "Okay."), ("user", ended))) == []


@pytest.mark.parametrize(("told", "right", "holds"), PUT_RIGHT)
def test_what_is_put_right_holds_alone(told: str, right: str, holds: str) -> None:
    (only,) = _held(said(("user", told), ("assistant", "Okay."), ("user", right)))
    assert holds in only


@pytest.mark.parametrize("text", SILENT)
def test_what_only_looks_like_a_fact_is_not_stored(text: str) -> None:
    assert contents(text) == []


def test_what_holds_until_a_day_is_told_once_and_ends() -> None:
    (only,) = said(("user", "We are staying in Lisbon until Friday."))
    assert only.valid_to is not None


def test_a_habit_said_with_an_end_has_one() -> None:
    found = said(("user", "I work from home until Friday."))
    assert all(one.valid_to is not None for one in found)


def test_what_is_asked_to_be_remembered_is_kept_in_its_words() -> None:
    assert contents("Remember: the code of our bike shed is 4471.") == ["The code of the user's bike shed is 4471."]


def test_another_number_in_another_street_is_another_address() -> None:
    read = said(("user", "My address is 12 Elm Street."), ("user", "My address is 40 Oak Road now."))
    assert [one.content for one in read if one.intent is not Intent.FORGET][-1] == "User's address is 40 Oak Road."
