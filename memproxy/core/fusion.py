"""Many signals, one score: how likely it is that a memory is relevant to a query.

Rank fusion throws away what scores know, and raw scores mean different things for every query and corpus (a cosine of
0.5 can be the best there is or noise). So each signal is looked at in two ways, by itself and against the other
candidates of the query, and a logistic regression fitted on questions with known answers turns them into a number in
[0, 1]. The order and the score are one formula, so the order is always that of the scores.

A user with three memories has no meaningful mean or spread, so both are drawn towards what is usual (``_Usual``) with
the weight of ``PRIOR_CANDIDATES`` candidates.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set

import msgspec

PRIOR_CANDIDATES = 10
"""With fewer candidates than this, what is usual counts for more than what is seen."""

PRIOR_DOCUMENTS = 50
"""The same for how rare a word is: it is counted as if that many more memories, none having it, were there."""

CROWD_BASE = 5
"""Whether there are one or three candidates says little; one or a hundred says a lot."""

GENERIC_WEIGHT = 0.3
"""A generic word of a query (name, time, kind) that is found says this much of what a topical one says."""


class Evidence(msgspec.Struct, frozen=True):
    """What is known of one candidate. ``cosine`` in [-1, 1], None without a vector; ``bm25`` raw, not negative;
    ``coverage`` in [0, 1]: the weighted part of the query's terms that its own text has.
    """

    cosine: float | None
    bm25: float
    coverage: float


class Model(msgspec.Struct, frozen=True):
    """Weights of a logistic regression: log odds = bias + the sum of weight times feature."""

    bias: float
    weights: tuple[float, ...]

    def probability(self, features: Sequence[float]) -> float:
        """In (0, 1)."""
        odds = self.bias + sum(weight * feature for weight, feature in zip(self.weights, features, strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))


class _Usual(msgspec.Struct, frozen=True):
    """The usual mean and spread of a signal over the candidates of a query (development data)."""

    mean: float
    spread: float


USUAL_COSINE = _Usual(0.2, 0.13)
USUAL_BM25 = _Usual(0.5, 0.6)

HYBRID = Model(-0.27, (3.253, 0.473, 0.802, 1.443, -1.16, -0.606, 4.977))
"""Weights of what `features` gives for a candidate with a vector.

Both models are fitted, and printed again, by ``python -m memproxy.evals.calibration --shared ../shared``.
"""

LEXICAL = Model(1.107, (1.05, 3.197, -1.23))
"""Weights for candidates without a vector and searches without a model."""


def scores(evidence: Sequence[Evidence], query_terms: int) -> list[float]:
    """The calibrated score of each candidate of one query, in [0, 1]; 0.6 is where a memory is more likely relevant
    than not. ``query_terms`` is the number of terms that BM25 searched for.
    """
    return [
        (LEXICAL if cosine is None else HYBRID).probability(values)
        for values, cosine in zip(features(evidence, query_terms), (one.cosine for one in evidence), strict=True)
    ]


def features(evidence: Sequence[Evidence], query_terms: int) -> list[tuple[float, ...]]:
    """What the models read: ``(cosine, cosine standing, BM25 standing, coverage, crowd, other words, other words times
    cosine)``, and for a candidate without a vector ``(BM25 place, coverage, crowd)``.

    A standing is how many spreads a candidate lies above the mean of all candidates of the query, both drawn towards
    what is usual; BM25 is taken per query term, so that long and short queries compare. A place is the same drawn
    towards zero: without vectors only matching memories are candidates, and how many others there are is not known.
    The crowd is the logarithm of the number of candidates (and ``CROWD_BASE``): the one that matters is one of three
    or one of two hundred. "Other words" is 1 for a candidate that has none of the query's terms, neither itself nor in
    its neighbours, else 0: a cosine that no shared word explains says more.
    """
    crowd = math.log(len(evidence) + CROWD_BASE)
    bm25 = [one.bm25 for one in evidence]
    scale = _small_corpus(len(evidence)) / max(1, query_terms)
    standings = _standings([value * scale for value in bm25], USUAL_BM25)
    places = _places(bm25)
    cosines = iter(_standings([one.cosine for one in evidence if one.cosine is not None], USUAL_COSINE))
    return [
        (place, one.coverage, crowd)
        if one.cosine is None
        else (one.cosine, next(cosines), standing, one.coverage, crowd, *_other_words(one, one.cosine))
        for one, standing, place in zip(evidence, standings, places, strict=True)
    ]


def _other_words(evidence: Evidence, cosine: float) -> tuple[float, float]:
    return (0.0, 0.0) if evidence.coverage or evidence.bm25 else (1.0, cosine)


def _small_corpus(candidates: int) -> float:
    """What BM25 is multiplied by, because its IDF is near zero where there are only a few memories: the IDF that a
    rare word would have with ``PRIOR_DOCUMENTS`` more of them, by the one it has. Near 1 from a hundred on.
    """
    return _rarity(1, candidates + PRIOR_DOCUMENTS) / _rarity(1, candidates) if candidates else 1.0


def _standings(values: Sequence[float], usual: _Usual) -> list[float]:
    count = len(values)
    if not count:
        return []
    total = count + PRIOR_CANDIDATES
    mean = sum(values) / count
    variance = sum((value - mean) ** 2 for value in values) / count
    centre = (sum(values) + PRIOR_CANDIDATES * usual.mean) / total
    spread = math.sqrt((count * variance + PRIOR_CANDIDATES * usual.spread**2) / total)
    return [(value - centre) / spread for value in values]


def _places(values: Sequence[float]) -> list[float]:
    count = len(values)
    if count < 2:
        return [0.0] * count
    mean = sum(values) / count
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / count)
    weight = count / (count + 2 * PRIOR_CANDIDATES)
    return [weight * (value - mean) / spread if spread > 1e-9 else 0.0 for value in values]


def term_weights(query_terms: Set[int], generic: Set[int], documents: Sequence[Set[int]]) -> dict[int, float]:
    """How much each term of the query says: rare among the candidates much, common or generic little.

    The usual ``ln(1 + (N - n + 0.5) / (n + 0.5))`` over the candidates and ``PRIOR_DOCUMENTS`` more that have none of
    them: BM25's own IDF is near zero for every word of a user with two memories. A term that none has counts like one
    that a single one has: it may be said in other words there.
    """
    found = Counter(term for document in documents for term in query_terms & document)
    total = len(documents) + PRIOR_DOCUMENTS
    return {
        term: _rarity(max(1, found[term]), total) * (GENERIC_WEIGHT if term in generic else 1) for term in query_terms
    }


def _rarity(documents_with: int, total: int) -> float:
    return math.log(1 + (total - documents_with + 0.5) / (documents_with + 0.5))


def coverage(weights: Mapping[int, float], document: Set[int]) -> float:
    """The weighted part of the query's terms that the document has, in [0, 1]; 0 for a query without terms."""
    total = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in document) / total if total else 0.0
