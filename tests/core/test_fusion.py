import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core import fusion
from memproxy.core.fusion import Array

UNIT = st.floats(0, 1)
SIGNALS = st.lists(st.tuples(st.just(math.nan) | st.floats(-1, 1), st.floats(0, 50), UNIT), max_size=200)


def columns(signals: list[tuple[float, float, float]], terms: int) -> dict[str, Array]:
    """The columns of candidates given as cosine, BM25 and coverage."""
    cosine, bm25, coverage = np.array(signals, dtype=float).reshape(-1, 3).T
    return fusion.columns(cosine, bm25, coverage, terms)


@given(SIGNALS, st.integers(0, 40))
def test_every_column_is_finite_and_has_one_value_per_candidate(
    signals: list[tuple[float, float, float]], terms: int
) -> None:
    found = columns(signals, terms)
    assert all(values.shape == (len(signals),) and np.isfinite(values).all() for values in found.values())


@given(st.lists(st.floats(-1e9, 1e9), max_size=20))
def test_every_score_is_a_number_between_0_and_1(odds: list[float]) -> None:
    scores = fusion.probability(np.array(odds))
    assert ((scores > 0) & (scores < 1)).all()


def test_a_candidate_without_a_vector_stands_nowhere() -> None:
    found = columns([(math.nan, 1.0, 0.5), (0.6, 1.0, 0.5), (0.2, 0.0, 0.0)], 2)
    assert found["cosine_standing"][0] == 0
    assert found["cosine_standing"][1] > found["cosine_standing"][2]
    assert list(found["other_words"]) == [0, 0, 1]


def test_a_term_that_few_memories_have_says_more() -> None:
    held = np.array([[True, False, False], [True, True, True], [False, False, False]])
    weights = fusion.term_weights([1, 2, 9], frozenset(), held)
    assert weights[0] > weights[1] > 0
    assert weights[2] == weights[0], "a word that nobody has may be said in other words"


def test_a_generic_term_says_little() -> None:
    weights = fusion.term_weights([1, 2], frozenset({2}), np.array([[True], [True]]))
    assert math.isclose(weights[1], fusion.GENERIC_WEIGHT * weights[0])


def test_coverage_is_the_weighted_part_of_the_query() -> None:
    held = np.array([[True, False], [False, False]])
    assert fusion.coverage(np.array([3.0, 1.0]), held).tolist() == [0.75, 0.0]
    assert fusion.coverage(np.array([]), np.zeros((0, 1), dtype=bool)).tolist() == [0.0]
