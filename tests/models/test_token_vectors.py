from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastembed import TextEmbedding

from memproxy.core.text import split_parts
from memproxy.core.vectors import similarities
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.embedding import TEXT_BATCH, Batcher, unit
from memproxy.models.encoder import load_fastembed
from memproxy.ports import Embedder, Question
from memproxy.settings import EmbeddingSettings, Settings
from memproxy.tasks import TaskOwner
from memproxy.wiring.engine_parts import make_embedder
from tests.support.folders import Folders
from tests.support.model import of_model, ready
from tests.support.shared import MODEL_PATH

TEXTS = [
    "What's my budget for the trip?",
    "User's budget for the Hawaii vacation is $10,000.",
    "Ja, und was kostet das?! \U0001f600",
    "",
    "... !?",
    "a long one " * 200,
]


@pytest.fixture(scope="module")
def cache(folders: Folders) -> Iterator[Path]:
    """Where the copy of the model for questions is kept, so that it is made once."""
    with folders.new("models") as folder:
        yield folder


@pytest.fixture
async def embedder(cache: Path) -> AsyncIterator[Embedder]:
    async with ready(FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=True), cache)) as made:
        yield made


@of_model
def test_the_vector_of_a_text_is_what_it_was_without_those_of_its_tokens(tmp_path: Path) -> None:
    encode, _ = load_fastembed(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=True), tmp_path)
    model = TextEmbedding(EmbeddingSettings().model, specific_model_path=str(MODEL_PATH), threads=1)
    before = [unit(vector) for vector in model.embed(TEXTS, batch_size=TEXT_BATCH)]
    assert [one.vector for one in encode(TEXTS)] == before


@of_model
@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("Как зовут мою кошку?", True),
        ("ما اسم قطتي؟", True),
        ("我的车停在哪儿？", True),
        ("ผมจอดรถไว้ที่ไหน", True),
        ("What is my cat called, and what does order 7f3k9q2x cost?", False),
        ("Wie heißt unsere Katze?", False),
        ("¿Cómo se llama mi gata?", False),
        ("", False),
    ],
)
async def test_a_question_of_which_the_model_knows_no_words_is_unread(
    embedder: Embedder, text: str, unread: bool
) -> None:
    assert (await embedder.embed_question(text)).unread is unread


@of_model
def test_what_is_unread_is_seen_without_vectors_of_tokens_too(tmp_path: Path) -> None:
    encode, _ = load_fastembed(EmbeddingSettings(model_path=MODEL_PATH, token_vectors=False), tmp_path)
    assert [(one.unread, one.tokens) for one in encode(["Как зовут мою кошку?", "My cat"])] == [
        (True, None),
        (False, None),
    ]


@of_model
async def test_a_question_has_a_unit_vector_for_each_token_that_is_a_word(embedder: Embedder) -> None:
    question = await embedder.embed_question("What's my budget, for snorkeling?")
    assert question.words == ["what", "s", "my", "budget", "for", "s", "##nor", "##kel", "##ing"]
    assert question.tokens is not None
    assert question.tokens.shape == (9, 384)
    assert question.tokens.dtype == np.float32
    assert np.linalg.norm(question.tokens, axis=1) == pytest.approx(1)
    assert await embedder.embed_question("What's my budget, for snorkeling?") is question


@of_model
async def test_a_passage_has_the_vectors_of_all_its_parts_and_its_first_tokens(embedder: Embedder) -> None:
    long = "My dog is named Biscuit. " + "The trip to Hawaii is in May. " * 40
    short, whole, empty, marks = await embedder.embed_passages(["We fly in May.", long, "", "?!"])
    assert len(whole.parts) == len(split_parts(long)) > 1
    for text, passage in (("We fly in May.", short), (long, whole)):
        assert await embedder.embed_passages([text]) == [passage]
    assert empty.tokens == marks.tokens == b""
    asked = (await embedder.embed_question("Biscuit")).tokens
    assert asked is not None
    there, not_there = similarities(asked, [whole.tokens, short.tokens]).mean(axis=1)
    assert there > not_there + 0.2


@of_model
async def test_without_token_vectors_there_are_none(tmp_path: Path) -> None:
    settings = EmbeddingSettings(model_path=MODEL_PATH, token_vectors=False, query_precision="fp32")
    async with ready(FastembedEmbedder(settings, tmp_path)) as made:
        (passage,) = await made.embed_passages(["We fly in May."])
        question = await made.embed_question("We fly in May.")
    assert (passage.tokens, question.tokens, question.words) == (b"", None, [])
    assert passage.parts == [question.vector]


async def test_what_is_kept_of_questions_is_bounded_by_what_its_vectors_take() -> None:
    asked: list[str] = []

    async def encode(texts: Sequence[str]) -> list[Question]:
        asked.extend(texts)
        return [Question(vector=[1.0], tokens=np.ones((30 if text == "d" else 10, 100), np.float32)) for text in texts]

    queries = Batcher(TaskOwner("test"), encode, most_bytes=9_000)
    for text in ("abbc", "bc", "dd", "bc", "a"):  # d is larger than all that may be kept
        for one in text:
            await queries.submit(one)
    assert asked == list("abcdda")


@of_model
@pytest.mark.parametrize(
    ("recall", "kept"),
    [({}, True), ({"recipe": "vectors"}, False), ({"stages": ["fused", "late"]}, True), ({"stages": ["fused"]}, False)],
)
async def test_tokens_are_kept_where_recall_ranks_by_them(cache: Path, recall: dict[str, Any], *, kept: bool) -> None:
    settings = Settings.model_validate({"recall": recall, "embedding": {"model_path": str(MODEL_PATH)}})
    async with ready(make_embedder(settings, cache)) as made:
        (passage,) = await made.embed_passages(["I adopted a beagle named Biscuit"])
    assert bool(passage.tokens) is kept
