"""The memory store on a Qdrant server or cluster, through `qdrant-client` (whose local mode serves tests).

Every write waits until it is applied, so `flush` has nothing to do. The collection's identity is a point with a fixed
id and no owner: every read and delete names an owner, so it never shows.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import msgspec
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from memproxy.errors import ConfigError, RequestError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import SparseVector
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
from memproxy.stores.edge_files import VERSION, Marker, check_built_with
from memproxy.stores.filters import Where
from memproxy.stores.qdrant_filters import translated
from memproxy.stores.vector_store import VectorStore

Result = TypeVar("Result")

CONNECT_TIMEOUT_S = 2.0
"""A server that is down is known after this; recall's own deadline is far shorter, writes are tried again."""

TIMEOUT_S = 10
"""Longest silence of the server within one call."""

DELETE_BATCH = 1000
IDENTITY_ID = "00000000-0000-4000-8000-6d656d70726f"
IDENTITY_KEY = "memproxy_store"


class QdrantStore(VectorStore):
    """`ports.MemoryStore` in a collection. ``client`` replaces the connection made from ``url`` and ``api_key``."""

    def __init__(
        self,
        *,
        url: str | None,
        api_key: str | None,
        collection: str,
        dimension: int,
        embedder_name: str | None,
        client: AsyncQdrantClient | None = None,
    ) -> None:
        super().__init__(dimension=dimension, embedder_name=embedder_name)
        self._collection = collection
        self._place = f"collection {collection} at {url or 'the local client'}"
        self._given = client is not None
        self._client = client or _connection(url, api_key)

    async def open(self, expected_id: str | None) -> str:
        collection = _Collection(self._client, self._collection, self._place)
        if not await collection.call(lambda client: client.collection_exists(self._collection)):
            if expected_id is not None:
                raise self._not_here(expected_id, None)
            await collection.create(self._dimension)
        await collection.index()
        marker = await self._marker(collection)
        if expected_id is not None and marker.store_id != expected_id:
            raise self._not_here(expected_id, marker.store_id)
        self._backend = collection
        metrics().store_points.set(await self.points())
        return marker.store_id

    async def close(self) -> None:
        self._backend = None
        if not self._given:
            await self._client.close()

    async def flush(self) -> None:
        """Nothing to do: every write has waited until it was applied."""

    async def optimize(self) -> bool:
        """As the port says: a Qdrant server vacuums its own files, in its own time."""
        return False

    async def points(self) -> int:
        answer = await _Collection(self._client, self._collection, self._place).call(
            lambda client: client.count(self._collection, exact=True)
        )
        return answer.count - 1  # the identity is no memory

    async def _marker(self, collection: "_Collection") -> Marker:
        fresh = Marker(version=VERSION, store_id=uuid4().hex, dimension=self._dimension, embedder=self._embedder)
        marker = await collection.identity() or await collection.set_identity(fresh, replace=False)
        if marker.version > VERSION:
            raise ConfigError(
                f"The {self._place} has version {marker.version}; this memproxy knows up to {VERSION}. "
                "Start the version that wrote it, or a newer one."
            )
        built, wanted = (marker.dimension, marker.embedder), (self._dimension, self._embedder)
        check_built_with(self._place, built=built, wanted=wanted)
        if marker.embedder is None and self._embedder is not None:
            marker = await collection.set_identity(
                msgspec.structs.replace(marker, embedder=self._embedder), replace=True
            )
        return marker

    def _not_here(self, expected_id: str, found_id: str | None) -> StoreUnavailable:
        here = "does not exist" if found_id is None else f"is another store ({found_id})"
        return StoreUnavailable(
            f"The {self._place} {here}, but the state belongs to the store {expected_id}. Restore a snapshot of the "
            "collection, or, if the memories are meant to be gone, remove the state file too."
        )


class _QuickConnect(httpx.AsyncHTTPTransport):
    """Gives up connecting sooner than reading: the client knows one timeout for both."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "connect": CONNECT_TIMEOUT_S}
        return await super().handle_async_request(request)


def _connection(url: str | None, api_key: str | None) -> AsyncQdrantClient:
    if url is None:
        raise ConfigError("store.url: missing; `store.backend: qdrant` needs the address of a Qdrant server.")
    transport = _QuickConnect(limits=httpx.Limits(max_connections=64, max_keepalive_connections=16))
    return AsyncQdrantClient(
        url=url, api_key=api_key, timeout=TIMEOUT_S, check_compatibility=False, transport=transport
    )


def _is_local(client: AsyncQdrantClient) -> bool:
    options = client.init_options
    return options.get("location") == ":memory:" or options.get("path") is not None


class _Collection:
    """`backend.Backend` on a collection."""

    def __init__(self, client: AsyncQdrantClient, name: str, place: str) -> None:
        self._client = client
        self._name = name
        self._place = place

    async def call(self, work: Callable[[AsyncQdrantClient], Awaitable[Result]]) -> Result:
        """One call of the client, its errors in our words."""
        async with self._our_errors():
            return await work(self._client)

    @contextlib.asynccontextmanager
    async def _our_errors(self) -> AsyncIterator[None]:
        try:
            yield
        except UnexpectedResponse as error:
            raise self._answered(error) from error
        except (ApiException, QdrantException, httpx.HTTPError, OSError, RuntimeError, ValueError) as error:
            # ValueError: an answer that is not Qdrant's; what can be stored was checked before
            reason = str(getattr(error, "source", None) or error) or type(error).__name__
            raise StoreUnavailable(
                f"The {self._place} does not answer as Qdrant does ({reason[:200]}). Check that Qdrant runs and that "
                "`store.url` is right."
            ) from error

    def _answered(self, error: UnexpectedResponse) -> StoreUnavailable | RequestError:
        # the answer's body may quote payloads, so only its status is told
        status = error.status_code or 0
        if status in {400, 413, 422}:
            return RequestError(f"The {self._place} refused what was to be written (HTTP {status}).")
        remedy = {
            401: "Check `store.api_key`.",
            403: "Check `store.api_key`.",
            404: "The collection is gone: restore a snapshot of it and start again.",
        }.get(status, "Look into Qdrant's log.")
        return StoreUnavailable(f"The {self._place} failed with HTTP {status}. {remedy}")

    async def create(self, dimension: int) -> None:
        """Make the collection, unless somebody else was faster."""
        dense = models.VectorParams(
            size=dimension,
            distance=models.Distance.COSINE,
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
        )
        try:
            await self._client.create_collection(
                self._name,
                vectors_config={DENSE: dense},
                sparse_vectors_config={BM25: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            )
        except UnexpectedResponse as error:
            if error.status_code != 409:
                raise self._answered(error) from error
        except (ApiException, httpx.HTTPError, OSError) as error:
            raise StoreUnavailable(f"The {self._place} cannot be made ({error}). Check that Qdrant runs.") from error

    async def index(self) -> None:
        """Index the payload fields that are not indexed yet (local mode has no indexes and needs none)."""
        if _is_local(self._client):
            return
        wanted: dict[str, models.PayloadFieldSchema] = {
            name: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            for name in OWNER_FIELDS
        }
        wanted |= dict.fromkeys(KEYWORD_FIELDS, models.PayloadSchemaType.KEYWORD)
        wanted |= dict.fromkeys(TIME_FIELDS, models.PayloadSchemaType.DATETIME)
        wanted |= dict.fromkeys(FLAG_FIELDS, models.PayloadSchemaType.BOOL)
        there = (await self.call(lambda client: client.get_collection(self._name))).payload_schema
        for name, schema in wanted.items():
            if name not in there:
                await self._index(name, schema)

    async def _index(self, name: str, schema: models.PayloadFieldSchema) -> None:
        await self.call(
            lambda client: client.create_payload_index(self._name, field_name=name, field_schema=schema, wait=True)
        )

    async def identity(self) -> Marker | None:
        """What the collection says it is."""
        found = await self.call(lambda client: client.retrieve(self._name, [IDENTITY_ID], with_payload=True))
        if not found or not found[0].payload:
            return None
        return msgspec.convert(found[0].payload[IDENTITY_KEY], Marker)

    async def set_identity(self, marker: Marker, *, replace: bool) -> Marker:
        """Write the identity (without ``replace``: unless there is one by now), and answer what is there."""
        point = models.PointStruct(id=IDENTITY_ID, vector={}, payload={IDENTITY_KEY: msgspec.to_builtins(marker)})
        mode = models.UpdateMode.UPSERT if replace else models.UpdateMode.INSERT_ONLY
        await self.call(lambda client: client.upsert(self._name, [point], wait=True, update_mode=mode))
        return await self.identity() or marker

    async def upsert(self, points: Sequence[Written]) -> None:
        def work(client: AsyncQdrantClient) -> Awaitable[Any]:
            return client.upsert(self._name, [_point(point) for point in points], wait=True)

        await self.call(work)

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        await self.call(lambda client: client.set_payload(self._name, payload=fields, points=list(ids), wait=True))

    async def delete(self, where: Where) -> int:
        """Delete by the ids found, batch after batch, so that the number is exact."""
        deleted = 0
        while found := await self.scroll(where, limit=DELETE_BATCH, fields=[]):
            ids = [one.id for one in found]
            await self._delete_ids(ids)
            deleted += len(ids)
        return deleted

    async def _delete_ids(self, ids: Sequence[str]) -> None:
        selected = models.PointIdsList(points=list(ids))
        await self.call(lambda client: client.delete(self._name, points_selector=selected, wait=True))

    async def scroll(
        self,
        where: Where,
        *,
        limit: int,
        fields: Sequence[str] | None = None,
        order: str | None = None,
        after_id: str | None = None,
    ) -> list[Found]:
        records, _ = await self.call(
            lambda client: client.scroll(
                self._name,
                scroll_filter=translated(where),
                limit=limit + (after_id is not None),  # the server's offset is the first point answered
                offset=after_id,
                order_by=_ordered(order),
                with_payload=True if fields is None else list(fields),
            )
        )
        return [one for one in _found(records) if one.id != after_id][:limit]

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        asked = [self._query(ranking) for ranking in rankings]
        answers = await self.call(lambda client: client.query_batch_points(self._name, requests=asked))
        return [[(str(point.id), point.score) for point in answer.points] for answer in answers]

    def _query(self, ranking: Ranking) -> models.QueryRequest:
        by_words = ranking.bm25 is not None
        corpus = models.IdfCorpusParams(corpus=translated(ranking.corpus)) if ranking.corpus else None
        # local mode ignores, with a warning, all parameters but this one
        params = models.SearchParams(idf=corpus) if by_words else None
        return models.QueryRequest(
            query=_sparse(ranking.bm25) if ranking.bm25 is not None else [ranking.dense or []],
            using=BM25 if by_words else DENSE,
            filter=translated(ranking.where),
            limit=ranking.limit,
            params=params,
            with_payload=False,
        )

    async def retrieve(self, ids: Sequence[str]) -> list[Found]:
        if not ids:
            return []
        return _found(await self.call(lambda client: client.retrieve(self._name, list(ids), with_payload=True)))

    async def count(self, where: Where) -> int:
        answer = await self.call(lambda client: client.count(self._name, count_filter=translated(where), exact=True))
        return answer.count


def _point(point: Written) -> models.PointStruct:
    vectors: dict[str, Any] = {BM25: _sparse(point.bm25)}
    if point.dense:
        vectors[DENSE] = point.dense
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.indices, values=vector.values)


def _ordered(order: str | None) -> models.OrderBy | None:
    if order is None:
        return None
    return models.OrderBy(key=ORDER_FIELD, direction=models.Direction.DESC if order == "desc" else models.Direction.ASC)


def _found(records: Sequence[models.Record]) -> list[Found]:
    return [Found(str(record.id), record.payload or {}) for record in records]
