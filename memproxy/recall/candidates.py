"""How many candidates a search asks for, and which of them are looked at."""

from collections.abc import Sequence

import msgspec

from memproxy.core.memory import Kind
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall.recipes import Recipe


def wanted(recipe: Recipe, *, tokens: bool) -> int:
    """On each side, for a question with the vectors of its tokens or without."""
    return recipe.by_tokens if tokens else recipe.candidates


def looked_at(recipe: Recipe, query: HybridQuery, found: Sequence[Candidate]) -> list[Candidate]:
    """What was found; where no memory has tokens yet to compare the question's with, what a search for fewer would have
    found (facts stay: they may be there for their kind). What was found beside the query comes after, and has none of
    its words.
    """
    if not query.beside or query.bm25 is None:
        return _of_fewer(recipe, query, found)
    own = [one for one in found if one.bm25 is not None]
    kept = _of_fewer(recipe, query, own)
    if len(kept) == len(own):
        beside = [one for one in found if one.bm25 is None] if len(own) < len(found) else []
    else:
        known = set(map(id, kept))
        beside = [one for one in found if id(one) not in known and (one.beside or one.bm25 is None)]
    # where nothing has the question's words, they tell nothing of these either
    return [*kept, *(msgspec.structs.replace(one, bm25=0.0 if kept else None) for one in beside)]


def _of_fewer(recipe: Recipe, query: HybridQuery, found: Sequence[Candidate]) -> list[Candidate]:
    most = wanted(recipe, tokens=False)
    # a search for more than a recipe wants was asked for so many by somebody
    if query.tokens is None or query.limit > recipe.by_tokens or any(one.tokens for one in found):
        return list(found)
    near = sorted((one for one in found if one.cosine is not None), key=lambda one: -(one.cosine or 0.0))
    told = sorted((one for one in found if one.bm25), key=lambda one: -(one.bm25 or 0.0))
    kept = {id(one) for one in (*near[:most], *told[:most])}
    return [one for one in found if id(one) in kept or one.memory.kind is not Kind.TURN]
