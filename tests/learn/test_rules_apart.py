"""What is told of another thing, of somebody else's or in addition: no change of what is known, which holds on."""

import pytest

from memproxy.core.similar import Neighbour
from memproxy.core.supersede import Operation, decide
from memproxy.learn.candidates import Intent
from tests.learn.rig import fact
from tests.learn.test_rules_changes import _ends, later

APART = [
    ("Our cat is 4 kilos.", "the dog is at 22 kilos now"),
    ("I take ramipril, 5 mg.", "since May I take atorvastatin too, 20 mg"),
    ("I take ramipril, 5 mg.", "since May I take atorvastatin, 20 mg"),
    ("My savings account has 12,000 euros.", "there are 3,000 euros in our holiday fund now"),
    ("My desk is 160 cm wide.", "the new shelf is 80 cm wide"),
    ("My car insurance is with Allianz.", "I moved the home insurance to HUK."),
    ("My yoga course starts at 8.", "my pottery course now starts at 18:30"),
    ("I pay 45 euros for electricity.", "heating went up to 110 euros"),
    ("My team at work has 7 people.", "the sales team has 12 people now"),
    ("My thesis has 80 pages.", "the appendix has 25 pages now"),
    ("My monthly budget for groceries is 400 euros.", "I raised the clothes budget to 150 euros"),
    ("My salary is 4000 euros.", "My wife's salary is 5000 euros now."),
    ("Our garden is 300 square metres.", "my parents' garden is 900 square metres now"),
    ("I have a dentist appointment on 4 May.", "my daughter's dentist appointment was cancelled"),
]
"""What is known, and what is told later of something else."""

SAME = [
    ("My desk is 160 cm wide.", "the desk is 180 cm wide now", "180 cm"),
    ("My car insurance is with Allianz.", "I moved the insurance to HUK.", "HUK"),
    ("My pottery course starts at 8.", "the course starts at 9 now", "at 9"),
    ("I pay 45 euros for electricity.", "the power bill went up to 60 euros", "60 euros"),
    ("My rent is 900 euros.", "the landlord raised it to 950", "950"),
    ("I have a dentist appointment on 4 May.", "the dental appointment moved to 6 May", "6 May"),
]
"""What is known, and a change of it by another word, by a part of its name or by a word that points to it."""


@pytest.mark.parametrize(("known", "then"), APART)
def test_what_is_told_of_another_thing_ends_nothing_and_takes_nothings_place(known: str, then: str) -> None:
    before, read = later(known, then)
    assert before
    assert [one.content for one in read if any(_ends(memory, one) for memory in before)] == []
    assert [one.content for one in read if one.intent is not Intent.STATE] == []


@pytest.mark.parametrize(("known", "then", "holds"), SAME)
def test_a_known_thing_by_another_word_is_still_changed(known: str, then: str, holds: str) -> None:
    before, read = later(known, then)
    new = [one for one in read if holds in one.content]
    assert new, [one.content for one in read]
    assert any(_ends(memory, one) for memory in before for one in new)


@pytest.mark.parametrize(
    ("content", "subject", "known"),
    [
        ("User's dog weighs 12 kg now", "user's dog", "User weighs 80 kg"),
        ("User's wife's salary is now 5000 euros", "user", "User's salary is 4000 euros"),
        ("User's parents' garden is now 900 square metres", "user", "User's garden is 300 square metres"),
        ("User's budget for roof is now 500 euros", "user", "User's budget for garden is 1001 euros"),
    ],
)
def test_a_number_of_another_thing_or_of_somebody_else_is_kept_beside_the_known_one(
    content: str, subject: str, known: str
) -> None:
    held = Neighbour(fact("known", content=known, subject="user"), 0.85)
    decision = decide(fact("new", content=content, subject=subject), chain=[], neighbours=[held])
    assert decision.operation is Operation.COEXIST
