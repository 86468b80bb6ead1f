"""A shard of Qdrant Edge: how points are stored, and what can be done with them."""

import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import UUID

import qdrant_edge as edge

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
    by_owner,
)
from memproxy.stores.filters import AnyOf, Between, Condition, HasId, Missing, OneOf, Where
from memproxy.stores.owner_index import PAYLOAD, OwnerIndexes
from memproxy.stores.payload import unstorable

Result = TypeVar("Result")

_NOBODY = str(UUID(int=0))

_DIRECTIONS = {"asc": edge.Direction.Asc, "desc": edge.Direction.Desc}

_ALL_SCROLLED = edge.PayloadSelector.Exclude(list(NOT_SCROLLED))

INDEXING_THRESHOLD_KB = 100_000_000
"""No HNSW below this: a user's few thousand points are filtered by index and compared directly, in under 1 ms."""


def shape(dimension: int) -> edge.EdgeConfig:
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


def create(path: Path, dimension: int) -> None:
    """Make an empty shard aside and put it in place whole, so that a crash leaves none or a complete one. It is indexed
    when it is loaded, as an old one is: loading indexes that were just made would take longer than making them.
    """
    new = discard_unfinished(path)
    new.mkdir(mode=0o700)
    shard = edge.EdgeShard.create(str(new), shape(dimension))
    shard.flush()
    shard.close()
    new.rename(path)


def discard_unfinished(path: Path) -> Path:
    """Remove what a `create` left that was killed; answers where the next one begins."""
    new = path.with_name(f"{path.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    return new


def load(path: Path, dimension: int) -> edge.EdgeShard:
    """The shard that is there, its indexes complete."""
    shard = edge.EdgeShard.load(str(path), shape(dimension))
    index(shard)
    return shard


_UNINDEXED = frozenset({"category", "tags", "subject", "turn_ids", "trust", "room", "closet"})
"""Keyword fields without an index here: every one makes each flush longer, and these are filtered seldom, or beside
fields that leave few points (docs/decisions/0016)."""


def index(shard: edge.EdgeShard) -> None:
    """Index the payload fields that are not indexed yet. An old shard keeps those that it has more."""
    schemas: dict[str, Any] = {name: edge.KeywordIndexParams(is_tenant=True) for name in OWNER_FIELDS}
    keywords = [name for name in KEYWORD_FIELDS if name not in _UNINDEXED]
    schemas |= dict.fromkeys(keywords, edge.PayloadSchemaType.Keyword)
    schemas |= dict.fromkeys(TIME_FIELDS, edge.PayloadSchemaType.Datetime)
    # flags are matched, never compared: without the half for ranges a memory takes 0.2 KB less
    schemas |= {name: edge.IntegerIndexParams(lookup=True, range=False) for name in FLAG_FIELDS}
    indexed = shard.info().payload_schema
    for name, schema in schemas.items():
        if name not in indexed:
            shard.update(edge.UpdateOperation.create_field_index(name, schema))


class OnShard(Protocol):
    """Runs something on an open shard, in the shard's own thread."""

    async def __call__(self, work: Callable[[edge.EdgeShard], Result]) -> Result: ...


class EdgeBackend:
    """`backend.Backend` on a shard."""

    def __init__(
        self,
        on_shard: OnShard,
        *,
        check_room: Callable[[], None] | None = None,
        indexes: OwnerIndexes | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """``check_room`` is called before payloads are changed, ``check`` before ``indexes`` answer; both may raise."""
        self._on_shard = on_shard
        self._check_room = check_room
        self._indexes = indexes
        self._check = check

    async def upsert(self, points: Sequence[Stored]) -> None:
        def work(shard: edge.EdgeShard) -> None:
            built = _storable(lambda: [_point(point) for point in points])
            stored = {
                str(point.id): point.payload
                for point in shard.retrieve([point.id for point in points], _ALL_SCROLLED, False)
            }
            # In place, never a delete before it: a kill in the flush after a delete and an insert of one id loses both
            # forms, and with them what was acknowledged long ago (docs/decisions/0012).
            shard.update(edge.UpdateOperation.upsert_points(built))
            if any(point.id in stored and stored[point.id] != _scrolled_payload(point.payload) for point in points):
                _make_vacuum_due(shard)

        await self._write(work, lambda indexes: indexes.drop(by_owner(points)))
        if self._indexes is not None:
            self._indexes.put(points)

    async def _write(self, work: Callable[[edge.EdgeShard], Result], unsure: Callable[[OwnerIndexes], None]) -> Result:
        """A write, in the shard's thread. Where it failed or its caller left, ``unsure`` drops the owners' indexes."""
        try:
            return await self._on_shard(work)
        except BaseException:
            if self._indexes is not None:
                unsure(self._indexes)
            raise

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        operation = _storable(lambda: edge.UpdateOperation.set_payload(list(ids), _flags_as(int, fields)))

        def work(shard: edge.EdgeShard) -> None:
            if self._check_room is not None:
                self._check_room()
            shard.update(operation)

        await self._write(work, lambda indexes: indexes.drop(indexes.changing(ids)))
        if self._indexes is not None:
            self._indexes.change(ids, fields)

    async def delete(self, where: Where) -> int:
        def work(shard: edge.EdgeShard) -> int:
            matching = translated(where)
            count = shard.count(edge.CountRequest(filter=matching))
            shard.update(edge.UpdateOperation.delete_points_by_filter(matching))
            return count

        deleted = await self._write(work, lambda indexes: indexes.deleted(where))
        if self._indexes is not None:
            self._indexes.deleted(where)
        return deleted

    async def scroll(
        self, where: Where, *, limit: int, fields: Fields = None, order: Order = None, after_id: str | None = None
    ) -> list[FoundPoint]:
        request = edge.ScrollRequest(
            filter=translated(where),
            limit=limit + (after_id is not None),  # the engine's offset is the first point answered
            offset=after_id,
            with_payload=_ALL_SCROLLED if fields is None else list(fields),
            with_vector=False,
            order_by=None if order is None else edge.OrderBy(ORDER_FIELD, _DIRECTIONS[order]),
        )
        records, _ = await self._on_shard(lambda shard: shard.scroll(request))
        return [point for point in _points(records) if point.id != after_id][:limit]

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        translations: dict[Where, edge.Filter] = {}
        request = edge.QueryBatchRequest([_query(ranking, translations) for ranking in rankings])
        answers = await self._on_shard(lambda shard: shard.query_batch(request))
        return [[(str(point.id), point.score) for point in answer] for answer in answers]

    async def scores(self, query: Hybrid) -> Scores | None:
        scores = None if self._indexes is None else self._indexes.search(query)
        if scores is not None and self._check is not None:
            self._check()
        return scores

    async def rows(self, where: Where, limit: int, after_id: str | None) -> list[Stored]:
        """As `owner_index.ReadRows` says, in one call, so that all of them are of one moment."""
        request = edge.ScrollRequest(
            filter=translated(where),
            limit=limit + (after_id is not None),
            offset=after_id,
            with_payload=list(PAYLOAD),
            with_vector=True,
        )
        records, _ = await self._on_shard(lambda shard: shard.scroll(request))
        return [_stored(record) for record in records if str(record.id) != after_id][:limit]

    async def retrieve(self, ids: Sequence[str]) -> list[FoundPoint]:
        return _points(await self._on_shard(lambda shard: shard.retrieve(list(ids), True, False)))

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        return [_stored(record) for record in await self._on_shard(lambda shard: shard.retrieve(list(ids), True, True))]

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


def _scrolled_payload(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload as it is scrolled, without token vectors: those of one text differ by a rounding each time."""
    return {name: value for name, value in _flags_as(int, payload).items() if name not in NOT_SCROLLED}


def _flags_as(form: type[int], payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with its flags as 0 and 1 (``int``), or as booleans again: Edge cannot match booleans."""
    return payload | {name: form(payload[name]) for name in FLAG_FIELDS if payload.get(name) is not None}


def _point(point: Stored) -> edge.Point:
    vectors: dict[str, Any] = {BM25: edge.SparseVector(point.bm25.indices, point.bm25.values)}
    if point.dense:
        vectors[DENSE] = point.dense
    return edge.Point(point.id, vectors, _flags_as(int, point.payload))


def _query(ranking: Ranking, translations: dict[Where, edge.Filter]) -> edge.QueryRequest:
    """``translations`` are filters in the engine's words already: the searches of one call share theirs."""

    def filtered(where: Where) -> edge.Filter:
        if where not in translations:
            translations[where] = translated(where)
        return translations[where]

    if ranking.bm25 is not None:
        words = edge.SparseVector(ranking.bm25.indices, ranking.bm25.values)
        nearest = edge.Query.Nearest(words, using=BM25)
        corpus = filtered(ranking.corpus) if ranking.corpus else None
        params = edge.SearchParams(idf=edge.IdfParams(corpus=corpus))
    else:
        nearest = edge.Query.Nearest([ranking.dense or []], using=DENSE)
        params = edge.SearchParams(exact=True)
    return edge.QueryRequest(limit=ranking.limit, query=nearest, filter=filtered(ranking.where), params=params)


def _points(records: Sequence[edge.Record]) -> list[FoundPoint]:
    return [FoundPoint(str(record.id), _flags_as(bool, record.payload or {})) for record in records]


def _stored(record: edge.Record) -> Stored:
    vectors = record.vector if isinstance(record.vector, dict) else {}
    words = vectors.get(BM25)
    bm25 = SparseVector(list(words.indices), list(words.values)) if isinstance(words, edge.SparseVector) else None
    dense: Any = vectors.get(DENSE) or []
    return Stored(str(record.id), _flags_as(bool, record.payload or {}), dense, bm25 or SparseVector([], []))


def translated(where: Where) -> edge.Filter:
    """The engine's filter for ``where``."""
    return edge.Filter(
        must=[_condition(condition) for condition in where.must],
        must_not=[_condition(condition) for condition in where.must_not] or None,
    )


def _condition(condition: Condition) -> "edge.ConditionType":  # the name exists in the stubs alone
    match condition:
        case OneOf(key, (value,)):
            # Edge 0.9 takes a boolean here for an integer, so flags are stored as 0 and 1
            return edge.FieldCondition(key, match=edge.MatchValue(int(value) if isinstance(value, bool) else value))
        case OneOf(key, values):
            return edge.FieldCondition(key, match=edge.MatchAny([str(value) for value in values]))
        case Missing(key):
            return edge.IsEmptyCondition(key)
        case Between():
            return edge.FieldCondition(condition.key, range=_range(condition))
        case HasId(ids):
            return edge.HasIdCondition(set(ids))
        case AnyOf(conditions):
            return edge.Filter(should=[_condition(part) for part in conditions])


def _range(between: Between) -> edge.RangeDateTime:
    return edge.RangeDateTime(
        gt=_text(between.after),
        gte=_text(between.at_or_after),
        lte=_text(between.at_or_before),
        lt=_text(between.before),
    )


def _text(time: datetime | None) -> str | None:
    return time.isoformat() if time is not None else None
