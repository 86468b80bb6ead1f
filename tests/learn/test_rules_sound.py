"""What the rules keep stands alone: whole sentences of a life, nothing of the moment; known facts end in any words."""

import pytest

from memproxy.learn.candidates import Intent
from tests.learn.rules_rig import contents, said


@pytest.mark.parametrize(
    "text",
    [
        "I'm really interested in the evening course you described.",
        "I'm so excited to try the new oven!",
        "I'm not sure if it fits behind the door.",
        "I have a quick question about the second draft.",
        "I've got some leftover rice from yesterday.",
        "I love the second idea, the one with the boats.",
        "I need snacks for a garden party I'm hosting soon.",
        "I think I'll start by sorting the shelf, and then paint it.",
        "At the fair, I rode the big wheel, ate two waffles and then went home.",
        "My name is [Name], and you can reach me at [phone number].",
        "In another life I live on a Greek island and own a small boat.",
        "I'm considering something bigger, a 20-gallon tank.",
        "I'm a monster, I know.",
        "I'll do that as I continue to mentor Rachel.",
    ],
)
def test_what_is_of_the_moment_or_incomplete_is_not_kept(text: str) -> None:
    assert contents(text) == []


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("By the way, I just got a new laptop bag a few weeks ago.", "User has a new laptop bag."),
        ("My girls are 4 and 7 and share a room.", "User's girls are 4 and 7"),
        ("I wore brown loafers to work every day last week.", "User wore brown loafers"),
        ("I'm training for a marathon, a long one.", "User is training for a marathon"),
    ],
)
def test_a_statement_is_put_right_where_only_its_form_is_wrong(text: str, statement: str) -> None:
    assert any(one.startswith(statement) for one in contents(text)), contents(text)


def test_somebody_elses_partner_is_not_the_users() -> None:
    found = contents("The woman upstairs has a new boyfriend, he's a butcher and he moved in on Sunday.")
    assert not [one for one in found if "boyfriend" in one]


def _after(first: str, then: str) -> tuple[list[str], list[str]]:
    """What is known no more, and what is stated, after the second message."""
    known = [one.content for one in said(("user", first))]
    assert known
    found = said(("user", first), ("assistant", "Fine."), ("user", then))
    new = [one for one in found if one.evidence and one.evidence[0] in then]
    taken_back = [one.content for one in new if one.intent is Intent.FORGET and one.content in known]
    put_right = [one.replaces for one in new if one.intent is Intent.CORRECT and one.replaces]
    return [*taken_back, *put_right], [one.content for one in new if one.intent is not Intent.FORGET]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("Our Nele plays the cello.", "Nele doesn't play the cello any more."),
        ("I go to the gym on Mondays.", "The gym thing lasted until July."),
        ("We're getting married on 19 December.", "There won't be a wedding."),
        ("I'm allergic to cats.", "The allergist says I'm not allergic to cats after all."),
        ("We have a cat, Miso.", "We had to let Miso go on Tuesday."),
        ("I make 3,100 net.", "Please don't keep my income anywhere."),
    ],
)
def test_a_known_statement_ends_when_it_is_denied_or_comes_to_nothing(first: str, then: str) -> None:
    ended, _ = _after(first, then)
    assert ended


@pytest.mark.parametrize(
    ("first", "then", "new"),
    [
        ("I hate sushi.", "ok dont judge but i love sushi now??", "User loves sushi."),
        ("I love gardening.", "Honestly, I've come to hate gardening.", "User hates gardening."),
        ("I can't stand early shifts.", "Funny, by now I love early shifts.", "User loves early shifts."),
    ],
)
def test_a_known_taste_turns_whatever_stands_around_it(first: str, then: str, new: str) -> None:
    ended, stated = _after(first, then)
    assert ended
    assert new in stated


def test_a_taste_of_a_part_leaves_that_of_the_whole() -> None:
    ended, _ = _after("I love Kotlin.", "I hate Kotlin's build times though.")
    assert ended == []


@pytest.mark.parametrize(
    ("first", "then", "new"),
    [
        ("My number is 0176 555 0142.", "argh typo. 0176 555 0124", "User's number is 0176 555 0124."),
        ("I run 5k three times a week.", "sorry, four times since august", "User runs 5k four times a week."),
        ("My landlord is Mr Fox.", "new landlord, Mrs Hale", "User's landlord is named Mrs Hale."),
        ("I live in Utrecht.", "What's on in Ghent? I moved here in January.", "User lives in Ghent."),
        ("I use Chrome.", "Dumped Chrome for Firefox.", "User uses Firefox."),
        ("My car is red.", "Had the car painted, it's black now.", "User's car is black."),
    ],
)
def test_a_new_value_takes_the_place_of_the_one_of_its_sort(first: str, then: str, new: str) -> None:
    _, stated = _after(first, then)
    assert new in stated


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("I have a 5-gallon tank with a betta.", "I've since set up a new 20-gallon tank."),
        ("I decided to start swimming on Mondays.", "That way I can set it and forget it."),
        ("I have a cat.", "I don't have a printer any more."),
        ("I love Kotlin.", "If I could, I would hate Kotlin."),
    ],
)
def test_what_is_not_meant_does_not_end(first: str, then: str) -> None:
    ended, stated = _after(first, then)
    assert ended == []
    assert not [one for one in stated if "20-gallon tank with a betta" in one]


def test_what_follows_a_list_for_the_assistant_is_no_item_of_it() -> None:
    told = contents("I'm allergic to peanuts and shellfish, keep that in mind pls")
    assert told == ["User is allergic to peanuts.", "User is allergic to shellfish."]
