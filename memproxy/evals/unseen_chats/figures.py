"""The figures: is what is injected relevant, complete and current?

A probe with an answer counts for ``any`` and ``all`` (gold that is injected; a fact counts as the turns it came from),
for ``precision`` (injected lines that are gold; lenient: or acceptable) and for the rank of the first gold among all
that was found; ``first@1`` and ``all@8`` tell what the order alone would give, without a floor. A probe without an
answer counts for ``needless``. Probes with turns that mislead count for ``misled``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec
import numpy as np

from memproxy.evals.scoring import RESAMPLES, SEED, divided, figure
from memproxy.evals.unseen_chats.data import Probe
from memproxy.evals.unseen_chats.memory import Given, Line

WITHIN = 8
"""The default of ``recall.limit``."""


class Outcome(msgspec.Struct, frozen=True):
    """A probe and what it got."""

    probe: Probe
    given: Given

    @property
    def answerable(self) -> bool:
        """Whether something that was said helps."""
        return bool(self.probe.gold)

    @property
    def covered(self) -> int:
        """How many of the needed turns are injected."""
        turns = frozenset[str]().union(*(line.turns for line in self.given.lines))
        return sum(bool(part & turns) for part in self.probe.gold)

    def found_within(self, places: int) -> int:
        """How many of the needed turns are among the first so many that were found, whatever the floor says."""
        turns = frozenset[str]().union(*(line.turns for line in self.given.found[:places]))
        return sum(bool(part & turns) for part in self.probe.gold)

    @property
    def first_rank(self) -> float:
        """The place of the first gold among all that was found; infinite when there is none."""
        ranks = (rank for rank, line in enumerate(self.given.found, start=1) if kind_of(line, self.probe) == "gold")
        return next(ranks, math.inf)


def kind_of(line: Line, probe: Probe) -> str:
    """``gold``, ``misleading``, ``acceptable`` or ``other``: what a found memory is to a probe."""
    if any(part & line.turns for part in probe.gold):
        return "gold"
    if line.turns & probe.never:
        return "misleading"
    return "acceptable" if line.turns & probe.acceptable else "other"


def _lines(outcome: Outcome, *kinds: str) -> float:
    return float(sum(kind_of(line, outcome.probe) in kinds for line in outcome.given.lines))


Metric = Callable[[Outcome], tuple[float, float]]
"""Numerator and denominator of one probe; a figure is the sum of the first by the sum of the second."""


def _of_answerable(measure: Callable[[Outcome], float]) -> Metric:
    return lambda one: (float(measure(one)), 1.0) if one.answerable else (0.0, 0.0)


def _of_unanswerable(measure: Callable[[Outcome], float]) -> Metric:
    return lambda one: (0.0, 0.0) if one.answerable else (float(measure(one)), 1.0)


def _precision(*kinds: str) -> Metric:
    return lambda one: (_lines(one, *kinds), float(len(one.given.lines))) if one.answerable else (0.0, 0.0)


METRICS: Mapping[str, Metric] = {
    "any": _of_answerable(lambda one: one.covered > 0),
    "all": _of_answerable(lambda one: one.covered == len(one.probe.gold)),
    "precision": _precision("gold"),
    "precision_lenient": _precision("gold", "acceptable"),
    "lines": _of_answerable(lambda one: len(one.given.lines)),
    "not_searched": _of_answerable(lambda one: one.given.skipped is not None),
    "first@1": _of_answerable(lambda one: one.first_rank == 1),
    "all@8": _of_answerable(lambda one: one.found_within(WITHIN) == len(one.probe.gold)),
    "needless": _of_unanswerable(lambda one: bool(one.given.lines)),
    "needless_lenient": _of_unanswerable(lambda one: _lines(one, "other", "misleading") > 0),
    "misled": lambda one: (float(_lines(one, "misleading") > 0), 1.0) if one.probe.never else (0.0, 0.0),
}


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All figures of these probes, with 95 % intervals from resampling the people (probes of one are alike)."""
    users = sorted({one.probe.user for one in outcomes})
    drawn = np.random.default_rng(SEED).integers(0, len(users), (RESAMPLES, len(users)))
    made: dict[str, Any] = {"probes": len(outcomes), "answerable": sum(one.answerable for one in outcomes)}
    for name, metric in METRICS.items():
        sums = np.zeros((len(users), 2))
        for one in outcomes:
            sums[users.index(one.probe.user)] += metric(one)
        total, resampled = sums.sum(axis=0), sums[drawn].sum(axis=1)
        value = float(divided(*total.reshape(2, 1))[0])
        made[name] = figure(value, divided(resampled[:, 0], resampled[:, 1]))
    ranks = [one.first_rank for one in outcomes if one.answerable]
    middle = median(ranks) if ranks else math.inf
    return made | {"median_rank": None if math.isinf(middle) else middle}


def by_groups(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures of all probes, and of each group, language and size of memory."""
    made = {"all": figures(outcomes)}
    for of in ("group", "language", "size"):
        for name in dict.fromkeys(sorted(getattr(one.probe, of) for one in outcomes)):
            chosen = [one for one in outcomes if getattr(one.probe, of) == name]
            made[f"{of}: {name}"] = figures(chosen)
    return made


def told(outcome: Outcome, texts: Mapping[str, str]) -> dict[str, Any]:
    """One probe, for looking into: where its gold is, what speaks against it, and what is injected."""
    probe, given = outcome.probe, outcome.given
    return {
        "id": probe.id,
        "group": probe.group,
        "before": list(probe.before),
        "ask": probe.ask,
        "any": outcome.covered > 0 if probe.gold else None,
        "all": outcome.covered == len(probe.gold) if probe.gold else None,
        "skipped": given.skipped,
        "degraded": given.degraded,
        "tokens": given.tokens,
        "gold": [_where(part, given, texts) for part in probe.gold],
        "injected": [
            {
                "kind": kind_of(line, probe),
                "score": line.score,
                "memory": line.memory,
                "text": texts.get(line.memory) or " / ".join(texts[turn] for turn in sorted(line.turns)),
            }
            for line in given.lines
        ],
    }


def _where(part: frozenset[str], given: Given, texts: Mapping[str, str]) -> dict[str, Any]:
    """The best of these turns: its place, its score, and why it is not injected."""
    text = " | ".join(texts[turn] for turn in sorted(part))
    for rank, line in enumerate(given.found, start=1):
        if part & line.turns:
            return {"text": text, "rank": rank, "score": line.score, "rejected": line.rejected}
    return {"text": text, "rank": None, "score": None, "rejected": None}
