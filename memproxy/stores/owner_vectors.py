"""The vectors of one owner in memory, compared in two passes: by their signs, then the nearest of these by number.

A number is kept in 16 bits, as a share of the greatest of its vector: half of what the engine keeps, and a cosine is
wrong by less than 0.00002 (docs/decisions/0026). A pass over the signs reads 48 bytes of a vector of 384 numbers.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from memproxy.stores.owner_columns import Floats, Mask, NotHere, Places, capacity, greatest, grown

NEAREST_OF_ALL = 4_096
"""So many vectors, or fewer, are all compared by number."""

LEAST_SIGNS = 256
"""Of shorter vectors the signs tell too little: all are compared by number."""

LEAST_RESCORED = 2_000
RESCORED = 20
RESCORED_SHARE = 0.04
"""Of more, so many, or so many times the number wanted, or this share of all, whichever is most, are compared by number
after the pass over the signs: with these none of the first 60 was missed, and of the first 100 of 200 questions 3 in
20,000 (docs/decisions/0026)."""

_HEAVY = 2
"""A sign counts so much more where the question's number is among its greater half."""

_GREATEST = 32_767
_SPARE = 4
_NONE = -1
_BLOCK = 512
"""Vectors turned into numbers at once, into the same memory each time: they stay in the processor's cache."""

Nearest = tuple[Places, Floats]
"""Rows, and the cosine of each."""

_NOBODY: Nearest = (np.zeros(0, np.intp), np.zeros(0, np.float32))


class Vectors:
    """Vectors by place; several may belong to one row."""

    def __init__(self) -> None:
        self._dimension = 0
        self._numbers = np.zeros((0, 0), np.int16)
        self._scales = np.zeros(0, np.float32)
        self._signs = np.zeros((0, 0), np.uint64)
        self._rows = np.full(0, _NONE, np.int32)
        self._free: list[int] = []
        self._used = 0
        self._first = np.full(0, _NONE, np.int32)
        self._others: dict[int, tuple[int, ...]] = {}
        """The place of each row's first vector, and those of its others, which few rows have."""

    @property
    def nbytes(self) -> int:
        """Of the arrays."""
        return sum(array.nbytes for array in (self._numbers, self._scales, self._signs, self._rows, self._first))

    def put(self, rows: Sequence[int], vectors: Sequence[Sequence[float]]) -> None:
        """Add vectors, each to a row that has none yet or was given others in the same call. Raises `NotHere`."""
        if not vectors:
            return
        try:
            given: Floats = np.array(vectors, np.float32)
        except ValueError as error:
            raise NotHere("vectors of several lengths") from error
        if self._dimension == 0:
            self._begin(given.shape[1])
        if given.ndim != 2 or given.shape[1] != self._dimension:
            raise NotHere("a vector of another length")
        places = self._places(len(rows))
        length = np.sqrt(np.einsum("ij,ij->i", given, given, dtype=np.float64)).astype(np.float32)
        given /= np.where(length > 0, length, 1)[:, None]
        scale = np.abs(given).max(axis=1) / _GREATEST
        self._numbers[places] = np.rint(given / np.where(scale > 0, scale, 1)[:, None])
        self._scales[places] = scale
        self._signs[:, places] = _signs(given).T
        self._rows[places] = rows
        if max(rows) >= len(self._first):
            self._first = grown(self._first, capacity(len(self._first), max(rows) + 1), _NONE)
        for row, place in zip(rows, places.tolist(), strict=True):
            if self._first[row] == _NONE:
                self._first[row] = place
            else:
                self._others[row] = (*self._others.get(row, ()), place)

    def _begin(self, dimension: int) -> None:
        self._dimension = dimension
        self._numbers = np.zeros((0, dimension), np.int16)
        self._signs = np.zeros((-(-dimension // 64), 0), np.uint64)

    def _places(self, count: int) -> Places:
        again = [self._free.pop() for _ in range(min(count, len(self._free)))]
        new = count - len(again)
        if self._used + new > len(self._rows):
            self._grow(capacity(len(self._rows), self._used + new))
        places = [*again, *range(self._used, self._used + new)]
        self._used += new
        return np.array(places, np.intp)

    def _grow(self, space: int) -> None:
        numbers, self._numbers = self._numbers, np.zeros((space, self._dimension), np.int16)
        self._numbers[: self._used] = numbers[: self._used]
        self._scales = grown(self._scales, space)
        self._signs = grown(self._signs, space)
        self._rows = grown(self._rows, space, _NONE)

    def reserve(self, wanted: int, dimension: int) -> None:
        """Make space for so many vectors of this length, where there are none yet."""
        if not self._used:
            self._begin(dimension)
            self._grow(wanted)
            self._first = grown(self._first, max(wanted, len(self._first)), _NONE)

    def free(self, row: int) -> None:
        """Nothing is left of the row's vectors."""
        if row >= len(self._first) or self._first[row] == _NONE:
            return
        first, self._first[row] = int(self._first[row]), _NONE
        for place in (first, *self._others.pop(row, ())):
            self._rows[place] = _NONE
            self._numbers[place] = 0
            self._scales[place] = 0
            self._signs[:, place] = 0
            self._free.append(place)

    def of(self, rows: Places, query: Floats) -> Nearest:
        """Those of these rows that have a vector, with the cosines of their best."""
        first = self._first[rows[rows < len(self._first)]]
        first = first[first != _NONE]
        others = [place for row in self._others.keys() & rows.tolist() for place in self._others[row]]
        places = np.concatenate((first, np.array(others, np.intp))) if others else first
        if not len(places):
            return _NOBODY
        found, scores = self._rows[first].astype(np.intp), self._scored(places, query)
        best = scores[: len(first)]
        if others:
            in_order = found.argsort()
            own = in_order[found.searchsorted(self._rows[others], sorter=in_order)]
            np.maximum.at(best, own, scores[len(first) :])
        return found, best

    def nearest(self, query: Floats, allowed: Mask, limit: int) -> Nearest:
        """The rows with the ``limit`` best vectors, best first, with their cosines."""
        if not self._used or limit < 1:
            return _NOBODY
        # a place that is not in use names the row -1: the last one here, which is not allowed
        within = np.append(allowed, False).take(self._rows[: self._used])
        places = self._near(query, within, limit)
        return self._best(places, self._scored(places, query), limit)

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

    def _best(self, places: Places, scores: Floats, limit: int) -> Nearest:
        if not self._others:
            chosen = greatest(scores, limit)
            return self._rows[places[chosen]].astype(np.intp), scores[chosen]
        rows = first = chosen = places[:0]
        for some in (limit + limit // _SPARE, _SPARE * limit, len(places)):
            # a row may have several vectors among the best: only if too few rows are there, all are put in order
            chosen = greatest(scores, some)
            rows = self._rows[places[chosen]].astype(np.intp)
            first = np.sort(np.unique(rows, return_index=True)[1])[:limit]
            if len(first) == limit:
                break
        return rows[first], scores[chosen[first]]

    def _scored(self, places: Places, query: Floats) -> Floats:
        scores = np.empty(len(places), np.float32)
        shape = min(len(places), _BLOCK), self._dimension
        numbers, floats = np.empty(shape, np.int16), np.empty(shape, np.float32)
        for start in range(0, len(places), _BLOCK):
            block = places[start : start + _BLOCK]
            # "clip", as "raise" would copy what it writes; a place is never out of range
            some = self._numbers.take(block, axis=0, out=numbers[: len(block)], mode="clip")
            floats[: len(block)] = some
            np.matmul(floats[: len(block)], query, out=scores[start : start + _BLOCK])
        scores *= self._scales[places]
        return scores


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
