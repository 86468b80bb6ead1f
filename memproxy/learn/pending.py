"""Plain corrections and retractions are obeyed when their message comes, in every mode of learning.

Rules say what a message surely ends of what was stated before. Facts and messages that state it are taken back by that
message and noted as ``pending``: learning, where it is on, looks at them again (`settled`). Where the rules are not
sure, nothing changes. What is marked so is in the history, and holds again when the conversation of the message is
undone.
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
from memproxy.core.text import sentences
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
"""Name in the ``metadata`` of the message that changes something: what is pending by it, ``facts`` by id and ``turns``
by session and id.
"""

SUPERSEDED, TAKEN_BACK = "superseded", "retracted"
"""What ``pending`` says: another value took its place, or it is over."""

_FACTS = (Kind.SEMANTIC, Kind.PROCEDURAL, Kind.REFLECTIVE)
_NEAR = 24
_NEAR_TURNS = 12
_JUST_SAID = 6
_APART = 100
"""Places between what was said in other conversations and in this one: only here something was said just before."""

_LONGEST = 2_000
_BESIDE = 2
"""Terms of a message that may stand beside what it states, where it is hidden as a whole."""


class Marks(msgspec.Struct, frozen=True):
    """The new messages as they are written, and what else changes."""

    turns: list[Memory]
    plan: PlanBody
    slots: list[SlotChange]
    outcomes: list[Outcome]


async def marks(parts: Parts, scope: Scope, new: Sequence[Memory], now: datetime) -> Marks | None:
    """What these messages, which are not written yet, surely end; None where none of them changes anything. Callers
    hold the owner's lock.
    """
    told = [(turn, strip_blocks(turn.content)) for turn in new if turn.trust is Trust.USER and turn.active]
    told = [(turn, text) for turn, text in told if 0 < len(text) <= _LONGEST and not plants(text)]
    asking = [turn for turn, _ in told if await asyncio.to_thread(reader.may_change, turn)]
    if not asking:
        return None
    known = PlanView(parts, scope, now)
    turns = {turn.id: turn for turn in new}
    outcomes: list[Outcome] = []
    for turn in asking:
        turns[turn.id] = await _marked(known, turn, turns, outcomes)
    await end_outdated(known)
    plan = known.plan()
    here = plan.turn_changes.get(scope.session or "", {})
    written = [msgspec.structs.replace(turn, **here.get(turn.id, {})) for turn in turns.values()]
    stored = {
        session: {name: fields for name, fields in changed.items() if changed is not here or name not in turns}
        for session, changed in plan.turn_changes.items()
    }
    plan = msgspec.structs.replace(plan, turn_changes={name: some for name, some in stored.items() if some})
    return Marks(written, plan, known.slot_changes(), outcomes)


async def _marked(known: PlanView, turn: Memory, turns: Mapping[str, Memory], outcomes: list[Outcome]) -> Memory:
    """The message with what it changes noted, and that in the plan and the outcomes. ``turns`` are the new ones."""
    words = await asyncio.to_thread(reader.words_of, turn)
    facts = {one.id: one for one in await _facts(known, turn, words)}
    covered = {name for one in facts.values() for name in one.turn_ids}
    before, place = await _said_before(known, turn, turns, words)
    before = {number: one for number, one in before.items() if one.id not in covered}
    ledger = await asyncio.to_thread(reader.stated_before, list(before.items()), list(facts.values()))
    found = await asyncio.to_thread(reader.touched, turn, ledger, place)
    ended: list[str] = []
    for one in found:
        if one.held.memory is not None:
            await _end(known, facts[one.held.memory], turn, _how([one]))
            ended.append(one.held.memory)
            outcomes.append(_told(turn, facts[one.held.memory], _how([one])))
    gone: list[Memory] = []
    for number, earlier in before.items():
        said = [one for one in found if one.held.memory is None and one.held.turn == number]
        # nothing is lost where it states next to nothing beside that
        if said and len(terms(" ".join(_telling(earlier))) - reader.covered(said)) <= _BESIDE:
            gone.append(_hide(known, earlier, turn, _how(said)))
    orders = await asyncio.to_thread(reader.orders_of, turn)
    for _, wanted in orders if not found else ():
        one_thing = [(one, told[0]) for one in before.values() if len(told := _telling(one)) == 1]
        about = [one for one, told in one_thing if reader.names_all_of(told, wanted)]
        gone += [_hide(known, one, turn, TAKEN_BACK) for one in about]
    outcomes += [_told(turn, one, str(known.marked(one)["metadata"][PENDING])) for one in gone]
    noted = without(turn.metadata, CHANGES)
    if ended or gone:
        noted[CHANGES] = {"facts": ended, "turns": [[one.session_id, one.id] for one in gone]}
    if orders and only_asks_to_forget(strip_blocks(turn.content), [evidence for evidence, _ in orders]):
        return msgspec.structs.replace(turn, active=False, metadata=noted | {RETRACTED_BY: turn.id})
    return msgspec.structs.replace(turn, metadata=noted)


async def _end(known: PlanView, fact: Memory, turn: Memory, how: str) -> None:
    await succession.retract(known, fact, turn.id, turn.created_at)
    ended = await known.memory(fact.id) or fact
    await known.change(fact.id, {"metadata": ended.metadata | {PENDING: how}})
    await known.release(fact)
    for earlier in await known.turns(fact.session_id, fact.turn_ids):
        noted = known.marked(earlier).get("metadata", {})
        if noted.get(RETRACTED_BY) == turn.id:
            _hide(known, msgspec.structs.replace(earlier, metadata=noted), turn, how)


def _hide(known: PlanView, earlier: Memory, turn: Memory, how: str) -> Memory:
    at = turn.created_at.isoformat()
    noted = earlier.metadata | {RETRACTED_BY: turn.id, RETRACTED_AT: at, PENDING: how}
    known.mark(earlier, {"active": False, "metadata": noted})
    return earlier


async def _facts(known: PlanView, turn: Memory, words: str) -> list[Memory]:
    """The facts nearest to the message in words and those that were learned last, if it may be about them."""
    place = known.owner.whole.at(*turn.place)
    query = HybridQuery(bm25=known.lexical.encode_query(words), limit=_NEAR, where=MemoryFilter(kinds=_FACTS))
    found = [one.memory for one in await known.store.search(place, query)]
    latest = await known.store.page(place, MemoryFilter(kinds=_FACTS), limit=_NEAR)
    once = {one.id: one for one in (*found, *latest.memories)}
    before = [as_before(known.current(one), turn) for one in once.values()]
    told = [one for one in before if one.place == turn.place and last_said_at(one) <= turn.created_at]
    return [one for one in told if one.active and not one.quarantined]


async def _said_before(
    known: PlanView, turn: Memory, new: Mapping[str, Memory], words: str
) -> tuple[dict[int, Memory], int]:
    """The user's earlier messages nearest to this one, by their place, and the place of this one: those of this
    conversation stand last, with what was said just before at the very end.
    """
    place = known.owner.whole.at(*turn.place)
    where = MemoryFilter(kinds=(Kind.TURN,))
    query = HybridQuery(bm25=known.lexical.encode_query(words), limit=_NEAR_TURNS, where=where)
    found = [one.memory for one in await known.store.search(place, query)]
    here: list[Memory] = []
    if (session := known.owner.session) is not None:
        where = MemoryFilter(kinds=(Kind.TURN,), session_ids=(session,))
        here += (await known.store.page(place, where, limit=_JUST_SAID)).memories
    here = in_order([*(one for one in here if one.id not in new), *new.values()])
    upto = next((number for number, one in enumerate(here) if one.id == turn.id), len(here))
    just_said = here[max(0, upto - _JUST_SAID) : upto]
    recent = {(one.session_id, one.id) for one in here}
    others = in_order([one for one in found if (one.session_id, one.id) not in recent])
    last = 2 * _APART + len(others)
    placed = dict(enumerate(others)) | {last + number: one for number, one in enumerate(just_said)}
    current = {number: msgspec.structs.replace(one, **known.marked(one)) for number, one in placed.items()}
    return {number: one for number, one in current.items() if _is_read(one, turn)}, last + len(just_said)


def _told(turn: Memory, ended: Memory, how: str) -> Outcome:
    """What a message ended, for the receipt."""
    told = Outcome(result="pending", reason=how, memory_id=ended.id, kind=ended.kind.value, turn_id=turn.id)
    return msgspec.structs.replace(told, request_ids=requests_of([turn]))


def _how(touched: Sequence[Any]) -> str:
    return SUPERSEDED if all(one.replaced for one in touched) else TAKEN_BACK


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


def _telling(turn: Memory) -> list[str]:
    return [one for one in sentences(strip_blocks(turn.content)) if not one.rstrip().endswith(("?", "？"))]


class _Changes(msgspec.Struct, frozen=True):
    """What a message notes that it changes."""

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


def taken_back_with(turn: Memory, candidate: Memory, seen: Collection[str], now: datetime) -> Memory | None:
    """What is read in a message that another one took back as a whole, as it was taken back; None of other messages,
    and where that one was ``seen`` with it: whoever read both has said what holds.
    """
    by, at = turn.metadata.get(RETRACTED_BY), retracted_at(turn)
    if not isinstance(by, str) or at is None or by == turn.id or by in seen:
        return None
    return msgspec.structs.replace(candidate, **take_back(candidate, by, at, now=now))


async def opened(known: PlanView, turns: Sequence[Memory]) -> dict[str, Memory]:
    """The facts that are pending by these messages hold again in the plan, for learning to look at; by id, with the
    message. One whose place was taken meanwhile stays as it is.
    """
    found: dict[str, Memory] = {}
    for name, turn in changed_by(turns).items():
        fact = await known.memory(name)
        if fact is None or fact.active or fact.metadata.get(RETRACTED_BY) != turn.id or PENDING not in fact.metadata:
            continue
        if fact.slot is None or await known.holder(fact.slot) is None:
            await known.change(name, reopened(fact, now=known.now))
            await known.take(name)
            found[name] = turn
    return found


async def settled(known: PlanView, turns: Sequence[Memory], facts: Mapping[str, Memory]) -> list[Outcome]:
    """What learning left of the facts that `opened` named: those that their message only told once more hold again,
    with what was hidden for them; all else stays ended, and is pending no more.
    """
    outcomes: list[Outcome] = []
    for name, turn in facts.items():
        fact = await known.memory(name)
        if fact is None:
            continue
        told = Outcome(result="retracted", turn_id=turn.id, memory_id=name, request_ids=requests_of([turn]))
        holds = fact.active and turn.id in fact.turn_ids
        if fact.active and not holds:
            await known.change(name, take_back(fact, turn.id, turn.created_at, now=known.now))
            outcomes.append(told)
        elif holds:
            outcomes.append(msgspec.structs.replace(told, result="kept"))
        for earlier in await known.turns(fact.session_id, fact.turn_ids):
            noted = known.marked(earlier).get("metadata", earlier.metadata)
            if PENDING in noted:
                left = (PENDING, RETRACTED_BY, RETRACTED_AT) if holds else (PENDING,)
                known.mark(earlier, {"metadata": without(noted, *left)} | ({"active": True} if holds else {}))
    for session, name in (pair for turn in turns for pair in _changes(turn).turns):
        for earlier in await known.turns(session, [name]):
            noted = known.marked(earlier).get("metadata", earlier.metadata)
            if PENDING in noted:
                known.mark(earlier, {"metadata": without(noted, PENDING)})
    return outcomes
