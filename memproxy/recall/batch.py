"""The candidates of one query side by side, as arrays: what the ranking stages work on."""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memproxy.core import fusion
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.tokenvectors import similarities
from memproxy.ports import Candidate
from memproxy.recall.reading import Asking, Reading, asking, names_in, phrases

Array = NDArray[np.float64]

NOBODY = -1
"""Where a turn has no neighbour among the candidates."""

_OF_QUERY = ("asking", "named")
_OF_TEXTS = ("phrases", "is_turn", "by_assistant", "not_my_words", "similarities")
"""Properties that say the same of the query, and of a candidate, whoever the others are."""

_ADJOINING_SECONDS = 1800
"""Messages of two calls (``seq`` begins anew) stand next to each other when no more time than this is between them."""


class Batch:
    """What is known of the candidates of one query. All arrays have one value per candidate.

    ``documents`` are the query's terms that each candidate's own text has; ``tokens`` and ``words`` are the query's as
    in `HybridQuery`.
    """

    def __init__(
        self,
        *,
        text: str,
        terms: frozenset[int],
        generic: frozenset[int],
        candidates: Sequence[Candidate],
        readings: Sequence[Reading],
        documents: Sequence[frozenset[int]],
        now: datetime,
        tokens: NDArray[np.float32] | None = None,
        words: Sequence[str] = (),
    ) -> None:
        self.text = text
        self.tokens = tokens
        self.words = words
        self.terms = terms
        self.now = now
        self._generic = generic
        self._candidates = candidates
        self._documents = documents
        self.memories = [candidate.memory for candidate in candidates]
        self.readings = readings
        self._signs: dict[str, Array] = {}
        self.cosine = np.array([np.nan if one.cosine is None else one.cosine for one in candidates], dtype=float)
        self.bm25 = np.array([one.bm25 or 0.0 for one in candidates], dtype=float)
        weights = fusion.term_weights(terms, generic, documents)
        self.coverage = np.array([fusion.coverage(weights, document) for document in documents], dtype=float)

    def only(self, places: Sequence[int]) -> "Batch":
        """The candidates at these places by themselves; what has been seen of their texts is not looked at again."""
        part = Batch(
            text=self.text,
            terms=self.terms,
            generic=self._generic,
            candidates=[self._candidates[place] for place in places],
            readings=[self.readings[place] for place in places],
            documents=[self._documents[place] for place in places],
            now=self.now,
            tokens=self.tokens,
            words=self.words,
        )
        chosen = np.array(places, dtype=np.int64)
        part._signs = {name: signs[chosen] for name, signs in self._signs.items()}
        part.__dict__ |= {name: seen[chosen] for name in _OF_TEXTS if (seen := self.__dict__.get(name)) is not None}
        part.__dict__ |= {name: self.__dict__[name] for name in _OF_QUERY if name in self.__dict__}
        return part

    @cached_property
    def asking(self) -> Asking:
        """The query, read."""
        return asking(self.text)

    @cached_property
    def named(self) -> frozenset[str]:
        """The query's words, to see whose name is among them."""
        return names_in(self.text)

    @cached_property
    def phrases(self) -> Array:
        """How many of the query's pairs of words each candidate has word for word."""
        pairs = phrases(self.text)
        return np.array([sum(map(one.letters.__contains__, pairs)) for one in self.readings], dtype=float)

    @cached_property
    def similarities(self) -> Array:
        """How near the tokens of each candidate come to each of the query's; NaN for candidates without tokens, no
        columns where the query has none.
        """
        if self.tokens is None or not any(candidate.tokens for candidate in self._candidates):
            return np.full((len(self.memories), 0), np.nan)
        return similarities(self.tokens, [candidate.tokens for candidate in self._candidates])

    @cached_property
    def has_tokens(self) -> NDArray[np.bool_]:
        """Which candidates were compared token by token."""
        compared: NDArray[np.bool_] = np.any(np.isfinite(self.similarities), axis=1)
        return compared

    @cached_property
    def columns(self) -> dict[str, Array]:
        """The signals of `core.fusion`."""
        return fusion.columns(self.cosine, self.bm25, self.coverage, len(self.terms))

    @cached_property
    def strength(self) -> Array:
        """How far a candidate stands out in the signals that are there."""
        total: Array = self.columns["cosine_standing"] + self.columns["bm25_standing"]
        return total

    @cached_property
    def is_turn(self) -> Array:
        """1 for verbatim messages, else 0."""
        return np.array([float(memory.kind is Kind.TURN) for memory in self.memories])

    @cached_property
    def by_assistant(self) -> Array:
        """1 for the assistant's messages, else 0."""
        by_model: Array = np.array([float(memory.trust is Trust.ASSISTANT) for memory in self.memories])
        return self.is_turn * by_model

    @cached_property
    def not_my_words(self) -> Array:
        """1 for the assistant's messages when the user asks about himself, and not for what the assistant said."""
        return self.asking.first_person * (1 - self.asking.assistant_said) * self.by_assistant

    def surface(self, name: str) -> Array:
        """One sign of the texts of turns, 0 for facts, whose form says nothing: they are written by one rule."""
        if name not in self._signs:
            signs = np.array([reading.sign(name) for reading in self.readings], dtype=float)
            self._signs[name] = self.is_turn * signs
        return self._signs[name]

    @cached_property
    def around(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the turns said right before and right after, `NOBODY` where they are no candidates."""
        order = sorted(
            (memory.session_id or "", memory.created_at, _sequence(memory), place)
            for place, memory in enumerate(self.memories)
            if memory.kind is Kind.TURN
        )
        before = np.full(len(self.memories), NOBODY)
        after = np.full(len(self.memories), NOBODY)
        for one, other in pairwise(order):
            if one[0] == other[0] and _adjoin(one, other):
                before[other[3]], after[one[3]] = one[3], other[3]
        return before, after

    def with_beside(self, values: Array) -> Array:
        """The best of each candidate's row and of those of its neighbours."""
        best = values
        for places in self.around:
            best = np.fmax(best, np.where((places == NOBODY)[:, None], np.nan, values[places]))
        return best

    def beside(self, values: Array, places: NDArray[np.int64]) -> Array:
        """The values of the neighbours at these places, 0 where there is none."""
        return np.where(places == NOBODY, 0.0, values[places])

    @cached_property
    def sessions(self) -> NDArray[np.int64]:
        """The number of each turn's session; every fact is a session of its own."""
        numbers: dict[Any, int] = {}
        keys = (memory.session_id if memory.kind is Kind.TURN else place for place, memory in enumerate(self.memories))
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _sequence(memory: Memory) -> int:
    place = memory.metadata.get("seq", 0)
    return place if isinstance(place, int) else 0


def _adjoin(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if one[1] == other[1]:
        return bool(other[2] - one[2] == 1)
    return bool(other[2] == 0 and (other[1] - one[1]).total_seconds() <= _ADJOINING_SECONDS)
