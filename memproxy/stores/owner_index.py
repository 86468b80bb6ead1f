"""Indexes in memory of the owners searched lately: their vectors, words, and the fields that searches filter by.

Beside Qdrant Edge, which stays the store of truth (docs/decisions/0026), for an engine that this process alone writes
to. An index is made by reading the owner's points, a few at a time, while writes go on. All calls of the engine run in
one thread, so reads and writes are applied here in the order in which the engine saw them. Where that is not sure (a
write failed or its caller left), and after a deletion, the index is dropped and made anew by the next searches.

A condition is never passed over: what an index does not know (`NotHere`) the engine answers. A number is kept in 16
bits, as a share of the greatest of its vector: a cosine is wrong by less than 0.00002.
"""

import asyncio
import logging
import math
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from memproxy.core.scope import OwnerKey, Scope
from memproxy.errors import MemproxyError
from memproxy.metrics import metrics
from memproxy.ports import SparseVector
from memproxy.stores.backend import FLAG_FIELDS, OWNER_FIELDS, TIME_FIELDS, Hybrid, Scores, Stored, by_owner
from memproxy.stores.filters import FACTS, AnyOf, Between, Condition, HasId, Missing, OneOf, Where, of_owner, owner_of
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]

CHUNK = 64  # points read at once while an index is made: the engine holds Python's lock meanwhile
SEARCHES = 2  # of one owner before an index is made: who asks once is answered by the engine
SEARCHES_UNTIL_AGAIN = 100  # of an owner who found no room, plus one for each memory read for nothing, before a retry
KEEP_S = 60.0  # an owner searched within this many seconds is not evicted for another one
_MOST_COUNTED = 4_096  # owners whose searches are counted

_GREATEST, _TINY = 32_767, 1e-30
_NONE = float("-inf")  # the score of what has no vector, or none of the words
_VECTORS = 512  # turned into numbers at once, in one place of memory: they stay in the processor's cache
_ROW_BYTES, _ENTRY_BYTES, _TERM_BYTES = 600, 9, 180  # about what Python takes for a memory, a word of it, a term

_WORD_FIELDS = ("id", "kind", "session_id", "project_id", "agent_id")
_FIELDS = (*_WORD_FIELDS, *TIME_FIELDS, *FLAG_FIELDS)
PAYLOAD = (*OWNER_FIELDS, *_FIELDS)
"""The payload fields that an index is made of."""

_MISSING = np.iinfo(np.int64).min
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NotHere(Exception):
    """This cannot be held or answered in memory; the engine can."""


def _long(held: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    """The array with space for so many, and for some more if there was less."""
    if length <= len(held):
        return held
    longer = np.zeros((max(length, len(held) * 5 // 4, 64), *held.shape[1:]), held.dtype)
    longer[: len(held)] = held
    return longer


class OwnerIndex:
    """All memories of one owner. What it cannot hold or answer raises `NotHere`; after that a write leaves it wrong.

    What memories are filtered by is held as numbers: words by their hash, times in microseconds, flags as 0 and 1. For
    each term the rows that have it, with its weight there: both share one number of 64 bits, the weight as its lower
    half. A point that is written again gets a new row; the old one is in nobody's reach.
    """

    def __init__(self, owner: OwnerKey, dimension: int) -> None:
        self.owner = owner
        self.used_at = monotonic()
        self.noted_bytes = 0
        self._named = dict(zip(OWNER_FIELDS, owner, strict=True))
        self._columns = {name: np.zeros(0, np.int64) for name in _FIELDS}
        self._alive = np.zeros(0, np.bool_)
        self._numbers = np.zeros((0, dimension), np.int16)
        self._scales = np.zeros(0, np.float32)
        self._vector_rows = np.zeros(0, np.int32)  # of each vector; a row has none, one or several
        self._used = 0
        self._postings: dict[int, array[int]] = {}
        self._entries = 0
        self.rows: dict[str, int] = {}
        self._point_ids: list[str] = []
        self._corpus: tuple[Where, Mask, int] | None = None  # of the last IDF: right until something is written

    @property
    def nbytes(self) -> int:
        arrays = (*self._columns.values(), self._alive, self._numbers, self._scales, self._vector_rows)
        words = self._entries * _ENTRY_BYTES + len(self._postings) * _TERM_BYTES
        return sum(values.nbytes for values in arrays) + words + len(self._point_ids) * _ROW_BYTES

    def holding(self, point_ids: Sequence[str]) -> list[str]:
        """Those of these points that are here."""
        return [point_id for point_id in point_ids if point_id in self.rows]

    def put(self, points: Sequence[Stored]) -> None:
        """Insert or replace these points."""
        self._corpus = None
        last = {point.id: point for point in points}
        replaced = [self.rows.pop(point_id) for point_id in self.holding(list(last))]
        self._alive[replaced] = False
        self._numbers[np.isin(self._vector_rows, replaced).nonzero()[0]] = 0
        first = len(self._point_ids)
        self._point_ids += last
        if len(self._point_ids) > 2 * (len(self.rows) + len(last)) + 512:
            raise NotHere("most of it was written again")
        self._columns = {name: _long(column, len(self._point_ids)) for name, column in self._columns.items()}
        self._alive = _long(self._alive, len(self._point_ids))
        for row, point in enumerate(last.values(), first):
            if any(point.payload.get(name) != value for name, value in self._named.items()) or not point.payload.get(
                "id"
            ):
                raise NotHere("a point that is not this owner's memory")
            self.rows[point.id] = row
            for name, column in self._columns.items():
                column[row] = _number(name, point.payload.get(name))
            self._alive[row] = True
            self._put_words(row, point.bm25)
        self._put_vectors([(row, vector) for row, point in enumerate(last.values(), first) for vector in point.dense])

    def _put_vectors(self, vectors: Sequence[tuple[int, Sequence[float]]]) -> None:
        if any(len(vector) != self._numbers.shape[1] for _, vector in vectors):
            raise NotHere("a vector of another length")
        normed: Floats = np.array([vector for _, vector in vectors], np.float32).reshape(-1, self._numbers.shape[1])
        normed /= np.maximum(np.linalg.norm(normed, axis=1, keepdims=True), _TINY)
        scales = np.abs(normed).max(axis=1, initial=_TINY) / _GREATEST
        start, self._used = self._used, self._used + len(vectors)
        new = slice(start, self._used)
        self._numbers, self._scales = _long(self._numbers, self._used), _long(self._scales, self._used)
        self._vector_rows = _long(self._vector_rows, self._used)
        self._numbers[new] = np.rint(normed / scales[:, None])
        self._scales[new] = scales
        self._vector_rows[new] = [row for row, _ in vectors]

    def _put_words(self, row: int, words: SparseVector) -> None:
        if len(set(words.indices)) != len(words.indices) or min(words.values, default=1) <= 0:
            raise NotHere("weights that no lexical encoder gives")
        bits = np.array(words.values, np.float32).view(np.uint32).tolist()
        for term, weight in zip(words.indices, bits, strict=True):
            self._postings.setdefault(term, array("Q")).append(row << 32 | weight)
        self._entries += len(bits)

    def change(self, point_ids: Sequence[str], fields: Mapping[str, Any]) -> None:
        """Set these payload fields of those of the points that are here; others than those filtered by do not count."""
        self._corpus = None
        if any(name in fields for name in ("id", *OWNER_FIELDS)):
            raise NotHere("a memory that becomes another one")
        rows = [self.rows[point_id] for point_id in point_ids]
        for name in fields.keys() & self._columns.keys():
            self._columns[name][rows] = _number(name, fields[name])

    def mask(self, where: Where) -> Mask:
        """The rows that match. Raises `NotHere`."""
        matching = self._alive.copy()
        for condition in where.must:
            matching &= self._holds(condition)
        for condition in where.must_not:
            matching &= ~self._holds(condition)
        return matching

    def _holds(self, condition: Condition) -> "Mask | np.bool_":
        match condition:
            case OneOf(key, values) if key in self._named:
                return np.bool_(self._named[key] in values)
            case OneOf(key, values):
                column = self._column(key)
                matching: Mask = column == _number(key, values[0])
                for value in values[1:]:
                    matching |= column == _number(key, value)
                return matching
            case Missing(key):
                missing: Mask = self._column(key) == _MISSING
                return missing
            case Between(key=key) if key in TIME_FIELDS:
                return self._between_mask(condition)
            case AnyOf(conditions):
                either: Mask | np.bool_ = np.bool_(False)
                for part in conditions:
                    either = either | self._holds(part)
                return either
            case Between() | HasId():
                raise NotHere("another time, or point ids")

    def _column(self, key: str) -> npt.NDArray[np.int64]:
        if key not in self._columns:
            raise NotHere(key)
        return self._columns[key]

    def _between_mask(self, between: Between) -> Mask:
        times = self._column(between.key)
        matching: Mask = times != _MISSING
        bounds = (between.after, between.at_or_after, between.at_or_before, between.before)
        for bound, compared in zip(bounds, (np.greater, np.greater_equal, np.less_equal, np.less), strict=True):
            if bound is not None:
                matching &= compared(times, _micros(bound))
        return matching

    def search(self, query: Hybrid) -> Scores:
        if not self.owner == owner_of(query.where) == owner_of(query.corpus):
            raise NotHere("another owner")
        allowed = self.mask(query.where)
        dense = None if query.dense is None else self._cosines(query.dense)
        words = None if query.bm25 is None else self._by_words(query.bm25, query.corpus)
        rows: dict[int, None] = {}
        for scores in (side for side in (dense, words) if side is not None):
            best = _best(scores, allowed, query.limit)
            if query.facts and len(best) == query.limit:
                facts = self._holds(FACTS) & allowed
                if np.count_nonzero(facts[best]) < query.facts:
                    best += _best(scores, facts, query.facts)
            rows |= dict.fromkeys(best)
        ranked_rows, none = list(rows), [None] * len(rows)
        return Scores(
            point_ids=[self._point_ids[row] for row in ranked_rows],
            dense=none
            if dense is None
            else [None if score == _NONE else score for score in dense[ranked_rows].tolist()],
            bm25=none if words is None else words[ranked_rows].clip(min=0).tolist(),
        )

    def _cosines(self, vector: Sequence[float]) -> Floats:
        query: Floats = np.array(vector, np.float32)
        query /= np.maximum(np.linalg.norm(query), _TINY)
        scores = np.empty(self._used, np.float32)
        for start in range(0, self._used, _VECTORS):
            part = slice(start, min(start + _VECTORS, self._used))
            scores[part] = self._numbers[part].astype(np.float32) @ query
        cosines = np.full(len(self._alive), _NONE, np.float32)
        np.maximum.at(cosines, self._vector_rows[: self._used], scores * self._scales[: self._used])
        return cosines

    def _by_words(self, query: SparseVector, where: Where) -> Floats:
        """Of each row that has one of the words, the sum of weights, with IDF over ``where``. Raises `NotHere`."""
        if min(query.values, default=1) <= 0:
            raise NotHere("a word that counts against a memory")
        if self._corpus is None or self._corpus[0] != where:
            mask = self.mask(where)
            self._corpus = (where, mask, int(np.count_nonzero(mask)))
        _, mask, rows = self._corpus
        total = np.zeros(len(mask), np.float32)
        for term, weight in zip(query.indices, query.values, strict=True):
            halves = np.frombuffer(self._postings.get(term, array("Q")), np.uint32).reshape(-1, 2)
            # with indices of NumPy's own kind it takes a half to a third of the time of `total[...] +=`
            row_numbers = halves[:, 1].astype(np.intp)
            having = int(np.count_nonzero(mask[row_numbers]))
            idf = np.log((rows - having + 0.5) / (having + 0.5) + 1)
            np.add.at(total, row_numbers, halves[:, 0].view(np.float32) * np.float32(weight * idf))
        total[total == 0] = _NONE
        return total


def _best(scores: Floats, allowed: Mask, limit: int) -> list[int]:
    """The best ``limit`` rows that have a score, best first; of equal ones the first."""
    having: Places = ((scores > _NONE) & allowed).nonzero()[0]
    if len(having) > limit > 0:
        bound = np.partition(scores[having], -limit)[-limit]
        having = having[scores[having] >= bound]
    best: list[int] = having[(-scores[having]).argsort(kind="stable")][:limit].tolist()
    return best


def _number(field: str, value: Any) -> int:
    if value is None:
        return _MISSING
    if field in TIME_FIELDS:
        try:
            return _micros(msgspec.convert(value, datetime))
        except (msgspec.ValidationError, TypeError) as error:
            raise NotHere("a time that is none") from error
    if field in FLAG_FIELDS and isinstance(value, bool | int):
        return int(value)
    if field in _WORD_FIELDS and isinstance(value, str):
        return hash(value)
    raise NotHere(f"{field} of another type")


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


ReadRows = Callable[[Where, int, str | None], Awaitable[list[Stored]]]
"""Reads up to that many matching points with vectors and `PAYLOAD`, by id after this one, all of one moment."""

ReadAhead = Callable[[Sequence[str]], Awaitable[None]]  # reads the memories of these points before they are found


class OwnerIndexes:
    """By owner, in ``most_bytes`` together: the ones searched longest ago go first. Of the event loop's thread."""

    def __init__(self, *, most_bytes: int, dimension: int) -> None:
        self._most_bytes = most_bytes
        self._dimension = dimension
        self._keep_s = KEEP_S
        self._chunk = CHUNK
        self._read: tuple[ReadRows, ReadAhead] | None = None
        self._indexes: dict[OwnerKey, OwnerIndex] = {}
        self.nbytes = 0  # about what those that are kept take
        self._searches: OrderedDict[OwnerKey, int] = OrderedDict()
        self._queue: OrderedDict[OwnerKey, None] = OrderedDict()
        self._building: OwnerIndex | None = None
        self._tasks = TaskOwner("store.index")
        self._builder: asyncio.Task[None] | None = None

    def read_from(self, read_rows: ReadRows, read_ahead: ReadAhead) -> None:
        """Where points are read from now on; ``read_ahead`` is given the point ids of each index that was made."""
        self._read = (read_rows, read_ahead)

    def search(self, query: Hybrid) -> Scores | None:
        """Both searches, answered from memory; None where the engine has to be asked, which may begin an index."""
        owner, scores = owner_of(query.where), None
        index = None if owner is None else self._indexes.get(owner)
        if index is not None:
            with suppress(NotHere):
                scores = index.search(query)
        if owner is not None and not query.background:
            if index is not None:
                index.used_at = monotonic()
            elif self._building is None or self._building.owner != owner:
                self._note(owner, self._searches.pop(owner, 0) + 1)
        metrics().store_searches.labels(answered_by="engine" if scores is None else "index").inc()
        return scores

    def _note(self, owner: OwnerKey, count: int) -> None:
        if count >= SEARCHES:
            self._want(owner)
            return
        self._searches[owner] = count
        if len(self._searches) > _MOST_COUNTED:
            self._searches.popitem(last=False)

    def put(self, points: Sequence[Stored]) -> None:
        """The engine has written these points."""
        for owner, mine in by_owner(points).items():
            self._tell(self._held(owner), partial(OwnerIndex.put, points=mine))

    def change(self, point_ids: Sequence[str], fields: Mapping[str, Any]) -> None:
        """The engine has set these fields of these points."""
        holding = [index for index in self._held() if index.holding(point_ids)]
        self._tell(holding, lambda index: index.change(index.holding(point_ids), fields))

    def _tell(self, indexes: Sequence[OwnerIndex], change: Callable[[OwnerIndex], None]) -> None:
        """What an index cannot hold ends it, and so may its size."""
        for index in indexes:
            try:
                change(index)
            except NotHere:
                self.drop([index.owner])
            if self._indexes.get(index.owner) is index:
                self._weigh(index)
        self._evict(0, idle_since=math.inf)

    def deleted(self, where: Where) -> None:
        """The engine has deleted what matches, or may have. With all of an owner's it is forgotten who searched."""
        owner = owner_of(where)
        if owner is not None and where == _all_of(owner):
            self._building = None if self._building and self._building.owner == owner else self._building
            self._searches.pop(owner, None)
            self._queue.pop(owner, None)
        self.drop([index.owner for index in self._held()] if owner is None else [owner])

    def changing(self, point_ids: Sequence[str]) -> list[OwnerKey]:
        """The owners whose index has one of these points, or is being made and may get one of them."""
        return [index.owner for index in self._held() if index is self._building or index.holding(point_ids)]

    def drop(self, owners: Iterable[OwnerKey]) -> None:
        """Forget what is held of these owners; what is being made is begun anew."""
        for owner in owners:
            if (index := self._indexes.pop(owner, None)) is not None:
                self.nbytes -= index.noted_bytes
            if self._building is not None and self._building.owner == owner:
                self._building = None
                self._want(owner)
        self._show()

    def clear(self) -> None:
        """Forget everything: what the engine holds may be another state."""
        self._searches.clear()
        self.drop([index.owner for index in self._held()])

    def _held(self, owner: OwnerKey | None = None) -> list[OwnerIndex]:
        """All indexes, or this owner's, also one that is being made."""
        indexes = self._indexes.values() if owner is None else [self._indexes[owner]] if owner in self._indexes else []
        building = self._building
        return [*indexes] if building is None or owner not in {None, building.owner} else [building, *indexes]

    def _weigh(self, index: OwnerIndex) -> None:
        """Note what one that is kept takes by now."""
        size = index.nbytes
        self.nbytes += size - index.noted_bytes
        index.noted_bytes = size

    async def settled(self) -> None:
        """Returns when nothing is being made."""
        while self._builder is not None and not self._builder.done():
            await asyncio.wait([self._builder])

    async def close(self) -> None:
        """Forget everything, and make nothing any more."""
        self._building = None
        self._queue.clear()
        await self._tasks.cancel()
        self.clear()

    def _want(self, owner: OwnerKey) -> None:
        self._queue[owner] = None
        if self._builder is None or self._builder.done():
            self._builder = self._tasks.start(self._build_all(), "build")

    async def _build_all(self) -> None:
        while self._queue and self._read is not None:
            owner, _ = self._queue.popitem(last=False)
            read_rows, read_ahead = self._read
            index = self._building = OwnerIndex(owner, self._dimension)
            try:
                await self._build(index, read_rows)
                if owner in self._indexes:
                    await read_ahead(list(self._indexes[owner].rows))
            except NotHere as reason:
                log.info("the memories of one user are searched by the engine alone: %s", reason)
                self._note(owner, -max(SEARCHES_UNTIL_AGAIN, len(index.rows)))
            except MemproxyError as error:
                # the store is away, as the engine's own answers say; the next searches ask for an index again
                log.warning("an index of memories was not made: %s", error)
            finally:
                self._building = None

    async def _build(self, index: OwnerIndex, read_rows: ReadRows) -> None:
        """Returns early where the index was dropped meanwhile. Raises `NotHere`."""
        after: str | None = None
        while True:
            begin = monotonic()
            rows = await read_rows(_all_of(index.owner), self._chunk, after)
            if self._building is not index:
                return
            index.put(rows)
            self._make_room(index.nbytes)
            if len(rows) < self._chunk:
                break
            after = rows[-1].id
            await asyncio.sleep(monotonic() - begin)  # half of the time is left to others
            if self._building is not index:
                return
        self._building = None
        if index.rows:
            index.used_at = monotonic()
            self._indexes[index.owner] = index
            self._weigh(index)
        self._show()

    def _make_room(self, needed: int) -> None:
        """Free ``needed`` bytes by forgetting owners not searched lately. Raises `NotHere`: there are not that many."""
        idle_since = monotonic() - self._keep_s
        busy = sum(index.noted_bytes for index in self._indexes.values() if index.used_at > idle_since)
        if busy + needed > self._most_bytes:
            raise NotHere("they take more than is left of store.index_bytes")
        self._evict(needed, idle_since=idle_since)

    def _evict(self, needed: int, *, idle_since: float) -> None:
        """Forget the least recently used indexes not used since ``idle_since`` until ``needed`` bytes fit."""
        if needed + self.nbytes > self._most_bytes:
            for index in sorted(self._indexes.values(), key=lambda candidate: candidate.used_at):
                if needed + self.nbytes <= self._most_bytes or index.used_at > idle_since:
                    break
                self.drop([index.owner])
        self._show()

    def _show(self) -> None:
        metrics().store_index_bytes.set(self.nbytes)
        metrics().store_index_owners.set(len(self._indexes))


def _all_of(owner: OwnerKey) -> Where:
    return of_owner(Scope(tenant=owner[0], user=owner[1]))
