"""What a text looks like on its surface, as far as ranking looks at it: made once for each text, then kept."""

import functools
import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.text import GENERIC_WORDS, STOPWORDS, words
from memproxy.ports import LexicalEncoder
from memproxy.recall.documents import dense_text

READ_CHARACTERS = 800
"""What is read of one candidate: long messages have a bit of everything."""

_CACHED_TEXTS = 1024
"""Texts that are kept (about 12 MB): a user's questions keep finding the same memories."""

_MOST_WORDS = 100_000
"""Words whose terms are kept (about 20 MB); with more, all are forgotten and learned anew."""

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

_FIRST_PERSON = frozenset((b"i", b"my", b"we", b"our"))
_NUMBERS = frozenset(b"two three four five six seven eight nine ten dozen once twice both couple".split())
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}|[\"“]")
_TIMES = frozenset(
    b"yesterday today tomorrow tonight last ago next week weekend month year night recently just since".split()
)
_EMPTY_WORDS = frozenset(word.encode() for word in STOPWORDS | GENERIC_WORDS)
_ACKNOWLEDGEMENT = re.compile(r"\W*(thanks|thank you|wow|that's|that’s|cool|awesome|congrat|great|nice)", re.IGNORECASE)


SIGNS = ("length", "question", "first_person", "number", "name", "time", "acknowledgement")
"""What is seen of a text's form, as `Reading.signs` has it."""


class Reading(msgspec.Struct, frozen=True):
    """A text as ranking sees it: its words in lower case (ASCII), in order with spaces around (``letters``) and as a
    set, of a text that is not plain ASCII also its terms; and signs of what it is (`SIGNS`). The length is the
    logarithm of its characters less that of a short sentence's, at most 2; the other signs are 1 or 0.
    """

    letters: bytes
    words: frozenset[bytes]
    terms: frozenset[int]
    signs: tuple[float, ...]


class Reader:
    """Reads memories, each text once, and knows which terms its words stand for.

    Only the query's terms are looked for, so a word is stemmed once for all texts: stemming every text whole took most
    of the time of a ranking.
    """

    def __init__(self, lexical: LexicalEncoder) -> None:
        self._lexical = lexical
        self._read: Callable[[str, str], Reading] = functools.lru_cache(_CACHED_TEXTS)(self._new)
        self._known: set[bytes] = set()
        self._saying: dict[int, set[bytes]] = {}

    def read(self, memory: Memory) -> Reading:
        """The reading of its text, with its tags, entities and category among the words."""
        text = dense_text(memory)[:READ_CHARACTERS]
        if memory.tags or memory.entities or memory.category:
            text = " ".join((text, *memory.tags, *memory.entities, memory.category or ""))
        return self._read(text, memory.content[:READ_CHARACTERS])

    def terms(self, text: str) -> frozenset[int]:
        """The terms of a query or of a few words."""
        return frozenset(self._lexical.encode_query(text).indices)

    def found(self, terms: frozenset[int], readings: Sequence[Reading]) -> list[frozenset[int]]:
        """Which of a query's terms each of the texts has."""
        self._learn(frozenset[bytes]().union(*(reading.words for reading in readings)))
        meaning = {word: term for term in terms for word in self._saying.get(term, ())}
        words, term_of = frozenset(meaning), meaning.__getitem__
        return [frozenset(map(term_of, words & one.words)) | (terms & one.terms) for one in readings]

    def _learn(self, words: frozenset[bytes]) -> None:
        new = words - self._known
        if len(self._known) + len(new) > _MOST_WORDS:
            self._known.clear()
            self._saying.clear()
            new = words
        for word in new:
            for term in self._lexical.encode_query(word.decode()).indices:
                self._saying.setdefault(term, set()).add(word)
        self._known |= new

    def _new(self, text: str, surface: str) -> Reading:
        plain = _THOUSANDS.sub("", text if text.isascii() else text.translate(_TYPOGRAPHIC))
        letters = _letters(plain)
        words = frozenset(letters.split())
        terms = () if plain.isascii() else self._lexical.encode_document(text).indices
        has_digit = len(letters.translate(None, _DIGITS)) < len(letters)
        return Reading(
            letters=letters,
            words=words,
            terms=frozenset(terms),
            signs=(
                min(_LONGEST, math.log1p(len(surface)) - _USUAL_LENGTH),
                float(surface.rstrip().endswith("?")),
                float(not words.isdisjoint(_FIRST_PERSON)),
                float(has_digit or not words.isdisjoint(_NUMBERS)),
                float(_NAME.search(surface) is not None),
                float(not words.isdisjoint(_TIMES)),
                float(_ACKNOWLEDGEMENT.match(surface) is not None),
            ),
        )


def _letters(text: str) -> bytes:
    return b" %b " % text.encode("ascii", "replace").translate(_ALIKE)


def phrases(text: str) -> list[bytes]:
    """The pairs of words that stand next to each other in a query, at least one of them with a topic, as
    `Reading.letters` would have them.
    """
    words = _letters(text[:_QUERY_CHARACTERS]).split()
    pairs = (pair for pair in pairwise(words) if any(len(word) > 1 and word not in _EMPTY_WORDS for word in pair))
    return [b" %b %b " % pair for pair in dict.fromkeys(pairs)]


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
