"""The memories of one owner in memory, as far as a search needs them: vectors, words and what is filtered by.

The engine stays the store of truth. Every change that it takes is told here in the same order (`indexed_backend`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import numpy as np

from memproxy.ports import SparseVector
from memproxy.stores.backend import Hybrid, Scores
from memproxy.stores.filters import SILENT, TELLS_NOTHING, Owner, Where, owner_of, telling
from memproxy.stores.owner_columns import Columns, Floats, Mask, NotHere, Places, owned_by
from memproxy.stores.owner_vectors import Vectors, unit
from memproxy.stores.owner_words import Corpus, Words, best, scores

_NO_ROWS: Places = np.zeros(0, np.intp)

ROW_BYTES = 600
"""About what Python's own objects take for a memory: its two ids, and where its parts are."""

MOST_FREED = 512
"""More rows than these are not taken out one by one: it would keep everybody waiting. The index is made anew."""


def least_bytes(memories: int, dimension: int) -> int:
    """What so many memories take at least."""
    return memories * (ROW_BYTES + 2 * dimension + dimension // 8)


class Row(msgspec.Struct, frozen=True):
    """A point as it is indexed: its id, the payload fields `owner_columns.PAYLOAD`, and its vectors."""

    place: str
    payload: Mapping[str, Any]
    dense: Sequence[Sequence[float]]
    bm25: SparseVector


class _Facts(msgspec.Struct, frozen=True):
    mask: Mask
    limit: int


class OwnerIndex:
    """All memories of one owner. What it cannot hold or answer raises `NotHere`; after that a write leaves it wrong."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._columns = Columns(owner)
        self._vectors = Vectors()
        self._words = Words()
        self._silent = Words()
        self._silent_rows: set[int] = set()
        self._rows: dict[str, int] = {}
        self._places: list[str | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, place: str) -> bool:
        return place in self._rows

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        words = self._words.nbytes + self._silent.nbytes
        return self._columns.nbytes + self._vectors.nbytes + words + len(self._places) * ROW_BYTES

    def places(self) -> list[str]:
        """The ids of its points."""
        return list(self._rows)

    def reserve(self, memories: int, dimension: int) -> None:
        """Make space for so many, each with a vector of this length, before the first is put in."""
        self._columns.reserve(memories)
        self._vectors.reserve(memories, dimension)

    def put(self, points: Sequence[Row]) -> None:
        """Insert or replace these points."""
        last = {one.place: one for one in points}
        self._take_out([place for place in last if place in self._rows])
        rows: list[int] = []
        vectors: list[Sequence[float]] = []
        for one in last.values():
            row = self._row(one.place)
            self._columns.put(row, one.payload)
            self._words_of(row, one.payload).put(row, one.bm25)
            rows += [row] * len(one.dense)
            vectors += one.dense
        self._vectors.put(rows, vectors)

    def _words_of(self, row: int, payload: Mapping[str, Any]) -> Words:
        """Where the words of a row go: those of what tells nothing are by themselves, so that they need not count."""
        if not payload.get(TELLS_NOTHING):
            return self._words
        self._silent_rows.add(row)
        return self._silent

    def _row(self, place: str) -> int:
        if self._free:
            row = self._free.pop()
            self._places[row] = place
        else:
            row = len(self._places)
            self._places.append(place)
        self._rows[place] = row
        return row

    def change(self, places: Sequence[str], fields: Mapping[str, Any]) -> None:
        """Set these payload fields of those of the points that are here."""
        for place in places:
            if place in self._rows:
                row = self._rows[place]
                if TELLS_NOTHING in fields and bool(fields[TELLS_NOTHING]) != (row in self._silent_rows):
                    raise NotHere("words that would count from now on, or no more")
                self._columns.change(row, fields)

    def delete(self, where: Where) -> None:
        """Take out what matches."""
        mask = self._columns.mask(where)
        rows = mask.nonzero()[0].tolist()
        if len(rows) > MOST_FREED:
            raise NotHere("too many at once")
        self._take_out([place for row in rows if (place := self._places[row]) is not None])

    def _take_out(self, places: Sequence[str]) -> None:
        rows = [self._rows.pop(place) for place in places]
        silent = self._silent_rows.intersection(rows)
        self._silent.free(silent)
        self._silent_rows -= silent
        self._words.free(row for row in rows if row not in silent)
        for row in rows:
            self._columns.free(row)
            self._vectors.free(row)
            self._places[row] = None
        self._free += rows

    def search(self, asked: Hybrid) -> Scores:
        """As `backend.Backend.scores` says."""
        if self.owner != owner_of(asked.where):
            raise NotHere("another owner")
        corpus = self._corpus(asked)
        mask = self._columns.mask(asked.where)
        near, told = _Found(len(mask)), _Found(len(mask))
        query = None if asked.dense is None else unit(asked.dense)
        if query is not None:
            near.add(*self._vectors.nearest(query, mask, asked.limit))
            if more := self._more(asked, mask, near.rows()):
                near.add(*self._vectors.nearest(query, more.mask, more.limit))
        total: Floats | None = None
        if asked.bm25 is not None:
            total = scores(corpus, asked.bm25, len(mask))
            told.add(best(total, mask, asked.limit))
            if more := self._more(asked, mask, told.rows()):
                told.add(best(total, more.mask, more.limit))
        if query is not None:
            near.add(*self._vectors.of(near.lacking(told.rows()), query))
        return self._named(near, told, total)

    def _corpus(self, asked: Hybrid) -> Corpus:
        """What IDF is counted over. Raises `NotHere`."""
        everything = owned_by(self.owner)
        tells = SILENT in asked.corpus.must_not
        if tells and SILENT not in asked.where.must_not:
            raise NotHere("an IDF of less than what is searched")
        tables = (self._words,) if tells else (self._words, self._silent)
        if asked.corpus == (telling(everything) if tells else everything):
            return Corpus(tables, len(self._rows) - (len(self._silent_rows) if tells else 0))
        if self.owner != owner_of(asked.corpus):
            raise NotHere("an IDF of another owner's memories")
        some = self._columns.mask(asked.corpus)
        return Corpus(tables, int(some.sum()), some)

    def _more(self, asked: Hybrid, mask: Mask, found: Places) -> "_Facts | None":
        """The facts to look for beside what was found; None where those that were found are enough, or are all."""
        if not asked.facts or len(found) < asked.limit:
            return None
        if self._columns.count_facts(found) >= asked.facts:
            return None
        among = mask & self._columns.facts()
        return _Facts(among, asked.facts) if among.any() else None

    def _named(self, near: "_Found", told: "_Found", total: Floats | None) -> Scores:
        """All that was found, by point ids: what has a vector first; ``total`` is what the words count for each row."""
        by_vector = near.rows()
        by_words = near.lacking(told.rows())
        rows = np.concatenate((by_vector, by_words))
        places = [self._places[row] for row in rows.tolist()]
        return Scores(
            places=cast(list[str], places),  # what is found is alive, so that each has one
            dense=near.scores[by_vector].tolist() + [None] * len(by_words),
            bm25=[None] * len(rows) if total is None else total[rows].tolist(),
        )


class _Found:
    """Rows that were found, in order, and the score of each."""

    def __init__(self, rows: int) -> None:
        self.known = np.zeros(rows, np.bool_)
        self.scores = np.zeros(rows, np.float32)
        self._parts: list[Places] = []

    def add(self, rows: Places, scores: Floats | None = None) -> None:
        """Those that are known already keep their place, and get the score."""
        if scores is not None:
            self.scores[rows] = scores
        new = self.lacking(rows)
        self.known[new] = True
        self._parts.append(new)

    def lacking(self, rows: Places) -> Places:
        """Those of the rows that are not known."""
        found: Places = rows[~self.known[rows]]
        return found

    def rows(self) -> Places:
        """All, in the order in which they came."""
        if len(self._parts) != 1:
            self._parts = [np.concatenate([_NO_ROWS, *self._parts])]
        return self._parts[0]
