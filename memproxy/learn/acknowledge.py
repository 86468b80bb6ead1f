"""Acknowledge: how rows end (done, refused, parked, or put back until their time comes), and who waits for it."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from time import monotonic

from memproxy import errors
from memproxy.core.scope import OwnerKey
from memproxy.errors import MemproxyError, ModelAwaited, ModelRefused, StateUnavailable
from memproxy.learn.model_outages import COUNTED, OUTAGE, WaitingRows, delay_s
from memproxy.learn.parts import Parts
from memproxy.logs import LogLimit
from memproxy.metrics import metrics
from memproxy.ports import Ending, JournalKind, JournalRow
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

POLL_S = 1.0
LOOKS_S = (0.02, 0.25)  # first and longest pause between two looks for what another engine may have done

_KEY_WAIT_S = 300.0
_MOST_OUTCOMES = 10_000

_REASONS: dict[type[Exception], str] = {
    errors.StoreUnavailable: "store",
    StateUnavailable: "store",
    ModelRefused: "key",
    errors.ModelUnavailable: "model",
    errors.BudgetSpent: "tokens",
    errors.RequestError: "refused",
    MemproxyError: "failed",
}
"""What the metric calls a failure, the first that fits."""


class Acknowledger:
    """Writes how claimed rows end; ``tasks`` owns what goes on then. ``ended`` is called with True when a row ended and
    False when it was put back, ``wake`` when rows may be claimed that waited.
    """

    def __init__(
        self, parts: Parts, tasks: TaskOwner, *, ended: Callable[[JournalRow, bool], None], wake: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._max_attempts = parts.settings.learn.max_attempts
        self.waiting_rows = WaitingRows(parts.outages, parts.clock, parts.settings.learn.max_outage_s)
        """Which rows wait for a model that does not answer."""
        self._tasks = tasks
        self._ended = ended
        self._wake = wake
        self.held: dict[int, JournalRow] = {}  # rows that are claimed and have not ended
        self._outages: dict[int, int] = {}
        self._waiting: set[OwnerKey] = set()
        self._keyless: dict[int, str] = {}
        self._keyless_until: dict[str, float] = {}
        metrics().learn_key_waits.set(0)
        self.new_keys = 0
        self.troubles = LogLimit()  # bounds what is logged of a state or store that does not answer
        self._outcomes: OrderedDict[int, MemproxyError | None] = OrderedDict()
        self._waiters: dict[int, asyncio.Future[None]] = {}

    def learning(self, owner: OwnerKey | None) -> list[int]:
        """The rows being learned from now, of this owner or of all."""
        rows = [row for row in self.held.values() if row.entry.kind is JournalKind.LEARN]
        return [row.number for row in rows if owner in {None, row.entry.scope.owner}]

    def waits(self, owner: OwnerKey) -> bool:
        """Whether the owner's index lane waits for the store."""
        return owner in self._waiting

    async def release_all(self) -> None:
        """Release all claims, so that the next start takes the rows up at once."""
        now = self._parts.clock.now()
        for number in list(self.held):
            try:
                await self._parts.state.retry(number, error="released at shutdown", due=now, counted=False)
            except StateUnavailable as error:
                log.warning("row %d could not be released (%s); the next start takes it up", number, error)

    @property
    def keyless_tenants(self) -> list[str]:
        """Tenants whose models this engine has no key for; an engine that has one learns for them."""
        now = monotonic()
        for tenant in [tenant for tenant, until in self._keyless_until.items() if until <= now]:
            del self._keyless_until[tenant]
            for number in [number for number, of in self._keyless.items() if of == tenant]:
                self._has_key(number)
        return list(self._keyless_until)

    def new_key(self, tenant: str) -> None:
        """The tenant's requests bring another key: make the rows due that wait for one."""
        self.new_keys += 1
        self._keyless_until.pop(tenant, None)
        if numbers := [number for number, of in self._keyless.items() if of == tenant]:
            self._tasks.start(self._go_on(numbers), "rows with another key")

    def model_answers(self, outage: int) -> None:
        """That outage of a model is over: make the rows due that wait for its end."""
        if numbers := self.waiting_rows.over(outage):
            self._tasks.start(self._go_on(numbers), f"rows after outage {outage}")

    async def _go_on(self, numbers: Sequence[int]) -> None:
        """Make rows due, if they still wait: one that is claimed or parked by now would be lost if it was put back."""
        await self._settle(lambda: self._parts.state.make_due(numbers, self._parts.clock.now()))
        self._wake()

    async def applied(self, number: int, timeout_s: float) -> bool:
        """True when that row ended well, False if not within ``timeout_s``. Raises the error of one given up."""
        if number not in self._outcomes:
            waiter = self._waiters.setdefault(number, asyncio.get_running_loop().create_future())
            if self._parts.state.is_shared:
                await self._ended_anywhere(number, waiter, timeout_s)
            else:
                await asyncio.wait([waiter], timeout=timeout_s)
        if number not in self._outcomes:
            return False
        if (error := self._outcomes[number]) is not None:
            raise error
        return True

    async def _ended_anywhere(self, number: int, waiter: asyncio.Future[None], timeout_s: float) -> None:
        """Returns when the row has ended, here or by another engine, or after ``timeout_s``."""
        until, pause_s = monotonic() + timeout_s, LOOKS_S[0]
        while (remaining_s := until - monotonic()) > 0 and not waiter.done():
            await asyncio.wait([waiter], timeout=min(remaining_s, pause_s))
            pause_s = min(2 * pause_s, LOOKS_S[1])
            if waiter.done() or number in self.held:
                continue
            try:
                ending = await self._parts.state.ending(number)
            except StateUnavailable:
                continue  # it goes on waiting for its row meanwhile
            if ending is not None and number not in self.held:
                self._tell(number, None if ending.error is None else error_of(ending))

    async def end(self, row: JournalRow, error: MemproxyError | None = None) -> None:
        """The row is done, or with an ``error`` refused for good."""
        message = error.message if error is not None else None
        if error is not None:
            # a row that is gone is nobody's fault: its owner was erased, or another replica has it
            level = logging.INFO if isinstance(error, errors.NotFound) else logging.ERROR
            log.log(level, "row %d (%s) is refused: %s", row.number, row.entry.kind.value, error)
        kind = MemproxyError.__name__ if error is None else type(error).__name__
        await self._settle(lambda: self._parts.state.finish(row.number, error=message, kind=kind))
        self._settle_row(row, error)

    def rows_erased(self, numbers: Sequence[int]) -> None:
        """These rows were erased, even while they are handled. Their waiters return as if they had been done before."""
        for number in numbers:
            self._outages.pop(number, None)
            self._has_key(number)
            self._tell(number, None)

    async def failed(self, row: JournalRow, error: Exception, keys_before: int) -> bool:
        """Settle a row by its error; whether those behind it may go on. ``keys_before``: `new_keys` at its begin."""
        reason = next((word for kind, word in _REASONS.items() if isinstance(error, kind)), "fault")
        metrics().learn_failures.labels(reason).inc()
        if not isinstance(error, ModelRefused):
            self._has_key(row.number)
        match error:
            case errors.StoreUnavailable() | StateUnavailable():
                await self._postpone(row, error)
            case ModelRefused():
                await self._await_key(row, error, keys_before)
            case ModelAwaited():
                await self._await_model(row, error)
            case errors.BudgetSpent():
                await self._put_back(row, error.message, error.until, counted=False)
            case errors.RequestError():
                await self.end(row, error)
                return True
            case MemproxyError():
                await self._count(row, error)
            case _:  # logged with its trace, tried again and then parked like any other failure.
                metrics().internal_errors.labels(where=f"learn.{row.entry.kind.value}").inc()
                log.error("row %d (%s) failed unexpectedly", row.number, row.entry.kind.value, exc_info=error)
                message = f"{type(error).__name__} while handling the row; see the log"
                await self._count(row, MemproxyError(message))
        return False

    async def release(self, rows: Sequence[JournalRow]) -> None:
        """Put back rows that were not begun, or must be done again, because one before them failed."""
        for row in rows:
            await self._put_back(row, "waits for an earlier row of its owner", self._parts.clock.now(), counted=False)

    async def _count(self, row: JournalRow, error: MemproxyError) -> None:
        """A counted failure: tried again later, or parked after the last try."""
        tries = row.attempts + 1
        if tries >= self._max_attempts:
            await self._park(row, error, f"after {tries} tries")
            return
        delay = delay_s(COUNTED, tries)
        log.warning("row %d (%s) failed, tried again in %.0f s: %s", row.number, row.entry.kind.value, delay, error)
        await self._put_back(row, error.message, self._in(delay), counted=True)

    async def _park(self, row: JournalRow, error: MemproxyError, when: str) -> None:
        log.error("row %d (%s) is parked %s: %s", row.number, row.entry.kind.value, when, error)
        await self._settle(lambda: self._parts.state.park(row.number, error=error.message))
        self._settle_row(row, error)

    async def _await_model(self, row: JournalRow, error: ModelAwaited) -> None:
        """Settle a row whose model does not answer: a failure of the row only if the model answers other rows."""
        if self.waiting_rows.is_its_own(row, error):
            await self._count(row, error)
        elif (waited_s := self.waiting_rows.waited_s(row)) >= self.waiting_rows.most_s:
            await self._park(row, error, f"after {waited_s:.0f} s without an answer of its model")
        else:
            metrics().internal_errors.labels(where="learn.model_outage").inc()
            due = self.waiting_rows.due(row, error)
            await self._put_back(row, error.message, due, counted=False)

    async def _postpone(self, row: JournalRow, error: MemproxyError) -> None:
        """An outage: nothing is counted against the row."""
        outages = self._outages[row.number] = self._outages.get(row.number, 0) + 1
        if outages == 1:
            log.warning("row %d (%s) waits: %s", row.number, row.entry.kind.value, error)
        metrics().internal_errors.labels(where="learn.outage").inc()
        if row.entry.kind is not JournalKind.LEARN:
            self._waiting.add(row.entry.scope.owner)
        await self._put_back(row, error.message, self._in(delay_s(OUTAGE, outages)), counted=False)

    async def _await_key(self, row: JournalRow, error: ModelRefused, keys_before: int) -> None:
        if self.new_keys != keys_before:
            await self._put_back(row, error.message, self._parts.clock.now(), counted=False)
            return
        tenant = row.entry.scope.tenant
        log.warning("row %d waits for a model key: %s", row.number, error)
        self._keyless[row.number] = tenant
        metrics().learn_key_waits.set(len(set(self._keyless.values())))
        # it waits in the journal, not as a running row: it must not be blamed when the engine dies meanwhile
        wait_s = _KEY_WAIT_S
        if self._parts.state.is_shared:
            self._keyless_until[tenant] = monotonic() + _KEY_WAIT_S
            wait_s = 0.0
        await self._put_back(row, error.message, self._in(wait_s), counted=False)
        if self.new_keys != keys_before:  # it came while that was written
            await self._go_on([row.number])

    def _has_key(self, number: int) -> None:
        """The row does not wait for a key (any more). Until this is called, a retried row counts as waiting."""
        self._keyless.pop(number, None)
        metrics().learn_key_waits.set(len(set(self._keyless.values())))

    def _in(self, delay_s: float) -> datetime:
        return self._parts.clock.now() + timedelta(seconds=delay_s)

    async def _put_back(self, row: JournalRow, message: str, due: datetime, *, counted: bool) -> None:
        await self._settle(lambda: self._parts.state.retry(row.number, error=message, due=due, counted=counted))
        self.held.pop(row.number, None)
        self._ended(row, False)

    async def _settle(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write how a row ended; without it the row would stay claimed, so it is tried until the state answers."""
        while True:
            try:
                await write()
            except StateUnavailable as error:
                state_trouble(self.troubles, "settle", error)
                await asyncio.sleep(POLL_S)
            else:
                return

    def _settle_row(self, row: JournalRow, error: MemproxyError | None) -> None:
        self.held.pop(row.number, None)
        self._outages.pop(row.number, None)
        self._has_key(row.number)
        if row.entry.kind is not JournalKind.LEARN:
            self._waiting.discard(row.entry.scope.owner)
        self.waiting_rows.ended(row)
        self._tell(row.number, error)
        self._ended(row, True)

    def _tell(self, number: int, error: MemproxyError | None) -> None:
        self._outcomes[number] = error
        while len(self._outcomes) > _MOST_OUTCOMES:
            self._outcomes.popitem(last=False)
        if (waiter := self._waiters.pop(number, None)) is not None and not waiter.done():
            waiter.set_result(None)


def error_of(ending: Ending) -> MemproxyError:
    """The error that a row ended with at another engine."""
    kind = getattr(errors, ending.kind, MemproxyError)
    is_ours = isinstance(kind, type) and issubclass(kind, MemproxyError)
    return (kind if is_ours else MemproxyError)(ending.error or "")


def state_trouble(limit: LogLimit, where: str, error: MemproxyError) -> None:
    """Note that the state or the store did not answer; the caller tries again. ``limit`` bounds what is logged."""
    metrics().internal_errors.labels(where=f"learn.{where}").inc()
    if count := limit.due(f"{where}: {error.message}"):
        log.warning("%s: %s; tried again (%d times since this was told)", where, error, count)
