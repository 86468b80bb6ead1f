"""What was said later about the same thing stands before what was said first."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from memproxy.models.embed import FastembedEmbedder
from memproxy.settings import EmbeddingSettings, Settings
from tests.recall.making import NOW, Bench, asking, bench, turn
from tests.recall.waiting import until_ready
from tests.support.shared import MODEL_PATH, needs_model

PATIENT = Settings.model_validate({"recall": {"deadline_ms": 60_000}})
OTHERS = ("We planted beans.", "My sister rang about the wedding.", "I read a book on bees.", "The boiler is loud.")

pytestmark = [pytest.mark.model, needs_model]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Bench]:
    embedder = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=True), tmp_path / "cache")
    await embedder.start()
    await until_ready(embedder)
    async with bench(tmp_path / "store", embedder=embedder, settings=PATIENT) as made:
        yield made
    await embedder.close()


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
async def test_the_later_of_two_statements_stands_first(shop: Bench, first: str, then: str, question: str) -> None:
    told = [*OTHERS[:2], first, *OTHERS[2:], then]
    await shop.put(
        *(turn(text, session_id=f"s{day}", created_at=NOW - timedelta(days=30 - day)) for day, text in enumerate(told))
    )
    answer = await shop.recall.recall(asking(question))
    lines = [one.snippet for one in answer.citations]
    assert then in lines
    assert lines.index(then) == 0
