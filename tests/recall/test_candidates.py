"""Which of what was found is ranked: what stands out, and whatever cannot be compared with it."""

import msgspec
import numpy as np
import pytest

from memproxy.core.memory import Kind
from memproxy.core.tokenvectors import Vectors, pack
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery, SparseVector
from memproxy.recall.candidates import outstanding
from memproxy.recall.recipes import DEFAULT
from memproxy.recall.search import Ranker
from tests.recall.making import NOW, fact, turn

TOKENS: Vectors = np.full((2, 64), 0.125, np.float32)
ASKED = HybridQuery(
    dense=[0.0], bm25=SparseVector(indices=[1, 2], values=[1.0, 1.0]), tokens=TOKENS, words=["a", "b"], limit=100
)
MOST = 3


def found(name: str, *, cosine: float | None, bm25: float, kind: Kind = Kind.TURN) -> Candidate:
    made = turn if kind is Kind.TURN else fact
    return Candidate(memory=made(name, id=name), cosine=cosine, bm25=bm25, tokens=pack(TOKENS))


TURNS = [found(f"turn {place}", cosine=0.5 + place / 100, bm25=1.0) for place in range(5)]
WITHOUT_TOKENS = [msgspec.structs.replace(one, tokens=b"") for one in TURNS]


def ranked(query: HybridQuery, candidates: list[Candidate]) -> list[str]:
    return [one.memory.id for one in outstanding(MOST, query, candidates)[0]]


def test_turns_that_stand_out_by_vector_or_by_words_are_ranked_in_the_order_they_were_found() -> None:
    candidates = [
        found("both a little", cosine=0.25, bm25=0.5),
        found("by words", cosine=0.1, bm25=9.0),
        found("hardly", cosine=0.15, bm25=0.0),
        found("by vector", cosine=0.9, bm25=0.0),
    ]
    assert ranked(ASKED, candidates) == ["both a little", "by words", "by vector"]


def test_facts_are_ranked_beside_the_best_turns() -> None:
    known = found("fact", cosine=0.01, bm25=0.0, kind=Kind.SEMANTIC)
    assert ranked(ASKED, [*TURNS, known]) == ["turn 2", "turn 3", "turn 4", "fact"]


@pytest.mark.parametrize(
    ("query", "candidates"),
    [
        (msgspec.structs.replace(ASKED, tokens=None), TURNS),
        (ASKED, WITHOUT_TOKENS),
        (ASKED, [*TURNS, found("not embedded yet", cosine=None, bm25=1.0)]),
    ],
)
def test_everything_is_ranked_without_tokens_and_while_something_is_not_embedded(
    query: HybridQuery, candidates: list[Candidate]
) -> None:
    assert ranked(query, candidates) == [one.memory.id for one in candidates]


def test_the_ranked_are_held_against_all_that_was_found() -> None:
    ranker = Ranker(Bm25Encoder(), DEFAULT)
    candidates, others = outstanding(MOST, ASKED, TURNS)
    columns = ranker.columns(ranker.batch("a b", ASKED, candidates, NOW, others=others))
    whole = ranker.columns(ranker.batch("a b", ASKED, TURNS, NOW))
    for name in ("cosine_standing", "bm25_standing", "crowd"):
        assert columns[name].tolist() == pytest.approx(whole[name][2:].tolist())
