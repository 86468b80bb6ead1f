"""One thread of one's own: for libraries that block and have a single owner."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class OwnThread:
    """Runs blocking calls one after the other in a single thread, in the order they were asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        """Wait for ``work()``. A cancelled caller leaves; work that has begun is finished."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Let the thread end after what was asked for; does not wait. A later call has a new thread."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None
