"""What the user said later about the same thing: "car's on -2, spot 75" after "parked on level -3, spot 118".

The older statement is often the one that has the question's words. How likely a later message takes the place of an
earlier one follows from how near the two are, token by token, beside how near the user's other messages are. The
likelier that is, the likelier the later one is needed where the earlier one is, and it stands before it; from `INSTEAD`
on it comes in its place. Between facts reconciling has decided.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from memproxy.core.memory import Kind, Memory
from memproxy.core.telling import PLAINLY, telling
from memproxy.core.text import key_terms
from memproxy.core.vectors import mutual
from memproxy.ports import Candidate
from memproxy.recall.candidate_table import Array, CandidateTable

MOST = 4
"""Memories, best first, beside which later ones are looked for."""

AMONG = 24
"""Candidates, best first, that may be such a later one."""

TOWARDS, BACK, BIAS = 7.94, 21.15, -5.38
"""Weights of how much nearer the two are than others (the earlier to the later, and back), fitted on 283 statements of
48 invented people that a later one made outdated, among 20,000 pairs (docs/lab/lives.md).
"""

LATER = -4.0
"""Least log odds of taking the place at which a later message is looked at."""

OWN, FOLLOWS, WORTH = 0.58, 0.31, 0.75
"""How likely a message is needed that was said later than a likely memory: weights of its own log odds and of those
that it takes the memory's place, fitted by `tests.fitting.later`. 0.4 of the last are added to the fit: such a line is
worth 1.5 others, as it also sets right what is outdated.
"""

SAME = -2.0
"""From these log odds on a later message is about the same thing."""

ABOUT = -1.0
"""From these on it is as likely needed as the earlier one; with less it is less likely by the difference."""

INSTEAD = 0.5
"""From these on it takes the earlier one's place: a needed line that is left out costs 1, an outdated one 0.5, so it
must be outdated with 0.62 ("I was at the gym with Tom" says nothing against "My gym is FitBox").
"""

AS_LIKELY = 0.7
"""Of several that are hardly less likely than the likeliest the newest counts."""

USUAL = 0.15
"""How near two statements of one user usually are: counted as `_USUAL_COUNT` others, where there are few."""

_USUAL_COUNT = 4
_STEP = 1e-3
_TERMS = 40


def raise_later(table: CandidateTable, odds: Array, least: float) -> tuple[Array, list[int]]:
    """The log odds, with later statements raised above the memories, of at least ``least``, that they may follow; and
    the places of the memories that they replace.
    """
    order = table.likeliest_messages(odds, AMONG)
    messages = {index: tokens for index, tokens in zip(order, table.tokens(order), strict=True) if tokens}
    raised, instead = odds.copy(), []
    looked = [index for index in order[:MOST] if odds[index] >= least and index in messages]
    for index in looked:
        later = later_odds(index, messages, table.memories, table.tells)
        if not later:
            continue
        for other, likely in later.items():
            raised[other] = max(raised[other], OWN * odds[other] + FOLLOWS * likely + WORTH)
        newest = _newest(later, lambda other: table.memories[other].created_at)
        if later[newest] < SAME:
            continue
        raised[newest] = max(raised[newest], raised[index] + _STEP + min(0.0, later[newest] - ABOUT))
        # "My garden budget" stays beside a later "My kitchen budget" where the garden is asked for
        if any(later[other] >= INSTEAD and table.coverage[other] >= table.coverage[index] for other in later):
            instead.append(index)
        if newest not in looked:
            looked.append(newest)
    return raised, instead


def successors(candidates: Sequence[Candidate]) -> tuple[dict[int, int], set[int]]:
    """By the index of each message that a later one among them is about, the index of the newest such one; and the
    indexes of those whose place it takes, as they say no more: who moved has the name told with the old address.
    """
    messages = {
        index: hit.tokens for index, hit in enumerate(candidates) if hit.tokens and hit.memory.kind is Kind.TURN
    }
    memories = [candidate.memory for candidate in candidates]
    terms = {index: len(key_terms(memories[index].content, _TERMS)) for index in messages}
    tells = functools.cache(lambda index: telling(memories[index].content))
    about, instead = {}, set()
    for index in messages:
        later = later_odds(index, messages, memories, tells)
        if any(likely >= INSTEAD and terms[index] <= terms[other] for other, likely in later.items()):
            instead.add(index)
        if max(later.values(), default=LATER) >= SAME:
            about[index] = _newest(later, lambda other: memories[other].created_at)
    return about, instead


def _newest(later: Mapping[int, float], said_at: Callable[[int], datetime]) -> int:
    """Of the likeliest the newest."""
    likeliest = max(later.values())
    return max((other for other, value in later.items() if value >= likeliest - AS_LIKELY), key=said_at)


def later_odds(
    index: int, messages: Mapping[int, bytes], memories: Sequence[Memory], tells: Callable[[int], float]
) -> dict[int, float]:
    """By index, the log odds that a later message which may be about the same takes its place. ``tells`` is slow, so
    only these are asked.
    """
    other_indexes, first = [other for other in messages if other != index], memories[index].created_at
    if not any(memories[other].created_at > first for other in other_indexes):
        return {}
    likely = _follows(messages[index], [messages[other] for other in other_indexes]).tolist()
    return {
        other: value
        for other, value in zip(other_indexes, likely, strict=True)
        if value >= LATER and memories[other].created_at > first and tells(other) >= PLAINLY
    }


def _follows(earlier: bytes, texts: Sequence[bytes]) -> Array:
    """The log odds that each text takes the place of an earlier one, if it was said later."""
    towards, back = mutual(earlier, texts)
    return BIAS + TOWARDS * _beside_others(towards) + BACK * _beside_others(back)


def _beside_others(near: Array) -> Array:
    """How much nearer each is than the rest of them are, on the mean."""
    usual = (near.sum() - near + _USUAL_COUNT * USUAL) / (len(near) - 1 + _USUAL_COUNT)
    away: Array = near - usual
    return away
