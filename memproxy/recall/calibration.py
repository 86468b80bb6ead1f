"""How likely a candidate is right, told apart from which comes before which.

The order is that of a recipe's weights. What their sum means is another matter: it falls with every further candidate,
so of many memories that are nearly alike not even the one with all of a question's words would be likely, and several
right ones would take from each other what one of them alone has. So a second set of weights looks at the candidates in
their order, each by itself and against the best, and tells the log odds that it is right.
"""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.recall.candidate_table import Array, CandidateTable
from memproxy.recall.stages import Columns

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
"""Columns that are looked at as they are."""

_FIELD = slice(5, 25)
"""The places, best first, of those that a candidate is held against: behind as many as may be right together."""

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


def by_themselves(asked: Asked, columns: Columns, nothing: Array) -> Columns:
    """What is seen of candidates whatever their order, by name: how well each matches, with squares and products,
    because only both together, or nearly all words, make it certain; what is `Asked`; and whether somebody who spoke is
    named, of whom others are told too. What is 0 for all of them is
    ``nothing`` itself.
    """
    crowd = np.minimum(columns.get("crowd", nothing), MOST_CROWD)
    mine, many, own, length = asked.mine, asked.many, asked.own, math.log1p(asked.terms)
    coverage, cosine, late = (columns.get(name, nothing) for name in ("coverage", "cosine", "late"))
    named = float(bool(columns.get("speaker", nothing).any()))
    found = {
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
        "own": nothing + own,
        "own_coverage": own * coverage,
        "own_cosine": own * cosine,
        "own_late": own * late,
        "named": nothing + named if named else nothing,
        "named_coverage": _where(named, coverage, nothing),
        "named_cosine": _where(named, cosine, nothing),
        "named_late": _where(named, late, nothing),
    }
    if late is not nothing:
        found |= {"coverage_late": coverage * late, "late_squared": late**2, "late_crowd": late * crowd}
    return found


def features(
    asked: Asked,
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
    what `by_themselves` tells of it with ``nothing`` (``alone``: where it is known).
    ``count`` is the number of candidates, where not all of them count.
    """
    nothing = np.zeros(len(odds)) if nothing is None else nothing
    alone = by_themselves(asked, columns, nothing) if alone is None else alone
    best_first = np.sort(odds[members])[::-1]
    behind = np.minimum(best_first[0] - odds, _MOST_BEHIND)
    above, near = _above(odds, best_first), math.log(float(np.exp(best_first - best_first[0]).sum()))
    many, count = asked.many, len(odds) if count is None else count
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


def in_order(told: Array, odds: Array, members: NDArray[np.bool_]) -> Array:
    """Log odds ``told`` for the ``members``, lowered where one that comes before by ``odds`` has less: a candidate is
    no likelier than those that match better. Others keep what they were told.
    """
    places = members.nonzero()[0]
    found = told.copy()
    if len(places):
        ranked = _best_first(places, odds, told)
        matching = odds[ranked]
        found[ranked] = np.minimum.accumulate(told[ranked]) - STEP * (matching[0] - matching)
    return found


def _best_first(places: NDArray[np.intp], odds: Array, told: Array) -> NDArray[np.intp]:
    """Those at the places by descending odds; where these are equal, by what they are told."""
    ranked = places[(-odds[places]).argsort()]
    matching = odds[ranked]
    if np.logical_or.reduce(matching[1:] == matching[:-1]):  # as hardly ever
        return places[np.lexsort((-told[places], -odds[places]))]
    return ranked


def _above(odds: Array, best_first: Array) -> Array:
    """How far above the mean of the field, drawn towards nothing where there are few of them."""
    field = best_first[_FIELD]
    if not len(field):
        return np.zeros(len(odds))
    share = len(field) / (len(field) + _FIELD_PRIOR)
    result: Array = np.minimum(odds - np.add.reduce(field) / len(field), _MOST_ABOVE) * share
    return result
