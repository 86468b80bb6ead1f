from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memproxy.errors import ConfigError
from memproxy.evals.vector_cache import CachedEmbedder, VectorCache, until_ready
from memproxy.models.embedding import NoEmbedder
from memproxy.ports import Passage, Question


class LettersEmbedder:
    """Counts letters: a vector for each sentence, and the texts that were asked for."""

    dimension = 2
    state = "ready"

    def __init__(self, name: str = "letters", scale: float = 1.0) -> None:
        self.name = name
        self.asked: list[str] = []
        self._scale = scale

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def embed_question(self, text: str) -> Question:
        self.asked.append(text)
        return Question(vector=self._vector(text))

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        self.asked += texts
        return [Passage(parts=[self._vector(part) for part in text.split(".")]) for text in texts]

    def _vector(self, text: str) -> list[float]:
        return [self._scale * text.count("a"), float(len(text))]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    made = VectorCache(tmp_path / "new" / "folder")
    yield made
    made.close()


async def started(inner: LettersEmbedder, cache: VectorCache) -> CachedEmbedder:
    embedder = CachedEmbedder(inner, cache)
    await embedder.start()
    inner.asked.clear()
    return embedder


async def test_a_text_is_embedded_once_whoever_asks(cache: VectorCache) -> None:
    inner = LettersEmbedder()
    first = await (await started(inner, cache)).embed_passages(["banana.ape", "fig", "fig"])
    assert [one.parts for one in first] == [[[3.0, 6.0], [1.0, 3.0]], [[0.0, 3.0]], [[0.0, 3.0]]]
    assert inner.asked == ["banana.ape", "fig"]
    assert await (await started(inner, cache)).embed_passages(["fig", "banana.ape"]) == [first[1], first[0]]
    assert inner.asked == []


class SpellingEmbedder(LettersEmbedder):
    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        return [
            Passage(parts=one.parts, tokens=text.encode())
            for one, text in zip(await super().embed_passages(texts), texts, strict=True)
        ]


async def test_a_text_that_was_kept_without_its_tokens_is_embedded_again(cache: VectorCache) -> None:
    first = await started(LettersEmbedder(), cache)
    await first.embed_passages(["fig"])
    with cache._connection as db:  # as a cache of the time before tokens
        db.execute("DELETE FROM tokens")
    inner = SpellingEmbedder()
    embedder = await started(inner, cache)
    for _ in range(2):
        passages = await embedder.embed_passages(["fig", "kiwi"])
        assert [one.tokens for one in passages] == [b"fig", b"kiwi"]
    assert inner.asked == ["fig", "kiwi"]


async def test_another_model_has_vectors_of_its_own(cache: VectorCache) -> None:
    await (await started(LettersEmbedder(), cache)).embed_passages(["banana"])
    for other in (LettersEmbedder("other"), LettersEmbedder(scale=2.0)):
        await (await started(other, cache)).embed_passages(["banana"])
        assert other.asked == ["banana"]


async def test_queries_are_embedded_anew_and_what_that_takes_is_told(cache: VectorCache) -> None:
    inner = LettersEmbedder()
    embedder = await started(inner, cache)
    await embedder.embed_question("where?")
    spent, cost = embedder.meter()
    assert spent == cost > 0
    await embedder.embed_question("where?")
    assert embedder.meter()[1] == cost
    assert inner.asked == ["where?", "where?"]
    assert embedder.meter() == (0.0, 0.0)


async def test_filling_embeds_what_is_missing_in_another_model_of_the_same_kind(cache: VectorCache) -> None:
    inner, bulk = LettersEmbedder(), LettersEmbedder()
    embedder = await started(inner, cache)
    await embedder.embed_passages(["kiwi"])
    inner.asked.clear()
    missing = await embedder.missing(["banana", "kiwi", "fig", "fig"])
    assert missing == ["fig", "banana"]
    steps: list[int] = []
    await embedder.fill(missing, bulk, steps.append)
    assert sum(steps) == len("fig" + "banana")
    await embedder.embed_passages(["fig", "banana"])
    assert (inner.asked, bulk.asked) == ([], ["fig", "banana"])


async def test_without_a_model_the_message_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="--lexical"):
        await until_ready(NoEmbedder(2))


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--cache"):
        VectorCache(tmp_path / "file")
