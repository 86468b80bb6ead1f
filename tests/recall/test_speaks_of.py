"""Questions that look general are searched for when the user's memories speak of what they ask."""

import msgspec
import pytest

from memproxy.core.protocol import RecallRequest
from memproxy.recall.speaks_of import raised_floor
from tests.recall.making import Bench, asking, fact, turn


def general(text: str) -> RecallRequest:
    return msgspec.structs.replace(asking(text), verdict="fact", only_if_told=True)


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of France?",
        "How tall is Mount Everest?",
        "Wie hoch ist der Mont Blanc?",
        "秘鲁的首都是哪里？",
    ],
)
async def test_what_the_user_never_spoke_of_is_skipped_as_a_fact(it: Bench, question: str) -> None:
    await it.put(turn("My dog Biscuit is a beagle."), fact("User's budget for the Hawaii vacation is $10,000"))
    answer = await it.recall.recall(general(question))
    assert (answer.result, answer.reason) == ("skipped", "fact")


@pytest.mark.parametrize("question", ["What is the capital of France?", "What does Joanna play?"])
async def test_without_memories_it_is_skipped_as_a_fact(it: Bench, question: str) -> None:
    answer = await it.recall.recall(general(question))
    assert (answer.result, answer.reason) == ("skipped", "fact")


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("My cat Everest is 4 years old.", "How old is Everest?"),
        ("Joanna plays the cello in an orchestra.", "What instrument does Joanna play?"),
        ("The recital of the girls is on Friday at six.", "When is the recital?"),
        ("The locker code is 4471.", "What is 4471 for?"),
        ("Der Elternabend ist am 12. Mai um acht.", "Wann ist der Elternabend?"),
    ],
)
async def test_what_the_user_spoke_of_is_searched_for(it: Bench, told: str, question: str) -> None:
    await it.put(turn(told), turn("My dog Biscuit is a beagle."), fact("User likes green tea"))
    answer = await it.recall.recall(general(question))
    assert answer.result != "skipped"
    assert answer.query == question


async def test_a_rare_word_among_many_memories_is_enough(it: Bench) -> None:
    await it.put(*(turn(f"We talked about plan {number} today.", id=f"t{number}") for number in range(30)))
    await it.put(turn("The capital of the association is 25,000 euros.", id="capital"))
    answer = await it.recall.recall(general("what is the capital"))
    assert answer.result != "skipped"


def test_the_floor_is_raised_and_stays_within_bounds() -> None:
    assert [raised_floor(floor) > floor for floor in (0.0, 0.4, 0.6, 0.9)] == [True] * 4
    assert raised_floor(1.0) == 1.0
