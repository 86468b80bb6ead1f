"""The candidates of one query, each by itself: what is known of them whoever the others are, looked at once for all
rankings of the query.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memproxy.core import timerange
from memproxy.core.text import GENERIC_WORDS, key_terms
from memproxy.core.tokenvectors import similarities
from memproxy.core.topics import asks_advice, topics_of
from memproxy.ports import Candidate
from memproxy.recall import constraints, matters
from memproxy.recall.asking import Asking, names_in
from memproxy.recall.lazy import lazy
from memproxy.recall.letters import Letters
from memproxy.recall.preferences import is_preference
from memproxy.recall.query import Query
from memproxy.recall.reading import (
    BY_ASSISTANT,
    BY_USER,
    CREATED,
    MICROSECOND,
    OF_OTHERS,
    PLACE,
    SESSION,
    SIGN_PLACES,
    TURN,
    Reading,
    numbers_of,
    phrases,
    single_words,
)

Array = NDArray[np.float64]
Read = TypeVar("Read")

_NAMING = 3
"""Letters of a word that may name somebody."""


class Each:
    """The query, and its candidates side by side. All arrays have one value for each candidate.

    ``terms`` are the query's, ``held`` says which of them (rows) each candidate's own text has (columns); ``tokens``
    and ``words`` are the query's as in `HybridQuery`. ``session`` is which of so many ``sessions`` each is from,
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
    ) -> None:
        self.query = query
        self.text = query.text
        self.terms = terms
        self.generic = generic
        self.held = held
        self.words = words
        self.letters = letters or Letters([reading.letters for reading in readings])
        self._tokens = tokens
        self._readings = readings
        self._read: dict[Callable[[str], Any], Any] = {}
        self._read_each: dict[tuple[Callable[[Each, int], Any], int], Any] = {}
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

    def of_memory(self, read: Callable[["Each", int], Read], place: int) -> Read:
        """What a function reads in the candidate at this place: it is called once for all rankings."""
        key = (read, place)
        if key not in self._read_each:
            self._read_each[key] = read(self, place)
        found: Read = self._read_each[key]
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
    def advice_fields(self) -> frozenset[str]:
        """The fields that the query asks advice on (`constraints.asked_for`)."""
        return self.query.advice_fields

    @lazy
    def asked_about(self) -> matters.AskedMatters:
        """The everyday matters that the query asks for."""
        return self.query.asked_about

    @lazy
    def bearers(self) -> frozenset[str]:
        """Whom of kin the query is about (`constraints.whose`)."""
        return constraints.whose(self.text)

    @lazy
    def naming(self) -> frozenset[str]:
        """The query's terms that may name somebody: not those by which it asks for its matters."""
        rest = self.asked_about.rest(self.text)
        return frozenset(term for term in key_terms(rest) if len(term) >= _NAMING)

    @lazy
    def asks_more(self) -> bool:
        """Whether the query has a topic beside the words by which it asks for its matters."""
        return any(term not in GENERIC_WORDS for term in key_terms(self.asked_about.rest(self.text)))

    def told(self, place: int) -> frozenset[str]:
        """Which of the matters that are asked for the candidate at this place tells of, of whom the query is about."""
        return self.of_memory(_told, place)

    def said(self, place: int) -> matters.Said:
        """The candidate at this place, as far as it may tell of the matters that are asked for."""
        return self.of_memory(_said, place)

    def named_by(self, place: int) -> frozenset[str]:
        """Those of them that the candidate says it is of, where it is a fact (`AskedMatters.named_by`)."""
        return self.of_memory(_named_by, place)

    def begins(self, place: int) -> frozenset[str]:
        """Those of them that the candidate tells of at its beginning, where it is a fact (`AskedMatters.begins`)."""
        return self.of_memory(_begins, place)

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
    def tells_preference(self) -> Array | None:
        """1 for what tells of the user's tastes in the matter that he asks advice on; None when he asks for none."""
        wanted = asks_advice(self.text) and not self.asking.assistant_said  # that was given: which one, is asked
        topics = topics_of(self.text) if wanted else frozenset[str]()
        return np.array([float(is_preference(memory, topics)) for memory in self.memories]) if topics else None

    @lazy
    def sources(self) -> list[int]:
        """The place of the last of the user's messages that each was learned from; its own where none is there."""
        found = list(range(len(self.memories)))
        others: list[int] = self._numbers[OF_OTHERS].nonzero()[0].tolist()
        if len({memory.id for memory in self.memories}) < len(found):
            others = found.copy()  # clients may use one id in several sessions
        if not others:
            return found
        turns = {self.memories[place].id: place for place in np.flatnonzero(self.by_user).tolist()}
        created = self.created
        for place in others:
            known = [turns[turn] for turn in self.memories[place].turn_ids if turn in turns]
            found[place] = max(known, key=created.__getitem__, default=place)
        return found

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


def _said(each: Each, place: int) -> matters.Said:
    return each.asked_about.read(each.memories[place].content)


def _told(each: Each, place: int) -> frozenset[str]:
    told = each.asked_about.told(each.said(place), each.bearers)
    return told if each.is_turn[place] else told | each.named_by(place)


def _named_by(each: Each, place: int) -> frozenset[str]:
    return each.asked_about.named_by(each.memories[place], each.bearers)


def _begins(each: Each, place: int) -> frozenset[str]:
    return each.asked_about.begins(each.memories[place], each.bearers)
