"""Counts how often memories are recalled; no answer waits for it. Counts are gathered in memory and written some
seconds later, many at a time. A crash loses some, and so may a rewrite at the same moment: only pruning rests on them.
"""

import asyncio
import logging
from collections.abc import Iterable
from datetime import datetime

import msgspec

from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError
from memproxy.metrics import metrics
from memproxy.ports import Clock, MemoryStore
from memproxy.tasks import TaskOwner, happens

log = logging.getLogger(__name__)

GATHER_S = 15.0  # how long the first retrieval waits for others; what a crash loses at most
MOST_WAITING = 20_000  # memories whose retrievals wait to be written, some 300 bytes each; those beyond are not counted
BATCH = 200  # memories read and written together


class _Accesses(msgspec.Struct):
    times: int
    last: datetime


class AccessCounter:
    """Takes what was recalled and writes the counts soon."""

    def __init__(self, store: MemoryStore, clock: Clock, *, gather_s: float = GATHER_S) -> None:
        self._store = store
        self._clock = clock
        self._gather_s = gather_s
        self._tasks = TaskOwner("retention.accesses")
        self._waiting: dict[tuple[str, str], dict[str, _Accesses]] = {}
        self._count = 0
        self._writer: asyncio.Task[None] | None = None
        self._write_now = asyncio.Event()

    def note(self, scope: Scope, memory_ids: Iterable[str]) -> None:
        """Count these as recalled; returns at once."""
        now, mine = self._clock.now(), self._waiting.setdefault(scope.owner, {})
        for name in memory_ids:
            if (accesses := mine.get(name)) is not None:
                accesses.times, accesses.last = accesses.times + 1, now
            elif self._count < MOST_WAITING:
                mine[name] = _Accesses(1, now)
                self._count += 1
            else:
                metrics().accesses_dropped.inc()
        if not mine:
            del self._waiting[scope.owner]
        elif self._writer is None or self._writer.done():
            self._writer = self._tasks.start(self._write(), "write")

    async def written(self) -> None:
        """Returns when all that was noted so far is written."""
        self._write_now.set()
        if self._writer is not None:
            await asyncio.wait({self._writer})

    async def close(self, grace_s: float) -> None:
        """Write the waiting counts, within ``grace_s`` seconds."""
        self._write_now.set()
        await self._tasks.drain(grace_s)

    async def _write(self) -> None:
        await happens(self._write_now, self._gather_s)  # others may have come meanwhile
        while self._waiting:
            owner, accesses = self._waiting.popitem()
            self._count -= len(accesses)
            try:
                await self._write_of(Scope(tenant=owner[0], user=owner[1]), accesses)
            except MemproxyError as error:
                metrics().accesses_dropped.inc(len(accesses))
                log.warning("the retrievals of %d memories are not counted: %s", len(accesses), error.message)
        self._write_now.clear()

    async def _write_of(self, owner: Scope, accesses: dict[str, _Accesses]) -> None:
        names = list(accesses)
        for start in range(0, len(names), BATCH):
            stored = await self._store.get(owner, names[start : start + BATCH])
            changes = {
                name: {
                    "access_count": memory.access_count + accesses[name].times,
                    "last_accessed_at": accesses[name].last,
                }
                for name, memory in stored.items()
            }
            if changes:
                await self._store.set_fields(owner, changes)
