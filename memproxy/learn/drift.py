"""Topic drift: the newest message of the user is about something else than what was said since the last learning."""

import math
from collections.abc import Sequence

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Memory, Trust
from memproxy.core.scope import Scope
from memproxy.core.slots import singular
from memproxy.core.text import key_terms
from memproxy.learn.vectors import Vectors
from memproxy.learn.windows import Windows
from memproxy.ports import ProgressStore

_LEAST_TERMS = 3
"""Key terms of a message that is about something; "ok, thanks" changes no topic."""

_MOST_TURNS = 40
_MOST_CHARACTERS = 1_000


class Drift:
    """Compares a session's newest user message with the user's unlearned ones before it.

    Args:
        threshold: ``learn.drift_threshold``, least similarity that is the same topic: the cosine against the mean of
            the earlier messages' vectors, or without vectors the share of its key terms that were said. None: off.
    """

    def __init__(self, threshold: float | None, *, state: ProgressStore, windows: Windows, vectors: Vectors) -> None:
        self._threshold = threshold
        self._state = state
        self._windows = windows
        self._vectors = vectors

    async def is_drifting(self, scope: Scope) -> bool:
        """Whether the topic has just changed.

        Raises:
            StateUnavailable, StoreUnavailable: the session could not be read.
        """
        if self._threshold is None:
            return False
        progress = await self._state.progress(scope)
        if progress is None or progress.unlearned < 2:
            return False
        turns = await self._windows.turns(scope, min(progress.unlearned, _MOST_TURNS), None)
        said = [strip_blocks(turn.content)[:_MOST_CHARACTERS] for turn in turns if turn.trust is Trust.USER]
        if len(said) < 2 or turns[-1].created_at != _newest_of_user(turns):
            return False
        if len(key_terms(said[-1])) < _LEAST_TERMS:
            return False
        return await self._similarity(said[-1], said[:-1]) < self._threshold

    async def _similarity(self, newest: str, earlier: Sequence[str]) -> float:
        vectors = [vector for vector in await self._vectors.statement_vectors([newest, *earlier]) if vector is not None]
        if len(vectors) == len(earlier) + 1:
            return centroid_cosine(vectors[0], vectors[1:])
        return shared_terms(newest, earlier)


def centroid_cosine(vector: Sequence[float], others: Sequence[Sequence[float]]) -> float:
    """Cosine of a vector and the mean of others; 0 when either has no direction."""
    mean = [sum(values) / len(others) for values in zip(*others, strict=True)]
    length = math.hypot(*vector) * math.hypot(*mean)
    return sum(a * b for a, b in zip(vector, mean, strict=True)) / length if length else 0.0


def shared_terms(text: str, others: Sequence[str]) -> float:
    """The share of a text's key terms that the others hold."""
    terms = _terms(text)
    return len(terms & _terms("\n".join(others))) / len(terms) if terms else 1.0


def _terms(text: str) -> frozenset[str]:
    return frozenset(singular(term) for term in key_terms(text, 200))


def _newest_of_user(turns: Sequence[Memory]) -> object:
    """When the user's newest message was said; an exchange's turns have one time."""
    return max((turn.created_at for turn in turns if turn.trust is Trust.USER), default=None)
