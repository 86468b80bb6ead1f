"""Questions that ask two things at once ("What is my dog called and when is my dentist appointment?"): each is searched
for by itself, because a text about one of them has few of the words of both.
"""

import re

from memproxy.core.late import LatePattern
from memproxy.core.text import key_terms

MOST_PARTS = 3
"""Each part costs a search."""

MOST_CHARACTERS = 300
"""Longer messages tell more than they ask."""

_ASKING = r"(?:what|when|where|who|whom|whose|which|why|how)\b"
_ASKING_OF_ME = r"(?:do|does|did|am|is|are|was|were|have|has|had|can|will|should) (?:i|we|my|our)\b"
_NEXT_QUESTION = LatePattern(
    r"(?:\?\s+(?:(?:and|also|or|but)[ ,]\s*)?|[,;]?\s+(?:and|also|or|but)\s+(?:also\s+)?)"
    rf"(?={_ASKING}|{_ASKING_OF_ME})",
    re.IGNORECASE,
    most=MOST_CHARACTERS,
)
_BEGINS_BY_ASKING = re.compile(
    rf"\W*(?:(?:please|hey|hi|so|and|ok|okay)\W+)*(?:(?:can|could|would) you )?(?:please )?"
    rf"(?:tell me |remind me |do you (?:know|remember) )?(?:{_ASKING}|{_ASKING_OF_ME})",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:he|she|they|it|him|her|them|his|hers|their|its|there|that|this|those|these|then|one|ones|both|same)\b",
    re.IGNORECASE,
)
_ABOUT_SOMEBODY = re.compile(r"\b(?:[Ii]|[Mm]y|[Mm]e|[Mm]ine|[Ww]e|[Oo]ur|[Uu]s)\b|(?<=[\w,] )[A-Z]\w")


def parts_of(query: str) -> list[str]:
    """The questions in a query, in order; the query itself when it is one.

    It is divided only where every part is a whole question: it asks by itself, names its own matter and whom it is
    about, and points back at nothing in the one before ("... and when did it start?").
    """
    if len(query) > MOST_CHARACTERS:
        return [query]
    parts = [part.strip() for part in _NEXT_QUESTION.split(query, MOST_PARTS - 1)]
    if len(parts) < 2:
        return [query]
    whole = all(map(_is_whole, parts)) and not any(map(_POINTS_BACK.search, parts[1:]))
    return parts if whole else [query]


def _is_whole(part: str) -> bool:
    asks, named = _BEGINS_BY_ASKING.match(part), _ABOUT_SOMEBODY.search(part)
    return bool(key_terms(part, limit=1)) and asks is not None and named is not None
