"""The answer to "What do you know about me?": no memory is nearer to it than another, so what is given is a profile.

Of each topic (`recall.topics`) the memory that bears most on it, then the next of each: facts before messages, of these
first what surely tells something; what is more important before what is less; and no message beside the facts that were
learned from it. Of one topic ("Tell me about my family") what bears most on that.
"""

from collections.abc import Sequence

import numpy as np

from memproxy.core.memory import Kind
from memproxy.ports import Candidate
from memproxy.recall.reading import Reading
from memproxy.recall.search import Scored
from memproxy.recall.topics import Topics

CANDIDATES = 200
"""So many that lie nearest to statements of the topic are looked at."""

LINES = 24
"""So many are given at most: the budget of tokens ends the list before."""

LINE_CHARACTERS = 160
"""Of each: many things said shortly tell more of somebody than few in full."""

PROFILE = "profile"
"""The signal of a memory that is part of a profile of all that is known."""

_SCORE, _STEP = 0.9, 1e-3


def profile(candidates: Sequence[Candidate], readings: Sequence[Reading], topics: Topics, topic: int) -> list[Scored]:
    """The candidates as a profile has them, best first."""
    told = [_told(topics, one, reading) for one, reading in zip(candidates, readings, strict=True)]
    learned = {turn for one in candidates if one.memory.kind is not Kind.TURN for turn in one.memory.turn_ids}
    whole = topics.is_everything(topic)
    groups: dict[int, list[tuple[tuple[float, ...], int]]] = {}
    for place, (one, near, reading) in enumerate(zip(candidates, told, readings, strict=True)):
        memory = one.memory
        if memory.superseded_by is not None or (memory.kind is Kind.TURN and memory.id in learned):
            continue
        bears = float(near.max(initial=0.0)) if whole else float(near[topic]) if len(near) else 0.0
        unsure = float(memory.kind is Kind.TURN) + float(reading.own is not None)
        key = (unsure, -memory.importance if whole else 0.0, -bears)
        groups.setdefault(int(near.argmax()) if whole and len(near) else 0, []).append((key, place))
    turn_of: list[tuple[int, tuple[float, ...], int]] = []
    for group in groups.values():
        turn_of += [(number, key, place) for number, (key, place) in enumerate(sorted(group))]
    order = [place for _, _, place in sorted(turn_of, key=lambda one: (one[1][0], one[0], one[1], one[2]))]
    return [
        Scored(
            memory=candidates[place].memory,
            score=_SCORE - _STEP * number,
            signals={"topic": float(told[place].max(initial=0.0))} | ({PROFILE: 1.0} if whole else {}),
            notes=candidates[place].notes,
        )
        for number, place in enumerate(order)
    ]


def _told(topics: Topics, one: Candidate, reading: Reading) -> "np.typing.NDArray[np.float32]":
    if reading.topics is None and one.tokens:
        reading.topics = topics.told(one.tokens)
    return np.frombuffer(reading.topics or b"", np.float32)
