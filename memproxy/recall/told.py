"""Whether the facts of a message that are given tell all that it says."""

from collections.abc import Set as AbstractSet

from memproxy.core.entities import mentions
from memproxy.core.memory import Memory
from memproxy.core.slots import numbers
from memproxy.core.text import key_terms

_ROOT = 4
"""Letters compared of a word: ``named`` and ``name``, ``Germany`` and ``German`` share them."""

_NAME_TERMS = 8
_FACT_TERMS = 200
_TURN_TERMS = 40

_MORE = 2
"""Words of its own by which a message may answer what its facts leave open."""

_LONG = 1_000
"""Characters of a message of which no few facts tell everything."""


def says_more(
    turn: Memory, given: AbstractSet[str], learned: AbstractSet[str], wanted: AbstractSet[str] = frozenset()
) -> bool:
    """Whether a message says what the ``given`` ones of its facts do not: another fact was ``learned`` of it, or it
    names somebody, something or a number that none of them has, or has other words where they leave open half of what
    is ``wanted`` (the question's key terms) or more: "which sport does Leo do" beside "User's son is named Leo".

    A fact that says less than its message must not stand for it: of "I'm allergic to peanuts and shellfish" two facts
    are learned, and a question may find one of them only.
    """
    if learned - given or len(turn.content) > _LONG:
        return True
    told = " ".join(given)
    if numbers(turn.content) - numbers(told):
        return True
    known = set(_roots(told, _FACT_TERMS))
    if any(not known.issuperset(_roots(one.name, _NAME_TERMS)) for one in mentions(turn)):
        return True
    open_terms = sum(term[:_ROOT] not in known for term in wanted)
    if not open_terms or 2 * open_terms < len(wanted):
        return False
    return len(set(_roots(turn.content, _TURN_TERMS)) - known) >= _MORE


def _roots(text: str, limit: int) -> list[str]:
    return [term[:_ROOT] for term in key_terms(text, limit=limit)]
