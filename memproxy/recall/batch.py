"""The candidates of one query among each other, as arrays: what the ranking stages work on."""

from collections.abc import Sequence, Set
from itertools import compress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memproxy.core import fusion
from memproxy.core.memory import Memory
from memproxy.recall.asking import Asking
from memproxy.recall.each import Each
from memproxy.recall.lazy import lazy

Array = NDArray[np.float64]
Row = TypeVar("Row", bound=np.generic)

NOBODY = -1
"""Where a turn has no neighbour among the candidates."""

_ADJOINING = 1800 * 1_000_000
"""Messages of two calls (``seq`` begins anew) stand next to each other when no more time is between them than this, in
microseconds."""


class Batch:
    """Candidates of one query: all of them, or those at some ``places``. All arrays have one value per candidate.

    ``counted`` are those that all are held against, and that tell something of each other (None: all do).
    """

    def __init__(
        self, each: Each, places: Sequence[int] | None = None, counted: NDArray[np.bool_] | None = None
    ) -> None:
        self.each = each
        self.counted = counted
        self._places = None if places is None else np.array(places, dtype=np.int64)
        self.memories: list[Memory] = each.memories if places is None else [each.memories[place] for place in places]
        self.notes = each.notes if places is None else [each.notes[place] for place in places]
        self.words = each.words
        self.cosine = self._of(each.cosine)
        self.bm25 = self._of(each.bm25)

    def only(self, places: Sequence[int], *, silent: Set[int] = frozenset()) -> "Batch":
        """The candidates at these places by themselves, of a batch of all of them; those ``silent`` do not count,
        unless there are no others.
        """
        counted = np.array([place not in silent for place in places], np.bool_) if silent else None
        if counted is not None and (counted.all() or not counted.any()):
            counted = None
        return Batch(self.each, None if len(places) == len(self.each.memories) else places, counted)

    def among_counted(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Those of the rows that count."""
        return rows if self.counted is None else rows & self.counted

    def _of(self, values: NDArray[Row]) -> NDArray[Row]:
        """The rows of these candidates."""
        return values if self._places is None else values[self._places]

    @property
    def asking(self) -> Asking:
        """The query, read."""
        return self.each.asking

    @lazy
    def coverage(self) -> Array:
        """The weighted part of the query's terms that each candidate's own text has (`core.fusion`)."""
        held = self.each.held if self._places is None else self.each.held[:, self._places]
        weighed = held if self.counted is None else held[:, self.counted]
        return fusion.coverage(fusion.term_weights(self.each.terms, self.each.generic, weighed), held)

    @lazy
    def phrases(self) -> Array:
        """How many of the query's pairs of words each candidate has word for word."""
        return self._of(self.each.phrases)

    @lazy
    def has_words(self) -> NDArray[np.bool_]:
        """Which candidates (rows) have which of the query's words (columns)."""
        return self._of(self.each.has_words)

    @lazy
    def similarities(self) -> Array:
        """`Each.similarities`."""
        return self._of(self.each.similarities)

    def tokens(self, places: Sequence[int]) -> list[bytes]:
        """`Candidate.tokens` of those at some places."""
        among_all = range(len(self.memories)) if self._places is None else self._places
        return [self.each.packed[among_all[place]] for place in places]

    @lazy
    def window(self) -> Array:
        """The best of each candidate's `similarities` and of those that the turns beside it tell: what an assistant
        answers tells nothing of what the user asks about himself.
        """
        own, silent = self.similarities, self.not_my_words > 0
        best = own.copy()
        for places in self.around:
            there = ((places != NOBODY) & ~silent[places]).nonzero()[0]  # many stand alone
            best[there] = np.fmax(best[there], own[places[there]])
        return best

    @lazy
    def without_vector(self) -> NDArray[np.bool_]:
        """Which candidates have no cosine."""
        missing: NDArray[np.bool_] = np.isnan(self.cosine)
        return missing

    @lazy
    def has_no_vectors(self) -> bool:
        """Whether none that counts has a cosine."""
        return bool(
            np.logical_and.reduce(self.without_vector if self.counted is None else self.without_vector[self.counted])
        )

    @lazy
    def nothing(self) -> Array:
        """0 for each candidate: the column of what the query does not ask for, or none of them has."""
        return np.zeros(len(self.memories))

    @lazy
    def has_tokens(self) -> NDArray[np.bool_]:
        """Which candidates were compared token by token."""
        return fusion.compared(self.similarities)

    @lazy
    def columns(self) -> dict[str, Array]:
        """The signals of `core.fusion`."""
        return fusion.columns(self.cosine, self.bm25, self.coverage, len(self.each.terms), self.counted)

    @lazy
    def strength(self) -> Array:
        """How far a candidate stands out in the signals that are there."""
        total: Array = self.columns["cosine_standing"] + self.columns["bm25_standing"]
        return total

    @lazy
    def is_turn(self) -> Array:
        """1 for verbatim messages, else 0."""
        return self._of(self.each.is_turn)

    @lazy
    def by_assistant(self) -> Array:
        """1 for the assistant's messages, else 0."""
        return self._of(self.each.by_assistant)

    @lazy
    def by_user(self) -> Array:
        """1 for the user's messages, else 0."""
        return self._of(self.each.by_user)

    @lazy
    def not_my_words(self) -> Array:
        """1 for the assistant's messages when the user asks about himself, and not for what the assistant said."""
        return self._of(self.each.not_my_words)

    @lazy
    def created(self) -> Array:
        """When each was learned or said, in seconds."""
        return self._of(self.each.created)

    @lazy
    def topic(self) -> Array:
        """`Each.topic`."""
        return self._of(self.each.topic)

    @lazy
    def asked_speakers(self) -> frozenset[str]:
        """Those who said one of these, or whom one is about, and whose name the query has."""
        asked = self.each.asked_speakers
        if not asked:
            return asked
        return asked.intersection(self._speakers if self.counted is None else compress(self._speakers, self.counted))

    @lazy
    def _speakers(self) -> list[str]:
        speakers = self.each.speakers
        return speakers if self._places is None else [speakers[place] for place in self._places.tolist()]

    def said_by(self, name: str) -> Array:
        """1 for what somebody said, or is about him."""
        return np.array([speaker == name for speaker in self._speakers], dtype=float)

    def surface(self, name: str) -> Array:
        """One sign of the texts of turns, 0 for facts."""
        return self._of(self.each.surface(name))

    @lazy
    def around(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the turns said right before and right after, `NOBODY` where they are no candidates; of one that
        counts, only such that count.
        """
        each = self.each
        order = here = each.turns_in_order
        if self._places is not None:
            places = np.full(len(each.memories), NOBODY)
            places[self._places] = np.arange(len(self._places))
            order = order[places[order] != NOBODY]
            here = places[order]
        before, after = self._adjoining(order, here)
        if self.counted is None:
            return before, after
        there = self.counted[here]
        counted_before, counted_after = self._adjoining(order[there], here[there])
        return np.where(self.counted, counted_before, before), np.where(self.counted, counted_after, after)

    def _adjoining(
        self, order: NDArray[np.intp], here: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`around` of turns in ``order``, which are ``here`` among these candidates."""
        each = self.each
        adjoin = _adjoin(each.session[order], each.microsecond[order], each.place_in_call[order])
        before, after = np.full((2, len(self.memories)), NOBODY)
        one, following = here[:-1][adjoin], here[1:][adjoin]
        before[following], after[one] = one, following
        return before, after

    def beside(self, values: Array, places: NDArray[np.int64]) -> Array:
        """The values of the neighbours at these places, 0 where there is none."""
        return np.where(places == NOBODY, 0.0, values[places])

    @lazy
    def session(self) -> NDArray[np.int64]:
        """The number of the session of each."""
        return self._of(self.each.session)


def _adjoin(session: NDArray[np.int64], microsecond: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which turns of several in order have the next one right after them."""
    apart = microsecond[1:] - microsecond[:-1]
    follows = place[1:] == place[:-1] + 1
    # messages of one call may have times of their own
    near = np.where(apart == 0, follows, (follows | (place[1:] == 0)) & (apart <= _ADJOINING))
    adjoin: NDArray[np.bool_] = near & (session[1:] == session[:-1])
    return adjoin
