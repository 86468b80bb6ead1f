"""The memories of one owner in memory, as far as a search needs them: vectors, words and what is filtered by.

The engine stays the store of truth; `owner_indexes` says who has an index, and tells it every change that the engine
takes. A condition is never passed over: what an index does not know (`NotHere`) the engine answers.

Vectors are compared in two passes: by their signs, then the nearest of these by number (docs/decisions/0026). A number
is kept in 16 bits, as a share of the greatest of its vector: half of what the engine keeps, and a cosine is wrong by
less than 0.00002.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from memproxy.ports import SparseVector
from memproxy.stores.backend import FLAG_FIELDS, OWNER_FIELDS, TIME_FIELDS, Hybrid, Scores, Written
from memproxy.stores.filters import FACTS, AnyOf, Between, Condition, HasId, Missing, OneOf, Owner, Where, owner_of

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]

MOST_FREED = 512
"""More rows than these are not taken out one by one: it would keep everybody waiting. The index is made anew."""

NEAREST_OF_ALL = 4_096
"""So many vectors, or fewer, are all compared by number."""

LEAST_SIGNS = 256
"""Of shorter vectors the signs tell too little: all are compared by number."""

LEAST_RESCORED, RESCORED, RESCORED_SHARE = 2_000, 20, 0.04
"""Of more, so many, or so many times the number wanted, or this share of all, whichever is most, are compared by number
after the pass over the signs: with these none of the first 60 was missed, and of the first 100 of 200 questions 3 in
20,000 (docs/decisions/0026)."""

_HEAVY = 2
"""A sign counts so much more where the question's number is among its greater half."""

_GREATEST = 32_767
_BLOCK = 32
_VECTORS = 512
"""Vectors turned into numbers at once, into the same memory each time: they stay in the processor's cache."""

_ROW_BYTES, _ENTRY_BYTES, _TERM_BYTES = 600, 13, 180
"""About what Python's own objects take for a memory, for a word of it, and for a term (docs/decisions/0026)."""

_WORD_FIELDS = ("id", "kind", "session_id", "project_id", "agent_id")
_FIELDS = (*_WORD_FIELDS, *TIME_FIELDS, *FLAG_FIELDS)
PAYLOAD = (*OWNER_FIELDS, *_FIELDS)
"""The payload fields that an index is made of."""

_COLUMN = {name: number for number, name in enumerate(_FIELDS)}
_MISSING = np.iinfo(np.int64).min
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_POSTINGS = array("Q")


class NotHere(Exception):
    """This cannot be held or answered in memory; the engine can."""


def _grown(array: npt.NDArray[Any], shape: tuple[int, ...], empty: object = 0) -> npt.NDArray[Any]:
    """The array with more space; what is new holds ``empty``."""
    bigger = np.full(shape, empty, array.dtype)
    bigger[tuple(map(slice, array.shape))] = array
    return bigger


def _space(there: int, wanted: int) -> int:
    """A share more than there is, so that appending one after the other stays cheap."""
    return max(wanted, there + there // 4, 64)


def greatest(scores: Floats, count: int) -> Places:
    """The places of the ``count`` greatest, the greatest first; of equal ones the first."""
    if count >= len(scores):
        return (-scores).argsort(kind="stable")
    some, blocks = scores, len(scores) // _BLOCK
    if count < blocks:  # as many scores as blocks reach their block's greatest: few are left to be sorted
        some = scores[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
    bound = np.partition(some, len(some) - count)[len(some) - count]
    above: Places = (scores > bound).nonzero()[0]
    above = above[(-scores[above]).argsort(kind="stable")][:count]
    return np.concatenate((above, (scores == bound).nonzero()[0][: count - len(above)]))


def unit(vector: Sequence[float]) -> Floats:
    """The vector with the length 1; one of zeros as it is."""
    given: Floats = np.array(vector, np.float32)
    length = np.float32(np.sqrt(np.dot(given, given)))
    return given / length if length > 0 else given


def _signs(vectors: Floats) -> npt.NDArray[np.uint64]:
    """One bit of each number, 64 side by side."""
    bits = np.packbits(vectors > 0, axis=1)
    whole = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    whole[:, : bits.shape[1]] = bits
    return whole.view(np.uint64)


class Vectors:
    """Vectors by place; several may belong to one row."""

    def __init__(self) -> None:
        self._dimension = 0
        self._numbers = np.zeros((0, 0), np.int16)
        self._scales = np.zeros(0, np.float32)
        self._signs = np.zeros((0, 0), np.uint64)
        self._rows = np.zeros(0, np.int32)
        """The row of each place; -1 where it is not in use."""
        self._first = np.zeros(0, np.int32)
        self._others: dict[int, list[int]] = {}
        """The place of each row's first vector, and those of its others, which few rows have."""
        self._free: list[int] = []
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Of the arrays."""
        return sum(one.nbytes for one in (self._numbers, self._scales, self._signs, self._rows, self._first))

    def reserve(self, wanted: int, dimension: int) -> None:
        """Make space for so many vectors of this length. Raises `NotHere`."""
        if self._dimension == 0:
            self._dimension = dimension
            self._numbers = np.zeros((0, dimension), np.int16)
            self._signs = np.zeros((-(-dimension // 64), 0), np.uint64)
        if dimension != self._dimension:
            raise NotHere("a vector of another length")
        if wanted > len(self._rows):
            space = _space(len(self._rows), wanted)
            self._numbers = _grown(self._numbers, (space, dimension))
            self._scales = _grown(self._scales, (space,))
            self._signs = _grown(self._signs, (len(self._signs), space))
            self._rows = _grown(self._rows, (space,), -1)

    def put(self, rows: Sequence[int], vectors: Sequence[Sequence[float]]) -> None:
        """Add vectors, each to a row that has none yet or was given others in the same call. Raises `NotHere`."""
        if not vectors:
            return
        try:
            given: Floats = np.array(vectors, np.float32)
        except ValueError as error:
            raise NotHere("vectors of several lengths") from error
        again = [self._free.pop() for _ in range(min(len(rows), len(self._free)))]
        places = [*again, *range(self._used, self._used + len(rows) - len(again))]
        self._used += len(rows) - len(again)
        self.reserve(self._used, given.shape[1])
        length = np.sqrt(np.einsum("ij,ij->i", given, given, dtype=np.float64)).astype(np.float32)
        given /= np.where(length > 0, length, 1)[:, None]
        scale = np.abs(given).max(axis=1) / _GREATEST
        self._numbers[places] = np.rint(given / np.where(scale > 0, scale, 1)[:, None])
        self._scales[places] = scale
        self._signs[:, places] = _signs(given).T
        self._rows[places] = rows
        if max(rows) >= len(self._first):
            self._first = _grown(self._first, (_space(len(self._first), max(rows) + 1),), -1)
        for row, place in zip(rows, places, strict=True):
            if self._first[row] < 0:
                self._first[row] = place
            else:
                self._others.setdefault(row, []).append(place)

    def free(self, row: int) -> None:
        """Nothing is left of the row's vectors."""
        if row < len(self._first) and self._first[row] >= 0:
            places = [int(self._first[row]), *self._others.pop(row, ())]
            self._first[row] = -1
            self._rows[places] = -1
            self._numbers[places] = 0
            self._scales[places] = 0
            self._signs[:, places] = 0
            self._free += places

    def of(self, rows: Sequence[int], query: Floats) -> dict[int, float]:
        """Those of these rows that have a vector, with the cosine of their best."""
        asked = np.array(rows, np.intp)
        first = self._first[asked[asked < len(self._first)]]
        others = [place for row in self._others.keys() & set(rows) for place in self._others[row]]
        places: Places = np.concatenate((first[first >= 0], np.array(others, np.intp)))
        best: dict[int, float] = {}
        for row, score in zip(self._rows[places].tolist(), self._scored(places, query).tolist(), strict=True):
            best[row] = max(score, best.get(row, score))
        return best

    def nearest(self, query: Floats, allowed: Mask, limit: int) -> dict[int, float]:
        """The rows with the ``limit`` best vectors, best first, with their cosines."""
        if not self._used or limit < 1:
            return {}
        rows = self._rows[: self._used]
        # a place that is not in use names the row -1: the last one here, which is not allowed
        places = self._near(query, np.append(allowed, False).take(rows), limit)
        scores = self._scored(places, query)
        best: dict[int, float] = {}
        for some in (limit + limit // 4, 4 * limit, len(places)):
            # a row may have several vectors among the best: only if too few rows are there, all are put in order
            chosen = greatest(scores, some)
            best = {}
            for row, score in zip(rows[places[chosen]].tolist(), scores[chosen].tolist(), strict=True):
                best.setdefault(row, score)
            if len(best) >= limit or some >= len(places):
                break
        return dict(islice(best.items(), limit))

    def _near(self, query: Floats, within: Mask, limit: int) -> Places:
        """The places worth comparing by number."""
        wanted = max(LEAST_RESCORED, RESCORED * limit, int(RESCORED_SHARE * self._used))
        if self._dimension < LEAST_SIGNS or np.count_nonzero(within) <= max(NEAREST_OF_ALL, wanted):
            return within.nonzero()[0]
        apart = self._apart(query)
        counts = np.bincount(apart[within], minlength=1)
        furthest = int(counts.cumsum().searchsorted(wanted))
        return ((apart <= furthest) & within).nonzero()[0]

    def _apart(self, query: Floats) -> npt.NDArray[np.uint16]:
        """How much the signs of each place differ from the question's."""
        size = np.abs(query)
        asked, heavy = _signs(np.stack((query, size - np.partition(size, len(size) // 2)[len(size) // 2])))
        apart = np.zeros(self._used, np.uint16)
        for signs, one, weighty in zip(self._signs, asked, heavy, strict=True):
            differing = signs[: self._used] ^ one
            count = np.bitwise_count(differing)
            differing &= weighty
            heavier = np.bitwise_count(differing)
            heavier *= _HEAVY
            count += heavier  # of 64 signs: it fits into its 8 bits
            apart += count
        return apart

    def _scored(self, places: Places, query: Floats) -> Floats:
        scores = np.empty(len(places), np.float32)
        shape = min(len(places), _VECTORS), self._dimension
        numbers, floats = np.empty(shape, np.int16), np.empty(shape, np.float32)
        for start in range(0, len(places), _VECTORS):
            block = places[start : start + _VECTORS]
            # "clip", as "raise" would copy what it writes; a place is never out of range
            some = self._numbers.take(block, axis=0, out=numbers[: len(block)], mode="clip")
            floats[: len(block)] = some
            np.matmul(floats[: len(block)], query, out=scores[start : start + _VECTORS])
        scores *= self._scales[places]
        return scores


class _Columns:
    """What memories are filtered by, as numbers: words by their hash (nothing of an erased one is left), times in
    microseconds, flags as 0 and 1.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = dict(zip(OWNER_FIELDS, owner, strict=True))
        self._values = np.full((len(_FIELDS), 0), _MISSING, np.int64)
        self._alive = np.zeros(0, np.bool_)
        self._present: list[bool] | None = None
        """Of each field, whether any row has it."""

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._alive.nbytes

    def reserve(self, rows: int) -> None:
        """Make space for so many rows."""
        if rows > len(self._alive):
            space = _space(len(self._alive), rows)
            self._values = _grown(self._values, (len(_FIELDS), space), _MISSING)
            self._alive = _grown(self._alive, (space,), False)

    def put(self, row: int, payload: Mapping[str, Any]) -> None:
        """Fill a row, which is alive from now on. Raises `NotHere`."""
        if any(payload.get(name) != value for name, value in self._owner.items()) or payload.get("id") is None:
            raise NotHere("a point that is not this owner's memory")
        self.reserve(row + 1)
        self._values[:, row] = [_number(name, payload.get(name)) for name in _FIELDS]
        self._alive[row] = True
        self._present = None

    def change(self, row: int, fields: Mapping[str, Any]) -> None:
        """Set these fields of a row; others than those filtered by do not count. Raises `NotHere`."""
        if any(name in fields for name in ("id", *OWNER_FIELDS)):
            raise NotHere("a memory that becomes another one")
        for name in fields.keys() & _COLUMN.keys():
            self._values[_COLUMN[name], row] = _number(name, fields[name])
        self._present = None

    def free(self, row: int) -> None:
        """Nothing is left of what the row held."""
        self._values[:, row] = _MISSING
        self._alive[row] = False

    def mask(self, where: Where) -> Mask:
        """The rows that match. Raises `NotHere`."""
        found = self._alive.copy()
        for one in where.must:
            found &= self.holds(one)
        for one in where.must_not:
            found &= ~self.holds(one)
        return found

    def holds(self, condition: Condition) -> "Mask | np.bool_":
        """Where it holds among rows that are alive."""
        match condition:
            case OneOf(key, values) if key in self._owner:
                return np.bool_(self._owner[key] in values)
            case OneOf(key, values):
                column = self._column(key)
                found: Mask = column == _number(key, values[0])
                for value in values[1:]:
                    found |= column == _number(key, value)
                return found
            case Missing(key):
                return self._column(key) == _MISSING if self._has(key) else np.bool_(True)
            case Between():
                return self._between(condition)
            case AnyOf(conditions):
                either: Mask | np.bool_ = np.bool_(False)
                for one in conditions:
                    either = either | self.holds(one)
                    if either is np.True_:
                        break
                return either
            case HasId():
                raise NotHere("point ids")

    def _column(self, key: str) -> npt.NDArray[np.int64]:
        if key not in _COLUMN:
            raise NotHere(key)
        column: npt.NDArray[np.int64] = self._values[_COLUMN[key]]
        return column

    def _has(self, key: str) -> bool:
        if key not in _COLUMN:
            raise NotHere(key)
        if self._present is None:
            self._present = (self._values != _MISSING).any(axis=1).tolist()
        return self._present[_COLUMN[key]]

    def _between(self, between: Between) -> "Mask | np.bool_":
        if between.key not in TIME_FIELDS:
            raise NotHere(between.key)
        if not self._has(between.key):
            return np.bool_(False)
        times = self._column(between.key)
        found: Mask = times != _MISSING
        if between.after is not None:
            found &= times > _micros(between.after)
        if between.at_or_after is not None:
            found &= times >= _micros(between.at_or_after)
        if between.at_or_before is not None:
            found &= times <= _micros(between.at_or_before)
        if between.before is not None:
            found &= times < _micros(between.before)
        return found


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


class _Words:
    """For each term the rows that have it, with its weight there: both share one number of 64 bits, the weight as its
    lower half.
    """

    def __init__(self) -> None:
        self.postings: dict[int, array[int]] = {}
        self._terms: dict[int, bytes] = {}
        self._entries = 0

    @property
    def nbytes(self) -> int:
        return self._entries * _ENTRY_BYTES + len(self.postings) * _TERM_BYTES

    def put(self, row: int, words: SparseVector) -> None:
        """Give a row its words. Raises `NotHere`."""
        if len(set(words.indices)) != len(words.indices) or min(words.values, default=1) <= 0:
            raise NotHere("weights that no lexical encoder gives")
        bits = np.array(words.values, np.float32).view(np.uint32).tolist()
        for term, weight in zip(words.indices, bits, strict=True):
            self.postings.setdefault(term, array("Q")).append(row << 32 | weight)
        self._terms[row] = array("I", words.indices).tobytes()
        self._entries += len(bits)

    def free(self, rows: Iterable[int]) -> None:
        """Nothing is left of these rows' words."""
        leaving: dict[int, set[int]] = {}
        for row in rows:
            for term in array("I", self._terms.pop(row, b"")):
                leaving.setdefault(term, set()).add(row)
        for term, gone in leaving.items():
            self._entries -= len(gone)
            numbers = np.frombuffer(self.postings.pop(term), np.uint64)
            kept = numbers[~np.isin(numbers >> np.uint64(32), list(gone))]
            if len(kept):
                self.postings[term] = array("Q", kept.tobytes())

    def scores(self, query: SparseVector, corpus: "_Corpus") -> Floats:
        """The sum of weights of each row; 0 where no word is the same. Inverse document frequency as the engine counts
        it. Raises `NotHere`.
        """
        if min(query.values, default=1) <= 0:
            raise NotHere("a word that counts against a memory")
        total = np.zeros(len(corpus.mask), np.float32)
        for term, asked in zip(query.indices, query.values, strict=True):
            halves = np.frombuffer(self.postings.get(term, _NO_POSTINGS), np.uint32).reshape(-1, 2)
            # with places of NumPy's own kind it takes a half to a third of the time of `total[...] +=`
            places = halves[:, 1].astype(np.intp)
            if term not in corpus.having:
                corpus.having[term] = int(np.count_nonzero(corpus.mask[places]))
            having = corpus.having[term]
            idf = np.log((corpus.rows - having + 0.5) / (having + 0.5) + 1)
            np.add.at(total, places, halves[:, 0].view(np.float32) * np.float32(asked * idf))
        return total


class _Corpus(msgspec.Struct, frozen=True):
    """What IDF was counted over last: its rows, and how many of them have a word. Right until something is written."""

    where: Where
    mask: Mask
    rows: int
    having: dict[int, int] = {}


class OwnerIndex:
    """All memories of one owner. What it cannot hold or answer raises `NotHere`; after that a write leaves it wrong."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._columns = _Columns(owner)
        self._vectors = Vectors()
        self._words = _Words()
        self._rows: dict[str, int] = {}
        self._places: list[str | None] = []
        self._free: list[int] = []
        self._corpus: _Corpus | None = None
        self._facts: Mask | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, place: str) -> bool:
        return place in self._rows

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return self._columns.nbytes + self._vectors.nbytes + self._words.nbytes + len(self._places) * _ROW_BYTES

    def places(self) -> list[str]:
        """The ids of its points."""
        return list(self._rows)

    def reserve(self, memories: int, dimension: int) -> None:
        """Make space for so many, each with a vector of this length."""
        self._columns.reserve(memories)
        self._vectors.reserve(memories, dimension)

    def put(self, points: Sequence[Written]) -> None:
        """Insert or replace these points."""
        self._corpus = self._facts = None  # they were of what was there before
        last = {one.id: one for one in points}
        self._take_out([place for place in last if place in self._rows])
        rows: list[int] = []
        vectors: list[Sequence[float]] = []
        for one in last.values():
            if not self._free:
                self._free.append(len(self._places))
                self._places.append(None)
            row = self._rows[one.id] = self._free.pop()
            self._places[row] = one.id
            self._columns.put(row, one.payload)
            self._words.put(row, one.bm25)
            rows += [row] * len(one.dense)
            vectors += one.dense
        self._vectors.put(rows, vectors)

    def change(self, places: Sequence[str], fields: Mapping[str, Any]) -> None:
        """Set these payload fields of those of the points that are here."""
        self._corpus = self._facts = None  # they were of what was there before
        for place in places:
            if place in self._rows:
                self._columns.change(self._rows[place], fields)

    def delete(self, where: Where) -> None:
        """Take out what matches."""
        rows = self._columns.mask(where).nonzero()[0].tolist()
        if len(rows) > MOST_FREED:
            raise NotHere("too many at once")
        self._take_out([place for row in rows if (place := self._places[row]) is not None])

    def _take_out(self, places: Sequence[str]) -> None:
        self._corpus = self._facts = None  # they were of what was there before
        rows = [self._rows.pop(place) for place in places]
        self._words.free(rows)
        for row in rows:
            self._columns.free(row)
            self._vectors.free(row)
            self._places[row] = None
        self._free += rows

    def search(self, asked: Hybrid) -> Scores:
        """As `backend.Backend.scores` says."""
        if not self.owner == owner_of(asked.where) == owner_of(asked.corpus):
            raise NotHere("another owner")
        allowed = self._columns.mask(asked.where)
        query = None if asked.dense is None else unit(asked.dense)
        near: dict[int, float] = {}
        if query is not None:
            near = self._vectors.nearest(query, allowed, asked.limit)
            if (facts := self._more_facts(asked, list(near), allowed)) is not None:
                near |= self._vectors.nearest(query, facts, asked.facts)
        by_words: list[int] = []
        total: Floats | None = None
        if asked.bm25 is not None:
            if self._corpus is None or self._corpus.where != asked.corpus:
                mask = self._columns.mask(asked.corpus)
                self._corpus = _Corpus(asked.corpus, mask, int(np.count_nonzero(mask)))
            total = self._words.scores(asked.bm25, self._corpus)
            by_words = _best(total, allowed, asked.limit)
            if (facts := self._more_facts(asked, by_words, allowed)) is not None:
                by_words += _best(total, facts, asked.facts)
        if query is not None:
            near |= self._vectors.of([row for row in by_words if row not in near], query)
        rows = list(dict.fromkeys((*near, *by_words)))
        return Scores(
            places=cast(list[str], [self._places[row] for row in rows]),  # what is found is alive, so that each has one
            dense=[near.get(row) for row in rows],
            bm25=[None] * len(rows) if total is None else total[rows].tolist(),
        )

    def _more_facts(self, asked: Hybrid, rows: list[int], allowed: Mask) -> Mask | None:
        """The facts to look for beside these rows; None where those among them are enough, or the rows are all."""
        if not asked.facts or len(rows) < asked.limit:
            return None
        if self._facts is None:
            self._facts = self._columns.mask(Where((FACTS,)))
        return self._facts & allowed if np.count_nonzero(self._facts[rows]) < asked.facts else None


def _best(total: Floats, allowed: Mask, limit: int) -> list[int]:
    """The best ``limit`` rows that have a word, best first."""
    having: Places = ((total > 0) & allowed).nonzero()[0]
    best: list[int] = having[greatest(total[having], limit)].tolist()
    return best


def least_bytes(memories: int, dimension: int) -> int:
    """What so many memories take at least."""
    return memories * (_ROW_BYTES + 2 * dimension + dimension // 8)
