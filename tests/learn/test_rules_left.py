"""Who left what, and for how long; how a name is spelled: what of that changes a known fact, and what changes none."""

import pytest

from tests.learn.rules_rig import said

WORK, HOME = "I work at Brightly.", "I live in Berlin."


def changes(known: str, *told: str) -> set[tuple[str, str]]:
    """What is told after something known ends or puts in the place of it."""
    found = said(("user", known), *(("user", text) for text in told))
    return {(one.intent.value, one.content) for one in found if one.intent.value != "state"}


@pytest.mark.parametrize(
    ("known", "told", "expected"),
    [
        ("My name is Jon Smyth.", "It's spelled John Smith, by the way.", "User's name is John Smith."),
        ("My name is Jon.", "It's spelled John Smith.", "User's name is John Smith."),
        ("My name is Sara Meier.", "My name is spelled Sarah Meyer.", "User's name is Sarah Meyer."),
        ("My sister is called Ann Lee.", "Her name is spelled Anne Leigh.", "User's sister is named Anne Leigh."),
        ("My name is Jon Smyth.", "It is spelled S-m-i-t-h.", "User's name is Jon Smith."),
        ("My name is Jon Smyth.", "It's spelled J-O-H-N.", "User's name is John Smyth."),
        ("My name is Jon Smyth.", "It's spelled J-o-h-n S-m-i-t-h.", "User's name is John Smith."),
        ("My daughter is Mary-Ann.", "It's spelled Mary-Anne.", "User's daughter is named Mary-Anne."),
    ],
)
def test_a_name_is_spelled_anew_as_a_whole(known: str, told: str, expected: str) -> None:
    assert changes(known, told) == {("correct", expected)}


@pytest.mark.parametrize("told", ["It's spelled Zoe Williams.", "It's spelled John van Smith.", "It's spelled Z-o-e."])
def test_another_name_is_no_spelling_of_it(told: str) -> None:
    assert changes("My name is Jon Smyth.", told) == set()


def test_how_the_users_name_is_spelled_changes_nobody_elses() -> None:
    found = said(("user", "My friend is Steven."), ("user", "My name is spelled Stephen."))
    assert [(one.intent.value, one.content) for one in found[1:]] == [("state", "User's name is Stephen.")]


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (WORK, "My colleague left Brightly, she's at Nubank now."),
        (WORK, "Tom left Brightly"),
        (WORK, "They left Brightly last week."),
        (WORK, "My sister quit Brightly last week."),
        (WORK, "Anna left Brightly, so I'm at Nubank now."),
        (HOME, "My brother left Berlin, he's in Hamburg now."),
        (HOME, "My brother moved out of Berlin."),
        ("I play tennis.", "My brother quit tennis."),
        ("I own a Golf.", "My husband sold his Golf."),
    ],
)
def test_what_somebody_else_leaves_stays_the_users(known: str, told: str) -> None:
    assert changes(known, told) == set()


@pytest.mark.parametrize(
    ("known", "told", "ended"),
    [
        (f"My brother lives in Berlin. {HOME}", "My brother left Berlin.", "User's brother lives in Berlin."),
        ("My husband Tom works at Brightly.", "Tom left Brightly.", "User's husband Tom works at Brightly."),
        ("My wife works at Brightly.", "She left Brightly.", "User's wife works at Brightly."),
        ("I own a Golf.", "My husband sold the Golf.", "User owns a Golf."),
        (WORK, "They let me go from Brightly.", "User works at Brightly."),
        (WORK, "My wife and I left Brightly.", "User works at Brightly."),
    ],
)
def test_what_somebody_else_ends_of_his_own_or_of_the_users_ends(known: str, told: str, ended: str) -> None:
    assert changes(known, told) == {("forget", ended)}


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (WORK, "I left Brightly at 6pm, I'm at Nubank now for a meeting."),
        (WORK, "I left Brightly early today, I'm at Starbucks now."),
        (WORK, "I'm at Starbucks now."),
        (WORK, "New phone! I'm at Starbucks now."),
        (WORK, "New job! I'm at Lidl now, do they have oat milk?"),
        (WORK, "My sister has a new job. I'm at Nubank now."),
        (WORK, "New job? I'm now at Nubank."),
        (WORK, "I've just left Brightly, I'm at the gym now."),
        (WORK, "I left Brightly an hour ago."),
        (HOME, "I left Berlin this morning, I'm in Hamburg now for a concert."),
        (HOME, "I left Berlin at 8am. I'm in Hamburg now."),
        (HOME, "I left Berlin yesterday for a conference."),
    ],
)
def test_where_one_is_for_hours_or_days_ends_neither_a_job_nor_a_home(known: str, told: str) -> None:
    assert changes(known, told) == set()


@pytest.mark.parametrize(
    ("known", "told", "expected"),
    [
        (WORK, "I left Brightly, I'm at Nubank now.", ("correct", "User works at Nubank.")),
        (WORK, "I left Brightly in March, I'm at Nubank now.", ("correct", "User works at Nubank.")),
        (WORK, "New job! I'm now at Nubank.", ("correct", "User works at Nubank.")),
        (WORK, "Got a new job! I'm at Nubank now.", ("correct", "User works at Nubank.")),
        (WORK, "I quit Brightly this morning.", ("forget", "User works at Brightly.")),
        (WORK, "I left Brightly for a startup.", ("forget", "User works at Brightly.")),
        (HOME, "I left Berlin for good, I'm in Hamburg now.", ("correct", "User lives in Hamburg.")),
        (HOME, "I left Berlin, I'm in Hamburg now.", ("correct", "User lives in Hamburg.")),
        (HOME, "I left Berlin for a new job.", ("forget", "User lives in Berlin.")),
    ],
)
def test_a_job_or_home_that_was_left_for_good_is_ended_or_replaced(
    known: str, told: str, expected: tuple[str, str]
) -> None:
    assert changes(known, told) == {expected}
