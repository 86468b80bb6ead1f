"""A real embedded store, a real encoder and memories for the tests of recall."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import RecallLimits, RecallRequest
from memproxy.core.scope import Scope
from memproxy.errors import EmbedderUnavailable
from memproxy.models.embedding import NoEmbedder
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Embedder, Passage, Point
from memproxy.recall.documents import bm25_text, dense_text
from memproxy.recall.pipeline import Recall
from memproxy.recall.select import Limits
from memproxy.settings import Settings
from memproxy.stores.edge import EdgeStore
from tests.support.emptied import EmptiedStore
from tests.support.opening import opening

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ANN = Scope(tenant="acme", user="ann", session="s1")
DIMENSION = 384

LIMITS = Limits.of(Settings(), RecallLimits())

PATIENT = Settings.model_validate({"recall": {"deadline_ms": 60_000}})
"""A busy machine must not turn a test of what is found into one of deadlines."""


class FixedClock:
    """Always the same instant."""

    def now(self) -> datetime:
        return NOW


def fact(text: str, **fields: Any) -> Memory:
    """A fact that Ann's sessions taught."""
    return _memory(text, Kind.SEMANTIC, fields)


def turn(text: str, **fields: Any) -> Memory:
    """A message of Ann's."""
    return _memory(text, Kind.TURN, fields)


def _memory(text: str, kind: Kind, fields: dict[str, Any]) -> Memory:
    identifier = fields.pop("id", f"{kind.value}-{text}")
    defaults: dict[str, Any] = {"user_id": "ann", "created_at": NOW, "updated_at": NOW, "session_id": "s1"}
    if kind is Kind.TURN:
        defaults["turn_ids"] = [identifier]
    return Memory(id=identifier, tenant="acme", kind=kind, content=text, **(defaults | fields))


def conversation(*texts: str) -> list[Memory]:
    """Messages of one session, a minute apart."""
    return [turn(text, created_at=NOW + timedelta(minutes=place)) for place, text in enumerate(texts)]


class Bench:
    """A store with the pipeline over it."""

    def __init__(self, store: EdgeStore, embedder: Embedder, settings: Settings) -> None:
        self.store = store
        self.embedder = embedder
        self.lexical = Bm25Encoder()
        self.recall = Recall(
            settings=settings, store=store, embedder=embedder, lexical=self.lexical, clock=FixedClock()
        )

    async def put(self, *memories: Memory, scope: Scope = ANN) -> None:
        """Store memories as the worker would; turns stand next to each other in the order given."""
        try:
            passages = await self.embedder.embed_passages([dense_text(memory) for memory in memories])
        except EmbedderUnavailable:
            passages = [Passage(parts=[]) for _ in memories]
        points = [self._point(memories, place, passage) for place, passage in enumerate(passages)]
        await self.store.upsert(scope, points)

    async def said(self, *texts: str) -> None:
        """Store messages of a session each, the first a month ago and each of the others a day later."""
        began = NOW - timedelta(days=30)
        days = (began + timedelta(days=day) for day in range(len(texts)))
        told = zip(texts, days, strict=True)
        await self.put(*(turn(text, session_id=f"s{day}", created_at=day) for text, day in told))

    def _point(self, memories: Sequence[Memory], place: int, passage: Passage) -> Point:
        near = [memories[other] if 0 <= other < len(memories) else None for other in (place - 1, place + 1)]
        is_turn = memories[place].kind is Kind.TURN
        before, after = (one if is_turn and one is not None and one.kind is Kind.TURN else None for one in near)
        return Point(
            memory=memories[place],
            dense=passage.parts,
            tokens=passage.tokens,
            bm25=self.lexical.encode_document(bm25_text(memories[place], before, after)),
        )


@asynccontextmanager
async def bench(*, embedder: Embedder | None = None, settings: Settings | None = None) -> AsyncIterator[Bench]:
    """An empty store; without an embedder recall goes by words."""
    async with opening(EmptiedStore(dimension=DIMENSION, embedder_name=None), None) as store:
        yield Bench(store, embedder or NoEmbedder(DIMENSION), settings or PATIENT)


def asking(*queries: str, scope: Scope = ANN, present: Sequence[str] = (), **limits: Any) -> RecallRequest:
    """A request for the block of these user messages."""
    return RecallRequest(
        request_id="r1",
        scope=scope,
        queries=list(queries),
        nonce="0123456789ab",
        present=list(present),
        limits=RecallLimits(**limits),
        explain=True,
    )
