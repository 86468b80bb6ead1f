"""Whether a user's memories speak of what looks like a question for general knowledge (`RecallRequest.only_if_told`).

The search's candidates decide: one of them has a name or number of the question, holds most of its rare words, or is
near in meaning. Without any of these nothing is ranked, and the answer is ``skipped; reason=fact``; else the search
goes on with a higher floor. So no knowledge of the world is needed (docs/decisions/0034).
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

from memproxy.core.text import key_terms, spaced, words
from memproxy.ports import Candidate

NEAR = 0.45
"""Cosine from which on a memory is near in meaning. Of an embedder whose cosines all are higher everything is near:
then the higher floor decides alone.
"""

RAISED = 0.3
"""How far the floor rises towards certainty."""

HELD = 0.5
"""Of the weight of the question's words, the part that one memory must hold."""

_READ = 60
"""Candidates that are read, of the best on each side."""

_READ_CHARACTERS = 800
_TERMS = 12
_STEM = 6
_NAME = re.compile(r"(?<=[\w,;] )[A-Z][^\W\d_]+|\d+")


def raised_floor(floor: float) -> float:
    """The floor of a question that looks general but may not be. It is little higher: of 320 general questions 16 come
    so far, while the user's own lose a line in four at twice the distance from certainty (docs/decisions/0034).
    """
    return floor + RAISED * (1 - floor)


def speaks_of(query: str, candidates: Sequence[Candidate]) -> bool:
    """Whether what was found for the query speaks of it."""
    if any(hit.cosine is not None and hit.cosine >= NEAR for hit in candidates):
        return True
    stems = list(dict.fromkeys(term[:_STEM] for term in key_terms(spaced(query), _TERMS)))
    matching = sorted((hit for hit in candidates if hit.bm25), key=lambda hit: -(hit.bm25 or 0.0))[:_READ]
    if not stems or not matching:
        return False
    held = [_held(stems, hit.memory.content[:_READ_CHARACTERS].lower()) for hit in matching]
    names = {name.lower()[:_STEM] for name in _NAME.findall(query)}
    if any(names & stems_of_text for stems_of_text in held):
        return True
    counts = Counter(stem for stems_of_text in held for stem in stems_of_text)
    weights = {stem: math.log(1 + len(matching) / (counts[stem] + 1)) for stem in stems}
    enough = HELD * sum(weights.values())
    return any(sum(weights[stem] for stem in stems_of_text) > enough for stems_of_text in held)


def _held(stems: Sequence[str], low: str) -> frozenset[str]:
    """The stems that a word of the text begins with."""
    contained = tuple(stem for stem in stems if stem in low)
    if not contained:
        return frozenset()
    text_words = [word for word in words(spaced(low)) if word.startswith(contained)]
    return frozenset(stem for stem in contained if any(word.startswith(stem) for word in text_words))
