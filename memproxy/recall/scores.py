"""From columns to scores: which of a recipe's weights count for which candidate, and what their sums mean."""

import functools

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.core import fusion
from memproxy.recall.calibration import Asked, by_themselves, features, in_order
from memproxy.recall.candidate_table import Array, CandidateTable
from memproxy.recall.later_statements import with_later
from memproxy.recall.recipes import BIAS, LATE, Recipe, Weights
from memproxy.recall.stages import STAGES, Columns

LIKELY = -1.5
"""Log odds from which on what was said later about the same comes with a memory."""

CROWDING = ("crowd", "turn_crowd")
"""The columns by which the number of candidates lowers all of their sums."""


def scores(recipe: Recipe, table: CandidateTable, columns: Columns, *, ranked: bool) -> Array:
    """One score in [0, 1] for each candidate, by the weights ``lexical`` for those without a vector, ``late`` for turns
    that were compared token by token, and ``hybrid`` for all others. ``ranked``: none is likelier than one that the
    weights of the order put before it, as a ranking wants it; else each is told by itself, as a block does.
    """
    without, count = table.without_vector, len(table.cosine)
    if not recipe.calibrated:
        sums = weighted(columns, recipe.hybrid, count)
        if without.any():
            sums = np.where(without, weighted(columns, recipe.lexical, count), sums)
        return np.clip(sums, 0.0, 1.0)
    seen = _Seen.of(table, columns, ranked=ranked)
    if table.has_no_vectors:
        odds = _odds(seen, columns, recipe.lexical, recipe.lexical_level, without)
        return fusion.probability(odds if ranked else with_later(table, odds, LIKELY))
    sums = weighted(columns, recipe.hybrid, count, table.nothing)
    compared = np.zeros(count, dtype=np.bool_)
    if recipe.late is not None and LATE in recipe.stages:
        compared = table.has_tokens & (table.is_turn > 0)
    odds = sums
    if not (compared | without).all():  # else the others' weights tell of nobody
        odds = _odds(seen, columns, recipe.hybrid, recipe.hybrid_level, ~without, sums=sums)
    if recipe.late is not None and compared.any():
        by_vector = {"by_vector": free(recipe.hybrid, columns, sums)}
        odds = np.where(compared, _odds(seen, columns | by_vector, recipe.late, recipe.late_level, compared), odds)
    if without.any():
        odds = np.where(without, _by_words(recipe, table, odds, without, ranked=ranked), odds)
    return fusion.probability(odds if ranked else with_later(table, odds, LIKELY))


class _Seen(msgspec.Struct, gc=False):
    """What is seen of the candidates by all weights alike (`calibration.by_themselves`)."""

    asked: Asked
    alone: Columns
    nothing: Array
    counted: NDArray[np.bool_] | None
    ranked: bool

    @classmethod
    def of(cls, table: CandidateTable, columns: Columns, *, ranked: bool) -> "_Seen":
        asked = Asked.of(table)
        return cls(asked, by_themselves(asked, columns, table.nothing), table.nothing, table.counted, ranked)


def _odds(
    seen: _Seen,
    columns: Columns,
    order: Weights,
    level: Weights,
    members: NDArray[np.bool_],
    *,
    sums: Array | None = None,
) -> Array:
    """Log odds by the weights ``level``, in the order of the weights ``order``; for the ``members``. ``sums`` by
    ``order``, where they are known.
    """
    sums = weighted(columns, order, len(members), seen.nothing) if sums is None else sums
    free_sums, counted = free(order, columns, sums), seen.counted

    def told(some: NDArray[np.bool_], count: int | None = None) -> Array:
        alone, nothing = seen.alone, seen.nothing
        found = features(seen.asked, columns, sums, free_sums, some, alone=alone, nothing=nothing, count=count)
        odds = weighted(found, level, len(members), nothing)
        return in_order(odds, sums, some) if seen.ranked else odds

    if counted is None or not np.logical_or.reduce(members & counted):
        return told(members)
    # what does not count is held against all
    return np.where(counted, told(members & counted, int(np.count_nonzero(counted))), told(members))


def free(weights: Weights, columns: Columns, sums: Array) -> Array:
    """Sums without what the number of candidates takes from them."""
    crowding = [weights[name] * columns[name] for name in CROWDING if name in weights and name in columns]
    return sums - functools.reduce(np.add, crowding) if crowding else sums


def _by_words(recipe: Recipe, table: CandidateTable, odds: Array, without: NDArray[np.bool_], *, ranked: bool) -> Array:
    """The odds of those whose vector is still to be made, as they would be without a model: among the candidates that
    words find. Beside all that lies near by vector hardly a match of words would seem to stand out.
    """
    rows = np.flatnonzero(without | (table.bm25 > 0))
    counted = table.counted
    silent = set() if counted is None else set(rows[~counted[rows]].tolist())
    by_words = table.only(rows.tolist(), silent=silent, by_words=True)
    columns: Columns = {}
    for name in recipe.stages:
        if name != LATE:
            columns |= STAGES[name](by_words)
    everyone = np.ones(len(rows), dtype=np.bool_)
    seen = _Seen.of(by_words, columns, ranked=ranked)
    odds = odds.copy()
    odds[rows] = _odds(seen, columns, recipe.lexical, recipe.lexical_level, everyone)
    return odds


def weighted(columns: Columns, weights: Weights, count: int, nothing: Array | None = None) -> Array:
    """The weighted sum of the columns for each of ``count`` candidates; columns without a weight do not count, nor does
    ``nothing``: a column that is 0 for everybody.
    """
    # of a single candidate NumPy adds up in groups, which are to stay as they are
    left_out = nothing if count > 1 else None
    names = [name for name, column in columns.items() if name in weights and column is not left_out]
    rows = np.concatenate([np.ones(count), *[columns[name] for name in names]]).reshape(-1, count)
    rows *= np.array([weights.get(BIAS, 0.0), *[weights[name] for name in names]])[:, None]
    total: Array = np.add.reduce(rows, axis=0)
    return total
