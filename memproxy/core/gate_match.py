"""How the gate's patterns are looked for: whole messages, and parts of a message that has one of a pattern's cue words.

A pattern that may stand anywhere costs a scan of the text; the cue words, looked up first, save nearly all of these
scans.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from memproxy.core.late import LatePattern

DIGITS = "#"
"""The cue of a pattern that needs a digit."""

MOST_READ = 300
"""Characters of a message that a pattern reads; the gate keeps fewer of it."""

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_DIGIT = re.compile(r"\d")


class Cued(NamedTuple):
    """A pattern and the words of which at least one must be in a text that it fits."""

    cues: frozenset[str]
    pattern: LatePattern


def any_of(*alternatives: str, most: int = MOST_READ) -> LatePattern:
    """One pattern that fits where one of the alternatives does."""
    return LatePattern("|".join(f"(?:{alternative})" for alternative in alternatives), most=most)


def cued(cues: str, pattern: str) -> Cued:
    """``cues`` are words with spaces between them; `DIGITS` among them means any digit."""
    return Cued(frozenset(cues.split()), LatePattern(pattern, most=MOST_READ))


def words_of(plain: str) -> list[str]:
    """The words of a lower-case text, in order, with their apostrophes, without numbers."""
    return _WORD.findall(plain)


class Patterns:
    """Patterns by their cue words: a text has few words, and most are no pattern's."""

    def __init__(self, patterns: Sequence[Cued]) -> None:
        self._patterns = [pattern for _, pattern in patterns]
        self._by_cue: dict[str, list[int]] = {}
        for place, (cues, _) in enumerate(patterns):
            for cue in cues:
                self._by_cue.setdefault(cue, []).append(place)

    def found(self, plain: str, words: frozenset[str]) -> bool:
        """Whether one of the patterns fits somewhere in the text, whose words are given."""
        by_cue = self._by_cue
        places = {place for word in words if word in by_cue for place in by_cue[word]}
        if DIGITS in by_cue and _DIGIT.search(plain):
            places.update(by_cue[DIGITS])
        return any(self._patterns[place].search(plain) is not None for place in places)
