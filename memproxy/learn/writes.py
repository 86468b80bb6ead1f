"""Whose writes the store has not flushed yet.

A row is acknowledged after a flush that began when its writes were done, and rows share flushes. What one lane wrote
and did not flush can be seen by the other, which must not build on it: after a crash each lane does its own rows again,
in their order, but one lane does not wait for the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from memproxy.learn.locks import Owner
from memproxy.ports import MemoryStore


class Writes:
    """Counts writes by lane and owner until they are flushed."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._count = 0
        self._unflushed: dict[tuple[str, Owner], int] = {}

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
        before = self._count
        await self._store.flush()
        self._unflushed = {key: number for key, number in self._unflushed.items() if number > before}

    async def settle(self, lane: str, owner: Owner) -> None:
        """Returns when what the lane wrote for the owner is durable. Callers hold the owner's lock.

        Raises:
            StoreUnavailable: it may not be.
        """
        if (lane, owner) in self._unflushed:
            await self.flush()
