from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core import timerange
from memproxy.core.timerange import asks_for_latest, spans, spans_in_statement

NOW = datetime(2023, 5, 30, 12, tzinfo=UTC)  # a Tuesday


def days(text: str) -> list[tuple[date, date]]:
    """First and last day of every time that a text names."""
    return [(span.start.date(), span.end.date() - timedelta(days=1)) for span in spans(text, NOW)]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What did I say on 2023-05-08?", (2023, 5, 8), (2023, 5, 8)),
        ("on May 8, 2023", (2023, 5, 8), (2023, 5, 8)),
        ("on the 8th of May 2022", (2022, 5, 8), (2022, 5, 8)),
        ("on 8 June", (2022, 6, 8), (2022, 6, 8)),
        ("in May 2023", (2023, 5, 1), (2023, 5, 31)),
        ("in December", (2022, 12, 1), (2022, 12, 31)),
        ("what happened in 2021", (2021, 1, 1), (2021, 12, 31)),
        ("yesterday", (2023, 5, 29), (2023, 5, 29)),
        ("the day before yesterday", (2023, 5, 28), (2023, 5, 28)),
        ("day before yesterday", (2023, 5, 28), (2023, 5, 28)),
        ("last week", (2023, 5, 22), (2023, 5, 28)),
        ("last month", (2023, 4, 1), (2023, 4, 30)),
        ("last year", (2022, 1, 1), (2022, 12, 31)),
        ("last weekend", (2023, 5, 27), (2023, 5, 28)),
        ("last Tuesday", (2023, 5, 23), (2023, 5, 23)),
        ("on Monday", (2023, 5, 29), (2023, 5, 29)),
        ("ten days ago", (2023, 5, 20), (2023, 5, 20)),
        ("two weeks ago", (2023, 5, 13), (2023, 5, 19)),
        ("in the past three months", (2023, 3, 1), (2023, 5, 30)),
        ("What have I tried since 2023-05-08?", (2023, 5, 8), (2023, 5, 30)),
        ("since 8 May", (2023, 5, 8), (2023, 5, 30)),
        ("Where was I from 27 April 2023 to 3 May 2023?", (2023, 4, 27), (2023, 5, 3)),
    ],
)
def test_a_time_named_in_a_question_is_found(
    text: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    assert days(text) == [(date(*first), date(*last))]


@pytest.mark.parametrize(
    "text",
    [
        "on 30 February 2023",
        "My wedding is on February 30th.",
        "from 30 February 2023 to 2 March 2023",
        "2023-13-40",
        "May I ask you something?",
        "march on",
        "",
        "999 years ago " * 3000,
    ],
)
def test_what_is_no_date_names_no_time(text: str) -> None:
    assert all(span.start.year < NOW.year - 100 for span in [*spans(text, NOW), *spans_in_statement(text, NOW)])


@pytest.mark.parametrize(
    ("statement", "first", "last"),
    [
        ("My wedding is on 20 October.", (2023, 10, 20), (2023, 10, 20)),
        ("We married on March 28th.", (2023, 3, 28), (2023, 3, 28)),
        ("Our wedding was on 20 June 2019.", (2019, 6, 20), (2019, 6, 20)),
        ("I move tomorrow.", (2023, 5, 31), (2023, 5, 31)),
        ("The surgery is next Wednesday.", (2023, 5, 31), (2023, 5, 31)),
        ("We fly in two weeks.", (2023, 6, 10), (2023, 6, 16)),
        ("The party was yesterday.", (2023, 5, 29), (2023, 5, 29)),
        ("My surgery is next month.", (2023, 6, 1), (2023, 6, 30)),
        ("The exam is next week.", (2023, 6, 5), (2023, 6, 11)),
    ],
)
def test_a_statement_may_name_what_is_to_come(
    statement: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    (span,) = spans_in_statement(statement, NOW)
    assert (span.start.date(), span.end.date()) == (date(*first), date(*last) + timedelta(days=1))


def test_being_near_is_counted_in_days_outside_of_the_interval() -> None:
    (span,) = spans("in May 2023", NOW)
    assert span.days_away(datetime(2023, 5, 15, tzinfo=UTC)) == 0
    assert span.days_away(datetime(2023, 6, 3, tzinfo=UTC)) == 2
    assert span.days_away(datetime(2023, 4, 30, tzinfo=UTC)) == 1


def test_the_latest_is_asked_for_in_words() -> None:
    assert asks_for_latest("What is my current job?")
    assert asks_for_latest("the LATEST news")
    assert not asks_for_latest("What is my job?")


WORDS = ("last ", "may ", "31 ", "feb ", "0 days ago ", "two weeks back ", "2023-", "9999 ", "in ", "on ", "monday ")
MORE = ("\x00", "this past ", "previous year ", "Yesterday", "tonight ", "the day before ")
NOTABLE = st.sampled_from([*WORDS, *MORE])


@given(st.lists(NOTABLE | st.text(max_size=5), max_size=30), st.datetimes(timezones=st.just(UTC)))
def test_any_text_at_any_time_is_read_without_trouble(parts: list[str], now: datetime) -> None:
    text = "".join(parts)
    found = spans(text, now)
    assert all(span.start < span.end for span in found)
    assert found == timerange._named(text, now, timerange._PATTERNS)  # the quick look misses none
