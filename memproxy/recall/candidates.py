"""How many candidates a search asks for, and which of them are looked at."""

from collections.abc import Sequence

from memproxy.core.memory import Kind
from memproxy.ports import Candidate, HybridQuery
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
