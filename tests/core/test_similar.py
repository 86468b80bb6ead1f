"""Two readings of one message, in other words."""

import pytest

from memproxy.core.similar import alike, terms

YACHT = "User has a yacht in Monaco harbour"


@pytest.mark.parametrize(
    "again",
    [
        YACHT,
        "The user owns a yacht moored in Monaco",
        "User's yacht is kept in Monaco harbour",
        "Monaco harbour: yacht",
    ],
)
def test_other_words_for_it_are_it(again: str) -> None:
    assert alike(terms(YACHT), terms(again))


@pytest.mark.parametrize("other", ["User has a dog named Biscuit", "User's yacht is 12 metres long", "User", ""])
def test_what_else_a_message_tells_is_not(other: str) -> None:
    assert not alike(terms(YACHT), terms(other))


def test_another_amount_is_another_statement() -> None:
    assert not alike(terms("Budget for Hawaii is $10,000"), terms("Budget for Norway is $5,000"))
