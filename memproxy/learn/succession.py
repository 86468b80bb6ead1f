"""Replacing one statement by another, and retracting one: in the plan, with the turns that stated the old one."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from memproxy.core.facts import RETRACTED_BY, begins, orders, place, reinforce, retracted_at, take_back
from memproxy.core.forget_all import is_all_forgotten
from memproxy.core.memory import Kind, Memory, Trust, without
from memproxy.core.similar import is_listed, repeats, says_the_same
from memproxy.learn.plan_view import PlanView
from memproxy.ports import HybridQuery, MemoryFilter

_REPEATING_TURNS = 100


async def supersede(known: PlanView, candidate: Memory, target: Memory) -> None:
    """Put the candidate into the chain that ends in ``target``, and mark the turns of what is not current. Where
    another statement answers by now what the candidate answers, it follows that one, and the target ends.
    """
    candidate = _with_slot_of(candidate, target)
    effects = place(candidate, await known.chain_for(candidate, target.id), now=known.now)
    new = effects.new or candidate
    # a correction may move into another slot, which somebody else holds
    holder = await known.holder(new.slot) if new.active and new.slot else None
    other = await known.memory(holder) if holder is not None and holder != target.id else None
    if other is not None:
        is_known = says_the_same(new, other)
        if is_known or target.active:
            await retract(known, target, new.turn_ids[-1] if new.turn_ids else new.id, begins(new))
        if is_known:  # it is one more time that it was said
            await known.change(other.id, reinforce(other, new, now=known.now))
        else:
            await supersede(known, candidate, other)
        return
    for name, fields in effects.changes.items():
        await known.change(name, fields)
    await known.add(new)
    if new.active:
        await mark(known, target, new)
    elif new.superseded_by and (after := await known.memory(new.superseded_by)) is not None:
        await mark(known, new, after)
    elif retracted_at(new) is not None:
        await _hide(known, new, str(new.metadata[RETRACTED_BY]), retracted_at(new) or known.now)


async def retract(known: PlanView, memory: Memory, turn: str, at: datetime) -> None:
    """End a memory because ``turn`` took it back, and hide the turns that state it; not ``turn`` itself where it
    tells what is so now ("I'm not vegan any more, I eat fish again").
    """
    await known.change(memory.id, take_back(memory, turn, at, now=known.now))
    await _hide(known, memory, turn, at)


async def add_ended(known: PlanView, ended: Memory) -> None:
    """Add a statement that was taken back before it came to be known, and hide the turns that state it."""
    await known.add(ended)
    await _hide(known, ended, str(ended.metadata[RETRACTED_BY]), retracted_at(ended) or known.now)


async def hide_late(known: PlanView, name: str) -> None:
    """Hide the turns that state what was taken back after they were said, and were not known by then."""
    memory = await known.memory(name)
    if memory is not None and not memory.active and (at := retracted_at(memory)) is not None:
        await _hide(known, memory, str(memory.metadata[RETRACTED_BY]), at)


async def hide_stated(known: PlanView, memory: Memory) -> None:
    """Hide the turns that state what was deleted or ended from outside: it is not to be read there instead."""
    await _hide(known, memory, memory.id, known.now)


async def hide_repeated(known: PlanView, memory: Memory) -> None:
    """Hide the turns in which the assistant repeats what is deleted with the message that told it."""
    for turn in await _stating(known, memory, None):
        if turn.trust is Trust.ASSISTANT and turn.active:
            known.mark(turn, {"active": False, "metadata": turn.metadata | {RETRACTED_BY: memory.id}})


async def show_stated(known: PlanView, memory: Memory) -> None:
    """Show the turns again that `hide_stated` hid for a memory."""
    for turn in await _stating(known, memory, None):
        if not turn.active and turn.metadata.get(RETRACTED_BY) == memory.id and not is_all_forgotten(turn.metadata):
            known.mark(turn, {"active": True, "metadata": without(turn.metadata, RETRACTED_BY)})


async def mark_stated(known: PlanView, old: Memory, new: Memory) -> None:
    """Note on the turns that state ``old`` that ``new`` was put in its place from outside, also on those that both
    rest on: whoever wrote it knows better than what was read there.
    """
    await mark(known, old, msgspec.structs.replace(new, turn_ids=[]))


async def _hide(known: PlanView, memory: Memory, by: str, at: datetime) -> None:
    for turn in await _stating(known, memory, None):
        if turn.id == by and not orders(turn.content):
            continue
        if turn.created_at <= at and turn.active and not turn.superseded_by:
            known.mark(turn, {"active": False, "metadata": turn.metadata | {RETRACTED_BY: by}})


async def mark(known: PlanView, old: Memory, new: Memory) -> None:
    """Note on the turns that state what is no longer so, by which memory it was superseded."""
    for turn in await _stating(known, old, new):
        said_by_new = turn.id in new.turn_ids and turn.session_id == new.session_id
        if not turn.superseded_by and not said_by_new:
            known.mark(turn, {"superseded_by": new.id})


async def unmark(known: PlanView, old: Memory, by: str) -> None:
    """Take back `mark`: what superseded ``old`` is deleted, and ``old`` holds again."""
    for turn in await _stating(known, old, None):
        if turn.superseded_by == by:
            known.mark(turn, {"superseded_by": None})


async def _stating(known: PlanView, old: Memory, new: Memory | None) -> Sequence[Memory]:
    """The turns that say what ``old`` said (and not what ``new`` says), and those it was read from."""
    query = HybridQuery(
        bm25=known.lexical.encode_query(old.content),
        limit=_REPEATING_TURNS,
        where=MemoryFilter(kinds=(Kind.TURN,)),
        background=True,
    )
    found = await known.store.search(known.owner, query)
    turns = [one.memory for one in found if repeats(one.memory.content, old, new)]
    told = [name for name in old.turn_ids if new is None or name not in new.turn_ids]
    return [*turns, *await known.turns(old.session_id, told)]


def _with_slot_of(candidate: Memory, target: Memory) -> Memory:
    """A candidate that names no slot takes over the one of what it supersedes."""
    if candidate.slot is not None or target.slot is None or is_listed(target):
        return candidate  # of a list each item has a slot of its own
    return msgspec.structs.replace(
        candidate, subject=target.subject, predicate=target.predicate, aspect=target.aspect, slot=target.slot
    )
