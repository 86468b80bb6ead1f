"""Summaries of conversations that tell what is no longer so: they end with what they tell."""

from datetime import datetime

from memproxy.core.memory import Kind
from memproxy.core.similar import repeats
from memproxy.learn.known import Known
from memproxy.ports import MemoryFilter, MemoryStore

PREDICATE = "had conversation"
"""The predicate of a summary."""

TAG = "summary"
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
        if any(repeats(summary.content, old, new) for old, new in gone):
            await known.change(summary.id, {"active": False, "valid_to": now, "updated_at": now})
