"""The engine: recall, learning and the store behind the API. Its parts open in the background."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

from memproxy.api.context import Backends, Parts
from memproxy.api.quotas import Quotas
from memproxy.auth.experiment import Experiment
from memproxy.core.changes import Change
from memproxy.core.history import Said, replayed, step_of
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.protocol import (
    REPLAY_WAIT_S,
    BackupTold,
    Captured,
    PlanBody,
    RecallAnswer,
    RecallRequest,
    ReindexAsked,
    ReindexTold,
    ReplayAsked,
    ReplayTold,
)
from memproxy.core.scope import Scope
from memproxy.core.turn import in_order
from memproxy.engine.maintenance import BackingUp, Reindexing
from memproxy.engine.readiness import LOADING, REFUSED, Readiness
from memproxy.engine.receipt_keeper import ReceiptKeeper
from memproxy.errors import ConfigError, Conflict, MemoryUnavailable, MemproxyError, StateUnavailable, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import STORE_ID, JournalEntry, JournalKind, JournalRow, MemoryFilter
from memproxy.recall.recall_answer import Judgement
from memproxy.retention.accesses import AccessCounter
from memproxy.retention.erasing import Eraser
from memproxy.retention.pruning import Policies, Pruner
from memproxy.settings import Settings
from memproxy.tasks import Lull, TaskOwner

log = logging.getLogger(__name__)

_BACK_OFF = wait_exponential(multiplier=0.2, max=5.0)


_SAID = frozenset({Trust.USER, Trust.ASSISTANT})
"""The roles of replayed messages."""

_PAGE = 100

QUIET_S = 0.03
"""Turns are indexed this long after the last recall: beside one, both would take twice as long."""

LONGEST_QUIET_WAIT_S = 0.5
"""The longest that turns wait under a load without pauses; many are indexed together then, which costs each less."""


SWEEP_EVERY_S = 3600.0
"""Between two sweeps of working memory; what has expired is not shown from then on, swept or not."""


class Engine:
    """Opens the parts, answers the relay and the API's routes, and closes the parts in order. What it is asked for
    raises `StateUnavailable` or `StoreUnavailable` while that is not open, or does not answer.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        settings = parts.settings
        state, store, clock, worker = parts.state, parts.store, parts.clock, parts.worker
        self._tasks = TaskOwner("engine")
        self._readiness = Readiness(state=state, store=store, recall=parts.recall)
        self.receipts = ReceiptKeeper(state, clock, settings)
        self._eraser = Eraser(store, state)
        self._accesses = AccessCounter(store, clock)
        self._pruner = Pruner(Policies(settings.retention), store=store, state=state, plan=self._apply, clock=clock)
        self._quotas = Quotas(settings, parts.usage or state, store, clock, parts.changes)
        self._experiment = Experiment(settings.experiment.holdout, parts.secret, state, clock.now)
        self._recalls = Lull(QUIET_S, LONGEST_QUIET_WAIT_S)
        self._indexing: asyncio.Task[None] | None = None
        self.backing_up = BackingUp(parts)
        self.reindexing = Reindexing(parts)
        self._all_open = asyncio.Event()
        parts.recall.own_words.wait_with(worker.soon_indexed)
        worker.on_ended(self._row_ended)
        parts.changes.subscribe(self._changed)
        worker.on_deleted(self._eraser.soon)
        worker.on_corrected(lambda scope, count: self._experiment.note_signal(scope, "followup", count))

    def _row_ended(self, row: JournalRow) -> None:
        if self.parts.hot is not None:
            self.parts.hot.release(row.number)
        self._pruner.wrote(row.entry.scope.owner)
        if row.entry.kind is JournalKind.PLAN:
            self.parts.changes.publish(Change.of(row.entry.scope))

    def _changed(self, change: Change | None) -> None:
        if self.parts.state.is_shared and self._readiness.is_open("worker"):
            owner = None if change is None else (change.tenant, change.user)
            self._tasks.start(self.parts.worker.look_at_held(owner), "look at held rows")

    async def start(self) -> None:
        """Begin to open everything, and return at once."""
        await self.parts.embedder.start()
        self._tasks.start(self._open(), "open")
        if self.parts.shared is not None:
            await self.parts.shared.start()
        self._tasks.start(self._readiness.keep_true(), "measure")
        self._tasks.start(self._sweep_working(), "sweep")

    async def _sweep_working(self) -> None:
        """Remove what has expired of working memory, now and every hour."""
        await self._all_open.wait()
        while True:
            try:
                await (self.parts.working or self.parts.state).sweep_working(self.parts.clock.now())
            except StateUnavailable as error:
                log.warning("expired entries of working memory stay until the next sweep: %s", error.message)
            await asyncio.sleep(SWEEP_EVERY_S)

    async def wait_open(self) -> None:
        """Returns when state, store and worker are open (never, while the store is refused)."""
        await self._all_open.wait()

    async def close(self, grace_s: float) -> None:
        """Close in this order, each before what it stands on.

        1. our own tasks: nothing is opened, measured or reindexed any more (the next reindex goes on where it was);
        2. the worker: takes no new rows, finishes what it applies (``grace_s`` at most), the rest stays in the journal;
        3. the chat models, which only recall and the worker call;
        4. the store: flushes what the worker wrote;
        5. the receipts, the costs of questions and the counts of the experiment that wait to be written;
        6. the server of what may be forgotten, then the state: after the store, because rows are acknowledged after the
           store's flush;
        7. the embedder.
        """
        parts = self.parts
        await self._tasks.cancel()
        await self.reindexing.close()
        await self.backing_up.close()
        await self._pruner.close()
        if parts.hot is not None:
            await parts.hot.close()
        await parts.worker.close(grace_s)
        await self._accesses.close(grace_s)
        await self._eraser.close()
        for model in parts.models:
            await model.close()
        if self._readiness.is_open("store"):
            await _quietly(parts.store.close(), "store")
        await self.receipts.close()
        if parts.tally is not None:
            await parts.tally.close()
        await self._experiment.close()
        if parts.shared is not None:
            await parts.shared.close()
        if self._readiness.is_open("state"):
            await _quietly(parts.state.close(), "state")
        await parts.embedder.close()

    def take(self, settings: Settings) -> None:
        """Go on with reloaded settings: of those that may be (`serve.reloading`) the engine reads the limits."""
        self._quotas.take(settings.limits)

    def announce_long_work(self, within: AbstractContextManager[None]) -> None:
        """``within`` is entered around what may keep this process from answering for long. Called before `start`."""
        self._eraser.announce(within)

    def backends(self) -> Backends:
        return Backends(
            parts=self.parts,
            require=self._readiness.require,
            receipts_written=self.receipts.written,
            eraser=self._eraser,
            pruner=self._pruner,
            accesses=self._accesses,
            experiment=self._experiment,
            quotas=self._quotas,
            working=self.parts.working or self.parts.state,
        )

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """The block for a request; degraded while the store is loading, away or refused. Its receipt comes after the
        answer.
        """
        with self._recalls.used(), self.parts.worker.serving():
            if self._readiness.is_open("store"):
                answer = await self.parts.recall.recall(request)
            elif self._readiness.parts["store"] == LOADING:
                answer = RecallAnswer(result="degraded", reason="loading")
            elif self._readiness.parts["store"].startswith(REFUSED):
                answer = RecallAnswer(result="degraded", reason="store")
            else:
                answer = await self.parts.recall.without_store(request)
        self._readiness.note_recall(answer.reason)
        asyncio.get_running_loop().call_soon(self._note, request, answer)
        return answer.explained(0) if isinstance(answer, Judgement) else answer

    async def replay(self, request: ReplayAsked) -> ReplayTold:
        """The end of a session's log, of what user and assistant said in it; what its user said just before is waited
        for. Within the recall's deadline, and never anything of another session, project or agent.
        """
        if not self._readiness.is_open("store"):
            return ReplayTold(reason="loading" if self._readiness.parts["store"] == LOADING else "store")
        parts, scope = self.parts, request.scope
        where = MemoryFilter(kinds=(Kind.TURN,), session_ids=(scope.session or "",))
        limit = request.turns + 2 * step_of(request.turns) + 1
        log_end, cursor = list[Memory](), None
        with self._recalls.used(), parts.worker.serving():
            try:
                whole = await parts.worker.indexed(scope, REPLAY_WAIT_S)
                async with asyncio.timeout(parts.settings.recall.deadline_ms / 1000):
                    rows = await parts.store.columns(scope, where, ("trust", "quarantined"))
                    count = sum(trust in _SAID and not quarantined for trust, quarantined in rows)
                    while len(log_end) < min(limit, count):
                        page = await parts.store.page(scope, where, limit=_PAGE, cursor=cursor)
                        log_end += [
                            memory for memory in page.memories if memory.trust in _SAID and not memory.quarantined
                        ]
                        if (cursor := page.next_cursor) is None:
                            break
            except TimeoutError:
                return ReplayTold(reason="timeout")
            except (StoreUnavailable, StateUnavailable):
                return ReplayTold(reason="store")
        messages = [Said(memory.trust.value, memory.content) for memory in in_order(log_end)]
        shown = replayed(messages, earlier=max(0, count - len(messages)), most=request.turns, tokens=request.tokens)
        return ReplayTold(said=shown, reason=None if whole else "late")

    def _note(self, request: RecallRequest, answer: RecallAnswer) -> None:
        self.receipts.note(request, answer)
        self._accesses.note(request.scope, [line.memory_id for line in answer.citations])
        if self.parts.hot is not None and answer.result != "degraded":
            self.parts.hot.refresh_later(request.scope)

    async def full(self, scope: Scope) -> str | None:
        """Which quota of memories is full: ``user``, ``tenant``, or none."""
        self._readiness.require("store")
        return await self._quotas.full(scope)

    def captured(self, captured: Captured) -> None:
        """The relay wrote a journal row: note how its request reached the model, and look at the journal in a lull."""
        tenant = captured.scope.tenant
        if captured.access is not None and self.parts.access.remember(tenant, captured.access):
            self.parts.worker.new_key(tenant)
        if self._indexing is None or self._indexing.done():
            self._indexing = self._tasks.start(self._index(), "index")

    async def _index(self) -> None:
        """Index in a lull of recalls, once for all turns that come until then."""
        await self._recalls.wait()
        self.parts.worker.wake_index()

    async def pause_pruning(self) -> None:
        """Stop scheduled pruning: after a dry run everything must still be there."""
        await self._pruner.close()

    async def prune(self, *, dry_run: bool, tenant: str | None) -> dict[str, Any]:
        """Prune everybody (of a tenant) now, or tell what would go: users looked at, and memories by reason."""
        self._readiness.require("store")
        users, pruned = 0, Counter[str]()
        for owner in await self._pruner.everybody():
            if tenant not in {None, owner.tenant}:
                continue
            users += 1
            if dry_run:
                pruned += Counter(item.reason for item in await self._pruner.due(owner))
            else:
                pruned += await self._pruner.prune(owner)
        return {"users": users, "pruned": dict(pruned), "dry_run": dry_run}

    async def everybody(self) -> list[Scope]:
        """Everybody who has memories here."""
        self._readiness.require("state")
        return await self._pruner.everybody()

    async def _apply(self, scope: Scope, plan: PlanBody) -> bool:
        """Write a plan of our own through the journal; True when it is applied."""
        worker = self.parts.worker
        entry = JournalEntry(kind=JournalKind.PLAN, scope=scope, body=msgspec.json.encode(plan))
        return await worker.applied(await worker.submit(entry), self.parts.write_timeout_s)

    async def reindex(self, request: ReindexAsked) -> ReindexTold:
        """Begin to rewrite the whole store for the configured embedder, or join the running reindex. A store that was
        refused is served afterwards. Raises `Conflict` where the caller's configuration has another embedder, or other
        engines use the store.
        """
        self._readiness.require("state")
        if count := await self.parts.state.other_engines():
            raise Conflict(
                f"{count} other engine{'s use' if count > 1 else ' uses'} this store, and would go on with the "
                "collection that is to be replaced. Stop every other machine, run this one with engine.workers: 1, "
                "wait for 20 s, and run it again; then start them."
            )
        refused = self._readiness.parts["store"].startswith(REFUSED)
        if not refused:
            self._readiness.require("store")
        expected = await self.parts.state.get_meta(STORE_ID)
        return self.reindexing.begin(request, expected_id=expected, opened=self._serve if refused else None)

    def back_up(self, folder: Path, *, state: bool = True) -> BackupTold:
        """Begin a backup into this folder; ``state``: of the state as well. Raises as `BackingUp.begin`."""
        self._readiness.require("state", "store")
        return self.backing_up.begin(folder, state=state)

    def readiness(self) -> dict[str, str]:
        """Each part: ``ready``, ``loading``, ``off``, ``degraded: why`` or ``refused: why``."""
        embedder = self.parts.recall.embedder_state
        if embedder.startswith("unavailable"):
            embedder = f"degraded{embedder.removeprefix('unavailable')}"
        parts = {**self._readiness.parts, "embedder": embedder, "learning": self.parts.worker.learning}
        return parts if self.parts.shared is None else {**parts, "cache": self.parts.shared.state}

    async def _open(self) -> None:
        try:
            # a newer version's state is a ConfigError, and may be replaced by one that fits
            await self._open_part("state", self.parts.state.open, StateUnavailable, ConfigError)
            self._readiness.note_open("state")
            try:
                await self._open_part("store", self._open_store, StoreUnavailable, StateUnavailable)
            except ConfigError as error:
                self._readiness.note_refusal(error.message)
                return
            await self._serve()
        except Exception:
            # A fault of ours (its owner logs and counts it) must not look like a start that goes on for ever.
            self._readiness.note_fault()
            raise

    async def _open_part(self, part: str, opening: Callable[[], Awaitable[None]], *errors: type[MemproxyError]) -> None:
        """Try without end: what is down at the start heals later."""

        def note(attempt: RetryCallState) -> None:
            error = attempt.outcome.exception() if attempt.outcome else None
            self._readiness.note_failure(
                part, error.message if isinstance(error, MemproxyError) else "it does not answer"
            )

        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(errors), wait=_BACK_OFF, before_sleep=note, reraise=True
        ):
            with attempt:
                await opening()

    async def _open_store(self) -> None:
        state = self.parts.state
        expected = await state.get_meta(STORE_ID)
        store_id = await self.parts.store.open(expected)
        if store_id != expected:
            await state.set_meta(STORE_ID, store_id)

    async def _serve(self) -> None:
        """State and store are open now."""
        try:  # a warm-up search: the first one takes as long as a request may wait
            nobody = Scope(tenant="warm-up", user="warm-up")
            await self.parts.recall.search(nobody, "warm up", limit=1, where=MemoryFilter())
        except StoreUnavailable as error:
            log.warning("the first search failed: %s", error.message)
        self._readiness.note_open("store")
        await self.parts.worker.start()
        self._readiness.note_open("worker")
        await self._readiness.look()  # a start on a full disk says so at once
        await self._eraser.resume()
        self._pruner.start()
        self._all_open.set()


async def _quietly(closing: Awaitable[None], part: str) -> None:
    """A part that cannot be closed any more must not keep the others from it."""
    try:
        await closing
    except MemoryUnavailable as error:
        metrics().internal_errors.labels(where="engine.close").inc()
        log.error("the %s could not be closed in order: %s", part, error.message)
