"""What holds for the rules whatever is said: they never fail, stay fast, quote verbatim, repeat themselves."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memproxy.core.memory import Kind, Memory
from memproxy.core.slots import slot_name
from memproxy.learn.candidates import Extracted, Grounded, Intent, Window
from memproxy.learn.rules import dates, extract
from memproxy.learn.statement import memory_of
from tests.learn.rig import ANN, NOON
from tests.learn.rules_rig import said, window
from tests.learn.test_rules import CORRECTED, NOTHING, STATED

_WORDS = ["I", "we", "my", "our", "am", "is", "are", "have", "not", "no longer", "anymore", "live", "in", "at", "love"]
_MORE = ["hate", "prefer", "forget", "that", "actually", "it", "was", "moved", "to", "Berlin", "Rome", "I meant", "no,"]
_VALUES = [
    "dog",
    "Biscuit",
    "wife",
    "Clara",
    "10,000",
    "$15,000",
    "13 October",
    "next Friday",
    "until",
    "budget",
    "for",
]
_MARKS = [
    ",",
    ".",
    "?",
    "\n",
    ":",
    '"',
    "```",
    "> ",
    "(",
    ")",
    "\ufffc",
    "’",
    "and",
    "but",
    "named",
    "the",
    "run",
    "then",
]
_PIECES = st.sampled_from([*_WORDS, *_MORE, *_VALUES, *_MARKS])
_TALK = st.lists(_PIECES, max_size=40).map(" ".join)
_ANYTHING = st.one_of(st.text(max_size=300), _TALK)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(_ANYTHING, min_size=1, max_size=3))
def test_any_text_is_read_without_failure_and_quoted_verbatim(texts: list[str]) -> None:
    for one in extract(window([("user", text) for text in texts])).kept:
        (quote,) = one.candidate.evidence
        assert quote in one.turn.content
        assert one.candidate.content.strip()
        assert "\ufffc" not in one.candidate.content
        assert 0 <= one.candidate.confidence <= 1


@settings(max_examples=100, deadline=None)
@given(_TALK)
def test_reading_twice_reads_the_same(text: str) -> None:
    asked = window([("user", text)])
    assert extract(asked) == extract(asked)


@pytest.mark.parametrize(
    "text",
    [
        "I live in " * 10_000,
        "my " * 33_000,
        "I love " + "a, " * 33_000 + "and b",
        "I am the " + "of the " * 14_000,
        ("My dog Biscuit is nice. " * 4_200),
        "no, " * 25_000,
        "<a>" * 33_000,
        '"' * 100_000,
        "[" * 100_000,
        "I " + "really " * 14_000 + "like it",
        "x" * 100_000,
        "\n" * 100_000,
        "Bob: hi\n" * 12_000,
        "we switched from " * 6_000,
        "until " * 16_000,
        " " * 100_000,
        "To do it " * 11_000,
    ],
    ids=range(17),
)
@pytest.mark.timeout(30)
def test_a_long_text_is_read_in_bounded_time(text: str) -> None:
    assert len(extract(window([("user", text)])).kept) <= 50


def test_a_pasted_article_about_somebody_says_nothing_of_the_user() -> None:
    article = "Anna Smith lives in Oslo. She works as a nurse. Her dog is called Rex. " * 60
    assert said(("user", article)) == []


def _memories(found: Sequence[Extracted]) -> list[Memory]:
    turn = window([("user", "x")]).turns[0]
    return [memory_of(Grounded(one, turn), ANN, now=NOON, extractor="rules") for one in found]


@pytest.mark.parametrize(
    ("first", "second"), [(before, then) for before, then, *_ in CORRECTED if "TypeScript" not in before]
)
def test_a_correction_stands_in_the_slot_of_what_it_corrects(first: str, second: str) -> None:
    before, after = _memories([said(("user", first))[0], said(("user", first), ("user", second))[-1]])
    slots = {slot_name(before), slot_name(after)}
    assert len(slots) == 1 or before.predicate == after.predicate


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I live in Berlin.", "I moved to Rome."),
        ("I work at Siemens.", "I joined Meta."),
        ("My favourite color is green.", "My favorite colour is blue.".replace("colour", "color")),
        ("My budget for the Hawaii trip is $10,000.", "Our Hawaii vacation budget is 12k."),
        ("I drive a Tesla.", "I drive a Volvo V60."),
        ("We use Postgres 16.", "We use Postgres 17."),
        ("I'm vegetarian.", "I'm vegan."),
        ("I prefer tea over coffee.", "I prefer coffee to tea."),
        ("Please always answer in German.", "From now on, answer in English."),
        ("My name is Clara.", "My name is Klara."),
        ("I love sushi.", "I hate sushi."),
    ],
)
def test_a_later_statement_takes_the_slot_of_the_earlier_one(first: str, second: str) -> None:
    before, after = _memories([said(("user", first))[0], said(("user", second))[0]])
    assert slot_name(before) is not None
    assert slot_name(before) == slot_name(after)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I have a dog named Biscuit.", "I have a dog named Rex."),
        ("I speak German.", "I speak French."),
        ("I love sushi.", "I love chess."),
        ("I own a kayak.", "I own a piano."),
        ("I'm allergic to nuts.", "I'm allergic to eggs."),
        ("My sister lives in Oslo.", "I live in Rome."),
    ],
)
def test_statements_that_hold_together_have_slots_of_their_own(first: str, second: str) -> None:
    before, after = _memories([said(("user", first))[0], said(("user", second))[0]])
    assert slot_name(before) != slot_name(after)


def test_what_is_known_from_before_can_be_corrected() -> None:
    (known,) = _memories(said(("user", "My budget for the Hawaii trip is $10,000.")))
    (found,) = said(("user", "The Hawaii budget is 15,000 now."), known=[known])
    assert found.intent is Intent.CORRECT
    assert "15,000" in found.content
    assert "Hawaii" in found.content


def test_what_is_known_from_before_can_be_taken_back() -> None:
    (known,) = _memories(said(("user", "My dog is called Biscuit.")))
    (found,) = said(("user", "I don't have a dog anymore."), known=[known])
    assert found.intent is Intent.FORGET
    assert found.object == "Biscuit"


def test_turns_that_are_not_new_are_only_context() -> None:
    asked = window([("user", "My budget for the Hawaii trip is $10,000."), ("user", "No, it's 15,000 now.")])
    later = Window(turns=asked.turns, new_ids=frozenset({asked.turns[1].id}))
    (found,) = extract(later).kept
    assert found.candidate.content == "User's budget for the Hawaii trip is $15,000."
    assert found.turn is asked.turns[1]


def test_until_a_day_ends_what_is_said() -> None:
    (found,) = said(("user", "I'm in Lisbon until Friday."))
    assert found.valid_to == datetime(2024, 5, 4, tzinfo=UTC)


def test_since_a_year_begins_what_is_said() -> None:
    (found,) = said(("user", "I have lived in Rome since 2020."))
    assert found.valid_from == datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "days"),
    [
        ("on 13 October", "2024-10-13", 1),
        ("October 13, 2025", "2025-10-13", 1),
        ("2024-06-01", "2024-06-01", 1),
        ("tomorrow", "2024-05-02", 1),
        ("on Friday", "2024-05-03", 1),
        ("next Friday", "2024-05-10", 1),
        ("last Friday", "2024-04-26", 1),
        ("in June", "2024-06-01", 30),
        ("in 2020", "2020-01-01", 366),
        ("in two weeks", "2024-05-15", 1),
        ("3 days ago", "2024-04-28", 1),
        ("next week", "2024-05-06", 7),
        ("next month", "2024-06-01", 30),
        ("this weekend", "2024-05-04", 2),
        ("the 20th", "2024-05-20", 1),
        ("1.12.", "2024-12-01", 1),
        ("by the day after tomorrow", "2024-05-03", 1),
    ],
)
def test_days_are_resolved_against_the_day_they_are_said(text: str, start: str, days: int) -> None:
    day = dates.find(text, NOON)
    assert day is not None
    assert day.start.isoformat() == start
    assert day.end - day.start == timedelta(days=days)


@pytest.mark.parametrize("text", ["30 February", "no day", "may I", "march on", "32nd of never"])
def test_what_is_no_day_names_none(text: str) -> None:
    assert dates.find(text, NOON) is None


def test_every_statement_can_be_understood_alone() -> None:
    for sentence, *_ in STATED:
        for one in said(("user", sentence)):
            assert msgspec.structs.asdict(one)["subject"]
            assert len(one.content.split()) >= 3
            assert not set(one.content.lower().split()) & {"i", "my", "me", "we", "our"}, one.content
            assert one.kind is not Kind.TURN


def test_nothing_is_read_from_many_sentences_that_say_nothing() -> None:
    assert said(*(("user", text) for text in NOTHING if "Forget" not in text and "not" not in text)) == []
