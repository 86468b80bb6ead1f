"""A new value that says not what it is of: it takes the place of nothing that merely holds another name."""

from collections.abc import Sequence

import pytest

from memproxy.core.memory import Memory
from memproxy.core.turn import Message, make_turns
from memproxy.learn.candidates import Window
from memproxy.learn.rules import extract
from memproxy.learn.statement import memory_of
from tests.learn.rig import ANN, NOON
from tests.learn.rules_rig import said

NAMED = ("My name is Dana Kowalski.", "My favorite programming language is Rust.", "My dog is called Biscuit.")
"""Statements that each hold a name, the dog's last."""

_ANSWER = ("assistant", "Nice, noted.")


def _told() -> list[tuple[str, str]]:
    return [turn for text in NAMED for turn in (("user", text), _ANSWER)]


def _learned() -> list[Memory]:
    turns = make_turns(ANN, [Message(role="user", content=text) for text in NAMED], now=NOON)
    found = extract(Window(turns=turns, new_ids=frozenset(turn.id for turn in turns), known=[])).kept
    return [memory_of(one, ANN, now=NOON, extractor="rules") for one in found]


def _after(then: Sequence[tuple[str, str]], *, same_session: bool) -> list[str]:
    """What the rules make of it, after the statements in the same conversation or in a later one."""
    if same_session:
        return [one.content for one in said(*_told(), *then)]
    return [one.content for one in said(*then, known=_learned())]


@pytest.mark.parametrize("same_session", [True, False])
@pytest.mark.parametrize(
    ("then", "value"),
    [
        ([("user", "I moved to Seattle last month.")], "Seattle"),
        ([("user", "We moved to Austin, Texas in May.")], "Austin"),
        ([("user", "I've converted to Judaism.")], "Judaism"),
        ([("user", "My boss wants me to move to Dallas but I said no.")], "Dallas"),
        (
            [
                ("user", "What is the capital of Australia?"),
                ("assistant", "Sydney."),
                ("user", "No, it's Canberra."),
            ],
            "Canberra",
        ),
        (
            [
                ("user", "Draft a letter to Mr. Brown."),
                ("assistant", "Dear Mr. Brown, ..."),
                ("user", "Actually, make it Mr. Green."),
            ],
            "Mr. Green",
        ),
        (
            [
                ("user", "Write code in Python to sort a list."),
                ("assistant", "sorted(x)"),
                ("user", "Change it to Go."),
            ],
            "Go",
        ),
        (
            [
                ("user", "Plan a weekend in Rome."),
                ("assistant", "Day 1: the Colosseum"),
                ("user", "Sorry, I meant Paris."),
            ],
            "Paris",
        ),
    ],
)
def test_a_name_said_of_something_else_renames_nothing(
    then: list[tuple[str, str]], value: str, *, same_session: bool
) -> None:
    wrong = (f"name is {value}", f"named {value}", f"language is {value}")
    assert not [one for one in _after(then, same_session=same_session) if any(part in one for part in wrong)]


@pytest.mark.parametrize("same_session", [True, False])
def test_moving_is_where_one_lives(*, same_session: bool) -> None:
    assert "User lives in Seattle." in _after([("user", "I moved to Seattle last month.")], same_session=same_session)


def test_a_name_just_said_is_corrected() -> None:
    then = [("user", "My cat is called Momo."), _ANSWER, ("user", "No, it's Mimi.")]
    assert "User has a cat named Mimi." in _after(then, same_session=True)


@pytest.mark.parametrize("same_session", [True, False])
def test_what_it_is_not_and_what_it_is_are_one_correction(*, same_session: bool) -> None:
    made = _after([("user", "My dog's name isn't Biscuit, it's Max.")], same_session=same_session)
    assert any("Max" in one and "dog" in one for one in made), made
    made = _after([("user", "My name isn't Dana Kowalski, it's Danielle.")], same_session=same_session)
    assert "User's name is Danielle." in made
