"""Chains of supersession: where a statement stands in time, what it closes, and how it is opened again.

A chain holds the answers to one question, oldest first; the last one is active, or was taken back. Two clocks: an
interval (``valid_from``, ``valid_to``) says when something held, ``said_at`` when we were told. Intervals of one chain
do not overlap.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from memproxy.core.memory import Memory, Relation

SAID = "said_at"
LAST_SAID = "last_said_at"
RETRACTED_BY = "retracted_by"
RETRACTED_AT = "retracted_at"
STATED_END = "stated_end"
RECONCILED_AT = "reconciled_at"
PENDING = "pending"
"""Names in ``metadata``: when it was said first and last, by which turn and when it was taken back, until when it was
said to hold, where something closed it before, and when learning held it against all that was known: two such
statements that are active side by side both hold. ``pending``: that it was replaced (``superseded``) or taken back
(``retracted``) is what rules read in a message when it came, and learning has not looked at yet.
"""


class Effects(msgspec.Struct, frozen=True):
    """What to write: the memory (None if nothing new), and changed fields of known memories by id."""

    new: Memory | None = None
    changes: dict[str, dict[str, Any]] = {}


def said_at(memory: Memory) -> datetime:
    """When it was said: noted with what was learned from a conversation, else when we came to know it."""
    return _noted(memory, SAID) or memory.created_at


def last_said_at(memory: Memory) -> datetime:
    """When it was said last."""
    return _noted(memory, LAST_SAID) or said_at(memory)


def _noted(memory: Memory, name: str) -> datetime | None:
    noted = memory.metadata.get(name)
    return datetime.fromisoformat(noted) if isinstance(noted, str) else None


def begins(memory: Memory) -> datetime:
    """From when it held, as far as known."""
    return memory.valid_from or said_at(memory)


def retracted_at(memory: Memory) -> datetime | None:
    """When it was taken back; None when it never was."""
    return _noted(memory, RETRACTED_AT)


def is_older(one: Memory, other: Memory) -> bool:
    """Whether ``one`` speaks of an earlier state than ``other``.

    Stated beginnings decide if both have one (a history that is imported out of order); else what was said later is
    the newer statement, whatever time it speaks of ("I have lived in Rome since 2020" corrects what was said before).
    What had ended when it was said ("I lived in Berlin until 2023") is older than what goes on. What nobody said in a
    conversation (it was written by the API, imported) and has a beginning stands where that is: it is a record.
    """
    if had_ended(one) and other.valid_to is None:
        return True
    if states_beginning(one) and (states_beginning(other) or not _was_said(one)):
        return begins(one) < begins(other)
    return said_at(one) < last_said_at(other)


def _was_said(memory: Memory) -> bool:
    return SAID in memory.metadata or bool(memory.turn_ids)


def had_ended(memory: Memory) -> bool:
    """Whether it spoke of something that was over when it was said."""
    return memory.valid_to is not None and memory.valid_to <= said_at(memory)


def states_beginning(memory: Memory) -> bool:
    """Whether it says since when, and not only that it holds."""
    return memory.valid_from is not None and memory.valid_from != said_at(memory)


def position(candidate: Memory, chain: Sequence[Memory]) -> int:
    """How many of the chain stand before the candidate in time."""
    here = len(chain)
    while here and is_older(candidate, chain[here - 1]):
        here -= 1
    return here


def segment(candidate: Memory, past: Sequence[Memory]) -> Memory | None:
    """The end of the chain that was taken back after the candidate was said, among what a slot held: what was said
    before "forget it" was meant by it, also when it comes late.
    """
    ends = [(at, memory) for memory in past if (at := retracted_at(memory)) and memory.superseded_by is None]
    later = [(at, memory) for at, memory in ends if at >= said_at(candidate)]
    return min(later, key=lambda end: end[0])[1] if later else None


def place(candidate: Memory, chain: Sequence[Memory], *, now: datetime) -> Effects:
    """Put the candidate where it belongs in a chain of supersession (oldest first, the active one last).

    The newest statement becomes the active one and closes those before it; an older one that comes late is stored as
    already superseded, between its neighbours in time. In a chain that was taken back nothing becomes active.
    """
    here = position(candidate, chain)
    before = chain[here - 1] if here else None
    after = chain[here] if here < len(chain) else None
    new = msgspec.structs.replace(candidate, supersedes=before.id if before else candidate.supersedes)
    changes = trimmed(chain[: here - 1] if here else [], begins(new), now=now)
    if before is not None:
        changes[before.id] = _closed(before, begins(new)) | {"superseded_by": new.id, "updated_at": now}
        taken = retracted_at(before)
        if after is None and taken is not None:
            new = msgspec.structs.replace(new, **_taken_back(new, str(before.metadata.get(RETRACTED_BY)), taken))
            changes[before.id]["metadata"] = _without(before.metadata, RETRACTED_BY, RETRACTED_AT)
    if after is not None:
        end = min(begins(later) for later in chain[here:])
        new = msgspec.structs.replace(new, superseded_by=after.id, **_closed(new, end))
        changes[after.id] = {"supersedes": new.id, "updated_at": now}
    return Effects(new, changes)


def repeat(known: Memory, again: Memory, chain: Sequence[Memory], *, now: datetime) -> dict[str, dict[str, Any]]:
    """What a repetition changes: of the one repeated, and of those before it in its chain if it began earlier."""
    changes = reinforce(known, again, now=now)
    if not changes:
        return {}
    ids = [memory.id for memory in chain]
    here = ids.index(known.id) if known.id in ids else 0
    if "valid_from" in changes and (later := chain[here + 1 :]):
        earlier = msgspec.structs.replace(known, valid_from=changes["valid_from"])
        changes |= _closed(earlier, min(begins(memory) for memory in later))
    begin = changes.get("valid_from", begins(known))
    return trimmed(chain[:here], begin, now=now) | {known.id: changes}


def trimmed(chain: Sequence[Memory], end: datetime, *, now: datetime) -> dict[str, dict[str, Any]]:
    """The changed ends of those that would reach beyond ``end``."""
    return {
        memory.id: _closed(memory, end) | {"updated_at": now}
        for memory in chain
        if _close(memory, end) != memory.valid_to
    }


def _closed(memory: Memory, end: datetime) -> dict[str, Any]:
    """The fields of one that is no longer active. An end that was stated is noted, for when it is opened again."""
    at = _close(memory, end)
    closed: dict[str, Any] = {"active": False, "valid_to": at, "relations": _until(memory, at)}
    if memory.active and memory.valid_to is not None:
        closed["metadata"] = memory.metadata | {STATED_END: memory.valid_to.isoformat()}
    return closed


def _close(memory: Memory, end: datetime) -> datetime:
    """The end of its validity: never before its beginning, and not later than an end it had already."""
    end = max(end, begins(memory)).astimezone(UTC)
    return min(end, memory.valid_to) if memory.valid_to else end


def _until(memory: Memory, end: datetime) -> list[Relation]:
    """Its relations, ended with it."""
    return [
        msgspec.structs.replace(one, valid_to=min(end, one.valid_to) if one.valid_to else end)
        for one in memory.relations
    ]


def _without(metadata: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in names}


def take_back(memory: Memory, turn: str, at: datetime, *, now: datetime) -> dict[str, Any]:
    """The fields that change when somebody takes a statement back: it ends, nothing takes its place."""
    return _taken_back(memory, turn, at) | {"updated_at": now}


def _taken_back(memory: Memory, turn: str, at: datetime) -> dict[str, Any]:
    closed = _closed(memory, at)
    noted = closed.get("metadata", memory.metadata) | {RETRACTED_BY: turn, RETRACTED_AT: at.isoformat()}
    return closed | {"metadata": noted}


def reopened(memory: Memory, *, now: datetime) -> dict[str, Any]:
    """The fields that change when what closed a memory is undone: active again, until when it was said to hold."""
    end = _noted(memory, STATED_END)
    relations = [
        msgspec.structs.replace(one, valid_to=end) if one.valid_to == memory.valid_to else one
        for one in memory.relations
    ]
    return {
        "active": True,
        "superseded_by": None,
        "valid_to": end,
        "relations": relations,
        "metadata": _without(memory.metadata, RETRACTED_BY, RETRACTED_AT, STATED_END, PENDING),
        "updated_at": now,
    }


def reinforce(known: Memory, again: Memory, *, now: datetime) -> dict[str, Any]:
    """The fields that change when a statement is repeated; none when it is the very same turn read again.

    Confidence moves a quarter of the way to certainty, weighed by the repetition's own (a choice of ours: four
    confident repetitions lift 0.5 to 0.84). Somebody more trusted who says the same vouches for it, and what waited in
    quarantine for that leaves it. When it was said first and last is noted; what was said to hold since an earlier
    time holds since then.
    """
    more = [turn for turn in again.turn_ids if turn not in known.turn_ids]
    if not more:
        return {}
    changes: dict[str, Any] = {"turn_ids": [*known.turn_ids, *more], "metadata": _said_again(known, again)}
    if not states_beginning(known) and begins(again) < begins(known):
        changes["valid_from"] = begins(again)
    if known.active:
        changes["confidence"] = round(known.confidence + (1 - known.confidence) * 0.25 * again.confidence, 4)
        changes["updated_at"] = now
        if again.trust.level > known.trust.level:
            changes["trust"] = again.trust
        if known.quarantined and not again.quarantined:
            changes["quarantined"] = False
    return changes


def _said_again(known: Memory, again: Memory) -> dict[str, Any]:
    first = min(said_at(known), said_at(again))
    last = max(last_said_at(known), last_said_at(again))
    return known.metadata | {SAID: first.isoformat(), LAST_SAID: last.isoformat()}
