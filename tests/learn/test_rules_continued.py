"""What goes on otherwise than it was told, on another day and in other words: one value holds, the new one."""

import re

import pytest

from tests.learn.rules_rig import said
from tests.learn.test_rules_everyday import _held, _held_later, _only

CONTINUED = [
    # brought up by a word of its sphere alone
    ("My flight home is on Sunday at 18:20.", "The airline changed it, we leave at 15:05 now.", "15:05", "18:20"),
    ("My rent is 600 euros.", "The landlady went up to 700 now.", "700", "600"),
    ("I make 3100 a month before tax.", "I got a raise, 3400 a month now.", "3400", "3100"),
    ("My dentist appointment is on 4 May at 9.", "The practice rang, it's 10:30 now.", "10:30", "at 9"),
    # somebody near, elsewhere
    (
        "My daughter Lena goes to Goethe primary school.",
        "She changed schools. Lena is at Schiller now.",
        "Schiller",
        "Goethe",
    ),
    ("My partner Lea works at Bosch.", "Lea has left Bosch for Siemens.", "Siemens", "Bosch"),
    ("My son's teacher is Mr Boyle.", "Mr Boyle left, my son has Ms Adeyemi now.", "Adeyemi", "Boyle"),
    ("My wife is vegetarian.", "My wife started eating meat again.", "meat", "vegetarian"),
    # what was taken back is told anew
    (
        "My driving test is on 3 March.",
        "They cancelled my driving test. The new one is 24 March.",
        "24 March",
        "on 3 March",
    ),
    ("I'm saving for a trip to Peru.", "Peru's off the table, we're doing Portugal instead.", "Portugal", "Peru"),
    # one thing for another
    ("I drink tea in the mornings.", "No longer tea but coffee in the mornings.", "coffee", "tea"),
    ("I bank with Santander.", "I closed my Santander account and went to Monzo.", "Monzo", "Santander"),
    ("I'm learning Spanish.", "I gave up Spanish and started Italian.", "Italian", "Spanish"),
    ("My phone is a Pixel 6.", "Got myself a Fairphone 5.", "Fairphone", "Pixel"),
    ("I play for the Harriers.", "I signed for the Rovers this summer.", "Rovers", "Harriers"),
    ("Our kitchen is blue.", "We painted the kitchen yellow.", "yellow", "blue"),
    ("I take 10 mg of ramipril.", "The cardiologist halved my ramipril to 5 mg.", "5 mg", "10 mg"),
    ("I teach year 5.", "From September I teach year 2.", "year 2", "year 5"),
    ("I drink four cups of coffee a day.", "These days I only drink decaf.", "decaf", "four cups"),
    ("We're renting in Derby.", "We've bought a house in Matlock!", "Matlock", "Derby"),
    ("I work fully remote.", "New policy: three days a week in the office.", "office", "remote"),
    (
        "I want the bedroom sage green.",
        "Changed my mind about the bedroom, I want it terracotta.",
        "terracotta",
        "green",
    ),
    ("I can't have lactose.", "It was never lactose, it's fructose I can't have.", "fructose", "lactose"),
    ("My name is Jan Nowak.", "Since the wedding I go by Jan Nowak-Lind.", "Nowak-Lind", r"Nowak(?!-)"),
]
IN_ONE_CONVERSATION = [
    ("We got married in 2012.", "2021 I mean", "2021", "2012"),
    ("My cousin Abe makes the best Riesling.", "Silvaner, I mean.", "Silvaner", "Riesling"),
    (
        "I booked the Hotel Miramar from 3 to 10 August.",
        "Small fix: we stay until 12 August.",
        "12 August",
        "10 August",
    ),
    ("We're painting the fence sage green.", "Charcoal it is.", "charcoal", "sage"),
    ("I'm going to my sister's on Saturday.", "My brother's, not my sister's, sorry.", "brother", "sister"),
    ("I booked two weeks in Crete, flying from Luton.", "Sorry, from Stansted.", "Stansted", "Luton"),
]
ENDED = [
    ("I work as a barista at Coffee Fellows.", "I quit last week.", "barista|Coffee Fellows"),
    ("I smoke ten a day.", "I quit last week!", "smokes"),
    ("I'm training for the Rotterdam marathon.", "Not running Rotterdam any more, doc says 8 weeks off.", "Rotterdam"),
    ("I'm on a keto diet.", "Keto is over for me.", "keto"),
    ("I take sertraline for anxiety.", "I came off sertraline in the spring.", "sertraline"),
]
KEPT = [
    ("I live in Berlin.", "I'm in Hamburg now. Where do I get coffee near the station?", "lives in Berlin"),
    ("I earn 3000 euros.", "My boss wants 20 slides now.", "3000 euros"),
    ("My rent is 1200 euros.", "The garage rang, it's 400 now.", "1200 euros"),
    ("I live in Berlin.", "My colleague moved. She is in Rome now.", "lives in Berlin"),
    ("We have three cats.", "One of our cats died.", "three cats"),
]


@pytest.mark.parametrize(("told", "then", "new", "old"), CONTINUED)
def test_what_was_told_goes_on_with_its_new_value_alone(told: str, then: str, new: str, old: str) -> None:
    held = _held_later(told, then)
    assert _only(held, new, old), held


@pytest.mark.parametrize(("told", "then", "new", "old"), IN_ONE_CONVERSATION)
def test_a_value_said_alone_is_of_what_was_just_told(told: str, then: str, new: str, old: str) -> None:
    held = _held(told, then)
    assert _only(held, new, old), held


@pytest.mark.parametrize(("told", "then", "gone"), ENDED)
def test_what_has_ended_holds_no_more_and_nothing_else_is_taken_back(told: str, then: str, gone: str) -> None:
    held = _held_later(told, then)
    assert not [one for one in held if re.search(gone, one) and "no longer" not in one], held


@pytest.mark.parametrize(("told", "then", "kept"), KEPT)
def test_what_may_be_of_something_else_changes_nothing(told: str, then: str, kept: str) -> None:
    held = _held_later(told, then)
    assert [one for one in held if kept in one], held


def test_a_number_said_alone_takes_the_place_of_one_of_its_size_only() -> None:
    rent, time = ("user", "My rent is 1200 euros."), ("user", "What time is it in Tokyo?")
    answers = ("assistant", "Okay."), ("assistant", "It is 9.")
    assert _contents(rent, answers[0], ("user", "How do I split it?"), answers[0], ("user", "It's 1350 now."))[-1] == (
        "User's rent is 1350 euros."
    )
    assert _contents(rent, answers[0], time, answers[1], ("user", "It's 10 now.")) == ["User's rent is 1200 euros."]


def _contents(*messages: tuple[str, str]) -> list[str]:
    return [one.content for one in said(*messages)]


def test_who_has_moved_lives_where_he_is_now() -> None:
    held = _held_later("I live in Berlin.", "We moved last month. I'm in Hamburg now.")
    assert _only(held, "lives in Hamburg", "Berlin"), held
