"""Flush: whose writes the store has not flushed yet, and the lock under which an owner's writes are made.

A row is acknowledged after a flush that began when its writes were done, and rows share flushes. What one lane wrote
and did not flush can be seen by the other, which must not build on it: after a crash it may not be there.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from memproxy.core.scope import OwnerKey
from memproxy.errors import StoreUnavailable
from memproxy.ports import MemoryStore
from memproxy.tasks import happens


class OwnerLocks:
    """A lock for each owner that is being written just now; none is kept for the others."""

    def __init__(self) -> None:
        self._locks: dict[OwnerKey, asyncio.Lock] = {}
        self._users: dict[OwnerKey, int] = {}

    def has_waiters(self, owner: OwnerKey) -> bool:
        """Whether somebody waits for the owner's lock."""
        return self._users.get(owner, 0) > 1

    @asynccontextmanager
    async def of(self, owner: OwnerKey) -> AsyncIterator[None]:
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


GATHER_S = 0.3  # how long a flush gathers others' writes: it takes as long for many as for one, and much processor time


PATIENT_S = 2.5  # how long a patient caller waits for others' flushes: beside traffic one comes every second or two


class Flushes:
    """Counts writes by lane and owner until they are flushed, and lets flushes be shared.

    A flush is asked for in three ways: `flush` at once, `flush_soon` after others' writes had time to come, and
    `flush_with_others` when somebody else asks. All raise `StoreUnavailable` where what was written may not be durable.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._count = 0
        self._unflushed: dict[tuple[str, OwnerKey], int] = {}
        self._waiting = 0
        self._requested = asyncio.Event()
        self._gathering: asyncio.Future[Exception | None] | None = None
        """The result of the flush that others may still join: its error, or None."""
        self._patient: asyncio.Future[bool] | None = None
        """Whether the next flush succeeded, for callers that can wait; False at the end of the worker."""

    @contextmanager
    def of(self, lane: str, owner: OwnerKey) -> Iterator[None]:
        """Within it the lane writes for the owner, whose lock it holds."""
        self._note(lane, owner)
        try:
            yield
        finally:
            self._note(lane, owner)  # a flush that began meanwhile may lack what came after

    def _note(self, lane: str, owner: OwnerKey) -> None:
        self._count += 1
        self._unflushed[lane, owner] = self._count

    async def flush(self) -> None:
        """Returns when everything written before the call is durable."""
        count, patient, flushed = self._count, self._patient, False
        self._patient = None
        try:
            await self._store.flush()
            flushed = True
        finally:
            if patient is not None and not patient.done():
                patient.set_result(flushed)
        self._unflushed = {key: number for key, number in self._unflushed.items() if number > count}

    async def flush_soon(self) -> None:
        """As `flush`, but calls within `GATHER_S` share one flush, unless a caller waits."""
        if not self._store.is_flushed:
            await self.flush()
            return
        if self._gathering is not None:
            if (error := await asyncio.shield(self._gathering)) is not None:
                raise error
            return
        shared = self._gathering = asyncio.get_running_loop().create_future()
        result: Exception | None = StoreUnavailable("A flush was broken off; it is tried again.")
        try:
            await happens(self._requested, GATHER_S)  # others may have come meanwhile
            self._gathering = None  # what is written from now on, this flush may lack
            await self.flush()
            result = None
        except Exception as error:
            result = error
            raise
        finally:
            if self._gathering is shared:
                self._gathering = None
            shared.set_result(result)

    async def flush_with_others(self) -> None:
        """As `flush_soon`, but waits `PATIENT_S` for a flush that others ask for: each one stops requests."""
        if not self._waiting and self._store.is_flushed:
            if self._patient is None:
                self._patient = asyncio.get_running_loop().create_future()
            patient = self._patient
            await asyncio.wait([patient], timeout=PATIENT_S)
            if patient.done() and patient.result():
                return
        await self.flush_soon()

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """A context in which a caller waits for a flush: none is delayed to gather others."""
        self.hurry()
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._requested.clear()

    def hurry(self) -> None:
        """The worker ends: no flush is delayed any more to gather others."""
        self._waiting += 1
        self._requested.set()
        if self._patient is not None and not self._patient.done():
            self._patient.set_result(False)
        self._patient = None

    def press(self) -> None:
        """Rows wait for the next flush: it begins soon."""
        self._requested.set()
        if not self._waiting:
            self._requested.clear()
        self._store.hurry()

    def is_settled(self, lane: str, owner: OwnerKey) -> bool:
        """Whether what the lane wrote for the owner is durable."""
        return (lane, owner) not in self._unflushed

    async def settle(self, lane: str, owner: OwnerKey) -> None:
        """Returns when what the lane wrote for the owner is durable. Callers hold the owner's lock."""
        if not self.is_settled(lane, owner):
            await self.flush()
