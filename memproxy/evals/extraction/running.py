"""Dialogues through the product: a worker over real stores in a throw-away folder, learning at each session's end."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import TurnsBody, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.errors import MemoryUnavailable, ModelError
from memproxy.evals.extraction.dialogues import Dialogue, Session
from memproxy.evals.extraction.judging import Run
from memproxy.evals.local import temporary_folder
from memproxy.evals.progress import Step
from memproxy.learn.access import ModelAccess
from memproxy.learn.worker import Worker
from memproxy.models.lexical import Bm25Encoder
from memproxy.models.no_embedder import NoEmbedder
from memproxy.ports import ChatModel, Embedder, JournalEntry, JournalKind, MemoryFilter, MemoryStore
from memproxy.settings import Settings
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState

TENANT = "evaluation"

_FACTS = tuple(kind for kind in Kind if kind is not Kind.TURN)
_PAGE = 200
_PATIENCE_S = 300.0
_GRACE_S = 5.0
_FAILURES = 3
"""Sessions in a row that could not be learned from: the model is not there, and going on would take hours."""


class SessionClock:
    """The time of the session that comes in; it passes, so that what is tried again later is tried."""

    def __init__(self) -> None:
        self._instant = datetime.fromisoformat("2024-01-01T00:00:00+00:00")
        self._set_at = time.monotonic()

    def now(self) -> datetime:
        """The time set last, and what has passed since."""
        return self._instant + timedelta(seconds=time.monotonic() - self._set_at)

    def begin(self, instant: datetime) -> None:
        """It is that time now."""
        self._instant, self._set_at = instant, time.monotonic()


class Learning:
    """A worker that takes dialogues, each of a user of its own."""

    def __init__(self, worker: Worker, store: MemoryStore, clock: SessionClock) -> None:
        self._worker = worker
        self._store = store
        self._clock = clock

    async def run(self, dialogue: Dialogue) -> Run:
        """Push its sessions one after the other; what is stored after each.

        Imported sessions may be older than those before them: time does not go back for them.
        """
        began = time.perf_counter()
        after, unlearned = [], 0
        now = dialogue.sessions[0].at
        for number, session in enumerate(dialogue.sessions):
            now = max(now + timedelta(minutes=5), session.at)
            self._clock.begin(now)
            scope = Scope(tenant=TENANT, user=dialogue.id, session=f"session-{number}")
            await self._ingest(scope, session)
            unlearned += not await self._worker.learned(scope, _PATIENCE_S)
            after.append(await self._memories(scope))
        return Run(dialogue=dialogue, after=after, seconds=time.perf_counter() - began, unlearned=unlearned)

    async def _ingest(self, scope: Scope, session: Session) -> None:
        body = msgspec.json.encode(TurnsBody(messages=session.messages, said_at=session.at))
        number = await self._worker.submit(JournalEntry(kind=JournalKind.TURNS, scope=scope, body=body))
        if not await self._worker.applied(number, _PATIENCE_S):
            raise MemoryUnavailable(f"a session was not indexed within {_PATIENCE_S:.0f} s; see the log")

    async def _memories(self, scope: Scope) -> list[Memory]:
        """All of the user's memories but the turns, also those that have ended."""
        owner = Scope(tenant=scope.tenant, user=scope.user)
        found: list[Memory] = []
        cursor = None
        while True:
            page = await self._store.page(owner, MemoryFilter(kinds=_FACTS), limit=_PAGE, cursor=cursor)
            found += page.memories
            if (cursor := page.next_cursor) is None:
                return found


async def run_all(learning: Learning, dialogues: Sequence[Dialogue], step: Step) -> list[Run]:
    """Every dialogue, one after the other.

    Raises:
        ModelError: several in a row could not be learned from at all.
    """
    runs = []
    failed = 0
    for dialogue in dialogues:
        run = await learning.run(dialogue)
        failed = failed + 1 if run.unlearned else 0
        if failed >= _FAILURES:
            raise ModelError(
                f"{failed} dialogues in a row could not be learned from; see the log for the model's errors"
            )
        runs.append(run)
        step(1)
        await asyncio.sleep(0)  # the progress bar and Ctrl-C get their turn
    return runs


@asynccontextmanager
async def learning_memory(
    settings: Settings, embedder: Embedder, model: ChatModel, access: UpstreamAccess | None
) -> AsyncIterator[Learning]:
    """A worker that learns, over stores in a temporary folder, gone afterwards. The embedder and the model are started
    already and stay open. ``access`` is how the tenant's requests would reach the model; None: nothing asks for one.
    """
    clock, known = SessionClock(), ModelAccess(settings)
    if access is not None:
        known.remember(TENANT, access)
    with tempfile.TemporaryDirectory(prefix="memproxy-eval-", dir=temporary_folder()) as folder:
        name = None if isinstance(embedder, NoEmbedder) else embedder.name
        store = EdgeStore(Path(folder, "store"), dimension=embedder.dimension or 1, embedder_name=name, lull_s=0)
        state = SqliteState(Path(folder, "state.db"), sync="normal")
        worker = Worker(
            settings=settings,
            state=state,
            store=store,
            embedder=embedder,
            lexical=Bm25Encoder(),
            model=model,
            access=known,
            clock=clock,
        )
        await state.open()
        await store.open(None)
        await worker.start()
        try:
            yield Learning(worker, store, clock)
        finally:
            await worker.close(_GRACE_S)
            await store.close()
            await state.close()
