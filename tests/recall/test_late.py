"""Late interaction: candidates compared with a question token by token."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from memproxy.core.memory import Memory, Trust
from memproxy.core.vectors import Vectors, pack
from memproxy.models.embedding import NoEmbedder
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery, Passage, Question
from memproxy.recall.query import Query
from memproxy.recall.ranking import Ranker, Scored
from memproxy.recall.recipes import DEFAULT
from tests.recall.making import NOW, asking, bench, conversation, fact, turn

LEXICAL = Bm25Encoder()
WORDS = ["where", "is", "the", "harbour"]
SOURCE = np.random.default_rng(5)


def units(rows: int) -> Vectors:
    made = SOURCE.normal(size=(rows, 384)).astype(np.float32)
    found: Vectors = made / np.linalg.norm(made, axis=1, keepdims=True)
    return found


ASKED = units(len(WORDS))
NEAR, FAR = pack(np.concatenate([ASKED, units(6)])), pack(units(10))


def ranked(
    candidates: Sequence[Candidate], tokens: Vectors | None = ASKED, text: str = "where is the harbour"
) -> list[Scored]:
    query = HybridQuery(dense=[1.0], bm25=LEXICAL.encode_query(text), tokens=tokens, words=WORDS)
    return Ranker(LEXICAL, DEFAULT).rank(Query(text, NOW), query, candidates)


def candidate(memory: Memory, tokens: bytes) -> Candidate:
    return Candidate(memory=memory, cosine=0.3, bm25=0.0, tokens=tokens)


def scores(found: Sequence[Scored]) -> dict[str, float]:
    return {one.memory.content: one.score for one in found}


def test_of_equal_vectors_the_one_with_the_questions_tokens_comes_first() -> None:
    others = [candidate(turn(f"remark {number}"), pack(units(10))) for number in range(20)]
    found = ranked([*others, candidate(turn("the port lies to the east"), NEAR)])
    assert found[0].memory.content == "the port lies to the east"
    assert found[0].signals["late"] > found[1].signals["late"]


def test_a_turn_beside_one_that_is_near_is_lifted() -> None:
    talk = conversation("a", "b", "c", "d", "e")
    apart = msgspec.structs.replace(turn("elsewhere"), session_id="s9")
    found = scores(
        ranked(
            [candidate(one, NEAR if place == 1 else FAR) for place, one in enumerate(talk)] + [candidate(apart, FAR)]
        )
    )
    assert found["b"] > found["c"] > found["e"]
    assert found["a"] > found["e"]


def test_an_assistants_near_answer_lifts_the_turns_beside_it_only_where_its_words_are_asked_for() -> None:
    def lift(question: str, trust: Trust) -> float:
        """In log odds: what lies behind the best has so little chance that differences of the scores are small."""
        said = [msgspec.structs.replace(one, trust=Trust.USER) for one in conversation("a", "b", "c", "d", "e")]
        said[1] = msgspec.structs.replace(said[1], trust=trust)
        found = [candidate(one, NEAR if place == 1 else FAR) for place, one in enumerate(said)]
        odds = {one.memory.content: math.log(one.score / (1 - one.score)) for one in ranked(found, text=question)}
        return odds["c"] - odds["e"]

    assert lift("where is my harbour", Trust.USER) > 1
    assert lift("where is my harbour", Trust.ASSISTANT) < lift("where is my harbour", Trust.USER) / 2
    assert lift("where did you say my harbour is", Trust.ASSISTANT) > 1


@pytest.mark.parametrize("tokens", [None, np.zeros((0, 384), np.float32), units(3)[:, :200]])
def test_without_comparable_tokens_of_the_question_candidates_rank_as_without_any(tokens: Vectors | None) -> None:
    plain = [Candidate(memory=fact(text), cosine=cosine, bm25=1.0) for text, cosine in (("x", 0.5), ("y", 0.2))]
    with_tokens = [msgspec.structs.replace(one, tokens=NEAR) for one in plain]
    assert scores(ranked(with_tokens, tokens)) == scores(ranked(plain, None))


def test_a_candidate_without_tokens_is_judged_by_its_vector_and_words() -> None:
    """While the tokens of older memories are being made."""
    old, new = candidate(turn("old"), b""), candidate(turn("new"), NEAR)
    assert scores(ranked([old, new]))["old"] == pytest.approx(scores(ranked([old, new], None))["old"])
    assert scores(ranked([old, new]))["new"] != pytest.approx(scores(ranked([old, new], None))["new"])


def test_a_part_of_the_candidates_is_compared_as_it_is_by_itself() -> None:
    candidates = [candidate(turn(f"remark {number}"), pack(units(10))) for number in range(6)]
    query = HybridQuery(bm25=LEXICAL.encode_query("harbour"), tokens=ASKED, words=WORDS)
    ranker = Ranker(LEXICAL, DEFAULT)
    whole = ranker.table(Query("harbour", NOW), query, candidates)
    assert np.isfinite(whole.similarities).all()
    part = ranker.table(Query("harbour", NOW), query, candidates[:3])
    np.testing.assert_allclose(whole.part([0, 1, 2]).similarities, part.similarities, atol=1e-6)


def test_turns_that_were_compared_keep_their_order_and_facts_their_scores() -> None:
    """How sure the best turn is, and how far the others fall behind it, is decided after the order."""
    told = [candidate(fact("the ferry leaves at noon"), NEAR)]
    said = [candidate(turn(f"remark {place}"), pack(ASKED[:place])) for place in range(1, 5)]
    found, without = ranked([*told, *said]), ranked([*told, *said], None)
    order = [one.memory.content for one in found if one.memory.content.startswith("remark")]
    assert order == ["remark 4", "remark 3", "remark 2", "remark 1"]
    assert scores(found)[told[0].memory.content] == pytest.approx(scores(without)[told[0].memory.content])


class Drawn(NoEmbedder):
    """Every text at random; ``tokens`` are the question's, ``packed`` every memory's."""

    def __init__(self, tokens: Vectors | None, packed: bytes) -> None:
        super().__init__(384)
        self._tokens = tokens
        self._packed = packed

    async def embed_question(self, text: str) -> Question:
        return Question(vector=units(1)[0].tolist(), tokens=self._tokens, words=WORDS)

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        return [Passage(parts=units(1).tolist(), tokens=self._packed) for _ in texts]


@pytest.mark.parametrize(
    ("tokens", "packed", "expected"),
    [(ASKED, FAR, DEFAULT.by_tokens), (None, FAR, DEFAULT.candidates), (ASKED, b"", DEFAULT.candidates)],
)
async def test_more_candidates_are_looked_at_where_question_and_memories_have_tokens(
    tokens: Vectors | None, packed: bytes, expected: int
) -> None:
    async with bench(embedder=Drawn(tokens, packed)) as it:
        await it.put(*conversation(*(f"remark {number}" for number in range(DEFAULT.by_tokens + 5))))
        answer = await it.recall.recall(asking("where is the harbour"), explained=1_000)
    assert len(answer.candidates) == expected
