"""Notices a client that leaves, and cancels the work for it within a second."""

import asyncio
from types import TracebackType

from memproxy.relay.request import ClientGone, Request
from memproxy.tasks import TaskOwner

LOOK_AFTER_S = 0.2
"""Most answers are complete before this; only longer ones pay for a task that waits for the client to leave."""


class Hangup:
    """A ``with`` block that is cancelled, and raises `ClientGone`, when the client closes its connection."""

    def __init__(self, request: Request, tasks: TaskOwner) -> None:
        self._request = request
        self._tasks = tasks
        self._worker = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.Task[None] | None = None
        self._gone = False

    def __enter__(self) -> None:
        self._timer = self._loop.call_later(LOOK_AFTER_S, self._begin)

    def _begin(self) -> None:
        if not self._request.received_all:
            self._timer = self._loop.call_later(LOOK_AFTER_S, self._begin)
            return
        self._watch = self._tasks.start(self._wait(), "hangup")

    async def _wait(self) -> None:
        await self._request.gone()
        self._gone = True
        if self._worker is not None:
            self._worker.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()
        if self._gone and self._worker is not None:
            self._worker.uncancel()
            if isinstance(error, asyncio.CancelledError):
                raise ClientGone from error
