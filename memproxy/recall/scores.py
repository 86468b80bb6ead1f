"""From columns to scores: which of a recipe's weights count for which candidate, and what their sums mean."""

import numpy as np
from numpy.typing import NDArray

from memproxy.core import fusion
from memproxy.recall.batch import Array, Batch
from memproxy.recall.recipes import BIAS, LATE, Recipe, Weights
from memproxy.recall.stages import Columns

LEAD = 1.5
"""How many times the distance to the best turn counts where turns were compared token by token. Of two that match
almost alike one may be the evidence as well as the other, so both are given; what lies behind the best is seldom
evidence (of what is injected on LoCoMo 0.56 is, without this 0.48; docs/recall.md). No order of turns changes.
"""

FEW = 30
"""Among fewer candidates than this the distance counts nearly as it is: there are not as many to be wrong."""


def scores(recipe: Recipe, batch: Batch, columns: Columns) -> Array:
    """One score in [0, 1] for each candidate, by the weights ``lexical`` for those without a vector, ``late`` for turns
    that were compared token by token, and ``hybrid`` for all others.
    """
    count, by_words = len(batch.memories), np.isnan(batch.cosine)
    sums = weighted(columns, recipe.hybrid, count)
    if recipe.late is not None and LATE in recipe.stages:
        compared = batch.has_tokens & (batch.is_turn > 0)
        if compared.any():
            sums = np.where(compared, _by_tokens(weighted(columns, recipe.late, count), sums, compared), sums)
    if by_words.any():
        sums = np.where(by_words, weighted(columns, recipe.lexical, count), sums)
    return fusion.probability(sums) if recipe.calibrated else np.clip(sums, 0.0, 1.0)


def _by_tokens(odds: Array, whole: Array, compared: NDArray[np.bool_]) -> Array:
    """Log odds in the order of ``odds``. How likely the best turn is evidence is told by both sets of weights, half
    each (``whole``: by those of the texts' vectors); the others fall behind it (`LEAD`).
    """
    best = int(np.argmax(np.where(compared, odds, -np.inf)))
    result: Array = (odds[best] + whole[best]) / 2 + _lead(len(odds)) * (odds - odds[best])
    return result


def _lead(candidates: int) -> float:
    """`LEAD` among many candidates, nearly 1 among few."""
    return 1 + (LEAD - 1) * candidates / (candidates + FEW)


def weighted(columns: Columns, weights: Weights, count: int) -> Array:
    """The weighted sum of the columns for each of ``count`` candidates; columns without a weight do not count."""
    names = [name for name in columns if name in weights]
    rows = np.array([np.ones(count), *(columns[name] for name in names)])
    factors = np.array([weights.get(BIAS, 0.0), *(weights[name] for name in names)])
    total: Array = np.add.reduce(rows * factors[:, None], axis=0)
    return total
