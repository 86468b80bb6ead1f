import math

from hypothesis import given
from hypothesis import strategies as st

from memproxy.core import fusion
from memproxy.core.fusion import Evidence

UNIT = st.floats(0, 1)
EVIDENCE = st.builds(Evidence, st.none() | st.floats(-1, 1), st.floats(0, 50), UNIT)


@given(st.lists(EVIDENCE, max_size=200), st.integers(0, 40))
def test_every_score_is_a_number_between_0_and_1(evidence: list[Evidence], terms: int) -> None:
    scores = fusion.scores(evidence, terms)
    assert len(scores) == len(evidence)
    assert all(0 <= score <= 1 for score in scores)


@given(st.lists(EVIDENCE, min_size=2, max_size=30), st.floats(0.01, 5))
def test_better_matching_words_never_lower_a_score(evidence: list[Evidence], more: float) -> None:
    one = Evidence(evidence[0].cosine, evidence[0].bm25 + 0.01, evidence[0].coverage)
    better = [Evidence(one.cosine, one.bm25 + more, one.coverage), one, *evidence[1:]]
    scores = fusion.scores(better, 3)
    assert scores[0] >= scores[1]


@given(st.lists(st.builds(Evidence, st.floats(-1, 1), st.floats(0, 50), UNIT), min_size=1, max_size=30), UNIT)
def test_a_nearer_vector_never_lowers_a_score(evidence: list[Evidence], more: float) -> None:
    one = evidence[0]
    assert one.cosine is not None
    better = [Evidence(min(1.0, one.cosine + more), one.bm25, one.coverage), *evidence]
    scores = fusion.scores(better, 3)
    assert scores[0] >= scores[1]


def test_a_term_that_few_memories_have_says_more() -> None:
    documents = [frozenset({1, 2}), frozenset({2}), frozenset({2, 3})]
    weights = fusion.term_weights(frozenset({1, 2, 9}), frozenset(), documents)
    assert weights[1] > weights[2] > 0
    assert weights[9] == weights[1], "a word that nobody has may be said in other words"


def test_a_generic_term_says_little() -> None:
    weights = fusion.term_weights(frozenset({1, 2}), frozenset({2}), [frozenset({1, 2})])
    assert math.isclose(weights[2], fusion.GENERIC_WEIGHT * weights[1])


def test_coverage_is_the_weighted_part_of_the_query() -> None:
    assert fusion.coverage({1: 3.0, 2: 1.0}, frozenset({1})) == 0.75
    assert fusion.coverage({}, frozenset({1})) == 0.0


def test_nothing_has_no_scores() -> None:
    assert fusion.scores([], 3) == []
