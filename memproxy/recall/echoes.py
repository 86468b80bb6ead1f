"""Candidates that do not count in the ranking of the others: they stand in the way of an answer without being one.

A ranking weighs a candidate against those beside it. A statement that was superseded, a message that has no words but
the question's, and a turn whose fact is a candidate itself would each make the one answer look like one of many.
"""

from collections.abc import Sequence

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.telling import about_questions
from memproxy.core.text import key_terms
from memproxy.ports import Candidate
from memproxy.recall.reading import ECHO_CHARACTERS, Reading

_MARGIN = 64
"""Blanks, and letters that have two in the other case, by which two texts that are the same may differ in length."""

_TURN = Kind.TURN
"""To look a member up in its enumeration takes longer than what is asked of it, and this runs for every candidate."""


class Places(msgspec.Struct, frozen=True):
    """Places of candidates that do not count. ``noise`` says nothing new, or nothing that still holds; ``told`` are the
    user's own words that a fact says as well.
    """

    noise: frozenset[int]
    told: frozenset[int]


def places(query: str, candidates: Sequence[Candidate], readings: Sequence[Reading]) -> Places:
    """The places of the candidates that do not count in the ranking of the others."""
    noise = echoes(query, readings) | again(query, [one.memory for one in candidates])
    noise |= {place for place, one in enumerate(candidates) if one.memory.superseded_by is not None}
    sources = frozenset(
        turn
        for place, one in enumerate(candidates)
        if one.memory.kind is not _TURN and place not in noise
        for turn in one.memory.turn_ids
    )
    told = {place for place, one in enumerate(candidates) if one.memory.kind is _TURN and one.memory.id in sources}
    return Places(noise=noise, told=frozenset(told - noise))


def again(query: str, memories: Sequence[Memory]) -> frozenset[int]:
    """The places of the messages that are the query word for word, whatever they tell."""
    now = query.strip().casefold()
    length = len(query.strip())
    return frozenset(
        place
        for place, one in enumerate(memories)
        if one.kind is _TURN and abs(len(one.content) - length) <= _MARGIN and one.content.strip().casefold() == now
    )


def echoes(query: str, readings: Sequence[Reading | None]) -> frozenset[int]:
    """The places of those that have no words but the query's, unless it asks for what was asked."""
    asked = [(place, one.own) for place, one in enumerate(readings) if one is not None and one.own is not None]
    if not asked or about_questions(query):
        return frozenset()
    now = frozenset(key_terms(query, limit=ECHO_CHARACTERS))
    return frozenset(place for place, own in asked if own <= now)
