"""Changes that no rule reads: told by the sort of the new value, by a name nearly alike, or by the words said again."""

import pytest

from memproxy.learn.candidates import Intent
from tests.learn.test_rules_changes import _ends, later

CHANGED = [
    ("My train to Leeds leaves at 7:40 on Saturday.", "Slight change: the train leaves at 8:15.", "8:15"),
    ("Our band is called Static Garden.", "hold on, veto. the band is called Velvet Antenna", "Velvet Antenna"),
    ("I take 20 mg of sertraline.", "My doctor upped it to 50 mg.", "50 mg"),
    ("Our cat is called Miso.", "Typo, the cat's called Mizo.", "Mizo"),
    ("My flight number is LH 440.", "Sorry, LH 404.", "LH 404"),
    ("The meeting with Petra is at 10.", "Petra can only do 11.", "at 11"),
    ("I'm training for a 10k.", "Changed plans, I'm training for a half marathon.", "half marathon"),
    ("I hate mushrooms.", "Weirdly I like mushrooms now.", "likes mushrooms"),
    ("My boyfriend Mateo is bad at dates.", "My husband Mateo finally remembers dates.", "husband"),
]
ENDED = [
    ("I make 74,000 a year.", "I'd like you to forget what I said about how much I make."),
    ("I work for Siemens.", "don't remember where I work, please"),
    ("I'm taking Italian lessons on Mondays.", "No more Italian lessons for me."),
    ("I'm on call every third week.", "You plan around me being on call every third week. That isn't true any more."),
    ("I'm engaged to Nina.", "Nina and I called off the engagement."),
    ("I eat meat every day.", "I've been vegetarian since February."),
    ("I'm saving for a motorbike.", "Not saving for a motorbike any longer."),
]
KEPT = [
    ("I take 20 mg of sertraline.", "My run was 8 km now."),
    ("My flight number is LH 440.", "The error moved to line 12."),
    ("I have a dog named Rex.", "Actually the dog needs a life vest."),
    ("My sister's name is Lena.", "Now Peter lives in Rome."),
    ("The meeting with Petra is at 10.", "Actually the script stops at 11 % of the file."),
]


@pytest.mark.parametrize(("known", "then", "holds"), CHANGED)
def test_what_no_rule_reads_takes_the_place_of_the_one_statement_it_fits(known: str, then: str, holds: str) -> None:
    before, said = later(known, then)
    assert any(holds in one.content for one in said), [one.content for one in said]
    assert any(_ends(memory, one) for memory in before for one in said)


@pytest.mark.parametrize(("known", "then"), ENDED)
def test_an_ending_is_understood_in_other_words(known: str, then: str) -> None:
    before, said = later(known, then)
    assert any(one.intent is Intent.FORGET and _ends(memory, one) for memory in before for one in said)


@pytest.mark.parametrize(("known", "then"), KEPT)
def test_a_value_of_something_else_changes_nothing(known: str, then: str) -> None:
    before, said = later(known, then)
    assert before
    assert not any(one.intent is not Intent.STATE and _ends(memory, one) for memory in before for one in said)
