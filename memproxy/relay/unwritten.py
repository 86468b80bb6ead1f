"""Turns that the journal could not take (its disk is full, its file is away): kept in memory until it can."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import JournalEntry
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

MOST_BYTES = 16 * 1024 * 1024
"""Of turns that wait; those beyond are lost, and counted."""

TRY_AGAIN_S = 1.0

Written = Callable[[], None]
"""Called when an entry is durable."""


class _Waiting(NamedTuple):
    entry: JournalEntry
    messages: int
    written: Written


class Unwritten:
    """The entries, the oldest first. They do not survive this process; nothing else could hold them."""

    def __init__(self, append: Callable[[JournalEntry], Awaitable[object]]) -> None:
        self._append = append
        self._tasks = TaskOwner("relay.unwritten")
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._trying: asyncio.Task[None] | None = None

    def add(self, entry: JournalEntry, messages: int, written: Written, *, why: str) -> None:
        """Write this entry of so many messages as soon as the journal works again."""
        if self._bytes + len(entry.body) > MOST_BYTES:
            _lost(entry, messages, why)
            return
        log.error("turns of %s wait in memory, the journal failed: %s", entry.request_id, why)
        self._bytes += len(entry.body)
        self._waiting.append(_Waiting(entry, messages, written))
        if self._trying is None or self._trying.done():
            self._trying = self._tasks.start(self._try_again(), "write what waits")

    async def close(self) -> None:
        """Try a last time; what cannot be written is lost."""
        await self._tasks.cancel()
        why = await self._write_all()
        for entry, messages, _ in self._waiting:
            _lost(entry, messages, why or "")
        self._waiting.clear()

    async def _try_again(self) -> None:
        while self._waiting:
            await asyncio.sleep(TRY_AGAIN_S)
            await self._write_all()

    async def _write_all(self) -> str | None:
        """Why one could not be written; the others behind it wait as well."""
        while self._waiting:
            entry, _, written = self._waiting[0]
            try:
                await self._append(entry)
            except StateUnavailable as error:
                return error.message
            self._waiting.popleft()
            self._bytes -= len(entry.body)
            written()
            log.info("turns of %s are in the journal now", entry.request_id)
        return None


def _lost(entry: JournalEntry, messages: int, why: str) -> None:
    metrics().turns_lost.labels(reason="journal").inc(messages)
    log.error("turns of %s are lost, the journal failed: %s", entry.request_id, why)
