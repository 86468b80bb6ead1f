"""What a new statement does to what is known: a pure decision, and its effects.

A slot decides over similarity: the same slot with the same value is a repetition, with another value a change. Without
a common slot similarity only nominates; numbers, names and negation decide, and in doubt both statements live on
(over-invalidation loses more than a contradiction that a later statement settles).
"""

import enum
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.slots import (
    has_many,
    numbers,
    predicate_name,
    same_value,
    singular,
    slot_name,
    slot_value,
    value_name,
)
from memproxy.core.text import key_terms, words

LEXICAL_SAME = 0.8
LEXICAL_RELATED = 0.5
"""Bands of `lexical_overlap` that stand for cosines of 0.9 and 0.7 where there are no vectors. Statements about one
thing share most of their few words: "budget for the Hawaii vacation is $10,000" and "Hawaii vacation budget: $15,000"
overlap by 1.0 (values left out), a budget for another trip by 0.5.
"""

_CHANGE_TERMS = frozenset(
    {"change", "changed", "increase", "increased", "raise", "raised", "reduce", "reduced", "lowered", "update"}
    | {"updated", "switch", "switched", "moved", "instead", "longer", "anymore", "became", "become", "correction"}
)
_CHANGE_WORDS = _CHANGE_TERMS | {"now", "new", "no"}
_NEGATIVE = frozenset(
    {"not", "no", "never", "longer", "stopped", "quit", "anymore", "cancelled", "canceled", "without"}
)
_SINGLE_ANSWER = (
    ("live", "in"), ("lives", "in"), ("living", "in"), ("works", "at"), ("works", "for"), ("works", "as"),
    ("moved", "to"), ("name", "is"), ("married", "to"), ("born", "in"), ("based", "in"), ("timezone", "is"),
)  # fmt: skip
"""Neighbouring words after which a person names one thing at a time."""

_NAMELESS = frozenset({"user", "users", "user's", "the", "their", "his", "her", "a", "an", "i", "my"})


class Operation(enum.StrEnum):
    """What becomes of a candidate: a new memory, one that replaces another, a repetition, a new one beside a related
    one.
    """

    ADD = "add"
    UPDATE = "update"
    DUPLICATE = "duplicate"
    COEXIST = "coexist"


class Bands(msgspec.Struct, frozen=True):
    """Cosines from which a neighbour counts as the same statement, and as related (``dedup`` in the settings)."""

    same: float = 0.9
    related: float = 0.7


class Neighbour(msgspec.Struct, frozen=True):
    """A known memory near a candidate; ``cosine`` None where vectors are missing, then words decide."""

    memory: Memory
    cosine: float | None = None


class Decision(msgspec.Struct, frozen=True):
    """The operation, and the memory it is about (None for ADD)."""

    operation: Operation
    target: Memory | None = None


class Effects(msgspec.Struct, frozen=True):
    """What to write: the memory (None if nothing new), and changed fields of known memories by id."""

    new: Memory | None = None
    changes: dict[str, dict[str, Any]] = {}


def said_at(memory: Memory) -> datetime:
    """When it was said: noted with what was learned from a conversation, else when we came to know it."""
    noted = memory.metadata.get("said_at")
    return datetime.fromisoformat(noted) if isinstance(noted, str) else memory.created_at


def begins(memory: Memory) -> datetime:
    """From when it held, as far as known."""
    return memory.valid_from or said_at(memory)


def is_older(one: Memory, other: Memory) -> bool:
    """Whether ``one`` speaks of an earlier state than ``other``.

    Stated beginnings decide if both have one (a history that is imported out of order); else what was said later is
    the newer statement, whatever time it speaks of ("I have lived in Rome since 2020" corrects what was said before).
    What had ended when it was said ("I lived in Berlin until 2023") is older than what goes on.
    """
    if one.valid_to is not None and one.valid_to <= said_at(one) and other.valid_to is None:
        return True
    if _states_beginning(one) and _states_beginning(other):
        return begins(one) < begins(other)
    return said_at(one) < said_at(other)


def _states_beginning(memory: Memory) -> bool:
    return memory.valid_from is not None and memory.valid_from != said_at(memory)


def lexical_overlap(one: str, other: str) -> float:
    """Jaccard similarity of the key terms of two statements, values, names of the user and words of change left out."""
    left, right = _topic(one), _topic(other)
    return len(left & right) / len(left | right) if left | right else 0.0


def _topic(text: str) -> frozenset[str]:
    terms = (singular(term) for term in key_terms(text, 64))
    return frozenset(
        term for term in terms if term not in _NAMELESS and term not in _CHANGE_TERMS and not numbers(term)
    )


def decide(
    candidate: Memory, *, chain: Sequence[Memory], neighbours: Sequence[Neighbour], bands: Bands | None = None
) -> Decision:
    """What the candidate does to what is known.

    ``chain`` is the history of the candidate's slot, oldest first, its active holder last (empty: a free slot).
    ``neighbours`` are near memories of the same owner, best first; inactive ones only tell a repetition of something
    that ended from something new.
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


def _in_slot(candidate: Memory, chain: Sequence[Memory]) -> Decision:
    holder = chain[-1]
    known = chain if is_older(candidate, holder) else [holder]
    for memory in reversed(known):
        if same_value(slot_value(candidate), slot_value(memory)):
            return Decision(Operation.DUPLICATE, memory)
    return Decision(Operation.UPDATE, holder)


def _beside(candidate: Memory, near: Neighbour, bands: Bands) -> Operation:
    known = near.memory
    if known.kind is not candidate.kind:
        return Operation.ADD
    if not _near(candidate, near, bands.related, LEXICAL_RELATED) and not _one_topic(candidate, known):
        return Operation.ADD
    same = _near(candidate, near, bands.same, LEXICAL_SAME)
    if _says_the_same(candidate, known):
        repeated = same and (known.active or said_at(candidate) <= _ended(known))
        return Operation.DUPLICATE if repeated else Operation.COEXIST
    changed = known.active and _changes(candidate, known)
    return Operation.UPDATE if changed else Operation.COEXIST


def _near(candidate: Memory, near: Neighbour, cosine: float, overlap: float) -> bool:
    if near.cosine is not None:
        return near.cosine >= cosine
    return lexical_overlap(candidate.content, near.memory.content) >= overlap


def _one_topic(one: Memory, other: Memory) -> bool:
    """The same words but for names: "User lives in Berlin", "User lives in Rome" (0.6 apart for MiniLM)."""
    names = _names(one.content) | _names(other.content)
    left, right = _topic(one.content) - names, _topic(other.content) - names
    return bool(left) and left == right


def _ended(memory: Memory) -> datetime:
    return memory.valid_to or memory.updated_at


def _says_the_same(one: Memory, other: Memory) -> bool:
    """The same numbers, names and polarity: nothing in it that a change could be about differs."""
    if not _same_place(one, other) or _affirms(one) != _affirms(other):
        return False
    return numbers(one.content) == numbers(other.content) and _names(one.content) == _names(other.content)


def _same_place(one: Memory, other: Memory) -> bool:
    """Whether both could be about one thing, as far as their slots tell (another item of a list is another thing)."""
    first, second = slot_name(one), slot_name(other)
    if first is None or second is None or first == second or not (_listed(one) or _listed(other)):
        return True
    item, known = value_name(one.object or ""), value_name(other.object or "")
    return bool(item and known) and (_contains(item, known) or _contains(known, item))


def _listed(memory: Memory) -> bool:
    return has_many(predicate_name(memory.predicate or "")[0])


def _affirms(memory: Memory) -> bool:
    said = set(words(memory.content))
    return not (said & _NEGATIVE) and not any(word.endswith("n't") for word in said)


def _names(text: str) -> frozenset[str]:
    """Capitalised words other than a sentence's first one: people, places, days."""
    tokens = [token.strip(".,;:!?\"'()“”’") for token in text.split()]
    found = (token.removesuffix("'s") for token in tokens[1:] if token[:1].isupper())
    return frozenset(singular(value_name(name)) for name in found) - _NAMELESS


def _changes(candidate: Memory, known: Memory) -> bool:
    """Whether this is clearly the known statement with one value changed. Episodes never change, they accumulate."""
    if candidate.kind is Kind.EPISODIC or not _same_place(candidate, known) or not _same_aspect(candidate, known):
        return False
    if _listed(candidate) or _listed(known):
        return False
    marked = _marks_change(candidate)
    first, second = _names(candidate.content), _names(known.content)
    names_differ = first != second
    left = _topic(candidate.content) - first - second
    right = _topic(known.content) - first - second
    if _affirms(candidate) != _affirms(known):
        return not names_differ and left - _NEGATIVE == right - _NEGATIVE
    if numbers(candidate.content) != numbers(known.content):
        alike = _overlap(left | first, right | second) >= LEXICAL_RELATED
        return alike if marked else left == right and not names_differ
    single = _single_answer(candidate.content) and _single_answer(known.content)
    return names_differ and left == right and (marked or single)


def _marks_change(candidate: Memory) -> bool:
    """Whether it, or the words it was taken from, say that something changed ("it is $15,000 now")."""
    evidence = candidate.metadata.get("evidence")
    said = f"{candidate.content} {evidence if isinstance(evidence, str) else ''}"
    return bool(set(words(said)) & _CHANGE_WORDS)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


def _same_aspect(one: Memory, other: Memory) -> bool:
    return (one.aspect or "").casefold() == (other.aspect or "").casefold()


def _single_answer(text: str) -> bool:
    said = words(text)
    return any(pair in _SINGLE_ANSWER for pair in itertools.pairwise(said))


def place(candidate: Memory, chain: Sequence[Memory], *, now: datetime) -> Effects:
    """Put the candidate where it belongs in a chain of supersession (oldest first, the active one last).

    The newest statement becomes the active one and closes the one before it; an older one that comes late is stored
    as already superseded, between its neighbours in time.
    """
    here = len(chain)
    while here and is_older(candidate, chain[here - 1]):
        here -= 1
    before = chain[here - 1] if here else None
    after = chain[here] if here < len(chain) else None
    new = msgspec.structs.replace(candidate, supersedes=before.id if before else candidate.supersedes)
    changes: dict[str, dict[str, Any]] = {}
    if before is not None:
        changes[before.id] = _closing(before, new, now)
    if after is not None:
        new = msgspec.structs.replace(new, active=False, superseded_by=after.id, valid_to=_close(new, begins(after)))
        changes[after.id] = {"supersedes": new.id, "updated_at": now}
    return Effects(new, changes)


def _closing(known: Memory, by: Memory, now: datetime) -> dict[str, Any]:
    end = begins(by) if begins(by) > begins(known) else said_at(by)
    return {"active": False, "superseded_by": by.id, "valid_to": _close(known, end), "updated_at": now}


def _close(memory: Memory, end: datetime) -> datetime:
    """The end of its validity: never before its beginning, and not later than an end it had already."""
    end = max(end, begins(memory)).astimezone(UTC)
    return min(end, memory.valid_to) if memory.valid_to else end


def reinforce(known: Memory, again: Memory, *, now: datetime) -> dict[str, Any]:
    """The fields that change when a statement is repeated; none when it is the very same turn read again.

    Confidence moves a quarter of the way to certainty, weighed by the repetition's own (a choice of ours: four
    confident repetitions lift 0.5 to 0.84).
    """
    more = [turn for turn in again.turn_ids if turn not in known.turn_ids]
    if not more:
        return {}
    changes: dict[str, Any] = {"turn_ids": [*known.turn_ids, *more]}
    if known.active:
        changes["confidence"] = round(known.confidence + (1 - known.confidence) * 0.25 * again.confidence, 4)
        changes["updated_at"] = now
    return changes


def repeats(text: str, old: Memory, new: Memory) -> bool:
    """Whether a turn states what ``old`` said and not what ``new`` says: it contains the old value, shares the topic,
    and does not contain the new value.
    """
    old_value, new_value = old.object or "", new.object or ""
    old_numbers = numbers(old_value or old.content) - numbers(new_value or new.content)
    said = numbers(text)
    if said & numbers(new_value or new.content) - numbers(old_value or old.content):
        return False
    topic, turn = _topic(old.content) - _topic(old_value), _topic(text)
    if old_numbers:
        return old_numbers <= said and bool(topic & turn)
    name, other = value_name(old_value), value_name(new_value)
    if not name or name == other or not _contains(text, name) or (other and _contains(text, other)):
        return False
    return len(topic & turn) * 2 >= len(topic) or (bool(topic & turn) and len(topic) <= 2)


def _contains(text: str, value: str) -> bool:
    return f"_{value}_" in f"_{value_name(text)}_"
