"""A question about two things that were told at different times: which of them came first, how far apart they are, what
they come to together. Searched as one, the thing with more of the question's words drowns the other.
"""

import math
import re
from collections.abc import Sequence

import msgspec

from memproxy.core.fusion import log_odds
from memproxy.core.late import LatePattern
from memproxy.recall.asking import asking
from memproxy.recall.hops import id_of
from memproxy.recall.search import Scored

MOST_CHARACTERS = 300
"""Longer messages tell more than they ask."""

WHOLE_AND_SIDE = 0.75
"""Added to the mean of two log odds: that a memory answers the whole question, and that it is what was told of one
side. On LongMemEval's questions of this kind the block has 17 of 28 gold turns with it, 11 without sides, and of its
lines 0.61 are gold (0.58).
"""

SIDE = "side"
"""The signal that tells how likely a memory is what was told of one side."""

_MOST_WORDS = 12
_LEAST_LETTERS = 3
_SUREST = 1 - 1e-6

_MORE = (
    r"first|last|earlier|later|sooner|more|less|most|longer|bigger|older|younger|cheaper|dearer|better|faster|further|farther"
    r"|zuerst|zuletzt|früher|später|eher|länger|größer|älter|jünger|teurer|billiger|besser|schneller|weiter|mehr"
    r"|primero|antes|después|más|mejor|mayor|menor|premier|première|avant|après|plus|mieux"
)
_ASKS = r"which|what|who|whom|did|do|does|was|is|were|are|wer|was|welche\w*|qu[eéi]\w*|quel\w*|cu[aá]l\w*"
_EITHER = LatePattern(
    rf"(?:^|[\s¿])(?:{_ASKS})\b[^?]*?\b(?:{_MORE})\b[^,:?]*[,:] "
    r"(?P<one>[^?]+?),? (?:or|oder|o|ou) (?P<two>[^?]+?)\s?\?*$",
    re.IGNORECASE,
    most=MOST_CHARACTERS,
)
_BETWEEN = LatePattern(
    r"\b(?:between|zwischen|entre) (?P<one>[^?]{4,}?) (?:and|und|y|et) "
    r"(?P<two>(?:the|my|our|when|d\w\w|mein\w*|mi|la|el|ma|mon|le)\b[^?]+?)\s?\?*$",
    re.IGNORECASE,
    most=MOST_CHARACTERS,
)
_MEANWHILE = LatePattern(
    r"(?:^|\s)(?P<one>how (?:long|many (?:days|weeks|months|years)) (?:had|have|did|was|were)\b[^?]+?) "
    r"(?:when|before|after|until|by the time) (?P<two>(?:i|we|my|our|the)\b[^?]+)\?*$",
    re.IGNORECASE,
    most=MOST_CHARACTERS,
)
_TOGETHER = LatePattern(
    r"(?:^|\s)(?:how much|how many|what)\b[^?]*"
    r"\b(?:total|altogether|combined|together|sum|more|less|difference)\b[^?]*?"
    r"\b(?:on|for|of|by|from|in|at|than|was|is|were|do|did) (?P<one>(?:the|my|our|an?)\b[^?]+?) "
    r"(?:and|than) (?P<two>[^?]+)\?*$",
    re.IGNORECASE,
    most=MOST_CHARACTERS,
)
_HEAD = re.compile(r"\b(?:which|what) (?P<head>\w+)", re.IGNORECASE)
_ONE = re.compile(r"^the one\b", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\w)", re.IGNORECASE)


def sides_of(query: str) -> list[str]:
    """The two things that a question is about, each as it is to be searched; nothing where it is about one."""
    read = query.strip()
    if len(read) > MOST_CHARACTERS:
        return []
    for form in (_EITHER, _BETWEEN, _MEANWHILE, _TOGETHER):
        found = form.search(read)
        if found is not None and all(map(_names_something, found.groups())):
            own = bool(asking(read).of_self)
            return [_searched(side, read, own=own) for side in (found["one"].strip(), found["two"].strip())]
    return []


def with_sides(whole: Sequence[Scored], sides: Sequence[Sequence[Scored]]) -> list[Scored]:
    """Everything found for the whole question, where the best of each side may come to more than it had by itself; not
    what something else of the whole replaces.
    """
    best = {id_of(one): one for one in whole}
    for side in sides:
        for one in side[:1]:
            known = best.get(id_of(one))
            score = _together(known.score if known is not None else 0.0, one.score)
            if known is None or score > known.score:
                best[id_of(one)] = msgspec.structs.replace(one, score=score, signals=one.signals | {SIDE: one.score})
    return sorted(best.values(), key=lambda one: -one.score)


def _together(whole: float, side: float) -> float:
    odds = (log_odds(whole, surest=_SUREST) + log_odds(side, surest=_SUREST)) / 2 + WHOLE_AND_SIDE
    return 1 / (1 + math.exp(-odds))


def _names_something(side: str) -> bool:
    words = side.split()
    return len(words) <= _MOST_WORDS and any(len(word) >= _LEAST_LETTERS for word in words)


def _searched(side: str, query: str, *, own: bool) -> str:
    """What of the user's it is: "the one to Spain" is a trip where it is asked which trip."""
    head = _HEAD.search(query)
    named = _ONE.sub(f"the {head['head']}", side) if head is not None else side
    return _ARTICLE.sub("my ", named) if own else named
