"""Drops what was deleted from the files of store and state. A deletion takes effect at once, but its text may stay in
the store's files until these are rewritten. That blocks an embedded store (docs/privacy.md has figures), so deletions
share a rewrite, which, unless a caller waits, comes a little later and takes a small part of the time.
"""

import asyncio
import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass
from time import monotonic

from memproxy.errors import MemproxyError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import MemoryStore, StateStore
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

PENDING = "erasure.pending"  # fact of the state while deleted text may be in a file: a restart goes on with it
GATHER_S = 2.0  # how long an erasure that no caller waits for waits for others to share its rewrite
REST, LONGEST_REST_S, LEAST_REST = 20, 10.0, 4
"""Unless a caller waits, the pause after a rewrite is `REST` times as long, up to `LONGEST_REST_S`; after a slow one (a
large store, a busy machine) `LEAST_REST` times: rewrites take a fifth of the time at most.
"""

WAITED_REST, LONGEST_WAIT_S = 3, 20.0
"""The same where callers wait: one who erases again and again must not keep the store from all others. All callers that
wait meanwhile share the next rewrite; who would wait longer than the second gets an error, and the rewrite comes later.
"""

AGAIN_S = 5.0  # after how long it is tried again when store or state do not answer


def rest_after(took_s: float) -> float:
    """The pause after a rewrite that took ``took_s``."""
    return max(LEAST_REST * took_s, min(REST * took_s, LONGEST_REST_S))


@dataclass(eq=False)
class Eraser:
    """Rewrites the files after deletions, for many at once."""

    store: MemoryStore
    state: StateStore
    _: KW_ONLY
    gather_s: float = GATHER_S
    longest_wait_s: float = LONGEST_WAIT_S

    def __post_init__(self) -> None:
        self._tasks = TaskOwner("retention.erasing")
        self._lock = asyncio.Lock()
        self._requests = 0
        self._done = 0
        self._rested = self._rested_for_waiting = 0.0
        self._later: asyncio.Task[None] | None = None
        self._announced: AbstractContextManager[None] = nullcontext()

    def announce(self, within: AbstractContextManager[None]) -> None:
        """``within`` is entered around each run: who watches the process is not to take it for dead."""
        self._announced = within

    @property
    def pending(self) -> bool:
        """Whether deleted text may still be in a file."""
        return self._done < self._requests

    async def resume(self) -> None:
        """Resume the erasures that an earlier process had left. Raises `errors.StateUnavailable`."""
        if await self.state.get_meta(PENDING):
            self._ask()

    async def soon(self) -> None:
        """Something was deleted: drop it from the files in a while.

        Raises:
            StateUnavailable: it is done in a while, but a restart before that will not know.
        """
        fresh = not self.pending
        self._ask()
        if fresh:
            await self.state.set_meta(PENDING, "1")

    async def now(self) -> None:
        """Returns when what was deleted so far is in no file any more. Right behind another time it rests a little.

        Raises:
            StoreUnavailable, StateUnavailable: it may be; it is tried again.
        """
        self._requests += 1
        request_number = self._requests
        rest_s = self._rested_for_waiting - monotonic()
        try:
            if rest_s > self.longest_wait_s:
                words = "The store's files were written anew just now; what was deleted since leaves them later."
                raise StoreUnavailable(words)
            await asyncio.sleep(max(0.0, rest_s))
            await self._run(request_number)
        except MemproxyError:
            self._ask()
            raise

    async def close(self) -> None:
        """Leave pending erasures to the next start."""
        await self._tasks.cancel()

    def _ask(self) -> None:
        self._requests += 1
        if self._later is None or self._later.done():
            self._later = self._tasks.start(self._until_done(), "erase")

    async def _until_done(self) -> None:
        while self.pending:
            await asyncio.sleep(max(self.gather_s, self._rested - monotonic()))
            try:
                await self._run(self._requests)
            except MemproxyError as error:
                log.warning("deleted text may be in files until this works: %s", error.message)
                await asyncio.sleep(AGAIN_S)

    async def _run(self, request_number: int) -> None:
        async with self._lock:
            if self._done >= request_number:
                return
            covered, began = self._requests, monotonic()
            with self._announced:
                await self.store.optimize()
                await self.state.wipe()
            took = monotonic() - began
            metrics().erasure_seconds.observe(took)
            self._rested = monotonic() + rest_after(took)
            self._rested_for_waiting = monotonic() + WAITED_REST * took
            self._done = max(self._done, covered)
            if not self.pending:
                await self.state.set_meta(PENDING, "")
