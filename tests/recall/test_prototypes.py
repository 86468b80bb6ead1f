from pathlib import Path

import numpy as np
import pytest

from memproxy.errors import EmbedderUnavailable
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.no_embedder import NoEmbedder
from memproxy.recall.prototypes import GENERAL, PERSONAL, Prototypes
from memproxy.settings import EmbeddingSettings
from tests.recall.waiting import until_ready
from tests.support.shared import MODEL_PATH, needs_model

GENERAL_ROWS = np.asarray([[1.0, 0.0]] * 3, dtype=np.float32)
PERSONAL_ROWS = np.asarray([[0.0, 1.0]] * 3, dtype=np.float32)


def test_a_query_is_general_only_when_clearly_nearer_to_general_examples() -> None:
    prototypes = Prototypes(GENERAL_ROWS, PERSONAL_ROWS)
    assert prototypes.nearness([0.8, 0.6]) == pytest.approx((0.8, 0.6))
    assert prototypes.is_general([0.8, 0.6])
    assert not prototypes.is_general([0.71, 0.704])
    assert not prototypes.is_general([0.6, 0.8])


def test_a_query_that_is_like_nothing_is_not_general() -> None:
    assert not Prototypes(GENERAL_ROWS, PERSONAL_ROWS).is_general([0.2, 0.0])


def test_one_near_example_is_not_enough() -> None:
    rows = np.asarray([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=np.float32)
    assert not Prototypes(rows, GENERAL_ROWS).is_general([1.0, 0.0])
    assert Prototypes(rows[:1], PERSONAL_ROWS[:1]).is_general([1.0, 0.0])


async def test_without_an_embedder_there_are_none() -> None:
    with pytest.raises(EmbedderUnavailable):
        await Prototypes.embedded(NoEmbedder(384))


def test_the_examples_are_distinct_and_balanced() -> None:
    assert len({*GENERAL, *PERSONAL}) == len(GENERAL) + len(PERSONAL)
    assert len(GENERAL) == len(PERSONAL)


@needs_model
@pytest.mark.model
async def test_the_real_model_tells_general_from_personal_questions(tmp_path: Path) -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH), tmp_path)
    await embedder.start()
    await until_ready(embedder)
    prototypes = await Prototypes.embedded(embedder)
    for text in ("how to change engine oil", "Who invented the telephone?"):
        assert prototypes.is_general(await embedder.embed_query(text)), text
    for text in ("What is the name of the cat?", "Where does Sarah live?", "Which framework did the team pick?"):
        assert not prototypes.is_general(await embedder.embed_query(text)), text
    await embedder.close()
