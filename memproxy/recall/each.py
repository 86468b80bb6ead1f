"""The candidates of one query, each by itself: what is known of them whoever the others are, looked at once for all
rankings of the query.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memproxy.core import timerange
from memproxy.core.tokenvectors import similarities
from memproxy.ports import Candidate
from memproxy.recall.asking import Asking, names_in
from memproxy.recall.lazy import lazy
from memproxy.recall.letters import Letters
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
    phrases,
    single_words,
)
from memproxy.recall.topics import Topics

Array = NDArray[np.float64]
Read = TypeVar("Read")


class Each:
    """The query, and its candidates side by side. All arrays have one value for each candidate.

    ``terms`` are the query's, ``held`` says which of them (rows) each candidate's own text has (columns); ``tokens``
    and ``words`` are the query's as in `HybridQuery`, ``vector`` its one vector.
    ``session`` is which of so many ``sessions`` each is from,
    ``microsecond`` when it was learned or said, and ``place_in_call`` where each turn stood among those that came in
    with it.
    """

    def __init__(
        self,
        *,
        query: Query,
        terms: Sequence[int],
        generic: frozenset[int],
        candidates: Sequence[Candidate],
        readings: Sequence[Reading],
        held: NDArray[np.bool_],
        tokens: NDArray[np.float32] | None = None,
        words: Sequence[str] = (),
        letters: Letters | None = None,
        topics: Topics | None = None,
        vector: Sequence[float] | None = None,
    ) -> None:
        self.query = query
        self.text = query.text
        self.terms = terms
        self.generic = generic
        self.held = held
        self.words = words
        self.letters = letters or Letters([reading.letters for reading in readings])
        self._tokens = tokens
        self._topics = topics if topics is not None and topics.known else None
        self._vector = vector
        self._readings = readings
        self._read: dict[Callable[[str], Any], Any] = {}
        numbers = numbers_of(readings)
        self._numbers: list[Array] = list(numbers)
        self.session, self.sessions = _numbered(numbers[SESSION].view(np.int64))
        self.microsecond: NDArray[np.int64] = numbers[MICROSECOND].view(np.int64)
        self.place_in_call: NDArray[np.int64] = numbers[PLACE].view(np.int64)
        self.memories = [candidate.memory for candidate in candidates]
        self.notes = [candidate.notes for candidate in candidates]
        self.packed = [candidate.tokens for candidate in candidates]
        self.cosine = np.array([np.nan if one.cosine is None else one.cosine for one in candidates], dtype=float)
        self.bm25 = np.array([one.bm25 or 0.0 for one in candidates], dtype=float)

    def of_text(self, read: Callable[[str], Read]) -> Read:
        """What a function reads in the query: it is called once for all rankings."""
        if read not in self._read:
            self._read[read] = read(self.text)
        found: Read = self._read[read]
        return found

    @lazy
    def asking(self) -> Asking:
        """The query, read."""
        return self.query.asking

    @lazy
    def spans(self) -> list[timerange.Span]:
        """The times that the query names."""
        return self.query.spans

    @lazy
    def asks_for_latest(self) -> bool:
        """Whether the query is for what is newest."""
        return timerange.asks_for_latest(self.text)

    @lazy
    def is_turn(self) -> Array:
        """1 for verbatim messages, else 0."""
        return self._numbers[TURN]

    @lazy
    def by_assistant(self) -> Array:
        """1 for the assistant's messages, else 0."""
        return self._numbers[BY_ASSISTANT]

    @lazy
    def by_user(self) -> Array:
        """1 for the user's messages, else 0."""
        return self._numbers[BY_USER]

    @lazy
    def not_my_words(self) -> Array:
        """1 for the assistant's messages when the user asks about himself, and not for what the assistant said."""
        return self.asking.first_person * (1 - self.asking.assistant_said) * self.by_assistant

    @lazy
    def phrases(self) -> Array:
        """How many of the query's pairs of words each candidate has word for word."""
        counts = np.zeros(len(self._readings))
        for pair in phrases(self.text):
            counts[self.letters.having(pair)] += 1
        return counts

    @lazy
    def single_words(self) -> dict[bytes, bool]:
        """`reading.single_words` of the query."""
        return single_words(self.text)

    @lazy
    def has_words(self) -> NDArray[np.bool_]:
        """Which candidates (rows) have which of the `single_words` (columns)."""
        held = np.zeros((len(self._readings), len(self.single_words)), dtype=np.bool_)
        for column, word in enumerate(self.single_words):
            held[self.letters.having(b" %b " % word), column] = True
        return held

    @lazy
    def similarities(self) -> Array:
        """How near the tokens of each candidate come to each of the query's; NaN for candidates without tokens, no
        columns where the query has none.
        """
        if self._tokens is None or not any(self.packed):
            return np.full((len(self.memories), 0), np.nan)
        return similarities(self._tokens, self.packed)

    @lazy
    def topic(self) -> Array:
        """How near question and candidate are to one topic, by its examples: the product, in the best of the topics."""
        topics = self._topics
        if topics is None or self._vector is None:
            return np.zeros(len(self.memories))
        for reading, tokens in zip(self._readings, self.packed, strict=True):
            if reading.topics is None and tokens:
                reading.topics = topics.told(tokens)
        asked = topics.asked(self._vector)
        nothing = bytes(4 * len(asked))
        told = np.frombuffer(b"".join(reading.topics or nothing for reading in self._readings), np.float32)
        found: Array = (told.reshape(-1, len(asked)) * asked).max(axis=1).astype(float)
        return found

    @lazy
    def speakers(self) -> list[str]:
        """Who said each turn, whom each fact is about; empty where that is not known."""
        return [reading.speaker for reading in self._readings]

    @lazy
    def asked_speakers(self) -> frozenset[str]:
        """Those of the speakers whose name the query has."""
        named = names_in(self.text)
        return frozenset(name for name in set(self.speakers) if name and name.split()[0] in named)

    @lazy
    def created(self) -> Array:
        """When each was learned or said, in seconds."""
        return self._numbers[CREATED]

    @lazy
    def turns_in_order(self) -> NDArray[np.intp]:
        """The places of the turns, those of each session together and as they were said."""
        turns = self.is_turn.nonzero()[0]
        keys = (self.place_in_call[turns], self.microsecond[turns], self.session[turns])
        in_order: NDArray[np.intp] = turns[np.lexsort(keys)]
        return in_order

    def surface(self, name: str) -> Array:
        """One sign of the texts of turns, 0 for facts, whose form says nothing: they are written by one rule."""
        return self._numbers[SIGN_PLACES[name]]


def _numbered(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Which of the different values each is, in their order, and how many these are: `numpy.unique`, faster."""
    order = values.argsort()
    ranked = values[order]
    new = np.zeros(len(values), np.int64)
    new[1:] = ranked[1:] != ranked[:-1]
    found = np.empty(len(values), np.int64)
    found[order] = new.cumsum()
    return found, int(found.max(initial=-1)) + 1
