"""Plans for calls of the API (store, edit, delete, undo): new statements take slots, deleted ones free them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
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
from memproxy.core.memory import FACTS, SOURCES, Kind, Memory, Source, Trust, is_told, noted_id, noted_ids, without
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
from memproxy.learn.plan_view import PlanView, matching, tombstone
from memproxy.ports import MemoryFilter, every

_MOST_TOLD = 100  # outcomes noted of one plan: an import of thousands is not thousands of events


def outcomes_written(request: PlanBody, plan: PlanBody) -> list[Outcome]:
    """One outcome for each memory that the plan stored, edited or deleted (``reason`` is how it came: ``api`` or
    ``import``; of what was pruned ``expired`` or ``limit``), and one for a deletion by scope (``reason`` is the scope).
    Facts that went with a message, as ``plan`` has it, get the message's outcome.
    """
    outcomes = list(request.outcomes)
    for memory in request.upserts:
        kind = memory.kind.value
        outcomes.append(Outcome(result="stored", reason=memory.source.value, memory_id=memory.id, kind=kind))
    outcomes += [Outcome(result="edited", reason="api", memory_id=name) for name in request.changes]
    deleted = list(request.deletes)
    if (gone := request.delete_where) is not None and gone.ids:
        deleted += [*gone.ids, *(name for name in plan.deletes if name not in request.deletes)]
    outcomes += [Outcome(result="deleted", reason=request.deleted_by, memory_id=name) for name in deleted]
    if gone is not None and not gone.ids:
        scopes = {"session": gone.session_ids, "project": gone.project_ids, "agent": gone.agent_ids}
        outcomes.append(Outcome(result="deleted", reason=next((name for name, ids in scopes.items() if ids), "user")))
    if request.undo_session is not None:
        outcomes.append(Outcome(result="deleted", reason="session"))
    return outcomes[:_MOST_TOLD]


_EVIDENCE = "evidence"  # name in ``metadata``: the words of a message from which a fact was read
_PAGE = 200


async def _unlearn(view: PlanView, turn: Memory) -> list[Memory]:
    """What goes with a turn: summaries of it, and facts that no other message tells, unless they were edited since."""
    same_id = await _all(view, MemoryFilter(ids=(turn.id,), kinds=(Kind.TURN,)))
    elsewhere = {other.session_id for other in same_id} - {turn.session_id}
    facts = await _all(view, MemoryFilter(turn_ids=(turn.id,), kinds=FACTS))
    facts = [view.current(fact) for fact in facts if fact.session_id not in elsewhere]
    names = sorted({name for fact in facts for name in fact.turn_ids} - {turn.id})
    turns: list[Memory] = []
    for start in range(0, len(names), _PAGE):
        turns += await _all(view, MemoryFilter(ids=tuple(names[start : start + _PAGE]), kinds=(Kind.TURN,)))
    lost = []
    for fact in facts:
        by_id = {other.id: other for other in sorted(turns, key=lambda other: other.session_id == fact.session_id)}
        remaining = [by_id[name] for name in fact.turn_ids if name in by_id]
        if fact.predicate == SUMMARY or (not remaining and turn.superseded_by != fact.id):
            lost.append(fact)
        else:
            await view.change(fact.id, _without(fact, {turn.id}, remaining, view.now))
    return lost


def _without(fact: Memory, gone: Set[str], remaining: Sequence[Memory], now: datetime) -> dict[str, Any]:
    """A staying fact's fields without turns that are ``gone``: its words, and when the ``remaining`` ones said it."""
    noted = dict(fact.metadata)
    quoted = noted.get(_EVIDENCE)
    if isinstance(quoted, str) and not any(quoted in turn.content for turn in remaining):
        del noted[_EVIDENCE]
    turn_ids = [name for name in fact.turn_ids if name not in gone]
    fields: dict[str, Any] = {"turn_ids": turn_ids, "metadata": noted, "updated_at": now}
    if remaining:
        first, last = min(turn.created_at for turn in remaining), max(turn.created_at for turn in remaining)
        fields["metadata"] = noted | {SAID: first.isoformat(), LAST_SAID: last.isoformat()}
        if fact.valid_from == said_at(fact):
            fields["valid_from"] = first
        if fact.session_id not in {turn.session_id for turn in remaining}:
            fields["session_id"] = remaining[0].session_id
    return fields


async def _all(view: PlanView, where: MemoryFilter) -> list[Memory]:
    return [memory async for memory in every(view.store, view.owner, where)]


class _Owned(msgspec.Struct, frozen=True):
    """What the owner has: the turns that are undone (``going``) and the others, ids that only the former use
    (``gone``), facts that rest on nothing else (``lost``), and orders to forget everything that still stand, oldest
    first.
    """

    turns: list[Memory]
    going: list[Memory]
    facts: list[Memory]
    gone: frozenset[str]
    lost: dict[str, Memory]
    orders: list[Memory]


async def _undo(view: PlanView, session: str, within: Scope) -> Counter[str]:
    """Undo the session as far as who stands ``within`` sees it; how many of each operation that is."""
    owned = await _read_owned(view, session, within)
    for fact in owned.facts:
        if fact.id not in owned.lost and not owned.gone.isdisjoint(fact.turn_ids):
            remaining = [turn for turn in owned.turns if turn.id in fact.turn_ids]
            await view.change(fact.id, _without(fact, owned.gone, remaining, view.now))
    for fact in owned.lost.values():
        await _undo_fact(view, fact, owned)
    for fact in owned.facts:
        # what a dream merged into a fact that is undone, and that was told elsewhere, is active again
        survivor = owned.lost.get(noted_id(fact.metadata, MERGED_INTO) or "") if fact.id not in owned.lost else None
        if survivor is not None and fact.superseded_by == survivor.id and is_told(survivor):
            noted = without(fact.metadata, MERGED_INTO)
            await view.change(fact.id, {"superseded_by": None, "metadata": noted, "updated_at": view.now})
            await _give_back(view, fact.id, owned.orders)
    replaced = await _give_back_all(view, owned)
    lost = [fact for fact in owned.lost.values() if fact.kind is not Kind.EPISODIC]
    for turn in owned.turns:
        if fields := _hiding_fields(turn, lost) or await _without_marks(view, turn, owned, replaced):
            view.change_turn(turn, fields)
    await _give_back_summaries(view, owned)
    ids = [turn.id for turn in owned.going]
    if ids:
        view.sweep(Deletion(ids=ids, session_ids=[session]))
    return Counter({"delete": len(ids) + len(owned.lost)})


async def _read_owned(view: PlanView, session: str, within: Scope) -> _Owned:
    stored = await _all(view, MemoryFilter())

    def is_here(memory: Memory) -> bool:
        return memory.session_id == session and within.sees(memory.project_id, memory.agent_id)

    facts = [view.current(memory) for memory in stored if memory.kind is not Kind.TURN]
    going = [memory for memory in stored if memory.kind is Kind.TURN and is_here(memory)]
    turns = [memory for memory in stored if memory.kind is Kind.TURN and not is_here(memory)]
    elsewhere = {turn.id for turn in turns}
    gone = frozenset(turn.id for turn in going) - elsewhere

    def rests_on_it_alone(fact: Memory) -> bool:
        if is_here(fact):
            return not elsewhere & set(fact.turn_ids[1:])
        return bool(fact.turn_ids) and set(fact.turn_ids) <= gone

    lost = {fact.id: fact for fact in facts if rests_on_it_alone(fact)}
    lost |= {fact.id: fact for fact in _dream_conclusions(facts, lost.values())}
    return _Owned(turns, going, facts, gone, lost, standing([*turns, *going], gone))


async def _undo_fact(view: PlanView, fact: Memory, owned: _Owned) -> None:
    """Take a fact out of its chain: the one before it is closed by the one after it, or is active again."""
    now = view.now
    fact = await view.memory(fact.id) or fact
    old = await view.memory(fact.supersedes) if fact.supersedes else None
    await view.unlink(fact.id)
    await view.delete(fact.id)
    if old is None or old.superseded_by != fact.id:
        return
    after = await view.memory(fact.superseded_by) if fact.superseded_by else None
    retraction_time = retracted_at(fact)
    if after is not None:
        opened = msgspec.structs.replace(old, **(reopened(old, now=now) | {"superseded_by": after.id}))
        fields = trimmed([opened], begins(after), now=now).get(old.id, {})
        await view.change(old.id, reopened(old, now=now) | fields | {"active": False, "superseded_by": after.id})
    elif retraction_time is not None and noted_id(fact.metadata, RETRACTED_BY) not in owned.gone:
        opened = msgspec.structs.replace(old, **reopened(old, now=now))
        closed = take_back(opened, str(fact.metadata.get(RETRACTED_BY)), retraction_time, now=now)
        await view.change(old.id, {"superseded_by": None} | closed)
    elif fact.active or retraction_time is not None:
        await _give_back(view, old.id, owned.orders)


async def _give_back_all(view: PlanView, owned: _Owned) -> dict[str, str]:
    """Make active again what the undone turns took back; by turn, what has replaced what it says since. The latest
    statement takes its slot, and a summary that repeats what was replaced stays inactive.
    """
    replaced: dict[str, str] = {}
    retracted = [fact for fact in owned.facts if noted_id(fact.metadata, RETRACTED_BY) in owned.gone]
    for fact in sorted(retracted, key=last_said_at, reverse=True):
        if fact.id in owned.lost:
            continue
        await _give_back(view, fact.id, owned.orders)
        restored = await view.memory(fact.id)
        if restored is not None and restored.superseded_by is not None:
            replaced |= dict.fromkeys(restored.turn_ids, restored.superseded_by)
    for fact in retracted:
        if fact.id not in owned.lost and fact.predicate == SUMMARY and replaced.keys() & set(fact.turn_ids):
            await view.change(fact.id, {"active": False, "valid_to": view.now, "updated_at": view.now})
    return replaced


async def _give_back_summaries(view: PlanView, owned: _Owned) -> None:
    """Make active again the summaries that ended with what is undone, if all of what they tell holds again."""
    undone = owned.gone | owned.lost.keys()
    for summary in owned.facts:
        if summary.id in owned.lost or undone.isdisjoint(noted_ids(summary.metadata, ENDED_BY)):
            continue
        facts = [now_so for fact in owned.facts if (now_so := await view.memory(fact.id)) is not None]
        turns = [msgspec.structs.replace(turn, **view.turn_changes(turn)) for turn in (*owned.turns, *owned.going)]
        causes = still_ended_by(summary, facts, turns)
        await view.change(summary.id, outdated_with(summary, causes) | {"updated_at": view.now})
        if not causes:
            await _give_back(view, summary.id, owned.orders)


async def _give_back(view: PlanView, name: str, orders: Sequence[Memory]) -> None:
    """Make a memory active again, with its slot. One of the orders to forget everything that means it ends it;
    when somebody else holds its slot by now, it stays in the history, before what was said later.
    """
    memory, now = await view.memory(name), view.now
    if memory is None or memory.active:
        return
    fields = reopened(memory, now=now)
    opened = msgspec.structs.replace(memory, **fields)
    if (order := meant_by(orders, opened)) is not None:
        await view.change(name, fields | ended_with(opened, order, now=now))
        return
    holder = await view.holder(memory.slot) if memory.slot else None
    if holder is None:
        await view.change(name, fields)
        await view.take(name)
        return
    chain = await view.chain(holder)
    if chain and chain[0].supersedes is None and position(opened, chain) == 0:  # all of that was said later
        after = chain[0]
        fields |= trimmed([opened], begins(after), now=now).get(name, {}) | {"superseded_by": after.id}
        await view.change(name, fields | {"active": False})
        await view.change(after.id, {"supersedes": name, "updated_at": now})
        return
    noted = without(memory.metadata, RETRACTED_BY, RETRACTED_AT, PENDING)
    await view.change(name, {"metadata": noted, "updated_at": now})


def _hiding_fields(turn: Memory, lost: Sequence[Memory]) -> dict[str, Any]:
    """The fields that hide a turn in which the assistant only repeats what was undone. The user's own say it anew."""
    if turn.trust is not Trust.ASSISTANT or not turn.active:
        return {}
    repeated = next((fact for fact in lost if repeats(turn.content, fact, None)), None)
    return {} if repeated is None else {"active": False, "metadata": turn.metadata | {RETRACTED_BY: repeated.id}}


async def _without_marks(view: PlanView, turn: Memory, owned: _Owned, replaced: Mapping[str, str]) -> dict[str, Any]:
    """Fields of another session's turn that the undone one marked as stale, or hid. ``replaced``: by what."""
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
        fields["superseded_by"] = await _successor(view, lost, owned)
    return fields


def _order_over(turn: Memory, noted: Mapping[str, Any], owned: _Owned) -> str | None:
    """The order to forget everything that hides a turn; an order's own turn can only be hidden by a later order."""
    if noted.get(ALL_FORGOTTEN_BY) != turn.id:
        return noted_id(noted, ALL_FORGOTTEN_BY)
    later = meant_by((order for order in owned.orders if order.id != turn.id), turn)
    return later.id if later is not None else None


async def _successor(view: PlanView, lost: Memory, owned: _Owned) -> str | None:
    """What still supersedes a turn: the next in the chain that stays, if it says something else than before."""
    after, visited = lost.superseded_by, {lost.id}
    while after in owned.lost and after not in visited:
        visited.add(after)
        after = owned.lost[after].superseded_by
    later = await view.memory(after) if after else None
    predecessor = await view.memory(lost.supersedes) if lost.supersedes and lost.supersedes not in owned.lost else None
    if later is None or (predecessor is not None and same_value(slot_value(predecessor), slot_value(later))):
        return None
    return later.id


_STATED = frozenset({"subject", "predicate", "object", "aspect", "stance", "content"})
_SLOT_FIELDS = _STATED | {"active", "valid_from", "kind", "project_id", "agent_id"}
_NOTED = frozenset(
    {RETRACTED_BY, RETRACTED_AT, STATED_END, ALL_FORGOTTEN_BY, PENDING, CHANGES, DREAMS, MERGED_INTO, REFINED}
)
_NOTED_OF_LEARNED = frozenset({SAID, LAST_SAID, RECONCILED_AT})
_EXTRACTOR = "extractor"  # metadata of what was learned; what somebody stored himself may have a ``said_at`` of his own

_BY_CALL = PlanBody().deleted_by


async def add_requested(view: PlanView, body: PlanBody, within: Scope) -> Counter[str]:
    """Add to a plan all that a row asks for, of who stands ``within``; how many of each operation that is. Raises
    `msgspec.ValidationError` where a field does not take its value.
    """
    counts: Counter[str] = Counter()
    if body.dream is not None:
        return await dreamt(view, body.dream, body.outcomes)
    await view.load([*body.changes, *body.deletes, *(item.id for item in body.upserts if item.kind is not Kind.TURN)])
    slots = [slot_name(memory) for memory in body.upserts if memory.active]
    graves = [tombstone(memory.id) for memory in body.upserts]
    await view.load_slots([*graves, *(slot for slot in slots if slot is not None)])
    for memory in body.upserts:
        counts[await _put(view, memory)] += 1
    for name, fields in body.changes.items():
        await _edit(view, name, fields)
        counts["change"] += 1
    for session, turns in body.turn_changes.items():
        session_scope = msgspec.structs.replace(view.owner, session=session or None)
        for turn in (await view.store.get(session_scope, list(turns))).values():
            view.change_turn(turn, _beside(view.turn_changes(turn), _with_our_notes(turn, turns[turn.id])))
            counts["change"] += 1
    if body.deletes:
        await _delete(view, body)
        counts["delete"] += len(body.deletes)
    if body.undo_session is not None:
        counts += await _undo(view, body.undo_session, within)
    if body.delete_where is not None:
        by_call = body.deleted_by == _BY_CALL
        counts += Counter(delete=await _delete_where(view, body.delete_where, by_call=by_call))
    return counts


async def _put(view: PlanView, memory: Memory) -> str:
    memory = msgspec.structs.replace(memory, slot=slot_name(memory))
    await view.unbury(memory.id)
    if memory.kind is not Kind.TURN and (stored := await view.memory(memory.id)) is not None:
        await view.release(stored)  # an import's newer form may answer another question, or have ended
    holder = await view.holder(memory.slot) if memory.slot and memory.active else None
    if holder is None or holder == memory.id:
        await view.add(memory)
        return Operation.ADD.value
    target = await view.memory(holder)
    if target is None:
        # Registered, and not in the store yet: an earlier plan that is still to be applied. It will find itself
        # superseded (`apply.Applier`).
        await view.add(msgspec.structs.replace(memory, supersedes=holder))
    else:
        await succession.supersede(view, memory, target)
    return Operation.UPDATE.value


async def _edit(view: PlanView, name: str, fields: Mapping[str, Any]) -> None:
    """Change fields, under the same id (docs/decisions/0020); in a new slot it and the holder stand in the order of
    their times. Its turns are not read again where the statement was changed, nor given out beside it.
    """
    old = await view.memory(name)
    if old is not None:
        fields = _with_our_notes(old, fields)
        if _STATED & fields.keys():
            await view.forget(old)
    await view.change(name, {"updated_at": view.now, **fields})
    memory = await view.memory(name)
    if old is not None and memory is not None and _hides_turns(old):
        await _tell_turns(view, old, memory)
    if memory is not None and memory.kind is not Kind.TURN and {"valid_from", "valid_to"} & fields.keys():
        await _keep_apart(view, memory)
    if not _SLOT_FIELDS & fields.keys():
        return
    slot = slot_name(memory) if memory is not None and memory.active else None
    holder = await view.holder(slot) if slot else None
    if memory is not None and holder is not None and holder != name:
        effects = place(memory, await view.chain_for(memory, holder), now=view.now)
        for other, changed in effects.changes.items():
            await view.change(other, changed)
        if effects.new is not None:
            new = {field: getattr(effects.new, field) for field in memory.__struct_fields__}
            await view.change(name, {field: value for field, value in new.items() if value != getattr(memory, field)})
    await view.take(name)


async def _keep_apart(view: PlanView, memory: Memory) -> None:
    """End what an edited memory replaced where it begins, and itself where what replaced it begins, so that no two
    statements of a chain hold at one time.
    """
    predecessor = await view.memory(memory.supersedes) if memory.supersedes else None
    after = await view.memory(memory.superseded_by) if memory.superseded_by else None
    for earlier, following in ((predecessor, memory), (memory, after)):
        if earlier is not None and following is not None and earlier.superseded_by == following.id:
            for name, fields in trimmed([earlier], begins(following), now=view.now).items():
                await view.change(name, fields)


def _hides_turns(memory: Memory) -> bool:
    """Whether the messages that state it go with it. A summary's do not: no one of them says what it says."""
    return memory.kind is not Kind.TURN and memory.predicate != SUMMARY


async def _tell_turns(view: PlanView, old: Memory, after: Memory) -> None:
    """Hide or mark the turns that state what an edit ended, replaced or reworded; show those of what holds again."""
    if not is_told(old):
        if is_told(after):
            await succession.show_stated(view, old)
    elif after.superseded_by:
        if (by := await view.memory(after.superseded_by)) is not None:
            await succession.mark_stated(view, old, by)
    elif not is_told(after):
        await succession.hide_stated(view, old)
    elif affirms(old) != affirms(after) or not terms(old.content) <= terms(after.content):
        await succession.mark_stated(view, old, after)


async def _delete(view: PlanView, body: PlanBody) -> None:
    """Delete by id. While learning is under way the id is noted as gone, so that a plan that was saved before cannot
    bring it back, and always what it said. What somebody deleted is not given out of its turns either; what was pruned
    is.
    """
    by_call = body.deleted_by == _BY_CALL
    gone: list[Memory] = []
    for name in body.deletes:
        predecessor: Memory | None = None
        if (memory := await view.memory(name)) is not None:
            gone.append(memory)
            if body.gives_back and memory.supersedes and memory.superseded_by is None:
                predecessor = await view.memory(memory.supersedes)
            await view.forget(memory)
            if by_call and (memory.kind is Kind.TURN or memory.metadata.get(REFINED)):
                gone += await _drop_learned(view, memory)
            elif by_call and is_told(memory) and _hides_turns(memory):
                await succession.hide_stated(view, memory)
        await _drop(view, name)
        if predecessor is not None and predecessor.superseded_by == name:
            await _give_back(view, predecessor.id, ())
            await succession.unmark(view, predecessor, name)
    for conclusion in await _concluded_from(view, gone) if by_call else ():
        await _drop(view, conclusion.id)


async def _concluded_from(view: PlanView, gone: Sequence[Memory]) -> list[Memory]:
    if all(memory.kind is Kind.TURN for memory in gone):
        return []
    turns = tuple(dict.fromkeys(name for memory in gone for name in memory.turn_ids))[:_PAGE]
    facts = await _all(view, MemoryFilter(kinds=(Kind.REFLECTIVE, Kind.PROCEDURAL)))
    facts += await _all(view, MemoryFilter(kinds=(Kind.SEMANTIC,), turn_ids=turns)) if turns else []
    return _dream_conclusions(facts, gone)


def _dream_conclusions(facts: Iterable[Memory], gone: Collection[Memory]) -> list[Memory]:
    """What a dream concluded from deleted memories: it may say what they said. What they were merged into stays."""
    names = {memory.id for memory in gone if memory.kind is not Kind.TURN}
    kept_ids = names | {memory.superseded_by for memory in gone}
    dreamt_up = [fact for fact in facts if fact.source is Source.DREAM and fact.id not in kept_ids]
    return [fact for fact in dreamt_up if not names.isdisjoint(noted_ids(fact.metadata, SOURCES))]


async def _drop_learned(view: PlanView, turn: Memory) -> list[Memory]:
    """Delete what goes with a deleted message; where the assistant repeats it, that is hidden."""
    lost = await _unlearn(view, turn)
    for memory in lost:
        if memory.predicate != SUMMARY:
            await succession.hide_repeated(view, memory)
        await _drop(view, memory.id)
    return lost


async def _delete_where(view: PlanView, gone: Deletion, *, by_call: bool) -> int:
    """Delete by scope, when the plan is applied; slots become free now. How many go with messages that a call names."""
    lost: list[Memory] = []
    for session in gone.session_ids if gone.ids and by_call else ():
        turns = [turn for turn in await view.turns(session, gone.ids) if turn.session_id in gone.session_ids]
        for turn in turns:
            lost += await _drop_learned(view, turn)
    view.sweep(gone)
    if gone == Deletion():  # all slots of the user go (`learn.index`); what was encrypted cannot be read any more
        return 0
    swept = await _all(view, msgspec.structs.replace(matching(gone), kinds=FACTS))
    for memory in swept:
        if memory.active:
            await view.release(memory)
    conclusions = await _concluded_from(view, [*lost, *swept])
    for conclusion in conclusions:
        await _drop(view, conclusion.id)
    return len(lost) + len(conclusions)


async def _drop(view: PlanView, name: str) -> None:
    """Delete a memory; its chain closes over the gap."""
    await view.unlink(name)
    await view.delete(name)
    await view.bury(name)


def _with_our_notes(memory: Memory, requested: Mapping[str, Any]) -> Mapping[str, Any]:
    """The requested changes with our notes on how a memory ended and was said, which callers may not know."""
    if "metadata" not in requested:
        return requested
    ours = _NOTED | (_NOTED_OF_LEARNED if _EXTRACTOR in memory.metadata else frozenset())
    theirs = without(requested["metadata"], *ours)
    return {**requested, "metadata": theirs | {name: memory.metadata[name] for name in ours & memory.metadata.keys()}}


def _beside(planned: Mapping[str, Any], requested: Mapping[str, Any]) -> Mapping[str, Any]:
    """The requested changes of a turn, with the note of what hid or showed it in this plan (a fact that it tells)."""
    if "metadata" not in planned or "metadata" not in requested:
        return requested
    noted, hidden = without(requested["metadata"], RETRACTED_BY), planned["metadata"].get(RETRACTED_BY)
    return {**requested, "metadata": noted if hidden is None else noted | {RETRACTED_BY: hidden}}
