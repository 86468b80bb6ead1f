"""What a memory looks like on its surface, as far as ranking looks at it: made once, then kept beside it."""

import functools
import math
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.ports import LexicalEncoder, Notes
from memproxy.recall.query import MOST_WORDS
from memproxy.recall.word_index import Numbers, WordIndex, spelled

READ_CHARACTERS = 800
"""Characters that are read of one candidate: a long message has a bit of everything."""

_KNOWN_WORDS = 50_000
"""Words whose terms are kept (about 10 MB)."""

_SHORTEST_BEGINNING, _LONGEST_BEGINNING = 2, 3
"""How much of a query's word its other forms begin with, before they are stemmed: ``cit`` for city and cities."""

_QUERY_CHARACTERS = 2000
_LONGEST = 2.0
_USUAL_LENGTH = 4.0

_THOUSANDS = re.compile(r",(?<=\d,)(?=\d{3}(?!\d))")
_TYPOGRAPHIC = str.maketrans("‘’“”–—…", "''\"\"--.", "\u200b\ufe0f")
_DIGITS = b"0123456789"
_FIRST_PERSON = (b" i ", b" my ", b" we ", b" our ")
_NUMBERS = tuple(
    b" %b " % word for word in b"two three four five six seven eight nine ten dozen once twice both couple".split()
)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}|[\"“]")
_TIMES = tuple(
    b" %b " % word
    for word in (
        b"yesterday today tomorrow tonight last ago next week weekend month year night recently just since".split()
    )
)
_ACKNOWLEDGEMENT = re.compile(r"\W*(thanks|thank you|wow|that's|that’s|cool|awesome|congrat|great|nice)", re.IGNORECASE)


TURN, BY_USER, BY_ASSISTANT, CREATED = range(4)
LENGTH, QUESTION, FIRST_PERSON, NUMBER, NAME, TIME, ACKNOWLEDGEMENT = range(4, 11)
SESSION, MICROSECOND, PLACE = range(11, 14)
NUMBERS = 14
"""What `Reading.numbers` holds: 1 for a verbatim message, else 0; the same for a user's and for an assistant's; when it
was learned or said, in seconds; of a verbatim message the `SIGNS` (0 of others); and
where a turn stands, as 64-bit integers: a number that stands for its session in
this process, the microsecond, and the place within its call.
"""

_FARTHEST_PLACE = 2**61
"""Clients choose the place: a larger number is cut to this, so that differences fit into 64 bits."""


class Reading(msgspec.Struct):
    """A memory as ranking sees it: the ``surface`` that shows what it is, its words in lower case with spaces around
    (``letters``, ASCII), and of a text that is not plain ASCII its terms. ``numbers`` are 64-bit numbers as bytes, so
    that those of many memories become one table at once; ``speaker`` is who said it or whom it is about, lower-cased
    (empty where that is not known).
    """

    surface: str
    letters: bytes
    terms: frozenset[int] | None
    numbers: bytes
    speaker: str
    topics: bytes | None = None
    """`recall.topics.Topics.read`, where it was asked for."""
    tells: float | None = None
    """`core.telling.telling` of a message, where it was asked for."""


def readings_of(notes: Iterable[Notes]) -> list[Reading | None]:
    """The kept reading of each memory; None where there is none."""
    derived: list[Any] = list(map(attrgetter("derived"), notes))
    if set(map(type, derived)) <= {Reading}:
        return derived  # as nearly always
    return [reading if isinstance(reading, Reading) else None for reading in derived]


def numbers_of(readings: Sequence[Reading]) -> NDArray[np.float64]:
    """The `Reading.numbers` of several: a row for each number, a column for each reading."""
    return np.frombuffer(b"".join([reading.numbers for reading in readings])).reshape(-1, NUMBERS).T.copy()


class Reader:
    """Reads memories, each text once, and finds a query's terms in them.

    Only words that begin like one of the query's are stemmed, each word once for all texts: to take every text apart
    is most of what a ranking would cost.
    """

    def __init__(self, lexical: LexicalEncoder) -> None:
        self._lexical = lexical
        self._terms_of: Callable[[bytes], frozenset[int]] = functools.lru_cache(_KNOWN_WORDS)(
            lambda word: self.terms(word.decode())
        )

    def of(self, memory: Memory, notes: Notes) -> Reading:
        """The reading kept beside the memory; made and kept from now on if there is none."""
        reading = notes.derived
        if not isinstance(reading, Reading):
            reading = notes.derived = self.read(memory)
        return reading

    def read(self, memory: Memory) -> Reading:
        """The reading of its text (`documents.dense_text`), with its tags, entities and category among the words."""
        is_turn, content = memory.kind is Kind.TURN, memory.content[:READ_CHARACTERS]
        named = memory.metadata.get("name") if is_turn else memory.subject
        name = named if isinstance(named, str) else ""
        text = f"{name}: {content}"[:READ_CHARACTERS] if is_turn and name else content
        if memory.tags or memory.entities or memory.category:
            text = " ".join((text, *memory.tags, *memory.entities, memory.category or ""))
        plain = _THOUSANDS.sub("", text if text.isascii() else text.translate(_TYPOGRAPHIC))
        reading = Reading(
            surface=content,
            letters=spelled(plain),
            terms=None if plain.isascii() else frozenset(self._lexical.encode_document(text).indices),
            numbers=b"",
            speaker=name.lower(),
        )
        reading.numbers = _numbers(memory, reading)
        return reading

    def terms(self, text: str) -> frozenset[int]:
        """The terms of a query or of a few words."""
        return frozenset(self._lexical.encode_query(text).indices)

    def held_terms(
        self, query: str, terms: Sequence[int], readings: Sequence[Reading], index: WordIndex | None = None
    ) -> NDArray[np.bool_]:
        """Which of the texts (columns) have which of a query's ``terms`` (rows). ``index`` is that of all texts."""
        held = np.zeros((len(terms), len(readings)), dtype=np.bool_)
        if not terms:
            return held
        index = index or WordIndex([reading.letters for reading in readings])
        rows = {term: row for row, term in enumerate(terms)}
        for word, places in self._likely(query, rows.keys(), index):
            for term in self._terms_of(word):
                if term in rows:
                    held[rows[term], places] = True
        for column in [column for column, reading in enumerate(readings) if reading.terms is not None]:
            held[:, column] = False
            held[[rows[term] for term in rows.keys() & (readings[column].terms or ())], column] = True
        return held

    def _likely(self, query: str, terms: Set[int], index: WordIndex) -> Iterator[tuple[bytes, Numbers]]:
        """Words of the texts that may be forms of the query's, and which texts have each."""
        plain = unicodedata.normalize("NFKD", query[:_QUERY_CHARACTERS])
        words = (word for word in set(spelled(plain).split()) if not terms.isdisjoint(self._terms_of(word)))
        beginnings = {word[: max(_SHORTEST_BEGINNING, min(_LONGEST_BEGINNING, len(word) - 1))] for word in words}
        if len(beginnings) > MOST_WORDS:
            return index.words()
        return chain.from_iterable(map(index.beginning, beginnings))


def _numbers(memory: Memory, reading: Reading) -> bytes:
    is_turn = memory.kind is Kind.TURN
    numbers = [0.0] * SESSION
    numbers[TURN] = float(is_turn)
    numbers[BY_USER] = float(is_turn and memory.trust is Trust.USER)
    numbers[BY_ASSISTANT] = float(is_turn and memory.trust is Trust.ASSISTANT)
    numbers[CREATED] = memory.created_at.timestamp()
    if is_turn:
        for name, sign in SIGNS.items():
            numbers[SIGN_PLACES[name]] = sign(reading)
    seq = memory.metadata.get("seq", 0)
    seq = max(-_FARTHEST_PLACE, min(_FARTHEST_PLACE, seq)) if isinstance(seq, int) else 0
    stands = array("q", (hash(memory.session_id), round(memory.created_at.timestamp() * 1_000_000), seq))
    return array("d", numbers).tobytes() + stands.tobytes()


def _has_number(reading: Reading) -> float:
    has_digit = len(reading.letters.translate(None, _DIGITS)) < len(reading.letters)
    return 1.0 if has_digit else _one_of(_NUMBERS, reading.letters)


SIGNS: Mapping[str, Callable[[Reading], float]] = MappingProxyType(
    {
        "length": lambda reading: min(_LONGEST, math.log1p(len(reading.surface)) - _USUAL_LENGTH),
        "question": lambda reading: float(reading.surface.rstrip().endswith("?")),
        "first_person": lambda reading: _one_of(_FIRST_PERSON, reading.letters),
        "number": _has_number,
        "name": lambda reading: float(_NAME.search(reading.surface) is not None),
        "time": lambda reading: _one_of(_TIMES, reading.letters),
        "acknowledgement": lambda reading: float(_ACKNOWLEDGEMENT.match(reading.surface) is not None),
    }
)
"""What is seen of a text's form: the logarithm of its characters less that of a short sentence's, at most 2; the others
are 1 or 0.
"""


SIGN_PLACES: Mapping[str, int] = MappingProxyType(
    {
        "length": LENGTH,
        "question": QUESTION,
        "first_person": FIRST_PERSON,
        "number": NUMBER,
        "name": NAME,
        "time": TIME,
        "acknowledgement": ACKNOWLEDGEMENT,
    }
)
"""The places of the signs among a reading's numbers."""


def _one_of(words: Sequence[bytes], letters: bytes) -> float:
    return float(any(word in letters for word in words))
