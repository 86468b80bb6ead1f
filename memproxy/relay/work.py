"""Work on large bodies, beside the event loop: in a few threads of its own, for a while, as long as somebody waits."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from memproxy.errors import Overloaded

OFF_LOOP_BYTES = 256 * 1024
"""Smaller bodies are read where they come in: that takes a millisecond or two, and a thread costs some of that too."""

THREADS = 2

PATIENCE_S = 5.0
"""Longest that a request waits for its body to be read. It goes on untouched then, and the work ends."""

Result = TypeVar("Result")


class Stopped(Exception):
    """Nobody waits for the work any more."""


class Stop:
    """Asked between the steps of a work whether to go on."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Nobody waits any more."""
        self._event.set()

    def check(self) -> None:
        """Return to go on.

        Raises:
            Stopped: nobody waits any more.
        """
        if self._event.is_set():
            raise Stopped


class BodyWork:
    """The threads. What waits for one and is not wanted any more never begins."""

    def __init__(self, *, threads: int = THREADS, patience_s: float = PATIENCE_S) -> None:
        self._pool = ThreadPoolExecutor(threads, "bodies")
        self._patience_s = patience_s

    async def read(self, work: Callable[[Stop], Result]) -> Result:
        """What the work comes to. It is stopped when its time is over, or its request cancelled.

        Raises:
            Overloaded: it took too long.
        """
        stop = Stop()
        try:
            async with asyncio.timeout(self._patience_s):
                return await asyncio.get_running_loop().run_in_executor(self._pool, work, stop)
        except TimeoutError as error:
            raise Overloaded(f"Reading the body took over {self._patience_s:g} s.") from error
        finally:
            stop.set()

    async def run(self, work: Callable[[], Result], size: int) -> Result:
        """What the work on so many bytes comes to, however long it takes: at once where they are few."""
        if size <= OFF_LOOP_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """End the threads; what has not begun never will."""
        self._pool.shutdown(wait=False, cancel_futures=True)
