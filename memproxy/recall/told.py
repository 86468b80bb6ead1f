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


def says_more(turn: Memory, given: AbstractSet[str], learned: AbstractSet[str]) -> bool:
    """Whether a message says what the ``given`` ones of its facts do not: another fact was ``learned`` of it, or it
    names somebody, something or a number that none of them has.

    A fact that says less than its message must not stand for it: of "I'm allergic to peanuts and shellfish" two facts
    are learned, and a question may find one of them only.
    """
    if learned - given:
        return True
    told = " ".join(given)
    if numbers(turn.content) - numbers(told):
        return True
    known = set(_roots(told, _FACT_TERMS))
    return any(not known.issuperset(_roots(one.name, _NAME_TERMS)) for one in mentions(turn))


def _roots(text: str, limit: int) -> list[str]:
    return [term[:_ROOT] for term in key_terms(text, limit=limit)]
