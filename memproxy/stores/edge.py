"""The embedded memory store: Qdrant Edge, Qdrant's own engine inside this process. Its write-ahead log stays off,
because deleted text would survive in it: a write is durable, and its journal row acknowledged, after `flush`.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import qdrant_edge as edge

from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Candidate, HybridQuery, Notes, Point
from memproxy.stores.edge_files import (
    LEAST_ROOM,
    MARKER,
    Disk,
    Marker,
    Room,
    StoreFolder,
    check_built_with,
    missing_store,
)
from memproxy.stores.edge_shard import EdgeBackend, create, discard_unfinished, load
from memproxy.stores.owner_index import OwnerIndexes
from memproxy.stores.payload import Points, RecentMemories
from memproxy.stores.rebuild import CollectionRebuild
from memproxy.stores.thread import OwnThread, SharedFlush
from memproxy.stores.vector_store import BATCH, VectorStore, Writers
from memproxy.tasks import Lull

log = logging.getLogger(__name__)

Result = TypeVar("Result")

LOCK_WAIT_S = 10.0
"""Longest wait for another process to leave the folder: a killed predecessor may need a moment to be gone."""

LULL_S = 0.3
"""A flush holds Python's lock for 50 to 700 ms (docs/decisions/0008), longer than recall's deadline. So it waits this
long after a search: in a conversation the next one often follows at once."""

LONGEST_LULL_S = 2.0
"""Longest that a flush, and with it the acknowledgement of what was written, waits for searches to pause."""

READ_AHEAD = 16
"""Memories read ahead at once: with the notes made of them it takes 1 to 2 ms, in which nobody else is served."""

INDEX_BYTES = 256 * 1024 * 1024  # what the indexes in memory may take where nothing else is said


class EdgeStore(VectorStore):
    """`ports.MemoryStore` in a folder of this machine, for one process at a time."""

    def __init__(
        self,
        path: Path,
        *,
        dimension: int,
        embedder_name: str | None,
        lock_wait_s: float = LOCK_WAIT_S,
        lull_s: float = LULL_S,
        index_bytes: int = INDEX_BYTES,
        least_room: int = LEAST_ROOM,
        disk: Disk | None = None,
    ) -> None:
        """``lull_s``: how long after a search that a request waits for a flush begins; 0: no request waits.
        ``index_bytes``: what the indexes in memory may take; 0 for none. ``least_room``: with fewer bytes of the
        ``disk`` free no memories are written; with an eighth of it, nothing but deletions.
        """
        super().__init__(dimension=dimension, embedder_name=embedder_name)
        self._recent = self._lately = RecentMemories()
        self._indexes = OwnerIndexes(most_bytes=index_bytes, dimension=dimension) if index_bytes else None
        self._make_notes: Callable[[Memory, Notes], None] | None = None
        self._folder = StoreFolder(path)
        self._room = Room(path, least=least_room, disk=disk)
        self._thread = OwnThread("memproxy-store")
        self._searches = Lull(lull_s, LONGEST_LULL_S if lull_s else 0.0)
        self._flushes = SharedFlush(self._flush, self._searches)
        self._shard: edge.EdgeShard | None = None
        self._alone_lock = threading.Lock()
        self._leaving = threading.Event()
        self._lock_wait_s = lock_wait_s

    async def open(self, expected_id: str | None) -> str:
        """As the port says. Waits up to ``lock_wait_s`` seconds for another process that holds the folder to end."""
        self._leaving.clear()
        store_id = await self.guarded(lambda: self._open(expected_id))
        engine = EdgeBackend(
            self._on_shard, check_room=self._room.check_fields, indexes=self._indexes, check=self._folder.check
        )
        if self._indexes is not None:
            self._indexes.read_from(engine.rows, self._read_ahead)
        self._points = self.points_of(engine)
        metrics().store_points.set(await self.points())
        return store_id

    @property
    def index_bytes(self) -> int:
        return 0 if self._indexes is None else self._indexes.nbytes

    async def _read_ahead(self, point_ids: Sequence[str]) -> None:
        """Read the memories of these points, while there is room for them and no search is kept waiting."""
        for start in range(0, len(point_ids), READ_AHEAD):
            begin, batch = monotonic(), list(point_ids[start : start + READ_AHEAD])
            if self._points is None or not self._lately.has_room(len(batch)):
                return
            await self._read_some(self._points, batch)
            await asyncio.sleep(monotonic() - begin)  # half of the time is left to others

    async def _read_some(self, engine: Points, point_ids: list[str]) -> None:
        """A function of its own, so that nothing read is held while others run: it may be erased meanwhile."""
        for _, read in await self._read(engine, point_ids):
            if self._make_notes is not None:
                self._make_notes(read.memory, read.notes)

    def note_ahead(self, make: Callable[[Memory, Notes], None]) -> None:
        self._make_notes = make

    async def settle(self) -> None:
        """Returns when all indexes are made that were begun."""
        if self._indexes is not None:
            await self._indexes.settled()

    async def close(self) -> None:
        self._points = None
        if self._indexes is not None:
            await self._indexes.close()
        self._lately.clear()
        self._leaving.set()
        try:
            await self._flushes.close()
            await self.guarded(self._close)
        finally:
            self._thread.close()

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        if query.background:
            return await super().search(scope, query)
        with self._searches.used():
            return await super().search(scope, query)

    async def check_room(self) -> None:
        """See that there is room for memories on the disk. Raises `errors.StoreUnavailable`."""
        await self.guarded(self._room.check_points)

    async def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        for start in range(0, len(points), BATCH):  # many long ones take more than the room that is left free
            self._room.check_points()
            await super().upsert(scope, points[start : start + BATCH])

    async def set_fields(self, scope: Scope, changes: Mapping[str, Mapping[str, Any]]) -> None:
        self._room.check_fields()
        await super().set_fields(scope, changes)

    async def flush(self) -> None:
        async with self._using("flush"):
            await self._flushes.flush()

    def hurry(self) -> None:
        self._searches.hurry()

    async def _flush(self, thread: OwnThread) -> None:
        await self._alone(lambda shard: shard.flush(), thread)
        metrics().store_points.set(await self.points())

    async def points(self) -> int:
        return await self._on_shard(lambda shard: int(shard.info().points_count))

    async def optimize(self) -> bool:
        """Merge segments and drop what was deleted from the files; whether there was something to do. Holds Python's
        lock for seconds: for when nothing else is asked, or an erasure must be complete on disk.
        """
        await self._searches.wait()
        done = await self._alone(lambda shard: bool(shard.optimize()))
        await self.flush()
        return done

    async def _alone(self, work: Callable[[edge.EdgeShard], Result], thread: OwnThread | None = None) -> Result:
        """Run work that holds Python's lock for long: one at a time, in whichever thread."""

        def apart(shard: edge.EdgeShard) -> Result:
            with self._alone_lock:
                return work(shard)

        return await self._on_shard(apart, thread)

    async def _on_shard(self, work: Callable[[edge.EdgeShard], Result], thread: OwnThread | None = None) -> Result:
        def checked() -> Result:
            if self._shard is None:
                raise StoreUnavailable("The memory store is not open; open it, or wait until it is.")
            self._folder.check()
            return work(self._shard)

        return await self.guarded(checked, thread)

    async def guarded(self, work: Callable[[], Result], thread: OwnThread | None = None) -> Result:
        """Run it in the store's thread, or another one, with the engine's failures in our words."""

        def caught() -> Result:
            try:
                return work()
            except MemproxyError:
                raise
            except BaseException as error:
                # the engine has no error types of its own: bare Exceptions, and Rust panics outside of Exception
                if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                    raise self._failed(error) from error
                raise

        return await (thread or self._thread).run(caught)

    def _failed(self, error: BaseException) -> StoreUnavailable:
        # the engine's own words name files, dimensions and ids, never a payload
        return StoreUnavailable(
            f"The store in {self._folder.path} failed: {str(error)[:300]}. Check the disk's space and permissions; if "
            "its files are damaged, restore a backup."
        )

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Path]:
        async with self._writers.paused():
            await self.flush()
            async with self._flushes.held():
                yield self._folder.path

    async def begin_rebuild(self, expected_id: str | None) -> "EdgeRebuild":
        opened_here = self._points is None
        if opened_here:
            self._leaving.clear()
            await self.guarded(lambda: self._open(expected_id, as_built=True))
            self._points = self.points_of(EdgeBackend(self._on_shard))
        first = self.points_of(EdgeBackend(self._on_shard))
        rebuild = EdgeRebuild(self, self._folder, room=self._room, writers=self._writers, opened_here=opened_here)
        try:
            await rebuild.prepare(first, dimension=self.dimension, embedder=self._embedder)
        except BaseException:
            await rebuild.close()
            raise
        return rebuild

    async def drop_unfinished(self) -> None:
        def work() -> None:
            if (begun := self._folder.begun()) is not None:
                log.warning("memories are erased: what an unfinished reindex had copied is removed, too")
                self._folder.drop(begun)

        await self.guarded(work)
        await super().drop_unfinished()

    async def adopt(self, shard: edge.EdgeShard, marker: Marker) -> edge.EdgeShard | None:
        """Go on with this shard, which ``marker`` describes, from one call to the next; answers the one before."""

        def work() -> edge.EdgeShard | None:
            self._folder.switch(marker)
            old_shard, self._shard = self._shard, shard
            return old_shard

        async with self._flushes.held():
            try:
                return await self.guarded(work)
            finally:
                if self._indexes is not None:
                    self._indexes.clear()

    def _open(self, expected_id: str | None, *, as_built: bool = False) -> str:
        folder = self._folder
        with suppress(StoreUnavailable):  # its files were moved away and back: it is opened from what is there now
            self._close()
        if folder.marker() is None and expected_id is not None:
            raise missing_store(folder.path, expected_id, None)
        folder.hold(wait_s=self._lock_wait_s, pause=self._leaving.wait)
        try:
            marker = self._checked_marker(folder.marker(), expected_id, as_built=as_built)
            folder.use(marker)
            self._shard = self._loaded(marker.dimension)
            folder.remember()
        except BaseException:
            folder.release()
            raise
        self.tidy(marker)
        self.unfinished = folder.begun() is not None
        return marker.store_id

    def tidy(self, marker: Marker) -> None:
        """Remove what a reindex left beside the points that ``marker`` names."""
        try:
            self._folder.tidy(marker)
        except OSError as error:
            log.warning("what a reindex left in %s cannot be removed (%s)", self._folder.path, error.strerror)

    def _checked_marker(self, marker: Marker | None, expected_id: str | None, *, as_built: bool) -> Marker:
        folder = self._folder
        if marker is None:
            self._create()
            marker = Marker.fresh(dimension=self.dimension, embedder=self._embedder)
            folder.write_marker(marker)
        if expected_id is not None and marker.store_id != expected_id:
            raise missing_store(folder.path, expected_id, marker.store_id)
        if as_built:
            return marker
        configured = (self.dimension, self._embedder)
        check_built_with(folder.path, built=(marker.dimension, marker.embedder), configured=configured)
        if marker.embedder is None and self._embedder is not None:
            marker.embedder = self._embedder
            folder.write_marker(marker)
        return marker

    def _create(self) -> None:
        """Make an empty shard aside and put it in place whole, so that a crash leaves none or a complete one."""
        folder = self._folder
        if folder.shard.exists():
            self._take_over()
            return
        discard_unfinished(folder.shard)
        self._room.check_creation()
        create(folder.shard, self.dimension)
        folder.sync()

    def _take_over(self) -> None:
        """A shard without a marker: left by a start that was killed (then it is empty), or somebody lost the marker."""
        shard = self._loaded(self.dimension)
        points = shard.info().points_count
        shard.close()
        if points:
            raise StoreUnavailable(
                f"The folder {self._folder.path} holds {points} points but no {MARKER}. Restore the marker from a "
                "backup, or move the folder away."
            )

    def _loaded(self, dimension: int) -> edge.EdgeShard:
        self._room.check_opening(self._folder.shard)
        return load(self._folder.shard, dimension)

    def _close(self) -> None:
        shard, self._shard = self._shard, None
        if shard is None:
            return
        try:
            self._folder.check()
            shard.flush()
            shard.close()
        finally:
            self._folder.release()


class EdgeRebuild(CollectionRebuild):
    """`ports.Rebuild` in the folder of an open `EdgeStore`: a second shard, made while the first one serves; the switch
    renames the marker. What a crash leaves is continued by the next reindex for the same embedder
    (``memproxy-rebuild.json``), or removed when the store opens.
    """

    def __init__(
        self, store: "EdgeStore", folder: StoreFolder, *, room: Room, writers: Writers, opened_here: bool
    ) -> None:
        self._store = store
        self._folder = folder
        self._room = room
        self._opened_here = opened_here
        self._thread = OwnThread("memproxy-rebuild")
        self._shard: edge.EdgeShard | None = None
        self._old_shard: edge.EdgeShard | None = None
        self._target: Marker | None = None
        self._switched = False
        super().__init__(store.points_of(EdgeBackend(self._on_shard)), writers=writers, written=store.written)

    async def prepare(self, first: Points, *, dimension: int, embedder: str | None) -> None:
        """Make the new shard, or open the one that was begun for this embedder."""
        self.resumed = await self._run(lambda: self._prepared(dimension, embedder))
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
        self._old_shard = await self._store.adopt(shard, target)
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
        if self._old_shard is not None and self._target is not None:
            self._old_shard.close()
            self._old_shard = None
            self._store.tidy(self._target)

    async def _on_shard(self, work: Callable[[edge.EdgeShard], Result]) -> Result:
        def checked() -> Result:
            if self._shard is None:
                raise StoreUnavailable("The reindex was closed.")
            return work(self._shard)

        return await self._run(checked)

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await self._store.guarded(work, self._thread)
