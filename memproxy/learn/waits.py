"""Callers that wait: until a row is applied, an owner's turns are indexed, or a session is learned from."""

import asyncio
import logging
from collections.abc import Callable

from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError, StateUnavailable
from memproxy.learn.endings import Endings
from memproxy.learn.triggers import Triggers
from memproxy.learn.writes import Writes
from memproxy.ports import JournalKind, StateStore

log = logging.getLogger(__name__)


class Waits:
    """Waits for what the worker does.

    Args:
        wake: has the worker look for rows, and for what is to be begun.
        wake_index: has it look for captured turns alone.
    """

    def __init__(
        self,
        *,
        state: StateStore,
        triggers: Triggers,
        endings: Endings,
        writes: Writes,
        wake: Callable[[], None],
        wake_index: Callable[[], None],
    ) -> None:
        self._state = state
        self._triggers = triggers
        self._endings = endings
        self._writes = writes
        self._wake = wake
        self._wake_index = wake_index
        self._learn_ended = asyncio.Event()
        self._index_ended = asyncio.Event()

    def ended(self, kind: JournalKind) -> None:
        """A row of this kind is done, refused, parked or, but for `JournalKind.LEARN`, put back."""
        if kind is JournalKind.LEARN:
            self._learn_ended.set()
            self._learn_ended = asyncio.Event()
        else:
            self._index_ended.set()
            self._index_ended = asyncio.Event()

    async def applied(self, number: int, timeout_s: float) -> bool:
        """As `Worker.applied`."""
        with self._writes.waited_for():
            return await self._endings.applied(number, timeout_s)

    async def indexed(self, owner: Scope, timeout_s: float) -> bool:
        """As `Worker.indexed`."""
        try:
            with self._writes.waited_for():
                async with asyncio.timeout(timeout_s):
                    while True:
                        ended = self._index_ended
                        rows = (await self._state.backlog(owner)).get("index", {})
                        if not rows.get("waiting") and not rows.get("running"):
                            return True
                        self._wake_index()
                        await ended.wait()
        except TimeoutError:
            return False

    async def soon_indexed(self, owner: Scope, timeout_s: float, most: int) -> bool:
        """As `indexed`; False at once where so much waits that it takes longer, or where it waits for the store."""
        rows = (await self._state.backlog(owner)).get("index", {})
        left = rows.get("waiting", 0) + rows.get("running", 0)
        if not left:
            return True
        return left <= most and not self._endings.waits(owner.owner) and await self.indexed(owner, timeout_s)

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
                    await ended.wait()
                self._wake()
                return await self.applied(number, timeout_s) and indexed
        except TimeoutError:
            return False
        except StateUnavailable:
            raise
        except MemproxyError as error:
            log.warning("learning that was waited for did not succeed: %s", error)
            return False
