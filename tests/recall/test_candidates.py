"""Which of the candidates that a store answers are looked at."""

import msgspec
import numpy as np

from memproxy.ports import Candidate, HybridQuery, SparseVector
from memproxy.recall.ranking import looked_at
from memproxy.recall.recipes import DEFAULT
from tests.recall.making import fact, turn

QUERY = HybridQuery(
    dense=[1.0],
    bm25=SparseVector([2], [1.0]),
    tokens=np.zeros((1, 1), np.float32),
    limit=DEFAULT.by_tokens,
)


def found(place: int, *, bm25: float = 1.0, tokens: bytes = b"") -> Candidate:
    return Candidate(memory=turn(f"message {place}"), cosine=1 - place / 1000, bm25=bm25, tokens=tokens)


def test_without_tokens_as_many_are_looked_at_as_a_search_without_them_finds_and_the_facts() -> None:
    far = Candidate(memory=fact("User is allergic to peanuts"), cosine=0.0, bm25=0.0)
    some = [*(found(place) for place in range(DEFAULT.by_tokens)), far]
    assert looked_at(DEFAULT, QUERY, some) == [*some[: DEFAULT.candidates], far]


def test_what_has_the_words_is_looked_at_however_far_its_vector_is() -> None:
    some = [found(place, bm25=0.0) for place in range(DEFAULT.by_tokens)]
    some[-1] = msgspec.structs.replace(some[-1], bm25=1.0)
    assert looked_at(DEFAULT, QUERY, some) == [*some[: DEFAULT.candidates], some[-1]]


def test_all_are_looked_at_where_one_has_tokens_or_somebody_asked_for_more() -> None:
    some = [found(place) for place in range(DEFAULT.by_tokens)]
    assert looked_at(DEFAULT, msgspec.structs.replace(QUERY, limit=DEFAULT.by_tokens + 1), some) == some
    some[-1] = msgspec.structs.replace(some[-1], tokens=b"t")
    assert looked_at(DEFAULT, QUERY, some) == some
