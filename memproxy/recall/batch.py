"""The candidates of one query among each other, as arrays: what the ranking stages work on."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memproxy.core import fusion
from memproxy.core.memory import Memory
from memproxy.recall.asking import Asking
from memproxy.recall.each import Each

Array = NDArray[np.float64]
Row = TypeVar("Row", bound=np.generic)

NOBODY = -1
"""Where a turn has no neighbour among the candidates."""

_ADJOINING = 1800 * 1_000_000
"""Messages of two calls (``seq`` begins anew) stand next to each other when no more time is between them than this, in
microseconds."""


class Batch:
    """Candidates of one query: all of them, or those at some ``places``. All arrays have one value per candidate."""

    def __init__(self, each: Each, places: Sequence[int] | None = None) -> None:
        self.each = each
        self._places = None if places is None else np.array(places, dtype=np.int64)
        self.memories: list[Memory] = each.memories if places is None else [each.memories[place] for place in places]
        self.notes = each.notes if places is None else [each.notes[place] for place in places]
        self.text = each.text
        self.words = each.words
        self.cosine = self._of(each.cosine)
        self.bm25 = self._of(each.bm25)
        held = each.held if self._places is None else each.held[:, self._places]
        self.coverage = fusion.coverage(fusion.term_weights(each.terms, each.generic, held), held)

    def only(self, places: Sequence[int]) -> "Batch":
        """The candidates at these places by themselves, of a batch of all of them."""
        return Batch(self.each, places)

    def _of(self, values: NDArray[Row]) -> NDArray[Row]:
        """The rows of these candidates."""
        return values if self._places is None else values[self._places]

    @property
    def asking(self) -> Asking:
        """The query, read."""
        return self.each.asking

    @cached_property
    def phrases(self) -> Array:
        """How many of the query's pairs of words each candidate has word for word."""
        return self._of(self.each.phrases)

    @cached_property
    def has_words(self) -> NDArray[np.bool_]:
        """Which candidates (rows) have which of the query's words (columns)."""
        return self._of(self.each.has_words)

    @cached_property
    def similarities(self) -> Array:
        """`Each.similarities`."""
        return self._of(self.each.similarities)

    def tokens(self, places: Sequence[int]) -> list[bytes]:
        """`Candidate.tokens` of those at some places."""
        whole = range(len(self.memories)) if self._places is None else self._places.tolist()
        return [self.each.packed[whole[place]] for place in places]

    @cached_property
    def has_tokens(self) -> NDArray[np.bool_]:
        """Which candidates were compared token by token."""
        compared: NDArray[np.bool_] = np.any(np.isfinite(self.similarities), axis=1)
        return compared

    @cached_property
    def columns(self) -> dict[str, Array]:
        """The signals of `core.fusion`."""
        return fusion.columns(self.cosine, self.bm25, self.coverage, len(self.each.terms))

    @cached_property
    def strength(self) -> Array:
        """How far a candidate stands out in the signals that are there."""
        total: Array = self.columns["cosine_standing"] + self.columns["bm25_standing"]
        return total

    @cached_property
    def is_turn(self) -> Array:
        """1 for verbatim messages, else 0."""
        return self._of(self.each.is_turn)

    @cached_property
    def by_assistant(self) -> Array:
        """1 for the assistant's messages, else 0."""
        return self._of(self.each.by_assistant)

    @cached_property
    def by_user(self) -> Array:
        """1 for the user's messages, else 0."""
        return self._of(self.each.by_user)

    @cached_property
    def not_my_words(self) -> Array:
        """1 for the assistant's messages when the user asks about himself, and not for what the assistant said."""
        return self._of(self.each.not_my_words)

    @cached_property
    def created(self) -> Array:
        """When each was learned or said, in seconds."""
        return self._of(self.each.created)

    @cached_property
    def tells_preference(self) -> Array | None:
        """`Each.tells_preference`."""
        told = self.each.tells_preference
        return None if told is None else self._of(told)

    @cached_property
    def asked_speakers(self) -> frozenset[str]:
        """Those who said one of these, or whom one is about, and whose name the query has."""
        asked = self.each.asked_speakers
        return asked.intersection(self._speakers) if asked else asked

    @cached_property
    def _speakers(self) -> list[str]:
        speakers = self.each.speakers
        return speakers if self._places is None else [speakers[place] for place in self._places.tolist()]

    def said_by(self, name: str) -> Array:
        """1 for what somebody said, or is about him."""
        return np.array([speaker == name for speaker in self._speakers], dtype=float)

    def surface(self, name: str) -> Array:
        """One sign of the texts of turns, 0 for facts."""
        return self._of(self.each.surface(name))

    @cached_property
    def around(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the turns said right before and right after, `NOBODY` where they are no candidates."""
        order = self.each.turns_in_order
        if self._places is not None:
            places = {whole: place for place, whole in enumerate(self._places.tolist())}
            order = [(one, places[place]) for one, place in order if place in places]
        before, after = [NOBODY] * len(self.memories), [NOBODY] * len(self.memories)
        for (one, place), (other, following) in pairwise(order):
            if one[0] == other[0] and _adjoin(one, other):
                before[following], after[place] = place, following
        return np.array(before), np.array(after)

    def with_beside(self, values: Array) -> Array:
        """The best of each candidate's row and of those of its neighbours."""
        best, padded = values, np.vstack([values, np.full(values.shape[1], np.nan)])
        for places in self.around:
            best = np.fmax(best, padded[places])  # `NOBODY` is the last row
        return best

    def beside(self, values: Array, places: NDArray[np.int64]) -> Array:
        """The values of the neighbours at these places, 0 where there is none."""
        return np.where(places == NOBODY, 0.0, values[places])

    @cached_property
    def sessions(self) -> NDArray[np.int64]:
        """The number of each turn's session; every fact is a session of its own."""
        return self._of(np.array(self.each.sessions, dtype=np.int64))


def _adjoin(one: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    if one[1] == other[1]:
        return other[2] - one[2] == 1
    # messages of one call may have times of their own
    return other[2] in (0, one[2] + 1) and other[1] - one[1] <= _ADJOINING
