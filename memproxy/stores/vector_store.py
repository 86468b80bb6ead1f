"""What a memory store does, built once over any vector engine (`backend.Backend`)."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.errors import ConfigError, RequestError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Candidate, HybridQuery, MemoryFilter, Page, Point, PointPage
from memproxy.stores import engine_search
from memproxy.stores.backend import TOKEN_VECTORS, Backend, Found, Hybrid, Scores, Written
from memproxy.stores.filters import (
    TELLS_NOTHING,
    OneOf,
    Where,
    counted,
    erasable,
    readable,
    telling,
)
from memproxy.stores.neighbours import around
from memproxy.stores.paging import Cursor, newest
from memproxy.stores.payload import (
    Keys,
    Points,
    Read,
    TimeToLive,
    encoded,
    for_search,
    memories,
    place_of,
    placed,
    slim_payload,
    tokens_of,
)
from memproxy.stores.recent import RecentMemories
from memproxy.stores.writers import Writers

BATCH = 256
"""Points written or read in one call of the engine: bounds the memory of one call."""

_FLAGGED_BY = frozenset({"content", "kind", "trust"})
"""Fields that `core.telling.tells_nothing` looks at."""


class VectorStore:
    """The part of `ports.MemoryStore` that is the same for every engine. Subclasses open, close and flush."""

    is_flushed = True

    def __init__(self, *, dimension: int, embedder_name: str | None) -> None:
        self._dimension = dimension
        self._embedder = embedder_name
        self._points: Points | None = None
        self._writers = Writers()
        self._recent: RecentMemories | None = None
        self.unfinished = False
        """Whether a reindex that ended early has left copies of memories."""
        self._keys: Keys | None = None
        self._time_to_live: TimeToLive | None = None

    def seal_with(self, keys: Keys) -> None:
        """Encrypt what is written from now on, with each user's key. Called before `open`."""
        self._keys = keys

    def expire_after(self, time_to_live: TimeToLive) -> None:
        """Give every memory of a tenant this time. Called before `open`."""
        self._time_to_live = time_to_live

    def points_of(self, engine: Backend) -> Points:
        """The engine's points in the clear, encrypted and dated as it is configured."""
        return Points(engine, self._keys, self._time_to_live)

    @property
    def engine(self) -> Backend:
        """The open store's points as they are stored, of all owners (`moving`)."""
        if self._points is None:
            raise StoreUnavailable("The memory store is not open; open it, or wait until it is.")
        return self._points.engine

    def drop_read(self) -> None:
        """Forget what was read lately: somebody's key was destroyed."""
        if self._recent is not None:
            self._recent.clear()

    @property
    def dimension(self) -> int:
        return self._dimension

    async def drop_unfinished(self) -> None:
        """Remove what an unfinished reindex has copied: what is erased must not live on there."""
        self.unfinished = False

    async def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        written = [self._written(scope, point) for point in points]
        async with self._changing("upsert", {one.id for one in written}) as engine:
            for start in range(0, len(written), BATCH):
                await engine.upsert(written[start : start + BATCH])

    async def set_fields(self, scope: Scope, changes: Mapping[str, Mapping[str, Any]]) -> None:
        plain = {name: _without_derived(msgspec.to_builtins(dict(fields))) for name, fields in changes.items()}
        groups = _alike(plain)
        changed: set[str] = set()
        async with self._changing("set_fields", changed) as engine:
            places = await self._places(engine, scope, list(plain))
            changed.update(place for group in places.values() for place in group)
            for group, fields in groups:
                ids = [place for name in group for place in places.get(name, ())]
                if ids and fields:
                    await engine.set_payload(ids, fields, scope.owner)

    async def get(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        async with self._using("get") as engine:
            places = await self._places(engine, scope, ids)
            found = await engine.retrieve([place for group in places.values() for place in group])
        return {memory.id: memory for memory in sorted(memories(found), key=lambda memory: memory.created_at)}

    async def page(self, scope: Scope, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page:
        begin = Cursor.read(cursor) if cursor is not None else None
        async with self._using("page") as engine:
            found, following = await newest(engine, self._readable(scope, where), limit=limit, cursor=begin)
        return Page(memories=memories(found), next_cursor=following.text() if following else None)

    async def point_page(self, scope: Scope, *, limit: int, cursor: str | None = None) -> PointPage:
        begin = Cursor.read(cursor) if cursor is not None else None
        async with self._using("page") as engine:
            found, following = await newest(engine, self._readable(scope, MemoryFilter()), limit=limit, cursor=begin)
            stored = {one.id: one for one in await engine.stored([one.id for one in found])}
        points = [
            Point(
                memory=memory,
                dense=stored[place].dense,
                bm25=stored[place].bm25,
                tokens=tokens_of(stored[place].found),
            )
            for place, memory in placed(found)
            if place in stored
        ]
        return PointPage(points=points, next_cursor=following.text() if following else None)

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        # counted over others' memories, IDF would tell a project how rare a word is in another
        everything, where = self._readable(scope, MemoryFilter()), self._readable(scope, query.where)
        if query.dense is not None and len(query.dense) != self._dimension:
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
            scores, found = await self._scored(engine, hybrid)
        return [
            Candidate(memory=one.memory, cosine=cosine, bm25=bm25, tokens=one.tokens, notes=one.notes)
            for one, cosine, bm25 in zip(found, scores.dense, scores.bm25, strict=True)
        ]

    async def _scored(self, engine: Points, asked: Hybrid) -> tuple[Scores, list[Read]]:
        """Every candidate's scores, and the candidates."""
        scores = await engine.scores(asked)
        if scores is None:
            return await engine_search.searched(engine, asked, partial(self._read, engine))
        if self._recent is not None and (known := self._recent.all_of(scores.places)) is not None:
            return scores, known
        found = dict(await self._read(engine, scores.places))
        return scores.of(found.keys()), [found[place] for place in scores.places if place in found]

    async def _read(self, engine: Points, places: list[str]) -> list[tuple[str, Read]]:
        """The memories at these places, in their order; missing ones are left out."""
        if self._recent is None:
            return for_search(await engine.retrieve(places))
        writes, known = self._recent.writes, self._recent.get(places)
        if len(known) == len(places):
            return list(known.items())
        missing = {place: place for place in places if place not in known}
        found = for_search(await engine.retrieve(list(missing)))
        # by the very string that was asked by: an index keeps it and asks by it again, and no letters are compared
        read = [(missing.get(place, place), one) for place, one in found]
        self._recent.add(read, writes=writes)
        known.update(read)
        return [(place, known[place]) for place in places if place in known]

    async def neighbours(self, scope: Scope, turns: Sequence[Memory], *, reach: int) -> list[Memory]:
        if reach < 1 or not turns:
            return []
        async with self._using("neighbours") as engine:
            groups = await asyncio.gather(*(around(engine, scope, turn, reach=reach) for turn in turns))
        given = {(turn.session_id, turn.id) for turn in turns}
        near = {(memory.session_id, memory.id): memory for group in groups for memory in group}
        return [memory for key, memory in near.items() if key not in given]

    async def delete(self, scope: Scope, where: MemoryFilter) -> int:
        matching = erasable(scope, where, self._ttl(scope))
        gone: set[str] = set()
        if self.unfinished and not self._writers.noting:
            await self.drop_unfinished()
        async with self._changing("delete", gone) as engine:
            if self._writers.noting:
                gone.update([one.id async for one in _all(engine, matching, ["tenant"])])
            try:
                return await engine.delete(matching)
            finally:
                if self._recent is not None:
                    self._recent.clear()

    async def count(self, scope: Scope, where: MemoryFilter) -> int:
        async with self._using("count") as engine:
            return await engine.count(self._readable(scope, where))

    async def columns(self, scope: Scope, where: MemoryFilter, fields: Sequence[str]) -> list[tuple[Any, ...]]:
        async with self._using("columns") as engine:
            return [
                tuple(found.payload.get(name) for name in fields)
                async for found in _all(engine, self._readable(scope, where), fields)
            ]

    async def count_tenant(self, tenant: str) -> int:
        async with self._using("count") as engine:
            return await engine.count(counted(tenant))

    def _readable(self, scope: Scope, where: MemoryFilter) -> Where:
        return readable(scope, where, self._ttl(scope))

    def _ttl(self, scope: Scope) -> timedelta | None:
        return None if self._time_to_live is None else self._time_to_live(scope.tenant)

    @asynccontextmanager
    async def _changing(self, operation: str, places: Collection[str]) -> AsyncIterator[Points]:
        """A write to these places; they may be added within it."""
        async with self._writers.writing():
            try:
                async with self._using(operation) as engine:
                    yield engine
            finally:
                self._writers.note(places)
                if self._recent is not None:
                    self._recent.forget(places)

    @asynccontextmanager
    async def _using(self, operation: str) -> AsyncIterator[Points]:
        if self._points is None:
            raise StoreUnavailable("The memory store is not open; open it, or wait until it is.")
        begin = perf_counter()
        yield self._points
        metrics().store_seconds.labels(operation=operation).observe(perf_counter() - begin)

    async def _places(self, engine: Points, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """Where these memories are: id to point ids.

        A turn's id may come twice, in two sessions of one user; then the scope's own session decides. Callers name
        turns themselves, and may name one as a statement is named: without a session that statement is meant.
        """
        places: dict[str, list[tuple[bool, str]]] = {}
        for start in range(0, len(ids), BATCH):
            wanted = self._readable(scope, MemoryFilter()).also(OneOf("id", tuple(ids[start : start + BATCH])))
            async for found in _all(engine, wanted, ["id", "session_id", "kind"]):
                if scope.session is None:
                    here = found.payload.get("kind") != Kind.TURN.value
                else:
                    here = found.payload.get("session_id") == scope.session
                if (name := found.payload.get("id")) is not None:  # a damaged point has none, and is no memory's place
                    places.setdefault(name, []).append((here, found.id))
        return {name: [place for here, place in some if here == max(some)[0]] for name, some in places.items()}

    def _written(self, scope: Scope, point: Point) -> Written:
        memory = point.memory
        if (memory.tenant, memory.user_id) != scope.owner:
            raise RequestError("A memory can only be written in its owner's scope; tenant or user differ.")
        for part in point.dense:
            if len(part) != self._dimension:
                raise ConfigError(self._wrong_dimension(len(part)))
        return Written(place_of(memory), slim_payload(memory, point.tokens), point.dense, point.bm25)

    def _wrong_dimension(self, got: int) -> str:
        return (
            f"The embedder gives vectors of {got} numbers, the store holds vectors of {self._dimension}. "
            "Configure the embedding model the store was built with, or run `memproxy reindex`."
        )


async def _all(engine: Points, where: Where, fields: Sequence[str]) -> AsyncIterator[Found]:
    last: str | None = None
    while True:
        found = await engine.scroll(where, limit=BATCH, fields=fields, after_id=last)
        for one in found:
            yield one
        if len(found) < BATCH:
            return
        last = found[-1].id


def _without_derived(fields: dict[str, Any]) -> dict[str, Any]:
    """A changed text's token vectors are another text's, and would tell what it was. Without its flag it counts."""
    derived = {TOKEN_VECTORS: None} if "content" in fields else {}
    return {**fields, **derived, **({TELLS_NOTHING: None} if _FLAGGED_BY & fields.keys() else {})}


def _alike(changes: Mapping[str, dict[str, Any]]) -> list[tuple[list[str], dict[str, Any]]]:
    """Memories with the same changed fields together, so that each group is one call."""
    groups: dict[bytes, tuple[list[str], dict[str, Any]]] = {}
    for name, fields in changes.items():
        groups.setdefault(encoded(fields), ([], fields))[0].append(name)
    return list(groups.values())
