"""What was said later about the same thing stands before what was said first."""

from datetime import timedelta

import pytest

from tests.recall.making import NOW, Bench, asking, turn
from tests.support.shared import needs_model

OTHERS = ("We planted beans.", "My sister rang about the wedding.", "I read a book on bees.", "The boiler is loud.")

pytestmark = [pytest.mark.model, needs_model, pytest.mark.asyncio(loop_scope="module")]


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
    assert lines[0] == then
    assert first not in lines


async def said(bench: Bench, *texts: str) -> None:
    await bench.put(
        *(turn(text, session_id=f"s{day}", created_at=NOW - timedelta(days=30 - day)) for day, text in enumerate(texts))
    )


async def test_what_was_replaced_is_given_to_who_asks_what_was_before(with_model: Bench) -> None:
    first, then = "My gym is FitBox on Main Street.", "I left FitBox, my gym is now Ironworks."
    await said(with_model, *OTHERS[:2], first, *OTHERS[2:], then)
    answer = await with_model.recall.recall(asking("Which gym did I use to go to before?"))
    assert first in [one.snippet for one in answer.citations]


async def test_what_only_asks_takes_the_place_of_nothing(with_model: Bench) -> None:
    told, asked = (
        "We have a parrot, an African grey called Admiral.",
        "Please draw a sign for our parrot, an African grey.",
    )
    await said(with_model, *OTHERS, told, asked)
    answer = await with_model.recall.recall(asking("What is our parrot called?"))
    assert told in [one.snippet for one in answer.citations]


async def test_two_things_that_hold_side_by_side_are_both_given(with_model: Bench) -> None:
    cat, dog = "Our cat Duchess is 15 and drinks a lot.", "Our dog Rex is 3 and barks a lot."
    await said(with_model, *OTHERS[:2], cat, *OTHERS[2:], dog)
    answer = await with_model.recall.recall(asking("Which pets do we have?"))
    assert {cat, dog} <= {one.snippet for one in answer.citations}


async def test_what_only_mentions_the_same_thing_later_hides_no_answer(with_model: Bench) -> None:
    told, mentioned = "My gym is FitBox on Main Street.", "I was at the gym with Tom on Sunday."
    await said(with_model, *OTHERS[:2], told, *OTHERS[2:], mentioned)
    answer = await with_model.recall.recall(asking("Which gym do I go to?"))
    assert told in [one.snippet for one in answer.citations]


async def test_a_profile_has_the_new_state_before_the_old_one(with_model: Bench) -> None:
    old = "Can you help me plan the week? I work Tuesday to Friday at the bakery, 5 am starts."
    new = "I had to give up the bakery, starting at a garden centre on the 1st, 8 to 4."
    others = (
        "My knee is torn, no running.",
        "We got a cat called Biro.",
        "I am learning Portuguese.",
        "I play the bass.",
    )
    await said(with_model, *others, old, *OTHERS, *others, new)
    answer = await with_model.recall.recall(asking("What do you know about me?"))
    context = answer.context
    assert 0 < context.index("garden centre") < context.find("work Tuesday to Friday") % len(context)
