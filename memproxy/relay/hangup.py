"""Notices a client that leaves, and cancels the work for it within a second."""

import asyncio
from types import TracebackType

from memproxy.relay.request import ClientGone, Request
from memproxy.tasks import TaskOwner

LOOK_AFTER_S = 0.2
"""Most answers are complete before this; only longer ones pay for a task that waits for the client to leave."""


class Hangups:
    """The requests whose clients may leave. One timer looks after all of them: one for each request would cost each."""

    def __init__(self, tasks: TaskOwner) -> None:
        self._tasks = tasks
        self._young: dict[Hangup, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watching(self, request: Request) -> "Hangup":
        """A ``with`` block that is cancelled, and raises `ClientGone`, when the client closes its connection."""
        return Hangup(request, self)

    def add(self, watched: "Hangup") -> None:
        """Look whether its client is there, a while from now."""
        loop = asyncio.get_running_loop()
        self._young[watched] = loop.time() + LOOK_AFTER_S
        if self._timer is None:
            self._timer = loop.call_later(LOOK_AFTER_S, self._look)

    def discard(self, watched: "Hangup") -> None:
        """It is over. The timer stays, for the next one."""
        self._young.pop(watched, None)

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = [watched for watched, when in self._young.items() if when <= now]
        for watched in due:
            del self._young[watched]
            if not watched.begin(self._tasks):
                self._young[watched] = now + LOOK_AFTER_S
        if self._young:
            # The first one is the oldest: each is added behind those that were there.
            self._timer = loop.call_later(max(0.0, next(iter(self._young.values())) - now), self._look)


class Hangup:
    """One request, as `Hangups.watching` says."""

    __slots__ = ("_all", "_gone", "_request", "_watch", "_worker")

    def __init__(self, request: Request, hangups: Hangups) -> None:
        self._request = request
        self._all = hangups
        self._worker = asyncio.current_task()
        self._watch: asyncio.Task[None] | None = None
        self._gone = False

    def __enter__(self) -> None:
        self._all.add(self)

    def begin(self, tasks: TaskOwner) -> bool:
        """Begin to wait for the client to leave; False while its body is still being read."""
        if not self._request.received_all:
            return False
        self._watch = tasks.start(self._wait(), "hangup")
        return True

    async def _wait(self) -> None:
        await self._request.gone()
        self._gone = True
        if self._worker is not None:
            self._worker.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._all.discard(self)
        if self._watch is not None:
            self._watch.cancel()
        if self._gone and self._worker is not None:
            self._worker.uncancel()
            if isinstance(error, asyncio.CancelledError):
                raise ClientGone from error
