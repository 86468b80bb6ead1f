"""Times told by an event: what the question says, and which days that is."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.occasion import Days, dated, days_of, occasion_of
from memproxy.core.timerange import spans, told

EVENT = Days(date(2024, 5, 3), date(2024, 5, 4))
TODAY = date(2024, 9, 1)
NOW = datetime(2024, 9, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did I do two days before my birthday?", "What did I do on 1 May 2024?"),
        ("What did I do the day before my birthday?", "What did I do on 2 May 2024?"),
        ("What did we do the night before our wedding?", "What did we do on 2 May 2024?"),
        ("Who visited us in the week after my wedding?", "Who visited us from 4 May 2024 to 10 May 2024?"),
        ("Where was I the weekend before Anna's wedding?", "Where was I from 27 April 2024 to 28 April 2024?"),
        ("Where was I the weekend after Anna's wedding?", "Where was I from 4 May 2024 to 5 May 2024?"),
        ("3 weeks after the move to Lisbon, who called?", "from 21 May 2024 to 27 May 2024, who called?"),
        ("What have I tried since I moved to Berlin?", "What have I tried since 2024-05-03?"),
        ("What did I eat on my birthday?", "What did I eat on my birthday (on 3 May 2024)?"),
        ("What did I sell before our move?", "What did I sell before our move (from 3 April 2024 to 2 May 2024)?"),
    ],
)
def test_a_time_told_by_an_event_is_written_as_days(question: str, expected: str) -> None:
    occasion = occasion_of(question)
    assert occasion is not None
    days = days_of(occasion, EVENT, TODAY)
    assert days is not None
    written = dated(question, occasion, days, TODAY)
    assert written == expected
    assert [(span.start.date(), span.end.date()) for span in spans(written, NOW)] == [(days.first, days.end)]


@pytest.mark.parametrize(
    "question",
    ["What is my budget?", "What do I eat before dinner?", "Since when?", "How have I been since the last time?", ""],
)
def test_other_questions_go_by_no_event(question: str) -> None:
    assert occasion_of(question) is None


@pytest.mark.parametrize(
    ("statement", "first", "end"),
    [
        ("My wedding is on 20 October.", date(2024, 10, 20), date(2024, 10, 21)),
        ("We married on March 28th.", date(2024, 3, 28), date(2024, 3, 29)),
        ("Our wedding was on 20 June 2019.", date(2019, 6, 20), date(2019, 6, 21)),
        ("I move tomorrow.", date(2024, 9, 2), date(2024, 9, 3)),
        ("The surgery is next Wednesday.", date(2024, 9, 4), date(2024, 9, 5)),
        ("We fly in two weeks.", date(2024, 9, 12), date(2024, 9, 19)),
        ("The party was yesterday.", date(2024, 8, 31), date(2024, 9, 1)),
        ("My surgery is next month.", date(2024, 10, 1), date(2024, 11, 1)),
        ("The exam is next week.", date(2024, 9, 2), date(2024, 9, 9)),
    ],
)
def test_a_statement_may_name_what_is_to_come(statement: str, first: date, end: date) -> None:
    assert [(span.start.date(), span.end.date()) for span in told(statement, NOW)] == [(first, end)]


def test_a_day_that_does_not_exist_names_nothing() -> None:
    assert told("My wedding is on February 30th.", NOW) == []
    assert spans("What did I do from 30 February 2024 to 2 March 2024?", NOW) == []


@given(text=st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    occasion = occasion_of(text)
    assert occasion is None or occasion.text in text


WAYS = st.sampled_from(
    ["two days before", "the week after", "since", "on", "the weekend before", "10 years after", "the year before"]
)


@given(way=WAYS, first=st.dates(), length=st.integers(1, 30), today=st.dates(max_value=date(9999, 12, 30)))
def test_days_lie_on_the_side_that_the_question_says(way: str, first: date, length: int, today: date) -> None:
    occasion = occasion_of(f"Where was I {way} my birthday?")
    assert occasion is not None
    try:
        event = Days(first, first + timedelta(days=length))
    except OverflowError:
        return
    days = days_of(occasion, event, today)
    if days is None:  # outside of the calendar
        return
    assert days.first < days.end
    if "before" in way:
        assert days.end <= event.first
    if "after" in way:
        assert days.first >= event.first
