"""A collection of a Qdrant server or cluster: how points are stored, and what can be done with them."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import httpx
import msgspec
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from memproxy.errors import RequestError, StoreUnavailable
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
    Found,
    Hybrid,
    Ranking,
    Scores,
    Stored,
    Written,
)
from memproxy.stores.edge_files import Marker
from memproxy.stores.filters import AnyOf, Between, Condition, HasId, Missing, OneOf, Where

Result = TypeVar("Result")

DELETE_BATCH = 1000
_ALL_SCROLLED = models.PayloadSelectorExclude(exclude=list(NOT_SCROLLED))
IDENTITY_ID = "00000000-0000-4000-8000-6d656d70726f"
IDENTITY_KEY = "memproxy_store"


def _is_local(client: AsyncQdrantClient) -> bool:
    options = client.init_options
    return options.get("location") == ":memory:" or options.get("path") is not None


class Collection:
    """`backend.Backend` on a collection."""

    def __init__(self, client: AsyncQdrantClient, name: str, place: str) -> None:
        self.name = name
        self.place = place
        self._client = client
        self._name = name
        self._place = place

    def beside(self, name: str) -> "Collection":
        """Another collection of the same server."""
        return Collection(self._client, name, self._place)

    async def exists(self) -> bool:
        """Whether there is one of this name."""
        return await self.call(lambda client: client.collection_exists(self._name))

    async def drop(self) -> None:
        """Remove it with all that it holds."""
        await self.call(lambda client: client.delete_collection(self._name))

    async def points(self) -> int:
        """How many memories it holds."""
        answer = await self.call(lambda client: client.count(self._name, exact=True))
        return answer.count - 1  # the identity is no memory

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
                with_payload=_ALL_SCROLLED if fields is None else list(fields),
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

    async def scores(self, asked: Hybrid) -> Scores | None:  # noqa: ARG002 - the protocol's
        """The server is asked: others may write to it, too."""
        return None

    async def retrieve(self, ids: Sequence[str]) -> list[Found]:
        if not ids:
            return []
        return _found(await self.call(lambda client: client.retrieve(self._name, list(ids), with_payload=True)))

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        if not ids:
            return []
        records = await self.call(
            lambda client: client.retrieve(self._name, list(ids), with_payload=True, with_vectors=True)
        )
        return [_stored(record) for record in records]

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


def _stored(record: models.Record) -> Stored:
    vectors = record.vector if isinstance(record.vector, dict) else {}
    words = vectors.get(BM25)
    bm25 = SparseVector(words.indices, words.values) if isinstance(words, models.SparseVector) else None
    dense: Any = vectors.get(DENSE) or []
    return Stored(found=_found([record])[0], bm25=bm25 or SparseVector([], []), dense=dense)


def translated(where: Where) -> models.Filter:
    """The client's filter for ``where``."""
    return models.Filter(
        must=[_condition(one) for one in where.must],
        must_not=[_condition(one) for one in where.must_not] or None,
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
            return models.Filter(should=[_condition(one) for one in conditions])


def _range(between: Between) -> models.DatetimeRange:
    return models.DatetimeRange(
        gt=between.after,
        gte=between.at_or_after,
        lte=between.at_or_before,
        lt=between.before,
    )
