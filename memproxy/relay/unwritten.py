"""Turns that the journal could not take (its disk is full, its file is away or locked): set aside until it can."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import JournalEntry, StateStore
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

MOST_BYTES = 16 * 1024 * 1024
"""Of turns that wait in memory; those beyond wait for the next start, or are lost and counted."""

TRY_AGAIN_S = 1.0

LAST_TRY_S = 2.0
"""At the end the journal has so long to take what waits."""

TELL_EVERY_S = 30.0
"""So often it is told while turns wait: thousands come in an outage."""

Written = Callable[[], None]
"""Called when an entry is durable in the journal."""


class Waiting:
    """An entry of so many messages that is on its way into the journal."""

    def __init__(self, entry: JournalEntry, messages: int, written: Written) -> None:
        self.entry = entry
        self.messages = messages
        self.written = written
        self.aside: asyncio.Task[int | None] | None = None


class Unwritten:
    """The entries, the oldest first: in memory, and, where the state can, beside the journal, so that they survive this
    process.
    """

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._tasks = TaskOwner("relay.unwritten")
        self._asides = TaskOwner("relay.aside")
        self._waiting: deque[Waiting] = deque()
        self._bytes = 0
        self._told = 0.0
        self._trying: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        """Whether entries wait: another one stands behind them."""
        return bool(self._waiting)

    async def set_aside(self, waiting: Waiting) -> bool:
        """Keep it where it survives this process; whether that is possible. Asked twice, it is kept once."""
        if waiting.aside is None:
            waiting.aside = self._asides.start(self._state.set_aside(waiting.entry), "set aside")
        return await asyncio.shield(waiting.aside) is not None

    async def written(self, waiting: Waiting) -> None:
        """The journal has it."""
        if waiting.aside is not None and (place := await asyncio.shield(waiting.aside)) is not None:
            await self._state.drop_aside(place)

    async def add(self, waiting: Waiting, *, why: str) -> None:
        """Write it as soon as the journal works again."""
        size = len(waiting.entry.body)
        fits = self._bytes + size <= MOST_BYTES
        if fits:
            self._bytes += size
            self._waiting.append(waiting)
            if self._trying is None or self._trying.done():
                self._trying = self._tasks.start(self._try_again(), "write what waits")
        durable = await self.set_aside(waiting)
        if not durable and not fits:
            _lost(waiting, why)
        elif time.monotonic() - self._told > TELL_EVERY_S:
            self._told = time.monotonic()
            where = "beside the journal" if durable else "in memory"
            log.error("turns (%d, since %s) wait %s: %s", len(self._waiting), waiting.entry.request_id, where, why)

    async def close(self) -> None:
        """Try a last time; what cannot be written waits for the next start, or is lost."""
        await self._tasks.cancel()
        why: str | None = f"it took over {LAST_TRY_S:g} s"
        try:
            async with asyncio.timeout(LAST_TRY_S):
                why = await self._write_all()
        except TimeoutError:
            pass  # `why` says so
        for waiting in self._waiting:
            if not await self.set_aside(waiting):
                _lost(waiting, why or "")
        self._waiting.clear()
        await self._asides.drain(LAST_TRY_S)

    async def _try_again(self) -> None:
        while self._waiting:
            await asyncio.sleep(TRY_AGAIN_S)
            await self._write_all()

    async def _write_all(self) -> str | None:
        """Why one could not be written; the others behind it wait as well."""
        number = 0
        while self._waiting:
            waiting = self._waiting[0]
            try:
                await self._state.append(waiting.entry)
            except StateUnavailable as error:
                return error.message
            self._waiting.popleft()
            self._bytes -= len(waiting.entry.body)
            number += 1
            waiting.written()
            await self.written(waiting)
        if number:
            log.info("turns that waited (%d) are in the journal now", number)
            self._told = 0.0
        return None


def _lost(waiting: Waiting, why: str) -> None:
    metrics().turns_lost.labels(reason="journal").inc(waiting.messages)
    log.error("turns of %s are lost, the journal failed: %s", waiting.entry.request_id, why)
