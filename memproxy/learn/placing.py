"""Where a model's statement belongs among what is known: in the slot of what answers its question by another name, or
beside what only shares its name. Models see what is known and name its questions anew all the same.
"""

import re
from collections.abc import Mapping
from datetime import timedelta

import msgspec

from memproxy.core.chain import begins, had_ended
from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.core.similar import affirms, names, topic
from memproxy.core.slots import numbers, predicate_name, same_value, slot_name, slot_value, subject_name
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.known import Known
from memproxy.learn.nearby import Nearby, Vector
from memproxy.learn.questions import (
    another,
    asks_the_same,
    form,
    is_listed,
    same_item,
    says_over,
    sort_of,
)

FOR_A_TIME = "for a time"
"""The aspect of what holds for a short time beside what else holds in its place: being in Zurich until Friday does not
end living in Hamburg.
"""

_SHORT = timedelta(days=100)
_CHANGED = re.compile(
    r"\b(?:chang\w+|switch\w*|instead|mov(?:ed|ing)|no longer|any ?more|actually|meant|sorry|wrong|replac\w+|swap\w*"
    r"|dropped|correction)\b",
    re.IGNORECASE,
)
"""What in a correction's words says that it stands in the place of something; "new" may be one more."""


class Placing:
    """Finds the place of candidates that a model named."""

    def __init__(self, nearby: Nearby) -> None:
        self._nearby = nearby

    async def placed(
        self, known: Known, scope: Scope, read: Extracted, candidate: Memory, vectors: Mapping[str, Vector]
    ) -> tuple[Memory, str | None]:
        """The candidate in the slot where it belongs, and what it replaces as far as that is clear.

        Raises:
            StoreUnavailable, StateUnavailable: what is known could not be read.
        """
        if read.intent is Intent.FORGET:
            return await self._asked(known, scope, candidate, vectors), read.replaces
        if candidate.slot is None or candidate.kind is Kind.EPISODIC:
            return candidate, read.replaces
        if chain := await self._nearby.chain(known, candidate):
            moved = _beside(candidate, chain[-1], read)
            if moved is None or await self._nearby.chain(known, moved):
                return moved or candidate, read.replaces
            candidate = moved
        found = await self._nearby.of(scope, known, candidate, vectors)
        near = [one.memory for one in found if one.memory.active and one.memory.slot is not None]
        for memory in near:
            if (there := _in_place_of(candidate, memory)) is not None:
                return there, read.replaces
        return candidate, read.replaces or _replaced(read, candidate, near)

    async def _asked(self, known: Known, scope: Scope, request: Memory, vectors: Mapping[str, Vector]) -> Memory:
        """A request to forget by the names of the only known memory that it tells as that is told."""
        near = [one.memory for one in await self._nearby.to_forget(scope, known, request, vectors)]
        told = [one for one in near if one.active and one.slot is not None and _tells_the_same(request, one)]
        if len(told) != 1 or request.aspect:
            return request
        return _with(request, subject=told[0].subject, predicate=told[0].predicate, object=told[0].object)


def _tells_the_same(request: Memory, memory: Memory) -> bool:
    about = topic(request.content)
    return (
        bool(about)
        and about == topic(memory.content)
        and affirms(request) == affirms(memory)
        and (numbers(request.content) == numbers(memory.content) and names(request.content) == names(memory.content))
    )


def _beside(candidate: Memory, holder: Memory, read: Extracted) -> Memory | None:
    """The candidate in a slot of its own, where it does not end the holder of the one it names; None where it may."""
    if not holder.active or same_value(slot_value(candidate), slot_value(holder)):
        return None
    if read.intent is Intent.STATE and _is_for_a_time(candidate) and holder.valid_to is None:
        return _with(candidate, aspect=FOR_A_TIME)
    if candidate.aspect:
        return None
    changes = read.intent is Intent.CORRECT or _says_changed(read)
    of = another(candidate, holder, changed=changes)
    return _with(candidate, predicate=of) if of is not None else None


def _is_for_a_time(candidate: Memory) -> bool:
    """Whether it is a state with a near end; a day is the value of an appointment, which moves."""
    end = candidate.valid_to
    if sort_of(candidate.object or "") == "date":
        return False
    return end is not None and not candidate.aspect and not had_ended(candidate) and end - begins(candidate) <= _SHORT


def _in_place_of(candidate: Memory, memory: Memory) -> Memory | None:
    """The candidate as an answer to what a known memory answers; None where that is not clear."""
    names = {"subject": memory.subject, "predicate": memory.predicate, "aspect": memory.aspect}
    if same_item(candidate, memory) or says_over(candidate, memory):
        names["object"] = memory.object
    elif not asks_the_same(candidate, memory):
        return None
    there = _with(candidate, **names)
    return there if there.slot == memory.slot else None


def _with(candidate: Memory, **fields: str | None) -> Memory:
    changed = msgspec.structs.replace(candidate, **fields)
    return msgspec.structs.replace(changed, slot=slot_name(changed))


def _replaced(read: Extracted, candidate: Memory, near: list[Memory]) -> str | None:
    """What a correction of an item of a list replaces: the only known one that is told in the same sentence."""
    if read.intent is not Intent.CORRECT or not is_listed(candidate):
        return None
    if not _says_changed(read):
        return None
    said = form(candidate)
    rivals = [one for one in near if _lists_the_same(candidate, one) and said is not None and form(one) == said]
    return rivals[0].object if len(rivals) == 1 else None


def _says_changed(read: Extracted) -> bool:
    return any(_CHANGED.search(quote) for quote in read.evidence)


def _lists_the_same(one: Memory, other: Memory) -> bool:
    same = predicate_name(one.predicate or "") == predicate_name(other.predicate or "")
    return same and subject_name(one.subject or "") == subject_name(other.subject or "")
