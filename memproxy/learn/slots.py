"""So many pieces of work at once, each of which may leave its slot to others while it does something else."""

import asyncio
from collections.abc import Callable


class Slots:
    """The slots of a lane.

    Args:
        most: how many there are.
        freed: called when one was left: somebody new may ask.
    """

    def __init__(self, most: int, freed: Callable[[], None]) -> None:
        self._most = most
        self._freed = freed
        self._semaphore = asyncio.Semaphore(most)
        self._wanted = 0

    @property
    def free(self) -> int:
        """How many can be asked for and had at once; none while somebody waits for one."""
        return max(0, self._most - self._wanted)

    def ask(self) -> "Slot":
        """One that is counted from now on, and had by `Slot.take`."""
        return Slot(self)

    def want(self, change: int) -> None:
        """So many more (or less) are asked for."""
        self._wanted += change

    async def acquire(self) -> None:
        """Wait for one, in the order of asking."""
        await self._semaphore.acquire()

    def release(self) -> None:
        """One can be had by the next."""
        self._semaphore.release()
        self._freed()


class Slot:
    """One piece of work's slot, asked for when it is made."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._asked = self._held = False
        self._ask()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._slots.want(1)

    async def take(self) -> None:
        """Returns when it is held; at once where it already is."""
        if not self._held:
            self._ask()
            await self._slots.acquire()
            self._held = True

    def leave(self) -> None:
        """Let others have it; nothing happens where it was left before."""
        asked, held = self._asked, self._held
        self._asked = self._held = False
        if asked:
            self._slots.want(-1)
        if held:
            self._slots.release()
