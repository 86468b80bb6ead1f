"""Summaries of conversations that tell what is no longer so: they end with what they tell."""

import re
from datetime import datetime

from memproxy.core.block import strip_blocks
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
    """End the summaries that tell what a plan supersedes, takes back, edits or deletes: nothing of it is shown as
    current.

    Raises:
        StoreUnavailable: try again later.
    """
    gone = [pair for pair in await known.outdated() if pair[0].predicate != PREDICATE]
    if not gone:
        return
    where = MemoryFilter(kinds=(Kind.EPISODIC,), tags=(TAG,), active=True)
    page = await store.page(known.owner, where, limit=_MOST)
    for stored in page.memories:
        summary = known.current(stored)
        if summary.predicate != PREDICATE or not summary.active:
            continue
        told = _DATED.sub("", summary.content)
        if any(repeats(told, old, new) for old, new in gone) or await _quotes_ended(summary, known):
            await known.change(summary.id, {"active": False, "valid_to": now, "updated_at": now})


async def _quotes_ended(summary: Memory, known: Known) -> bool:
    """Whether it quotes a message whose statement the plan ends."""
    ids = known.ended_turns(summary.session_id)
    turns = await known.turns(summary.session_id, [name for name in summary.turn_ids if name in ids])
    return any(sentence in summary.content for turn in turns for sentence in sentences(strip_blocks(turn.content)))
