"""A new collection beside the one that serves: the part of `ports.Rebuild` that is the same for every engine.

The only reads in this room that name no owner; `ports.Rebuild` says who may use them.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager

from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.ports import Kept, Page, Point, Scanned
from memproxy.stores.backend import Stored
from memproxy.stores.filters import HasId, Missing, Where, turns_of
from memproxy.stores.paging import Cursor, around, newest
from memproxy.stores.payload import Points, memories, point_id_of, tokens_of, with_point_ids
from memproxy.stores.vector_store import Writers

EVERYBODY = Where((), must_not=(Missing("tenant"),))
"""All memories of all owners. A collection's own identity has no owner and is none of them."""

_SCAN = 1000


class CollectionRebuild:
    """Copies go from ``first`` to ``new``. Subclasses know how ``new`` is made durable and takes the other's place."""

    _first: Points

    def __init__(self, new: Points, *, writers: Writers, written: Callable[[Point], Stored]) -> None:
        self._new = new
        self._writers = writers
        self._written = written
        self.resumed = False
        self.total = 0

    async def begin(self, first: Points) -> None:
        """From here on every change of the first collection is noted."""
        self._first = first
        async with self._writers.paused():
            self._writers.start_noting()
        self.total = await self._first.count(EVERYBODY)

    def point_id(self, memory: Memory) -> str:
        return point_id_of(memory)

    async def scan(self, after: str | None, *, limit: int) -> Scanned:
        points = await self._first.scroll(EVERYBODY, limit=limit, after_id=after)
        read = memories(points)
        following = points[-1].id if len(points) == limit else None
        return Scanned(memories=read, next_id=following, damaged=len(points) - len(read))

    async def turns(self, scope: Scope, cursor: str | None, *, limit: int) -> Page:
        begin = Cursor.read(cursor) if cursor is not None else None
        points, following = await newest(self._first, turns_of(scope, scope.session), limit=limit, cursor=begin)
        return Page(memories=memories(points), next_cursor=following.text() if following else None)

    async def current(self, point_ids: Collection[str]) -> list[Memory]:
        return memories(await self._first.retrieve(list(point_ids)))

    async def neighbours(self, scope: Scope, turns: Sequence[Memory]) -> list[Memory]:
        groups = await asyncio.gather(*(around(self._first, scope, turn, reach=1) for turn in turns))
        own_ids = {point_id_of(turn) for turn in turns}
        near = {point_id_of(memory): memory for group in groups for memory in group}
        return [memory for point_id, memory in near.items() if point_id not in own_ids]

    async def stored(self, point_ids: Collection[str]) -> dict[str, Kept]:
        points = {point.id: point for point in await self._new.stored(list(point_ids))}
        return {
            point_id: Kept(
                memory=memory,
                bm25=points[point_id].bm25,
                embedded=bool(points[point_id].dense),
                late=bool(tokens_of(points[point_id])),
            )
            for point_id, memory in with_point_ids(list(points.values()))
        }

    async def write(self, points: Sequence[Point]) -> None:
        await self._new.upsert([self._written(point) for point in points])

    async def remove(self, point_ids: Collection[str]) -> None:
        if point_ids:
            await self._new.delete(Where((HasId(tuple(point_ids)),)))

    async def remove_strays(self) -> None:
        after: str | None = None
        while True:
            points = await self._new.scroll(EVERYBODY, limit=_SCAN, fields=["tenant"], after_id=after)
            existing = {point.id for point in await self._first.retrieve([point.id for point in points])}
            await self.remove([point.id for point in points if point.id not in existing])
            if len(points) < _SCAN:
                return
            after = points[-1].id

    async def leave_unfinished(self) -> None:
        """End before the switch: what was changed since it was copied goes, for it may have been erased."""
        try:
            await self.remove(self.take_changed())
        finally:
            self._writers.stop_noting()

    def take_changed(self) -> set[str]:
        return self._writers.take()

    def paused(self) -> AbstractAsyncContextManager[None]:
        return self._writers.paused()
