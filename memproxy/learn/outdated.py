"""Summaries of conversations that tell what is no longer so: they end with what they tell."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from memproxy.core.block import strip_blocks
from memproxy.core.chain import RETRACTED_BY
from memproxy.core.memory import Kind, Memory
from memproxy.core.similar import repeats
from memproxy.core.text import sentences
from memproxy.learn.known import Known
from memproxy.ports import MemoryFilter, MemoryStore

PREDICATE = "had conversation"
"""The predicate of a summary."""

TAG = "summary"
_DATED = re.compile(r"^On \d{4}-\d\d-\d\d the user said: ")
"""The head of a summary of extracts; its date is none of the numbers that were said."""

_MOST = 200
"""Summaries of an owner that are looked at, the newest: one a conversation."""


async def end_outdated(known: Known, store: MemoryStore, *, now: datetime) -> None:
    """End the summaries that tell what a plan supersedes, takes back, edits, deletes or withholds: nothing of it is
    shown as current. One that is withheld itself waits, with what is withheld beside it, until that is given again.

    Raises:
        StoreUnavailable: try again later.
    """
    gone = [pair for pair in await known.outdated() if pair[0].predicate != PREDICATE]
    plan = known.plan()
    names = [name for name, fields in plan.changes.items() if fields.get("quarantined") is True]
    withheld = await _withheld(known, names)
    if not gone and not withheld and not any(_unsaid(turns, None) for turns in plan.turn_changes.values()):
        return
    where = MemoryFilter(kinds=(Kind.EPISODIC,), tags=(TAG,), active=True)
    page = await store.page(known.owner, where, limit=_MOST)
    for stored in page.memories:
        summary = known.current(stored)
        if summary.predicate != PREDICATE or not summary.active:
            continue
        told = _DATED.sub("", summary.content)
        waiting = set(names) if summary.quarantined else None
        pairs = gone if summary.quarantined else [*gone, *withheld]
        unsaid = _unsaid(plan.turn_changes.get(summary.session_id or "", {}), waiting)
        if any(repeats(told, old, new) for old, new in pairs) or await _quotes(summary, known, unsaid):
            await known.change(summary.id, {"active": False, "valid_to": now, "updated_at": now})


async def _withheld(known: Known, names: Sequence[str]) -> list[tuple[Memory, None]]:
    """The facts of these ids, which a plan withholds, as if somebody had taken them back."""
    found = [await known.memory(name) for name in names]
    return [(one, None) for one in found if one is not None and one.predicate != PREDICATE]


def _unsaid(turns: Mapping[str, Mapping[str, Any]], waiting: set[str] | None) -> set[str]:
    """Those of a session's changed turns that are not to be read any more. ``waiting`` is what is withheld
    with a summary that is: it outlasts the turns that are withheld too, or hidden with that; None: it is not.
    """
    return {
        name
        for name, fields in turns.items()
        if fields.get("superseded_by")
        or (fields.get("active") is False and fields.get("metadata", {}).get(RETRACTED_BY) not in (waiting or ()))
        or (fields.get("quarantined") is True and waiting is None)
    }


async def _quotes(summary: Memory, known: Known, unsaid: set[str]) -> bool:
    """Whether it quotes one of these messages."""
    turns = await known.turns(summary.session_id, [name for name in summary.turn_ids if name in unsaid])
    return any(sentence in summary.content for turn in turns for sentence in sentences(strip_blocks(turn.content)))
