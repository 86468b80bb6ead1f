"""What a message tells is told apart from what it asks, by weights that were fitted on labelled parts of messages."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.memory import Trust
from memproxy.core.telling import LEAST, only_asks, telling, tells_nothing
from tests.fitting.telling import figures, read
from tests.recall.making import fact, turn

SPEECH = Path(__file__).parents[1] / "evals" / "speech"
HELD = SPEECH / "test_held.tsv"
LANGUAGES = [line.split("\t", 2) for line in (SPEECH / "languages_held.tsv").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("file", ["test_held.tsv", "languages_held.tsv"])
def test_parts_of_messages_that_were_not_fitted_on_are_told_apart(file: str) -> None:
    labels, texts = read(SPEECH / file)
    found = figures(labels, [telling(text) for text in texts])
    assert found["area"] >= 0.9
    assert found["telling kept"] >= 0.9
    assert found["others kept"] <= 0.35


def test_english_parts_are_told_apart_better() -> None:
    lines = [line.split("\t", 2) for line in HELD.read_text("utf-8").splitlines() if line]
    english = [(float(label == "tells"), telling(text)) for label, language, text in lines if language == "en"]
    assert figures(*zip(*english, strict=True))["area"] >= 0.94


@pytest.mark.parametrize("language", sorted({language for _, language, _ in LANGUAGES}))
def test_questions_of_every_language_are_told_apart_from_statements(language: str) -> None:
    parts = [(float(label == "tells"), telling(text)) for label, spoken, text in LANGUAGES if spoken == language]
    assert figures(*zip(*parts, strict=True))["area"] >= 0.75


@pytest.mark.parametrize(
    "said",
    [
        "I moved to Porto. Any tips?",
        "my boyfriend Owen is vegan, what can i make him for tea thats not pasta",
        "My dog Biscuit is a beagle",
        "Actually my budget is 15k",
        "我对虾过敏，推荐几个家常菜吧",
    ],
)
def test_a_message_tells_when_one_part_of_it_does(said: str) -> None:
    assert not tells_nothing(turn(said))


@pytest.mark.parametrize(
    "said", ["And a nickname for my dog?", "What's my dog's name?", "Where do I work?", "ok thanks"]
)
def test_questions_and_thanks_tell_nothing(said: str) -> None:
    assert only_asks(turn(said))
    assert not tells_nothing(fact(said))


def test_what_an_assistant_said_tells_nothing_of_the_user_and_lends_its_words() -> None:
    said = turn("Your budget is $10,000.", trust=Trust.ASSISTANT)
    assert tells_nothing(said)
    assert not only_asks(said)


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    assert telling(text) < math.inf


@pytest.mark.parametrize("text", ["", " ", "\n\n", "a", "😀", "\ud800", "x" * 1_000_000, "a. " * 100_000])
def test_odd_texts_can_be_read(text: str) -> None:
    telling(text)


def test_the_end_of_a_long_message_is_read_too() -> None:
    assert telling("? " * 10_000 + "My dog Biscuit is a beagle.") >= LEAST
