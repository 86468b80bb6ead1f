"""A dream's step as a plan: what is still as the dream saw it changes, and notes what it was; and a dream undone."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from memproxy.core.dream import (
    CONFLICTS_WITH,
    DREAMS,
    MERGED_INTO,
    UNDOABLE,
    Action,
    Change,
    Step,
    made_by,
    mark_of,
    marks_of,
    restored,
)
from memproxy.core.facts import LAST_SAID, SAID, begins, ended, last_said_at, said_at, take_back
from memproxy.core.memory import Kind, Memory, is_told, noted_ids, version_of, without
from memproxy.core.receipt import Outcome
from memproxy.core.slots import value_name
from memproxy.errors import Conflict
from memproxy.learn import succession
from memproxy.learn.consolidate import is_worded_alike
from memproxy.learn.plan_view import PlanView
from memproxy.ports import MemoryFilter, every

_STORES = (Action.INFER, Action.AVOID, Action.REFLECT)
_RESULTS = {Action.END: "retracted", Action.DELETE: "deleted", **dict.fromkeys(_STORES, "stored")}
"""How the activity names actions; any other change of one entry is ``edited``."""


async def dreamt(view: PlanView, step: Step, outcomes: list[Outcome]) -> Counter[str]:
    """Add to the plan what a step does, and to the row's ``outcomes``; how many of each operation. A change is left out
    where a memory that it rests on is another than when it was decided: the next dream looks again. Raises `Conflict`
    where a dream cannot be taken back.
    """
    if step.undo:
        return await _undone(view, step.dream)
    new = {memory.id: memory for memory in step.new}
    named = {name for change in step.changes for name in (change.memory_id, *change.sources)} - new.keys()
    await view.load(sorted([*named, *new]))
    stored = {name: memory for name in named if (memory := await view.memory(name)) is not None}
    as_seen = {name for name, memory in stored.items() if step.seen.get(name) == version_of(memory)}
    sessions = {memory.id: memory.session_id for memory in stored.values() if memory.kind is Kind.TURN}
    counts: Counter[str] = Counter()
    for change in step.changes:
        new_memory = new.get(change.memory_id)
        # a new memory is there already, or what it says was deleted while the turns stayed that it rests on
        if new_memory is not None and (
            await view.memory(new_memory.id) is not None or (sessions and await view.forgotten(new_memory, sessions))
        ):
            continue
        if {change.memory_id, *change.sources} - new.keys() <= as_seen:
            await _carry_out(view, step.dream, change, new_memory)
            counts[change.action] += 1
            outcomes += _outcomes(change, step.dream)
    return counts


async def _carry_out(view: PlanView, dream: str, change: Change, new: Memory | None) -> None:
    """Add to the plan what a change does; ``new`` is the memory that it makes."""
    now = view.now
    memory = await view.memory(change.memory_id)
    if change.action == Action.MERGE:
        await _merge(view, dream, change, new)
    elif new is not None:
        await view.add(made_by(new, dream, now))
    elif memory is None:
        return
    elif change.action == Action.SUPERSEDE:
        await _supersede(view, memory, change.sources)
    elif change.action == Action.END:
        over = min(end for end in (memory.valid_to, memory.expires_at) if end is not None)
        await view.change(memory.id, ended(memory, over, now=now))
    elif change.action == Action.DELETE:
        gone, at = take_back(memory, dream, now, now=now), now + UNDOABLE
        await view.change(memory.id, gone | {"expires_at": min(at, memory.expires_at or at)})
    elif change.action == Action.CATEGORISE:
        await view.change(memory.id, change.labels | {"updated_at": now})
    elif change.action == Action.CONFLICT:
        other_ids = [*noted_ids(memory.metadata, CONFLICTS_WITH), *change.sources]
        metadata = memory.metadata | {CONFLICTS_WITH: list(dict.fromkeys(other_ids))}
        await view.change(memory.id, {"metadata": metadata, "updated_at": now})


async def _merge(view: PlanView, dream: str, change: Change, new: Memory | None) -> None:
    """Set the sources aside for one of them, or for a new sentence; what stays is known since the first was."""
    now = view.now
    sources = [source for name in change.sources if (source := await view.memory(name)) is not None]
    for source in sources:
        over = ended(source, begins(source), now=now)  # it never held by itself
        metadata = over.get("metadata", source.metadata) | {MERGED_INTO: change.memory_id}
        await view.change(source.id, over | {"superseded_by": change.memory_id, "metadata": metadata})
    if new is not None:
        await view.add(made_by(new, dream, now))
        return
    survivor = await view.memory(change.memory_id)
    if survivor is not None and (fields := _taken_over(survivor, sources)):
        await view.change(survivor.id, fields | {"updated_at": now})


async def _supersede(view: PlanView, newest: Memory, sources: Sequence[str]) -> None:
    older = sorted([entry for name in sources if (entry := await view.memory(name)) is not None], key=begins)
    for entry in older:
        await view.change(entry.id, ended(entry, begins(newest), now=view.now) | {"superseded_by": newest.id})
        await succession.mark_superseded(view, entry, newest)
    if older and newest.supersedes is None:
        await view.change(newest.id, {"supersedes": older[-1].id, "updated_at": view.now})
    if newest.slot:  # of two that filled one slot the other one may have held it
        await view.take(newest.id)


def joined(entries: Sequence[Memory]) -> dict[str, Any]:
    """What entries that say the same have together: everything but their words and their names."""
    relations = {
        (value_name(edge.subject), value_name(edge.predicate), value_name(edge.object)): edge
        for entry in reversed(entries)
        for edge in entry.relations
    }
    first, last = min(map(said_at, entries)), max(map(last_said_at, entries))
    lists = {name: [getattr(entry, name) for entry in entries] for name in ("turn_ids", "entities", "tags")}
    return {name: list(dict.fromkeys(itertools.chain(*values))) for name, values in lists.items()} | {
        "created_at": min(entry.created_at for entry in entries),
        "relations": list(relations.values())[::-1],
        "confidence": max(entry.confidence for entry in entries),
        "importance": max(entry.importance for entry in entries),
        "metadata": {SAID: first.isoformat(), LAST_SAID: last.isoformat()},
    }


def _taken_over(survivor: Memory, sources: Sequence[Memory]) -> dict[str, Any]:
    """What changes of the one that stays by what it takes over from the others."""
    entries = [survivor, *sources]
    fields = joined(entries)
    fields["category"] = next((entry.category for entry in entries if entry.category), None)
    was_said = any(SAID in entry.metadata for entry in entries)
    fields["metadata"] = survivor.metadata | fields["metadata"] if was_said else survivor.metadata
    if len(fields["relations"]) <= len(survivor.relations):
        del fields["relations"]
    return {name: value for name, value in fields.items() if value != getattr(survivor, name)}


def _outcomes(change: Change, dream: str) -> list[Outcome]:
    """What the activity tells: one line for each entry that is set aside, or that is new or changed."""
    if change.action in (Action.MERGE, Action.SUPERSEDE):
        return [
            Outcome(result="superseded", reason=dream, memory_id=name, superseded_by=change.memory_id)
            for name in change.sources
        ]
    return [Outcome(result=_RESULTS.get(change.action, "edited"), reason=dream, memory_id=change.memory_id)]


async def _undone(view: PlanView, dream: str) -> Counter[str]:
    """Add to the plan what takes a dream back, with all it made. Raises `Conflict` where a later one changed it."""
    stored = every(view.store, view.owner, MemoryFilter())
    touched = [memory async for memory in stored if mark_of(memory, dream) is not None]
    later = sorted({marks_of(memory)[-1]["id"] for memory in touched} - {dream})
    if later:
        message = f"A later dream changed memories that this one did: undo that one first ({', '.join(later[:5])})."
        raise Conflict(message, param="id")
    counts: Counter[str] = Counter()
    merged = {memory.id: str(memory.metadata[MERGED_INTO]) for memory in touched if MERGED_INTO in memory.metadata}
    for memory in sorted(touched, key=lambda entry: _merges(entry.id, merged)):
        mark = mark_of(memory, dream)
        if memory.kind is Kind.TURN:
            view.change_turn(memory, restored(memory, dream, view.now))
        elif mark is not None and mark["was"] is None:
            if memory.updated_at == _made_at(memory):
                await view.delete(memory.id)
            else:  # somebody made it his own since
                await view.change(memory.id, {"metadata": without(memory.metadata, DREAMS)})
        else:
            await _restore(view, memory, restored(memory, dream, view.now))
        counts["change"] += 1
    return counts


def _merges(name: str, merged: Mapping[str, str]) -> int:
    """How many merges lead from a memory to the one that stayed: that one is restored first."""
    passed: list[str] = []
    while name in merged and name not in passed:
        passed.append(name)
        name = merged[name]
    return len(passed)


def _made_at(memory: Memory) -> datetime:
    return datetime.fromisoformat(marks_of(memory)[-1]["at"])


async def _restore(view: PlanView, memory: Memory, fields: dict[str, Any]) -> None:
    """Make an entry what it was. It stays in the history where somebody else took its slot since, or where what it was
    merged into said the same words and was corrected, taken back or called wrong since.
    """
    slot, opens = memory.slot, fields.get("active") is True
    survivor = await view.memory(str(memory.metadata.get(MERGED_INTO))) if opens else None
    if survivor is not None and not is_told(survivor) and is_worded_alike(memory.content, survivor.content):
        noted = fields["metadata"] | {MERGED_INTO: survivor.id}
        await view.change(memory.id, {"metadata": noted, "updated_at": view.now})
        return
    holder = await view.holder(slot) if slot and opens else None
    other = await view.memory(holder) if holder is not None and holder != memory.id else None
    if other is not None and other.active and not marks_of(other) and other.created_at > _made_at(memory):
        fields = {name: value for name, value in fields.items() if name not in ("active", "valid_to", "relations")}
        await view.change(memory.id, fields | {"superseded_by": other.id})
        return
    await view.change(memory.id, fields)
    if opens and slot and holder is None:
        await view.take(memory.id)
