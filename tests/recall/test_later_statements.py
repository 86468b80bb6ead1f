"""What was said later about the same thing stands before what was said first."""

from datetime import timedelta

import pytest

from tests.recall.making import NOW, Bench, asking, turn
from tests.support.shared import needs_model

OTHERS = ("We planted beans.", "My sister rang about the wedding.", "I read a book on bees.", "The boiler is loud.")

pytestmark = [pytest.mark.model, needs_model]


@pytest.mark.parametrize(
    ("first", "then", "question"),
    [
        (
            "The staging database runs on port 5432.",
            "We moved staging's database to port 6543.",
            "Which port is staging on?",
        ),
        ("My gym is FitBox on Main Street.", "I left FitBox, my gym is now Ironworks.", "Which gym do I go to?"),
    ],
)
async def test_the_later_of_two_statements_stands_first(
    with_model: Bench, first: str, then: str, question: str
) -> None:
    told = [*OTHERS[:2], first, *OTHERS[2:], then]
    await with_model.put(
        *(turn(text, session_id=f"s{day}", created_at=NOW - timedelta(days=30 - day)) for day, text in enumerate(told))
    )
    answer = await with_model.recall.recall(asking(question))
    lines = [one.snippet for one in answer.citations]
    assert then in lines
    assert lines.index(then) == 0
