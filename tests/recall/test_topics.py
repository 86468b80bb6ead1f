"""What bears on a question is found by the topic of both, though they share no word; and a profile answers who asks for
all that is known.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memproxy.models.embed import FastembedEmbedder
from memproxy.recall.topics import Topics, shipped
from memproxy.settings import EmbeddingSettings, Settings
from tests.recall.making import Bench, asking, bench, fact, turn
from tests.recall.waiting import until_ready
from tests.support.shared import MODEL_PATH, needs_model

PATIENT = Settings.model_validate({"recall": {"deadline_ms": 60_000}})

pytestmark = [pytest.mark.model, needs_model]

TOLD = (
    "My daughter Wren can't have sesame at all, we carry two EpiPens.",
    "I play the tenor horn in the town band.",
    "Our landlord raised the rent to 1,940.",
    "My husband Anselm drives a red van.",
    "We moved to Leek in May.",
    "I'm a glaze technician at a tile works.",
)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Bench]:
    embedder = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=True), tmp_path / "cache")
    await embedder.start()
    await until_ready(embedder)
    async with bench(tmp_path / "store", embedder=embedder, settings=PATIENT) as made:
        await made.recall.prepare()
        yield made
    await embedder.close()


async def test_what_somebody_must_not_eat_is_given_to_who_plans_a_dinner(shop: Bench) -> None:
    await shop.put(*(turn(text, session_id=f"s{place}") for place, text in enumerate(TOLD)))
    answer = await shop.recall.recall(asking("Plan a dinner for my family on Saturday"))
    assert "sesame" in answer.context
    assert "rent" not in answer.context


@pytest.mark.parametrize("query", ["What do you know about me?", "What have I told you about myself so far?"])
async def test_who_asks_for_everything_gets_a_profile_of_several_topics(shop: Bench, query: str) -> None:
    await shop.put(*(turn(text, session_id=f"s{place}") for place, text in enumerate(TOLD)))
    answer = await shop.recall.recall(asking(query))
    assert all(word in answer.context for word in ("sesame", "tenor horn", "glaze"))


async def test_a_profile_has_facts_before_messages_and_none_twice(shop: Bench) -> None:
    said = turn("I'm a glaze technician at a tile works.", id="t1", session_id="x")
    await shop.put(said, fact("User is a glaze technician", turn_ids=["t1"]), turn(TOLD[1], session_id="y"))
    answer = await shop.recall.recall(asking("What do you know about me?"))
    assert answer.citations[0].memory_id.startswith("semantic")
    assert "t1" not in {one.memory_id for one in answer.citations}


async def test_a_profile_keeps_to_the_budget(shop: Bench) -> None:
    await shop.put(
        *(turn(f"{TOLD[place % 6]} That was number {place}.", session_id=f"s{place}") for place in range(80))
    )
    answer = await shop.recall.recall(asking("What do you know about me?"))
    assert answer.tokens <= PATIENT.recall.max_tokens
    assert len(answer.citations) > PATIENT.recall.limit


def test_every_topic_has_examples_of_both_kinds() -> None:
    assert all(len(topic.asks) >= 5 and len(topic.tells) >= 5 for topic in shipped().values())


def test_without_vectors_nothing_is_near_to_any_topic() -> None:
    topics = Topics()
    assert not topics.known
    assert topics.inventory([1.0] * 384) is None
