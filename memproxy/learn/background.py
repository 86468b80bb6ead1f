"""Learning goes on in pieces, between what requests wait for.

A session that is learned from takes some 50 ms of the event loop: reading what is known, comparing, planning, writing.
Beside a hundred exchanges a second that is time which their recalls wait for. So every piece of it (from one `await` to
the next) is put off while something goes before it, but for a share that is learning's even then.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast

import msgspec

from memproxy.learn.flush import Owner

Result = TypeVar("Result")

PIECE_S = 0.001
"""Processor time of learning after which the event loop looks at what has come."""

SHARE = 0.05
"""Of the event loop's time, learning's where something always goes before it: in minutes without a pause it goes on."""

SAVED_S = 0.01
"""Most of its share that learning saves up: so long does it run at once beside what goes before it."""

LATELY_S = 1.0
BUSY_FROM = 20
"""So many things that went before learning within `LATELY_S` are traffic; one person's chat is not."""

_LOOK_S = 0.02
"""How often it is looked whether somebody has come who waits for what a piece holds."""


class _Waiting(msgspec.Struct, eq=False):
    """A piece that is put off."""

    owner: Owner
    turn: asyncio.Future[None]


class Background:
    """Says when learning's next piece may run.

    Args:
        wanted: whether somebody waits for what learning holds of this owner (its lock): then it is put off no longer.
        clock: seconds; by default those since some moment.
        used: processor seconds of this thread.
    """

    def __init__(
        self,
        wanted: Callable[[Owner], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.thread_time,
    ) -> None:
        self._wanted = wanted
        self._clock = clock
        self._used = used
        self._before = 0
        self._lately: deque[float] = deque(maxlen=BUSY_FROM)
        self._hurrying: Counter[Owner] = Counter()
        self._ending = False
        self._waiting: deque[_Waiting] = deque()
        self._running = False
        self._spent = 0.0
        self._saved, self._counted = SAVED_S, clock()
        self._next: asyncio.Handle | None = None
        self._in_a_while = False

    @contextmanager
    def going_before(self) -> Iterator[None]:
        """Something goes before learning within it: a request waits for it, or what was told is to be found soon."""
        self._before += 1
        try:
            yield
        finally:
            self._before -= 1
            self._lately.append(self._clock())
            if not self._before and self._waiting:
                self._look()

    def is_patient(self, owner: Owner) -> bool:
        """Whether what is learned from this owner may wait for others' flushes: there is traffic, and nobody waits for
        it.
        """
        traffic = len(self._lately) == BUSY_FROM and self._clock() - self._lately[0] < LATELY_S
        return traffic and not self._ending and not self._hurries(owner)

    @contextmanager
    def hurrying(self, owner: Owner) -> Iterator[None]:
        """Within it this owner's pieces are not put off."""
        self._hurrying[owner] += 1
        try:
            yield
        finally:
            self._hurrying[owner] -= 1
            if not self._hurrying[owner]:
                del self._hurrying[owner]

    def end(self) -> None:
        """Nothing is put off any more: the worker ends."""
        self._ending = True
        if self._waiting:
            self._look()

    async def run(self, work: Coroutine[Any, Any, Result], owner: Owner) -> Result:
        """Await ``work``, which is done for this owner, in pieces."""
        return await _Pieces(self, work, owner)

    async def turn(self, owner: Owner) -> None:
        """Returns when a piece may run; it is followed by `ran`."""
        if self._waiting or not self._may_run(owner):
            waiting = _Waiting(owner, asyncio.get_running_loop().create_future())
            self._waiting.append(waiting)
            self._plan(at_once=self._hurries(owner))
            try:
                await waiting.turn
            except asyncio.CancelledError:
                self._leave(waiting)
                raise
        self._running = True

    def ran(self, seconds: float) -> None:
        """The piece took so much processor time."""
        self._running = False
        self._spent += seconds
        if self._before:
            self._saved = max(self._share() - seconds, -SAVED_S)
        self._plan()

    def processor_s(self) -> float:
        """Processor time until now; differences tell."""
        return self._used()

    def _leave(self, waiting: _Waiting) -> None:
        """It waits no more; where its turn had come, that is the next one's."""
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        else:
            self._running = False
            self._plan()

    def _share(self) -> float:
        """What learning has saved up of its share by now, in seconds; less than nothing: what it ran too long."""
        now = self._clock()
        self._saved = min(SAVED_S, self._saved + (now - self._counted) * SHARE)
        self._counted = now
        return self._saved

    def _may_run(self, owner: Owner) -> bool:
        return not self._running and self._spent < PIECE_S and (self._ending or self._goes(owner))

    def _goes(self, owner: Owner) -> bool:
        return not self._before or self._hurries(owner) or self._share() > 0

    def _hurries(self, owner: Owner) -> bool:
        return owner in self._hurrying or self._wanted(owner)

    def _plan(self, *, at_once: bool = False) -> None:
        """Look again where there is something to look for: behind what has come meanwhile, ``at_once`` also where it is
        to be looked in a while.
        """
        if at_once and self._next is not None and self._in_a_while:
            self._next.cancel()
            self._next = None
        if self._next is None and (self._waiting or self._spent):
            self._next, self._in_a_while = asyncio.get_running_loop().call_soon(self._look), False

    def _look(self) -> None:
        """Let the next piece run, where one may; called in a turn of the event loop of its own."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._spent = 0.0
        if self._running or not self._waiting:
            return
        there = [one for one in self._waiting if not one.turn.done()]  # one that was cancelled does not know it yet
        if not there:
            return
        first = next((one for one in there if self._hurries(one.owner)), there[0])
        if self._may_run(first.owner):
            self._waiting.remove(first)
            self._running = True
            first.turn.set_result(None)
            return
        until = min(max(-self._share() / SHARE, PIECE_S), _LOOK_S)
        self._next, self._in_a_while = asyncio.get_running_loop().call_later(until, self._look), True


class _Pieces(Generic[Result]):
    """Awaits a coroutine, each of its pieces when it has its turn."""

    def __init__(self, background: Background, work: Coroutine[Any, Any, Result], owner: Owner) -> None:
        self._background = background
        self._work = work
        self._owner = owner

    def __await__(self) -> Generator[Any, Any, Result]:
        background = self._background
        error: BaseException | None = None
        try:
            while True:
                if error is None:  # a cancellation is told at once
                    error = yield from _raised(background.turn(self._owner).__await__())
                began = background.processor_s()
                try:
                    awaited = self._work.send(None) if error is None else self._work.throw(error)
                except StopIteration as ended:
                    return cast(Result, ended.value)
                finally:
                    background.ran(background.processor_s() - began)
                error = yield from _raised(_one(awaited))
        finally:
            self._work.close()


def _one(awaited: object) -> Generator[Any, Any, None]:
    """Hand on what the coroutine waits for to the task that runs it."""
    yield awaited


def _raised(waiting: Generator[Any, Any, None]) -> Generator[Any, Any, BaseException | None]:
    """Wait; what a task raised into it meanwhile (its cancellation, or that it cannot wait for this), which is for the
    coroutine to see.
    """
    try:
        yield from waiting
    except (asyncio.CancelledError, RuntimeError) as error:
        return error
    return None
