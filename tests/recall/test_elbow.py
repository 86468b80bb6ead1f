from memproxy.recall.links import DECAY
from memproxy.recall.ranking import Scored
from memproxy.recall.select import ELBOW, select
from tests.recall.making import LIMITS, NOW, fact

INFINITE = float("inf")


def rejected(*scores: float, elbow: float = ELBOW, hops: int = 0) -> list[str | None]:
    found = [
        Scored(memory=fact(f"fact {place}"), score=score, signals={"hops": float(hops)} if hops else {})
        for place, score in enumerate(scores)
    ]
    return [one.rejected for one in select(found, LIMITS, present=frozenset(), now=NOW, elbow=elbow)]


def test_beside_what_surely_answers_nothing_hardly_likely_is_given() -> None:
    assert rejected(0.97, 0.95, 0.6, 0.5) == [None, None, "elbow", "elbow"]


def test_a_gentle_slope_goes_down_to_the_floor() -> None:
    assert rejected(0.9, 0.8, 0.7, 0.5, 0.31, 0.29) == [None, None, None, None, None, "score"]


def test_scores_that_are_no_probabilities_have_no_elbow() -> None:
    assert rejected(1.0, 0.4, elbow=INFINITE) == [None, None]
    assert rejected(1.0, 0.4) == [None, "elbow"]


def test_that_an_edge_was_walked_counts_before_the_floor_and_how_many_were_does_not() -> None:
    assert rejected(0.9 * DECAY, hops=1) == [None]
    assert rejected(0.4 * DECAY, hops=1) == ["score"]
    assert rejected(0.9 * DECAY**3, hops=3) == [None]
