"""Changes and endings in the many words in which people say them: the old statement goes, the new one is complete."""

from datetime import UTC, datetime, timedelta

import pytest

from memproxy.core.memory import Memory
from memproxy.core.turn import Message, make_turns
from memproxy.learn.candidates import Extracted, Intent, Window
from memproxy.learn.rules import extract
from memproxy.learn.statement import memory_of
from tests.learn.rig import ANN, NOON
from tests.learn.rules_rig import said

CHANGED = [
    ("I do all my design work in Sketch.", "I switched to Figma last month.", "in Figma"),
    ("We have a dog named Rex.", "we renamed the dog to Max", "dog named Max"),
    ("I'm going to Lyon for the conference in May.", "not Lyon, Marseille", "going to Marseille"),
    ("I drive a Honda Civic.", "Traded the Civic in for a Subaru Outback.", "drives a Subaru Outback"),
    ("Standup is at 9:30 every day.", "Heads up, standup is now at 10.", "at 10 every day"),
    ("My phone is an iPhone 12.", "I finally upgraded to a Pixel 9.", "Pixel 9"),
    ("The project deadline is March 3rd.", "They pushed the deadline to March 17th.", "March 17th"),
    ("I take my coffee black.", "I've started taking my coffee with oat milk.", "with oat milk"),
    ("I usually run 5k every morning.", "I'm running 10k every morning now.", "10k every morning"),
    ("I go to the gym on Mondays and Wednesdays.", "I changed my gym days to Tuesdays and Thursdays.", "Thursdays"),
    ("My email is ann@old.example.", "my email changed, it's ann@new.example now", "ann@new.example"),
    ("My car is red.", "I meant blue, not red.", "is blue"),
    ("Our office is on the 4th floor.", "we moved to the 7th floor", "on the 7th floor"),
    ("My daughter is in 3rd grade.", "My daughter just started 4th grade.", "4th grade"),
    ("I'm using Python 3.9 for this project.", "We upgraded the project to Python 3.12.", "Python 3.12"),
    ("I weigh 85 kg.", "Down to 80 kg now!", "80 kg"),
    ("I'm studying biology.", "I changed my major to chemistry.", "chemistry"),
    ("Our team has 5 people.", "Our team grew to 8 people.", "8 people"),
]
"""What is known, what is said then, and what the new statement holds."""

NAMED_NOTHING = [
    ("The team offsite is on Tuesday.", "it got moved to Thursday", "Thursday"),
    ("My flight to Boston is at 9 on Friday.", "Actually it's at 11 now.", "at 11"),
    ("Our wedding budget is 12,000 euros.", "no, 15,000", "15,000 euros"),
    ("The party is for 20 people.", "make that 25", "for 25 people"),
    ("My dentist appointment is on June 12 at 2pm.", "oh wait, I looked it up, June 14.", "June 14 at 2pm"),
]
"""The same, of changes that do not name what they change: they are about what was said in the same conversation."""

ENDED = [
    ("My locker code is 4417.", "Forget my locker code."),
    ("I'm dating Tom.", "Tom and I broke up."),
    ("I work at Starbucks.", "I quit my job."),
    ("I'm allergic to cats.", "That cat allergy thing isn't true any more, I got desensitised."),
    ("I drive a Toyota Corolla.", "I no longer have a car."),
    ("My phone number is 555-0142.", "I'd rather you didn't keep my phone number."),
    ("I'm in a book club.", "Our book club disbanded."),
    ("I'm on a keto diet.", "I'm done with keto."),
    ("I have a peanut allergy.", "Oops, ignore what I said about peanuts, wrong chat."),
    ("I have two dogs, Bella and Duke.", "We had to rehome Duke."),
    ("I have a meeting with Sarah on Monday at 10.", "The meeting with Sarah is not happening."),
    ("I have an appointment with Dr. Lee on Thursday.", "Dr. Lee cancelled my appointment."),
    ("My cat Pixel keeps biting cables.", "we don't have Pixel anymore, she lives with my sister"),
]
"""What is known, and what takes some of it back."""

KEPT = [
    ("I have two dogs, Bella and Duke.", "I adopted a cat named Tom."),
    ("I have a trip to Rome in May.", "I have a trip to Oslo in June."),
    ("My car is red.", "My bike is blue."),
    ("I live in Berlin.", "I sold my old phone."),
    ("My sister lives in Porto.", "My brother lives in Rome now."),
    ("My flight is at 9.", "My meeting is at 11 now."),
    ("I own a boat.", "I almost sold the boat."),
]
"""What is said beside something known, and ends none of it."""


def later(known: str, then: str) -> tuple[list[Memory], list[Extracted]]:
    """What a first conversation made known, and what a second one says."""
    first = _read(known, [], NOON)
    return first, [one.candidate for one in extract(_window(then, first, NOON + timedelta(days=3))).kept]


def _read(text: str, known: list[Memory], at: datetime) -> list[Memory]:
    found = extract(_window(text, known, at)).kept
    return [memory_of(one, ANN, now=at.astimezone(UTC), extractor="rules") for one in found]


def _window(text: str, known: list[Memory], at: datetime) -> Window:
    turns = make_turns(ANN, [Message(role="user", content=text)], now=at)
    return Window(turns=turns, new_ids=frozenset(turn.id for turn in turns), known=known)


def _ends(memory: Memory, said: Extracted) -> bool:
    """Whether a candidate ends a known statement: it takes it back, calls it wrong, or answers the same."""
    if said.intent is Intent.FORGET:
        return said.content == memory.content
    if said.intent is Intent.CORRECT and said.replaces is not None:
        return said.replaces in (memory.object, memory.content) or said.predicate == memory.predicate
    return (said.subject, said.predicate) == (memory.subject, memory.predicate)


@pytest.mark.parametrize(("known", "then", "holds"), CHANGED)
def test_a_change_makes_a_whole_statement_in_the_old_ones_place(known: str, then: str, holds: str) -> None:
    before, read = later(known, then)
    new = [one for one in read if holds in one.content]
    assert new, [one.content for one in read]
    assert any(_ends(memory, one) for memory in before for one in new)


@pytest.mark.parametrize(("known", "then", "holds"), NAMED_NOTHING)
def test_a_change_that_names_nothing_is_about_what_was_just_said(known: str, then: str, holds: str) -> None:
    read = said(("user", known), ("assistant", "Noted."), ("user", then))
    old, new = read[0], read[-1]
    assert holds in new.content
    assert new.intent is Intent.CORRECT
    assert new.predicate == old.predicate


@pytest.mark.parametrize(
    ("known", "then"), [*((one, then) for one, then, _ in NAMED_NOTHING), ("I own a boat.", "I sold it.")]
)
def test_a_change_that_names_nothing_ends_nothing_of_another_conversation(known: str, then: str) -> None:
    before, read = later(known, then)
    assert before
    assert not [one for one in read for memory in before if _ends(memory, one)]


def test_it_means_the_thing_that_this_conversation_named() -> None:
    read = said(("user", "I own a motorcycle."), ("assistant", "Nice."), ("user", "I sold it."))
    assert [one.intent for one in read] == [Intent.STATE, Intent.FORGET]


@pytest.mark.parametrize(("known", "then"), ENDED)
def test_an_ending_takes_back_what_it_is_about(known: str, then: str) -> None:
    before, read = later(known, then)
    assert any(one.intent is Intent.FORGET and _ends(memory, one) for memory in before for one in read)


@pytest.mark.parametrize(("known", "then"), KEPT)
def test_something_else_ends_nothing(known: str, then: str) -> None:
    before, read = later(known, then)
    assert before
    listed = [one for one in read if one.intent is not Intent.STATE]
    assert not any(_ends(memory, one) for memory in before for one in listed)
