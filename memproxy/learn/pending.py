"""Plain corrections and retractions are obeyed when their message comes, in every mode of learning.

Rules say what a message surely ends of what was stated before. Facts and messages that state it are taken back by that
message and noted as ``pending``: learning, where it is on, looks at them again (`settle_pending`). Where rules are not
sure, nothing changes. What is marked so is in the history, and holds again when the message's conversation is undone.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.facts import (
    PENDING,
    RETRACTED_AT,
    RETRACTED_BY,
    last_said_at,
    only_asks_to_forget,
    reopened,
    retracted_at,
    take_back,
)
from memproxy.core.forget_all import is_all_forgotten
from memproxy.core.memory import Kind, Memory, Trust, without
from memproxy.core.protocol import PlanBody
from memproxy.core.receipt import Outcome
from memproxy.core.scope import Scope
from memproxy.core.text import QUESTION_MARKS, sentences
from memproxy.core.turn import in_order
from memproxy.learn import succession
from memproxy.learn.outcomes import requests_of
from memproxy.learn.outdated import end_outdated
from memproxy.learn.parts import Parts
from memproxy.learn.plan_view import PlanView
from memproxy.learn.planted import plants
from memproxy.learn.rules import reader
from memproxy.learn.rules.corrections import terms
from memproxy.ports import HybridQuery, MemoryFilter, SlotChange

CHANGES = "changes_pending"
"""Metadata of a message that changes something: the ``facts`` that are pending, and ``turns`` by session and id."""

SUPERSEDED, TAKEN_BACK = "superseded", "retracted"  # what ``pending`` says: another value took its place, or it is over

_FACTS = (Kind.SEMANTIC, Kind.PROCEDURAL, Kind.REFLECTIVE)
_NEAR = 24
_NEAR_TURNS = 12
_JUST_SAID = 6
_APART = 100  # places between what was said in other conversations and in this one, where it was just before
_LONGEST = 2_000
_BESIDE = 2  # terms of a message that may stand beside what it states, where it is hidden as a whole


class Marks(msgspec.Struct, frozen=True):
    """The new messages as they are written, and what else changes."""

    turns: list[Memory]
    plan: PlanBody
    slots: list[SlotChange]
    outcomes: list[Outcome]


async def marks(parts: Parts, scope: Scope, new: Sequence[Memory], now: datetime) -> Marks | None:
    """What these new messages end for sure; None if nothing. Callers hold the owner's lock."""
    messages = [(turn, strip_blocks(turn.content)) for turn in new if turn.trust is Trust.USER and turn.active]
    messages = [(turn, text) for turn, text in messages if 0 < len(text) <= _LONGEST and not plants(text)]
    asking = [turn for turn, _ in messages if await asyncio.to_thread(reader.may_change, turn)]
    if not asking:
        return None
    view = PlanView(parts, scope, now)
    turns = {turn.id: turn for turn in new}
    outcomes: list[Outcome] = []
    for turn in asking:
        turns[turn.id] = await _mark(view, turn, turns, outcomes)
    await end_outdated(view)
    plan = view.plan()
    marked = plan.turn_changes.get(scope.session or "", {})
    written = [msgspec.structs.replace(turn, **marked.get(turn.id, {})) for turn in turns.values()]
    stored = plan.turn_changes | {scope.session or "": {name: marked[name] for name in marked if name not in turns}}
    plan = msgspec.structs.replace(plan, turn_changes={name: changes for name, changes in stored.items() if changes})
    return Marks(written, plan, view.slot_changes(), outcomes)


async def _mark(view: PlanView, turn: Memory, turns: Mapping[str, Memory], outcomes: list[Outcome]) -> Memory:
    """The message with what it changes noted, and that in the plan and the outcomes. ``turns`` are the new ones."""
    words = await asyncio.to_thread(reader.words_of, turn)
    facts = {fact.id: fact for fact in await _facts(view, turn, words)}
    covered = {name for fact in facts.values() for name in fact.turn_ids}
    earlier_messages, index = await _earlier_messages(view, turn, turns, words)
    earlier_messages = {number: earlier for number, earlier in earlier_messages.items() if earlier.id not in covered}
    ledger = await asyncio.to_thread(reader.stated_before, list(earlier_messages.items()), list(facts.values()))
    touches = await asyncio.to_thread(reader.touched, turn, ledger, index)
    ended: list[str] = []
    for touch in touches:
        if touch.held.memory is not None:
            await _end(view, facts[touch.held.memory], turn, _reason([touch]))
            ended.append(touch.held.memory)
            outcomes.append(_pending_outcome(turn, facts[touch.held.memory], _reason([touch])))
    gone: list[Memory] = []
    for number, earlier in earlier_messages.items():
        own_touches = [touch for touch in touches if touch.held.memory is None and touch.held.turn == number]
        # nothing is lost where it states next to nothing beside that
        if own_touches and len(terms(" ".join(_statements_of(earlier))) - reader.covered(own_touches)) <= _BESIDE:
            gone.append(_hide(view, earlier, turn, _reason(own_touches)))
    orders = await asyncio.to_thread(reader.orders_of, turn)
    telling = [(earlier, _statements_of(earlier)) for earlier in earlier_messages.values()] if not touches else []
    for _, order_terms in orders:
        about = [old for old, spoken in telling if len(spoken) == 1 and reader.names_all_of(spoken[0], order_terms)]
        gone += [_hide(view, earlier, turn, TAKEN_BACK) for earlier in about]
    outcomes += [_pending_outcome(turn, old, view.turn_changes(old)["metadata"][PENDING]) for old in gone]
    noted = without(turn.metadata, CHANGES)
    if ended or gone:
        noted[CHANGES] = {"facts": ended, "turns": [[earlier.session_id, earlier.id] for earlier in gone]}
    if orders and only_asks_to_forget(strip_blocks(turn.content), [evidence for evidence, _ in orders]):
        return msgspec.structs.replace(turn, active=False, metadata=noted | {RETRACTED_BY: turn.id})
    return msgspec.structs.replace(turn, metadata=noted)


async def _end(view: PlanView, fact: Memory, turn: Memory, how: str) -> None:
    await succession.retract(view, fact, turn.id, turn.created_at)
    ended = await view.memory(fact.id) or fact
    await view.change(fact.id, {"metadata": ended.metadata | {PENDING: how}})
    await view.release(fact)
    for earlier in await view.turns(fact.session_id, fact.turn_ids):
        noted = view.turn_changes(earlier).get("metadata", {})
        if noted.get(RETRACTED_BY) == turn.id:
            _hide(view, msgspec.structs.replace(earlier, metadata=noted), turn, how)


def _hide(view: PlanView, earlier: Memory, turn: Memory, how: str) -> Memory:
    at = turn.created_at.isoformat()
    noted = earlier.metadata | {RETRACTED_BY: turn.id, RETRACTED_AT: at, PENDING: how}
    view.change_turn(earlier, {"active": False, "metadata": noted})
    return earlier


async def _facts(view: PlanView, turn: Memory, words: str) -> list[Memory]:
    """The facts nearest to the message in words and those that were learned last, if it may be about them."""
    scope = view.owner.whole.at(*turn.place)
    query = HybridQuery(bm25=view.lexical.encode_query(words), limit=_NEAR, where=MemoryFilter(kinds=_FACTS))
    nearest = [hit.memory for hit in await view.store.search(scope, query)]
    latest = await view.store.page(scope, MemoryFilter(kinds=_FACTS), limit=_NEAR)
    once = {memory.id: memory for memory in (*nearest, *latest.memories)}
    as_then = [as_before(view.current(memory), turn) for memory in once.values()]
    earlier = [memory for memory in as_then if memory.place == turn.place and last_said_at(memory) <= turn.created_at]
    return [memory for memory in earlier if memory.active and not memory.quarantined]


async def _earlier_messages(
    view: PlanView, turn: Memory, new: Mapping[str, Memory], words: str
) -> tuple[dict[int, Memory], int]:
    """The user's earlier messages nearest to this one by their place, those just said last; and this one's place."""
    scope = view.owner.whole.at(*turn.place)
    where = MemoryFilter(kinds=(Kind.TURN,))
    query = HybridQuery(bm25=view.lexical.encode_query(words), limit=_NEAR_TURNS, where=where)
    nearest = [hit.memory for hit in await view.store.search(scope, query)]
    in_session: list[Memory] = []
    if (session := view.owner.session) is not None:
        where = MemoryFilter(kinds=(Kind.TURN,), session_ids=(session,))
        in_session += (await view.store.page(scope, where, limit=_JUST_SAID)).memories
    in_session = in_order([*(message for message in in_session if message.id not in new), *new.values()])
    upto = next((number for number, message in enumerate(in_session) if message.id == turn.id), len(in_session))
    just_said = in_session[max(0, upto - _JUST_SAID) : upto]
    recent = {(message.session_id, message.id) for message in in_session}
    elsewhere = in_order([message for message in nearest if (message.session_id, message.id) not in recent])
    last = 2 * _APART + len(elsewhere)
    placed = dict(enumerate(elsewhere)) | {last + number: message for number, message in enumerate(just_said)}
    current = [(place, msgspec.structs.replace(old, **view.turn_changes(old))) for place, old in placed.items()]
    return {place: message for place, message in current if _is_read(message, turn)}, last + len(just_said)


def _pending_outcome(turn: Memory, ended: Memory, how: str) -> Outcome:
    outcome = Outcome(result="pending", reason=how, memory_id=ended.id, kind=ended.kind.value, turn_id=turn.id)
    return msgspec.structs.replace(outcome, request_ids=requests_of([turn]))


def _reason(touched: Sequence[Any]) -> str:
    return SUPERSEDED if all(touch.replaced for touch in touched) else TAKEN_BACK


def as_before(memory: Memory, turn: Memory) -> Memory:
    """A fact as it was before this message; it may have been marked by it, in a try that was cut off."""
    if memory.active or memory.metadata.get(RETRACTED_BY) != turn.id or PENDING not in memory.metadata:
        return memory
    return msgspec.structs.replace(memory, **reopened(memory, now=memory.updated_at))


def _is_read(earlier: Memory, turn: Memory) -> bool:
    if earlier.trust is not Trust.USER or is_all_forgotten(earlier.metadata):
        return False
    if earlier.created_at > turn.created_at or earlier.place != turn.place:
        return False
    by_it = earlier.metadata.get(RETRACTED_BY) == turn.id and PENDING in earlier.metadata
    return by_it or (earlier.active and earlier.superseded_by is None)


def _statements_of(turn: Memory) -> list[str]:
    spoken = sentences(strip_blocks(turn.content))
    return [sentence for sentence in spoken if not sentence.rstrip().endswith(tuple(QUESTION_MARKS))]


class _Changes(msgspec.Struct, frozen=True):
    """The changes that a message notes."""

    facts: list[str] = []
    turns: list[tuple[str | None, str]] = []


def _changes(turn: Memory) -> _Changes:
    try:
        return msgspec.convert(turn.metadata.get(CHANGES) or {}, _Changes)
    except msgspec.ValidationError:  # somebody's own metadata of this name
        return _Changes()


def changed_by(turns: Sequence[Memory]) -> dict[str, Memory]:
    """The facts, by id, that are pending by these messages, each with its message."""
    return {name: turn for turn in turns for name in _changes(turn).facts}


def taken_back_with(turn: Memory, candidate: Memory, read_ids: Collection[str], now: datetime) -> Memory | None:
    """What is read in a message as another one, not among the ``read_ids``, took it back; None of other messages."""
    by, at = turn.metadata.get(RETRACTED_BY), retracted_at(turn)
    if not isinstance(by, str) or at is None or by == turn.id or by in read_ids:
        return None
    return msgspec.structs.replace(candidate, **take_back(candidate, by, at, now=now))


async def reopen_pending(view: PlanView, turns: Sequence[Memory]) -> dict[str, Memory]:
    """Facts pending by these messages hold again, for learning to look at, unless their place was taken; by id."""
    turns_by_fact: dict[str, Memory] = {}
    for name, turn in changed_by(turns).items():
        fact = await view.memory(name)
        if fact is None or fact.active or fact.metadata.get(RETRACTED_BY) != turn.id or PENDING not in fact.metadata:
            continue
        if fact.slot is None or await view.holder(fact.slot) is None:
            await view.change(name, reopened(fact, now=view.now))
            await view.take(name)
            turns_by_fact[name] = turn
    return turns_by_fact


async def settle_pending(view: PlanView, turns: Sequence[Memory], facts: Mapping[str, Memory]) -> list[Outcome]:
    """What learning left of the facts of `reopen_pending`: those that were only told once more hold again."""
    outcomes: list[Outcome] = []
    for name, turn in facts.items():
        fact = await view.memory(name)
        if fact is None:
            continue
        outcome = Outcome(result="retracted", turn_id=turn.id, memory_id=name, request_ids=requests_of([turn]))
        holds = fact.active and turn.id in fact.turn_ids
        if fact.active and not holds:
            await view.change(name, take_back(fact, turn.id, turn.created_at, now=view.now))
            outcomes.append(outcome)
        elif holds:
            outcomes.append(msgspec.structs.replace(outcome, result="kept"))
        for earlier in await view.turns(fact.session_id, fact.turn_ids):
            noted = view.turn_changes(earlier).get("metadata", earlier.metadata)
            if PENDING in noted:
                dropped = (PENDING, RETRACTED_BY, RETRACTED_AT) if holds else (PENDING,)
                view.change_turn(earlier, {"metadata": without(noted, *dropped)} | ({"active": True} if holds else {}))
    for session, name in (pair for turn in turns for pair in _changes(turn).turns):
        for earlier in await view.turns(session, [name]):
            noted = view.turn_changes(earlier).get("metadata", earlier.metadata)
            if PENDING in noted:
                view.change_turn(earlier, {"metadata": without(noted, PENDING)})
    return outcomes
