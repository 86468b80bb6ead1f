"""Whether one message was read twice, in other words: what was forgotten of it must not come back so.

Everything here is pure. It is looser than `core.similar`: it only ever compares statements that rest on one message, or
on messages of a time before what they say was taken back. There the user has decided, and in doubt that counts more.
"""

from collections.abc import Set

from memproxy.core.similar import topic
from memproxy.core.slots import numbers

ALIKE = 0.5
"""Least share of their words (Dice) that two readings of one sentence have in common: "User has a yacht in Monaco
harbour" and "The user owns a yacht moored in Monaco" 0.57, and what else the sentence tells about the yacht less.
"""


def terms(text: str) -> frozenset[str]:
    """The words and numbers that a statement is made of."""
    return topic(text) | {f"#{number}" for number in numbers(text)}


def alike(one: Set[str], other: Set[str]) -> bool:
    """Whether two statements of these terms are readings of one."""
    return bool(one and other) and 2 * len(one & other) >= ALIKE * (len(one) + len(other))
