"""Where some days are asked for ("What did I do last weekend?"): what was said on them answers, whatever its words."""

import math

import numpy as np

from memproxy.core import timerange
from memproxy.core.memory import Kind
from memproxy.core.timerange import Span
from memproxy.recall.batch import Array, Batch
from memproxy.recall.days import asks_for_past, days_alone

MOST = 8
"""So many of what was said on the days are lifted at most, the likeliest, where nothing but these is asked for."""

MOST_BESIDE = 3
"""The same where something else is asked for too, and nothing of those days has its words."""

SHORT_DAYS = 3
"""Of a longer time too much was said to be given without the question's words."""

TOLD = 1.5
"""Log odds of what is lifted."""

ANOTHER_DAY = -0.7
"""The most of what was said on another day, and tells of none of these: below the usual floor."""

LOOKED_AT = 24
"""Candidates, best first, that are read for the days that they tell of."""

_STEP = 1e-3
_FLOOR = math.log(0.6 / 0.4)
"""Log odds of the usual floor."""

_READ = 300


def of_days(batch: Batch, odds: Array) -> Array:
    """The log odds, where the user asks what was on some days: what he said on them, or tells of them, is likely, and
    what was said on others, and tells of none of them, is not. Where the question has a topic too, only of few days,
    and where nothing of these is likely by itself.
    """
    spans = batch.each.spans
    if not spans or not batch.asking.of_self or batch.asks_of_speaker:
        return odds
    alone = batch.each.of_text(days_alone)
    if not alone and not (_is_short(spans) and batch.each.of_text(asks_for_past)):
        return odds
    told = _of_these(batch, odds, spans)
    if not alone and (odds[told] > _FLOOR).any():
        return odds
    found = odds.copy()
    tells = (batch.by_user > 0) & (batch.surface("question") == 0)
    said = np.flatnonzero(told & tells)
    likeliest = said[np.argsort(-odds[said], kind="stable")][: MOST if alone else MOST_BESIDE]
    if not len(likeliest):
        return odds
    for place in np.flatnonzero(~told & (odds > _FLOOR)).tolist():
        if batch.memories[place].kind is not Kind.EPISODIC:
            found[place] = ANOTHER_DAY
    found[likeliest] = np.maximum(found[likeliest], TOLD - _STEP * np.arange(len(likeliest)))
    return found


def _is_short(spans: list[Span]) -> bool:
    return all((span.end - span.start).days <= SHORT_DAYS for span in spans)


def _of_these(batch: Batch, odds: Array, spans: list[Span]) -> "np.typing.NDArray[np.bool_]":
    """Which were said on one of the days, or tell of one ("My move is on 21 November")."""
    moments = [memory.valid_from or memory.created_at for memory in batch.memories]
    found = np.array([any(span.days_away(moment) == 0 for span in spans) for moment in moments])
    for place in np.argsort(-odds, kind="stable")[:LOOKED_AT].tolist():
        memory = batch.memories[place]
        if not found[place]:
            told = timerange.told(memory.content[:_READ], memory.created_at)
            found[place] = any(one.start < span.end and span.start < one.end for one in told for span in spans)
    return found
