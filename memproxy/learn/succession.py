"""Replacing one statement by another, and retracting one: in the plan, with the turns that stated the old one."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from memproxy.core.facts import RETRACTED_BY, begins, orders_to_forget, place, reinforce, retracted_at, take_back
from memproxy.core.forget_all import is_all_forgotten
from memproxy.core.memory import Kind, Memory, Trust, without
from memproxy.core.similar import is_listed, repeats, says_the_same
from memproxy.learn.plan_view import PlanView
from memproxy.ports import HybridQuery, MemoryFilter

_REPEATING_TURNS = 100


async def supersede(view: PlanView, candidate: Memory, target: Memory) -> None:
    """Put the candidate into the chain that ends in ``target``, and mark the turns of what is not current. Where
    another statement answers by now what the candidate answers, it follows that one, and the target ends.
    """
    candidate = _with_slot_of(candidate, target)
    effects = place(candidate, await view.chain_for(candidate, target.id), now=view.now)
    new = effects.new or candidate
    # a correction may move into another slot, which somebody else holds
    holder = await view.holder(new.slot) if new.active and new.slot else None
    other = await view.memory(holder) if holder is not None and holder != target.id else None
    if other is not None:
        is_known = says_the_same(new, other)
        if is_known or target.active:
            await retract(view, target, new.turn_ids[-1] if new.turn_ids else new.id, begins(new))
        if is_known:  # it is one more time that it was said
            await view.change(other.id, reinforce(other, new, now=view.now))
        else:
            await supersede(view, candidate, other)
        return
    for name, fields in effects.changes.items():
        await view.change(name, fields)
    await view.add(new)
    if new.active:
        await mark_superseded(view, target, new)
    elif new.superseded_by and (after := await view.memory(new.superseded_by)) is not None:
        await mark_superseded(view, new, after)
    else:
        await hide_late(view, new)


async def retract(view: PlanView, memory: Memory, turn: str, at: datetime) -> None:
    """End a memory that ``turn`` took back, and hide what states it; not ``turn`` where that tells what is so now."""
    await view.change(memory.id, take_back(memory, turn, at, now=view.now))
    await _hide(view, memory, turn, at)


async def hide_late(view: PlanView, memory: Memory) -> None:
    """Hide the turns that state what was taken back after they were said, and were not known by then."""
    if not memory.active and (at := retracted_at(memory)) is not None:
        await _hide(view, memory, str(memory.metadata[RETRACTED_BY]), at)


async def hide_stated(view: PlanView, memory: Memory) -> None:
    """Hide the turns that state what was deleted or ended from outside: it is not to be read there instead."""
    await _hide(view, memory, memory.id, view.now)


async def hide_repeated(view: PlanView, memory: Memory) -> None:
    """Hide the turns in which the assistant repeats what is deleted with the message that told it."""
    for turn in await _stating_turns(view, memory, None):
        if turn.trust is Trust.ASSISTANT and turn.active:
            view.change_turn(turn, {"active": False, "metadata": turn.metadata | {RETRACTED_BY: memory.id}})


async def show_stated(view: PlanView, memory: Memory) -> None:
    """Show the turns again that `hide_stated` hid for a memory."""
    for turn in await _stating_turns(view, memory, None):
        if not turn.active and turn.metadata.get(RETRACTED_BY) == memory.id and not is_all_forgotten(turn.metadata):
            view.change_turn(turn, {"active": True, "metadata": without(turn.metadata, RETRACTED_BY)})


async def mark_stated(view: PlanView, old: Memory, new: Memory) -> None:
    """Note on all turns that state ``old`` that ``new`` was put in its place from outside: that is known better."""
    await mark_superseded(view, old, msgspec.structs.replace(new, turn_ids=[]))


async def _hide(view: PlanView, memory: Memory, by: str, at: datetime) -> None:
    for turn in await _stating_turns(view, memory, None):
        if turn.id == by and not orders_to_forget(turn.content):
            continue
        if turn.created_at <= at and turn.active and not turn.superseded_by:
            view.change_turn(turn, {"active": False, "metadata": turn.metadata | {RETRACTED_BY: by}})


async def mark_superseded(view: PlanView, old: Memory, new: Memory) -> None:
    """Note on the turns that state what is no longer so, by which memory it was superseded."""
    for turn in await _stating_turns(view, old, new):
        said_by_new = turn.id in new.turn_ids and turn.session_id == new.session_id
        if not turn.superseded_by and not said_by_new:
            view.change_turn(turn, {"superseded_by": new.id})


async def unmark(view: PlanView, old: Memory, by: str) -> None:
    """Take back `mark_superseded`: what superseded ``old`` is deleted, and ``old`` holds again."""
    for turn in await _stating_turns(view, old, None):
        if turn.superseded_by == by:
            view.change_turn(turn, {"superseded_by": None})


async def _stating_turns(view: PlanView, old: Memory, new: Memory | None) -> Sequence[Memory]:
    """The turns that say what ``old`` said (and not what ``new`` says), and those it was read from."""
    words, where = view.lexical.encode_query(old.content), MemoryFilter(kinds=(Kind.TURN,))
    query = HybridQuery(bm25=words, limit=_REPEATING_TURNS, where=where, background=True)
    hits = await view.store.search(view.owner, query)
    turns = [hit.memory for hit in hits if repeats(hit.memory.content, old, new)]
    turn_ids = [name for name in old.turn_ids if new is None or name not in new.turn_ids]
    return [*turns, *await view.turns(old.session_id, turn_ids)]


def _with_slot_of(candidate: Memory, target: Memory) -> Memory:
    """A candidate that names no slot takes over the one of what it supersedes."""
    if candidate.slot is not None or target.slot is None or is_listed(target):
        return candidate  # of a list each item has a slot of its own
    return msgspec.structs.replace(
        candidate, subject=target.subject, predicate=target.predicate, aspect=target.aspect, slot=target.slot
    )
