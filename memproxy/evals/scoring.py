"""The figures of one evaluation, with bootstrap intervals.

Recall of a set of gold items at k is the part of them among the first k found. A session ranks by its best turn;
recall_any is 1 when at least one gold session is among the first k sessions, recall_all when all are. NDCG@10 takes
binary gains, discounted by log2(rank + 1), over the best that the gold allows (not the best of what was found). MRR is
one by the rank of the first gold turn, 0 when none was found.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.evals.dataset import Question

RESAMPLES = 1000
CONFIDENCE = 0.95
SEED = 7

Array = NDArray[np.float64]


DEPTH = 60
"""Turns asked for: enough to hold ten sessions nearly always, and what recall itself looks at."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for one question.

    ``turns`` are the ids and sessions of the turns found, best first. ``injected`` are the ids in the block that the
    proxy would inject, ``context`` that block and ``tokens`` its size; ``degraded`` says why recall gave up, if it did.
    ``milliseconds`` is what recall took without embedding the query, ``embedding_ms`` that (None where the two cannot
    be told apart).
    """

    turns: list[tuple[str, str]]
    injected: list[str]
    context: str = ""
    tokens: int
    degraded: str | None
    milliseconds: float
    embedding_ms: float | None


class Outcome(msgspec.Struct, frozen=True):
    """A question and what was found for it."""

    question: Question
    found: Found


def by_group(outcomes: Sequence[Outcome], total: str) -> dict[str, list[Outcome]]:
    """The questions that count, under the name ``total``, and those of each group; groups without any left out."""
    groups = {total: [outcome for outcome in outcomes if outcome.question.scored]}
    for name in sorted({outcome.question.group for outcome in outcomes}):
        groups[name] = [outcome for outcome in outcomes if outcome.question.group == name]
    return {name: group for name, group in groups.items() if group}


class Figure(msgspec.Struct, frozen=True):
    """A value and the 95 % interval that resampling the questions gives; all NaN when no question defines it."""

    value: float
    low: float
    high: float


Metric = Callable[[Outcome], tuple[float, float]]
"""Numerator and denominator of one question; a figure is the sum of the first by the sum of the second."""


def turn_recall(k: int) -> Metric:
    """The part of the gold turns among the first ``k``."""

    def measure(outcome: Outcome) -> tuple[float, float]:
        return _part(outcome.question.gold_turns, [turn for turn, _ in outcome.found.turns[:k]])

    return measure


def session_recall(k: int, *, needed: Callable[[Sequence[bool]], bool]) -> Metric:
    """Whether ``any`` or ``all`` of the gold sessions are among the first ``k``."""

    def measure(outcome: Outcome) -> tuple[float, float]:
        gold = outcome.question.gold_sessions
        best = list(dict.fromkeys(session for _, session in outcome.found.turns))[:k]
        return (float(needed([session in best for session in gold])), 1.0) if gold else (0.0, 0.0)

    return measure


def ndcg_at_10(outcome: Outcome) -> tuple[float, float]:
    """Normalised discounted cumulative gain over the first ten turns."""
    gold = outcome.question.gold_turns
    gains = [_discount(rank) for rank, (turn, _) in enumerate(outcome.found.turns[:10], start=1) if turn in gold]
    ideal = sum(_discount(rank) for rank in range(1, min(10, len(gold)) + 1))
    return (sum(gains) / ideal, 1.0) if gold else (0.0, 0.0)


def reciprocal_rank(outcome: Outcome) -> tuple[float, float]:
    """One by the rank of the first gold turn."""
    gold = outcome.question.gold_turns
    ranks = (rank for rank, (turn, _) in enumerate(outcome.found.turns, start=1) if turn in gold)
    return (next((1 / rank for rank in ranks), 0.0), 1.0) if gold else (0.0, 0.0)


def evidence_in_block(outcome: Outcome) -> tuple[float, float]:
    """The part of the gold turns that would be injected."""
    return _part(outcome.question.gold_turns, outcome.found.injected)


def block_precision(outcome: Outcome) -> tuple[float, float]:
    """The part of what would be injected that is evidence, over all lines of all blocks."""
    lines = outcome.found.injected
    return float(sum(line in outcome.question.gold_turns for line in lines)), float(len(lines))


def _part(gold: frozenset[str], retrieved: Sequence[str]) -> tuple[float, float]:
    return (len(gold.intersection(retrieved)) / len(gold), 1.0) if gold else (0.0, 0.0)


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 1)


METRICS: Mapping[str, Metric] = {
    "turn_recall@5": turn_recall(5),
    "turn_recall@10": turn_recall(10),
    "turn_recall@20": turn_recall(20),
    "session_recall_any@5": session_recall(5, needed=any),
    "session_recall_any@10": session_recall(10, needed=any),
    "session_recall_all@5": session_recall(5, needed=all),
    "session_recall_all@10": session_recall(10, needed=all),
    "ndcg@10": ndcg_at_10,
    "mrr": reciprocal_rank,
    "evidence_in_block": evidence_in_block,
    "block_precision": block_precision,
    "blocks": lambda outcome: (float(bool(outcome.found.injected)), 1.0),
    "lines": lambda outcome: (float(len(outcome.found.injected)), 1.0),
    "tokens": lambda outcome: (float(outcome.found.tokens), 1.0),
}
"""What is reported: shares in [0, 1], but for ``lines`` and ``tokens`` of a block on average over all questions."""


class Sample:
    """Figures of a group, each a numerator and a denominator for every member: the sum of the first by the sum of the
    second. Members are resampled in the same way for every group of that size, so that two recipes over the same
    questions are compared question by question.
    """

    def __init__(self, pairs: Mapping[str, Sequence[tuple[float, float]]]) -> None:
        self._pairs = {name: np.array(parts, dtype=np.float64).reshape(-1, 2) for name, parts in pairs.items()}

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Sample":
        """The `METRICS` of these questions."""
        return cls({name: [metric(outcome) for outcome in outcomes] for name, metric in METRICS.items()})

    def values(self, name: str) -> Array:
        """The value, and after it those of `RESAMPLES` resampled groups; NaN where there is nothing to divide by."""
        pairs = self._pairs[name]
        drawn = np.random.default_rng(SEED).integers(0, max(1, len(pairs)), (RESAMPLES, len(pairs)))
        sums = np.concatenate([pairs.sum(axis=0, keepdims=True), pairs[drawn].sum(axis=1)])
        ratios: Array = np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=sums[:, 1] > 0)
        return ratios

    def figures(self) -> dict[str, Figure]:
        return {name: figure(self.values(name)) for name in self._pairs}

    def differences(self, other: "Sample") -> dict[str, Figure]:
        """By how much these figures are above ``other``'s, which must be of the same questions in the same order."""
        return {name: figure(self.values(name) - other.values(name)) for name in self._pairs}


def figure(values: Array) -> Figure:
    """A value with the interval of the resampled ones behind it; those that nothing defines (NaN) aside."""
    value, defined = float(values[0]), values[1:][~np.isnan(values[1:])]
    if math.isnan(value) or not defined.size:
        return Figure(math.nan, math.nan, math.nan)
    edge = (1 - CONFIDENCE) / 2
    low, high = np.quantile(defined, (edge, 1 - edge))
    return Figure(value, float(low), float(high))


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99; empty when nothing was measured."""
    if not milliseconds:
        return {}
    quantiles = np.percentile(np.array(milliseconds), (50, 95, 99))
    return {name: round(float(value), 3) for name, value in zip(("p50", "p95", "p99"), quantiles, strict=True)}


def latency(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Milliseconds of recall (the block, as a request waits for it): without embedding the query, and with it."""
    whole = [row.found.milliseconds + row.found.embedding_ms for row in outcomes if row.found.embedding_ms is not None]
    return {
        "recall": percentiles([row.found.milliseconds for row in outcomes]),
        "recall_with_embedding": percentiles(whole),
    }
