"""What the tests of reindexing share: an embedder of any dimension, people who said things, and a look at what is
found.
"""

import asyncio
from collections.abc import Sequence

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.errors import EmbedderUnavailable
from memproxy.learn.memory_vectors import adjacency, turn_key
from memproxy.learn.reindex import Reindexer
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import HybridQuery, MemoryFilter, MemoryStore, Passage, Point, Question, RebuildableStore
from memproxy.recall.documents import bm25_text, dense_text
from tests.stores.making import ANN, BEN, FOREIGN_ANN, memory, turn

OLD = {"dimension": 4, "embedder": "test:old"}
NEW = {"dimension": 8, "embedder": "test:new"}


class Lengths:
    """An embedder of so many dimensions: a text's vector tells its length. Goes away after ``most`` texts, and waits
    before each call while ``gate`` is not set.
    """

    def __init__(self, dimension: int, *, most: int = 10**9, state: str = "ready") -> None:
        self.name = f"test:{dimension}"
        self.dimension = dimension
        self.state = state
        self.embedded = 0
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self._most = most

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to release."""

    async def embed_question(self, text: str) -> Question:
        return Question(vector=[1.0, len(text) / 100, *([0.5] * (self.dimension - 2))])

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        self.asked.set()
        await self.gate.wait()
        if self.embedded + len(texts) > self._most:
            raise EmbedderUnavailable("it went away")
        self.embedded += len(texts)
        return [Passage(parts=[(await self.embed_question(text)).vector]) for text in texts]


def people() -> list[Memory]:
    """Facts and conversations of three owners; several turns of one time, as calls bring them."""
    said = []
    for owner in (ANN, BEN, FOREIGN_ANN):
        said += [memory(f"fact{number}", owner, tags=[f"tag{number}"]) for number in range(3)]
        for session in ("s1", "s2"):
            scope = Scope(tenant=owner.tenant, user=owner.user, session=session)
            said += [
                turn(f"t{n}", scope, seconds=n // 3, seq=n % 3, content=f"{owner.user} says word{n}") for n in range(8)
            ]
    return said


async def fill(store: MemoryStore, memories: Sequence[Memory], embedder: Lengths) -> None:
    """Write memories as the worker does."""
    lexical = Bm25Encoder()
    for owner in dict.fromkeys((one.tenant, one.user_id) for one in memories):
        scope = Scope(tenant=owner[0], user=owner[1])
        own = [one for one in memories if (one.tenant, one.user_id) == owner]
        turns = [one for one in own if one.kind is Kind.TURN]
        around = adjacency([*await store.neighbours(scope, turns, reach=1), *turns])
        passages = await embedder.embed_passages([dense_text(one) for one in own])
        texts = [bm25_text(one, *around.get(turn_key(one), (None, None))) for one in own]
        words = [lexical.encode_document(text) for text in texts]
        made = zip(own, passages, words, strict=True)
        await store.upsert(scope, [Point(memory=one, dense=text.parts, bm25=bm25) for one, text, bm25 in made])
    await store.flush()


async def reindexed(store: RebuildableStore, embedder: Lengths, *, page: int = 500, batch: int = 8) -> Reindexer:
    """Reindex a store to its end (or to its failure), and let go of what was made."""
    rebuild = await store.begin_rebuild(None)
    try:
        reindexer = Reindexer(rebuild, embedder=embedder, lexical=Bm25Encoder(), page=page, batch=batch)
        await reindexer.run()
    finally:
        await rebuild.close()
    return reindexer


async def everything(store: MemoryStore) -> dict[tuple[str, str, str | None, str], Memory]:
    """All memories of `people`, by what names them."""
    found = []
    for owner in (ANN, BEN, FOREIGN_ANN):
        scope = Scope(tenant=owner.tenant, user=owner.user)
        found += (await store.page(scope, MemoryFilter(), limit=10_000)).memories
    return {(one.tenant, one.user_id, one.session_id, one.id): one for one in found}


def named(memories: Sequence[Memory]) -> dict[tuple[str, str, str | None, str], Memory]:
    """Memories as `everything` gives them."""
    return {(one.tenant, one.user_id, one.session_id, one.id): one for one in memories}


async def found_by(store: MemoryStore, scope: Scope, word: str, *, dimension: int) -> set[str]:
    """Turns of the scope's session that are found by a word, all of them with a vector."""
    where = MemoryFilter(kinds=(Kind.TURN,), session_ids=(scope.session or "",))
    dense = (await Lengths(dimension).embed_question(word)).vector
    query = HybridQuery(dense=dense, bm25=Bm25Encoder().encode_query(word), where=where)
    found = await store.search(scope, query)
    assert all(one.cosine is not None for one in found)
    return {one.memory.id for one in found if one.bm25}


async def expected_by(store: MemoryStore, scope: Scope, word: str) -> set[str]:
    """The turns that hold a word, and those right beside them."""
    where = MemoryFilter(kinds=(Kind.TURN,), session_ids=(scope.session or "",))
    turns = (await store.page(scope, where, limit=10_000)).memories
    around = adjacency(turns)
    texts = {one.id: [one.content, *(near.content for near in around[turn_key(one)] if near)] for one in turns}
    return {name for name, own in texts.items() if any(word in text.split() for text in own)}
