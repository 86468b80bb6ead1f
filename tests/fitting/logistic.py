"""Weighted logistic regression by Newton's method: enough for a handful of features, and no further dependency."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

RIDGE = 1e-3
_STEPS = 100
_SHORTEST_STEP = 1e-4
_MOST_ODDS = 60.0


class Ordered(msgspec.Struct, frozen=True):
    """Consecutive rows that compete with each other, from ``start`` up to, not including, ``end``: the right ones among
    them should come first. ``weight`` is what the list counts beside single rows. At least one row must be right.
    """

    start: int
    end: int
    weight: float


def fit(
    features: Array, labels: Array, weights: Array, lists: Sequence[Ordered] = (), offsets: Array | None = None
) -> Array:
    """Bias and weights that make ``labels`` (0 or 1, one per row of ``features``) most likely, and with ``lists`` also
    the right rows of each list likely to be drawn from it (softmax over the list; ListNet of Cao and others, 2007).

    Single rows say what a score means, lists what comes before what: wrong rows that nobody would look at, being far
    down, sway single rows and leave lists alone. ``offsets`` are log odds that each row has already.
    """
    given = np.zeros(len(features)) if offsets is None else offsets
    problem = _Problem(np.c_[np.ones(len(features)), features], labels, weights, lists, given)
    found = np.zeros(problem.rows.shape[1])
    loss = problem.loss(found)
    for _ in range(_STEPS):
        step, size = problem.step(found), 1.0
        while (reached := problem.loss(found - size * step)) > loss and size > _SHORTEST_STEP:
            size /= 2
        found, loss = found - size * step, reached
        if np.abs(step).max() < 1e-8 or size <= _SHORTEST_STEP:
            break
    return found


class _Problem(msgspec.Struct):
    rows: Array
    labels: Array
    weights: Array
    lists: Sequence[Ordered]
    offsets: Array

    def loss(self, found: Array) -> float:
        """What is to be made small: the negative log likelihood, and a little for large weights."""
        odds = self._odds(found)
        single = self.weights @ (np.logaddexp(0, odds) - self.labels * odds)
        listed = sum(one.weight * self._surprise(odds[one.start : one.end], one) for one in self.lists)
        return float(single + listed + RIDGE / 2 * found @ found)

    def step(self, found: Array) -> Array:
        """Newton's step, to be taken away."""
        odds = self._odds(found)
        chance = 1 / (1 + np.exp(-odds))
        slope = self.rows.T @ (self.weights * (chance - self.labels)) + RIDGE * found
        curve = (self.rows * (self.weights * chance * (1 - chance))[:, None]).T @ self.rows
        for one in self.lists:
            rows, drawn = self.rows[one.start : one.end], _softmax(odds[one.start : one.end])
            mean = drawn @ rows
            slope += one.weight * (rows.T @ (drawn - self._wanted(one)))
            curve += one.weight * ((rows * drawn[:, None]).T @ rows - np.outer(mean, mean))
        step: Array = np.linalg.solve(curve + RIDGE * np.eye(len(found)), slope)
        return step

    def _odds(self, found: Array) -> Array:
        odds: Array = np.clip(self.rows @ found + self.offsets, -_MOST_ODDS, _MOST_ODDS)
        return odds

    def _wanted(self, one: Ordered) -> Array:
        right = self.labels[one.start : one.end]
        wanted: Array = right / right.sum()
        return wanted

    def _surprise(self, odds: Array, one: Ordered) -> float:
        most = odds.max()
        return float(most + np.log(np.exp(odds - most).sum()) - self._wanted(one) @ odds)


def _softmax(odds: Array) -> Array:
    raised = np.exp(odds - odds.max())
    result: Array = raised / raised.sum()
    return result
