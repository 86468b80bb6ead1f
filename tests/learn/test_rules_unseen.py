"""Families of wordings that dialogues written before they were read showed to be misread."""

import pytest

from memproxy.learn.candidates import Intent
from tests.learn.rules_rig import contents, said


def changes(*told: str) -> set[tuple[str, str]]:
    """What a conversation of the user ends and puts in place, beside what it states."""
    return {(one.intent.value, one.content) for one in said(*(("user", text) for text in told))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I left Brightly, I'm at Nubank now.", "User works at Nubank."),
        ("I quit Brightly and I'm with Nubank now.", "User works at Nubank."),
        ("Antwerp, that's home now.", "User lives in Antwerp."),
        ("Home is Antwerp now, since May.", "User lives in Antwerp."),
        ("Since we moved to Antwerp the commute is hell.", "User lives in Antwerp."),
    ],
)
def test_a_new_employer_or_home_is_read_however_it_is_told(text: str, expected: str) -> None:
    assert expected in contents(text)


@pytest.mark.parametrize(
    "text",
    [
        "I'm at Nubank now.",
        "I'm at Gate 12 now.",
        "We're at Lisa's right now.",
        "I nod every time.",
        "I'm on the 14:10 from Utrecht.",
        "I have two containers and the second one can't reach the first",
        "and 'I need a doctor, I'm on the third floor'",
        "You be the innkeeper. I'm Thorga, a dwarf with a bad knee.",
        "Be my interviewer. I'm Anna, 34, a nurse from Kiel.",
    ],
)
def test_what_is_of_the_moment_or_of_somebody_else_is_no_fact(text: str) -> None:
    assert contents(text) == []


def test_praise_sets_no_stage() -> None:
    assert contents("You're the best, I'm happy with that. I live in Rome.") == ["User lives in Rome."]


@pytest.mark.parametrize(
    ("before", "after", "ends", "states"),
    [
        ("My cat is called Mikka.", "it's spelled Mica", "Mikka", "Mica"),
        ("My boss is Steven.", "with a ph: Stephen", "Steven", "Stephen"),
        ("I take 50 mg of sertraline.", "doc put me up to 75 on the sertraline", "50", "75"),
        ("I work at Acme.", "I handed in my badge at Acme", "Acme", ""),
        ("I work at Acme.", "last day at Acme was Friday", "Acme", ""),
        ("I see a therapist on Wednesdays.", "on second thought forget about the therapist thing", "therapist", ""),
    ],
)
def test_a_change_is_read_however_it_is_told(before: str, after: str, ends: str, states: str) -> None:
    first, *rest = said(("user", before), ("user", after))
    assert ends in first.content
    assert rest
    assert all(one.intent is not Intent.STATE for one in rest)
    assert any(states in one.content and (not states or ends not in one.content) for one in rest) or not states


def test_a_respelled_name_is_put_right_wherever_it_stands() -> None:
    told = changes("My sister Katja lives in Bonn.", "sorry, it's Katya with a y")
    assert {text for intent, text in told if intent == "forget"} == {"User's sister Katja lives in Bonn."}
    assert ("state", "User's sister Katya lives in Bonn.") in told
    assert ("correct", "User's sister is named Katya.") in told


def test_what_is_mentioned_in_passing_does_not_blur_what_is_known() -> None:
    told = changes("I take 10 mg of lisinopril.", "they bumped my lisinopril up to 20")
    assert not any(text == "User takes lisinopril." for _, text in told)


def test_asked_on_the_spot_a_shop_is_no_employer() -> None:
    told = changes("I work at Siemens.", "I'm at Lidl now, do they have oat milk?")
    assert not any("Lidl" in text for _, text in told)
