"""What bears on a question is found by the topic of both, though they share no word; and a profile answers who asks for
all that is known.
"""

import msgspec
import pytest

from memproxy.ports import Embedder
from memproxy.recall.topics import Topics, shipped
from tests.recall.making import PATIENT, Bench, asking, bench, fact, turn
from tests.support.shared import needs_model

pytestmark = [pytest.mark.model, needs_model]
with_one_model = pytest.mark.asyncio(loop_scope="module")

TOLD = (
    "My daughter Wren can't have sesame at all, we carry two EpiPens.",
    "I play the tenor horn in the town band.",
    "Our landlord raised the rent to 1,940.",
    "My husband Anselm drives a red van.",
    "We moved to Leek in May.",
    "I'm a glaze technician at a tile works.",
)


@with_one_model
async def test_what_somebody_must_not_eat_is_given_to_who_plans_a_dinner(with_model: Bench) -> None:
    await with_model.put(*(turn(text, session_id=f"s{place}") for place, text in enumerate(TOLD)))
    answer = await with_model.recall.recall(asking("Plan a dinner for my family on Saturday"))
    assert "sesame" in answer.context
    assert "rent" not in answer.context


@pytest.mark.parametrize(
    ("query", "whole"),
    [
        ("What do you know about me?", True),
        ("What have I told you about myself so far?", True),
        ("¿cómo se llama mi perro?", False),
    ],
)
@with_one_model
async def test_who_asks_for_everything_and_not_for_one_thing_in_spanish_gets_a_profile_of_several_topics(
    with_model: Bench, query: str, whole: bool
) -> None:
    await with_model.put(*(turn(text, session_id=f"s{place}") for place, text in enumerate(TOLD)))
    answer = await with_model.recall.recall(asking(query))
    assert all(word in answer.context for word in ("sesame", "tenor horn", "glaze")) is whole


@with_one_model
async def test_a_question_that_the_model_cannot_read_is_searched_by_words(with_model: Bench) -> None:
    told = ("Мою кошку зовут Булка", "Мама живёт в Самаре", "По вторникам у меня йога", "За квартиру платим 42 тысячи")
    await with_model.put(*(turn(text, session_id=f"s{place}") for place, text in enumerate(told)))
    answer = await with_model.recall.recall(asking("Как зовут мою кошку?"))
    assert [one.snippet for one in answer.citations] == [told[0]]
    assert all("cosine" not in one["signals"] for one in answer.candidates)


@with_one_model
async def test_the_embedder_counts_as_loading_until_everything_can_be_asked_for(loaded_model: Embedder) -> None:
    async with bench(embedder=loaded_model) as made:
        assert made.recall.embedder_state == "loading"
        assert await made.recall.prepare()
        assert made.recall.embedder_state == "ready"


@with_one_model
async def test_a_profile_has_facts_before_messages_and_none_twice(with_model: Bench) -> None:
    said = turn("I'm a glaze technician at a tile works.", id="t1", session_id="x")
    await with_model.put(said, fact("User is a glaze technician", turn_ids=["t1"]), turn(TOLD[1], session_id="y"))
    answer = await with_model.recall.recall(asking("What do you know about me?"))
    assert answer.citations[0].memory_id.startswith("semantic")
    assert "t1" not in {one.memory_id for one in answer.citations}


@with_one_model
async def test_a_profile_has_of_a_message_only_what_it_tells_and_nothing_outdated(with_model: Bench) -> None:
    told = (
        "I take 10 mg of lisinopril for my blood pressure. Does it matter if I have eaten?",
        *TOLD,
        "The doctor raised my lisinopril for my blood pressure to 20 mg. Is that a large dose?",
    )
    await with_model.said(*told)
    answer = await with_model.recall.recall(asking("What do you know about me?"))
    assert "raised my lisinopril" in answer.context
    assert "large dose" not in answer.context
    assert "10 mg" not in answer.context


@with_one_model
async def test_a_profile_keeps_what_an_outdated_message_says_beside(with_model: Bench) -> None:
    told = ("My name is Nora and I live in Porto with my husband Tiago.", *TOLD[:4], "We moved to Lisbon last week.")
    await with_model.said(*told)
    answer = await with_model.recall.recall(asking("What do you know about me?"))
    assert "Nora" in answer.context
    assert "Lisbon" in answer.context


@with_one_model
async def test_a_deadline_is_given_to_who_asks_what_is_coming_up(with_model: Bench) -> None:
    told = (*TOLD[1:5], "my thesis is due 15 september", "I have eye surgery on June 3")
    await with_model.put(*(turn(text, session_id=f"s{place}") for place, text in enumerate(told)))
    answer = await with_model.recall.recall(asking("Which deadlines and appointments do I have coming up?"))
    assert "15 september" in answer.context
    assert "June 3" in answer.context


@with_one_model
async def test_what_looks_general_is_searched_for_where_a_memory_bears_on_its_topic(with_model: Bench) -> None:
    request = msgspec.structs.replace(asking("Write a function that renames files."), only_if_told=True)
    await with_model.put(*(turn(text, session_id=f"s{place}") for place, text in enumerate(TOLD)))
    assert (await with_model.recall.recall(request)).result == "skipped"
    await with_model.put(turn("For code please use tabs, not spaces.", session_id="code"))
    assert (await with_model.recall.recall(request)).result != "skipped"


@with_one_model
async def test_a_profile_keeps_to_the_budget(with_model: Bench) -> None:
    await with_model.put(
        *(turn(f"{TOLD[place % 6]} That was number {place}.", session_id=f"s{place}") for place in range(80))
    )
    answer = await with_model.recall.recall(asking("What do you know about me?"))
    assert answer.tokens <= PATIENT.recall.max_tokens
    assert len(answer.citations) > PATIENT.recall.limit


def test_every_topic_has_examples_of_both_kinds() -> None:
    assert all(len(topic.asks) >= 5 and len(topic.tells) >= 5 for topic in shipped().values())


def test_without_vectors_nothing_is_near_to_any_topic() -> None:
    topics = Topics()
    assert not topics.has_vectors
    assert topics.inventory([1.0] * 384) is None
