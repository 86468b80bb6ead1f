"""What was taken back before it was told: a request to forget that fits nothing known leaves a trace, an ended memory
that no recall sees, so that a statement of an earlier time that comes later (an import) does not become current.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from memproxy.core.chain import RETRACTED_AT, RETRACTED_BY, is_older, retracted_at, said_at, take_back
from memproxy.core.memory import Memory
from memproxy.core.retract import is_specific, means
from memproxy.core.scope import Scope
from memproxy.core.supersede import Decision, Operation
from memproxy.learn.known import Known
from memproxy.ports import MemoryFilter, MemoryStore

TRACE_TAG = "retraction"
"""The tag of a trace."""

_KEPT = timedelta(days=400)
_MOST = 100
"""Traces of an owner that are looked at, the newest; histories are imported soon after they happened, or at once."""

_NAMES = uuid.UUID("5f1f3a4e-5d0b-4f9d-9c53-2f1f4f2f7a11")


def is_trace(memory: Memory) -> bool:
    """Whether it is no statement but the trace of a request to forget."""
    return TRACE_TAG in memory.tags and RETRACTED_BY in memory.metadata and memory.slot is None


class Traces:
    """Leaves traces in a plan, and ends what they mean."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def leave(self, known: Known, request: Memory, now: datetime) -> None:
        """Note a request to forget that means nothing known; one that names nothing in particular leaves no trace."""
        if not is_specific(request):
            return
        at, turn = said_at(request), request.turn_ids[0]
        trace = msgspec.structs.replace(
            request,
            id=str(uuid.uuid5(_NAMES, f"{request.tenant}|{request.user_id}|{turn}|{request.content}")),
            slot=None,
            active=False,
            tags=[TRACE_TAG],
            valid_from=at,
            valid_to=at,
            relations=[],
            expires_at=now + _KEPT,
            metadata=request.metadata | {RETRACTED_BY: turn, RETRACTED_AT: at.isoformat()},
        )
        if await known.memory(trace.id) is None:
            await known.add(trace)

    async def ended(self, known: Known, candidate: Memory, decision: Decision, now: datetime) -> Memory | None:
        """The candidate as it was taken back after it was said; None when it was not, or is not what would hold now."""
        if not _would_hold(candidate, decision):
            return None
        return taken_back(await self._of(known, now), candidate, now)

    async def _of(self, known: Known, now: datetime) -> Sequence[Memory]:
        if known.traces is None:
            known.traces = await traces_of(self._store, known.owner, now)
        found = {one.id: one for one in (*known.traces, *known.new_memories()) if is_trace(one)}
        return list(found.values())


async def traces_of(store: MemoryStore, owner: Scope, now: datetime) -> list[Memory]:
    """The owner's traces, the newest.

    Raises:
        StoreUnavailable: they could not be read.
    """
    where = MemoryFilter(tags=(TRACE_TAG,), active=False, now=now)
    return [one for one in (await store.page(owner, where, limit=_MOST)).memories if is_trace(one)]


def taken_back(traces: Sequence[Memory], statement: Memory, now: datetime) -> Memory | None:
    """A statement as it was taken back after it was said, by one of these traces; None where it was not."""
    for trace in traces:
        at = retracted_at(trace)
        if at is not None and said_at(statement) < at and means(trace, statement):
            fields = take_back(statement, str(trace.metadata[RETRACTED_BY]), at, now=now)
            return msgspec.structs.replace(statement, **fields)
    return None


def _would_hold(candidate: Memory, decision: Decision) -> bool:
    if decision.operation in (Operation.ADD, Operation.COEXIST):
        return candidate.active
    return decision.operation is Operation.UPDATE and not (decision.target and is_older(candidate, decision.target))
