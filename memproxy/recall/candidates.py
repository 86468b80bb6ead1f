"""How many candidates a search asks for, and which of them are looked at."""

from collections.abc import Sequence

import numpy as np

from memproxy.core import fusion
from memproxy.core.memory import Kind
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall.each import Others
from memproxy.recall.recipes import Recipe


def wanted(recipe: Recipe, *, tokens: bool) -> int:
    """On each side, for a question with the vectors of its tokens or without."""
    return recipe.by_tokens if tokens else recipe.candidates


def looked_at(recipe: Recipe, query: HybridQuery, found: Sequence[Candidate]) -> list[Candidate]:
    """What was found; where no memory has tokens yet to compare the question's with, what a search for fewer would have
    found (facts stay: they may be there for their kind).
    """
    most = wanted(recipe, tokens=False)
    # a search for more than a recipe wants was asked for so many by somebody
    if query.tokens is None or query.limit > recipe.by_tokens or any(one.tokens for one in found):
        return list(found)
    near = sorted((one for one in found if one.cosine is not None), key=lambda one: -(one.cosine or 0.0))
    told = sorted((one for one in found if one.bm25), key=lambda one: -(one.bm25 or 0.0))
    kept = {id(one) for one in (*near[:most], *told[:most])}
    return [one for one in found if id(one) in kept or one.memory.kind is not Kind.TURN]


def outstanding(most: int, query: HybridQuery, found: Sequence[Candidate]) -> tuple[list[Candidate], Others | None]:
    """The candidates that are ranked, and what else was found: of the turns those ``most`` that stand out most by
    vector and words together. Facts are always ranked (they may be there for their kind), and everything is where
    nothing is compared by tokens, or not everything has a vector yet.
    """
    turns = [place for place, one in enumerate(found) if one.memory.kind is Kind.TURN]
    compared = query.tokens is not None and any(one.tokens for one in found)
    if not compared or len(turns) <= most or any(one.cosine is None for one in found):
        return list(found), None
    cosine = np.array([one.cosine for one in found], dtype=float)
    bm25 = np.array([one.bm25 or 0.0 for one in found])
    signals = fusion.columns(cosine, bm25, np.zeros(len(found)), len(query.bm25.indices) if query.bm25 else 0)
    standing = (signals["cosine_standing"] + signals["bm25_standing"])[turns]
    left = np.array(turns)[(-standing).argsort(kind="stable")[most:]]
    beyond = frozenset(left.tolist())
    return [one for place, one in enumerate(found) if place not in beyond], Others(cosine[left], bm25[left])
