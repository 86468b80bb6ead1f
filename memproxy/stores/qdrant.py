"""The memory store on a Qdrant server or cluster, through `qdrant-client` (whose local mode serves tests).

Every write waits until it is applied. The alias ``<collection>__current`` names the collection in use, else it is the
configured name itself. A reindex switches the alias, which the server does at once.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from qdrant_client import AsyncQdrantClient, models

from memproxy.core.backup_manifest import Snapshot
from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.ports import SparseVector
from memproxy.stores.backend import (
    BM25,
    DENSE,
    FLAG_FIELDS,
    KEYWORD_FIELDS,
    NOT_SCROLLED,
    ORDER_FIELD,
    OWNER_FIELDS,
    TIME_FIELDS,
    Fields,
    FoundPoint,
    Hybrid,
    Order,
    Ranking,
    Scores,
    Stored,
)
from memproxy.stores.edge_files import Marker
from memproxy.stores.filters import AnyOf, Between, Condition, HasId, Missing, OneOf, Where
from memproxy.stores.payload import unstorable
from memproxy.stores.qdrant_connection import Server
from memproxy.stores.server_store import ServerStore

DELETE_BATCH = 1000

CALL_BYTES = 8 * 1024 * 1024
"""Points are written in calls of about this size: a server takes 32 MiB at most (``max_request_size_mb``), as JSON."""

_NUMBER_BYTES, _POINT_BYTES = 12, 2048
"""What a number of a vector, and a point without its vectors and token vectors, take at most or so in a call."""

IDENTITY_ID = "00000000-0000-4000-8000-6d656d70726f"
IDENTITY_KEY = "memproxy_store"

_SNAPSHOTS_APART_S = 1.0
"""Qdrant names a snapshot by the second: another of the same second would take its place, and be removed with it."""

_ALL_SCROLLED = models.PayloadSelectorExclude(exclude=list(NOT_SCROLLED))
_INT8 = models.ScalarQuantization(
    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
)
_RESCORED = models.QuantizationSearchParams(rescore=True, oversampling=2.0)
"""Twice as many are nominated by their rounded vectors; the whole ones decide."""


class Collection:
    """`server_store.ServerCollection` on a collection. ``quantized``: compares vectors rounded to a byte first."""

    def __init__(self, server: Server, name: str, *, quantized: bool = False) -> None:
        self.name = name
        self._server = server
        self._quantized = quantized

    def beside(self, name: str) -> "Collection":
        return Collection(self._server, name, quantized=self._quantized)

    async def exists(self) -> bool:
        return await self._server.call(lambda client: client.collection_exists(self.name))

    async def drop(self) -> None:
        await self._server.call(lambda client: client.delete_collection(self.name))

    async def points(self, store_id: str) -> int:
        """How many memories it holds. Raises `StoreUnavailable`: also when it is not the store of this id any more."""
        marker = await self.identity()
        if marker is None or marker.store_id != store_id:
            raise StoreUnavailable(
                f"The {self._server.location} was replaced while it was in use. Restore a snapshot of it, and start "
                "again."
            )
        answer = await self._server.call(lambda client: client.count(self.name, exact=True))
        return answer.count - 1  # the identity is no memory

    async def create(self, dimension: int, like: "Collection | None" = None) -> None:
        """Make the collection, unless somebody else was faster; with the replicas and shards that ``like`` has."""
        dense = models.VectorParams(
            size=dimension,
            distance=models.Distance.COSINE,
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
        )
        options: dict[str, Any] = {}
        if like is not None and not self._server.is_local:
            params = (await like.information()).config.params
            names = ("shard_number", "replication_factor", "write_consistency_factor", "on_disk_payload")
            options = {name: getattr(params, name) for name in names}
        try:
            await self._server.call(
                lambda client: client.create_collection(
                    self.name,
                    vectors_config={DENSE: dense},
                    sparse_vectors_config={BM25: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                    hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
                    quantization_config=_INT8 if self._quantized else None,
                    **options,
                )
            )
        except StoreUnavailable:
            if not await self.exists():
                raise

    async def snapshot(self) -> Snapshot:
        """Have the server make and keep a snapshot. Raises `StoreUnavailable`, also where other servers have parts."""
        spread = await self._server.call(lambda client: client.collection_cluster_info(self.name))
        if spread.remote_shards:
            raise StoreUnavailable(
                f"The {self._server.location} is spread over several servers: make a snapshot on each of them "
                "(docs/qdrant.md)."
            )
        snapshot = await self._server.patiently(lambda client: client.create_snapshot(self.name, wait=True))
        if snapshot is None:
            raise StoreUnavailable(f"The {self._server.location} made no snapshot. Look into Qdrant's log.")
        await asyncio.sleep(_SNAPSHOTS_APART_S)
        return Snapshot(collection=self.name, name=snapshot.name, size=snapshot.size, sha256=snapshot.checksum)

    async def drop_snapshot(self, name: str) -> None:
        await self._server.patiently(lambda client: client.delete_snapshot(self.name, name))

    async def information(self) -> models.CollectionInfo:
        return await self._server.call(lambda client: client.get_collection(self.name))

    async def prepare(self) -> None:
        """See that it is ours, and index fields that are not indexed yet. Raises `ConfigError`: it is not."""
        if self._server.is_local:
            return
        information = await self.information()
        vectors, sparse = information.config.params.vectors, information.config.params.sparse_vectors or {}
        if not isinstance(vectors, dict) or set(vectors) != {DENSE} or set(sparse) != {BM25}:
            raise ConfigError(
                f"The {self._server.location} was not made by memproxy, and is left alone. Name another one in "
                "store.collection, or remove it."
            )
        if (information.config.quantization_config is not None) != self._quantized:
            quantization = _INT8 if self._quantized else models.Disabled.DISABLED
            await self._server.call(
                lambda client: client.update_collection(self.name, quantization_config=quantization)
            )
        for name, schema in _indexes():
            if name not in information.payload_schema:
                await self._index(name, schema)

    async def _index(self, name: str, schema: models.PayloadFieldSchema) -> None:
        await self._server.call(
            lambda client: client.create_payload_index(self.name, field_name=name, field_schema=schema, wait=True)
        )

    async def identity(self) -> Marker | None:
        return await self._server.call(self.identity_by)

    async def identity_by(self, client: AsyncQdrantClient) -> Marker | None:
        """As `identity`, through this client and with its own errors."""
        records = await client.retrieve(self.name, [IDENTITY_ID], with_payload=True)
        if not records or not records[0].payload:
            return None
        return msgspec.convert(records[0].payload[IDENTITY_KEY], Marker)

    async def set_identity(self, marker: Marker, *, replace: bool) -> Marker:
        """Write the identity (without ``replace``: unless there is one by now), and answer what is there."""
        point = models.PointStruct(id=IDENTITY_ID, vector={}, payload={IDENTITY_KEY: msgspec.to_builtins(marker)})
        none_yet = models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key=IDENTITY_KEY))])
        await self._server.call(
            lambda client: client.upsert(self.name, [point], wait=True, update_filter=None if replace else none_yet)
        )
        return await self.identity() or marker

    async def upsert(self, points: Sequence[Stored]) -> None:
        for batch in _calls(points):
            await self._upsert(batch)

    async def _upsert(self, points: Sequence[Stored]) -> None:
        try:
            built = [_point(point) for point in points]
            await self._server.call(lambda client: client.upsert(self.name, built, wait=True), writes=True)
        except OverflowError as error:
            raise unstorable() from error

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        # by a filter: one of them may be gone by now, and by their ids alone all of it would be refused
        chosen = models.Filter(must=[models.HasIdCondition(has_id=list(ids))])
        await self._server.call(
            lambda client: client.set_payload(self.name, payload=fields, points=chosen, wait=True), writes=True
        )

    async def delete(self, where: Where) -> int:
        """Delete by the ids found, batch after batch, so that the number is exact."""
        deleted = 0
        while points := await self.scroll(where, limit=DELETE_BATCH, fields=[]):
            ids = [point.id for point in points]
            await self._delete_ids(ids)
            deleted += len(ids)
        return deleted

    async def _delete_ids(self, ids: Sequence[str]) -> None:
        selected = models.PointIdsList(points=list(ids))
        await self._server.call(lambda client: client.delete(self.name, points_selector=selected, wait=True))

    async def scroll(
        self, where: Where, *, limit: int, fields: Fields = None, order: Order = None, after_id: str | None = None
    ) -> list[FoundPoint]:
        records, _ = await self._server.call(
            lambda client: client.scroll(
                self.name,
                scroll_filter=translated(where),
                limit=limit + (after_id is not None),  # the server's offset is the first point answered
                offset=after_id,
                order_by=models.OrderBy(key=ORDER_FIELD, direction=models.Direction(order)) if order else None,
                with_payload=_ALL_SCROLLED if fields is None else list(fields),
            )
        )
        return [point for point in _points(records) if point.id != after_id][:limit]

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        requests = [self._query(ranking) for ranking in rankings]
        answers = await self._server.call(lambda client: client.query_batch_points(self.name, requests=requests))
        return [[(str(point.id), point.score) for point in answer.points] for answer in answers]

    def _query(self, ranking: Ranking) -> models.QueryRequest:
        by_words = ranking.bm25 is not None
        within = ranking.corpus if by_words and self._server.counts_within else None
        # local mode ignores, with a warning, all parameters but this one
        params = models.SearchParams(idf=models.IdfCorpusParams(corpus=translated(within))) if within else None
        if self._quantized and not by_words:
            params = models.SearchParams(quantization=_RESCORED)
        return models.QueryRequest(
            query=_sparse(ranking.bm25) if ranking.bm25 is not None else [ranking.dense or []],
            using=BM25 if by_words else DENSE,
            filter=translated(ranking.where),
            limit=ranking.limit,
            params=params,
            with_payload=False,
        )

    async def scores(self, query: Hybrid) -> Scores | None:  # noqa: ARG002 - the protocol's
        """The server is asked: others may write to it, too."""
        return None

    async def retrieve(self, ids: Sequence[str]) -> list[FoundPoint]:
        return _points(await self._server.call(lambda client: client.retrieve(self.name, list(ids), with_payload=True)))

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        records = await self._server.call(
            lambda client: client.retrieve(self.name, list(ids), with_payload=True, with_vectors=True)
        )
        return [_stored_point(record) for record in records]

    async def count(self, where: Where) -> int:
        answer = await self._server.call(
            lambda client: client.count(self.name, count_filter=translated(where), exact=True)
        )
        return answer.count


def _indexes() -> Iterator[tuple[str, models.PayloadFieldSchema]]:
    """Every search names an owner, so only they get a graph of their vectors, each of his own."""
    for name in OWNER_FIELDS:
        yield name, models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    for name in KEYWORD_FIELDS:
        yield name, models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False)
    for name in TIME_FIELDS:
        yield name, models.DatetimeIndexParams(type=models.DatetimeIndexType.DATETIME, enable_hnsw=False)
    for name in FLAG_FIELDS:
        yield name, models.BoolIndexParams(type=models.BoolIndexType.BOOL, enable_hnsw=False)


def _calls(points: Sequence[Stored]) -> Iterator[Sequence[Stored]]:
    """The points in runs of about `CALL_BYTES`."""
    run: list[Stored] = []
    total = 0
    for point in points:
        size = _size(point)
        if run and total + size > CALL_BYTES:
            yield run
            run, total = [], 0
        run.append(point)
        total += size
    if run:
        yield run


def _size(point: Stored) -> int:
    """Bytes that it takes in a call, or so."""
    numbers = sum(map(len, point.dense)) + 2 * len(point.bm25.indices)
    texts = sum(len(value) for value in point.payload.values() if isinstance(value, str))
    return _POINT_BYTES + _NUMBER_BYTES * numbers + 2 * texts


def _point(point: Stored) -> models.PointStruct:
    vectors: dict[str, Any] = {BM25: _sparse(point.bm25)}
    if point.dense:
        vectors[DENSE] = point.dense
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.indices, values=vector.values)


def _points(records: Sequence[models.Record]) -> list[FoundPoint]:
    return [FoundPoint(str(record.id), record.payload or {}) for record in records]


def _stored_point(record: models.Record) -> Stored:
    vectors = record.vector if isinstance(record.vector, dict) else {}
    words = vectors.get(BM25)
    bm25 = SparseVector(words.indices, words.values) if isinstance(words, models.SparseVector) else None
    dense: Any = vectors.get(DENSE) or []
    return Stored(str(record.id), record.payload or {}, dense, bm25 or SparseVector([], []))


def translated(where: Where) -> models.Filter:
    """The client's filter for ``where``."""
    return models.Filter(
        must=[_condition(condition) for condition in where.must],
        must_not=[_condition(condition) for condition in where.must_not] or None,
    )


def _condition(condition: Condition) -> models.Condition:
    match condition:
        case OneOf(key, (value,)):
            return models.FieldCondition(key=key, match=models.MatchValue(value=value))
        case OneOf(key, values):
            return models.FieldCondition(key=key, match=models.MatchAny(any=[str(value) for value in values]))
        case Missing(key):
            return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
        case Between():
            return models.FieldCondition(key=condition.key, range=_range(condition))
        case HasId(ids):
            return models.HasIdCondition(has_id=list(ids))
        case AnyOf(conditions):
            return models.Filter(should=[_condition(part) for part in conditions])


def _range(between: Between) -> models.DatetimeRange:
    return models.DatetimeRange(gt=between.after, gte=between.at_or_after, lte=between.at_or_before, lt=between.before)


class QdrantStore(ServerStore[Collection]):
    """`ports.MemoryStore` in a collection. ``client`` replaces the connection by ``url`` and ``api_key``. ``grpc_port``
    None: one above ``url``'s; 0: REST alone. ``quantized``: compare vectors rounded to a byte a number first, then the
    best as they are.
    """

    server = "Qdrant"
    copied_by = "a snapshot of the collection"
    joint = "__"

    def __init__(
        self,
        *,
        url: str | None,
        api_key: str | None,
        collection: str,
        dimension: int,
        embedder_name: str | None,
        grpc_port: int | None = None,
        quantized: bool = False,
        client: AsyncQdrantClient | None = None,
    ) -> None:
        location = f"collection {collection} at {url or 'the local client'}"
        super().__init__(collection=collection, location=location, dimension=dimension, embedder_name=embedder_name)
        self.connection = Server(url=url, api_key=api_key, grpc_port=grpc_port, location=location, client=client)
        self._plain = Collection(self.connection, collection, quantized=quantized)
        self._store_id = ""

    async def existing(self) -> tuple[Collection, Marker] | None:
        await self.connection.connect()
        collection = await self._current()
        if not await collection.exists():
            return None
        await collection.prepare()
        marker = await collection.identity()
        if marker is None:
            return None
        await self._tidy(collection, marker)
        return collection, marker

    async def _create(self) -> tuple[Collection, Marker]:
        collection = await self._current()
        await collection.create(self.dimension)
        await collection.prepare()
        fresh = Marker.fresh(dimension=self.dimension, embedder=self._embedder)
        return collection, await collection.set_identity(fresh, replace=False)

    async def _open(self, expected_id: str | None, *, as_built: bool) -> tuple[Collection, Marker]:
        collection, marker = await super()._open(expected_id, as_built=as_built)
        self._store_id = marker.store_id

        async def same(client: AsyncQdrantClient) -> bool:
            return await collection.identity_by(client) == marker

        await self.connection.prefer_grpc(same)
        return collection, marker

    async def note(self, collection: Collection, marker: Marker) -> None:
        if await collection.identity() != marker:
            await collection.set_identity(marker, replace=True)
        if collection.name == (await self._current()).name:
            return
        alias, aliases = pointer(self._configured), await self._aliases()
        create = models.CreateAlias(collection_name=collection.name, alias_name=alias)
        operations: list[models.AliasOperations] = [models.CreateAliasOperation(create_alias=create)]
        if alias in aliases:
            operations.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
        await self.connection.call(lambda client: client.update_collection_aliases(operations))

    async def begun(self, target: Collection) -> Marker | None:
        return await target.identity() if await target.exists() else None

    async def begin(self, target: Collection, marker: Marker, like: Collection) -> None:
        await target.create(marker.dimension, like)
        await target.prepare()
        await target.set_identity(marker, replace=True)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        async with self._writers.paused():
            collection = self._in_use()
            snapshot = await collection.snapshot()
            try:
                yield snapshot
            except BaseException:
                await collection.drop_snapshot(snapshot.name)
                raise

    async def points(self) -> int:
        return await self._in_use().points(self._store_id)

    async def _current(self) -> Collection:
        """The collection in use; it may not exist yet."""
        names = await self._aliases()
        name = names.get(pointer(self._configured)) or names.get(self._configured) or self._configured
        return self._plain.beside(name)

    async def _aliases(self) -> dict[str, str]:
        response = await self.connection.call(lambda client: client.get_aliases())
        return {alias.alias_name: alias.collection_name for alias in response.aliases}

    async def _tidy(self, used: Collection, marker: Marker) -> None:
        """Remove the collection of the configured name where a reindex ended right after it switched away from it."""
        plain = self._plain
        if used.name == plain.name or plain.name in await self._aliases() or not await plain.exists():
            return
        identity = await plain.identity()
        if identity is not None and identity.store_id == marker.store_id:
            await plain.drop()

    async def _disconnect(self) -> None:
        await self.connection.close()


def pointer(configured: str) -> str:
    """The alias that names the collection in use."""
    return f"{configured}__current"
