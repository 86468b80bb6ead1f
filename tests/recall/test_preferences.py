"""Questions for advice bring what the user likes, avoids and has in that matter, and nothing of other matters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.memory import Trust
from memproxy.core.topics import asks_advice, states_preference, topics_of
from memproxy.models.embed import FastembedEmbedder
from memproxy.settings import EmbeddingSettings
from tests.recall.making import Bench, asking, bench, fact
from tests.recall.waiting import until_ready
from tests.support.shared import MODEL_PATH, needs_model

KNOWN = {
    "nuts": "User is allergic to peanuts",
    "vegan": "User's sister Clara is vegan",
    "jazz": "User loves jazz and dislikes techno",
    "beach": "User prefers beach holidays to city trips",
    "editor": "User prefers Python to Java",
    "dog": "User has a dog named Biscuit",
    "boss": "User's manager is Karen",
    "running": "User enjoys running in the morning",
}
ADVICE = [
    ("Can you recommend a recipe for dinner?", {"nuts"}, {"jazz", "beach", "editor", "boss"}),
    ("Suggest a dessert for tonight", {"nuts"}, {"jazz", "beach", "editor", "boss", "running"}),
    ("Which concert should I go to this weekend?", {"jazz"}, {"nuts", "editor", "boss"}),
    ("Help me plan a vacation for August", {"beach"}, {"nuts", "jazz", "boss", "editor"}),
    ("What language should I learn for the backend?", {"editor"}, {"nuts", "jazz", "boss", "beach"}),
]


@asynccontextmanager
async def somebody(folder: Path, *, model: bool) -> AsyncIterator[Bench]:
    embedder = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH), folder) if model else None
    if embedder is not None:
        await embedder.start()
        await until_ready(embedder)
    async with bench(folder / "store", embedder=embedder) as it:
        await it.put(*(fact(text, id=name) for name, text in KNOWN.items()))
        yield it
    if embedder is not None:
        await embedder.close()


@pytest.mark.parametrize("model", [False, pytest.param(True, marks=[needs_model, pytest.mark.model])])
async def test_advice_is_given_with_what_is_known_in_the_matter(tmp_path: Path, model: bool) -> None:
    async with somebody(tmp_path, model=model) as it:
        for question, wanted, unwanted in ADVICE:
            answer = await it.recall.recall(asking(question))
            given = {citation.memory_id for citation in answer.citations}
            assert wanted <= given, question
            assert not unwanted & given, question


async def test_a_question_that_asks_for_no_advice_brings_no_preferences(tmp_path: Path) -> None:
    async with somebody(tmp_path, model=False) as it:
        for question in ("How is bread baked?", "Who wrote the recipe book?", "Translate: I like wine and cheese"):
            assert (await it.recall.recall(asking(question))).result == "empty", question


async def test_what_only_the_assistant_said_is_no_preference_of_the_user(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.put(fact("User loves spicy food", id="guess", trust=Trust.ASSISTANT))
        assert (await it.recall.recall(asking("Recommend a restaurant for dinner"))).result == "empty"


@given(st.text(max_size=300))
def test_any_text_can_be_looked_at(text: str) -> None:
    asks_advice(text)
    states_preference(text)
    topics_of(text)
