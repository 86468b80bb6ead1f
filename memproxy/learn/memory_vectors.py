"""Points for memories: their vectors by words always, by meaning when the embedder is there, else filled in later."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import OwnerKey, Scope
from memproxy.core.text import estimate
from memproxy.core.turn import in_order
from memproxy.errors import EmbedderUnavailable
from memproxy.learn.budget import TokenMeter
from memproxy.learn.flush import OwnerLocks
from memproxy.ports import Embedder, HybridQuery, LexicalEncoder, MemoryFilter, MemoryStore, Passage, Point, StateStore
from memproxy.recall.documents import bm25_text, dense_text

log = logging.getLogger(__name__)

PENDING_KEY = "embedding.pending"
"""Where the state notes the owners that have memories without vectors: a JSON list of ``[tenant, user]``."""

_BATCH = 64
_AT_ONCE = 16_000  # characters whose words are counted before others have their turn: a few milliseconds
_PAID = "openai:"  # how the names of embedders begin whose texts go to a service

Around = tuple[Memory | None, Memory | None]
_TurnKey = tuple[str | None, str]


def turn_key(turn: Memory) -> _TurnKey:
    """A turn's unique key among its owner's: a client may use one id in two sessions."""
    return (turn.session_id, turn.id)


def adjacency(turns: Sequence[Memory]) -> dict[_TurnKey, Around]:
    """The turns right before and after each, among those given that the same callers see: their words find it."""
    sessions: dict[tuple[str | None, ...], list[Memory]] = {}
    for turn in turns:
        sessions.setdefault((turn.session_id, turn.project_id, turn.agent_id), []).append(turn)
    adjacent: dict[_TurnKey, Around] = {}
    for group in sessions.values():
        order: list[Memory | None] = [None, *in_order(group), None]
        for index in range(1, len(order) - 1):
            if (middle := order[index]) is not None:
                adjacent[turn_key(middle)] = (order[index - 1], order[index + 1])
    return adjacent


class Vectors:
    """Makes points, and remembers durably whose vectors are missing until they are filled in."""

    def __init__(
        self,
        *,
        store: MemoryStore,
        state: StateStore,
        embedder: Embedder,
        lexical: LexicalEncoder,
        locks: OwnerLocks,
        meter: TokenMeter,
    ) -> None:
        """``meter`` counts what an embedder costs that is paid by the token."""
        self._store = store
        self._state = state
        self._embedder = embedder
        self._lexical = lexical
        self._locks = locks
        self._meter = meter if embedder.name.startswith(_PAID) else None
        self._unneeded: Counter[OwnerKey] = Counter()
        self._making: dict[asyncio.Timeout, OwnerKey] = {}

    @contextmanager
    def unneeded(self, owner: OwnerKey) -> Iterator[None]:
        """Inside, this owner's memories are written without vectors, even those under way: its erasure waits."""
        self._unneeded[owner] += 1
        for limit, other in self._making.items():
            if other == owner and not limit.expired():
                limit.reschedule(0)
        try:
            yield
        finally:
            self._unneeded[owner] -= 1
            self._unneeded += Counter()  # drops who has none left

    async def points(
        self, scope: Scope, memories: Sequence[Memory], around: Mapping[_TurnKey, Around] | None = None
    ) -> list[Point]:
        """Points of these memories, without dense vectors while there is no embedder; ``around``: the turns beside."""
        passages = await self._embed(scope.owner, [dense_text(memory) for memory in memories])
        points, read = [], 0
        for memory, passage in zip(memories, passages, strict=True):
            previous, following = (around or {}).get(turn_key(memory), (None, None))
            text = bm25_text(memory, previous, following)
            if (read := read + len(text)) > _AT_ONCE:
                await asyncio.sleep(0)
                read = len(text)
            words = self._lexical.encode_document(text)
            points.append(Point(memory=memory, dense=passage.parts, bm25=words, tokens=passage.tokens))
        return points

    async def with_neighbours(self, scope: Scope, memories: Sequence[Memory]) -> list[Point]:
        """Points of stored memories; the text around turns is read from the store."""
        turns = [memory for memory in memories if memory.kind is Kind.TURN]
        near = await self._store.neighbours(scope, turns, reach=1) if turns else []
        return await self.points(scope, memories, adjacency([*near, *turns]))

    async def statement_vectors(self, texts: Sequence[str], tenant: str | None = None) -> list[list[float] | None]:
        """One vector for each short text, None for all while the embedder is not there. ``tenant`` bears the cost."""
        try:
            passages = await self._embedder.embed_passages(texts) if texts else []
        except EmbedderUnavailable:
            return [None] * len(texts)
        await self._count(tenant, texts)
        return [passage.parts[0] for passage in passages]

    async def _count(self, tenant: str | None, texts: Sequence[str]) -> None:
        if self._meter is not None and tenant is not None and texts:
            await self._meter.add(tenant, "embed", sum(map(estimate, texts)))

    async def _embed(self, owner: OwnerKey, texts: Sequence[str]) -> list[Passage]:
        if not texts:
            return []
        passages: list[Passage] | None = None
        if owner not in self._unneeded:
            try:
                async with asyncio.timeout(None) as limit:
                    self._making[limit] = owner
                    passages = await self._embedder.embed_passages(texts)
            except (EmbedderUnavailable, TimeoutError):
                pass  # they are filled in later
            finally:
                del self._making[limit]
        if passages is None:
            await self.note_all(frozenset({owner}))
            return [Passage(parts=[]) for _ in texts]
        await self._count(owner[0], texts)
        return passages

    async def note_all(self, owners: Set[OwnerKey]) -> None:
        """These owners have memories without vectors, to be filled in when the embedder is there."""
        await self._change(lambda pending: pending | owners)

    async def forget(self, owner: OwnerKey) -> None:
        """Drop the owner from the notes of missing vectors: nothing of it is left."""
        await self._change(lambda pending: pending - {owner})

    async def _change(self, change: Callable[[frozenset[OwnerKey]], frozenset[OwnerKey]]) -> None:
        """Note others; another engine may do so at the same time."""
        while True:
            stored = await self._state.get_meta(PENDING_KEY)
            pending = _owners(stored)
            changed = change(pending)
            if changed == pending or await self._state.swap_meta(PENDING_KEY, stored, json.dumps(sorted(changed))):
                return

    async def fill(self) -> int:
        """Give vectors to all memories that lack them, if the embedder is ready; answers how many got theirs."""
        filled = 0
        if self._embedder.state != "ready":
            return 0
        for owner in sorted(_owners(await self._state.get_meta(PENDING_KEY))):
            scope = Scope(tenant=owner[0], user=owner[1])
            async with self._state.alone(scope) as is_alone:
                if not is_alone:
                    continue  # another engine writes for it just now: what is read here may be gone when it is written
                try:
                    filled += await self._fill(scope)
                except EmbedderUnavailable:
                    return filled
                await self._store.flush()
                await self.forget(owner)
        if filled:
            log.info("embedded %d memories that had been stored without vectors", filled)
        return filled

    async def _fill(self, scope: Scope) -> int:
        probe = (await self._embedder.embed_question("memory")).vector
        cursor, filled = None, 0
        while True:
            # One page at a time under the lock, so that the owner's own rows come between.
            async with self._locks.of(scope.owner):
                page = await self._store.page(scope, MemoryFilter(), limit=_BATCH, cursor=cursor)
                missing = await self._without_vector(scope, page.memories, probe)
                if missing:
                    points = await self.with_neighbours(scope, missing)
                    if not all(point.dense for point in points):
                        raise EmbedderUnavailable("the embedder went away while filling in vectors; tried again later")
                    await self._store.upsert(scope, points)
                    filled += len(points)
            if page.next_cursor is None:
                return filled
            cursor = page.next_cursor

    async def _without_vector(self, scope: Scope, memories: Sequence[Memory], probe: list[float]) -> list[Memory]:
        if not memories:
            return []
        where = MemoryFilter(ids=tuple({memory.id for memory in memories}))
        query = HybridQuery(dense=probe, limit=4 * len(memories), where=where, background=True)
        candidates = await self._store.search(scope, query)
        with_vector = {turn_key(candidate.memory) for candidate in candidates if candidate.cosine is not None}
        return [memory for memory in memories if turn_key(memory) not in with_vector]


def _owners(stored: str | None) -> frozenset[OwnerKey]:
    return frozenset((tenant, user) for tenant, user in json.loads(stored or "[]"))


def merged(memory: Memory, fields: Mapping[str, object]) -> Memory:
    """The memory with some fields changed, to JSON types too. Raises `msgspec.ValidationError` for a wrong value."""
    payload = {**msgspec.to_builtins(memory), **msgspec.to_builtins(dict(fields))}
    return msgspec.convert(payload, Memory)
