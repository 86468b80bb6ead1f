"""The words of one owner's memories: for each term the rows that have it, with its weight there."""

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from memproxy.ports import SparseVector
from memproxy.stores.owner_columns import Floats, Mask, NotHere, Places, greatest

_ROW = 32
_ENTRY_BYTES = 9
_TERM_BYTES = 180
"""About what a term costs in the dictionary and its array, as measured (docs/decisions/0026)."""

_NO_TERMS = b""
_NOBODY = array("Q")


class Words:
    """Postings: a row and its weight share one number of 64 bits, the weight as its lower half."""

    def __init__(self) -> None:
        self._postings: dict[int, array[int]] = {}
        self._terms: dict[int, bytes] = {}
        self._entries = 0

    @property
    def nbytes(self) -> int:
        """About what it takes."""
        return self._entries * (_ENTRY_BYTES + 4) + len(self._postings) * _TERM_BYTES

    def put(self, row: int, words: SparseVector) -> None:
        """Give a row its words. Raises `NotHere`."""
        if len(set(words.indices)) != len(words.indices) or min(words.values, default=1) <= 0:
            raise NotHere("weights that no lexical encoder gives")
        bits = np.array(words.values, np.float32).view(np.uint32).tolist()
        high, postings = row << _ROW, self._postings
        for term, weight in zip(words.indices, bits, strict=True):
            there = postings.get(term)
            if there is None:
                postings[term] = array("Q", (high | weight,))
            else:
                there.append(high | weight)
        self._terms[row] = array("I", words.indices).tobytes()
        self._entries += len(bits)

    def free(self, rows: Iterable[int]) -> None:
        """Nothing is left of these rows' words."""
        leaving: dict[int, set[int]] = {}
        for row in rows:
            for term in array("I", self._terms.pop(row, _NO_TERMS)):
                leaving.setdefault(term, set()).add(row)
        for term, gone in leaving.items():
            self._entries -= len(gone)
            there = self._postings[term]
            if len(there) == len(gone):
                del self._postings[term]
                continue
            numbers = np.frombuffer(there, np.uint64)
            kept = numbers[~np.isin(numbers >> np.uint64(_ROW), list(gone))]
            self._postings[term] = array("Q", kept.tobytes())

    def having(self, term: int) -> "array[int]":
        """The rows that have it, with its weight there."""
        return self._postings.get(term, _NOBODY)


class Corpus(NamedTuple):
    """What IDF is counted over: so many ``rows`` of these tables; ``some`` where that is not all of them."""

    tables: Sequence[Words]
    rows: int
    some: Mask | None = None

    def having(self, there: Sequence["array[int]"]) -> int:
        """How many of the rows are among these postings."""
        if self.some is None:
            return sum(map(len, there))
        return sum(int(self.some[np.frombuffer(postings, np.uint32)[1::2]].sum()) for postings in there)


def scores(corpus: Corpus, query: SparseVector, rows: int) -> Floats:
    """The sum of weights for each of ``rows`` rows by the words of the corpus's tables; 0 where no word is the same.
    Inverse document frequency as the engine counts it. Raises `NotHere`.
    """
    if min(query.values, default=1) <= 0:
        raise NotHere("a word that counts against a memory")
    total = np.zeros(rows, np.float32)
    for term, asked in zip(query.indices, query.values, strict=True):
        there = [postings for table in corpus.tables if (postings := table.having(term))]
        if not there:
            continue
        having = corpus.having(there)
        idf = np.log((corpus.rows - having + 0.5) / (having + 0.5) + 1)
        for postings in there:
            halves = np.frombuffer(postings, np.uint32).reshape(-1, 2)
            # with places of NumPy's own kind it takes a half to a third of the time of `total[...] +=`
            np.add.at(total, halves[:, 1].astype(np.intp), halves[:, 0].view(np.float32) * np.float32(asked * idf))
    return total


def best(total: Floats, allowed: Mask, limit: int) -> Places:
    """The best ``limit`` rows that have a word, best first."""
    having: Places = ((total > 0) & allowed).nonzero()[0]
    return having[greatest(total[having], limit)]
