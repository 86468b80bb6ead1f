"""What a text looks like on its surface, as far as ranking looks at it: made once for each text, then kept."""

import functools
import math
import re
from collections.abc import Callable

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.text import words
from memproxy.ports import LexicalEncoder
from memproxy.recall.documents import dense_text

READ_CHARACTERS = 1000
"""What is read of one candidate to see which of the query's words it has."""

_SURFACE_CHARACTERS = 600
"""What is read of one candidate for its form: long messages have a bit of everything."""

_CACHED_TEXTS = 4096
"""Texts that are kept (about 10 MB): a user's questions keep finding the same memories."""

_LONGEST = 2.0
_USUAL_LENGTH = 4.0

_FIRST_PERSON = re.compile(r"\b(I|I'm|I’m|I've|I’ve|I'd|I'll|[Mm]y|[Ww]e|[Oo]ur)\b")
_NUMBER = re.compile(
    r"\d|\b(two|three|four|five|six|seven|eight|nine|ten|dozen|once|twice|both|couple)\b", re.IGNORECASE
)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}|[\"“]")
_TIME = re.compile(
    r"\b(yesterday|today|tomorrow|tonight|last|ago|next|week|weekend|month|year|night|recently|just|since)\b",
    re.IGNORECASE,
)
_ACKNOWLEDGEMENT = re.compile(r"\W*(thanks|thank you|wow|that's|that’s|cool|awesome|congrat|great|nice)", re.IGNORECASE)


SIGNS = ("length", "question", "first_person", "number", "name", "time", "acknowledgement")
"""What is seen of a text's form, as `Reading.signs` has it."""


class Reading(msgspec.Struct, frozen=True):
    """A text as ranking sees it: its terms, and signs of what it is (`SIGNS`). The length is the logarithm of its
    characters less that of a short sentence's, at most 2; the other signs are 1 or 0.
    """

    terms: frozenset[int]
    signs: tuple[float, ...]


class Reader:
    """Reads memories, each text once."""

    def __init__(self, lexical: LexicalEncoder) -> None:
        self._lexical = lexical
        self._read: Callable[[str, str], Reading] = functools.lru_cache(_CACHED_TEXTS)(self._new)

    def read(self, memory: Memory) -> Reading:
        """The reading of its text, with its tags, entities and category among the terms."""
        text = dense_text(memory)[:READ_CHARACTERS]
        if memory.tags or memory.entities or memory.category:
            text = " ".join((text, *memory.tags, *memory.entities, memory.category or ""))
        return self._read(text, memory.content[:_SURFACE_CHARACTERS])

    def terms(self, text: str) -> frozenset[int]:
        """The terms of a query or of a few words."""
        return frozenset(self._lexical.encode_query(text).indices)

    def _new(self, text: str, surface: str) -> Reading:
        return Reading(
            terms=frozenset(self._lexical.encode_document(text).indices),
            signs=(
                min(_LONGEST, math.log1p(len(surface)) - _USUAL_LENGTH),
                float(surface.rstrip().endswith("?")),
                float(_FIRST_PERSON.search(surface) is not None),
                float(_NUMBER.search(surface) is not None),
                float(_NAME.search(surface) is not None),
                float(_TIME.search(surface) is not None),
                float(_ACKNOWLEDGEMENT.match(surface) is not None),
            ),
        )


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
