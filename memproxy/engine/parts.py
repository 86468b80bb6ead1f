"""The engine's parts: opened in the background, so that the engine answers (how ready it is) from its first moment."""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

from memproxy.api.context import WRITE_TIMEOUT_S, Backends
from memproxy.api.quotas import Quotas
from memproxy.core.protocol import (
    BackupTold,
    Captured,
    PlanBody,
    RecallAnswer,
    RecallRequest,
    ReindexAsked,
    ReindexTold,
)
from memproxy.core.receipt import ReceiptPart
from memproxy.core.scope import Scope
from memproxy.engine.backup import BackingUp
from memproxy.engine.measuring import LOADING, READY, Measuring, others_wait
from memproxy.engine.measuring import REFUSED as REFUSED  # noqa: PLC0414 - said of a part to others as well
from memproxy.engine.receipts import ReceiptKeeper
from memproxy.engine.reindex import Reindexing
from memproxy.engine.yielding import Yielding
from memproxy.errors import ConfigError, MemoryUnavailable, MemproxyError, NotBuilt, StateUnavailable, StoreUnavailable
from memproxy.learn.access import ModelAccess
from memproxy.learn.tally import QuestionTally
from memproxy.learn.worker import Worker
from memproxy.metrics import metrics
from memproxy.ports import (
    ChatModel,
    Clock,
    Embedder,
    HeldStore,
    JournalEntry,
    JournalKind,
    MemoryFilter,
    MemoryStore,
    StateStore,
)
from memproxy.recall.answering import Judgement
from memproxy.recall.pipeline import Recall
from memproxy.retention.accesses import AccessCounter
from memproxy.retention.erasing import Eraser
from memproxy.retention.policies import Policies
from memproxy.retention.pruning import Pruner
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

STORE_ID = "store_id"
"""Key in the state's facts: the id of the store that belongs to this state."""

_BACK_OFF = wait_exponential(multiplier=0.2, max=5.0)


class Engine:
    """Holds the parts and says how ready each is. All are given; nothing is opened before `start`.

    Args:
        settings: The configuration.
        state: The journal, slots and sessions.
        store: Where memories live.
        embedder: Text to vectors.
        recall: The pipeline over store and embedder.
        reindexing: Rebuilds the store, where it can be rebuilt.
        lexical_version: Which form the words' vectors have.
        held: The store, where its files are ours to copy.
        worker: Applies journal rows and learns.
        access: How each tenant's requests reach their model.
        clock: The time.
        tally: Counts what questions cost an embedder, where it is paid; written down before the state closes.
        model: The worker's chat model, closed with the engine.
        recall_models: Those that recall asks, closed with the engine.
        secret: Keys the nonces of blocks (the installation's own); by default one for this process.
        write_timeout_s: How long an API write waits to be applied before it is answered as queued.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        state: StateStore,
        store: MemoryStore,
        embedder: Embedder,
        recall: Recall,
        worker: Worker,
        access: ModelAccess,
        clock: Clock,
        tally: QuestionTally | None = None,
        model: ChatModel | None = None,
        recall_models: Sequence[ChatModel] = (),
        reindexing: Reindexing | None = None,
        lexical_version: int = 0,
        held: HeldStore | None = None,
        secret: bytes | None = None,
        write_timeout_s: float = WRITE_TIMEOUT_S,
    ) -> None:
        self.settings = settings
        self.access = access
        self._state = state
        self._store = store
        self._embedder = embedder
        self._recall = recall
        self._worker = worker
        self._clock = clock
        self._tally = tally
        self._models = [*recall_models, *([model] if model is not None else [])]
        self._reindexing = reindexing
        self._lexical_version = lexical_version
        self._backing_up = BackingUp(held, state, clock)
        self._secret = secret or secrets.token_bytes(32)
        self._write_timeout_s = write_timeout_s
        self._tasks = TaskOwner("engine")
        self._receipts = ReceiptKeeper(state, clock, settings)
        self._eraser = Eraser(store, state)
        self._accesses = AccessCounter(store, clock)
        self._pruner = Pruner(
            policies=Policies(settings.retention), store=store, state=state, plan=self._planned, clock=clock
        )
        recall.own_words.found_by(worker.soon_indexed)
        worker.on_written(self._pruner.wrote)
        worker.on_deleted(self._eraser.soon)
        self._quotas = Quotas(settings, state, store, clock)
        self._indexing = Yielding(worker.wake_index)
        self._parts = {"state": LOADING, "store": LOADING, "worker": LOADING}
        self._opened: set[str] = set()
        self._measuring = Measuring(self._parts, self._opened, state=state, store=store, recall=recall)
        self._all_open = asyncio.Event()

    async def start(self) -> None:
        """Begin to open everything, and return at once."""
        await self._embedder.start()
        self._tasks.start(self._open_or_tell(), "open")
        self._tasks.start(self._measuring.run(), "measure")

    async def wait_open(self) -> None:
        """Returns when state, store and worker are open (never, while the store is refused)."""
        await self._all_open.wait()

    async def close(self, grace_s: float) -> None:
        """Close in this order, each before what it stands on.

        1. our own tasks: nothing is opened, measured or reindexed any more (the next reindex goes on where it was);
        2. the worker: takes no new rows, finishes what it applies (``grace_s`` at most), the rest stays in the journal;
        3. the chat models, which only recall and the worker call;
        4. the store: flushes what the worker wrote;
        5. the receipts and the costs of questions that wait to be written;
        6. the state: after the store, because rows are acknowledged after the store's flush;
        7. the embedder.
        """
        await self._tasks.cancel()
        self._indexing.close()
        if self._reindexing is not None:
            await self._reindexing.close()
        await self._backing_up.close()
        await self._pruner.close()
        await self._worker.close(grace_s)
        await self._accesses.close(grace_s)
        await self._eraser.close()
        for model in self._models:
            await model.close()
        if "store" in self._opened:
            await _quietly(self._store.close(), "store")
        await self._receipts.close()
        if self._tally is not None:
            await self._tally.close()
        if "state" in self._opened:
            await _quietly(self._state.close(), "state")
        await self._embedder.close()

    def take(self, settings: Settings) -> None:
        """Go on with reloaded settings: of those that may be (`serve.reloading`) the engine reads the limits."""
        self._quotas.take(settings.limits)

    def announce_long_work(self, within: AbstractContextManager[None]) -> None:
        """``within`` is entered around what may keep this process from answering for long. Called before `start`."""
        self._eraser.announce(within)

    def backends(self) -> Backends:
        """What the API's calls work with."""
        return Backends(
            settings=self.settings,
            state=self._state,
            store=self._store,
            recall=self._recall,
            worker=self._worker,
            clock=self._clock,
            secret=self._secret,
            require_store=self._require_store,
            require_state=self._require_state,
            write_timeout_s=self._write_timeout_s,
            receipts_written=self._receipts.written,
            eraser=self._eraser,
            pruner=self._pruner,
            accesses=self._accesses,
            quotas=self._quotas,
            embedder=self._embedder,
            lexical_version=self._lexical_version,
        )

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """The block for a request; degraded while the store is loading, away or refused. Its receipt is made and
        written behind the answer.
        """
        with self._indexing.recalling(), self._worker.serving():
            answer = await self._recalled(request)
        self._measuring.recalled(answer.reason)
        asyncio.get_running_loop().call_soon(self._note, request, answer)
        return answer.explained(0) if isinstance(answer, Judgement) else answer

    def _note(self, request: RecallRequest, answer: RecallAnswer) -> None:
        self._receipts.note(request, answer)
        self._accesses.note(request.scope, [line.memory_id for line in answer.citations])

    async def _recalled(self, request: RecallRequest) -> RecallAnswer:
        if "store" in self._opened:
            return await self._recall.recall(request)
        reason = "loading" if self._parts["store"] == LOADING else "store"
        return RecallAnswer(result="degraded", reason=reason)

    async def full(self, scope: Scope) -> str | None:
        """Whose quota of memories is full: ``user``, ``tenant``, or nobody's.

        Raises:
            StoreUnavailable: that cannot be told.
        """
        self._require_store()
        return await self._quotas.full(scope)

    async def _planned(self, scope: Scope, plan: PlanBody) -> bool:
        """A plan of our own, through the journal: True when it is applied."""
        entry = JournalEntry(kind=JournalKind.PLAN, scope=scope, body=msgspec.json.encode(plan))
        return await self._worker.applied(await self._worker.submit(entry), self._write_timeout_s)

    async def pause_pruning(self) -> None:
        """Prune nothing by itself any more: whoever asked for a dry run must find everything there."""
        await self._pruner.close()

    async def pruned(self, *, dry_run: bool, tenant: str | None) -> dict[str, Any]:
        """Prune everybody (of a tenant) now, or tell what would go: users looked at, and memories by reason.

        Raises:
            StoreUnavailable, StateUnavailable: it ended early; what is done is done.
        """
        self._require_store()
        users, gone = 0, Counter[str]()
        for owner in await self._pruner.everybody():
            if tenant in {None, owner.tenant}:
                users += 1
                found = Counter(one.reason for one in await self._pruner.due(owner)) if dry_run else None
                gone += await self._pruner.prune(owner) if found is None else found
        return {"users": users, "pruned": dict(gone), "dry_run": dry_run}

    def captured(self, captured: Captured) -> None:
        """The relay wrote a journal row: note how its request reached the model, and look at the journal in a lull."""
        tenant = captured.scope.tenant
        if captured.access is not None and self.access.remember(tenant, captured.access):
            self._worker.new_key(tenant)
        self._indexing.soon()

    def decided(self, parts: Sequence[ReceiptPart]) -> None:
        """What the relay tells receipts; they are written soon."""
        self._receipts.note_parts(parts)

    async def reindex(self, asked: ReindexAsked) -> ReindexTold:
        """Begin to write the whole store anew for the configured embedder, or join the reindex that runs. A store that
        was refused is served afterwards.

        Raises:
            Conflict: who asks has another embedder in its configuration.
            StoreUnavailable, StateUnavailable: it is not there to be read.
        """
        if self._reindexing is None:
            raise NotBuilt("This store cannot be rebuilt.")
        self._require_state()
        refused = self._parts["store"].startswith(REFUSED)
        if not refused:
            self._require_store()
        expected = await self._state.get_meta(STORE_ID)
        return self._reindexing.begin(asked, expected_id=expected, opened=self._serve if refused else None)

    def reindexing(self) -> ReindexTold:
        """How far the reindex is that runs, or how the last one ended."""
        return self._reindexing.told if self._reindexing is not None else ReindexTold()

    def back_up(self, folder: Path) -> BackupTold:
        """Begin a backup into this folder.

        Raises:
            NotBuilt, Conflict: as `BackingUp.begin`.
            StoreUnavailable, StateUnavailable: they are not open.
        """
        self._require_state()
        self._require_store()
        return self._backing_up.begin(folder)

    def backed_up(self) -> BackupTold:
        """How far the backup is that runs, or how the last one ended."""
        return self._backing_up.told

    def readiness(self) -> dict[str, str]:
        """Each part: ``ready``, ``loading``, ``off``, ``degraded: why`` or ``refused: why``."""
        embedder = self._embedder.state
        if embedder.startswith("unavailable"):
            embedder = f"degraded{embedder.removeprefix('unavailable')}"
        return {**self._parts, "embedder": embedder, "learning": self._worker.learning}

    def _require_store(self) -> None:
        if "store" not in self._opened:
            raise StoreUnavailable(f"The memory store is not open ({self._parts['store']}). Try again in a moment.")

    def _require_state(self) -> None:
        if "state" not in self._opened:
            raise StateUnavailable(f"The state is not open ({self._parts['state']}). Try again in a moment.")

    async def _open_or_tell(self) -> None:
        try:
            await self._open()
        except Exception:
            # A fault of ours (its owner logs and counts it) must not look like a start that goes on for ever.
            for part, state in self._parts.items():
                if state == LOADING:
                    self._parts[part] = "degraded: its start failed; the log says why"
            raise

    async def _open(self) -> None:
        async for attempt in self._attempts("state", StateUnavailable, ConfigError):  # a newer version's, for now
            with attempt:
                await self._state.open()
        self._became_ready("state")
        try:
            async for attempt in self._attempts("store", StoreUnavailable, StateUnavailable):
                with attempt:
                    await self._open_store()
        except ConfigError as error:
            self._parts["store"] = f"{REFUSED}: {error.message}"
            self._parts["worker"] = "degraded: the store is refused; the journal keeps what comes"
            log.critical("memory stays OFF, chat goes on without it: %s", error.message)
            return
        await self._serve()

    async def _serve(self) -> None:
        """State and store are open now."""
        await self._warm_up()
        self._became_ready("store")
        await self._worker.start()
        self._became_ready("worker")
        await self._measuring.look()  # a start on a full disk says so at once
        await self._eraser.resume()
        self._pruner.start()
        self._all_open.set()

    async def _open_store(self) -> None:
        expected = await self._state.get_meta(STORE_ID)
        found = await self._store.open(expected)
        if found != expected:
            await self._state.set_meta(STORE_ID, found)

    async def _warm_up(self) -> None:
        """One search that nobody waits for: the store's first one takes as long as a request may wait for it."""
        nobody = Scope(tenant="warm-up", user="warm-up")
        try:
            await self._recall.search(nobody, "warm up", limit=1, where=MemoryFilter())
        except StoreUnavailable as error:
            log.warning("the first search failed: %s", error.message)

    def _attempts(self, part: str, *errors: type[MemproxyError]) -> AsyncRetrying:
        """Try without end: what is down at the start heals later."""

        def note(attempt: RetryCallState) -> None:
            error = attempt.outcome.exception() if attempt.outcome else None
            reason = error.message if isinstance(error, MemproxyError) else "it does not answer"
            if self._parts[part] != (now := f"degraded: {reason}"):
                log.warning("the %s cannot be opened, memory is off until it can: %s", part, reason)
            self._parts[part] = now
            others_wait(self._parts, part)

        return AsyncRetrying(retry=retry_if_exception_type(errors), wait=_BACK_OFF, before_sleep=note, reraise=True)

    def _became_ready(self, part: str) -> None:
        if self._parts[part] != LOADING:
            log.info("the %s is open now", part)
        self._parts[part] = READY
        self._opened.add(part)


async def _quietly(closing: Awaitable[None], part: str) -> None:
    """A part that cannot be closed any more must not keep the others from it."""
    try:
        await closing
    except MemoryUnavailable as error:
        metrics().internal_errors.labels(where="engine.close").inc()
        log.error("the %s could not be closed in order: %s", part, error.message)
