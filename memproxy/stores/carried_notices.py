"""Notices of changes that a server carries to other processes: gathered, and sent again until it takes them."""

import asyncio
from collections.abc import Awaitable, Callable

from memproxy.core.changes import Change, ChangeNotices
from memproxy.errors import MemoryUnavailable
from memproxy.tasks import TaskOwner

GATHER_S = 0.03  # how long a change waits so that others can be sent with it
AGAIN_S = 0.5  # after how long it is tried again when the server does not answer
MOST_TOLD = 1_000  # most changes that wait to be sent; beyond it one notice says that anything may have changed

_ANYTHING = ""
"""The notice that replaces more changes than are sent one by one."""

_LONGEST = 7_000  # bytes of one message; PostgreSQL takes 8,000


class CarriedNotices(ChangeNotices):
    """Notices of changes that reach every process on the server. What cannot be told while it is away is told when it
    is back; by then the others have lost their connections, too, and forgotten what they kept.
    """

    def __init__(self, send: Callable[[list[str]], Awaitable[None]], tasks: TaskOwner) -> None:
        """``send`` sends messages; it raises `errors.MemoryUnavailable` where the server does not take them."""
        super().__init__()
        self._send = send
        self._tasks = tasks
        self._waiting: dict[str, None] = {}
        self._sending: asyncio.Task[None] | None = None

    def publish(self, change: Change) -> None:
        self.tell(change)
        message = change.encoded()
        if len(message) > _LONGEST or len(self._waiting) >= MOST_TOLD:
            self._waiting.clear()
            message = _ANYTHING
        if _ANYTHING not in self._waiting:
            self._waiting[message] = None
        if self._sending is None or self._sending.done():
            self._sending = self._tasks.start(self._send_all(), "tell of changes")

    async def _send_all(self) -> None:
        while self._waiting:
            await asyncio.sleep(GATHER_S)
            messages, self._waiting = self._waiting, {}
            try:
                await self._send(list(messages))
            except MemoryUnavailable:
                self._waiting = {**messages, **self._waiting}
                await asyncio.sleep(AGAIN_S)

    def heard(self, message: str) -> None:
        """A notice came, from another process or this one. One that cannot be read may be any change."""
        try:
            change = None if message == _ANYTHING else Change.decoded(message)
        except (ValueError, TypeError):
            change = None
        self.tell(change)
