"""One writer for each owner: both lanes read, decide and write under the owner's lock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
