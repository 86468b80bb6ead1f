import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.evals import scoring
from memproxy.evals.dataset import Question
from memproxy.evals.scoring import Found, Outcome, Sample
from tests.fitting.logistic import Ordered, fit


def outcome(
    found: list[str], gold: list[str], *, injected: tuple[str, ...] = (), tokens: int = 0, took: float = 1.0
) -> Outcome:
    """Turns are named ``session.turn``."""
    return Outcome(
        Question(
            id="q",
            user="u",
            text="?",
            group="g",
            asked_at=datetime(2024, 1, 1, tzinfo=UTC),
            gold_turns=frozenset(gold),
            gold_sessions=frozenset(turn.partition(".")[0] for turn in gold),
        ),
        Found(
            turns=[(turn, turn.partition(".")[0]) for turn in found],
            injected=list(injected),
            tokens=tokens,
            degraded=None,
            milliseconds=took,
            embedding_ms=2.0,
        ),
    )


def values(*outcomes: Outcome) -> dict[str, float]:
    return {name: figure.value for name, figure in Sample.of(outcomes).figures().items()}


def test_turn_recall_is_the_part_of_the_gold_that_is_found_early() -> None:
    found = values(outcome(["a.1", "b.1", "b.2", "c.1", "c.2", "a.2"], ["a.1", "a.2"]))
    assert found["turn_recall@5"] == 0.5
    assert found["turn_recall@10"] == 1.0


def test_a_session_ranks_by_its_best_turn() -> None:
    found = values(outcome(["a.1", "a.2", "a.3", "a.4", "b.1", "c.1", "d.1", "e.1", "f.1"], ["e.1", "f.1"]))
    assert (found["session_recall_any@5"], found["session_recall_all@5"]) == (1.0, 0.0)
    assert found["session_recall_all@10"] == 1.0


def test_ndcg_is_measured_against_what_the_gold_allows() -> None:
    found = values(outcome(["x.1", "a.1"], ["a.1", "a.2"]))
    assert found["ndcg@10"] == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    assert found["mrr"] == 0.5


def test_precision_counts_lines_over_all_blocks() -> None:
    found = values(
        outcome([], ["a.1"], injected=("a.1", "x.1", "x.2"), tokens=30), outcome([], ["b.1"], injected=("b.1",)),
        outcome([], ["c.1"]),
    )  # fmt: skip
    assert found["block_precision"] == 0.5
    assert found["evidence_in_block"] == pytest.approx(2 / 3)
    assert found["blocks"] == pytest.approx(2 / 3)
    assert found["lines"] == pytest.approx(4 / 3)
    assert found["tokens"] == 10


def test_what_no_question_defines_has_no_value() -> None:
    found = values(outcome(["a.1"], []))
    assert math.isnan(found["turn_recall@5"])
    assert math.isnan(found["block_precision"])
    assert found["tokens"] == 0


@given(st.lists(st.sampled_from(["a.1", "b.1", "c.1"]), min_size=1, max_size=30))
def test_intervals_lie_around_their_figure_and_are_the_same_every_time(golds: list[str]) -> None:
    outcomes = [outcome(["a.1", "b.1"], [gold]) for gold in golds]
    for name, figure in Sample.of(outcomes).figures().items():
        if not math.isnan(figure.value):
            assert figure.low - 1e-9 <= figure.value <= figure.high + 1e-9, name
    assert Sample.of(outcomes).figures()["mrr"] == Sample.of(outcomes).figures()["mrr"]


def test_two_recipes_are_compared_question_by_question() -> None:
    worse = Sample.of([outcome(["x.1", "a.1"], ["a.1"]) for _ in range(20)])
    better = Sample.of([outcome(["a.1"], ["a.1"]) for _ in range(20)])
    difference = better.differences(worse)["mrr"]
    assert (difference.value, difference.low, difference.high) == (0.5, 0.5, 0.5)


def test_latency_is_told_with_and_without_embedding() -> None:
    times = scoring.latency([outcome([], [], took=value) for value in (1.0, 2.0, 3.0)])
    assert times["recall"]["p50"] == 2.0
    assert times["recall_with_embedding"]["p50"] == 4.0


CHANCE = np.random.default_rng(7)


def test_the_weights_that_made_the_labels_are_found_again() -> None:
    features = CHANCE.normal(size=(4000, 2))
    labels = (CHANCE.random(4000) < 1 / (1 + np.exp(-(0.5 + features @ [2.0, -1.0])))).astype(float)
    assert np.allclose(fit(features, labels, np.ones(4000)), [0.5, 2.0, -1.0], atol=0.25)


def test_lists_decide_what_comes_first_where_single_rows_say_little() -> None:
    """The first column tells right from wrong within a list, and lists from each other the wrong way round."""
    shift = np.repeat(np.arange(50.0), 4) * -1
    labels = np.tile([1.0, 0.0, 0.0, 0.0], 50) * (np.repeat(np.arange(50), 4) % 2)
    features = (labels + shift)[:, None]
    lists = [Ordered(start, start + 4, 5.0) for start in range(0, 200, 4) if labels[start : start + 4].any()]
    alone, ordered = (fit(features, labels, np.ones(200), some)[1] for some in ([], lists))
    assert ordered > alone


def test_log_odds_that_are_there_already_are_not_learned_again() -> None:
    features = CHANCE.normal(size=(4000, 1))
    labels = (CHANCE.random(4000) < 1 / (1 + np.exp(-2 * features[:, 0]))).astype(float)
    assert np.allclose(fit(features, labels, np.ones(4000), offsets=2 * features[:, 0]), [0.0, 0.0], atol=0.15)
