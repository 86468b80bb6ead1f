"""A throw-away memory in this process: the product's own worker, stores and recall, in a temporary folder."""

import shutil
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import RecallRequest, TurnsBody, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.errors import StoreUnavailable
from memproxy.evals.dataset import Question, Session
from memproxy.evals.scoring import DEPTH, Found
from memproxy.evals.vector_cache import CachedEmbedder
from memproxy.learn.access import ModelAccess
from memproxy.learn.worker import Worker
from memproxy.models.chat_client import OpenAIChatModel
from memproxy.models.embedding import NoEmbedder
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import ChatModel, Embedder, JournalEntry, JournalKind, MemoryFilter, MemoryStore, every
from memproxy.recall.pipeline import Recall
from memproxy.recall.recipes import Recipe, named
from memproxy.settings import Settings
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState

Learning = Literal["off", "verbatim", "model"]

TENANT = "evaluation"

_DEADLINE_MS = 60_000
"""A busy machine must not turn an evaluation of what is found into one of deadlines."""

_AHEAD = 24
"""Sessions pushed before the first of them must be searchable."""

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - a folder of random name is made in it
_ROOM = 2 * 1024**3

_PATIENCE_S = 600.0
_GRACE_S = 5.0
_NEVER = 10**6
"""Messages, and seconds, after which learning begins by itself: it begins at a session's end."""


class SetClock:
    """A clock that is set. One that ``runs`` goes on from there, so that work which waits for a time is done."""

    def __init__(self, *, runs: bool) -> None:
        self._runs = runs
        self.set(datetime.now(UTC))

    def set(self, instant: datetime) -> None:
        self._instant, self._set_at = instant, time.monotonic()

    def now(self) -> datetime:
        """The time set last and, where it runs, what has passed since."""
        return self._instant + timedelta(seconds=time.monotonic() - self._set_at if self._runs else 0.0)


class EvaluationMemory:
    """Takes sessions as captured traffic comes in, and answers. One recall pipeline for each recipe, over one store."""

    def __init__(
        self,
        settings: Settings,
        *,
        embedder: Embedder,
        store: MemoryStore,
        state: SqliteState,
        model: ChatModel,
        access: ModelAccess,
        recipes: Sequence[str | Recipe],
    ) -> None:
        self._embedder = embedder
        self._store = store
        self.asked_at = SetClock(runs=False)
        self.said_at = SetClock(runs=True)
        parts: dict[str, Any] = {"settings": settings, "store": store, "embedder": embedder, "lexical": Bm25Encoder()}
        known_recipes = [named(recipe) if isinstance(recipe, str) else recipe for recipe in recipes]
        self.recalls = {recipe.name: Recall(**parts, clock=self.asked_at, recipe=recipe) for recipe in known_recipes}
        self.worker = Worker(state=state, model=model, access=access, clock=self.said_at, **parts)
        self._ahead: deque[int] = deque()

    async def ingest(self, session: Session) -> None:
        """A journal row, then the index lane; it may become searchable later."""
        scope = Scope(tenant=TENANT, user=session.user, session=session.name)
        body = msgspec.json.encode(TurnsBody(messages=session.messages, said_at=session.date))
        self._ahead.append(await self.worker.submit(JournalEntry(kind=JournalKind.TURNS, scope=scope, body=body)))
        while len(self._ahead) > _AHEAD:
            await self._applied(self._ahead.popleft())

    async def settle(self) -> None:
        """Returns when everything that came in is searchable."""
        while self._ahead:
            await self._applied(self._ahead.popleft())

    async def _applied(self, number: int) -> None:
        if not await self.worker.applied(number, _PATIENCE_S):
            raise StoreUnavailable(f"A session was not indexed within {_PATIENCE_S:.0f} s; see the log.")

    async def ingest_at(self, session: Session, at: datetime) -> None:
        """The same at that time, alone."""
        self.said_at.set(at)
        await self.ingest(session)
        await self.settle()

    async def learn(self, user: str, session: str) -> bool:
        """Learn from a session, as at its end; whether that could be done."""
        return await self.worker.learned(Scope(tenant=TENANT, user=user, session=session), _PATIENCE_S)

    async def memories(self, user: str, kinds: Collection[Kind]) -> list[Memory]:
        """All of a user's of these kinds, also those that have ended."""
        where = MemoryFilter(kinds=tuple(kinds))
        return [memory async for memory in every(self._store, Scope(tenant=TENANT, user=user), where)]

    async def ask(self, question: Question, recipe: str) -> Found:
        """Without a gate: the block as a request would get it, then what is found in all. The block comes first: what
        is cached on the way helps the second call only.
        """
        recall = self.recalls[recipe]
        scope = Scope(tenant=TENANT, user=question.user)
        self.asked_at.set(question.asked_at)
        self._meter()
        start = time.perf_counter()
        answer = await recall.recall(
            RecallRequest(request_id="evaluation", scope=scope, queries=[question.text], nonce="0" * 12)
        )
        milliseconds = (time.perf_counter() - start) * 1000
        spent, cost = self._meter()
        where = MemoryFilter(kinds=(Kind.TURN,), active=True, quarantined=False, now=question.asked_at)
        scored = await recall.search(scope, question.text, limit=DEPTH, where=where)
        return Found(
            turns=[(candidate.memory.id, candidate.memory.session_id or "") for candidate in scored],
            injected=[citation.memory_id for citation in answer.citations],
            context=answer.context,
            tokens=answer.tokens,
            degraded=answer.reason if answer.result == "degraded" else None,
            milliseconds=milliseconds - spent,
            embedding_ms=cost,
        )

    def _meter(self) -> tuple[float, float]:
        return self._embedder.meter() if isinstance(self._embedder, CachedEmbedder) else (0.0, 0.0)


def settings_for(settings: Settings, learning: Learning) -> Settings:
    """These settings, with learning as asked at a session's end, and no deadline that a busy machine would miss."""
    learn = {
        "enabled": learning != "off",
        "mode": "model" if learning == "model" else "verbatim",
        "every_turns": _NEVER,
        "idle_s": float(_NEVER),
    }
    return settings.model_copy(
        update={
            "learn": settings.learn.model_copy(update=learn),
            "recall": settings.recall.model_copy(update={"deadline_ms": _DEADLINE_MS}),
        }
    )


@asynccontextmanager
async def throwaway_memory(
    settings: Settings,
    embedder: Embedder,
    recipes: Sequence[str | Recipe],
    *,
    model: ChatModel | None = None,
    access: UpstreamAccess | None = None,
    other_store: MemoryStore | None = None,
) -> AsyncIterator[EvaluationMemory]:
    """A memory in a temporary folder, gone afterwards. The embedder is started already and stays open, as does a
    ``model`` that is given (None: that of the settings). ``access`` is how the tenant's requests would reach it; None:
    nothing asks for one. ``other_store``, empty and not open yet, takes the place of the embedded one.

    Raises:
        ConfigError: there is no recipe of such a name.
    """
    model_access, own_model = ModelAccess(settings), model or OpenAIChatModel(settings.models.extract)
    if access is not None:
        model_access.remember(TENANT, access)
    with tempfile.TemporaryDirectory(prefix="memproxy-eval-", dir=temporary_folder()) as folder:
        name = None if isinstance(embedder, NoEmbedder) else embedder.name
        embedded = EdgeStore(Path(folder, "store"), dimension=embedder.dimension or 1, embedder_name=name, lull_s=0)
        store = embedded if other_store is None else other_store
        state = SqliteState(Path(folder, "state.db"), sync="normal")
        memory = EvaluationMemory(
            settings, embedder=embedder, store=store, state=state, model=own_model, access=model_access, recipes=recipes
        )
        await state.open()
        await store.open(None)
        await memory.worker.start()
        try:
            yield memory
        finally:
            await memory.worker.close(_GRACE_S)
            if model is None:
                await own_model.close()
            await store.close()
            await state.close()


def temporary_folder() -> Path | None:
    """A folder in main memory where there is one with room: nothing here must survive, and every session is flushed."""
    try:
        return _MEMORY_FOLDER if shutil.disk_usage(_MEMORY_FOLDER).free > _ROOM else None
    except OSError:
        return None
