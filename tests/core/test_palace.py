"""Names in the palace: what makes two subjects one wing, and what makes a topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.memory import Kind
from memproxy.core.palace import (
    GENERAL,
    LONGEST_NAME,
    assign,
    assign_turns,
    pointer,
    read_pointer,
    same_names,
    slug,
    subject_name,
)
from tests.core.test_entities import memory


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("My dog Biscuit", "biscuit"),
        ("biscuit", "biscuit"),
        ("Biscuit the dog", "biscuit"),
        ("the user's dog Biscuit", "biscuit"),
        ("a dog named Biscuit", "biscuit"),
        ("John's wife Anna", "anna"),
        ("project Atlas", "atlas"),
        ("the Atlas project", "atlas"),
        ("Hawaii trip", "hawaii-trip"),
        ("my dog", "dog"),
        ("user's budget", "budget"),
        ("user", "user"),
        ("I", "user"),
        ("my", "user"),
        ("", "user"),
        ("José", "jose"),
        ("京都", "京都"),
    ],
)
def test_a_subject_has_one_name_however_it_is_called(subject: str, name: str) -> None:
    assert subject_name(subject) == name


@given(st.text(max_size=200))
def test_every_text_has_a_name_that_names_itself(text: str) -> None:
    name = subject_name(text)
    assert name
    assert len(name) <= LONGEST_NAME
    assert slug(slug(text)) == slug(text)


@pytest.mark.parametrize(
    ("fields", "pairs"),
    [
        ({"subject": "user", "predicate": "name", "object": "Ana"}, [("user", "ana")]),
        ({"subject": "user", "predicate": "dog_name", "object": "Biscuit"}, [("dog", "biscuit")]),
        ({"subject": "the user's dog", "predicate": "is called", "object": "Biscuit"}, [("dog", "biscuit")]),
        ({"subject": "My dog Biscuit"}, [("dog", "biscuit")]),
        ({"subject": "my friend Tom"}, []),
        ({"subject": "user", "predicate": "is not called", "object": "Ana"}, []),
        ({"subject": "user", "predicate": "likes", "object": "Ana"}, []),
        ({}, []),
    ],
)
def test_what_gives_a_subject_a_second_name(fields: dict[str, str], pairs: list[tuple[str, str]]) -> None:
    assert same_names(memory(**fields)) == pairs


def test_a_fact_stands_with_its_subject_its_session_and_its_category() -> None:
    names = assign(memory(subject="Biscuit", session_id="s1", category="pets/food"))
    assert (names.wing, names.room, names.closet, names.drawer) == ("biscuit", "s1", "pets", False)
    assert assign(memory("Biscuit eats carrots", subject="Biscuit")).closet == "eats"
    assert assign(memory("a b c")).closet == GENERAL


def test_turns_share_topics_and_a_remark_stays_with_the_topic_before_it() -> None:
    turns = [
        memory(text, kind=Kind.TURN, session_id="s")
        for text in ("Hello!", "The budget for Hawaii?", "Your Hawaii budget is fine", "Great", "Hawaii hotels?")
    ]
    names = assign_turns(turns, {})
    assert [one.closet for one in names] == [GENERAL, "hawaii", "hawaii", "hawaii", "hawaii"]
    assert {one.wing for one in names} == {"user"}


def test_turns_stand_in_the_wing_that_half_of_them_name() -> None:
    turns = [memory(text, kind=Kind.TURN) for text in ("Biscuit's leash", "walking biscuit", "and rain", "ok")]
    known = {"biscuit": "biscuit", "dog": "biscuit", "rain": "rain"}
    assert {one.wing for one in assign_turns(turns, known)} == {"biscuit"}
    assert {one.wing for one in assign_turns(turns[1:], {"rain": "rain"})} == {"user"}


@given(st.integers(1, 10**8), st.none() | st.integers(1, 10**8), st.integers(1, 10**8))
def test_a_pointer_is_read_back_as_it_was_written(wing: int, room: int | None, drawer: int) -> None:
    numbers = (wing, room, drawer if room is not None else None)
    assert read_pointer(pointer(*numbers)) == numbers


@pytest.mark.parametrize("text", ["", "W-", "R-01", "W-1/D-2", "user", "W-001/R-01/D-001/x"])
def test_what_is_no_pointer_is_none(text: str) -> None:
    assert read_pointer(text) is None


@pytest.mark.parametrize("others", [0, 60])
def test_a_name_is_found_in_a_turn_however_many_others_are_sought(others: int) -> None:
    known = {f"somebody-{number}": f"wing-{number}" for number in range(others)}
    known |= {"blue-door": "house", "a-b-c-d-e": "never", "mees": "part", "o": "one"}
    said = {"At the BLUE door's side.": "house", "It has a b c d e.": "user", "A bluedoor, sameestate": "user"}
    found = {text: assign_turns([memory(text, kind=Kind.TURN)], known)[0].wing for text in [*said, "!?"]}
    assert found == {**said, "!?": "user"}
