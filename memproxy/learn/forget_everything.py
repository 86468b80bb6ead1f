"""Carries out the order to forget everything: the user's facts end, and the messages so far are hidden.

The order is recognised by rules in every mode: a model can neither give nor suppress it. As after any retraction, facts
stay in the history, and are active again when the conversation of the order is undone.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.facts import RETRACTED_BY, last_said_at, take_back
from memproxy.core.forget_all import ALL_FORGOTTEN_BY, is_all_forgotten, order_in
from memproxy.core.memory import FACTS, Kind, Memory, Trust
from memproxy.core.scope import Scope
from memproxy.core.text import key_terms
from memproxy.learn.candidates import Extracted, Grounded, Intent, Window, is_read
from memproxy.learn.plan_view import PlanView
from memproxy.learn.planted import plants
from memproxy.learn.rules.own_words import mask, sets_a_stage
from memproxy.ports import MemoryFilter, every

_JUST_BEFORE = timedelta(microseconds=1)  # what ends, ends before the order: its message may tell more


def order_of(turn: Memory) -> str | None:
    """The sentence by which the user orders in a turn to forget everything about him; None where that is quoted, pasted
    or code, or the message plants instructions.
    """
    if turn.trust is not Trust.USER or is_all_forgotten(turn.metadata):
        return None
    text = strip_blocks(turn.content)
    if order_in(text) is None or plants(text):
        return None
    return order_in(mask(text))


def split_at_order(window: Window) -> tuple[Window, Grounded | None]:
    """The window from its last order to forget everything on, without the order, and that as a candidate; as it is, and
    None, where no new turn orders it, in a game, or in a talk of several people, where "me" is any of them.
    """
    orders = {index: order_of(turn) for index, turn in enumerate(window.turns) if turn.id in window.new_ids}
    index = max((index for index, order in orders.items() if order is not None), default=-1)
    order = orders.get(index)
    if order is None or _may_be_of_others(window.turns):
        return window, None
    turn = window.turns[index]
    _, separator, after = turn.content.rpartition(order)
    rest = msgspec.structs.replace(turn, content=after)
    turns = [later for later in window.turns[index + 1 :] if not _answers(later, turn)]
    turns = [rest, *turns] if separator and is_read(rest) else turns
    candidate = Extracted(content=f"Everything about the user ({order})", intent=Intent.FORGET_ALL, evidence=(order,))
    return Window(turns=turns, new_ids=window.new_ids), Grounded(candidate, turn)


def without_covered(windows: Sequence[Window]) -> list[Window]:
    """The windows of one reading, without the turns before the last order among their new ones, or leading up to it."""
    last, order = -1, None
    for index, window in enumerate(windows):
        read = msgspec.structs.replace(window, turns=list(filter(is_read, window.turns)))
        if (ordered := split_at_order(read)[1]) is not None:
            last, order = index, ordered.turn
    if order is None:
        return list(windows)
    shown: list[Sequence[Memory]] = [*([] for _ in windows[:last]), windows[last].turns]
    shown += [[turn for turn in window.turns if not _falls_under(turn, order)] for window in windows[last + 1 :]]
    return [msgspec.structs.replace(window, turns=turns) for window, turns in zip(windows, shown, strict=True)]


def _may_be_of_others(turns: Sequence[Memory]) -> bool:
    messages = [turn for turn in turns if turn.trust is Trust.USER]
    return len({turn.metadata.get("name") for turn in messages}) > 1 or any(sets_a_stage(turn) for turn in messages)


def since_order(turns: Sequence[Memory]) -> list[Memory]:
    """A session's turns without those that an order to forget everything means, carried out or still to be."""
    remaining = [turn for turn in turns if not is_all_forgotten(turn.metadata)]
    ordered = [index for index, turn in enumerate(remaining) if order_of(turn) is not None]
    if not ordered or _may_be_of_others(remaining):
        return remaining
    order = remaining[ordered[-1]]
    return [turn for turn in remaining[ordered[-1] + 1 :] if not _answers(turn, order)]


def _answers(turn: Memory, order: Memory) -> bool:
    """Whether it is the assistant's answer to the order, which may tell once more what is forgotten."""
    return turn.trust is Trust.ASSISTANT and _order_key(turn) == _order_key(order, 1)


def _order_key(turn: Memory, further: int = 0) -> tuple[str | None, datetime, int]:
    seq = turn.metadata.get("seq", 0)
    return (turn.session_id, turn.created_at, (seq if isinstance(seq, int) else 0) + further)


def _falls_under(turn: Memory, order: Memory) -> bool:
    """Whether a turn was said before the order; or is it, or its answer."""
    if turn.session_id != order.session_id:
        return turn.created_at <= order.created_at
    return _order_key(turn)[1:] <= _order_key(order)[1:] or _answers(turn, order)


def standing(turns: Iterable[Memory], gone: Collection[str] = ()) -> list[Memory]:
    """The orders among an owner's turns that were carried out, oldest first, without those of these ids."""
    orders = [turn for turn in turns if turn.metadata.get(ALL_FORGOTTEN_BY) == turn.id and turn.id not in gone]
    return sorted(orders, key=lambda order: order.created_at)


def meant_by(orders: Iterable[Memory], memory: Memory) -> Memory | None:
    """The first of these orders that a fact or a turn falls under; None where it does under none of them."""
    if memory.kind is Kind.TURN:
        meant = (order for order in orders if _falls_under(memory, order))
    else:
        meant = (order for order in orders if last_said_at(memory) <= order.created_at)
    return next((order for order in meant if order.meets(memory)), None)


def ended_with(memory: Memory, order: Memory, *, now: datetime) -> dict[str, Any]:
    """The fields that change of a fact that the order ends."""
    return take_back(memory, order.id, order.created_at - _JUST_BEFORE, now=now)


async def forget_everything(view: PlanView, scope: Scope, order: Memory) -> tuple[Memory, ...] | None:
    """End what an order means where its project and agent see it, and hide what was said; None: it was done before."""
    stored = await view.turns(order.session_id, [order.id])
    if any(is_all_forgotten(turn.metadata) for turn in stored):
        return None
    visible_scope = scope.whole.at(scope.project, scope.agent)
    active = MemoryFilter(kinds=FACTS, active=True)
    facts = [view.current(fact) async for fact in every(view.store, visible_scope, active)]
    facts += [fact for fact in view.new_memories() if fact.kind is not Kind.TURN]
    meant = [fact for fact in facts if fact.active and last_said_at(fact) <= order.created_at]
    await view.load_slots([fact.slot for fact in meant if fact.slot])
    for fact in meant:
        await view.change(fact.id, ended_with(fact, order, now=view.now))
    async for turn in every(view.store, visible_scope, MemoryFilter(kinds=(Kind.TURN,))):
        if _falls_under(turn, order) and (turn.active or not is_all_forgotten(turn.metadata)):
            view.change_turn(turn, _hiding_fields(turn, order))
    return tuple(meant)


def _hiding_fields(turn: Memory, order: Memory) -> dict[str, Any]:
    """The fields of a turn that the order covers. An order that a statement follows, with none before it, is shown."""
    noted = turn.metadata | {ALL_FORGOTTEN_BY: turn.metadata.get(ALL_FORGOTTEN_BY, order.id)}
    goes_on = False
    if turn.id == order.id:
        text_before, ordered, text_after = strip_blocks(turn.content).rpartition(order_of(turn) or "\n")
        goes_on = bool(ordered) and not key_terms(text_before) and bool(key_terms(text_after))
    if not turn.active or goes_on:
        return {"metadata": noted}
    return {"active": False, "metadata": noted | {RETRACTED_BY: order.id}}
