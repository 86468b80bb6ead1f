"""What one candidate says of another, after each was looked at by itself: an answer stands with the message that it
answers, a later statement with the one that it replaces, and what the user must avoid with any advice on it.
"""

import numpy as np

from memproxy.recall import constraints, newer
from memproxy.recall.batch import NOBODY, Array, Batch
from memproxy.recall.each import Each
from memproxy.recall.on_days import of_days
from memproxy.recall.somebody import SUREST, of_somebody

LIKELY = 0.5
"""Log odds from which on a candidate is likely enough that others stand with it."""

CONSTRAINT = 1.4
"""Log odds of what the user must avoid (0.8), whatever the query's words are."""

ASKED, MOSTLY = 1.5, 0.5
"""What was asked then and has this part of the question's words tells which answer is meant, though it is none: what
the weights take from it, because it is the user's, is not taken from that.
"""

BELOW = 1.6
"""How far a question stands below its answer: further than the elbow of `recall.select`."""

REPLACED = -0.5
"""Log odds of a statement that another replaces, at most: below the usual floor. A lower one does not let it in either:
it is marked, too.
"""

_STEP = 1e-3


def carried(batch: Batch, odds: Array) -> tuple[Array, Array]:
    """The log odds of the candidates, with those of others that they stand with; and 1 for those that another of them
    replaces, else 0. What the user must avoid is given all the same. What does not count stands with nobody.
    """
    if batch.counted is None:
        return _carried(batch, odds)
    found, replaced, places = odds.copy(), np.zeros(len(odds)), batch.counted.nonzero()[0]
    found[places], replaced[places] = _carried(batch.counting(), odds[places])
    return found, replaced


def _carried(batch: Batch, odds: Array) -> tuple[Array, Array]:
    found, replaced = of_days(batch, odds), np.zeros(len(odds))
    if batch.asking.assistant_said:
        found = _answers(batch, found)
    if newer.wanted(batch):
        found, replaced = _later(batch, found)
    found = np.where(replaced > 0, found, of_somebody(batch, found))
    fields = frozenset[str]() if batch.asks_of_speaker else batch.each.advice_fields
    if not fields:
        return found, replaced
    lifted = _constraints(batch, found)
    return lifted, np.where(lifted > found, 0.0, replaced)


def _answers(batch: Batch, odds: Array) -> Array:
    """What the assistant answered is as likely as what it answers, which then is no answer itself."""
    before, _ = batch.around
    found = odds.copy()
    asks = odds + ASKED * (batch.by_user * (batch.coverage >= MOSTLY))
    asked = np.flatnonzero((batch.by_assistant > 0) & (before != NOBODY))
    for place in asked.tolist():
        question = int(before[place])
        if batch.by_user[question] and asks[question] > max(LIKELY, odds[place]):
            found[place] = asks[question]
            found[question] = min(odds[question], SUREST) - BELOW
    return found


def _later(batch: Batch, odds: Array) -> tuple[Array, Array]:
    """What was said later about the same stands right behind what was found, or in its place."""
    found, pairs, replaced = odds.copy(), newer.pairs(batch, odds, LIKELY), np.zeros(len(odds))
    for pair in pairs:
        best = max(odds[pair.place], odds[pair.later])
        found[pair.later] = best if pair.instead else max(best - _STEP, odds[pair.later])
    places = [pair.place for pair in pairs if pair.instead]
    found[places], replaced[places] = np.minimum(odds[places], REPLACED), 1.0
    return found, replaced


def _constrains(each: Each, place: int) -> bool:
    return constraints.constrains(each.memories[place], each.advice_fields, each.bearers)


def _constraints(batch: Batch, odds: Array) -> Array:
    told = [place for place in range(len(odds)) if batch.of_memory(_constrains, place)]
    told = sorted(told, key=lambda place: -odds[place])[: constraints.MOST]
    found = odds.copy()
    if told:
        least = max(CONSTRAINT, min(float(odds.max()), SUREST) - BELOW + 0.2)
        found[told] = np.maximum(odds[told], least - _STEP * np.arange(len(told)))
    return found
