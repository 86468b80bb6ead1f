"""What the user said later about the same thing: "car's on -2, spot 75" after "parked on level -3, spot 118".

A ranking looks at each memory beside the question, and the older statement is often the one that has its words. So what
was said later and is near to a likely memory, token by token, comes with it and stands before it; both are dated. Where
facts were reconciled, reconciling has decided, and nothing is looked at here.
"""

from collections.abc import Sequence

import numpy as np

from memproxy.core.vectors import similarities, unpack
from memproxy.recall.candidate_table import Array, CandidateTable

MOST = 4
"""Memories, best first, beside which later ones are looked for."""

AMONG = 24
"""Candidates, best first, that may be such a later one."""

NEAR = 0.07
"""How much nearer than the others a later statement is, token by token (a difference of mean cosines), from which on it
is about the same: of pairs of an outdated statement and what holds now 57 to 71 in 100 are, of others 7 to 11.
"""

AS_NEAR = 0.03
"""Of several that are hardly less near than the nearest the newest counts."""

USUAL = 0.15
"""How near two statements of one user usually are: counted as `_USUAL_COUNT` others, where there are few."""

_USUAL_COUNT = 4
_STEP = 1e-3
_ASKS = ("?", "？")


def with_later(table: CandidateTable, odds: Array, least: float) -> Array:
    """The log odds, with what was said later raised over the memory, of at least ``least``, that it is near to."""
    order = [place for place in np.argsort(-odds, kind="stable").tolist() if _is_own_turn(table, place)][:AMONG]
    packed = table.tokens(order)
    found = odds.copy()
    for place, tokens in list(zip(order, packed, strict=True))[:MOST][::-1]:
        if odds[place] < least or not tokens:
            continue
        others = [(other, said) for other, said in zip(order, packed, strict=True) if other != place and said]
        later = [other for other, _ in others if table.created[other] > table.created[place]]
        if not later:
            continue
        near = dict(zip([other for other, _ in others], _away(tokens, [said for _, said in others]), strict=True))
        about = [other for other in later if near[other] >= NEAR]
        if about:
            nearest = max(near[other] for other in about)
            as_near = [other for other in about if near[other] >= nearest - AS_NEAR]
            newest = max(as_near, key=lambda other: table.created[other])
            found[newest] = max(found[newest], odds[place] + _STEP)
    return found


def _is_own_turn(table: CandidateTable, place: int) -> bool:
    return bool(table.by_user[place]) and not table.memories[place].content.rstrip().endswith(_ASKS)


def _away(tokens: bytes, others: Sequence[bytes]) -> list[float]:
    """How much nearer to a text each of the others is than the rest of them are, on the mean."""
    near = closeness(tokens, others)
    usual = (near.sum() - near + _USUAL_COUNT * USUAL) / (len(near) - 1 + _USUAL_COUNT)
    away: list[float] = (near - usual).tolist()
    return away


def closeness(packed: bytes, others: Sequence[bytes]) -> Array:
    """How near each of the others' tokens come to those of a text, on the mean."""
    tokens = unpack(packed)[1:-1]
    if not len(tokens):
        return np.zeros(len(others))
    found: Array = np.nan_to_num(similarities(tokens, others)).mean(axis=1)
    return found
