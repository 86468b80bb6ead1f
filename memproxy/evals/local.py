"""A throw-away memory in this process: the product's own parts, as the engine has them, in a temporary folder."""

import shutil
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from memproxy.core.memory import Kind
from memproxy.core.protocol import RecallAnswer, RecallRequest, TurnsBody
from memproxy.core.scope import Scope
from memproxy.errors import StoreUnavailable
from memproxy.evals.dataset import Question, Session
from memproxy.evals.subject import DEPTH, Found
from memproxy.evals.vectors import CachedEmbedder
from memproxy.learn.access import ModelAccess
from memproxy.learn.worker import Worker
from memproxy.models.chat import OpenAIChatModel
from memproxy.models.lexical import Bm25Encoder
from memproxy.models.no_embedder import NoEmbedder
from memproxy.ports import Candidate, Embedder, HybridQuery, JournalEntry, JournalKind, MemoryFilter
from memproxy.recall.documents import dense_text
from memproxy.recall.pipeline import Recall
from memproxy.recall.recipes import named
from memproxy.settings import LearnSettings, RecallSettings, Settings
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState
from memproxy.wiring.engine import SystemClock

TENANT = "evaluation"

_DEADLINE_MS = 60_000
"""A busy machine must not turn an evaluation of what is found into one of deadlines."""

_AHEAD = 24
"""Sessions pushed before the first of them must be searchable."""

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - a folder of random name is made in it
_ROOM = 2 * 1024**3

_PATIENCE_S = 600.0
_GRACE_S = 5.0


class EvaluationStore(EdgeStore):
    """The product's store. Where texts came from the cache without their tokens, those of candidates are made when they
    are found.
    """

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        name = None if isinstance(embedder, NoEmbedder) else embedder.name
        super().__init__(folder, dimension=embedder.dimension or 1, embedder_name=name, lull_s=0)
        self._source = embedder

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        """As the product's; all candidates have tokens where the query has."""
        found = await super().search(scope, query)
        without = [one for one in found if not one.tokens]
        if query.tokens is not None and isinstance(self._source, CachedEmbedder):
            tokens = await self._source.tokens([dense_text(one.memory) for one in without])
            for one, made in zip(without, tokens, strict=True):
                one.tokens = made
        return found


class QuestionClock:
    """The time that a question is asked at."""

    def __init__(self) -> None:
        self.instant = datetime.now(UTC)

    def now(self) -> datetime:
        """That time."""
        return self.instant


class LocalMemory:
    """`subject.Subject` on parts in this process. One recall pipeline for each recipe, over one store."""

    def __init__(self, worker: Worker, recalls: dict[str, Recall], clock: QuestionClock, embedder: Embedder) -> None:
        self._worker = worker
        self._recalls = recalls
        self._clock = clock
        self._embedder = embedder
        self._ahead: deque[int] = deque()

    async def ingest(self, session: Session) -> None:
        """As captured traffic does: a journal row, then the index lane."""
        scope = Scope(tenant=TENANT, user=session.user, session=session.name)
        body = msgspec.json.encode(TurnsBody(messages=session.messages, said_at=session.date))
        self._ahead.append(await self._worker.submit(JournalEntry(kind=JournalKind.TURNS, scope=scope, body=body)))
        while len(self._ahead) > _AHEAD:
            await self._applied(self._ahead.popleft())

    async def settle(self) -> None:
        while self._ahead:
            await self._applied(self._ahead.popleft())

    async def _applied(self, number: int) -> None:
        if not await self._worker.applied(number, _PATIENCE_S):
            raise StoreUnavailable(f"A session was not indexed within {_PATIENCE_S:.0f} s; see the log.")

    async def ask(self, question: Question, recipe: str) -> Found:
        """The block first, as a request would ask for it: what is cached on the way helps the second call only."""
        recall = self._recalls[recipe]
        scope = Scope(tenant=TENANT, user=question.user)
        self._clock.instant = question.asked_at
        self._meter()
        start = time.perf_counter()
        answer = await recall.recall(
            RecallRequest(request_id="evaluation", scope=scope, queries=[question.text], nonce="0" * 12)
        )
        milliseconds = (time.perf_counter() - start) * 1000
        spent, cost = self._meter()
        where = MemoryFilter(kinds=(Kind.TURN,), active=True, quarantined=False, now=question.asked_at)
        scored = await recall.search(scope, question.text, limit=DEPTH, where=where)
        turns = [(one.memory.id, one.memory.session_id or "") for one in scored]
        return _found(turns, answer, milliseconds - spent, cost)

    def _meter(self) -> tuple[float, float]:
        return self._embedder.meter() if isinstance(self._embedder, CachedEmbedder) else (0.0, 0.0)


def _found(turns: list[tuple[str, str]], answer: RecallAnswer, milliseconds: float, embedding_ms: float) -> Found:
    return Found(
        turns=turns,
        injected=[citation.memory_id for citation in answer.citations],
        context=answer.context,
        tokens=answer.tokens,
        degraded=answer.reason if answer.result == "degraded" else None,
        milliseconds=milliseconds,
        embedding_ms=embedding_ms,
    )


@asynccontextmanager
async def local_memory(embedder: Embedder, recipes: Sequence[str]) -> AsyncIterator[LocalMemory]:
    """A memory in a temporary folder, gone afterwards. The embedder is started already and stays open.

    Raises:
        ConfigError: there is no recipe of such a name.
    """
    settings = Settings(learn=LearnSettings(enabled=False), recall=RecallSettings(deadline_ms=_DEADLINE_MS))
    lexical, clock, access = Bm25Encoder(), QuestionClock(), ModelAccess(settings)
    with tempfile.TemporaryDirectory(prefix="memproxy-eval-", dir=temporary_folder()) as folder:
        store = EvaluationStore(Path(folder, "store"), embedder)
        parts: dict[str, Any] = {"settings": settings, "store": store, "embedder": embedder, "lexical": lexical}
        recalls = {recipe: Recall(**parts, clock=clock, recipe=named(recipe)) for recipe in recipes}
        state = SqliteState(Path(folder, "state.db"), sync="normal")
        model = OpenAIChatModel(settings.models.extract)
        worker = Worker(state=state, model=model, access=access, clock=SystemClock(), **parts)
        await state.open()
        await store.open(None)
        await worker.start()
        try:
            yield LocalMemory(worker, recalls, clock, embedder)
        finally:
            await worker.close(_GRACE_S)
            await model.close()
            await store.close()
            await state.close()


def temporary_folder() -> Path | None:
    """A folder in main memory where there is one with room: nothing here must survive, and every session is flushed."""
    try:
        return _MEMORY_FOLDER if shutil.disk_usage(_MEMORY_FOLDER).free > _ROOM else None
    except OSError:
        return None
