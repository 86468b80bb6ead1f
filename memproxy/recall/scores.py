"""From columns to scores: which of a recipe's weights count for which candidate, and how likely their sums make it.

The order is that of a recipe's weights. Their sum falls with every further candidate, so of many memories that are
nearly alike not even the right one would be likely. So a second set of weights looks at the candidates in their order,
each by itself and against the best, and gives the log odds that it is right.
"""

import functools
import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.core import fusion
from memproxy.recall.candidate_table import Array, CandidateTable
from memproxy.recall.later_statements import raise_later
from memproxy.recall.recipes import BIAS, LATE, Recipe, Weights
from memproxy.recall.stages import STAGES, Columns

MOST_CROWD = math.log(65)
"""Of the column ``crowd``: among more than 60 candidates a right one is no less likely."""

FEW = 30
"""Among fewer candidates than this the distance to the best is about as much as it would be without others."""

WHOLE = 0.985
"""From this part of the question's words on a candidate has them all."""

STEP = 1e-3
"""What the distance to the best counts at least, so that the order stays where a candidate would be as likely as one
before it, or likelier."""

_TAKEN = (
    *("coverage", "cosine", "cosine_standing", "other_words", "other_words_cosine", "late", "late_window", "by_vector"),
    *("phrases", "speaker", "turn", "topic", "inside_time"),
)
"""Columns that are features as they are."""

_FIELD = slice(5, 25)
"""Ranks of the candidates that each is compared with: after as many as may be right together."""

_FIELD_PRIOR = 5
_MOST_ABOVE = 12.0
_MOST_BEHIND = 20.0


class Asked(msgspec.Struct, frozen=True):
    """What a question wants: whether it has a first-person word, and whether several memories may be its answer (1 or
    0); how many terms it has; and the log odds that it is about something of one's own (`core.message_kinds`).
    """

    mine: float
    many: float
    terms: int
    own: float

    @classmethod
    def of(cls, table: CandidateTable) -> "Asked":
        """The question of these candidates."""
        query = table.query
        return cls(query.speaks_of_self, float(query.asks_for_many), len(table.result.terms), query.own_odds)


def by_themselves(question: Asked, columns: Columns, nothing: Array) -> Columns:
    """Features of candidates that do not depend on their order, by name: how well each matches, with squares and
    products, because only both together, or nearly all words, make it certain; what is `Asked`; and whether the
    question names a speaker. A feature that is 0 for all of them is ``nothing`` itself.
    """
    crowd = np.minimum(columns.get("crowd", nothing), MOST_CROWD)
    mine, many, own_odds, length = question.mine, question.many, question.own, math.log1p(question.terms)
    coverage, cosine, late = (columns.get(name, nothing) for name in ("coverage", "cosine", "late"))
    named = float(bool(columns.get("speaker", nothing).any()))
    by_name = {
        "crowd": crowd,
        "terms": nothing + length,
        "whole": (coverage >= WHOLE).astype(float),
        "coverage_crowd": coverage * crowd,
        "coverage_terms": coverage * length,
        "coverage_cosine": coverage * cosine,
        "coverage_late": nothing,
        "coverage_squared": coverage**2,
        "topic_squared": columns.get("topic", nothing) ** 2,
        "late_squared": nothing,
        "late_crowd": nothing,
        "mine": nothing + mine if mine else nothing,
        "mine_coverage": _where(mine, coverage, nothing),
        "mine_cosine": _where(mine, cosine, nothing),
        "mine_late": _where(mine, late, nothing),
        "many": nothing + many if many else nothing,
        "own": nothing + own_odds,
        "own_coverage": own_odds * coverage,
        "own_cosine": own_odds * cosine,
        "own_late": own_odds * late,
        "named": nothing + named if named else nothing,
        "named_coverage": _where(named, coverage, nothing),
        "named_cosine": _where(named, cosine, nothing),
        "named_late": _where(named, late, nothing),
    }
    if late is not nothing:
        by_name |= {"coverage_late": coverage * late, "late_squared": late**2, "late_crowd": late * crowd}
    return by_name


def features(
    question: Asked,
    columns: Columns,
    odds: Array,
    free: Array,
    members: NDArray[np.bool_],
    *,
    alone: Columns | None = None,
    nothing: Array | None = None,
    count: int | None = None,
) -> Columns:
    """What is seen of candidates in the order of ``odds``, by name, one value for each; those of candidates that are
    not ``members`` mean nothing, and at least one is. ``free`` are the odds less what the number of candidates takes.

    How far a candidate is ``behind`` the best, and ``above`` the field of those that are not near it; how many are
    ``near`` the best (a logarithm: 0, it stands alone); the columns that say by themselves how well it matches; and
    the features of `by_themselves` with ``nothing`` (``alone``: where they are known).
    ``count`` is the number of candidates, where not all of them count.
    """
    nothing = np.zeros(len(odds)) if nothing is None else nothing
    alone = by_themselves(question, columns, nothing) if alone is None else alone
    best_first = np.sort(odds[members])[::-1]
    behind = np.minimum(best_first[0] - odds, _MOST_BEHIND)
    above, near = _above(odds, best_first), math.log(float(np.exp(best_first - best_first[0]).sum()))
    many, count = question.many, len(odds) if count is None else count
    return {
        **{name: columns[name] for name in _TAKEN if name in columns},
        "free": free,
        "behind": behind,
        "behind_many": behind * count / (count + FEW),
        "above": above,
        "near": nothing + near,
        **alone,
        "named_behind": behind * alone["named"],
        "many_behind": _where(many, behind, nothing),
        "many_near": nothing + many * near if many else nothing,
        "many_above": _where(many, above, nothing),
    }


def _where(holds: float, column: Array, nothing: Array) -> Array:
    """The column where something of the question holds (1), ``nothing`` where it does not (0)."""
    return column if holds else nothing


def in_order(likely: Array, odds: Array, members: NDArray[np.bool_]) -> Array:
    """Log odds ``likely`` for the ``members``, lowered where one that comes before by ``odds`` has less: a candidate is
    no likelier than those that match better. Others keep theirs.
    """
    places = members.nonzero()[0]
    lowered = likely.copy()
    if len(places):
        ranked = _best_first(places, odds, likely)
        matching = odds[ranked]
        lowered[ranked] = np.minimum.accumulate(likely[ranked]) - STEP * (matching[0] - matching)
    return lowered


def _best_first(places: NDArray[np.intp], odds: Array, likely: Array) -> NDArray[np.intp]:
    """The places by descending odds; where these are equal, by ``likely``."""
    ranked = places[(-odds[places]).argsort()]
    matching = odds[ranked]
    if np.logical_or.reduce(matching[1:] == matching[:-1]):  # as hardly ever
        return places[np.lexsort((-likely[places], -odds[places]))]
    return ranked


def _above(odds: Array, best_first: Array) -> Array:
    """How far above the mean of the field, drawn towards nothing where there are few of them."""
    field = best_first[_FIELD]
    if not len(field):
        return np.zeros(len(odds))
    share = len(field) / (len(field) + _FIELD_PRIOR)
    result: Array = np.minimum(odds - np.add.reduce(field) / len(field), _MOST_ABOVE) * share
    return result


LIKELY = -1.5
"""Least log odds of a memory that later statements about the same may follow."""

SURPLUS = 0.23
"""Log odds that facts have too many of: of lines that are .4 to .8 likely by them fewer facts are needed than messages
(docs/lab/lives.md). So has all that was found by words alone, where no vector speaks against a shared word.
"""

CROWDING = ("crowd", "turn_crowd")
"""The columns by which the number of candidates lowers all of their sums."""


def scores(recipe: Recipe, table: CandidateTable, columns: Columns, *, ranked: bool) -> tuple[Array, list[int]]:
    """One score in [0, 1] for each candidate, and the places of those whose place a later statement takes.

    The weights are ``lexical`` for those without a vector, ``late`` for turns that were compared token by token, and
    ``hybrid`` for all others. ``ranked``: no candidate gets a higher score than one that the order puts before it, as a
    ranking needs; else each is scored by itself, as a block needs, and what was said later stands first.
    """
    without, count = table.without_vector, len(table.cosine)
    if not recipe.calibrated:
        sums = weighted(columns, recipe.hybrid, count)
        if without.any():
            sums = np.where(without, weighted(columns, recipe.lexical, count), sums)
        return np.clip(sums, 0.0, 1.0), []
    shared = _SharedFeatures.of(table, columns, ranked=ranked)
    if table.has_no_vectors:
        odds = _odds(shared, columns, recipe.lexical, recipe.lexical_level, without)
        return _as_scores(table, odds, ranked=ranked)
    sums = weighted(columns, recipe.hybrid, count, table.zeros)
    compared = np.zeros(count, dtype=np.bool_)
    if recipe.late is not None and LATE in recipe.stages:
        compared = table.has_tokens & (table.is_turn > 0)
    odds = sums
    if not (compared | without).all():  # else the other weights apply to no candidate
        odds = _odds(shared, columns, recipe.hybrid, recipe.hybrid_level, ~without, sums=sums)
    if recipe.late is not None and compared.any():
        by_vector = {"by_vector": free(recipe.hybrid, columns, sums)}
        odds = np.where(compared, _odds(shared, columns | by_vector, recipe.late, recipe.late_level, compared), odds)
    if without.any():
        odds = np.where(without, _by_words(recipe, table, odds, without, ranked=ranked), odds)
    return _as_scores(table, odds, ranked=ranked)


def _as_scores(table: CandidateTable, odds: Array, *, ranked: bool) -> tuple[Array, list[int]]:
    """The odds as scores, with later statements raised where they are for a block."""
    if ranked:
        return fusion.probability(odds), []
    if table.has_no_vectors:
        return fusion.probability(odds - SURPLUS), []
    raised, replaced = raise_later(table, odds - SURPLUS * (1 - table.is_turn), LIKELY)
    return fusion.probability(raised), replaced


class _SharedFeatures(msgspec.Struct, gc=False):
    """What is seen of the candidates by all weights alike (`by_themselves`)."""

    question: Asked
    alone: Columns
    nothing: Array
    counted: NDArray[np.bool_] | None
    ranked: bool

    @classmethod
    def of(cls, table: CandidateTable, columns: Columns, *, ranked: bool) -> "_SharedFeatures":
        question = Asked.of(table)
        return cls(question, by_themselves(question, columns, table.zeros), table.zeros, table.counted, ranked)


def _odds(
    shared: _SharedFeatures,
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
    sums = weighted(columns, order, len(members), shared.nothing) if sums is None else sums
    free_sums, counted = free(order, columns, sums), shared.counted

    def level_odds(subset: NDArray[np.bool_], count: int | None = None) -> Array:
        alone, nothing = shared.alone, shared.nothing
        seen_features = features(
            shared.question, columns, sums, free_sums, subset, alone=alone, nothing=nothing, count=count
        )
        odds = weighted(seen_features, level, len(members), nothing)
        return in_order(odds, sums, subset) if shared.ranked else odds

    if counted is None or not np.logical_or.reduce(members & counted):
        return level_odds(members)
    # uncounted candidates are compared with all
    return np.where(counted, level_odds(members & counted, int(np.count_nonzero(counted))), level_odds(members))


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
    by_words = table.part(rows.tolist(), silent=silent, by_words=True)
    columns: Columns = {}
    for name in recipe.stages:
        if name != LATE:
            columns |= STAGES[name](by_words)
    everyone = np.ones(len(rows), dtype=np.bool_)
    shared = _SharedFeatures.of(by_words, columns, ranked=ranked)
    odds = odds.copy()
    odds[rows] = _odds(shared, columns, recipe.lexical, recipe.lexical_level, everyone)
    return odds


def weighted(columns: Columns, weights: Weights, count: int, nothing: Array | None = None) -> Array:
    """The weighted sum of the columns for each of ``count`` candidates; columns without a weight do not count, nor does
    ``nothing``: a column that is 0 for everybody.
    """
    # NumPy adds up a single candidate in groups, and the result must stay the same
    left_out = nothing if count > 1 else None
    names = [name for name, column in columns.items() if name in weights and column is not left_out]
    rows = np.concatenate([np.ones(count), *[columns[name] for name in names]]).reshape(-1, count)
    rows *= np.array([weights.get(BIAS, 0.0), *[weights[name] for name in names]])[:, None]
    total: Array = np.add.reduce(rows, axis=0)
    return total
