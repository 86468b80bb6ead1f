"""The worker of the engine: claims journal rows, hands them to the lane they belong to, and settles how they end.
Callers wait at it until a row is applied, an owner's turns are indexed, or a session is learned from. Consecutive rows
of one owner are a run: handled in their order, and acknowledged by flushes that they share.

Order of shutdown (`close`): nothing new is claimed or begun; rows that run get their grace; what is left is released,
so that the next start takes it up at once. A kill at any point is the same, but for the release.
"""

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import msgspec

from memproxy.core.protocol import SILENT, LearnBody, PlanBody
from memproxy.core.scope import OwnerKey, Scope
from memproxy.errors import MemproxyError, StateUnavailable, StoreUnavailable
from memproxy.learn.access import ModelAccess
from memproxy.learn.acknowledge import LOOKS_S, POLL_S, Acknowledger, state_trouble
from memproxy.learn.apply import Applier
from memproxy.learn.budget import TokenMeter, charged_to
from memproxy.learn.cooperative import Scheduler
from memproxy.learn.dreamer import Dreamer
from memproxy.learn.early_deletes import EarlyDeletes
from memproxy.learn.extract import MINE
from memproxy.learn.flush import Flushes, OwnerLocks
from memproxy.learn.index import Indexer, together
from memproxy.learn.judge import Judge
from memproxy.learn.learner import END, Learner
from memproxy.learn.memory_vectors import Vectors
from memproxy.learn.model_outages import ModelOutages, SparedModel
from memproxy.learn.parts import Parts
from memproxy.learn.plan import Planner
from memproxy.learn.triggers import Triggers
from memproxy.metrics import metrics
from memproxy.ports import (
    ChatModel,
    Clock,
    Embedder,
    JournalEntry,
    JournalKind,
    JournalRow,
    LexicalEncoder,
    MemoryStore,
    StateStore,
    UsageStore,
    WorkingApart,
)
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner, happens
from memproxy.traces import Traces

log = logging.getLogger(__name__)

_LANES = ("index", "learn")

_INDEX_WIDTH = 8  # owners whose turns are indexed at once; ``learn.concurrency`` is the same for learning
_RUN = 32  # rows of one owner that are claimed and acknowledged together: the flush takes longest of all
_MODEL_RUN = 8  # the same for rows that ask a model: they hold a slot for long, and after a crash each counts as tried
_MOST_HELD = 1024  # rows claimed at once, most of them waiting for a flush: bounds memory, and what a crash repeats
_MOST_FLUSH_WAIT_S = 0.5  # after this long a captured row's flush waits for no pause in searches any more
_LEAST_PAUSE_S = 0.05  # shortest time between two looks, however often the worker is woken


class Slots:
    """A lane's slots: a semaphore whose holder can give its slot back early. ``freed`` is called when one was."""

    def __init__(self, most: int, freed: Callable[[], None]) -> None:
        self._most = most
        self.freed = freed
        self.semaphore = asyncio.Semaphore(most)
        self.requested: set[Slot] = set()

    @property
    def free(self) -> int:
        """How many slots are free at once; 0 while somebody waits for one."""
        return max(0, self._most - len(self.requested))


class Slot:
    """The slot of one piece of work: requested when made, held from `take` to `leave`."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = False
        slots.requested.add(self)

    async def take(self) -> None:
        """Returns when it is held; at once where it already is."""
        if not self._held:
            self._slots.requested.add(self)
            await self._slots.semaphore.acquire()
            self._held = True

    def leave(self) -> None:
        """Let others have it; nothing happens where it was left before."""
        self._slots.requested.discard(self)
        if self._held:
            self._held = False
            self._slots.semaphore.release()
            self._slots.freed()


class Worker:
    """Indexes, applies and learns from what the journal holds, until closed. One instance for a store."""

    def __init__(
        self,
        *,
        settings: Settings,
        state: StateStore,
        store: MemoryStore,
        embedder: Embedder,
        lexical: LexicalEncoder,
        model: ChatModel,
        access: ModelAccess,
        clock: Clock,
        judge: ChatModel | None = None,
        usage: UsageStore | None = None,
        working: WorkingApart | None = None,
        traces: Traces | None = None,
    ) -> None:
        """``judge`` is the model of ``learn.judge: llm``. ``usage``, ``working``: if they are not in the state."""
        self._settings = settings
        self._state = state
        self._clock = clock
        locks = OwnerLocks()
        outages = ModelOutages(clock, self._model_answers)
        meter = TokenMeter(usage or state, clock, settings.learn, per_user=settings.limits.user.model_tokens_per_hour)
        parts = self._parts = Parts(
            settings=settings,
            store=store,
            state=state,
            lexical=lexical,
            model=SparedModel(model, outages),
            vectors=Vectors(store=store, state=state, embedder=embedder, lexical=lexical, locks=locks, meter=meter),
            meter=meter,
            access=access,
            outages=outages,
            locks=locks,
            flushes=Flushes(store),
            scheduler=Scheduler(locks.has_waiters),
            clock=clock,
            on_rows_erased=self._rows_erased,
            working=working,
            traces=traces,
        )
        planner = Planner(parts, Judge(judge, settings, access, meter) if judge is not None else None)
        self._applier = Applier(parts)
        self._indexer = Indexer(parts, planner, self._applier)
        self._learner = Learner(parts, planner, self._applier, self.wake_index)
        self._triggers = Triggers(parts)
        self.dreams = Dreamer(parts, write=self._write, indexed=self.indexed)
        self._loops = TaskOwner("worker")
        self._rows = TaskOwner("rows")
        self._asks = parts.by_model
        self._run = {"index": _RUN, "learn": _MODEL_RUN if self._asks else _RUN}
        self._wakes = {name: asyncio.Event() for name in (*_LANES, "triggers", "vectors")}
        width = {"index": _INDEX_WIDTH, "learn": settings.learn.concurrency}
        self._slots = {lane: Slots(width[lane], self._wakes[lane].set) for lane in _LANES}
        self._acknowledger = Acknowledger(parts, self._rows, ended=self._ended, wake=self.wake)
        self._pressed_since: float | None = None  # since when rows of turns wait behind others that wait for a flush
        self._early_deletes = EarlyDeletes(parts)
        self._new_run = partial(_Run, parts, self._acknowledger, self._early_deletes, self._rows, self._handle)
        self._ends = {lane: asyncio.Event() for lane in _LANES}
        """Set, and made anew, when something of the lane ended or can be found."""
        self._written: dict[OwnerKey, set[int]] = {}
        """Rows whose turns can be found by a search, and that end with the store's next flush."""
        self._recovered = asyncio.Event()
        self._on_ended: Callable[[JournalRow], None] | None = None

    async def start(self) -> None:
        """Begin to work in the background; returns at once, also when the state does not answer yet."""
        self._loops.start(self._recover(), "recover")
        self._loops.start(self._lane("index"), "index")
        if self._settings.learn.enabled:
            self._loops.start(self._lane("learn"), "learn")
        self._loops.start(self._every("triggers", self._look), "triggers")
        self._loops.start(self._every("vectors", self._parts.vectors.fill), "vectors")
        self.dreams.start()

    async def close(self, grace_s: float) -> None:
        """Stop claiming, let running rows end within ``grace_s`` seconds, release the others."""
        await self.dreams.close()
        await self._loops.cancel()
        self._parts.scheduler.end()
        self._parts.flushes.hurry()
        await self._rows.drain(grace_s)
        await self._acknowledger.release_all()

    def serving(self) -> AbstractContextManager[None]:
        """A context in which a request waits: learning pauses, except for a step now and then."""
        return self._parts.scheduler.serving()

    def wake(self) -> None:
        """New rows may be there, or time has passed: look now instead of within a second."""
        for event in self._wakes.values():
            event.set()

    def wake_index(self) -> None:
        """Captured turns may be there: index them now; the triggers of learning are checked afterwards."""
        self._wakes["index"].set()

    def new_key(self, tenant: str) -> None:
        """The tenant's requests bring another key: rows that wait for one go on."""
        self._acknowledger.new_key(tenant)

    @property
    def learning(self) -> str:
        """``ready``, ``off``, or ``degraded: why`` while learning waits for its model."""
        return self._parts.outages.state if self._settings.learn.enabled else "off"

    async def without_vectors(self, owners: Set[OwnerKey]) -> None:
        """Memories of these owners were written without vectors: they are filled in when the embedder is there."""
        await self._parts.vectors.note_all(owners)

    def erasing(self, owner: OwnerKey) -> AbstractContextManager[None]:
        """A context in which this owner is erased: what was captured before is written without waiting for vectors."""
        return self._parts.vectors.unneeded(owner)

    async def submit(self, entry: JournalEntry) -> int:
        """Append to the journal and wake; answers the row's number. Raises `errors.StateUnavailable`."""
        if entry.erases_all:
            number, erased = await self._state.begin_erasure(entry)
            self._rows_erased(erased)
        else:
            number = await self._state.append(entry)
        row = JournalRow(number=number, entry=entry, attempts=0)
        if entry.erases_all and self._on_ended is not None:
            self._on_ended(row)  # much of it may be gone by now
        self._early_deletes.note(row)
        self.wake()
        return number

    async def _write(self, scope: Scope, plan: PlanBody, timeout_s: float) -> bool:
        """Write a plan of our own through the journal; True when it is applied within the time."""
        entry = JournalEntry(kind=JournalKind.PLAN, scope=scope, body=msgspec.json.encode(plan))
        return await self.applied(await self.submit(entry), timeout_s)

    async def applied(self, number: int, timeout_s: float) -> bool:
        """True when that row is applied and flushed, False if not in time. Raises the error of one given up."""
        with self._parts.flushes.waited_for():
            return await self._acknowledger.applied(number, timeout_s)

    def waits(self, scope: Scope) -> bool:
        """Whether the owner's turns wait for the store now, or for room in it."""
        return self._acknowledger.waits(scope.owner)

    async def learned(self, scope: Scope, timeout_s: float) -> bool:
        """Learn from what is new in ``scope.session`` now; True when that is done, False if not within the time."""
        return await self._begun_and_done(scope, "asked", timeout_s)

    async def mine(self, scope: Scope, timeout_s: float) -> bool:
        """Learn from the whole of ``scope.session`` again, as `learned`; a second time changes nothing."""
        return await self._begun_and_done(scope, MINE, timeout_s)

    async def end_session(self, scope: Scope, timeout_s: float) -> bool:
        """``scope.session`` is over: learn from what is new and summarise the whole, as `learned`."""
        return await self._begun_and_done(scope, END, timeout_s)

    async def _begun_and_done(self, scope: Scope, reason: str, timeout_s: float) -> bool:
        if not self._settings.learn.enabled or not (await self._state.choices(scope)).learns:
            return True
        try:
            with self._parts.scheduler.hurrying(scope.owner):
                async with asyncio.timeout(timeout_s):
                    indexed = await self.indexed(scope, timeout_s / 2)
                    while True:
                        ended = self._ends["learn"]
                        number = await self._triggers.begin(scope, reason)
                        if number is not None:
                            break
                        await self._wait(ended)
                    self.wake()
                    return await self.applied(number, timeout_s) and indexed
        except TimeoutError:
            return False
        except StateUnavailable:
            raise
        except MemproxyError as error:
            log.warning("learning that was waited for did not succeed: %s", error)
            return False

    async def indexed(self, owner: Scope, timeout_s: float) -> bool:
        """Wait until all of an owner's turns are indexed; whether they are within the time."""
        return await self._is_none_left(partial(self._unflushed_count, owner), timeout_s)

    async def soon_indexed(self, owner: Scope, timeout_s: float) -> bool:
        """Wait, for a request, until a search finds all of an owner's turns, flushed or not; whether it does. False at
        once where that takes long: with a long backlog, while the store is away, or behind turns that must be flushed
        first (an owner's rows are done one by one).
        """
        unindexed = await self._unwritten_count(owner)
        if unindexed and (unindexed > _RUN or owner.owner in self._written or self.waits(owner)):
            return False
        return not unindexed or await self._is_none_left(partial(self._unwritten_count, owner), timeout_s)

    async def _is_none_left(self, unindexed: Callable[[], Awaitable[int]], timeout_s: float) -> bool:
        """Wait until no row is left ``unindexed``; whether that is so within the time."""
        try:
            with self._parts.flushes.waited_for():
                async with asyncio.timeout(timeout_s):
                    while True:
                        ended = self._ends["index"]
                        if not await unindexed():
                            return True
                        self.wake_index()
                        await self._wait(ended)
        except TimeoutError:
            return False

    async def _unflushed_count(self, owner: Scope) -> int:
        rows = (await self._state.backlog(owner)).get("index", {})
        return rows.get("waiting", 0) + rows.get("running", 0)

    async def _unwritten_count(self, owner: Scope) -> int:
        return max(0, await self._unflushed_count(owner) - len(self._written.get(owner.owner, ())))

    async def _wait(self, ended: asyncio.Event) -> None:
        """Returns when this engine has done something; or another one may have."""
        await happens(ended, LOOKS_S[0] if self._state.is_shared else None)

    def _tell(self, lane: str) -> None:
        """Let those that wait for something of the lane look again."""
        self._ends[lane].set()
        self._ends[lane] = asyncio.Event()

    async def _recover(self) -> None:
        """Take back what a dead engine had claimed; before that nothing is claimed."""
        while True:
            try:
                most = self._settings.learn.max_attempts
                recovered = await self._state.recover(max_attempts=most, now=self._clock.now())
                break
            except StateUnavailable as error:
                state_trouble(self._acknowledger.troubles, "recover", error)
                await asyncio.sleep(POLL_S)
        for number, tries in recovered.parked.items():
            log.error("row %d is parked: the engine ended while it worked on it, %d tries in all", number, tries)
        self._recovered.set()

    async def _every(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do it about once a second, and when woken."""
        await self._recovered.wait()
        while True:
            self._wakes[name].clear()
            try:
                await work()
            except (StateUnavailable, StoreUnavailable) as error:
                state_trouble(self._acknowledger.troubles, name, error)
            await asyncio.sleep(_LEAST_PAUSE_S)
            await happens(self._wakes[name], POLL_S)

    async def _look(self) -> None:
        if self._settings.learn.enabled and await self._triggers.look():
            self._wakes["learn"].set()
        sizes = await self._state.queue_sizes()
        for lane, states in sizes.items():
            for state, count in states.items():
                metrics().learn_jobs.labels(lane=lane, state=state).set(count)
        if any(states["parked"] for states in sizes.values()):
            unparked_count = await self._state.unpark_killed(self._clock.now())
            if unparked_count:
                log.warning("%d parked rows, at which engines had died, are tried once more", unparked_count)

    async def _lane(self, lane: str) -> None:
        await self._recovered.wait()
        is_answer_lost = False
        while True:
            self._wakes[lane].clear()
            try:
                if is_answer_lost:
                    await self._state.give_back(lane, list(self._acknowledger.held))
                    is_answer_lost = False
                claimed = await self._claim(lane)
            except StateUnavailable as error:
                state_trouble(self._acknowledger.troubles, lane, error)
                claimed, is_answer_lost = 0, True  # the rows may be claimed all the same
                await asyncio.sleep(POLL_S)
            if not claimed:
                await happens(self._wakes[lane], POLL_S)

    async def _claim(self, lane: str) -> int:
        free = self._slots[lane].free
        if not free or len(self._acknowledger.held) >= _MOST_HELD:
            return 0
        async with self._triggers.beginning if lane == "learn" else nullcontext():
            leaving, now = self._acknowledger.keyless_tenants if lane == "learn" else (), self._clock.now()
            rows = await self._state.claim(lane, limit=free, now=now, run=self._run[lane], leaving=leaving)
        self._acknowledger.held |= {row.number: row for row in rows}
        if lane == "index" and len(rows) < free:
            await self._press()
        asks_model = lane == "learn" and self._asks
        for _, run in itertools.groupby(rows, key=lambda row: row.entry.scope.owner):
            self._rows.start(self._new_run(slot=Slot(self._slots[lane]), asks_model=asks_model).work(list(run)), "run")
        return len(rows)

    async def _press(self) -> None:
        """Have the flush hurry that rows of turns have waited for long enough, which all were claimed that could be."""
        now = time.monotonic()
        if not self._acknowledger.held or not (await self._state.queue_sizes()).get("index", {}).get("waiting"):
            self._pressed_since = None
        elif self._pressed_since is None:
            self._pressed_since = now
            asyncio.get_running_loop().call_later(_MOST_FLUSH_WAIT_S + 0.02, self.wake_index)
        elif now - self._pressed_since >= _MOST_FLUSH_WAIT_S:
            self._pressed_since = None
            self._parts.flushes.press()

    async def _handle(self, rows: Sequence[JournalRow], slot: Slot) -> None:
        """One row, or several that go together. Learning leaves its slot when no model is asked any more."""
        row = rows[0]
        if row.entry.kind is JournalKind.TURNS:
            with self._parts.scheduler.serving():
                learn_now = await self._indexer.turns(rows)
            self._written.setdefault(row.entry.scope.owner, set()).update(journal_row.number for journal_row in rows)
            self._tell("index")
            if self._settings.learn.enabled and (await self._state.choices(row.entry.scope)).learns:
                await self._triggers.turns_came(row.entry.scope, learn_now=learn_now)
            self._wakes["triggers"].set()
        elif row.entry.kind is JournalKind.PLAN:
            with self._parts.scheduler.serving():
                planned = await self._indexer.plan(row)
            for operation, count in (planned.operations if planned else {}).items():
                metrics().memories_written.labels(operation=operation).inc(count)
        else:
            for journal_row in rows:
                if journal_row.plan is None:
                    self._acknowledger.waiting_rows.give_way(journal_row)
            with charged_to(row.entry.scope.owner):
                await self._learner.learn_all(rows, all_read=slot.leave)

    def on_ended(self, callback: Callable[[JournalRow], None]) -> None:
        """``callback`` gets every row that has ended; one that erases its owner also when it begins."""
        self._on_ended = callback

    def on_deleted(self, callback: Callable[[], Awaitable[None]]) -> None:
        """``callback`` is called when something was deleted, whose text may still be in the store's files."""
        self._applier.on_deleted(callback)

    def on_corrected(self, callback: Callable[[Scope, int], None]) -> None:
        """``callback`` is called with how many messages of a chat corrected something that was said before."""
        self._indexer.on_corrected(callback)

    async def look_at_held(self, owner: OwnerKey | None) -> None:
        """Another engine may have erased rows of this owner (None: of anybody) that this one reads: ask no more."""
        for number in self._acknowledger.learning(owner):
            try:
                if await self._state.ending(number) is not None:
                    self._rows_erased([number])
            except StateUnavailable:
                return  # it is seen when a plan is saved

    def _model_answers(self, outage: int) -> None:
        self._acknowledger.model_answers(outage)

    def _rows_erased(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._learner.forget(number)
        self._acknowledger.rows_erased(numbers)

    def _ended(self, row: JournalRow, for_good: bool) -> None:
        if for_good:
            self._early_deletes.ended(row)
        if for_good and self._on_ended is not None:
            self._on_ended(row)
        for lane in _LANES:
            self._wakes[lane].set()
        if for_good and row.entry.kind is JournalKind.LEARN:
            self._learner.forget(row.number)
            body = msgspec.json.decode(row.entry.body, type=LearnBody)
            if body.compress is None:
                self.dreams.learned(row.entry.scope, over=body.reason in {END, SILENT})
            self._tell("learn")
        if row.entry.kind is not JournalKind.LEARN:
            if numbers := self._written.get(row.entry.scope.owner):
                numbers.discard(row.number)
                if not numbers:
                    del self._written[row.entry.scope.owner]
            self._tell("index")


class _Run:
    """The rows of one owner that were claimed together: handled in their order, and acknowledged after a flush. With
    ``asks_model`` one begins behind every row, while the next is handled (a model is asked, for long); else behind all.

    After a flush that failed nothing of the run is acknowledged any more. What was applied is put back when the run has
    stopped, and not before: else its first row would be claimed again while a later one is still being handled.
    """

    def __init__(
        self,
        parts: Parts,
        acknowledger: Acknowledger,
        early_deletes: EarlyDeletes,
        tasks: TaskOwner,
        handle: Callable[[Sequence[JournalRow], Slot], Awaitable[None]],
        *,
        slot: Slot,
        asks_model: bool,
    ) -> None:
        """``handle`` handles one row, or several that go together; it may leave the slot early."""
        self._scheduler = parts.scheduler
        self._flushes = parts.flushes
        self._acknowledger = acknowledger
        self._early_deletes = early_deletes
        self._tasks = tasks
        self._handle = handle
        self._slot = slot
        self._asks_model = asks_model
        self._applied: list[JournalRow] = []
        self._acknowledging: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def work(self, rows: Sequence[JournalRow]) -> None:
        """Returns when all that was applied is acknowledged, or put back together with what was not begun."""
        try:
            remaining = await self._in_order(rows)
        finally:
            self._slot.leave()
        if self._acknowledging is not None:
            await self._acknowledging
        await self._acknowledge()
        if self._failure is not None:
            rows = [*self._applied, *remaining]
            await self._acknowledger.failed(rows[0], self._failure, self._acknowledger.new_keys)
            await self._acknowledger.release(rows[1:])

    async def _in_order(self, rows: Sequence[JournalRow]) -> list[JournalRow]:
        """Handle rows in their order, up to one that must wait. Returns those not begun because a flush had failed."""
        groups = deque(together(rows))
        while groups:
            await self._slot.take()
            if self._scheduler.has_ended:
                return []
            if self._failure is not None:
                break
            group, keys = groups.popleft(), self._acknowledger.new_keys
            try:
                await self._handle(group, self._slot)
            except Exception as error:  # noqa: BLE001 - the acknowledger logs and counts it
                # of several rows each is tried alone, to see whose failure it is
                if len(group) > 1 and not isinstance(error, (StoreUnavailable, StateUnavailable)):
                    groups.extendleft([row] for row in reversed(group))
                    continue
                rows = [*group, *itertools.chain(*groups)]
                if isinstance(error, StoreUnavailable):
                    done = await self._deleted_ahead(rows)
                    self._add(done)
                    rows = [row for row in rows if row not in done]
                    if group[0] in done:
                        await self._acknowledger.release(rows)
                        return []
                if not await self._acknowledger.failed(group[0], error, keys):
                    await self._acknowledger.release(rows[1:])
                    return []
            else:
                self._add(group)
        return list(itertools.chain(*groups))

    async def _deleted_ahead(self, rows: Sequence[JournalRow]) -> list[JournalRow]:
        """Carry out the deletions that may go ahead of the first of these rows, for which the store has no room; the
        rows that are done with it. The first row is still claimed, and with it its owner's others of the lane.
        """
        done, earlier_rows = list[JournalRow](), [rows[0]]
        for row in self._early_deletes.later_rows(rows):
            if self._scheduler.has_ended:
                break
            try:
                if goes := await self._early_deletes.may_go(row, earlier_rows):
                    erased = await self._early_deletes.erase(row, earlier_rows)
                    done += erased
                    earlier_rows = [earlier for earlier in earlier_rows if earlier not in erased]
                    await self._handle([row], self._slot)
            except StoreUnavailable:
                goes = False  # what it deletes is gone by now where that takes no room; the rest of it waits
            except Exception:  # the row is handled again in its order, and its failure is settled then
                metrics().internal_errors.labels(where="learn.deletion").inc()
                log.warning("row %d could not go ahead of what waits for room", row.number, exc_info=True)
                goes = False
            if not goes:
                earlier_rows.append(row)
                continue
            erased = self._early_deletes.erased(row, earlier_rows)
            done += [*erased, row]
            earlier_rows = [earlier for earlier in earlier_rows if earlier not in erased]
        return done

    def _add(self, rows: Sequence[JournalRow]) -> None:
        """These were applied, in their order."""
        self._applied += rows
        if self._asks_model and (self._acknowledging is None or self._acknowledging.done()):
            self._acknowledging = self._tasks.start(self._acknowledge(), "acknowledge")

    async def _acknowledge(self) -> None:
        while self._applied and self._failure is None:
            rows, self._applied = self._applied, []
            try:
                await self._flush(rows[0])
            except Exception as error:  # noqa: BLE001 - `work` hands it to the acknowledger, which logs and counts it
                self._fail(rows, error)
            else:
                await asyncio.gather(*(self._acknowledger.end(row) for row in rows))

    def _fail(self, rows: list[JournalRow], error: Exception) -> None:
        self._applied, self._failure = rows + self._applied, error

    async def _flush(self, row: JournalRow) -> None:
        """What was learned is flushed with others' writes, while the engine is busy and no caller waits."""
        if row.entry.kind is JournalKind.LEARN and self._scheduler.is_patient(row.entry.scope.owner):
            await self._flushes.flush_with_others()
        else:
            await self._flushes.flush_soon()
