"""What a memory store does, built once over any vector engine (`backend.Backend`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any

import msgspec

from memproxy.core.memory import ASKED, Kind, Memory
from memproxy.core.scope import Scope
from memproxy.errors import ConfigError, RequestError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Candidate, ConversationPage, HybridQuery, MemoryFilter, Page, Point, PointPage
from memproxy.ports.memory_store import Written
from memproxy.stores.backend import TOKEN_VECTORS, Backend, FoundPoint, Hybrid, Ranking, Scores, Stored
from memproxy.stores.filters import TELLS_NOTHING, HasId, OneOf, Where, erasable, facts, of_tenant, readable, telling
from memproxy.stores.paging import Cursor, around, conversations, newest
from memproxy.stores.payload import (
    Keys,
    Points,
    Read,
    RecentMemories,
    TimeToLive,
    encoded,
    for_search,
    memories,
    point_id_of,
    slim_payload,
    tokens_of,
    with_point_ids,
)


class Writers:
    """The writes to a store that are under way: a rebuild must miss none of them, and switches between two of them. It
    lets writes run side by side, holds them back while asked to, and notes what they changed while asked to.
    """

    def __init__(self) -> None:
        self._running = 0
        self._allowed = asyncio.Event()
        self._allowed.set()
        self._nobody = asyncio.Event()
        self._nobody.set()
        self._pausing = asyncio.Lock()
        self._changed: set[str] | None = None

    @property
    def noting(self) -> bool:
        return self._changed is not None

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Somebody writes within it. Waits while `paused`."""
        await self._allowed.wait()
        self._running += 1
        self._nobody.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._nobody.set()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Within it nobody writes: begins when those who do have ended. Of two, one waits for the other."""
        async with self._pausing:
            self._allowed.clear()
            try:
                await self._nobody.wait()
                yield
            finally:
                self._allowed.set()

    def note(self, point_ids: Iterable[str]) -> None:
        """Note points that may have changed. After the write: what is noted before it could be read too early."""
        if self._changed is not None:
            self._changed.update(point_ids)

    def start_noting(self) -> None:
        self._changed = set()

    def stop_noting(self) -> None:
        self._changed = None

    def take(self) -> set[str]:
        """What changed since the last call."""
        changed, self._changed = self._changed or set(), set() if self._changed is not None else None
        return changed


BATCH = 256  # points written or read in one call of the engine: bounds the memory of one call

_OWNER = frozenset({"id", "tenant", "user_id"})
_COUNTED = frozenset({"access_count", "last_accessed_at"})
"""Fields that change with every recall, and say nothing."""
COLUMN_BATCH = 2_048
"""Points of which a few short fields are read in one call: a server sorts what is left for each. A call of the embedded
engine holds Python's lock, for longer where this is more."""

_FLAGGED_BY = frozenset({"content", "kind", "trust"})
"""Fields that `core.telling.tells_nothing` looks at."""


class VectorStore:
    """The part of `ports.MemoryStore` that is the same for every engine. Subclasses open, close and flush."""

    is_flushed = True

    def __init__(self, *, dimension: int, embedder_name: str | None) -> None:
        self.dimension = dimension
        self._embedder = embedder_name
        self._points: Points | None = None
        self._writers = Writers()
        self._recent: RecentMemories | None = None
        self.unfinished = False
        """Whether a reindex that ended early has left copies of memories."""
        self._keys: Keys | None = None
        self._time_to_live: TimeToLive | None = None
        self._listeners: list[Written] = []

    def seal_with(self, keys: Keys) -> None:
        """Encrypt what is written from now on, with each user's key. Called before `open`."""
        self._keys = keys

    def expire_after(self, time_to_live: TimeToLive) -> None:
        """Give every memory of a tenant this time. Called before `open`."""
        self._time_to_live = time_to_live

    def on_changed(self, callback: Written) -> None:
        self._listeners.append(callback)

    async def _tell(self, scope: Scope, written: Sequence[Memory] | None) -> None:
        for listener in self._listeners:
            await listener(scope, written)

    def points_of(self, engine: Backend) -> Points:
        """The engine's points in the clear, encrypted and dated as it is configured."""
        return Points(engine, self._keys, self._time_to_live)

    @property
    def engine(self) -> Backend:
        """The open store's points as they are stored, of all owners (`moving`)."""
        if self._points is None:
            raise StoreUnavailable("The memory store is not open; open it, or wait until it is.")
        return self._points.engine

    def written(self, point: Point) -> Stored:
        """The point as it is written to a collection of the configured embedder."""
        return self._written(Scope(tenant=point.memory.tenant, user=point.memory.user_id), point)

    def drop_read(self) -> None:
        """Forget what was read lately: somebody's key was destroyed."""
        if self._recent is not None:
            self._recent.clear()

    async def drop_unfinished(self) -> None:
        """Remove what an unfinished reindex has copied: what is erased must not live on there."""
        self.unfinished = False

    async def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        written = [self._written(scope, point) for point in points]
        try:
            async with self._changing("upsert", {record.id for record in written}) as engine:
                for start in range(0, len(written), BATCH):
                    await engine.upsert(written[start : start + BATCH])
        finally:  # a part of them may be written
            await self._tell(scope, [point.memory for point in points])

    async def set_fields(self, scope: Scope, changes: Mapping[str, Mapping[str, Any]]) -> None:
        plain = {name: _without_derived(msgspec.to_builtins(dict(fields))) for name, fields in changes.items()}
        if any(_OWNER & fields.keys() for fields in plain.values()):
            raise RequestError("Whose a memory is cannot be changed: store it anew.")
        groups = _alike(plain)
        changed: set[str] = set()
        try:
            async with self._changing("set_fields", changed) as engine:
                point_ids = await self._point_ids(engine, scope, list(plain))
                changed.update(point_id for group in point_ids.values() for point_id in group)
                for group, fields in groups:
                    ids = [point_id for name in group for point_id in point_ids.get(name, ())]
                    if ids and fields:
                        await engine.set_payload(ids, fields, scope.owner)
        finally:
            if any(fields.keys() - _COUNTED for fields in changes.values()):
                await self._tell(scope, None)

    async def get(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        async with self._using("get") as engine:
            point_ids = await self._point_ids(engine, scope, ids)
            points = await engine.retrieve([point_id for group in point_ids.values() for point_id in group])
        return {memory.id: memory for memory in sorted(memories(points), key=lambda memory: memory.created_at)}

    async def page(self, scope: Scope, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page:
        begin = Cursor.read(cursor) if cursor is not None else None
        async with self._using("page") as engine:
            points, following = await newest(engine, self._readable(scope, where), limit=limit, cursor=begin)
        return Page(memories=memories(points), next_cursor=following.text() if following else None)

    async def conversations(
        self, scope: Scope, where: MemoryFilter, *, limit: int, cursor: str | None = None
    ) -> ConversationPage:
        begin = Cursor.read(cursor) if cursor is not None else None
        async with self._using("conversations") as engine:
            listed, following = await conversations(engine, self._readable(scope, where), limit=limit, cursor=begin)
        return ConversationPage(conversations=listed, next_cursor=following.text() if following else None)

    async def point_page(self, scope: Scope, *, limit: int, cursor: str | None = None) -> PointPage:
        begin = Cursor.read(cursor) if cursor is not None else None
        async with self._using("page") as engine:
            page, following = await newest(engine, self._readable(scope, MemoryFilter()), limit=limit, cursor=begin)
            stored = {point.id: point for point in await engine.stored([point.id for point in page])}
        points = [
            Point(
                memory=memory,
                dense=stored[point_id].dense,
                bm25=stored[point_id].bm25,
                tokens=tokens_of(stored[point_id]),
            )
            for point_id, memory in with_point_ids(page)
            if point_id in stored
        ]
        return PointPage(points=points, next_cursor=following.text() if following else None)

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        # counted over others' memories, IDF would tell a project how rare a word is in another
        everything, where = self._readable(scope, MemoryFilter()), self._readable(scope, query.where)
        if query.dense is not None and len(query.dense) != self.dimension:
            raise ConfigError(self._wrong_dimension(len(query.dense)))
        hybrid = Hybrid(
            where=where,
            corpus=telling(everything) if query.where.telling else everything,
            limit=query.limit,
            facts=query.facts,
            dense=query.dense,
            bm25=query.bm25,
            background=query.background,
        )
        async with self._using("search") as engine:
            scores, reads = await self._scored(engine, hybrid)
        return [
            Candidate(memory=read.memory, cosine=cosine, bm25=bm25, tokens=read.tokens, notes=read.notes)
            for read, cosine, bm25 in zip(reads, scores.dense, scores.bm25, strict=True)
        ]

    async def _scored(self, engine: Points, query: Hybrid) -> tuple[Scores, list[Read]]:
        """Every candidate's scores, and the candidates."""
        scores = await engine.scores(query)
        if scores is None:
            return await searched(engine, query, partial(self._read, engine))
        if self._recent is not None and (reads := self._recent.all_of(scores.point_ids)) is not None:
            return scores, reads
        by_id = dict(await self._read(engine, scores.point_ids))
        return scores.of(by_id.keys()), [by_id[point_id] for point_id in scores.point_ids if point_id in by_id]

    async def _read(self, engine: Points, point_ids: list[str]) -> list[tuple[str, Read]]:
        """The memories of these points, in their order; missing ones are left out."""
        if self._recent is None:
            return for_search(await engine.retrieve(point_ids))
        writes, cached = self._recent.writes, self._recent.get(point_ids)
        if len(cached) == len(point_ids):
            return list(cached.items())
        missing = {point_id: point_id for point_id in point_ids if point_id not in cached}
        fetched = for_search(await engine.retrieve(list(missing)))
        # by the very string that was asked by: an index keeps it and asks by it again, and no letters are compared
        read = [(missing.get(point_id, point_id), entry) for point_id, entry in fetched]
        self._recent.add(read, writes=writes)
        cached.update(read)
        return [(point_id, cached[point_id]) for point_id in point_ids if point_id in cached]

    async def neighbours(self, scope: Scope, turns: Sequence[Memory], *, reach: int) -> list[Memory]:
        if reach < 1 or not turns:
            return []
        async with self._using("neighbours") as engine:
            groups = await asyncio.gather(*(around(engine, scope, turn, reach=reach) for turn in turns))
        given_keys = {(turn.session_id, turn.id) for turn in turns}
        near = {(memory.session_id, memory.id): memory for group in groups for memory in group}
        return [memory for key, memory in near.items() if key not in given_keys]

    async def delete(self, scope: Scope, where: MemoryFilter) -> int:
        matching = erasable(scope, where, self._ttl(scope))
        gone: set[str] = set()
        if self.unfinished and not self._writers.noting:
            await self.drop_unfinished()
        async with self._changing("delete", gone) as engine:
            if self._writers.noting:
                gone.update([point.id async for point in _all(engine, matching, ["tenant"])])
            try:
                return await engine.delete(matching)
            finally:
                if self._recent is not None:
                    self._recent.clear()
                await self._tell(scope, None)

    async def count(self, scope: Scope, where: MemoryFilter) -> int:
        async with self._using("count") as engine:
            return await engine.count(self._readable(scope, where))

    async def columns(self, scope: Scope, where: MemoryFilter, fields: Sequence[str]) -> list[tuple[Any, ...]]:
        async with self._using("columns") as engine:
            return [
                tuple(point.payload.get(name) for name in fields)
                async for point in _all(engine, self._readable(scope, where), fields, batch=COLUMN_BATCH)
            ]

    async def count_tenant(self, tenant: str) -> int:
        async with self._using("count") as engine:
            return await engine.count(of_tenant(tenant))

    def _readable(self, scope: Scope, where: MemoryFilter) -> Where:
        return readable(scope, where, self._ttl(scope))

    def _ttl(self, scope: Scope) -> timedelta | None:
        return None if self._time_to_live is None else self._time_to_live(scope.tenant)

    @asynccontextmanager
    async def _changing(self, operation: str, point_ids: Collection[str]) -> AsyncIterator[Points]:
        """A write to these points; more may be added within it."""
        async with self._writers.writing():
            try:
                async with self._using(operation) as engine:
                    yield engine
            finally:
                self._writers.note(point_ids)
                if self._recent is not None:
                    self._recent.forget(point_ids)

    @asynccontextmanager
    async def _using(self, operation: str) -> AsyncIterator[Points]:
        if self._points is None:
            raise StoreUnavailable("The memory store is not open; open it, or wait until it is.")
        begin = perf_counter()
        yield self._points
        metrics().store_seconds.labels(operation=operation).observe(perf_counter() - begin)

    async def _point_ids(self, engine: Points, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """The point ids of these memories, by memory id. A turn's id may come twice, in two sessions of one user; then
        the scope's own session decides. Callers may name a turn as a statement is named: without a session the latter
        is meant.
        """
        point_ids: dict[str, list[tuple[bool, str]]] = {}
        for start in range(0, len(ids), BATCH):
            condition = self._readable(scope, MemoryFilter()).also(OneOf("id", tuple(ids[start : start + BATCH])))
            async for point in _all(engine, condition, ["id", "session_id", "kind"]):
                if scope.session is None:
                    fits = point.payload.get("kind") != Kind.TURN.value
                else:
                    fits = point.payload.get("session_id") == scope.session
                if (name := point.payload.get("id")) is not None:  # a damaged point has none, and is no memory's place
                    point_ids.setdefault(name, []).append((fits, point.id))
        return {name: [point_id for fits, point_id in rows if fits == max(rows)[0]] for name, rows in point_ids.items()}

    def _written(self, scope: Scope, point: Point) -> Stored:
        memory = point.memory
        if (memory.tenant, memory.user_id) != scope.owner:
            raise RequestError("A memory can only be written in its owner's scope; tenant or user differ.")
        for part in point.dense:
            if len(part) != self.dimension:
                raise ConfigError(self._wrong_dimension(len(part)))
        return Stored(point_id_of(memory), slim_payload(memory, point.tokens), point.dense, point.bm25)

    def _wrong_dimension(self, got: int) -> str:
        return (
            f"The embedder gives vectors of {got} numbers, the store holds vectors of {self.dimension}. "
            "Configure the embedding model the store was built with, or run `memproxy reindex`."
        )


async def _all(engine: Points, where: Where, fields: Sequence[str], *, batch: int = BATCH) -> AsyncIterator[FoundPoint]:
    last: str | None = None
    while True:
        points = await engine.scroll(where, limit=batch, fields=fields, after_id=last)
        for point in points:
            yield point
        if len(points) < batch:
            return
        last = points[-1].id


def _without_derived(fields: dict[str, Any]) -> dict[str, Any]:
    """A changed text's token vectors are another text's, and would tell what it was. Without its flag it counts."""
    derived: dict[str, bool | None] = {TOKEN_VECTORS: None} if "content" in fields else {}
    only_asks = (fields.get("metadata") or {}).get(ASKED)
    if isinstance(only_asks, bool):  # else a client's own metadata of this name
        derived[TELLS_NOTHING] = only_asks or None
    elif _FLAGGED_BY & fields.keys():
        derived[TELLS_NOTHING] = None
    return {**fields, **derived}


def _alike(changes: Mapping[str, dict[str, Any]]) -> list[tuple[list[str], dict[str, Any]]]:
    """Memories with the same changed fields together, so that each group is one call."""
    groups: dict[bytes, tuple[list[str], dict[str, Any]]] = {}
    for name, fields in changes.items():
        groups.setdefault(encoded(fields), ([], fields))[0].append(name)
    return list(groups.values())


ReadPlaces = Callable[[list[str]], Awaitable[list[tuple[str, Read]]]]
"""Reads the memories of these points, in their order; missing ones are left out."""


async def searched(engine: Points, query: Hybrid, read: ReadPlaces) -> tuple[Scores, list[Read]]:
    """Every candidate's scores, and the candidates."""
    near, worded = await _ranked(engine, _sides(query, query.where))
    best = list(near | worded)
    more, reads = await asyncio.gather(_fill_scores(engine, query, near, worded), read(best))
    near_facts, worded_facts = await _more_facts(engine, query, (near, worded), dict(reads))
    if new := list(near_facts | worded_facts):
        reads += await read(new)
    by_vector = near | more[0] | near_facts
    by_words = dict.fromkeys(best, 0.0) | worded | more[1] | worded_facts if query.bm25 is not None else {}
    point_ids = [point_id for point_id, _ in reads]
    scores = Scores(
        point_ids=point_ids,
        dense=[by_vector.get(point_id) for point_id in point_ids],
        bm25=[by_words.get(point_id) for point_id in point_ids],
    )
    return scores, [entry for _, entry in reads]


def _sides(query: Hybrid, where: Where) -> list[Ranking | None]:
    """The search by vector and the one by words; None for one that is not asked for."""
    side = Ranking(where=where, limit=query.limit, corpus=query.corpus, counted=query.counted)
    return [
        msgspec.structs.replace(side, dense=query.dense) if query.dense is not None else None,
        msgspec.structs.replace(side, bm25=query.bm25) if query.bm25 is not None else None,
    ]


async def _more_facts(
    engine: Points, query: Hybrid, best: Sequence[Mapping[str, float]], reads: Mapping[str, Read]
) -> list[dict[str, float]]:
    """Raw scores of the best facts that were not found, where a side has room for few of them, as `_fill_scores`."""
    facts_query = msgspec.structs.replace(query, limit=query.facts)
    sides = [
        side if _lacks_facts(query, hits, reads) else None
        for side, hits in zip(_sides(facts_query, facts(query.where)), best, strict=True)
    ]
    dense, bm25 = await _ranked(engine, sides)
    new = dict.fromkeys(point_id for point_id in dense | bm25 if point_id not in reads)
    if not new:
        return [{}, {}]
    by_vector, by_words = _sides(query, query.corpus)
    near, worded = await _ranked(engine, [_rest(by_vector, new), _rest(by_words, new)])
    return [near, dict.fromkeys(new, 0.0) | worded]


def _lacks_facts(query: Hybrid, best: Mapping[str, float], reads: Mapping[str, Read]) -> bool:
    if len(best) < query.limit:
        return False  # these are all there are
    kinds = [reads[point_id].memory.kind for point_id in best if point_id in reads]
    return len(kinds) - kinds.count(Kind.TURN) < query.facts


async def _fill_scores(
    engine: Points, query: Hybrid, near: Mapping[str, float], worded: Mapping[str, float]
) -> list[dict[str, float]]:
    """Raw scores of what only the other side found, by vector and by words."""
    dense, bm25 = _sides(query, query.corpus)
    # words are matched exactly: fewer than asked for are all there are, and every other memory has none of them
    words_open = len(worded) >= query.limit
    return await _ranked(
        engine,
        [_rest(dense, worded.keys() - near.keys()), _rest(bm25, near.keys() - worded.keys()) if words_open else None],
    )


def _rest(side: Ranking | None, point_ids: Iterable[str]) -> Ranking | None:
    ids = tuple(point_ids)
    if side is None or not ids:
        return None
    # the ids come from a scoped search; the corpus keeps the same IDF
    return msgspec.structs.replace(side, where=Where((HasId(ids),)), limit=len(ids))


async def _ranked(engine: Points, sides: Sequence[Ranking | None]) -> list[dict[str, float]]:
    rankings = [side for side in sides if side is not None]
    answers = iter(await engine.rank(rankings) if rankings else ())
    return [dict(next(answers)) if side is not None else {} for side in sides]
