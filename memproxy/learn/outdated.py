"""Outdated summaries: a conversation's summary ends as soon as one of the statements in it does."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memproxy.core.block import strip_blocks
from memproxy.core.facts import RETRACTED_BY
from memproxy.core.memory import SOURCES, Kind, Memory, noted_id, without
from memproxy.core.similar import repeats
from memproxy.core.text import sentences
from memproxy.learn.plan_view import PlanView
from memproxy.ports import MemoryFilter, every

PREDICATE = "had conversation"  # the predicate of a summary
TAG = "summary"
ENDED_BY = "ended_by"  # metadata: the facts and turns with which a summary ended, which an undoing may take away

_DATED = re.compile(r"^On \d{4}-\d\d-\d\d the user said: ")
"""The head of a summary of extracts; its date is none of the numbers that were said."""


async def end_outdated(view: PlanView) -> None:
    """End the summaries and insights that tell what a plan supersedes, takes back, edits, deletes or withholds: nothing
    of it is shown as current. One that is withheld itself waits, with what is withheld beside it, until that is given
    again.
    """
    gone = [pair for pair in await view.ended_statements() if pair[0].predicate != PREDICATE]
    plan = view.plan()
    names = [name for name, fields in plan.changes.items() if fields.get("quarantined") is True]
    changed = [await view.memory(name) for name in names]
    # as if somebody had taken them back
    withheld = [(memory, None) for memory in changed if memory is not None and memory.predicate != PREDICATE]
    if not gone and not withheld and not any(_unsaid_ids(turns, None) for turns in plan.turn_changes.values()):
        return
    wheres = (
        MemoryFilter(kinds=(Kind.EPISODIC,), tags=(TAG,), active=True),
        MemoryFilter(kinds=(Kind.REFLECTIVE,), active=True),
    )
    summaries = [memory for where in wheres async for memory in every(view.store, view.owner, where)]
    for summary in map(view.current, summaries):
        if not summary.active or (summary.predicate != PREDICATE and SOURCES not in summary.metadata):
            continue
        waiting = set(names) if summary.quarantined else None
        pairs = gone if summary.quarantined else [*gone, *withheld]
        unsaid = _unsaid_ids(plan.turn_changes.get(summary.session_id or "", {}), waiting)
        retold = [pair for pair in pairs if _tells(summary, *pair)]
        turns = await view.turns(summary.session_id, [name for name in summary.turn_ids if name in unsaid])
        quoted = [turn for turn in turns if _quotes(summary, turn)]
        if retold or quoted:
            causes = [await _ended_by(view, *pair) for pair in retold]
            causes += [_hidden_by(view.turn_changes(turn)) for turn in quoted]
            over = {"valid_to": view.now, "updated_at": view.now}
            await view.change(summary.id, outdated_with(summary, causes) | over)


def outdated_with(summary: Memory, causes: Sequence[str | None]) -> dict[str, Any]:
    """A summary's fields when it ends by ``causes``: ids of facts and turns; None is what no undoing takes away."""
    noted = without(summary.metadata, ENDED_BY)
    if causes and None not in causes:
        noted[ENDED_BY] = sorted({cause for cause in causes if cause is not None})
    return {"active": False, "metadata": noted}


def still_ended_by(summary: Memory, facts: Sequence[Memory], turns: Sequence[Memory]) -> list[str | None]:
    """What else ended what a summary tells, as `outdated_with` takes it; of all facts and turns as they are now."""
    turn_ids = frozenset(summary.turn_ids)
    by_id = {fact.id: fact for fact in facts}
    ended = [fact for fact in facts if not fact.active and fact.predicate != PREDICATE and turn_ids & {*fact.turn_ids}]
    over = [fact for fact in ended if _tells(summary, fact, by_id.get(fact.superseded_by or ""))]
    hidden = [turn for turn in turns if turn.session_id == summary.session_id and turn.id in turn_ids]
    over += [turn for turn in hidden if (turn.superseded_by or not turn.active) and _quotes(summary, turn)]
    return [memory.superseded_by or noted_id(memory.metadata, RETRACTED_BY) for memory in over]


def _tells(summary: Memory, old: Memory, new: Memory | None) -> bool:
    return repeats(_DATED.sub("", summary.content), old, new)


async def _ended_by(view: PlanView, old: Memory, new: Memory | None) -> str | None:
    """The id of what superseded or retracted a fact; None where it was edited, deleted or withheld."""
    if new is not None:
        return new.id if new.id != old.id else None
    now = await view.memory(old.id)
    return _hidden_by({"metadata": now.metadata}) if now is not None and not now.active else None


def _hidden_by(fields: Mapping[str, Any]) -> str | None:
    by: str | None = fields.get("superseded_by")
    return by or noted_id(fields.get("metadata", {}), RETRACTED_BY)


def _unsaid_ids(turns: Mapping[str, Mapping[str, Any]], waiting: set[str] | None) -> set[str]:
    """Those of a session's changed turns that are not to be read any more. ``waiting`` is what is withheld
    with a summary that is: it outlasts the turns that are withheld too, or hidden with that; None: it is not.
    """
    return {
        name
        for name, fields in turns.items()
        if fields.get("superseded_by")
        or (fields.get("active") is False and noted_id(fields.get("metadata", {}), RETRACTED_BY) not in (waiting or ()))
        or (fields.get("quarantined") is True and waiting is None)
    }


def _quotes(summary: Memory, turn: Memory) -> bool:
    return any(sentence in summary.content for sentence in sentences(strip_blocks(turn.content)))
