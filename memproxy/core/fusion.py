"""Many signals, one score: how likely it is that a memory is relevant to a query. Raw scores mean different things for
every query and corpus, so each signal is looked at by itself and against the other candidates, and a regression fitted
on questions with known answers (``recall/data/weights.json``) turns them into a number, of which `recall.scores` makes
the score.

With few memories mean and spread say little: both are drawn towards what is usual (``_Usual``) with the weight of
``PRIOR_CANDIDATES`` candidates.
"""

import math
from collections.abc import Sequence, Set

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

PRIOR_CANDIDATES = 10  # with fewer candidates than this, what is usual counts for more than what is seen
NEAR_TOKENS = 0.55
SAME_TOKENS = 0.9  # cosines, a fifth lower for the packed side, from which on tokens are partly, and wholly, the same
PRIOR_DOCUMENTS = 50  # a word's rarity is counted as if that many more memories, none having it, were there
CROWD_BASE = 5  # whether there are one or three candidates says little; one or a hundred says a lot
GENERIC_WEIGHT = 0.3  # a generic word of a query (name, time, kind) says this much of what a topical one says


FUNCTION_WEIGHT = 0.3  # the same share for a word without a topic ("when", "did"), where those are looked at
LATE = ("late", "late_standing", "late_window")  # what `late_columns` names
_NO_SPREAD = 1e-9


class _Usual(msgspec.Struct, frozen=True):
    """The usual mean and spread of a signal over the candidates of a query (development data)."""

    mean: float
    spread: float


USUAL_COSINE = _Usual(0.2, 0.13)
USUAL_LATE = _Usual(0.29, 0.066)
USUAL_LATE_WINDOW = _Usual(0.34, 0.07)
USUAL_BM25 = _Usual(0.5, 0.6)

_MOST_ODDS = 30.0


def probability(odds: Array) -> Array:
    """Log odds as numbers in (0, 1)."""
    bounded = np.minimum(np.maximum(odds, -_MOST_ODDS), _MOST_ODDS)
    result: Array = 1 / (1 + np.exp(-bounded))
    return result


def log_odds(score: float, *, surest: float) -> float:
    """Of one probability, which counts as no surer than ``surest`` (in (0.5, 1)) of yes or no."""
    bounded = min(surest, max(1 - surest, score))
    return math.log(bounded / (1 - bounded))


def columns(
    cosine: Array, bm25: Array, coverage: Array, query_terms: int, counted: Mask | None = None
) -> dict[str, Array]:
    """The signals of the candidates of one query, by name, one value per candidate. ``cosine`` in [-1, 1], NaN without
    a vector; ``bm25`` raw, not negative; ``coverage`` in [0, 1]: the weighted part of the query's terms in a
    candidate's own text; ``query_terms``: how many BM25 searched for; ``counted``: which candidates each is compared
    with (None: all).

    A standing is how many spreads a candidate lies above the mean of all, both drawn towards what is usual; BM25 is
    taken per query term, so that long and short queries compare. A place is drawn towards zero instead: without vectors
    only matching memories are candidates. The crowd is the logarithm of their number (and ``CROWD_BASE``). "Other
    words" is 1 where neither a candidate nor its neighbours have a term of the query: a cosine that no shared word
    explains says more. Without a vector, cosine and its standing are 0.
    """
    count = len(bm25) if counted is None else int(np.count_nonzero(counted))
    missing = np.isnan(cosine)
    if np.logical_or.reduce(missing):
        has_vector = ~missing
        plain, standing = np.where(has_vector, cosine, 0.0), np.zeros(len(bm25))
        standing[has_vector] = _standings(
            cosine[has_vector], USUAL_COSINE, None if counted is None else counted[has_vector]
        )
    else:
        plain, standing = cosine, _standings(cosine, USUAL_COSINE, counted)
    # BM25's IDF is near zero where there are few memories: that of a rare word among `PRIOR_DOCUMENTS` more replaces it
    few = _rarity(1, count + PRIOR_DOCUMENTS) / _rarity(1, count) if count else 1.0
    other_words = ((coverage == 0) & (bm25 == 0)).astype(float)
    return {
        "cosine": plain,
        "cosine_standing": standing,
        "bm25_standing": _standings(bm25 * few / max(1, query_terms), USUAL_BM25, counted),
        "bm25_place": places(bm25, counted),
        "coverage": coverage,
        "crowd": np.full(len(bm25), math.log(count + CROWD_BASE)),
        "other_words": other_words,
        "other_words_cosine": other_words * plain,
    }


def late_columns(
    similarities: Array, window: Array, functional: Sequence[bool], counted: Mask | None = None
) -> dict[str, Array]:
    """How near the tokens of each candidate are to those of the question, by name, one value per candidate.
    ``similarities``: rows are candidates, columns the question's tokens (`core.vectors`), NaN without tokens, which
    gives 0; ``window``: the best of a candidate and those beside it; ``functional`` tokens have no topic; ``counted``
    as in `columns`. A token that few have anything near to counts more.
    """
    has_tokens = compared(similarities)
    signals = {name: np.zeros(len(has_tokens)) for name in LATE}
    if not np.logical_or.reduce(has_tokens):
        return signals
    if not np.logical_and.reduce(has_tokens):
        similarities, window = similarities[has_tokens], window[has_tokens]
        counted = None if counted is None else counted[has_tokens]
    near = np.minimum(np.maximum((similarities - NEAR_TOKENS) / (SAME_TOKENS - NEAR_TOKENS), 0.0), 1.0)
    parts = shares(near if counted is None else near[counted], functional)
    nearness = similarities @ parts
    signals["late"][has_tokens] = nearness
    signals["late_standing"][has_tokens] = _standings(nearness, USUAL_LATE, counted)
    signals["late_window"][has_tokens] = _standings(window @ parts, USUAL_LATE_WINDOW, counted)
    return signals


def compared(similarities: Array) -> NDArray[np.bool_]:
    """Which candidates have tokens that were compared with the question's: the rows of the others are all NaN."""
    if not similarities.shape[1]:
        return np.zeros(len(similarities), np.bool_)
    result: NDArray[np.bool_] = np.isfinite(similarities[:, 0])
    return result


def _standings(values: Array, usual: _Usual, counted: Mask | None = None) -> Array:
    counted_values = values if counted is None else values[counted]
    count = len(counted_values)
    total = count + PRIOR_CANDIDATES
    summed, variance = _moments(counted_values) if count else (0.0, 0.0)
    centre = (summed + PRIOR_CANDIDATES * usual.mean) / total
    spread = math.sqrt((count * variance + PRIOR_CANDIDATES * usual.spread**2) / total)
    result: Array = (values - centre) / spread
    return result


def _moments(values: Array) -> tuple[float, float]:
    """Sum and variance: numpy's own of the latter takes many times longer for a hundred values."""
    summed = float(np.add.reduce(values))
    away = values - summed / len(values)
    return summed, float(np.add.reduce(away * away)) / len(values)


def places(values: Array, counted: Mask | None = None) -> Array:
    """How many spreads each lies above the mean of those ``counted`` (None: all), nearer to 0 where these are few."""
    counted_values = values if counted is None else values[counted]
    count = len(counted_values)
    summed, variance = _moments(counted_values) if count > 1 else (0.0, 0.0)
    spread = math.sqrt(variance)
    if spread <= _NO_SPREAD:
        return np.zeros(len(values))
    result: Array = count / (count + 2 * PRIOR_CANDIDATES) * (values - summed / count) / spread
    return result


def term_weights(terms: Sequence[int], generic: Set[int], held: NDArray[np.bool_]) -> Array:
    """How much each term of the query says: rare among the candidates much, common or generic little. ``held``: rows
    are terms, columns candidates. The usual ``ln(1 + (N - n + 0.5) / (n + 0.5))`` over them and ``PRIOR_DOCUMENTS``
    more without any: BM25's own IDF is near zero where there are two. A term that none has counts as one that one has.
    """
    total = held.shape[1] + PRIOR_DOCUMENTS
    counts = np.count_nonzero(held, axis=1).tolist()
    weights = [
        _rarity(max(1, count), total) * (GENERIC_WEIGHT if term in generic else 1)
        for term, count in zip(terms, counts, strict=True)
    ]
    return np.array(weights, dtype=float)


def shares(held: NDArray[np.bool_] | Array, functional: Sequence[bool]) -> Array:
    """How much each word of a query says (see `term_weights`), as parts that sum to 1. ``held``: rows are candidates,
    columns words, 1 where it has the word, less where it has something near; ``functional`` words have no topic.
    """
    total = len(held) + PRIOR_DOCUMENTS
    rarity = np.array([_rarity(max(1.0, count), total) for count in np.add.reduce(held, axis=0).tolist()])
    weights: Array = rarity * [FUNCTION_WEIGHT if is_functional else 1.0 for is_functional in functional]
    parts: Array = weights / np.add.reduce(weights)
    return parts


def _rarity(documents_with: float, total: int) -> float:
    return math.log(1 + (total - documents_with + 0.5) / (documents_with + 0.5))


def coverage(weights: Array, held: NDArray[np.bool_]) -> Array:
    """The weighted part of the query's terms (rows) that each candidate (columns) has, in [0, 1]; 0 without terms."""
    # no matrix product: it may add up in another order for one candidate than for another that has the same terms
    weighted: Array = np.add.reduce(weights[:, None] * held, axis=0)
    total: float = sum(weights.tolist())
    return weighted / total if total else weighted
