"""Flush: whose writes the store has not flushed yet, and the lock under which an owner's writes are made.

A row is acknowledged after a flush that began when its writes were done, and rows share flushes. What one lane wrote
and did not flush can be seen by the other, which must not build on it: after a crash each lane does its own rows again,
in their order, but one lane does not wait for the other.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from memproxy.errors import StoreUnavailable
from memproxy.ports import JournalStore, MemoryStore

Owner = tuple[str, str]


class OwnerLocks:
    """A lock for each owner that is being written just now; none is kept for the others."""

    def __init__(self) -> None:
        self._locks: dict[Owner, asyncio.Lock] = {}
        self._users: dict[Owner, int] = {}

    def wanted(self, owner: Owner) -> bool:
        """Whether somebody waits for the owner's lock."""
        return self._users.get(owner, 0) > 1

    @asynccontextmanager
    async def of(self, owner: Owner) -> AsyncIterator[None]:
        """Hold the owner's lock. Not reentrant."""
        lock = self._locks.setdefault(owner, asyncio.Lock())
        self._users[owner] = self._users.get(owner, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[owner] -= 1
            if not self._users[owner]:
                del self._users[owner], self._locks[owner]


GATHER_S = 0.3
"""How long a flush that nobody waits for lets others' writes come: one takes as long for many rows as for one, and more
processor time than all else that is done behind an answer.
"""


PATIENT_S = 2.5
"""How long who can wait lets others ask for the flush: beside traffic one comes every second or two."""


class Flushes:
    """Counts writes by lane and owner until they are flushed."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._count = 0
        self._unflushed: dict[tuple[str, Owner], int] = {}
        self._waiting = 0
        self._wanted = asyncio.Event()
        self._sharing: list[asyncio.Future[None]] | None = None
        self._patient: list[asyncio.Future[bool]] = []

    @contextmanager
    def of(self, lane: str, owner: Owner) -> Iterator[None]:
        """Within it the lane writes for the owner, whose lock it holds."""
        self._note(lane, owner)
        try:
            yield
        finally:
            self._note(lane, owner)  # a flush that began meanwhile may lack what came after

    def _note(self, lane: str, owner: Owner) -> None:
        self._count += 1
        self._unflushed[lane, owner] = self._count

    async def flush(self) -> None:
        """Returns when everything written before the call is durable.

        Raises:
            StoreUnavailable: it may not be.
        """
        before, patient = self._count, self._patient
        self._patient = []
        flushed = False
        try:
            await self._store.flush()
            flushed = True
        finally:
            _tell(patient, flushed)
        self._unflushed = {key: number for key, number in self._unflushed.items() if number > before}

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Somebody waits within it for what is written: no flush lets others come."""
        self.hurry()
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._wanted.clear()

    def hurry(self) -> None:
        """No flush lets others come any more: the worker ends."""
        self._waiting += 1
        self._wanted.set()
        patient, self._patient = self._patient, []
        _tell(patient, False)

    def press(self) -> None:
        """Rows wait behind what is not flushed: the flush that is to come begins soon."""
        self._wanted.set()
        if not self._waiting:
            self._wanted.clear()
        self._store.hurry()

    async def flush_with_others(self) -> None:
        """As `flush_soon`, but for `PATIENT_S` it waits for a flush that others ask for: while requests are served each
        flush stops them for as long as it takes.

        Raises:
            StoreUnavailable: as `flush`.
        """
        if not await self._flushed_by_others():
            await self.flush_soon()

    async def _flushed_by_others(self) -> bool:
        if self._waiting:
            return False
        flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._patient.append(flushed)
        await asyncio.wait([flushed], timeout=PATIENT_S)
        if flushed in self._patient:
            self._patient.remove(flushed)
            return False
        return await flushed

    async def flush_soon(self) -> None:
        """As `flush`, but all that come within `GATHER_S` share one, where nobody waits.

        Raises:
            StoreUnavailable: as `flush`.
        """
        if self._sharing is None:
            self._sharing = []
            await self._flush_with(self._sharing)
        else:
            shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sharing.append(shared)
            await shared

    async def _flush_with(self, others: list[asyncio.Future[None]]) -> None:
        try:
            await self._gather()
            self._sharing = None  # what is written from now on, this flush may lack
            await self.flush()
        except BaseException as error:
            if self._sharing is others:
                self._sharing = None
            _fail(others, error)
            raise
        for shared in others:
            if not shared.done():
                shared.set_result(None)

    async def _gather(self) -> None:
        with suppress(TimeoutError):  # nobody asked: others may have come meanwhile
            async with asyncio.timeout(GATHER_S):
                await self._wanted.wait()

    async def settle_with_others(self, lane: str, owner: Owner) -> None:
        """Returns when what the lane wrote for the owner until now is durable, as `flush_with_others`.

        Raises:
            StoreUnavailable: it may not be.
        """
        if not self.is_settled(lane, owner):
            await self.flush_with_others()

    def is_settled(self, lane: str, owner: Owner) -> bool:
        """Whether what the lane wrote for the owner is durable."""
        return (lane, owner) not in self._unflushed

    async def settle(self, lane: str, owner: Owner) -> None:
        """Returns when what the lane wrote for the owner is durable. Callers hold the owner's lock.

        Raises:
            StoreUnavailable: it may not be.
        """
        if not self.is_settled(lane, owner):
            await self.flush()


def _tell(patient: Iterable[asyncio.Future[bool]], flushed: bool) -> None:
    """Who waited for others' flush is flushed with it, or asks for its own."""
    for one in patient:
        if not one.done():
            one.set_result(flushed)


def _fail(shared: Iterable[asyncio.Future[None]], error: BaseException) -> None:
    """Who shared a flush that failed has the same error; where its caller had to leave, they try again."""
    told = error if isinstance(error, Exception) else StoreUnavailable("A flush was broken off; it is tried again.")
    for one in shared:
        if not one.done():
            one.set_exception(told)


MOST_S = 0.5
"""So long a captured row waits; then the flush that it waits for waits for no pause any more."""


class FlushPressure:
    """Has a flush hurry when rows of turns have waited for it long enough.

    Args:
        wake: has `look` called again.
    """

    def __init__(self, state: JournalStore, flushes: Flushes, *, wake: Callable[[], None]) -> None:
        self._state = state
        self._flushes = flushes
        self._wake = wake
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """It wakes nobody any more."""
        if self._timer is not None:
            self._timer.cancel()

    async def look(self, *, held: int) -> None:
        """After as many rows were claimed as could be; ``held`` are claimed and not acknowledged.

        Raises:
            StateUnavailable: the state does not answer.
        """
        now = time.monotonic()
        if not held or not (await self._state.queue_sizes()).get("index", {}).get("waiting"):
            self._since = None
        elif self._since is None:
            self._since = now
            self._timer = asyncio.get_running_loop().call_later(MOST_S + 0.02, self._wake)
        elif now - self._since >= MOST_S:
            self._since = None
            self._flushes.press()
