"""The memories of one owner in memory, as far as a search needs them: vectors, words and what is filtered by.

The engine stays the store of truth. Every change that it takes is told here in the same order (`indexed_backend`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memproxy.ports import SparseVector
from memproxy.stores.backend import Hybrid, Scores
from memproxy.stores.filters import Where
from memproxy.stores.owner_columns import Columns, NotHere, Owner, owner_of
from memproxy.stores.owner_vectors import Vectors, unit
from memproxy.stores.owner_words import Words

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


class OwnerIndex:
    """All memories of one owner. What it cannot hold or answer raises `NotHere`; after that a write leaves it wrong."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._columns = Columns(owner)
        self._vectors = Vectors()
        self._words = Words()
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
        return self._columns.nbytes + self._vectors.nbytes + self._words.nbytes + len(self._places) * ROW_BYTES

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
            self._words.put(row, one.bm25)
            rows += [row] * len(one.dense)
            vectors += one.dense
        self._vectors.put(rows, vectors)

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
                self._columns.change(self._rows[place], fields)

    def delete(self, where: Where) -> None:
        """Take out what matches."""
        mask = self._columns.mask(where)
        rows = mask.nonzero()[0].tolist()
        if len(rows) > MOST_FREED:
            raise NotHere("too many at once")
        self._take_out([place for row in rows if (place := self._places[row]) is not None])

    def _take_out(self, places: Sequence[str]) -> None:
        rows = [self._rows.pop(place) for place in places]
        self._words.free(rows)
        for row in rows:
            self._columns.free(row)
            self._vectors.free(row)
            self._places[row] = None
        self._free += rows

    def search(self, asked: Hybrid) -> Scores:
        """As `backend.Backend.scores` says."""
        if self.owner != owner_of(asked.where) or self.owner != owner_of(asked.corpus) or len(asked.corpus.must) > 2:
            raise NotHere("another owner, or an IDF of some of the owner's memories")
        mask = self._columns.mask(asked.where)
        by_vector: dict[int, float] = {}
        by_words: dict[int, float] = {}
        if asked.dense is not None:
            query = unit(asked.dense)
            by_vector = self._vectors.nearest(query, mask, asked.limit)
        if asked.bm25 is not None:
            scores = self._words.scores(asked.bm25, len(mask), len(self._rows))
            by_words = self._words.best(scores, mask, asked.limit)
            more = [row for row in by_vector if row not in by_words]
            by_words |= dict(zip(more, scores[more].tolist(), strict=True))
        if asked.dense is not None:
            by_vector |= self._vectors.of([row for row in by_words if row not in by_vector], query)
        return Scores(dense=self._named(by_vector), bm25=self._named(by_words))

    def _named(self, scores: Mapping[int, float]) -> dict[str, float]:
        return {place: score for row, score in scores.items() if (place := self._places[row]) is not None}
