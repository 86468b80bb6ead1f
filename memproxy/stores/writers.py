"""Who writes to a store just now, and what: for a rebuild, which must miss no write and switch between two."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager


class Writers:
    """Lets writes run side by side, holds them back while asked to, and notes what they changed while asked to."""

    def __init__(self) -> None:
        self._running = 0
        self._allowed = asyncio.Event()
        self._allowed.set()
        self._nobody = asyncio.Event()
        self._nobody.set()
        self._pausing = asyncio.Lock()
        self._changed: set[str] | None = None

    @property
    def noting(self) -> bool:
        """Whether changes are noted."""
        return self._changed is not None

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Somebody writes within it. Waits while `paused`."""
        await self._allowed.wait()
        self._running += 1
        self._nobody.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._nobody.set()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Within it nobody writes: begins when those who do have ended. Of two, one waits for the other."""
        async with self._pausing:
            self._allowed.clear()
            try:
                await self._nobody.wait()
                yield
            finally:
                self._allowed.set()

    def note(self, places: Iterable[str]) -> None:
        """These may have changed. Told after the write: told before, it could be read too early and then missed."""
        if self._changed is not None:
            self._changed.update(places)

    def start_noting(self) -> None:
        """Note changes from now on."""
        self._changed = set()

    def stop_noting(self) -> None:
        """Note nothing any more."""
        self._changed = None

    def take(self) -> set[str]:
        """What changed since the last call."""
        changed, self._changed = self._changed or set(), set() if self._changed is not None else None
        return changed
