"""What somebody close to the user likes, where he asks for something for them: a present, a card, an evening.

"Any ideas for a present for my wife?" and "she adores orchids, my wife" share no topic, and many say "wife".
"""

import math
import re

import msgspec
import numpy as np

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.recall import constraints
from memproxy.recall.asking import BEGINS, AnyCase
from memproxy.recall.batch import Array, Batch
from memproxy.recall.each import Each

MOST = 4
"""So many of them are lifted at most, those that match the query best."""

TASTE = 1.4
"""Log odds of what somebody likes (0.8), whatever the query's words are."""

BELOW = 1.4
"""How far they stand below the best at most: within the elbow of `recall.select`."""

SUREST = math.log(99)
"""Log odds of what is taken for sure: the elbow counts from no more than this."""

_STEP = 1e-3
_READ = 600

_FOR_THEM = AnyCase(
    rf"{BEGINS}(?:"
    r"\b(?:gifts?|(?<!at )presents?|surpris(?:e|ing)|cheer \w+ up|(?:birthday|greeting|thank[- ]you|christmas) card"
    r"|date night|geschenk\w*|schenk\w*|überrasch\w+|regal(?:o|os|ar|arle|ale)|sorprend\w+|cadeaux?|offrir"
    r"|surprendre)\b"
    r"|礼物|惊喜)",
)
"""Asks for something for somebody, whatever the form."""

_OF_PARTNER = re.compile(r"\b(?:anniversary|date night|hochzeitstag|aniversario de bodas|anniversaire de mariage)\b")

_TASTE = AnyCase(
    rf"{BEGINS}(?:"
    r"\b(?:likes?|loves?|enjoys?|prefers?|hates?|dislikes?|avoids?|adores?|collects?|favou?rite"
    r"|can't (?:stand|have|eat)"
    r"|(?:fan of|into|(?:obsessed|mad|crazy|passionate|nuts) (?:about|with)|wish(?:es)? for|would love)|hobb(?:y|ies)"
    r"|allerg\w+|intolerant|vegan|vegetarian"
    r"|liebt|mag|hasst|sammelt|schwärmt|wünscht|lieblings\w*|le (?:gustan?|encantan?)|adora|odia|colecciona"
    r"|aime|adore|déteste|collectionne|préfère)\b"
    r"|喜欢|爱|讨厌|收集)",
)
_NAME = re.compile(r"(?<=[\w,:] )[A-ZÀ-Ý][a-zà-ÿ]+(?='s\b|\b)")
_NO_NAMES = frozenset(
    """
    I Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August
    September October November December Christmas Easter Mother Father Valentine
    """.split()  # noqa: SIM905
)


class Somebody(msgspec.Struct, frozen=True):
    """For whom something is asked for: kin (as `constraints.whose`) and names, in lower case."""

    kin: frozenset[str]
    names: frozenset[str]

    @property
    def is_another(self) -> bool:
        """Whether it is for somebody else than the user."""
        return bool(self.kin or self.names)


NOBODY = Somebody(frozenset(), frozenset())


def for_whom(query: str) -> Somebody:
    """Whom a query asks advice, or a present, for; nobody where it asks for what was or is."""
    read = query[:_READ].replace("’", "'")
    low = read.lower()
    if constraints.asks_past(low) or not (_FOR_THEM.search(low) or constraints.asks_advice(low)):
        return NOBODY
    partner = {"partner"} if _OF_PARTNER.search(low) else set[str]()
    names = frozenset(name.lower() for name in _NAME.findall(read) if name not in _NO_NAMES)
    return Somebody(constraints.whose(low) | partner, names)


def of_somebody(batch: Batch, odds: Array) -> Array:
    """The log odds, with what is known to please or displease those for whom something is asked for."""
    if batch.asks_of_speaker or not batch.each.of_text(for_whom).is_another:
        return odds
    told = [place for place in range(len(odds)) if batch.of_memory(_tells_taste, place)]
    told = sorted(told, key=lambda place: -odds[place])[:MOST]
    found = odds.copy()
    if told:
        least = max(TASTE, min(float(odds.max()), SUREST) - BELOW)
        found[told] = np.maximum(odds[told], least - _STEP * np.arange(len(told)))
    return found


def _tells_taste(each: Each, place: int) -> bool:
    return tells_taste(each.memories[place], each.of_text(for_whom))


def tells_taste(memory: Memory, somebody: Somebody) -> bool:
    """Whether the user said what one of these likes, has to avoid or collects."""
    if memory.trust is not Trust.USER or memory.kind is Kind.EPISODIC:
        return False
    text = memory.content[:_READ].replace("’", "'")
    if text.rstrip().endswith(("?", "？")):
        return False
    found = list(_TASTE.finditer(text))
    if not found:
        return False
    if somebody.names & {word.removesuffix("'s") for word in re.findall(r"[\w']+", text.lower())}:
        return True
    return bool(somebody.kin) and any(
        constraints.is_of(text, match.start(), match.end(), somebody.kin) for match in found
    )
