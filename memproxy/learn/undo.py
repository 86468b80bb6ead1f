"""Undoing a conversation: its turns go, and what was learned from it alone; what it superseded is active again."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.chain import (
    LAST_SAID,
    PENDING,
    RETRACTED_AT,
    RETRACTED_BY,
    SAID,
    begins,
    last_said_at,
    position,
    reopened,
    retracted_at,
    said_at,
    take_back,
    trimmed,
)
from memproxy.core.forget_all import ALL_FORGOTTEN_BY, after_forgetting, is_all_forgotten
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.protocol import Deletion
from memproxy.core.scope import Scope
from memproxy.core.similar import repeats
from memproxy.core.slots import same_value, slot_value
from memproxy.learn.known import Known
from memproxy.learn.orders import ended_with, meant_by, standing
from memproxy.learn.outdated import ENDED_BY, PREDICATE, outdated_with, still_ended_by
from memproxy.ports import MemoryFilter, MemoryStore

_PAGE = 200


class _Owned(msgspec.Struct, frozen=True):
    """All that the owner has, as the undoing sees it.

    ``going`` are the turns that are undone, ``turns`` the others; ``gone`` the ids that only the former use; ``lost``
    facts that rest on nothing else; ``orders`` those to forget everything that still stand, oldest first.
    """

    turns: list[Memory]
    going: list[Memory]
    facts: list[Memory]
    gone: frozenset[str]
    lost: dict[str, Memory]
    orders: list[Memory]


async def undo(known: Known, store: MemoryStore, session: str, *, within: Scope, now: datetime) -> Counter[str]:
    """Add to the plan what undoes the session as far as who stands ``within`` sees it; how many of each operation that
    is. What another project has there stays, without what it knows from messages that go.

    Raises:
        StoreUnavailable, StateUnavailable: what is known could not be read.
    """
    owned = await _owned(known, store, session, within)
    for fact in owned.facts:
        if fact.id not in owned.lost:
            await known.change(fact.id, _less(fact, owned, session, now))
    for fact in owned.facts:
        if fact.id in owned.lost:
            await _drop(known, fact, owned, now)
    replaced = await _give_back_all(known, owned, now)
    lost = [fact for fact in owned.lost.values() if fact.kind is not Kind.EPISODIC]
    for turn in owned.turns:
        if fields := _hidden(turn, lost) or await _unmarked(known, turn, owned, replaced):
            known.mark(turn, fields)
    await _give_back_summaries(known, owned, now)
    ids = [turn.id for turn in owned.going]
    if ids:
        known.sweep(Deletion(ids=ids, session_ids=[session]))
    return Counter({"delete": len(ids) + len(owned.lost)})


async def _owned(known: Known, store: MemoryStore, session: str, within: Scope) -> _Owned:
    memories: list[Memory] = []
    cursor = None
    while True:
        page = await store.page(known.owner, MemoryFilter(), limit=_PAGE, cursor=cursor)
        memories += [known.current(one) if one.kind is not Kind.TURN else one for one in page.memories]
        if (cursor := page.next_cursor) is None:
            break
    here = {id(one) for one in memories if one.session_id == session and within.sees(one.project_id, one.agent_id)}
    turns = [one for one in memories if one.kind is Kind.TURN and id(one) not in here]
    going = [one for one in memories if one.kind is Kind.TURN and id(one) in here]
    facts = [one for one in memories if one.kind is not Kind.TURN]
    elsewhere = {turn.id for turn in turns}
    gone = frozenset(turn.id for turn in going) - elsewhere
    lost = {fact.id: fact for fact in facts if _rests_on(fact, gone, elsewhere, said_here=id(fact) in here)}
    return _Owned(turns, going, facts, gone, lost, standing([*turns, *going], gone))


def _rests_on(fact: Memory, gone: frozenset[str], elsewhere: set[str], *, said_here: bool) -> bool:
    """Whether a fact rests on what is undone alone."""
    if said_here:
        return not elsewhere & set(fact.turn_ids[1:])
    return bool(fact.turn_ids) and set(fact.turn_ids) <= gone


def _less(fact: Memory, owned: _Owned, session: str, now: datetime) -> dict[str, Any]:
    """A fact that others tell too, without what the session said of it."""
    left = [name for name in fact.turn_ids if name not in owned.gone]
    if left == fact.turn_ids:
        return {}
    told = [turn for turn in owned.turns if turn.id in left]
    changes: dict[str, Any] = {"turn_ids": left, "updated_at": now}
    if told:
        first, last = min(turn.created_at for turn in told), max(turn.created_at for turn in told)
        changes["metadata"] = fact.metadata | {SAID: first.isoformat(), LAST_SAID: last.isoformat()}
        if fact.valid_from == said_at(fact):
            changes["valid_from"] = first
        if fact.session_id == session:
            changes["session_id"] = told[0].session_id
    return changes


async def _drop(known: Known, fact: Memory, owned: _Owned, now: datetime) -> None:
    """Take a fact out of its chain: the one before it is closed by the one after it, or is active again."""
    fact = await known.memory(fact.id) or fact
    before = await known.memory(fact.supersedes) if fact.supersedes else None
    await known.unlink(fact.id, now=now)
    await known.delete(fact.id)
    if before is None or before.superseded_by != fact.id:
        return
    after = await known.memory(fact.superseded_by) if fact.superseded_by else None
    taken = retracted_at(fact)
    if after is not None:
        opened = msgspec.structs.replace(before, **(reopened(before, now=now) | {"superseded_by": after.id}))
        fields = trimmed([opened], begins(after), now=now).get(before.id, {})
        await known.change(before.id, reopened(before, now=now) | fields | {"active": False, "superseded_by": after.id})
    elif taken is not None and fact.metadata.get(RETRACTED_BY) not in owned.gone:
        opened = msgspec.structs.replace(before, **reopened(before, now=now))
        closed = take_back(opened, str(fact.metadata.get(RETRACTED_BY)), taken, now=now)
        await known.change(before.id, {"superseded_by": None} | closed)
    elif fact.active or taken is not None:
        await _give_back(known, before.id, owned, now)


async def _give_back_all(known: Known, owned: _Owned, now: datetime) -> dict[str, str]:
    """Make active again what the undone turns took back; by turn what took the place meanwhile of what it says. What
    was said last takes its slot, and a summary that tells what was replaced stays away.
    """
    replaced: dict[str, str] = {}
    taken = [fact for fact in owned.facts if fact.metadata.get(RETRACTED_BY) in owned.gone]
    for fact in sorted(taken, key=last_said_at, reverse=True):
        if fact.id in owned.lost:
            continue
        await _give_back(known, fact.id, owned, now)
        given = await known.memory(fact.id)
        if given is not None and given.superseded_by is not None:
            replaced |= dict.fromkeys(given.turn_ids, given.superseded_by)
    for fact in taken:
        if fact.id not in owned.lost and fact.predicate == PREDICATE and replaced.keys() & set(fact.turn_ids):
            await known.change(fact.id, {"active": False, "valid_to": now, "updated_at": now})
    return replaced


async def _give_back_summaries(known: Known, owned: _Owned, now: datetime) -> None:
    """Make active again the summaries that ended with what the undone session replaced or took back, if all of what
    they tell holds again.
    """
    undone = owned.gone | owned.lost.keys()
    ended = [one for one in owned.facts if one.id not in owned.lost and undone & set(one.metadata.get(ENDED_BY, ()))]
    for summary in ended:
        facts = [now_so for one in owned.facts if (now_so := await known.memory(one.id)) is not None]
        turns = [msgspec.structs.replace(turn, **known.marked(turn)) for turn in (*owned.turns, *owned.going)]
        left = still_ended_by(summary, facts, turns)
        await known.change(summary.id, outdated_with(summary, left) | {"updated_at": now})
        if not left:
            await _give_back(known, summary.id, owned, now)


async def _give_back(known: Known, name: str, owned: _Owned, now: datetime) -> None:
    """Make a memory active again, with its slot. An order to forget everything that means it, and still stands, ends
    it; when somebody else holds its slot by now, it stays in the history, before what was said later.
    """
    memory = await known.memory(name)
    if memory is None or memory.active:
        return
    fields = reopened(memory, now=now)
    opened = msgspec.structs.replace(memory, **fields)
    if (order := meant_by(owned.orders, opened)) is not None:
        await known.change(name, fields | ended_with(opened, order, now=now))
        return
    holder = await known.holder(memory.slot) if memory.slot else None
    if holder is None:
        await known.change(name, fields)
        await known.take(name)
        return
    chain = await known.chain(holder)
    if chain and chain[0].supersedes is None and position(opened, chain) == 0:  # all of that was said later
        after = chain[0]
        fields |= trimmed([opened], begins(after), now=now).get(name, {}) | {"superseded_by": after.id}
        await known.change(name, fields | {"active": False})
        await known.change(after.id, {"supersedes": name, "updated_at": now})
        return
    noted = {key: value for key, value in memory.metadata.items() if key not in (RETRACTED_BY, RETRACTED_AT, PENDING)}
    await known.change(name, {"metadata": noted, "updated_at": now})


def _hidden(turn: Memory, lost: Sequence[Memory]) -> dict[str, Any]:
    """The fields of another session's turn in which the assistant only repeats what was undone ("Your dog is Rex");
    what the user says there himself is no fact that is lost.
    """
    if turn.trust is not Trust.ASSISTANT or not turn.active:
        return {}
    told = next((fact for fact in lost if repeats(turn.content, fact, None)), None)
    return {} if told is None else {"active": False, "metadata": turn.metadata | {RETRACTED_BY: told.id}}


async def _unmarked(known: Known, turn: Memory, owned: _Owned, replaced: Mapping[str, str]) -> dict[str, Any]:
    """The fields of another session's turn that the undone session had marked as stale, or hidden. ``replaced`` names
    what took the place of what such a turn says.
    """
    fields: dict[str, Any] = {}
    noted = after_forgetting(turn.metadata, owned.gone)
    lifted = is_all_forgotten(turn.metadata) and not is_all_forgotten(noted)
    if lifted and (order := meant_by(owned.orders, turn)) is not None:
        noted[ALL_FORGOTTEN_BY] = order.id
    if noted.get(RETRACTED_BY) in owned.gone:
        if (over := _order_over(turn, noted, owned)) is not None:
            noted[RETRACTED_BY] = over
        else:
            for name in (RETRACTED_BY, RETRACTED_AT, PENDING):
                noted.pop(name, None)
            fields["active"] = True
            if turn.superseded_by is None and turn.id in replaced:
                fields["superseded_by"] = replaced[turn.id]
    if noted != turn.metadata:
        fields["metadata"] = noted
    if (lost := owned.lost.get(turn.superseded_by or "")) is not None:
        fields["superseded_by"] = await _successor(known, lost, owned)
    return fields


def _order_over(turn: Memory, noted: Mapping[str, Any], owned: _Owned) -> str | None:
    """The order to forget everything by which a turn stays hidden: an order's own turn by a later one, if at all."""
    if noted.get(ALL_FORGOTTEN_BY) != turn.id:
        return noted.get(ALL_FORGOTTEN_BY)
    later = meant_by((order for order in owned.orders if order.id != turn.id), turn)
    return later.id if later is not None else None


async def _successor(known: Known, lost: Memory, owned: _Owned) -> str | None:
    """What still supersedes a turn's statement: the next in the chain that stays, if it says something else than the
    one that the lost fact had replaced.
    """
    after, seen = lost.superseded_by, {lost.id}
    while after in owned.lost and after not in seen:
        seen.add(after)
        after = owned.lost[after].superseded_by
    later = await known.memory(after) if after else None
    before = await known.memory(lost.supersedes) if lost.supersedes and lost.supersedes not in owned.lost else None
    if later is None or (before is not None and same_value(slot_value(before), slot_value(later))):
        return None
    return later.id
