"""The worker of the engine: claims journal rows, hands them to the lane they belong to, and settles how they end.

Order of shutdown (`close`): nothing new is claimed; rows that run get their grace; what is left is released, so that
the next start takes it up at once. A kill at any point is the same, but for the release.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Set
from datetime import datetime, timedelta

from memproxy.core.memory import Trust
from memproxy.core.scope import Scope
from memproxy.errors import BudgetSpent, MemproxyError, ModelRefused, RequestError, StateUnavailable, StoreUnavailable
from memproxy.learn.access import ModelAccess
from memproxy.learn.admission import Admission
from memproxy.learn.apply import Applier
from memproxy.learn.backoff import counted_delay, outage_delay
from memproxy.learn.budget import TokenMeter
from memproxy.learn.drift import Drift
from memproxy.learn.extract import Extractor, load_prompt
from memproxy.learn.index import Indexer
from memproxy.learn.judge import JUDGE_PROMPT, Judge
from memproxy.learn.learner import END, MINE, Learner
from memproxy.learn.locks import Owner, OwnerLocks
from memproxy.learn.reading import Reader
from memproxy.learn.reconcile import Reconciler
from memproxy.learn.summary import Summariser
from memproxy.learn.triggers import Triggers
from memproxy.learn.vectors import Vectors
from memproxy.learn.windows import Windows
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
)
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

_WIDTH = {"index": 16, "learn": 4}
"""Owners that are worked for at once, by lane: they share flushes of the store, which take longer than all else that a
row of turns needs; a model is asked gently.
"""

_POLL_S = 1.0
_KEY_WAIT_S = 300.0
_MOST_OUTCOMES = 10_000


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
    ) -> None:
        """``judge`` is the model of ``learn.judge: llm``; without one the rules decide alone."""
        self._settings = settings
        self._state = state
        self._clock = clock
        locks = OwnerLocks()
        meter = TokenMeter(state, clock, settings.learn.model_tokens_per_hour)
        min_trust = Trust(settings.learn.min_trust)
        admission = Admission(min_trust)
        prompts = settings.learn.prompts_dir
        self._vectors = Vectors(store=store, state=state, embedder=embedder, lexical=lexical, locks=locks)
        reconciler = Reconciler(
            store=store,
            state=state,
            lexical=lexical,
            vectors=self._vectors,
            dedup=settings.dedup,
            judge=_judge(judge, settings, access, meter),
        )
        applier = Applier(store=store, state=state, vectors=self._vectors)
        self._indexer = Indexer(
            store=store,
            state=state,
            vectors=self._vectors,
            reconciler=reconciler,
            applier=applier,
            locks=locks,
            clock=clock,
        )
        windows = Windows(store, settings.learn.window_turns)
        self._learner = Learner(
            store=store,
            state=state,
            windows=windows,
            reader=Reader(
                role=settings.models.extract,
                store=store,
                lexical=lexical,
                vectors=self._vectors,
                extractor=Extractor(model, load_prompt(prompts), admission=admission, meter=meter),
                admission=admission,
                verbatim=settings.learn.mode == "verbatim",
                access=access,
                clock=clock,
            ),
            summariser=Summariser(store, model, load_prompt(prompts, "summary.md"), meter),
            min_trust=min_trust,
            reconciler=reconciler,
            applier=applier,
            locks=locks,
            clock=clock,
        )
        self._triggers = Triggers(
            settings=settings.learn,
            state=state,
            store=store,
            access=access,
            drift=Drift(settings.learn.drift_threshold, state=state, windows=windows, vectors=self._vectors),
            locks=locks,
            clock=clock,
        )
        self._loops = TaskOwner("worker")
        self._rows = TaskOwner("rows")
        self._running = dict.fromkeys(_WIDTH, 0)
        self._held: dict[int, JournalRow] = {}
        self._outages: dict[int, int] = {}
        self._wakes = {name: asyncio.Event() for name in (*_WIDTH, "triggers", "vectors")}
        self._keys: dict[str, asyncio.Event] = {}
        self._new_keys = 0
        self._outcomes: OrderedDict[int, MemproxyError | None] = OrderedDict()
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._learn_ended = asyncio.Event()
        self._recovered = asyncio.Event()

    async def start(self) -> None:
        """Begin to work in the background; returns at once, also when the state does not answer yet."""
        self._loops.start(self._recover(), "recover")
        self._loops.start(self._lane("index"), "index")
        if self._settings.learn.enabled:
            self._loops.start(self._lane("learn"), "learn")
        self._loops.start(self._every("triggers", self._look), "triggers")
        self._loops.start(self._every("vectors", self._fill), "vectors")

    async def close(self, grace_s: float) -> None:
        """Stop claiming, let running rows end within ``grace_s`` seconds, release the others."""
        await self._loops.cancel()
        for event in self._keys.values():
            event.set()
        await self._rows.drain(grace_s)
        for number in list(self._held):
            try:
                await self._state.retry(number, error="released at shutdown", due=self._clock.now(), counted=False)
            except StateUnavailable as error:
                log.warning("row %d could not be released (%s); the next start takes it up", number, error)

    def wake(self) -> None:
        """New rows may be there, or time has passed: look now instead of within a second."""
        for event in self._wakes.values():
            event.set()

    def new_key(self, tenant: str) -> None:
        """The tenant's requests bring another key: rows that wait for one go on."""
        self._new_keys += 1
        if (event := self._keys.pop(tenant, None)) is not None:
            event.set()

    async def without_vectors(self, owners: Set[Owner]) -> None:
        """Memories of these owners were written without vectors: they are filled in when the embedder is there."""
        await self._vectors.note_all(owners)

    async def submit(self, entry: JournalEntry) -> int:
        """Append to the journal and wake; answers the row's number. Raises `errors.StateUnavailable`."""
        number = await self._state.append(entry)
        self.wake()
        return number

    async def applied(self, number: int, timeout_s: float) -> bool:
        """True when that row is applied and flushed, False if not within ``timeout_s``.

        Raises:
            MemproxyError: the row's own error, when it was refused for good or parked.
        """
        waiter = self._waiters.get(number)
        if number not in self._outcomes and waiter is None:
            waiter = self._waiters[number] = asyncio.get_running_loop().create_future()
        if number not in self._outcomes and waiter is not None:
            await asyncio.wait([waiter], timeout=timeout_s)
        if number not in self._outcomes:
            return False
        if (error := self._outcomes[number]) is not None:
            raise error
        return True

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
        if not self._settings.learn.enabled:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    ended = self._learn_ended
                    number = await self._triggers.begin(scope, reason)
                    if number is not None:
                        break
                    await ended.wait()
                self.wake()
                return await self.applied(number, timeout_s)
        except TimeoutError:
            return False
        except StateUnavailable:
            raise
        except MemproxyError as error:
            log.warning("learning that was waited for did not succeed: %s", error)
            return False

    async def _recover(self) -> None:
        """Take back what a dead engine had claimed; before that nothing is claimed."""
        while True:
            try:
                taken = await self._state.recover(max_attempts=self._settings.learn.max_attempts, now=self._clock.now())
            except StateUnavailable as error:
                _state_trouble("recover", error)
                await asyncio.sleep(_POLL_S)
            else:
                for number, tries in taken.parked.items():
                    log.error(
                        "row %d is parked: the engine ended while it worked on it, %d tries in all", number, tries
                    )
                self._recovered.set()
                return

    async def _every(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do it about once a second, and when woken."""
        await self._recovered.wait()
        while True:
            self._wakes[name].clear()
            try:
                await work()
            except (StateUnavailable, StoreUnavailable) as error:
                _state_trouble(name, error)
            await self._pause(name)

    async def _pause(self, name: str) -> None:
        try:
            async with asyncio.timeout(_POLL_S):
                await self._wakes[name].wait()
        except TimeoutError:
            return

    async def _look(self) -> None:
        if self._settings.learn.enabled and await self._triggers.look():
            self._wakes["learn"].set()
        for lane, states in (await self._state.queue_sizes()).items():
            for state, count in states.items():
                metrics().learn_jobs.labels(lane=lane, state=state).set(count)

    async def _fill(self) -> None:
        await self._vectors.fill()

    async def _lane(self, lane: str) -> None:
        await self._recovered.wait()
        while True:
            self._wakes[lane].clear()
            try:
                claimed = await self._claim(lane)
            except StateUnavailable as error:
                _state_trouble(lane, error)
                claimed = 0
                await asyncio.sleep(_POLL_S)
            if not claimed:
                await self._pause(lane)

    async def _claim(self, lane: str) -> int:
        free = _WIDTH[lane] - self._running[lane]
        if free <= 0:
            return 0
        rows = await self._state.claim(lane, limit=free, now=self._clock.now())
        for row in rows:
            self._held[row.number] = row
            self._running[lane] += 1
            self._rows.start(self._work(lane, row), f"{lane} row {row.number}")
        return len(rows)

    async def _work(self, lane: str, row: JournalRow) -> None:
        """Handle one row and settle how it ended."""
        keys_before = self._new_keys
        try:
            await self._handle(row)
        except (StoreUnavailable, StateUnavailable) as error:
            await self._postpone(row, error)
        except ModelRefused as error:
            self._rows.start(self._await_key(row, error, keys_before), f"key for row {row.number}")
        except BudgetSpent as error:
            await self._put_back(row, error.message, error.until, counted=False)
        except RequestError as error:
            await self._end(row, error)
        except MemproxyError as error:
            await self._failed(row, error)
        except Exception as error:
            # logged with its trace, tried again and then parked like any other failure.
            metrics().internal_errors.labels(where=f"learn.{lane}").inc()
            log.error("row %d (%s) failed unexpectedly", row.number, row.entry.kind.value, exc_info=error)
            await self._failed(row, MemproxyError(f"{type(error).__name__} while handling the row; see the log"))
        else:
            await self._end(row, None)
        finally:
            self._running[lane] -= 1
            self._wakes[lane].set()

    async def _handle(self, row: JournalRow) -> None:
        if row.entry.kind is JournalKind.TURNS:
            asked = await self._indexer.turns(row)
            if self._settings.learn.enabled:
                await self._triggers.came(row.entry.scope, asked=asked)
            self._wakes["triggers"].set()
            self._wakes["learn"].set()
        elif row.entry.kind is JournalKind.PLAN:
            planned = await self._indexer.plan(row)
            for operation, count in (planned.operations if planned else {}).items():
                metrics().memories_written.labels(operation=operation).inc(count)
        else:
            await self._learner.learn(row)

    async def _end(self, row: JournalRow, error: MemproxyError | None) -> None:
        message = error.message if error is not None else None
        if error is not None:
            log.error("row %d (%s) is refused: %s", row.number, row.entry.kind.value, error)
        await self._settle(lambda: self._state.finish(row.number, error=message))
        self._settled(row, error)

    async def _failed(self, row: JournalRow, error: MemproxyError) -> None:
        """A counted failure: tried again later, or parked after the last try."""
        tries = row.attempts + 1
        if tries >= self._settings.learn.max_attempts:
            log.error("row %d (%s) is parked after %d tries: %s", row.number, row.entry.kind.value, tries, error)
            await self._settle(lambda: self._state.park(row.number, error=error.message))
            self._settled(row, error)
            return
        delay = counted_delay(tries)
        log.warning("row %d (%s) failed, tried again in %.0f s: %s", row.number, row.entry.kind.value, delay, error)
        await self._put_back(row, error.message, self._in(delay), counted=True)

    async def _postpone(self, row: JournalRow, error: MemproxyError) -> None:
        """An outage: nothing is counted against the row."""
        outages = self._outages[row.number] = self._outages.get(row.number, 0) + 1
        if outages == 1:
            log.warning("row %d (%s) waits: %s", row.number, row.entry.kind.value, error)
        metrics().internal_errors.labels(where="learn.outage").inc()
        await self._put_back(row, error.message, self._in(outage_delay(outages)), counted=False)

    async def _await_key(self, row: JournalRow, error: ModelRefused, keys_before: int) -> None:
        if self._new_keys != keys_before:
            await self._put_back(row, error.message, self._clock.now(), counted=False)
            return
        tenant = row.entry.scope.tenant
        log.warning("row %d waits for a model key: %s", row.number, error)
        event = self._keys.setdefault(tenant, asyncio.Event())
        # it waits in the journal, not as a running row: it must not be blamed when the engine dies meanwhile
        await self._put_back(row, error.message, self._in(_KEY_WAIT_S), counted=False)
        try:
            async with asyncio.timeout(_KEY_WAIT_S):
                await event.wait()
        except TimeoutError:
            self._keys.pop(tenant, None)
            return
        if row.number not in self._held:
            await self._put_back(row, error.message, self._clock.now(), counted=False)

    def _in(self, delay_s: float) -> datetime:
        return self._clock.now() + timedelta(seconds=delay_s)

    async def _put_back(self, row: JournalRow, message: str, due: datetime, *, counted: bool) -> None:
        await self._settle(lambda: self._state.retry(row.number, error=message, due=due, counted=counted))
        self._held.pop(row.number, None)
        self._wakes["learn"].set()

    async def _settle(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write how a row ended; without it the row would stay claimed, so it is tried until the state answers."""
        while True:
            try:
                await write()
            except StateUnavailable as error:
                _state_trouble("settle", error)
                await asyncio.sleep(_POLL_S)
            else:
                return

    def _settled(self, row: JournalRow, error: MemproxyError | None) -> None:
        self._held.pop(row.number, None)
        self._outages.pop(row.number, None)
        self._learner.forget(row.number)
        self._outcomes[row.number] = error
        while len(self._outcomes) > _MOST_OUTCOMES:
            self._outcomes.popitem(last=False)
        if (waiter := self._waiters.pop(row.number, None)) is not None and not waiter.done():
            waiter.set_result(None)
        if row.entry.kind is JournalKind.LEARN:
            self._learn_ended.set()
            self._learn_ended = asyncio.Event()


def _state_trouble(where: str, error: MemproxyError) -> None:
    metrics().internal_errors.labels(where=f"learn.{where}").inc()
    log.warning("%s: %s; tried again", where, error)


def _judge(model: ChatModel | None, settings: Settings, access: ModelAccess, meter: TokenMeter) -> Judge | None:
    if model is None:
        return None
    prompt = load_prompt(settings.learn.prompts_dir, JUDGE_PROMPT)
    return Judge(model, settings.models.judge, access=access, meter=meter, prompt=prompt)
