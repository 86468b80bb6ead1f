"""What was said later about the same thing stands before what was said first."""

import pytest

from tests.recall.making import Bench, asking
from tests.support.shared import needs_model

OTHERS = ("We planted beans.", "My sister rang about the wedding.", "I read a book on bees.", "The boiler is loud.")

pytestmark = [pytest.mark.model, needs_model, pytest.mark.asyncio(loop_scope="module")]


FIRST, THEN = "My gym is FitBox on Main Street.", "I left FitBox, my gym is now Ironworks."
CAT, DOG = "Our cat Duchess is 15 and drinks a lot.", "Our dog Rex is 3 and barks a lot."
PARROT = "We have a parrot, an African grey called Admiral."
PORTS = ("The staging database runs on port 5432.", "We moved staging's database to port 6543.")


async def answered(it: Bench, first: str, then: str, question: str) -> list[str]:
    """What is given for a question when these two were said among other things."""
    await it.said(*OTHERS[:2], first, *OTHERS[2:], then)
    return [one.snippet for one in (await it.recall.recall(asking(question))).citations]


@pytest.mark.parametrize(
    ("first", "then", "question"),
    [(*PORTS, "Which port is staging on?"), (FIRST, THEN, "Which gym do I go to?")],
)
async def test_the_later_of_two_statements_stands_first(
    with_model: Bench, first: str, then: str, question: str
) -> None:
    lines = await answered(with_model, first, then, question)
    assert lines[0] == then
    assert first not in lines


@pytest.mark.parametrize(
    ("first", "then", "question", "given"),
    [
        pytest.param(FIRST, THEN, "Which gym did I use to go to before?", {FIRST}, id="asks what was before"),
        pytest.param(
            PARROT,
            "Please draw a sign for our parrot, an African grey.",
            "What is our parrot called?",
            {PARROT},
            id="what only asks takes the place of nothing",
        ),
        pytest.param(CAT, DOG, "Which pets do we have?", {CAT, DOG}, id="both hold"),
        pytest.param(
            FIRST,
            "I was at the gym with Tom on Sunday.",
            "Which gym do I go to?",
            {FIRST},
            id="what only mentions it hides no answer",
        ),
    ],
)
async def test_what_was_said_first_is_given_where_it_answers(
    with_model: Bench, first: str, then: str, question: str, given: set[str]
) -> None:
    assert given <= set(await answered(with_model, first, then, question))


async def test_a_profile_has_the_new_state_before_the_old_one(with_model: Bench) -> None:
    old = "Can you help me plan the week? I work Tuesday to Friday at the bakery, 5 am starts."
    new = "I had to give up the bakery, starting at a garden centre on the 1st, 8 to 4."
    others = (
        "My knee is torn, no running.",
        "We got a cat called Biro.",
        "I am learning Portuguese.",
        "I play the bass.",
    )
    await with_model.said(*others, old, *OTHERS, *others, new)
    answer = await with_model.recall.recall(asking("What do you know about me?"))
    context = answer.context
    assert 0 < context.index("garden centre") < context.find("work Tuesday to Friday") % len(context)
