"""The embedded memory store: Qdrant Edge, Qdrant's own engine inside this process.

Its write-ahead log stays off, because deleted text would survive in it (DESIGN section 5): a write is durable when
`flush` returns, and journal rows are acknowledged only after that.
"""

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import UUID, uuid4

import qdrant_edge as edge

from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Candidate, HybridQuery
from memproxy.stores.backend import (
    BM25,
    DENSE,
    FLAG_FIELDS,
    KEYWORD_FIELDS,
    ORDER_FIELD,
    OWNER_FIELDS,
    TIME_FIELDS,
    Found,
    Ranking,
    Written,
)
from memproxy.stores.edge_files import MARKER, VERSION, Marker, StoreFolder, check_built_with, missing_store
from memproxy.stores.edge_filters import translated
from memproxy.stores.filters import Where
from memproxy.stores.stored import unstorable
from memproxy.stores.thread import Lull, OwnThread, SharedFlush
from memproxy.stores.vector_store import VectorStore

Result = TypeVar("Result")

LOCK_WAIT_S = 10.0
"""Longest wait for another process to leave the folder: a killed predecessor may need a moment to be gone."""

LULL_S = 0.3
"""A flush holds Python's lock for 50 to 700 ms (docs/decisions/0008), over recall's deadline: so long after a search it
waits for the next one, which in a conversation often follows at once."""

LONGEST_LULL_S = 2.0
"""Longest that a flush, and with it the acknowledgement of what was written, waits for searches to pause."""

_NOBODY = str(UUID(int=0))

INDEXING_THRESHOLD_KB = 100_000_000
"""No HNSW below this: a user's few thousand points are filtered by index and compared directly, in under 1 ms."""


class EdgeStore(VectorStore):
    """`ports.MemoryStore` in a folder of this machine, for one process at a time."""

    def __init__(
        self, path: Path, *, dimension: int, embedder_name: str | None, lock_wait_s: float = LOCK_WAIT_S
    ) -> None:
        super().__init__(dimension=dimension, embedder_name=embedder_name)
        self._folder = StoreFolder(path)
        self._thread = OwnThread("memproxy-store")
        self._searches = Lull(LULL_S, LONGEST_LULL_S)
        self._flushes = SharedFlush(self._flush, self._searches)
        self._shard: edge.EdgeShard | None = None
        self._leaving = threading.Event()
        self._lock_wait_s = lock_wait_s

    async def open(self, expected_id: str | None) -> str:
        """As the port says. Waits up to ``lock_wait_s`` seconds for another process that holds the folder to end."""
        self._leaving.clear()
        store_id = await self._run(lambda: self._open(expected_id))
        self._backend = _EdgeBackend(self._on_shard)
        metrics().store_points.set(await self.points())
        return store_id

    async def close(self) -> None:
        self._backend = None
        self._leaving.set()
        try:
            await self._flushes.close()
            await self._run(self._close)
        finally:
            self._thread.close()

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        with self._searches.used():
            return await super().search(scope, query)

    async def flush(self) -> None:
        async with self._using("flush"):
            await self._flushes.flush()
        metrics().store_points.set(await self.points())

    async def _flush(self, thread: OwnThread) -> None:
        await self._on_shard(lambda shard: shard.flush(), thread)

    async def points(self) -> int:
        return await self._on_shard(lambda shard: int(shard.info().points_count))

    async def optimize(self) -> bool:
        """Merge segments and drop what was deleted from the files; answers whether there was something to do.

        Holds Python's lock for seconds (DESIGN section 1): call it when nothing else is asked of this process, or when
        an erasure must be complete on disk.
        """
        done = await self._on_shard(lambda shard: bool(shard.optimize()))
        await self.flush()
        return done

    async def _on_shard(self, work: Callable[[edge.EdgeShard], Result], thread: OwnThread | None = None) -> Result:
        def checked() -> Result:
            if self._shard is None:
                raise StoreUnavailable("The memory store is not open; open it, or wait until it is.")
            self._folder.check()
            return work(self._shard)

        return await self._run(checked, thread)

    async def _run(self, work: Callable[[], Result], thread: OwnThread | None = None) -> Result:
        def guarded() -> Result:
            try:
                return work()
            except MemproxyError:
                raise
            except BaseException as error:
                # the engine has no error types of its own: bare Exceptions, and Rust panics outside of Exception
                if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                    raise self._failed(error) from error
                raise

        return await (thread or self._thread).run(guarded)

    def _failed(self, error: BaseException) -> StoreUnavailable:
        # the engine's own words name files, dimensions and ids, never a payload
        return StoreUnavailable(
            f"The store in {self._folder.path} failed: {str(error)[:300]}. Check the disk's space and permissions; if "
            "its files are damaged, restore a backup."
        )

    def _open(self, expected_id: str | None) -> str:
        folder = self._folder
        if folder.marker() is None and expected_id is not None:
            raise missing_store(folder.path, expected_id, None)
        folder.hold(wait_s=self._lock_wait_s, pause=self._leaving.wait)
        try:
            marker = self._checked_marker(folder.marker(), expected_id)
            self._shard = self._loaded()
            folder.remember()
        except BaseException:
            folder.release()
            raise
        return marker.store_id

    def _checked_marker(self, marker: Marker | None, expected_id: str | None) -> Marker:
        folder = self._folder
        if marker is None:
            self._create()
            marker = Marker(version=VERSION, store_id=uuid4().hex, dimension=self._dimension, embedder=self._embedder)
            folder.write_marker(marker)
        if expected_id is not None and marker.store_id != expected_id:
            raise missing_store(folder.path, expected_id, marker.store_id)
        built, wanted = (marker.dimension, marker.embedder), (self._dimension, self._embedder)
        check_built_with(folder.path, built=built, wanted=wanted)
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
        new = folder.path / "shard.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        shard = edge.EdgeShard.create(str(new), _shape(self._dimension))
        _index(shard)
        shard.flush()
        shard.close()
        new.rename(folder.shard)
        folder.sync()

    def _take_over(self) -> None:
        """A shard without a marker: left by a start that was killed (then it is empty), or somebody lost the marker."""
        shard = self._loaded()
        points = shard.info().points_count
        shard.close()
        if points:
            raise StoreUnavailable(
                f"The folder {self._folder.path} holds {points} points but no {MARKER}. Restore the marker from a "
                "backup, or move the folder away."
            )

    def _loaded(self) -> edge.EdgeShard:
        shard = edge.EdgeShard.load(str(self._folder.shard), _shape(self._dimension))
        _index(shard)
        return shard

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


def _shape(dimension: int) -> edge.EdgeConfig:
    """How points are stored. With no vacuum threshold at all, `optimize` drops every deleted text from the files."""
    best_part = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
    dense = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine, multivector_config=best_part)
    return edge.EdgeConfig(
        vectors={DENSE: dense},
        sparse_vectors={BM25: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        optimizers=edge.EdgeOptimizersConfig(
            deleted_threshold=0.0,
            vacuum_min_vector_number=1,
            default_segment_number=1,
            indexing_threshold=INDEXING_THRESHOLD_KB,
        ),
        wal_enabled=False,
    )


def _index(shard: edge.EdgeShard) -> None:
    """Index the payload fields that are not indexed yet: all of a new shard, new ones of an old shard."""
    wanted: dict[str, Any] = {name: edge.KeywordIndexParams(is_tenant=True) for name in OWNER_FIELDS}
    wanted |= dict.fromkeys(KEYWORD_FIELDS, edge.PayloadSchemaType.Keyword)
    wanted |= dict.fromkeys(TIME_FIELDS, edge.PayloadSchemaType.Datetime)
    wanted |= dict.fromkeys(FLAG_FIELDS, edge.PayloadSchemaType.Integer)
    there = shard.info().payload_schema
    for name, schema in wanted.items():
        if name not in there:
            shard.update(edge.UpdateOperation.create_field_index(name, schema))


class _OnShard(Protocol):
    async def __call__(self, work: Callable[[edge.EdgeShard], Result]) -> Result: ...


class _EdgeBackend:
    """`backend.Backend` on a shard."""

    def __init__(self, on_shard: _OnShard) -> None:
        self._on_shard = on_shard

    async def upsert(self, points: Sequence[Written]) -> None:
        def work(shard: edge.EdgeShard) -> None:
            built = _storable(lambda: [_point(point) for point in points])
            there = {one.id: one.payload for one in shard.retrieve([point.id for point in points], True, False)}
            # In place, never a delete before it: a kill in the flush after a delete and an insert of one id loses both
            # forms, and with them what was acknowledged long ago (docs/decisions/0012).
            shard.update(edge.UpdateOperation.upsert_points(built))
            if any(there.get(point.id, point.payload) != point.payload for point in built):
                _make_vacuum_due(shard)

        await self._on_shard(work)

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        operation = _storable(lambda: edge.UpdateOperation.set_payload(list(ids), _flags_as(int, fields)))
        await self._on_shard(lambda shard: shard.update(operation))

    async def delete(self, where: Where) -> int:
        def work(shard: edge.EdgeShard) -> int:
            matching = translated(where)
            count = shard.count(edge.CountRequest(filter=matching))
            shard.update(edge.UpdateOperation.delete_points_by_filter(matching))
            return count

        return await self._on_shard(work)

    async def scroll(
        self,
        where: Where,
        *,
        limit: int,
        fields: Sequence[str] | None = None,
        order: str | None = None,
        after_id: str | None = None,
    ) -> list[Found]:
        request = edge.ScrollRequest(
            filter=translated(where),
            limit=limit + (after_id is not None),  # the engine's offset is the first point answered
            offset=after_id,
            with_payload=True if fields is None else list(fields),
            with_vector=False,
            order_by=_ordered(order),
        )
        records, _ = await self._on_shard(lambda shard: shard.scroll(request))
        return [one for one in _found(records) if one.id != after_id][:limit]

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        request = edge.QueryBatchRequest([_query(ranking) for ranking in rankings])
        answers = await self._on_shard(lambda shard: shard.query_batch(request))
        return [[(str(point.id), point.score) for point in answer] for answer in answers]

    async def retrieve(self, ids: Sequence[str]) -> list[Found]:
        if not ids:
            return []
        return _found(await self._on_shard(lambda shard: shard.retrieve(list(ids), True, False)))

    async def count(self, where: Where) -> int:
        request = edge.CountRequest(filter=translated(where))
        return await self._on_shard(lambda shard: shard.count(request))


def _make_vacuum_due(shard: edge.EdgeShard) -> None:
    """Delete a point of nobody, so that the next `EdgeStore.optimize` writes the files anew: a payload that is replaced
    in place leaves its old text in them, which no vacuum counts as deleted.
    """
    nobody = edge.Point(_NOBODY, {BM25: edge.SparseVector([], [])}, {})
    shard.update(edge.UpdateOperation.upsert_points([nobody]))
    shard.update(edge.UpdateOperation.delete_points([_NOBODY]))


def _storable(build: Callable[[], Result]) -> Result:
    try:
        return build()
    except (TypeError, ValueError, OverflowError) as error:
        raise unstorable() from error


def _point(point: Written) -> edge.Point:
    return edge.Point(point.id, _vectors(point), _flags_as(int, point.payload))


def _flags_as(form: type[int], payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with its flags as 0 and 1 (``int``), or as booleans again: Edge cannot match booleans."""
    return payload | {name: form(payload[name]) for name in FLAG_FIELDS if payload.get(name) is not None}


def _vectors(point: Written) -> dict[str, Any]:
    vectors: dict[str, Any] = {BM25: edge.SparseVector(point.bm25.indices, point.bm25.values)}
    if point.dense:
        vectors[DENSE] = point.dense
    return vectors


def _ordered(order: str | None) -> edge.OrderBy | None:
    if order is None:
        return None
    return edge.OrderBy(ORDER_FIELD, edge.Direction.Desc if order == "desc" else edge.Direction.Asc)


def _query(ranking: Ranking) -> edge.QueryRequest:
    if ranking.bm25 is not None:
        words = edge.SparseVector(ranking.bm25.indices, ranking.bm25.values)
        nearest = edge.Query.Nearest(words, using=BM25)
        corpus = translated(ranking.corpus) if ranking.corpus else None
        params = edge.SearchParams(idf=edge.IdfParams(corpus=corpus))
    else:
        nearest = edge.Query.Nearest([ranking.dense or []], using=DENSE)
        params = edge.SearchParams(exact=True)
    return edge.QueryRequest(limit=ranking.limit, query=nearest, filter=translated(ranking.where), params=params)


def _found(records: Sequence[edge.Record]) -> list[Found]:
    return [Found(str(record.id), _flags_as(bool, record.payload or {})) for record in records]
