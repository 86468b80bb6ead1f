"""Turns that hold nothing to learn from: questions, greetings, thanks and okays, and what the assistant says to them.

A model is not asked about a conversation of these alone. Whether a message tells something is learned (`core.telling`);
here the threshold is lower than recall's, for what is passed over here is never learned.
"""

import re
from collections.abc import Sequence

from memproxy.core.block import strip_blocks
from memproxy.core.gate import judge
from memproxy.core.memory import Memory, Trust
from memproxy.core.telling import telling

_KINDS = frozenset({"greeting", "smalltalk"})

_TELLS = -3.0
"""Log odds from which a message may tell something: of parts that do and were not fitted on, 0.3 % lie below, of the
questions in our open lives 33 %.
"""

_ANSWERS = -4.0
"""The same behind a question of the assistant's: "yes" and "around five" say something there, "thanks" does not."""

_QUESTION = re.compile(r"[?？]")


def hold_nothing(turns: Sequence[Memory], new_ids: frozenset[str]) -> bool:
    """Whether the new turns of a conversation hold nothing to learn from."""
    asked = False
    for turn in turns:
        text = strip_blocks(turn.content).strip()
        if turn.trust is Trust.ASSISTANT:
            asked = _asks(text)
            continue
        is_answer = asked and turn.trust is Trust.USER and not _asks(text)
        idle = turn.trust is Trust.USER and telling(text) < (_ANSWERS if is_answer else _TELLS)
        if turn.id in new_ids and text and not idle:
            return False
    return True


def was_asked(turns: Sequence[Memory], turn: Memory) -> bool:
    """Whether a turn of a conversation follows one of the assistant's that asks something."""
    place = next((place for place, one in enumerate(turns) if one.id == turn.id), 0)
    before = turns[place - 1] if place else None
    return before is not None and before.trust is Trust.ASSISTANT and _asks(strip_blocks(before.content))


def is_pleasantry(text: str) -> bool:
    """Whether a text is a greeting, thanks, small talk, or nothing at all."""
    verdict = judge(text, _KINDS)
    return verdict.reason in _KINDS or verdict.reason == "empty"


def _asks(text: str) -> bool:
    return _QUESTION.search(text) is not None
