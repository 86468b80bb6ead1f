"""The candidates of one query side by side, as arrays: what the ranking stages work on."""

from collections.abc import Callable, Sequence, Set
from itertools import compress
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.core import fusion
from memproxy.core.telling import telling
from memproxy.core.vectors import similarities
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall.lazy import lazy
from memproxy.recall.query import Query
from memproxy.recall.reading import (
    BY_ASSISTANT,
    BY_USER,
    CREATED,
    MICROSECOND,
    PLACE,
    SESSION,
    SIGN_PLACES,
    TURN,
    Reading,
    numbers_of,
)
from memproxy.recall.topics import Topics
from memproxy.recall.word_index import WordIndex

Array = NDArray[np.float64]
Rows = TypeVar("Rows", bound=NDArray[np.generic])

NOBODY = -1
"""Where a turn has no neighbour among the candidates."""

_ADJOINING = 1800 * 1_000_000
"""Messages of two calls (``seq`` begins anew) stand next to each other when no more time is between them than this, in
microseconds."""


class SearchResult(msgspec.Struct, gc=False):
    """A query, the candidates that a search found, and the readings of both.

    ``terms`` are the query's, ``generic`` terms that say little in any query; ``held`` says which terms (rows) each
    candidate's own text has (columns). ``topics`` is None while it has no examples.
    """

    query: Query
    searched: HybridQuery
    candidates: Sequence[Candidate]
    readings: Sequence[Reading]
    terms: Sequence[int]
    generic: frozenset[int]
    held: NDArray[np.bool_]
    words: WordIndex
    topics: Topics | None


def per_candidate(read: "Callable[[CandidateTable], Rows]") -> lazy[Rows]:
    """A column that does not depend on the other candidates: read once, and a part of the table takes its rows."""
    name = read.__name__

    def column(table: "CandidateTable") -> Rows:
        if table.whole is None:
            return read(table)
        values: Rows = getattr(table.whole, name)
        return values if table.places is None else values[table.places]  # type: ignore[return-value]

    column.__doc__ = read.__doc__
    return lazy(column)


class CandidateTable:
    """All candidates of a query, or a part of them (`part`). Each column has one value for each candidate.

    ``counted`` are the candidates that all others are compared with (None: all).
    """

    def __init__(
        self,
        result: SearchResult,
        *,
        whole: "CandidateTable | None" = None,
        places: NDArray[np.intp] | None = None,
        counted: NDArray[np.bool_] | None = None,
        by_words: bool = False,
    ) -> None:
        """``places`` are where the candidates stand in the ``whole`` table (None: all of them are here)."""
        self.result = result
        self.query = result.query
        self.whole = whole
        self.places = places
        self.counted = counted
        self._by_words = by_words
        all_candidates = result.candidates
        self.candidates = all_candidates if places is None else [all_candidates[index] for index in places.tolist()]
        self.memories = [candidate.memory for candidate in self.candidates]

    def part(
        self, places: Sequence[int], *, silent: Set[int] = frozenset(), by_words: bool = False
    ) -> "CandidateTable":
        """A table of the candidates at these places. No other is compared with those that are ``silent``, unless
        there are no others. ``by_words``: as if none had a vector.
        """
        counted = np.array([index not in silent for index in places], np.bool_) if silent else None
        if counted is not None and (counted.all() or not counted.any()):
            counted = None
        among_all = self.places
        if len(places) < len(self.candidates):
            rows = np.array(places, np.intp)
            among_all = rows if self.places is None else self.places[rows]
        return CandidateTable(
            self.result, whole=self.whole or self, places=among_all, counted=counted, by_words=by_words
        )

    def among_counted(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Those of the rows that count."""
        return rows if self.counted is None else rows & self.counted

    # What each candidate has by itself.

    @lazy
    def cosine(self) -> Array:
        """NaN without a vector."""
        return np.full(len(self.candidates), np.nan) if self._by_words else self._cosine

    @per_candidate
    def _cosine(self) -> Array:
        return np.array([np.nan if hit.cosine is None else hit.cosine for hit in self.candidates], dtype=float)

    @per_candidate
    def bm25(self) -> Array:
        """Raw, 0 when no term matches."""
        return np.array([hit.bm25 or 0.0 for hit in self.candidates], dtype=float)

    @lazy
    def numbers(self) -> list[Array]:
        """`Reading.numbers` of all the query's candidates, also in a part of the table."""
        return list(numbers_of(self.result.readings)) if self.whole is None else self.whole.numbers

    @per_candidate
    def is_turn(self) -> Array:
        """1 for verbatim messages, else 0."""
        return self.numbers[TURN]

    @per_candidate
    def by_assistant(self) -> Array:
        """1 for the assistant's messages, else 0."""
        return self.numbers[BY_ASSISTANT]

    @per_candidate
    def by_user(self) -> Array:
        """1 for the user's messages, else 0."""
        return self.numbers[BY_USER]

    def likeliest_messages(self, odds: Array, most: int) -> list[int]:
        """The places of the ``most`` likeliest of the user's counted messages, best first."""
        counts = self.among_counted(self.by_user > 0)
        order = np.argsort(-odds, kind="stable")
        likeliest: list[int] = order[counts[order]][:most].tolist()
        return likeliest

    def tells(self, index: int) -> float:
        """The log odds that a message tells something."""
        reading = self.result.readings[index if self.places is None else self.places[index]]
        if reading.tells is None:
            reading.tells = telling(self.memories[index].content)
        return reading.tells

    @per_candidate
    def created(self) -> Array:
        """When each was learned or said, in seconds."""
        return self.numbers[CREATED]

    @per_candidate
    def session(self) -> NDArray[np.int64]:
        """The number of the session of each."""
        return _numbered(self.numbers[SESSION].view(np.int64))

    @per_candidate
    def not_my_words(self) -> Array:
        """1 for the assistant's messages when the user asks about himself, and not for what the assistant said."""
        asks = self.query.type
        return asks.first_person * (1 - asks.assistant_said) * self.by_assistant

    @per_candidate
    def phrases(self) -> Array:
        """How many of the query's pairs of words each candidate has word for word."""
        counts = np.zeros(len(self.candidates))
        for pair in self.query.word_pairs:
            counts[self.result.words.having(pair)] += 1
        return counts

    @per_candidate
    def has_words(self) -> NDArray[np.bool_]:
        """Which candidates (rows) have which of the query's words (columns)."""
        words = self.query.single_words
        held = np.zeros((len(self.candidates), len(words)), dtype=np.bool_)
        for column, word in enumerate(words):
            held[self.result.words.having(b" %b " % word), column] = True
        return held

    @per_candidate
    def similarities(self) -> Array:
        """How near the tokens of each candidate come to each of the query's; NaN for candidates without tokens, no
        columns where the query has none.
        """
        tokens, packed = self.result.searched.tokens, self.tokens(range(len(self.candidates)))
        if tokens is None or not any(packed):
            return np.full((len(packed), 0), np.nan)
        return similarities(tokens, packed)

    @per_candidate
    def topic(self) -> Array:
        """How near question and candidate are to one topic, by its examples: the product, in the best of the topics."""
        topics, vector, readings = self.result.topics, self.result.searched.dense, self.result.readings
        if topics is None or vector is None:
            return np.zeros(len(self.candidates))
        question_topics = topics.nearness(vector)
        nothing = bytes(4 * len(question_topics))
        candidate_topics = [
            topics.read(hit, reading) or nothing for hit, reading in zip(self.candidates, readings, strict=True)
        ]
        near = np.frombuffer(b"".join(candidate_topics), np.float32).reshape(-1, len(question_topics)) * question_topics
        best: Array = near.max(axis=1).astype(float)
        return best

    def surface(self, name: str) -> Array:
        """One sign of the texts of turns, 0 for facts, whose form says nothing: they are written by one rule."""
        values = self.numbers[SIGN_PLACES[name]]
        return values if self.places is None else values[self.places]

    def tokens(self, places: Sequence[int]) -> list[bytes]:
        """`Candidate.tokens` of those at some places."""
        return [self.candidates[index].tokens for index in places]

    @lazy
    def _speakers(self) -> list[str]:
        readings = self.result.readings
        places = range(len(readings)) if self.places is None else self.places.tolist()
        return [readings[index].speaker for index in places]

    @lazy
    def asked_speakers(self) -> frozenset[str]:
        """Names in the query of people who said one of the candidates, or whom one is about."""
        counted = self._speakers if self.counted is None else compress(self._speakers, self.counted)
        return frozenset(name for name in set(counted) if name and name.split()[0] in self.query.names)

    def by_speaker(self, name: str) -> Array:
        """1 for what somebody said, or is about him."""
        return np.array([speaker == name for speaker in self._speakers], dtype=float)

    # What depends on the others.

    @lazy
    def zeros(self) -> Array:
        """0 for each candidate: the column of a feature that the query does not ask for, or none of them has."""
        return np.zeros(len(self.candidates))

    @lazy
    def without_vector(self) -> NDArray[np.bool_]:
        """Which candidates have no cosine."""
        missing: NDArray[np.bool_] = np.isnan(self.cosine)
        return missing

    @lazy
    def has_no_vectors(self) -> bool:
        """Whether none that counts has a cosine."""
        missing = self.without_vector
        return bool(np.logical_and.reduce(missing if self.counted is None else missing[self.counted]))

    @lazy
    def has_tokens(self) -> NDArray[np.bool_]:
        """Which candidates were compared token by token."""
        return fusion.compared(self.similarities)

    @lazy
    def coverage(self) -> Array:
        """The weighted part of the query's terms that each candidate's own text has (`core.fusion`)."""
        held = self.result.held if self.places is None else self.result.held[:, self.places]
        weighed = held if self.counted is None else held[:, self.counted]
        return fusion.coverage(fusion.term_weights(self.result.terms, self.result.generic, weighed), held)

    @lazy
    def columns(self) -> dict[str, Array]:
        """The signals of `core.fusion`."""
        return fusion.columns(self.cosine, self.bm25, self.coverage, len(self.result.terms), self.counted)

    @lazy
    def strength(self) -> Array:
        """How far a candidate stands out in vector and words together."""
        total: Array = self.columns["cosine_standing"] + self.columns["bm25_standing"]
        return total

    @lazy
    def window(self) -> Array:
        """The best of each candidate's `similarities` and of its neighbouring turns'. Assistant's turns do not count
        where the user asks about himself.
        """
        nearness, silent = self.similarities, self.not_my_words > 0
        best = nearness.copy()
        for places in self.around:
            rows = ((places != NOBODY) & ~silent[places]).nonzero()[0]  # many stand alone
            best[rows] = np.fmax(best[rows], nearness[places[rows]])
        return best

    @lazy
    def around(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the turns said right before and right after, `NOBODY` where they are no candidates; counted
        turns have only counted neighbours.
        """
        order = own_places = self.turns_in_order
        if self.places is not None:
            places = np.full(len(self.result.candidates), NOBODY)
            places[self.places] = np.arange(len(self.places))
            order = order[places[order] != NOBODY]
            own_places = places[order]
        predecessors, successors = self._adjoining(order, own_places)
        if self.counted is None:
            return predecessors, successors
        counts = self.counted[own_places]
        counted_before, counted_after = self._adjoining(order[counts], own_places[counts])
        return np.where(self.counted, counted_before, predecessors), np.where(self.counted, counted_after, successors)

    def neighbour_values(self, values: Array, places: NDArray[np.int64]) -> Array:
        """The values of the neighbours at these places, 0 where there is none."""
        return np.where(places == NOBODY, 0.0, values[places])

    @lazy
    def turns_in_order(self) -> NDArray[np.intp]:
        """The turns of all that were found, those of each session together and as they were said."""
        if self.whole is not None:
            return self.whole.turns_in_order
        turns = self.is_turn.nonzero()[0]
        seq, microsecond = (self.numbers[name].view(np.int64)[turns] for name in (PLACE, MICROSECOND))
        in_order: NDArray[np.intp] = turns[np.lexsort((seq, microsecond, self.session[turns]))]
        return in_order

    def _adjoining(
        self, order: NDArray[np.intp], own_places: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`around` of turns in ``order`` (places in the whole table); ``own_places`` are theirs in this one."""
        session = (self if self.whole is None else self.whole).session[order]
        microsecond, seq = (self.numbers[name].view(np.int64)[order] for name in (MICROSECOND, PLACE))
        gap = microsecond[1:] - microsecond[:-1]
        follows = seq[1:] == seq[:-1] + 1
        # messages of one call may have times of their own
        near = np.where(gap == 0, follows, (follows | (seq[1:] == 0)) & (gap <= _ADJOINING))
        adjoin = near & (session[1:] == session[:-1])
        predecessors, successors = np.full((2, len(self.candidates)), NOBODY)
        preceding, following = own_places[:-1][adjoin], own_places[1:][adjoin]
        predecessors[following], successors[preceding] = preceding, following
        return predecessors, successors


def _numbered(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank of each value among the distinct ones: the inverse of `numpy.unique`, faster."""
    order = values.argsort()
    ranked = values[order]
    new = np.zeros(len(values), np.int64)
    new[1:] = ranked[1:] != ranked[:-1]
    numbered = np.empty(len(values), np.int64)
    numbered[order] = new.cumsum()
    return numbered
