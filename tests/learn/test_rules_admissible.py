"""What is no statement about the user however well its form fits, and what a bare value or another wording changes."""

import re
from pathlib import Path

import pytest

from memproxy.evals.extraction import dialogues
from memproxy.learn.candidates import Intent
from memproxy.learn.rules import reader
from memproxy.learn.rules.clauses import clauses_of, whole_of
from memproxy.learn.rules.dispatch import heads
from memproxy.learn.rules.normal import _CONTRACTIONS
from tests.learn.rig import NOON
from tests.learn.rules_rig import contents, said

_NOTED = ("assistant", "Noted.")
_SOME = Path(dialogues.__file__).parent / "data" / "unseen6_corrections.yaml"


@pytest.mark.parametrize(
    "text",
    [
        "I prefer tea in this scene.",
        "In the song he sings I live in New York.",
        "We sell to whoever pays, he told me.",
        "I'm kidding, I live on Mars.",
        "I sleep on the couch tonight.",
        "I wake up at 3 and can't fall asleep, just tonight.",
        "I play the video and there is no sound.",
        "I study the map, then what?",
        "I speak for everyone here.",
        "My phone is at 3 percent.",
        "My package is stuck in Leipzig.",
        "I got a haircut.",
        "I'm basically Einstein now.",
        "Training plan for a half marathon please.",
        "I can't stand, text me or leave me alone.",
    ],
)
def test_what_is_momentary_of_a_work_or_incomplete_is_no_fact(text: str) -> None:
    assert contents(text) == []


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("I take the school garden on Fridays from this week.", "User takes the school garden on Fridays."),
        ("I play the hurdy-gurdy.", "User plays the hurdy-gurdy."),
        ("I always take a window seat.", "User always takes a window seat."),
        ("I'd rather have an early flight than a late one.", "User prefers an early flight over a late one."),
        ("I use Neovim as my editor.", "User uses Neovim as their editor."),
        ("Hi! I'm Tobias, 43, physiotherapist in Graz.", "User works as a physiotherapist in Graz."),
        ("We are 7 people in our team.", "User's team has 7 people."),
    ],
)
def test_what_lasts_is_kept_in_words_by_which_it_is_found(text: str, content: str) -> None:
    assert content in contents(text)


@pytest.mark.parametrize(
    ("before", "then", "content"),
    [
        ("I'm a size 42 in hiking boots.", "Tried them in the shop, 43 it is.", "User is a size 43 in hiking boots."),
        ("Find me a laptop, budget 800 euros.", "scratch that, I can go up to 1200", "User's budget is 1200 euros."),
        ("I'm 53 and run a lot.", "sorry, typo, 35! not 53", "User is 35 years old."),
        ("I work four days a week.", "I'm back to five days a week.", "User works five days a week."),
        ("I lead a team of 7.", "I've got 11 people in my team now.", "User's team has 11 people."),
        ("I have two kids.", "Our third child was born on Monday.", "User has three kids."),
        ("My bank is Sparkasse.", "I finally switched to ING.", "User's bank is ING."),
        ("My phone is a Pixel 6.", "How do I transfer photos to my iPhone 17?", "User's phone is an iPhone 17."),
        (
            "I love my standing desk.",
            "The standing desk was a waste of money.",
            "User finds the standing desk a waste of money.",
        ),
    ],
)
def test_a_new_value_takes_the_old_ones_place_whatever_stands_around_it(before: str, then: str, content: str) -> None:
    read = said(("user", before), _NOTED, ("user", then))
    assert content in [one.content for one in read if one.intent is Intent.CORRECT]


@pytest.mark.parametrize("then", ["I saw 43 of them.", "It's 5 minutes late now.", "My brother is 43 now."])
def test_a_number_of_something_else_changes_nothing(then: str) -> None:
    read = said(("user", "I'm a size 42 in hiking boots."), _NOTED, ("user", then))
    assert not [one.content for one in read if one.intent is Intent.CORRECT]


def test_who_is_spoken_of_goes_on_in_the_next_message() -> None:
    read = said(("user", "My daughter is 4."), _NOTED, ("user", "She turned 5 on Sunday."))
    assert any("5" in one.content and "daughter" in one.content for one in read[1:])


def _sentences() -> list[str]:
    texts = [
        text for one in dialogues.load(None)[::25] for part in one.sessions for m in part.said for text in m.values()
    ]
    return [sentence for text in texts for sentence in re.split(r"(?<=[.!?]) ", text)]


def test_no_rule_that_would_match_is_left_out_by_the_first_words() -> None:
    clauses = [clause for text in _sentences() if (whole := whole_of(text, text, NOON)) for clause in clauses_of(whole)]
    assert len(clauses) > 50
    for asked, rules in ((reader._FIRST_ASKED, reader._RULES), (reader._LAST_ASKED, reader._LAST_RULES)):
        for clause in clauses:
            fitting = asked.that_fit(clause.text)
            lost = [rule for rule in rules if rule not in fitting and rule.pattern.match(clause.text)]
            assert lost == [], clause.text


def test_the_words_that_a_pattern_begins_with_are_read_off_its_text() -> None:
    assert heads(r"(?:own|drive) (?P<x>.+)") == frozenset({"own", "drive"})
    assert heads(r"(?:am|will be) (?P<x>.+)") == frozenset({"am", "will"})
    assert heads(r"(?:only )?have (?P<x>.+)") is None
    assert heads(r"favou?rite (?P<x>.+)") is None
    assert heads(r"love|hate") is None


def test_no_contraction_is_left_out_for_want_of_its_letters() -> None:
    for text in _sentences():
        low = text.lower()
        for hints, pattern, _ in _CONTRACTIONS:
            assert not pattern.search(text) or not hints or any(hint in low for hint in hints), (text, pattern.pattern)


@pytest.mark.parametrize(
    "text",
    [
        "I sold my motorbike in April.",
        "I donated my guitar to the school.",
        "My wife left me.",
        "My cat ran away last night.",
        "I divorced my husband.",
        "We had to put down our old dog.",
    ],
)
def test_what_is_told_as_gone_is_not_taken_as_there(text: str) -> None:
    assert contents(text) == []


def test_who_got_what_is_gone_is_still_there() -> None:
    assert contents("I gave my piano to my niece.") == ["User has a niece."]
