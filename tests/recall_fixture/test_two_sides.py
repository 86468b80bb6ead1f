"""Of two things that a question compares, or of all that it counts, everything is given."""

from tests.recall.making import Bench
from tests.recall_fixture.test_everyday import block
from tests.recall_fixture.two_sides import TWO_SIDES

LEAST_GIVEN = {"words": 11, "model": 13}
"""Of 15 questions: those for which everything is given (5 and 8 when only the whole question was searched)."""


async def test_both_things_that_a_question_compares_are_given(side: tuple[str, Bench]) -> None:
    name, known = side
    blocks = [await block(known, f"both{place}", case) for place, case in enumerate(TWO_SIDES)]
    given = [
        case.asked
        for case, found in zip(TWO_SIDES, blocks, strict=True)
        if all(answer in found for answer in case.answers)
    ]
    assert len(given) >= LEAST_GIVEN[name], given
    assert sum("Malta" in found for found in blocks) <= 1
