"""What a text looks like on its surface, as far as ranking looks at it: made once for each text, then kept."""

import functools
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.text import GENERIC_WORDS, STOPWORDS, words
from memproxy.ports import LexicalEncoder
from memproxy.recall.documents import dense_text

READ_CHARACTERS = 800
"""What is read of one candidate: long messages have a bit of everything."""

_CACHED_TEXTS = 4096
"""Texts that are kept (about 50 MB): a user's questions keep finding the same memories."""

_KNOWN_WORDS = 50_000
"""Words whose terms are kept (about 10 MB)."""

_MOST_BEGINNINGS = 40
"""For longer queries (something pasted) a text's words are looked up one by one."""

_SHORTEST_BEGINNING, _LONGEST_BEGINNING = 2, 3
"""How much of a query's word its other forms begin with, before they are stemmed: ``cit`` for city and cities."""

_LONGEST = 2.0
_USUAL_LENGTH = 4.0

_THOUSANDS = re.compile(r",(?<=\d,)(?=\d{3}(?!\d))")
_TYPOGRAPHIC = str.maketrans("‘’“”–—…", "''\"\"--.", "\u200b\ufe0f")
_DIGITS = b"0123456789"
_ALIKE = bytes(
    ord(character.lower()) if (character := chr(code)).isascii() and character.isalnum() else ord(" ")
    for code in range(256)
)
"""Capitals to small letters and what is no letter or digit to spaces: many times faster than a regular expression."""

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
_EMPTY_WORDS = frozenset(word.encode() for word in STOPWORDS | GENERIC_WORDS)
_FUNCTION_WORDS = frozenset(part.encode() for word in STOPWORDS for part in word.split("'"))
_ACKNOWLEDGEMENT = re.compile(r"\W*(thanks|thank you|wow|that's|that’s|cool|awesome|congrat|great|nice)", re.IGNORECASE)


class Reading(msgspec.Struct):
    """A text as ranking sees it: the ``surface`` that shows what it is, its words in lower case with spaces around
    (``letters``, ASCII), and of a text that is not plain ASCII its terms.
    """

    surface: str
    letters: bytes
    terms: frozenset[int] | None
    _seen: dict[str, float] = {}

    def sign(self, name: str) -> float:
        """One of `SIGNS`, looked for when it is asked for, because most questions ask for few of them."""
        if name not in self._seen:
            self._seen[name] = SIGNS[name](self)
        return self._seen[name]


class Reader:
    """Reads memories, each text once, and finds a query's terms in them.

    Only words that begin like one of the query's are stemmed, each word once for all texts: to take every text apart
    is most of what a ranking would cost.
    """

    def __init__(self, lexical: LexicalEncoder) -> None:
        self._lexical = lexical
        self._read: Callable[[str, str], Reading] = functools.lru_cache(_CACHED_TEXTS)(self._new)
        self._terms_of: Callable[[bytes], frozenset[int]] = functools.lru_cache(_KNOWN_WORDS)(
            lambda word: self.terms(word.decode())
        )

    def read(self, memory: Memory) -> Reading:
        """The reading of its text, with its tags, entities and category among the words."""
        text = dense_text(memory)[:READ_CHARACTERS]
        if memory.tags or memory.entities or memory.category:
            text = " ".join((text, *memory.tags, *memory.entities, memory.category or ""))
        return self._read(text, memory.content[:READ_CHARACTERS])

    def terms(self, text: str) -> frozenset[int]:
        """The terms of a query or of a few words."""
        return frozenset(self._lexical.encode_query(text).indices)

    def found(self, query: str, terms: frozenset[int], readings: Sequence[Reading]) -> list[frozenset[int]]:
        """Which of a query's ``terms`` each of the texts has."""
        if not terms:
            return [frozenset()] * len(readings)
        plain = unicodedata.normalize("NFKD", query[:_QUERY_CHARACTERS])
        words = (word for word in set(_letters(plain).split()) if not terms.isdisjoint(self._terms_of(word)))
        beginnings = {b" " + word[: max(_SHORTEST_BEGINNING, min(_LONGEST_BEGINNING, len(word) - 1))] for word in words}
        return [
            terms & (self._terms_in(one.letters, beginnings) if one.terms is None else one.terms) for one in readings
        ]

    def _terms_in(self, letters: bytes, beginnings: set[bytes]) -> frozenset[int]:
        if len(beginnings) > _MOST_BEGINNINGS:
            return frozenset[int]().union(*map(self._terms_of, set(letters.split())))
        found = [
            self._terms_of(word) for start in beginnings if start in letters for word in _beginning(letters, start)
        ]
        return frozenset[int]().union(*found)

    def _new(self, text: str, surface: str) -> Reading:
        plain = _THOUSANDS.sub("", text if text.isascii() else text.translate(_TYPOGRAPHIC))
        terms = None if plain.isascii() else frozenset(self._lexical.encode_document(text).indices)
        return Reading(surface=surface, letters=_letters(plain), terms=terms)


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


def _one_of(words: Sequence[bytes], letters: bytes) -> float:
    return float(any(word in letters for word in words))


def _beginning(letters: bytes, start: bytes) -> Iterator[bytes]:
    place = letters.find(start)
    while place >= 0:
        end = letters.index(b" ", place + 1)
        yield letters[place + 1 : end]
        place = letters.find(start, end)


def _letters(text: str) -> bytes:
    return b" %b " % text.encode("ascii", "replace").translate(_ALIKE)


def phrases(text: str) -> list[bytes]:
    """The pairs of words that stand next to each other in a query, at least one of them with a topic, as
    `Reading.letters` would have them.
    """
    words = _letters(text[:_QUERY_CHARACTERS]).split()
    pairs = (pair for pair in pairwise(words) if any(len(word) > 1 and word not in _EMPTY_WORDS for word in pair))
    return [b" %b %b " % pair for pair in dict.fromkeys(pairs)]


def single_words(text: str) -> dict[bytes, bool]:
    """The words of a query as `Reading.letters` would have them, and whether each has no topic ("did", "when"); of a
    query that was pasted the first ones.
    """
    found = list(dict.fromkeys(_letters(text[:_QUERY_CHARACTERS]).split()))
    return {word: word in _FUNCTION_WORDS for word in found[:_MOST_BEGINNINGS]}


class Asking(msgspec.Struct, frozen=True):
    """A query as ranking sees it: what kind of answer it wants and of whose words, 1 or 0 each."""

    number: float
    name: float
    time: float
    first_person: float
    assistant_said: float


_HOW_MANY = re.compile(r"\bhow (many|much|long|old|often|far|big|tall)\b|\bwhat (number|amount|percentage|age)\b")
_WHO = re.compile(
    r"\b(who|whose|whom|where)\b|\b(which|what) (kind of |type of )?"
    r"(person|book|movie|film|show|series|song|album|artist|band|game|city|country|state|place|restaurant|company|brand"
    r"|store|shop|school|university|team|name|recipe|car|dish)s?\b|\bnames?\b"
)
_WHEN = re.compile(r"\bwhen\b|\b(what|which) (date|day|month|year|time|week)\b|\bhow long\b")
_ME = re.compile(r"\b(i|i'm|i've|i'd|my|me|mine|we|our)\b")
_YOU_SAID = re.compile(
    r"\b(you|assistant)( \w+)? (said|say|told|tell|suggested|suggest|recommended|recommend|mentioned|mention|gave|give|"
    r"listed|list|provided|provide|explained|explain|described|wrote|write|advised|shared|came up|helped)\b"
    r"|\byour (suggestion|recommendation|advice|list|answer|explanation)s?\b"
    r"|\bour (previous|last|earlier) (conversation|chat|discussion)\b"
    r"|\bremind me\b"
)
_QUERY_CHARACTERS = 2000


def asking(text: str) -> Asking:
    """Read a query (English forms only; in other languages nothing is known of it)."""
    low = text[:_QUERY_CHARACTERS].lower().replace("’", "'")
    return Asking(
        number=float(_HOW_MANY.search(low) is not None),
        name=float(_WHO.search(low) is not None),
        time=float(_WHEN.search(low) is not None),
        first_person=float(_ME.search(low) is not None),
        assistant_said=float(_YOU_SAID.search(low) is not None),
    )


def names_in(text: str) -> frozenset[str]:
    """The words of a query, lower-cased, to see whose name is among them."""
    return frozenset(word.removesuffix("'s") for word in words(text[:_QUERY_CHARACTERS]))
