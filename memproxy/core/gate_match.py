"""How the gate's patterns are looked for: whole messages, and parts of a message that has one of a pattern's cue words.

A pattern that may stand anywhere costs a scan of the text; the cue words, compared as sets first, save nearly all of
these scans.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

DIGITS = "#"
"""The cue of a pattern that needs a digit."""

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_DIGIT = re.compile(r"\d")


class Cued(NamedTuple):
    """A pattern and the words of which at least one must be in a text that it fits."""

    cues: frozenset[str]
    pattern: re.Pattern[str]


def any_of(*alternatives: str) -> re.Pattern[str]:
    """One pattern that fits where one of the alternatives does."""
    return re.compile("|".join(f"(?:{alternative})" for alternative in alternatives))


def cued(cues: str, pattern: str) -> Cued:
    """``cues`` are words with spaces between them; `DIGITS` among them means any digit."""
    return Cued(frozenset(cues.split()), re.compile(pattern))


def words_of(plain: str) -> list[str]:
    """The words of a lower-case text, in order, with their apostrophes, without numbers."""
    return _WORD.findall(plain)


def found(patterns: Iterable[Cued], plain: str, words: frozenset[str]) -> bool:
    """Whether one of the patterns fits somewhere in the text, whose words are given."""
    present = words | {DIGITS} if _DIGIT.search(plain) else words
    return any(not cues.isdisjoint(present) and pattern.search(plain) is not None for cues, pattern in patterns)
