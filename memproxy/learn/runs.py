"""Runs: consecutive rows of one owner, handled in their order and acknowledged by flushes that they share; and a
lane's slots, in which they are handled.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from memproxy.errors import StateUnavailable, StoreUnavailable
from memproxy.learn.acknowledge import Acknowledger
from memproxy.learn.early_deletes import EarlyDeletes
from memproxy.learn.index import together
from memproxy.learn.parts import Parts
from memproxy.metrics import metrics
from memproxy.ports import JournalKind, JournalRow
from memproxy.tasks import TaskOwner


class Slots:
    """A lane's slots: a semaphore for pieces of work, whose holder can give its slot back early.

    Args:
        most: how many there are.
        freed: called when one was left: somebody new may ask.
    """

    def __init__(self, most: int, freed: Callable[[], None]) -> None:
        self.most = most
        self.freed = freed
        self.semaphore = asyncio.Semaphore(most)
        self.asked = 0

    @property
    def free(self) -> int:
        """How many slots are free at once; 0 while somebody waits for one."""
        return max(0, self.most - self.asked)


class Slot:
    """The slot of one piece of work: requested when made, held from `take` to `leave`."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = False
        self._asked = True
        slots.asked += 1

    async def take(self) -> None:
        """Returns when it is held; at once where it already is."""
        if self._held:
            return
        self._slots.asked += not self._asked
        self._asked = True
        await self._slots.semaphore.acquire()
        self._held = True

    def leave(self) -> None:
        """Let others have it; nothing happens where it was left before."""
        self._slots.asked -= self._asked
        was_held, self._held, self._asked = self._held, False, False
        if was_held:
            self._slots.semaphore.release()
            self._slots.freed()


log = logging.getLogger(__name__)

Handle = Callable[[Sequence[JournalRow], Slot], Awaitable[None]]
"""Handles one row, or several of turns in one scope. It may leave the slot early."""


class Runs:
    """Handles runs, each in a task of its own, which ``tasks`` owns."""

    def __init__(self, parts: Parts, acknowledger: Acknowledger, early_deletes: EarlyDeletes, tasks: TaskOwner) -> None:
        self._scheduler = parts.scheduler
        self._flushes = parts.flushes
        self._acknowledger = acknowledger
        self._early_deletes = early_deletes
        self._tasks = tasks
        self._stopping = False

    def begin(self, rows: Sequence[JournalRow], slot: Slot, handle: Handle, *, each: bool) -> None:
        """Handle these rows of one owner. With ``each`` a flush begins behind every row, while the next one is being
        handled (which takes long, because a model is asked); without, when all are.
        """
        self._tasks.start(self._work(rows, slot, handle, each=each), "run")

    def stop(self) -> None:
        """No run begins another row; what it did not begin stays claimed."""
        self._stopping = True
        self._scheduler.end()
        self._flushes.hurry()

    async def _work(self, rows: Sequence[JournalRow], slot: Slot, handle: Handle, *, each: bool) -> None:
        entry = rows[0].entry

        async def flush() -> None:
            """Flush what was learned with others' writes, while the engine is busy and no caller waits."""
            if entry.kind is JournalKind.LEARN and self._scheduler.is_patient(entry.scope.owner):
                await self._flushes.flush_with_others()
            else:
                await self._flushes.flush_soon()

        ending = _Ending(flush, self._acknowledger, self._tasks, each=each)
        try:
            left = await self._handle(rows, slot, handle, ending)
        finally:
            slot.leave()
        await ending.end(left)

    async def _handle(
        self, rows: Sequence[JournalRow], slot: Slot, handle: Handle, ending: "_Ending"
    ) -> list[JournalRow]:
        """Handle rows in their order; a row that must wait stops those behind it. Returns the rows not begun because a
        flush had failed.
        """
        groups = deque(together(rows))
        while groups:
            await slot.take()
            if self._stopping:
                return []
            if ending.failure is not None:
                break
            group, keys = groups.popleft(), self._acknowledger.new_keys
            try:
                await handle(group, slot)
            except Exception as error:  # noqa: BLE001 - the acknowledger logs and counts it
                # of several rows each is tried alone, to see whose failure it is
                if len(group) > 1 and not isinstance(error, (StoreUnavailable, StateUnavailable)):
                    groups.extendleft([row] for row in reversed(group))
                    continue
                rows = [*group, *itertools.chain(*groups)]
                if isinstance(error, StoreUnavailable):
                    done = await self._deleted_ahead(rows, slot, handle)
                    ending.add(done)
                    rows = [row for row in rows if row not in done]
                    if group[0] in done:
                        await self._acknowledger.release(rows)
                        return []
                if not await self._acknowledger.failed(group[0], error, keys):
                    await self._acknowledger.release(rows[1:])
                    return []
            else:
                ending.add(group)
        return list(itertools.chain(*groups))

    async def _deleted_ahead(self, rows: Sequence[JournalRow], slot: Slot, handle: Handle) -> list[JournalRow]:
        """Carry out the deletions that may go ahead of the first of these rows, for which the store has no room; the
        rows that are done with it.

        The first row is still claimed, and with it nobody else handles rows of its owner and lane.
        """
        done, before = list[JournalRow](), [rows[0]]
        for row in self._early_deletes.behind(rows):
            if self._stopping:
                break
            try:
                if goes := await self._early_deletes.may_go(row, before):
                    erased = await self._early_deletes.erase(row, before)
                    done += erased
                    before = [one for one in before if one not in erased]
                    await handle([row], slot)
            except StoreUnavailable:
                goes = False  # what it deletes is gone by now where that takes no room; the rest of it waits
            except Exception:  # the row is handled again in its order, and its failure is settled then
                metrics().internal_errors.labels(where="learn.deletion").inc()
                log.warning("row %d could not go ahead of what waits for room", row.number, exc_info=True)
                goes = False
            if not goes:
                before.append(row)
                continue
            erased = self._early_deletes.erased(row, before)
            done += [*erased, row]
            before = [one for one in before if one not in erased]
        return done


class _Ending:
    """Acknowledges the applied rows of a run, after a flush that begins later.

    After a flush that failed nothing of the run is acknowledged any more. What was applied is put back when the run has
    stopped, and not before: else its first row would be claimed again while a later one is still being handled.
    """

    def __init__(
        self, flush: Callable[[], Awaitable[None]], acknowledger: Acknowledger, tasks: TaskOwner, *, each: bool
    ) -> None:
        self._flush = flush
        self._acknowledger = acknowledger
        self._tasks = tasks
        self._each = each
        self._applied: list[JournalRow] = []
        self._task: asyncio.Task[None] | None = None
        self.failure: Exception | None = None

    def add(self, rows: Sequence[JournalRow]) -> None:
        """These were applied, in their order."""
        self._applied += rows
        if self._each and (self._task is None or self._task.done()):
            self._task = self._tasks.start(self._acknowledge(), "acknowledge")

    async def _acknowledge(self) -> None:
        while self._applied and self.failure is None:
            rows, self._applied = self._applied, []
            try:
                await self._flush()
            except Exception as error:  # noqa: BLE001 - `end` hands it to the acknowledger, which logs and counts it
                self._fail(rows, error)
            else:
                await asyncio.gather(*(self._acknowledger.end(row) for row in rows))

    def _fail(self, rows: list[JournalRow], error: Exception) -> None:
        """These are not acknowledged; nothing more is."""
        self._applied, self.failure = rows + self._applied, error

    async def end(self, left: Sequence[JournalRow]) -> None:
        """Returns when all that was applied is acknowledged, or put back together with what is ``left``."""
        if self._task is not None:
            await self._task
        await self._acknowledge()
        if self.failure is None:
            return
        rows = [*self._applied, *left]
        await self._acknowledger.failed(rows[0], self.failure, self._acknowledger.new_keys)
        await self._acknowledger.release(rows[1:])
