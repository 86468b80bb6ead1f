"""Which statement a change is about: by topic, sort of value, the exchange before; and when it is about none."""

from datetime import timedelta

import pytest

from memproxy.core.memory import Memory
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules import extract
from memproxy.learn.statement import memory_of
from tests.learn.rig import ANN, NOON
from tests.learn.rules_rig import contents, said, window

_NOTED = ("assistant", "Noted.")


def _known(*told: str) -> list[Memory]:
    """What was learned of these three days ago."""
    found = extract(window([("user", text) for text in told])).kept
    return [memory_of(one, ANN, now=NOON - timedelta(days=3), extractor="rules") for one in found]


def _ended(read: list[Extracted], memory: Memory) -> bool:
    """Whether a candidate takes the place of this memory, or takes it back."""
    for one in read:
        if one.intent is Intent.FORGET and one.content == memory.content:
            return True
        if (one.subject, one.predicate) == (memory.subject, memory.predicate) and one.content != memory.content:
            return True
    return False


@pytest.mark.parametrize(
    ("told", "then"),
    [
        ("I have a meeting with Ana on Monday and a call with Bo on Tuesday.", "make that Thursday"),
        ("My budget for Hawaii is $10,000 and for the bike $2,000.", "No, it's $2,500"),
        ("We live at 12 Elm Street.", "They moved the bakery to 14 Oak Road."),
    ],
)
def test_where_two_could_be_meant_or_none_nothing_is_changed(told: str, then: str) -> None:
    read = said(("user", told), _NOTED, ("user", then))
    assert not [one.content for one in read if one.intent is Intent.CORRECT]


def test_a_sum_that_corrects_the_assistant_changes_no_sum_of_before() -> None:
    read = said(
        ("user", "My budget for Hawaii is $10,000."),
        _NOTED,
        ("user", "What is the tax on a $40 hotel room?"),
        ("assistant", "About $4."),
        ("user", "No, it's $50."),
    )
    assert [one.content for one in read if "budget" in one.content] == ["User's budget for Hawaii is $10,000."]


def test_a_day_said_in_a_new_conversation_moves_no_appointment() -> None:
    (appointment,) = _known("I have an eye test on Tuesday.")[:1]
    read = said(
        ("user", "Which day is the eclipse?"), ("assistant", "Wednesday."), ("user", "Actually, it's Thursday."),
        known=[appointment],
    )  # fmt: skip
    assert not _ended(read, appointment)


@pytest.mark.parametrize(
    ("told", "then", "new"),
    [
        ("My landlord is called Mr Ferreira.", "My landlord is called Ms Adler.", "Ms Adler"),
        ("My allotment is plot 17 at Cinder Lane.", "My allotment is plot 3, by the gate.", "plot 3"),
        ("We're a team of nine at Lumenreef.", "We're a team of 23 at Lumenreef.", "has 23 people"),
        ("My mother lives in her own flat in Ulm.", "My mother lives in a care home in Neu-Ulm.", "care home"),
        ("I commute on the 14 tram every day.", "I commute by cargo bike these days.", "cargo bike"),
        ("The surgery I manage opens at 8 on weekdays.", "The surgery I manage opens at 7:30 on weekdays.", "7:30"),
        ("I keep seven hives behind the chapel.", "I'm down to five hives.", "five hives"),
        ("We rehearse on Wednesdays.", "Our conductor swapped the rehearsals to Mondays.", "Mondays"),
    ],
)
def test_another_answer_to_the_same_question_takes_the_old_ones_place(told: str, then: str, new: str) -> None:
    known = _known(told)
    read = said(("user", then), known=known)
    assert any(new in one.content for one in read), [one.content for one in read]
    assert any(_ended(read, memory) for memory in known)


@pytest.mark.parametrize(
    ("told", "then"),
    [
        ("My sister is tall.", "My sister is a vet."),
        ("The surgery I manage opens at 8 on weekdays.", "The surgery I manage opens at 10 on Sundays."),
        ("I have a ferret named Bandit.", "I have a ferret named Duchess as well now."),
        ("I can't digest lactose.", "I can't digest fructose either."),
    ],
)
def test_what_holds_beside_it_ends_nothing(told: str, then: str) -> None:
    known = _known(told)
    read = said(("user", then), known=known)
    assert read
    assert not any(_ended(read, memory) for memory in known)


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        ("My flight to Oslo is at 9, no wait, 10.", "10", "9"),
        ("I have an eight-inch, sorry, ten-inch Dobsonian.", "ten-inch Dobsonian", "eight"),
        ("My garage costs $40, make that $50 a month.", "$50", "$40"),
        ("My sister Ana, sorry, Bea lives in Rome.", "Bea", "Ana"),
    ],
)
def test_a_value_put_right_in_its_own_sentence_is_the_only_one(text: str, right: str, wrong: str) -> None:
    found = contents(text)
    assert any(right in one for one in found), found
    assert not any(wrong in one.split() for one in found)


@pytest.mark.parametrize(
    ("told", "then", "holds"),
    [
        ("We run fourteen hives behind the chapel, mostly Buckfast.", "Fourteen, not forty!", "fourteen hives"),
        ("My current drone has 5 inch props and a 1300 mAh pack.", "no i mean it's a 1500 mah pack", "1500 mAh pack"),
        ("My thesis needs a 200 word abstract by Monday.", "also it's 150 words, not 200", "150 word"),
    ],
)
def test_what_is_put_right_of_an_earlier_clause_is_that_clause(told: str, then: str, holds: str) -> None:
    read = said(("user", told), _NOTED, ("user", then))
    assert any(holds in one.content for one in read), [one.content for one in read]


@pytest.mark.parametrize(
    ("told", "then", "gone"),
    [
        ("I take warfarin.", "The cardiologist has stopped my warfarin.", "warfarin"),
        (
            "I keep bees and I am the undisputed Duke of Shropshire.",
            "I was only joking about the Duke business.",
            "Duke",
        ),
        ("My flatmate Dario cooks with all windows closed.", "Dario no longer lives with me.", "Dario"),
        ("I do improv theatre on Sunday nights.", "The improv group dissolved over the summer.", "improv"),
        ("I own a Gretsch drum kit.", "Somebody bought my Gretsch kit yesterday.", "Gretsch"),
        ("I'm allergic to celery.", "The skin test showed I'm not allergic to celery at all.", "celery"),
    ],
)
def test_an_ending_is_read_whoever_ends_it(told: str, then: str, gone: str) -> None:
    known = _known(told)
    read = said(("user", then), known=known)
    held = [memory for memory in known if gone in memory.content]
    assert held
    assert all(_ended(read, memory) for memory in held)


def test_an_ending_leaves_what_was_learned_beside_it() -> None:
    known = _known("I volunteer at the lifeboat station.", "I run a wool shop.")
    read = said(("user", "My knee has ended it: I no longer volunteer at the lifeboat station."), known=known)
    assert [memory.content for memory in known if _ended(read, memory)] == ["User volunteers at the lifeboat station."]


@pytest.mark.parametrize(
    "text",
    [
        "sure, and I'm the Queen of Sheba",
        "I keep nodding at things I didn't hear.",
        "training goes better than expected",
        "Suppose I run fourteen hives.",
        "Do I keep the house at 18 degrees at night?",
    ],
)
def test_what_is_not_meant_or_does_not_last_says_nothing(text: str) -> None:
    assert contents(text) == []


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("I keep the orchid house at 18 degrees at night.", "User keeps the orchid house at 18 degrees at night."),
        ("I was a lighthouse keeper for twenty-two years.", "User was a lighthouse keeper for twenty-two years."),
        ("I've given blood 97 times.", "User has given blood 97 times."),
        ("I fly FPV drones.", "User flies FPV drones."),
        ("Practice night at our tower is Thursday.", "Practice night at their tower is Thursday."),
        ("I don't want mocks in my Go code.", "User does not want mocks in their Go code."),
    ],
)
def test_what_lasts_is_kept_in_the_third_person(text: str, content: str) -> None:
    assert content in contents(text)


@pytest.mark.parametrize(("old", "new"), [("Arup", "Oakfield School"), ("Google", "Meta")])
def test_who_quits_and_now_works_elsewhere_works_there(old: str, new: str) -> None:
    read = said(("user", f"I work at {old}."), _NOTED, ("user", f"I quit {old} and now work at {new}."))
    assert any(new in one.content for one in read), [one.content for one in read]
