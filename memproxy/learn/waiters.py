"""Callers that wait: until a row is applied, an owner's turns are indexed, or a session is learned from."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError, StateUnavailable
from memproxy.learn.acknowledge import LOOKS_S, Acknowledger
from memproxy.learn.flush import Flushes, Owner
from memproxy.learn.triggers import Triggers
from memproxy.ports import JournalKind, JournalRow, JournalStore

log = logging.getLogger(__name__)


class Waiters:
    """Waits for what the worker does.

    Args:
        wake: has the worker look for rows, and for what is to be begun.
        wake_index: has it look for captured turns alone.
    """

    def __init__(
        self,
        *,
        state: JournalStore,
        triggers: Triggers,
        acknowledger: Acknowledger,
        flushes: Flushes,
        wake: Callable[[], None],
        wake_index: Callable[[], None],
    ) -> None:
        self._state = state
        self._triggers = triggers
        self._acknowledger = acknowledger
        self._flushes = flushes
        self._wake = wake
        self._wake_index = wake_index
        self._learn_ended = asyncio.Event()
        self._index_ended = asyncio.Event()
        self._written: dict[Owner, set[int]] = {}

    def written(self, rows: Sequence[JournalRow]) -> None:
        """The turns of these rows can be found by a search; the rows end with the store's next flush."""
        for row in rows:
            self._written.setdefault(row.entry.scope.owner, set()).add(row.number)
        self._tell_index()

    def ended(self, row: JournalRow) -> None:
        """A row is done, refused, parked or, but for `JournalKind.LEARN`, put back."""
        if row.entry.kind is JournalKind.LEARN:
            self._learn_ended.set()
            self._learn_ended = asyncio.Event()
            return
        owner = row.entry.scope.owner
        if numbers := self._written.get(owner):
            numbers.discard(row.number)
            if not numbers:
                del self._written[owner]
        self._tell_index()

    def _tell_index(self) -> None:
        self._index_ended.set()
        self._index_ended = asyncio.Event()

    async def applied(self, number: int, timeout_s: float) -> bool:
        """As `Worker.applied`."""
        with self._flushes.waited_for():
            return await self._acknowledger.applied(number, timeout_s)

    async def indexed(self, owner: Scope, timeout_s: float) -> bool:
        """As `Worker.indexed`."""
        try:
            with self._flushes.waited_for():
                async with asyncio.timeout(timeout_s):
                    while True:
                        ended = self._index_ended
                        rows = (await self._state.backlog(owner)).get("index", {})
                        if not rows.get("waiting") and not rows.get("running"):
                            return True
                        self._wake_index()
                        await self._wait(ended)
        except TimeoutError:
            return False

    async def soon_indexed(self, owner: Scope, timeout_s: float, most: int) -> bool:
        """Wait until a search finds all of an owner's turns, flushed or not; whether it does. False at once where that
        takes long: with a long backlog, while the store is away, or behind turns that must be flushed first (an owner's
        rows are done one by one).
        """
        left = await self._unwritten(owner)
        if not left:
            return True
        if left > most or owner.owner in self._written or self._acknowledger.waits(owner.owner):
            return False
        try:
            with self._flushes.waited_for():
                async with asyncio.timeout(timeout_s):
                    await self._soon(owner, left)
        except TimeoutError:
            return False
        return True

    async def _soon(self, owner: Scope, left: int) -> None:
        while left:
            told = self._index_ended
            self._wake_index()
            if left := await self._unwritten(owner):
                await self._wait(told)
                left = await self._unwritten(owner)

    async def _wait(self, told: asyncio.Event) -> None:
        """Returns when this engine has done something; or another one may have."""
        try:
            async with asyncio.timeout(LOOKS_S[0] if self._state.is_shared else None):
                await told.wait()
        except TimeoutError:
            return

    async def _unwritten(self, owner: Scope) -> int:
        rows = (await self._state.backlog(owner)).get("index", {})
        return max(0, rows.get("waiting", 0) + rows.get("running", 0) - len(self._written.get(owner.owner, ())))

    async def begun_and_done(self, scope: Scope, reason: str, timeout_s: float) -> bool:
        """Learn from ``scope.session`` for this reason; True when that is done, False if not within the time, or if it
        did not succeed.
        """
        try:
            async with asyncio.timeout(timeout_s):
                indexed = await self.indexed(scope, timeout_s / 2)
                while True:
                    ended = self._learn_ended
                    number = await self._triggers.begin(scope, reason)
                    if number is not None:
                        break
                    await self._wait(ended)
                self._wake()
                return await self.applied(number, timeout_s) and indexed
        except TimeoutError:
            return False
        except StateUnavailable:
            raise
        except MemproxyError as error:
            log.warning("learning that was waited for did not succeed: %s", error)
            return False
