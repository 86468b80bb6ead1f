"""What people say of memories (helpful, wrong, better said otherwise), and what that does. It is kept in
``metadata.feedback`` of the memory itself, and so goes where the memory goes; `feedback_of` reads it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.memory import Memory

FEEDBACK = "feedback"  # key of the metadata
CORRECTS = "corrects"  # key of a correction's metadata: the session and id of the message that it corrects
HELPFUL_IMPORTANCE, HELPFUL_CONFIDENCE = 0.25, 0.1  # a helpful memory comes nearer to 1 by this part of what is missing
WRONG_IMPORTANCE, WRONG_CONFIDENCE = 0.5, 0.25
"""A wrong one is multiplied by these. One word against it takes it out of recall (``quarantined``), too."""


class Feedback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counts by signal, and the last one's time and text. ``withheld``: feedback quarantined it, not the guard."""

    helpful: int = 0
    wrong: int = 0
    correction: int = 0
    at: datetime | None = None
    text: str | None = None
    withheld: bool = False


def feedback_of(memory: Memory) -> Feedback:
    """What people said of it so far; what is not ours to read (a client's own metadata of that name) is nothing."""
    try:
        return msgspec.convert(memory.metadata.get(FEEDBACK, {}), Feedback)
    except msgspec.ValidationError:
        return Feedback()


def judged_fields(memory: Memory, signal: str, *, text: str | None, now: datetime) -> Mapping[str, Any]:
    """The fields that change by a signal: ``helpful``, ``wrong`` or ``correction``."""
    old = feedback_of(memory)
    new = msgspec.structs.replace(old, **{signal: getattr(old, signal) + 1}, at=now, text=text)
    changes: dict[str, Any] = {"updated_at": now}
    if signal == "helpful":
        changes["importance"] = _nearer(memory.importance, HELPFUL_IMPORTANCE)
        changes["confidence"] = _nearer(memory.confidence, HELPFUL_CONFIDENCE)
        if old.withheld:
            new = msgspec.structs.replace(new, withheld=False)
            changes["quarantined"] = False
            changes["confidence"] = min(1.0, round(memory.confidence / WRONG_CONFIDENCE, 4))
    if signal == "wrong":
        changes["importance"] = round(memory.importance * WRONG_IMPORTANCE, 4)
        changes["confidence"] = round(memory.confidence * WRONG_CONFIDENCE, 4)
        if not memory.quarantined:
            new = msgspec.structs.replace(new, withheld=True)
            changes["quarantined"] = True
    changes["metadata"] = {**memory.metadata, FEEDBACK: msgspec.to_builtins(new)}
    return changes


def _nearer(value: float, part: float) -> float:
    return round(min(1.0, value + (1.0 - value) * part), 4)
