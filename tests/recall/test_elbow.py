from memproxy.core.protocol import RecallLimits
from memproxy.recall.hops import DECAY
from memproxy.recall.search import Scored
from memproxy.recall.select import ELBOW, Limits, select
from memproxy.settings import Settings
from tests.recall.making import NOW, fact

LIMITS = Limits.of(Settings(), RecallLimits())
INFINITE = float("inf")


def rejected(*scores: float, elbow: float = ELBOW, hops: int = 0) -> list[str | None]:
    found = [
        Scored(memory=fact(f"fact {place}"), score=score, signals={"hops": float(hops)} if hops else {})
        for place, score in enumerate(scores)
    ]
    return [one.rejected for one in select(found, LIMITS, present=frozenset(), now=NOW, elbow=elbow)]


def test_nothing_follows_a_sharp_drop() -> None:
    assert rejected(0.97, 0.95, 0.8, 0.78) == [None, None, "elbow", "elbow"]


def test_a_gentle_slope_goes_down_to_the_floor() -> None:
    assert rejected(0.9, 0.8, 0.7, 0.61, 0.59) == [None, None, None, None, "score"]


def test_scores_that_are_no_probabilities_have_no_elbow() -> None:
    assert rejected(1.0, 0.65, elbow=INFINITE) == [None, None]
    assert rejected(1.0, 0.65) == [None, "elbow"]


def test_the_floor_looks_at_what_a_memory_would_score_without_its_distance() -> None:
    assert rejected(0.9 * DECAY, hops=1) == [None]
    assert rejected(0.5 * DECAY, hops=1) == ["score"]
    assert rejected(0.9 * DECAY**3, hops=3) == [None]
