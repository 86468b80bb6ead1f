"""A second shard in the folder of an embedded store, made while the first one serves.

Replacing the marker is the switch: one rename. What a crash leaves beside the shard that the marker names is gone on
with by the next reindex (``memproxy-rebuild.json`` says for which embedder it was), or removed when the store opens.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import qdrant_edge as edge

from memproxy.errors import StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Point
from memproxy.stores.edge_files import Marker, StoreFolder
from memproxy.stores.edge_room import Room
from memproxy.stores.edge_shard import EdgeBackend, create, load
from memproxy.stores.payload import Points
from memproxy.stores.rebuild import CollectionRebuild
from memproxy.stores.thread import OwnThread
from memproxy.stores.writers import Writers

if TYPE_CHECKING:
    from memproxy.stores.edge import EdgeStore

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class EdgeRebuild(CollectionRebuild):
    """`ports.Rebuild` in the folder of an open `EdgeStore`."""

    def __init__(
        self, store: "EdgeStore", folder: StoreFolder, *, room: Room, writers: Writers, opened_here: bool
    ) -> None:
        self._store = store
        self._folder = folder
        self._room = room
        self._opened_here = opened_here
        self._thread = OwnThread("memproxy-rebuild")
        self._shard: edge.EdgeShard | None = None
        self._before: edge.EdgeShard | None = None
        self._target: Marker | None = None
        self._switched = False
        super().__init__(store.points_of(EdgeBackend(self._on_shard)), writers=writers, written=store.written)

    async def prepare(self, first: Points, *, dimension: int, embedder: str | None) -> None:
        """Make the new shard, or open the one that was begun for this embedder."""
        self._resumed = await self._run(lambda: self._prepared(dimension, embedder))
        await self.begin(first)

    def _prepared(self, dimension: int, embedder: str | None) -> bool:
        marker = self._folder.marker()
        if marker is None:
            raise StoreUnavailable(f"The store's files in {self._folder.path} are gone. Restore a backup.")
        target = self._target = marker.rebuilt(dimension=dimension, embedder=embedder)
        if self._folder.begun() == target:
            self._room.check_opening(self._folder.path / target.shard)
            if self._went_on(target):
                return True
        self._folder.drop(target)
        self._room.check_creation()
        create(self._folder.path / target.shard, dimension)
        self._folder.begin(target)
        self._shard = load(self._folder.path / target.shard, dimension)
        return False

    def _went_on(self, target: Marker) -> bool:
        try:
            self._shard = load(self._folder.path / target.shard, target.dimension)
        except BaseException as error:
            # the engine raises bare Exceptions, and Rust panics outside of Exception; nothing there is the only copy
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            metrics().internal_errors.labels(where="store.rebuild").inc()
            log.warning("what a reindex had begun cannot be read (%s); it begins anew", str(error)[:200])
            return False
        return True

    async def write(self, points: Sequence[Point]) -> None:
        await self._run(self._room.check_points)  # it holds everything a second time; what is removed takes none
        await super().write(points)

    async def flush(self) -> None:
        await self._on_shard(lambda shard: shard.flush())

    async def switch(self) -> None:
        shard, target = self._shard, self._target
        if shard is None or target is None:
            raise StoreUnavailable("The reindex was closed.")
        self._before = await self._store.adopt(shard, target)
        self._shard, self._switched = None, True
        self._store.unfinished = False

    async def close(self) -> None:
        try:
            if self._shard is not None:
                self._store.unfinished = True
                await self.leave_unfinished()
        finally:
            self._writers.stop_noting()
            try:
                await self._run(self._let_go)
            finally:
                self._thread.close()
                if self._opened_here and not self._switched:
                    await self._store.close()

    def _let_go(self) -> None:
        shard, self._shard = self._shard, None
        if shard is not None:
            shard.flush()
            shard.close()
        if self._before is not None and self._target is not None:
            self._before.close()
            self._before = None
            self._store.tidy(self._target)

    async def _on_shard(self, work: Callable[[edge.EdgeShard], Result]) -> Result:
        def checked() -> Result:
            if self._shard is None:
                raise StoreUnavailable("The reindex was closed.")
            return work(self._shard)

        return await self._run(checked)

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await self._store.guarded(work, self._thread)
