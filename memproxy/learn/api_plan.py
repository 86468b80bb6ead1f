"""What the API asks for (store, edit, delete, undo), as a plan: statements take their slots, what goes frees them."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.dream import DREAMS, MERGED_INTO
from memproxy.core.facts import (
    LAST_SAID,
    PENDING,
    RECONCILED_AT,
    REFINED,
    RETRACTED_AT,
    RETRACTED_BY,
    SAID,
    STATED_END,
    Operation,
    begins,
    last_said_at,
    place,
    position,
    reopened,
    retracted_at,
    said_at,
    take_back,
    trimmed,
)
from memproxy.core.forget_all import ALL_FORGOTTEN_BY, after_forgetting, is_all_forgotten
from memproxy.core.memory import FACTS, Kind, Memory, Trust, is_told, noted_id, noted_ids, without
from memproxy.core.protocol import Deletion, PlanBody
from memproxy.core.receipt import Outcome
from memproxy.core.scope import Scope
from memproxy.core.similar import affirms, repeats, terms
from memproxy.core.slots import same_value, slot_name, slot_value
from memproxy.learn import succession
from memproxy.learn.dream_plan import dreamt
from memproxy.learn.forget_everything import ended_with, meant_by, standing
from memproxy.learn.outdated import ENDED_BY, outdated_with, still_ended_by
from memproxy.learn.outdated import PREDICATE as SUMMARY
from memproxy.learn.pending import CHANGES
from memproxy.learn.plan_view import GONE_PREFIX, PlanView, matching, tombstone
from memproxy.ports import MemoryFilter, every

MOST_TOLD = 100
"""Outcomes noted of one plan: an import of thousands is not thousands of events."""


def written(asked: PlanBody, plan: PlanBody) -> list[Outcome]:
    """One outcome for each memory that the plan stored, edited or deleted (``reason`` is how it came: ``api`` or
    ``import``; of what was pruned ``expired`` or ``limit``), and one for a deletion by scope (``reason`` is the scope).
    Facts that went with a message, as ``plan`` has it, get the message's outcome.
    """
    told = [
        Outcome(result="stored", reason=memory.source.value, memory_id=memory.id, kind=memory.kind.value)
        for memory in asked.upserts
    ]
    told += [Outcome(result="edited", reason="api", memory_id=name) for name in asked.changes]
    told += [Outcome(result="deleted", reason=asked.deleted_by, memory_id=name) for name in asked.deletes]
    if (gone := asked.delete_where) is not None:
        told += [Outcome(result="deleted", reason=asked.deleted_by, memory_id=name) for name in gone.ids]
        scopes = {"session": gone.session_ids, "project": gone.project_ids, "agent": gone.agent_ids}
        reason = next((name for name, ids in scopes.items() if ids), "user")
        told += [] if gone.ids else [Outcome(result="deleted", reason=reason)]
        along = [name for name in plan.deletes if name not in asked.deletes] if gone.ids else []
        told += [Outcome(result="deleted", reason=asked.deleted_by, memory_id=name) for name in along]
    if asked.undo_session is not None:
        told.append(Outcome(result="deleted", reason="session"))
    return [*asked.outcomes, *told][:MOST_TOLD]


EVIDENCE = "evidence"
"""Name in ``metadata``: the words of a message from which a fact was read."""

_PAGE = 200


async def unlearn(known: PlanView, turn: Memory) -> list[Memory]:
    """What goes with a turn: facts that no other message which is still there tells, and every summary made of it.
    Others lose in the plan what they have of it. A fact that was edited to say something else than the turn stays: it
    is the person's own word.
    """
    same_id = await _all(known, MemoryFilter(ids=(turn.id,), kinds=(Kind.TURN,)))
    elsewhere = {one.session_id for one in same_id} - {turn.session_id}
    told = await _all(known, MemoryFilter(turn_ids=(turn.id,), kinds=FACTS))
    told = [known.current(fact) for fact in told if fact.session_id not in elsewhere]
    names = sorted({name for fact in told for name in fact.turn_ids} - {turn.id})
    others: list[Memory] = []
    for start in range(0, len(names), _PAGE):
        others += await _all(known, MemoryFilter(ids=tuple(names[start : start + _PAGE]), kinds=(Kind.TURN,)))
    lost = []
    for fact in told:
        there = {one.id: one for one in sorted(others, key=lambda one: one.session_id == fact.session_id)}
        left = [there[name] for name in fact.turn_ids if name in there]
        if fact.predicate == SUMMARY or (not left and turn.superseded_by != fact.id):
            lost.append(fact)
        else:
            await known.change(fact.id, _without(fact, {turn.id}, left, known.now))
    return lost


def _without(fact: Memory, gone: Set[str], left: Sequence[Memory], now: datetime) -> dict[str, Any]:
    """The fields of a fact that stays, without the turns that are ``gone``: its words, and when it was said by those
    that are ``left``.
    """
    noted = dict(fact.metadata)
    quoted = noted.get(EVIDENCE)
    if isinstance(quoted, str) and not any(quoted in one.content for one in left):
        del noted[EVIDENCE]
    fields: dict[str, Any] = {
        "turn_ids": [name for name in fact.turn_ids if name not in gone],
        "metadata": noted,
        "updated_at": now,
    }
    if left:
        first, last = min(one.created_at for one in left), max(one.created_at for one in left)
        fields["metadata"] = noted | {SAID: first.isoformat(), LAST_SAID: last.isoformat()}
        if fact.valid_from == said_at(fact):
            fields["valid_from"] = first
        if fact.session_id not in {one.session_id for one in left}:
            fields["session_id"] = left[0].session_id
    return fields


async def _all(known: PlanView, where: MemoryFilter) -> list[Memory]:
    return [one async for one in every(known.store, known.owner, where)]


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


async def undo(known: PlanView, session: str, within: Scope) -> Counter[str]:
    """Add to the plan what undoes the session as far as who stands ``within`` sees it; how many of each operation that
    is. What another project has there stays, without what it knows from messages that go.
    """
    owned = await _owned(known, session, within)
    for fact in owned.facts:
        if fact.id not in owned.lost and not owned.gone.isdisjoint(fact.turn_ids):
            left = [turn for turn in owned.turns if turn.id in fact.turn_ids]
            await known.change(fact.id, _without(fact, owned.gone, left, known.now))
    for fact in owned.lost.values():
        await _undo_fact(known, fact, owned)
    for fact in owned.facts:
        kept = owned.lost.get(noted_id(fact.metadata, MERGED_INTO) or "")
        # what a dream merged into a fact that is undone, and that was told elsewhere, is active again
        if kept is not None and fact.id not in owned.lost and fact.superseded_by == kept.id and is_told(kept):
            noted = without(fact.metadata, MERGED_INTO)
            await known.change(fact.id, {"superseded_by": None, "metadata": noted, "updated_at": known.now})
            await _give_back(known, fact.id, owned.orders)
    replaced = await _give_back_all(known, owned)
    lost = [fact for fact in owned.lost.values() if fact.kind is not Kind.EPISODIC]
    for turn in owned.turns:
        if fields := _hidden(turn, lost) or await _unmarked(known, turn, owned, replaced):
            known.mark(turn, fields)
    await _give_back_summaries(known, owned)
    ids = [turn.id for turn in owned.going]
    if ids:
        known.sweep(Deletion(ids=ids, session_ids=[session]))
    return Counter({"delete": len(ids) + len(owned.lost)})


async def _owned(known: PlanView, session: str, within: Scope) -> _Owned:
    stored = await _all(known, MemoryFilter())
    memories = [known.current(one) if one.kind is not Kind.TURN else one for one in stored]
    here = {id(one) for one in memories if one.session_id == session and within.sees(one.project_id, one.agent_id)}
    turns = [one for one in memories if one.kind is Kind.TURN and id(one) not in here]
    going = [one for one in memories if one.kind is Kind.TURN and id(one) in here]
    facts = [one for one in memories if one.kind is not Kind.TURN]
    elsewhere = {turn.id for turn in turns}
    gone = frozenset(turn.id for turn in going) - elsewhere

    def rests_on_it_alone(fact: Memory) -> bool:
        if id(fact) in here:
            return not elsewhere & set(fact.turn_ids[1:])
        return bool(fact.turn_ids) and set(fact.turn_ids) <= gone

    lost = {fact.id: fact for fact in facts if rests_on_it_alone(fact)}
    return _Owned(turns, going, facts, gone, lost, standing([*turns, *going], gone))


async def _undo_fact(known: PlanView, fact: Memory, owned: _Owned) -> None:
    """Take a fact out of its chain: the one before it is closed by the one after it, or is active again."""
    now = known.now
    fact = await known.memory(fact.id) or fact
    before = await known.memory(fact.supersedes) if fact.supersedes else None
    await known.unlink(fact.id)
    await known.delete(fact.id)
    if before is None or before.superseded_by != fact.id:
        return
    after = await known.memory(fact.superseded_by) if fact.superseded_by else None
    taken = retracted_at(fact)
    if after is not None:
        opened = msgspec.structs.replace(before, **(reopened(before, now=now) | {"superseded_by": after.id}))
        fields = trimmed([opened], begins(after), now=now).get(before.id, {})
        await known.change(before.id, reopened(before, now=now) | fields | {"active": False, "superseded_by": after.id})
    elif taken is not None and noted_id(fact.metadata, RETRACTED_BY) not in owned.gone:
        opened = msgspec.structs.replace(before, **reopened(before, now=now))
        closed = take_back(opened, str(fact.metadata.get(RETRACTED_BY)), taken, now=now)
        await known.change(before.id, {"superseded_by": None} | closed)
    elif fact.active or taken is not None:
        await _give_back(known, before.id, owned.orders)


async def _give_back_all(known: PlanView, owned: _Owned) -> dict[str, str]:
    """Make active again what the undone turns took back. Returns, by turn, the statement that has meanwhile replaced
    what the turn says. The latest statement takes its slot, and a summary that repeats what was replaced stays
    inactive.
    """
    replaced: dict[str, str] = {}
    taken = [fact for fact in owned.facts if noted_id(fact.metadata, RETRACTED_BY) in owned.gone]
    for fact in sorted(taken, key=last_said_at, reverse=True):
        if fact.id in owned.lost:
            continue
        await _give_back(known, fact.id, owned.orders)
        given = await known.memory(fact.id)
        if given is not None and given.superseded_by is not None:
            replaced |= dict.fromkeys(given.turn_ids, given.superseded_by)
    for fact in taken:
        if fact.id not in owned.lost and fact.predicate == SUMMARY and replaced.keys() & set(fact.turn_ids):
            await known.change(fact.id, {"active": False, "valid_to": known.now, "updated_at": known.now})
    return replaced


async def _give_back_summaries(known: PlanView, owned: _Owned) -> None:
    """Make active again the summaries that ended with what the undone session replaced or took back, if all of what
    they tell holds again.
    """
    undone = owned.gone | owned.lost.keys()
    ended = [one for one in owned.facts if one.id not in owned.lost and undone & set(noted_ids(one.metadata, ENDED_BY))]
    for summary in ended:
        facts = [now_so for one in owned.facts if (now_so := await known.memory(one.id)) is not None]
        turns = [msgspec.structs.replace(turn, **known.marked(turn)) for turn in (*owned.turns, *owned.going)]
        left = still_ended_by(summary, facts, turns)
        await known.change(summary.id, outdated_with(summary, left) | {"updated_at": known.now})
        if not left:
            await _give_back(known, summary.id, owned.orders)


async def _give_back(known: PlanView, name: str, orders: Sequence[Memory]) -> None:
    """Make a memory active again, with its slot. One of the orders to forget everything that means it ends it;
    when somebody else holds its slot by now, it stays in the history, before what was said later.
    """
    memory, now = await known.memory(name), known.now
    if memory is None or memory.active:
        return
    fields = reopened(memory, now=now)
    opened = msgspec.structs.replace(memory, **fields)
    if (order := meant_by(orders, opened)) is not None:
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
    noted = without(memory.metadata, RETRACTED_BY, RETRACTED_AT, PENDING)
    await known.change(name, {"metadata": noted, "updated_at": now})


def _hidden(turn: Memory, lost: Sequence[Memory]) -> dict[str, Any]:
    """The fields that hide another session's turn in which the assistant only repeats what was undone ("Your dog is
    Rex"). Turns of the user's own stay: they say it anew.
    """
    if turn.trust is not Trust.ASSISTANT or not turn.active:
        return {}
    told = next((fact for fact in lost if repeats(turn.content, fact, None)), None)
    return {} if told is None else {"active": False, "metadata": turn.metadata | {RETRACTED_BY: told.id}}


async def _unmarked(known: PlanView, turn: Memory, owned: _Owned, replaced: Mapping[str, str]) -> dict[str, Any]:
    """The fields of another session's turn that the undone session had marked as stale, or hidden. ``replaced`` names
    what took the place of what such a turn says.
    """
    fields: dict[str, Any] = {}
    noted = after_forgetting(turn.metadata, owned.gone)
    lifted = is_all_forgotten(turn.metadata) and not is_all_forgotten(noted)
    if lifted and (order := meant_by(owned.orders, turn)) is not None:
        noted[ALL_FORGOTTEN_BY] = order.id
    if noted_id(noted, RETRACTED_BY) in owned.gone:
        if (over := _order_over(turn, noted, owned)) is not None:
            noted[RETRACTED_BY] = over
        else:
            noted = without(noted, RETRACTED_BY, RETRACTED_AT, PENDING)
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
        return noted_id(noted, ALL_FORGOTTEN_BY)
    later = meant_by((order for order in owned.orders if order.id != turn.id), turn)
    return later.id if later is not None else None


async def _successor(known: PlanView, lost: Memory, owned: _Owned) -> str | None:
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


_SLOT_FIELDS = frozenset(
    {"subject", "predicate", "object", "aspect", "stance", "active", "content", "valid_from", "kind"}
)
_STATED = frozenset({"subject", "predicate", "object", "aspect", "stance", "content"})
_NOTED = frozenset(
    {RETRACTED_BY, RETRACTED_AT, STATED_END, ALL_FORGOTTEN_BY, PENDING, CHANGES, DREAMS, MERGED_INTO, REFINED}
)
_NOTED_OF_LEARNED = frozenset({SAID, LAST_SAID, RECONCILED_AT})
_EXTRACTOR = "extractor"
"""Metadata of what was learned; what somebody stored himself may have a ``said_at`` of his own."""

_BY_CALL = PlanBody().deleted_by


async def asked_for(known: PlanView, body: PlanBody, within: Scope) -> Counter[str]:
    """Add to a plan everything the row asks for, of who stands ``within``; how many of each operation that is.

    Raises:
        msgspec.ValidationError: a changed field does not take its value.
    """
    counts: Counter[str] = Counter()
    if body.dream is not None:
        return await dreamt(known, body)
    await known.load([*body.changes, *body.deletes])
    slots = [slot_name(memory) for memory in body.upserts if memory.active]
    graves = [tombstone(memory.id) for memory in body.upserts]
    await known.load_slots([*graves, *(slot for slot in slots if slot is not None)])
    for memory in body.upserts:
        counts[await _put(known, memory)] += 1
    for name, fields in body.changes.items():
        await _edit(known, name, fields)
        counts["change"] += 1
    for session, turns in body.turn_changes.items():
        place = msgspec.structs.replace(known.owner, session=session or None)
        for turn in (await known.store.get(place, list(turns))).values():
            known.mark(turn, _beside(known.marked(turn), _noted_still(turn, turns[turn.id])))
            counts["change"] += 1
    if body.deletes:
        await _delete(known, body)
        counts["delete"] += len(body.deletes)
    if body.undo_session is not None:
        counts += await undo(known, body.undo_session, within)
    if body.delete_where is not None:
        by_call = body.deleted_by == _BY_CALL
        counts += Counter(delete=await _delete_where(known, body.delete_where, by_call=by_call))
    return counts


async def _put(known: PlanView, memory: Memory) -> str:
    memory = msgspec.structs.replace(memory, slot=slot_name(memory))
    await known.unbury(memory.id)
    holder = await known.holder(memory.slot) if memory.slot and memory.active else None
    if holder is None or holder == memory.id:
        await known.add(memory)
        return Operation.ADD.value
    target = await known.memory(holder)
    if target is None:
        # Registered, and not in the store yet: an earlier plan that is still to be applied. It will find itself
        # superseded (`apply.Applier`).
        await known.add(msgspec.structs.replace(memory, supersedes=holder))
    else:
        await succession.supersede(known, memory, target)
    return Operation.UPDATE.value


async def _edit(known: PlanView, name: str, fields: Mapping[str, Any]) -> None:
    """Change fields, under the same id (docs/decisions/0020); when the memory's slot changes by it, it and the new
    slot's holder stand there in the order of their times. What its turns say is not learned from them again where
    the statement was changed, nor given out of them beside what it says now.
    """
    before = await known.memory(name)
    if before is not None:
        fields = _noted_still(before, fields)
        if _STATED & fields.keys():
            await known.forget(before)
    await known.change(name, {"updated_at": known.now, **fields})
    memory = await known.memory(name)
    if before is not None and memory is not None and _hides_turns(before):
        await _tell_turns(known, before, memory)
    if not _SLOT_FIELDS & fields.keys():
        return
    slot = slot_name(memory) if memory is not None and memory.active else None
    holder = await known.holder(slot) if slot else None
    if memory is not None and holder is not None and holder != name:
        chain = await known.chain(holder)
        effects = place(memory, chain[-1:], now=known.now)
        for other, changed in effects.changes.items():
            await known.change(other, changed)
        if effects.new is not None:
            differing = [one for one in memory.__struct_fields__ if getattr(effects.new, one) != getattr(memory, one)]
            await known.change(name, {one: getattr(effects.new, one) for one in differing})
    await known.take(name)


def _hides_turns(memory: Memory) -> bool:
    """Whether the messages that state it go with it. A summary tells of a whole conversation: what is wrong with it, or
    too much of it, is so of no message, and the facts that were read from them stay, too.
    """
    return memory.kind is not Kind.TURN and memory.predicate != SUMMARY


async def _tell_turns(known: PlanView, before: Memory, after: Memory) -> None:
    """Hide or mark the turns that state what an edit ended, set aside, replaced or reworded to something else; what
    it made hold again they may tell again.
    """
    if not is_told(before):
        if is_told(after):
            await succession.show_stated(known, before)
    elif after.superseded_by:
        if (by := await known.memory(after.superseded_by)) is not None:
            await succession.mark_stated(known, before, by)
    elif not is_told(after):
        await succession.hide_stated(known, before)
    elif affirms(before) != affirms(after) or not terms(before.content) <= terms(after.content):
        await succession.mark_stated(known, before, after)


async def _delete(known: PlanView, body: PlanBody) -> None:
    """Delete by id. A chain closes over the gap; while learning is under way the id is noted as gone, so that a
    plan that was saved before cannot bring it back, and always what it said, for when its turns are read again.
    What somebody deleted is not given out of its turns either; what was pruned was only too much.
    """
    learning = await _is_learning(known)
    by_call = body.deleted_by == _BY_CALL
    for name in body.deletes:
        before: Memory | None = None
        if (memory := await known.memory(name)) is not None:
            if body.gives_back and memory.supersedes and memory.superseded_by is None:
                before = await known.memory(memory.supersedes)
            await known.forget(memory)
            if by_call and (memory.kind is Kind.TURN or memory.metadata.get(REFINED)):
                await _drop_learned(known, memory)
            elif by_call and is_told(memory) and _hides_turns(memory):
                await succession.hide_stated(known, memory)
        await _drop(known, name, bury=learning)
        if before is not None and before.superseded_by == name:
            await _give_back(known, before.id, ())
            await succession.unmark(known, before, name)


async def _is_learning(known: PlanView) -> bool:
    """Whether a plan may be saved that does not know of what is deleted now."""
    if any((await known.state.backlog(known.owner)).get("learn", {}).values()):
        return True
    # every plan that these were noted for is carried out
    await known.state.drop_slots(known.owner, GONE_PREFIX)
    return False


async def _drop_learned(known: PlanView, turn: Memory) -> int:
    """What goes with a deleted message; where the assistant repeats it, that is hidden."""
    lost = await unlearn(known, turn)
    learning = await _is_learning(known) if lost else False
    for memory in lost:
        if memory.predicate != SUMMARY:
            await succession.hide_repeated(known, memory)
        await _drop(known, memory.id, bury=learning)
    return len(lost)


async def _delete_where(known: PlanView, gone: Deletion, *, by_call: bool) -> int:
    """Delete by scope, when the plan is applied; the slots that are held there now become free with it. What was
    learned from messages alone that a call names goes with them: how many memories that is.
    """
    lost = 0
    for session in gone.session_ids if gone.ids and by_call else ():
        here = [turn for turn in await known.turns(session, gone.ids) if turn.session_id in gone.session_ids]
        lost += sum([await _drop_learned(known, turn) for turn in here])
    known.sweep(gone)
    if (
        gone != Deletion()
    ):  # else all slots of the user go (`learn.erasure`); what was encrypted cannot be read any more
        where = msgspec.structs.replace(matching(gone), kinds=FACTS, active=True)
        async for memory in every(known.store, known.owner, where):
            await known.release(memory)
    return lost


async def _drop(known: PlanView, name: str, *, bury: bool) -> None:
    """Delete a memory; its chain closes over the gap."""
    await known.unlink(name)
    await known.delete(name)
    if bury:
        await known.bury(name)


def _noted_still(memory: Memory, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The requested changes of a memory, with its notes on how it ended and was said kept. The caller may not know them
    (they came after its read, or it sends metadata of its own), and they decide what is learned and given back.
    """
    if "metadata" not in asked:
        return asked
    ours = _NOTED | (_NOTED_OF_LEARNED if _EXTRACTOR in memory.metadata else frozenset())
    theirs = without(asked["metadata"], *ours)
    return {**asked, "metadata": theirs | {name: memory.metadata[name] for name in ours & memory.metadata.keys()}}


def _beside(planned: Mapping[str, Any], asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is asked of a turn, with what hid or showed it in this plan: a fact that it tells, and that changes too."""
    if "metadata" not in planned or "metadata" not in asked:
        return asked
    noted, hidden = without(asked["metadata"], RETRACTED_BY), planned["metadata"].get(RETRACTED_BY)
    return {**asked, "metadata": noted if hidden is None else noted | {RETRACTED_BY: hidden}}
