"""What a new statement does to what is known: a pure decision.

A slot decides over similarity: the same slot with the same value is a repetition, with another value a change. Without
a common slot similarity only nominates; numbers, names and negation decide, and in doubt both statements live on
(over-invalidation loses more than a contradiction that a later statement settles).
"""

import enum
from collections.abc import Sequence
from datetime import datetime

import msgspec

from memproxy.core.chain import RETRACTED_BY, is_older, last_said_at, position, retracted_at, said_at
from memproxy.core.correct import corrected, says_exactly, stands_alone
from memproxy.core.memory import Kind, Memory
from memproxy.core.retract import meant
from memproxy.core.reworded import alike, terms
from memproxy.core.similar import (
    LEXICAL_RELATED,
    LEXICAL_SAME,
    Neighbour,
    affirms,
    changes,
    lexical_overlap,
    one_topic,
    same_aspect,
    same_place,
    says_the_same,
)
from memproxy.core.slots import denies_another, has_many, predicate_name, same_value, slot_name, slot_value


class Operation(enum.StrEnum):
    """What becomes of a candidate: a new memory, one that replaces another, a repetition, a new one beside a related
    one, the end of what somebody takes back; or nothing, when it speaks of something that is not known.
    """

    ADD = "add"
    UPDATE = "update"
    DUPLICATE = "duplicate"
    COEXIST = "coexist"
    RETRACT = "retract"
    NOTHING = "nothing"


class Bands(msgspec.Struct, frozen=True):
    """Cosines from which a neighbour counts as the same statement, and as related (``dedup`` in the settings)."""

    same: float = 0.9
    related: float = 0.7


class Decision(msgspec.Struct, frozen=True):
    """The operation, and the memory it is about (None for ADD); of RETRACT all that are ``meant``."""

    operation: Operation
    target: Memory | None = None
    meant: tuple[Memory, ...] = ()


def decide(
    candidate: Memory, *, chain: Sequence[Memory], neighbours: Sequence[Neighbour], bands: Bands | None = None
) -> Decision:
    """What a statement does to what is known.

    ``chain`` is the history of the candidate's slot, oldest first, its active holder (or, of a chain that was taken
    back, its end) last; empty: a free slot. ``neighbours`` are near memories of the same owner, best first; inactive
    ones only tell a repetition of something that ended from something new.
    """
    if chain:
        return _in_slot(candidate, chain)
    related: Memory | None = None
    for near in neighbours:
        operation = _beside(candidate, near, bands or Bands())
        if operation in (Operation.DUPLICATE, Operation.UPDATE):
            return Decision(operation, near.memory)
        if operation is Operation.COEXIST and related is None:
            related = near.memory
    return Decision(Operation.COEXIST, related) if related else Decision(Operation.ADD)


def decide_correction(
    candidate: Memory,
    replaces: str | None,
    *,
    chain: Sequence[Memory],
    neighbours: Sequence[Neighbour],
    bands: Bands | None = None,
) -> Decision:
    """What a correction does: it replaces what it is about; one that is about nothing known is a statement if it can
    be understood by itself, else nothing.
    """
    if chain:
        return _in_slot(candidate, chain)
    again = next((near.memory for near in neighbours if _is_the_same_turn(candidate, near.memory)), None)
    if again is not None:
        return Decision(Operation.DUPLICATE, again)
    target = corrected(candidate, replaces, neighbours)
    if target is not None:
        same = same_value(slot_value(candidate), slot_value(target)) if candidate.object and target.object else False
        return Decision(Operation.DUPLICATE if same else Operation.UPDATE, target)
    if not stands_alone(candidate):
        return Decision(Operation.NOTHING)
    return decide(candidate, chain=chain, neighbours=neighbours, bands=bands)


def decide_replacement(candidate: Memory, target: Memory, neighbours: Sequence[Neighbour]) -> Decision:
    """What a statement does that names what it replaces: it replaces just that, whatever slots say; the same turn read
    again repeats it.
    """
    again = next((near.memory for near in neighbours if _is_the_same_turn(candidate, near.memory)), None)
    if again is not None:
        return Decision(Operation.DUPLICATE, again)
    same = says_exactly(target, candidate.content)
    return Decision(Operation.DUPLICATE if same else Operation.UPDATE, target)


def decide_retraction(request: Memory, neighbours: Sequence[Neighbour]) -> Decision:
    """What a request to forget does: it ends what is meant, nothing when nothing clearly is."""
    exact = (near.memory for near in neighbours if near.memory.active and says_exactly(near.memory, request.content))
    named = [memory for memory in exact if last_said_at(memory) <= said_at(request)]
    found = tuple(named) or meant(request, neighbours)
    return Decision(Operation.RETRACT, found[0], found) if found else Decision(Operation.NOTHING)


def _in_slot(candidate: Memory, chain: Sequence[Memory]) -> Decision:
    """By the values of those next to it in time, and of one that the same turn told already."""
    here = position(candidate, chain)
    beside = [*chain[max(0, here - 1) : here][::-1], *chain[here : here + 1]]
    told = [memory for memory in chain if set(candidate.turn_ids) & set(memory.turn_ids)]
    for memory in (*told, *beside):
        if same_value(slot_value(candidate), slot_value(memory)) and not _said_after_taken_back(candidate, memory):
            return Decision(Operation.DUPLICATE, memory)
    if denies_another(candidate, chain[-1]):
        return Decision(Operation.NOTHING)
    return Decision(Operation.UPDATE, chain[-1])


def told_already(candidate: Memory, past: Sequence[Memory]) -> Memory | None:
    """Which of what a slot held the candidate's own turn told before, when it is read again."""
    turns, value = set(candidate.turn_ids), slot_value(candidate)
    told = (memory for memory in past if turns & set(memory.turn_ids) and same_value(value, slot_value(memory)))
    return next(told, None)


def _said_after_taken_back(candidate: Memory, known: Memory) -> bool:
    taken = retracted_at(known)
    return taken is not None and said_at(candidate) > taken


def _beside(candidate: Memory, near: Neighbour, bands: Bands) -> Operation:
    known = near.memory
    if known.kind is not candidate.kind:
        return Operation.ADD
    if _is_the_same_turn(candidate, known) or _was_taken_back(candidate, known):
        return Operation.DUPLICATE
    if not _near(candidate, near, bands.related, LEXICAL_RELATED) and not one_topic(candidate, known):
        return Operation.ADD
    same = _near(candidate, near, bands.same, LEXICAL_SAME)
    if says_the_same(candidate, known):
        repeated = same and (known.active or said_at(candidate) <= _ended(known))
        return Operation.DUPLICATE if repeated else Operation.COEXIST
    changed = known.active and changes(candidate, known)
    return Operation.UPDATE if changed else Operation.COEXIST


def _is_the_same_turn(candidate: Memory, known: Memory) -> bool:
    """Whether the same words of the same turn are read again (whatever became of them since)."""
    if not set(candidate.turn_ids) & set(known.turn_ids) or known.kind is Kind.TURN:
        return False
    if candidate.content == known.content:
        return True
    evidence = candidate.metadata.get("evidence")
    if evidence is None or evidence != known.metadata.get("evidence") or slot_name(candidate) != slot_name(known):
        return False
    return same_value(slot_value(candidate), slot_value(known))


def _was_taken_back(candidate: Memory, known: Memory) -> bool:
    """Whether the user took back what it says, in these or other words, after it was said."""
    taken = retracted_at(known)
    if taken is None or known.active or said_at(candidate) > taken or affirms(candidate) != affirms(known):
        return False
    if str(known.metadata.get(RETRACTED_BY)) in candidate.turn_ids:
        return False  # the turn that took it back says what holds instead ("not to dogs, to dust mites")
    return alike(terms(candidate.content), terms(known.content))


def _near(candidate: Memory, near: Neighbour, cosine: float, overlap: float) -> bool:
    if near.cosine is not None:
        return near.cosine >= cosine
    return lexical_overlap(candidate.content, near.memory.content) >= overlap


def _ended(memory: Memory) -> datetime:
    return memory.valid_to or memory.updated_at


def in_gray_zone(candidate: Memory, near: Neighbour, bands: Bands) -> bool:
    """Whether rules are unsure of an active neighbour: related, not plainly the same, and not told apart by kind,
    aspect or another item of a list.
    """
    known = near.memory
    if not known.active or not may_replace(candidate, known):
        return False
    return _near(candidate, near, bands.related, LEXICAL_RELATED) and not _near(
        candidate, near, bands.same, LEXICAL_SAME
    )


def may_replace(candidate: Memory, known: Memory) -> bool:
    """Whether it may be the known statement in another form, whoever says so: episodes, other kinds, other aspects and
    items of lists live side by side; what is less trusted, or in quarantine, replaces nothing that is not.
    """
    if candidate.kind is not known.kind or candidate.kind in (Kind.EPISODIC, Kind.TURN):
        return False
    if not same_aspect(candidate, known) or not same_place(candidate, known):
        return False
    if any(has_many(predicate_name(memory.predicate or "")[0]) for memory in (candidate, known)):
        return False
    return trusted_enough(candidate, known) and not is_older(candidate, known)


def trusted_enough(candidate: Memory, known: Memory) -> bool:
    """Whether whoever says it may change what is known: nobody less trusted, nothing that waits to be confirmed."""
    if candidate.quarantined and not known.quarantined:
        return False
    return candidate.trust.level >= known.trust.level
