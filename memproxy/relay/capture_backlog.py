"""Turns that the journal could not take (its disk is full, its file is away or locked): kept until it can."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

import msgspec

from memproxy.errors import RequestError, StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import JournalEntry, StateStore
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

MOST_BYTES = 16 * 1024 * 1024
"""Of turns that wait in memory. The text of those beyond waits beside the journal alone, or is lost and counted."""

TRY_AGAIN_S = 1.0
LAST_TRY_S = 2.0
"""How long the journal has at the end to take what waits."""

LOG_EVERY_S = 30.0
"""Log at most this often during an outage: thousands of turns come in one."""


class Waiting:
    """A journal entry that waits, and the number of its messages; ``written`` is called when it is durable."""

    def __init__(self, entry: JournalEntry, messages: int, written: Callable[[], None]) -> None:
        self.entry = entry
        self.messages = messages
        self.written = written
        self.aside: asyncio.Task[int | None] | None = None
        self.is_written = False
        self.is_lean = False

    def leave_body(self) -> None:
        """Hold no text any more: it is set aside. The engine looks for such rows by itself."""
        self.entry = msgspec.structs.replace(self.entry, body=b"")
        self.written = lambda: None
        self.is_lean = True


class CaptureBacklog:
    """The entries, the oldest first: in memory, and, where the state can, beside the journal, so that they survive this
    process.
    """

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._tasks = TaskOwner("relay.unwritten")
        self._asides = TaskOwner("relay.aside")
        self._waiting: deque[Waiting] = deque()
        self._bytes = 0
        self._logged_at = 0.0
        self._trying: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        """Whether entries wait; a new one waits after them."""
        return bool(self._waiting)

    async def set_aside(self, waiting: Waiting) -> bool:
        """Keep it where it survives this process; whether that is possible. Asked twice, it is kept once, and not at
        all where the journal has it.
        """
        if waiting.is_written:
            return True
        if waiting.aside is None:
            waiting.aside = self._asides.start(self._state.set_aside(waiting.entry), "set aside")
        return await asyncio.shield(waiting.aside) is not None

    async def written(self, waiting: Waiting) -> None:
        """The journal has it."""
        waiting.is_written = True
        if waiting.aside is not None and (place := await asyncio.shield(waiting.aside)) is not None:
            await self._state.drop_aside(place)

    async def add(self, waiting: Waiting, *, why: str) -> None:
        """Write it as soon as the journal works again."""
        size = len(waiting.entry.body)
        fits = self._bytes + size <= MOST_BYTES
        self._bytes += size
        self._waiting.append(waiting)
        if self._trying is None or self._trying.done():
            self._trying = self._tasks.start(self._try_again(), "write what waits")
        durable = await self.set_aside(waiting)
        if not fits and waiting in self._waiting and waiting is not self._waiting[0]:  # the first is being written
            self._bytes -= size
            if durable:
                waiting.leave_body()
            else:
                self._waiting.remove(waiting)
                _count_lost(waiting, why)
                return
        if time.monotonic() - self._logged_at > LOG_EVERY_S:
            self._logged_at = time.monotonic()
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
                _count_lost(waiting, why or "")
        self._waiting.clear()
        await self._asides.drain(LAST_TRY_S)

    async def _try_again(self) -> None:
        while self._waiting:
            await asyncio.sleep(TRY_AGAIN_S)
            await self._write_all()

    async def _write_all(self) -> str | None:
        """Why one could not be written; the later ones wait as well."""
        number = 0
        while self._waiting:
            waiting = self._waiting[0]
            entry = await self._entry_of(waiting)
            if entry is None:
                self._waiting.popleft()
                _count_lost(waiting, "what was set aside is not there any more")
                continue
            try:
                written = await self._state.append(entry)
            except StateUnavailable as error:
                return error.message
            except RequestError as error:  # it never will be; later ones do not wait for that
                _count_lost(waiting, error.message, reason="refused")
            else:
                number += 1
                if written:  # else its user was erased meanwhile
                    waiting.written()
            self._waiting.popleft()
            self._bytes -= len(waiting.entry.body)
            await self.written(waiting)
        if number:
            log.info("turns that waited (%d) are in the journal now", number)
            self._logged_at = 0.0
        return None

    async def _entry_of(self, waiting: Waiting) -> JournalEntry | None:
        """The entry with its text; None where that cannot be read any more."""
        if not waiting.is_lean or waiting.aside is None:
            return waiting.entry
        place = await asyncio.shield(waiting.aside)
        return None if place is None else await self._state.read_aside(place)


def _count_lost(waiting: Waiting, why: str, *, reason: str = "journal") -> None:
    metrics().turns_lost.labels(reason=reason).inc(waiting.messages)
    log.error("turns of %s are lost, the journal failed: %s", waiting.entry.request_id, why)
