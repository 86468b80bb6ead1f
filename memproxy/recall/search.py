"""Ranking: every signal that the recipe's stages see in the candidates, one score for each, best first."""

from collections.abc import Sequence, Set
from datetime import datetime
from operator import attrgetter, gt
from typing import Any

import msgspec
import numpy as np

from memproxy.core.memory import Memory
from memproxy.core.text import GENERIC_WORDS, STOPWORDS
from memproxy.ports import Candidate, HybridQuery, LexicalEncoder, Notes
from memproxy.recall.batch import Batch
from memproxy.recall.each import Each
from memproxy.recall.letters import Letters
from memproxy.recall.query import Query
from memproxy.recall.reading import Reader, Reading, readings_of
from memproxy.recall.recipes import Recipe
from memproxy.recall.scores import scores as scores_of
from memproxy.recall.stages import STAGES, Columns
from memproxy.recall.topics import Topics
from memproxy.recall.wording import Wording


class Scored(msgspec.Struct, kw_only=True, gc=False):
    """One memory with its score in [0, 1] (of the default recipe: calibrated) and the signals it comes from
    (``cosine`` only with a vector). ``notes`` as in `Candidate`; nothing of it refers back to it either.
    """

    memory: Memory
    score: float
    signals: dict[str, float]
    notes: Notes = msgspec.field(default_factory=Notes)


class Ranker:
    """Turns a store's candidates into scored memories, best first, by one recipe."""

    def __init__(self, lexical: LexicalEncoder, recipe: Recipe) -> None:
        self._recipe = recipe
        self._reader = Reader(lexical)
        self.topics = Topics()
        self._generic = self._reader.terms(" ".join(GENERIC_WORDS | STOPWORDS))
        self.wording = Wording(lexical)

    def read(self, candidates: Sequence[Candidate]) -> list[Reading]:
        """How each looks on its surface; what is made is kept beside them."""
        found = readings_of([candidate.notes for candidate in candidates])
        read = self._reader.of
        return [
            one or read(candidate.memory, candidate.notes) for one, candidate in zip(found, candidates, strict=True)
        ]

    def note(self, memory: Memory, notes: Notes) -> None:
        """See how one looks that nobody has found yet; it is kept in its notes."""
        self._reader.of(memory, notes)

    def rank(
        self,
        text: str,
        query: HybridQuery,
        candidates: Sequence[Candidate],
        *,
        now: datetime,
        aside: Set[int] = frozenset(),
        noise: Set[int] = frozenset(),
        readings: Sequence[Reading] | None = None,
        read: Query | None = None,
        ranked: bool = True,
    ) -> list[Scored]:
        """All candidates by descending score; ties go to the newer memory, then by id, so the order is stable.

        ``text`` is what was searched for, ``now`` the time it was asked at. Candidates at the places ``noise`` have the
        score that they get beside the others, and do not count in that of these; those at ``aside`` have the score that
        they get without the noise, and do not count in that of the rest. ``readings`` as `read` answered them, where
        that was asked before, and ``read`` the text and the time as they were read before. ``ranked`` as in
        `scores.scores`.
        """
        if not candidates:
            return []
        batch = self.batch(text, query, candidates, now, readings=readings, read=read)
        places = range(len(candidates))
        everyone = batch.only(places, silent=noise)
        if not aside - noise:
            return best_first(self._scored(everyone, ranked=ranked))
        scored = self._scored(everyone, sorted(aside | noise), ranked=ranked)
        if left := [place for place in places if place not in aside and place not in noise]:
            scored += self._scored(batch.only(left), ranked=ranked)
        return best_first(scored)

    def _scored(self, batch: Batch, places: Sequence[int] | None = None, *, ranked: bool) -> list[Scored]:
        """The candidates of the batch, or those at some of its places."""
        columns = self.columns(batch)
        scores: list[float] = scores_of(self._recipe, batch, columns, ranked=ranked).tolist()
        memories, notes = batch.memories, batch.notes
        if places is not None:
            memories, notes = [memories[place] for place in places], [notes[place] for place in places]
            scores = [scores[place] for place in places]
        told = zip(memories, scores, _signals(batch, columns, places), notes, strict=True)
        return [
            Scored(memory=memory, score=score, signals=signals, notes=note) for memory, score, signals, note in told
        ]

    def batch(
        self,
        text: str,
        query: HybridQuery,
        candidates: Sequence[Candidate],
        now: datetime,
        *,
        readings: Sequence[Reading] | None = None,
        read: Query | None = None,
    ) -> Batch:
        """The candidates side by side, with their ``readings`` and the text as it was ``read``, where that was done."""
        terms = list(self._reader.terms(text) if query.bm25 else ())
        readings = readings or self.read(candidates)
        letters = Letters([reading.letters for reading in readings])
        each = Each(
            query=read or Query(text, now),
            terms=terms,
            generic=self._generic,
            candidates=candidates,
            readings=readings,
            held=self._reader.found(text, terms, readings, letters),
            tokens=query.tokens,
            words=query.words,
            letters=letters,
            topics=self.topics,
            vector=query.dense,
        )
        return Batch(each)

    def columns(self, batch: Batch) -> Columns:
        """What the recipe's stages see, by name."""
        found: Columns = {}
        for name in self._recipe.stages:
            found |= STAGES[name](batch)
        return found


def best_first(scored: Sequence[Scored]) -> list[Scored]:
    """By descending score; ties go to the newer memory, then by id."""
    ordered = sorted(scored, key=attrgetter("score"), reverse=True)
    scores = [one.score for one in ordered]
    if all(map(gt, scores, scores[1:])):
        return ordered  # no ties, as nearly always

    def place(one: Scored) -> tuple[Any, ...]:
        return (-one.score, -one.memory.created_at.timestamp(), one.memory.id)

    return sorted(ordered, key=place)


_SHOWN = frozenset(
    ("session", "speaker", "your_words", "not_my_words", "near_time", "newest", "answers_match", "late", "topic")
)
"""Columns beside the raw scores that explain an order; a receipt has them where they are not 0."""


def _signals(batch: Batch, columns: Columns, places: Sequence[int] | None) -> list[dict[str, float]]:
    """What is told of each of the candidates, or of those at these places."""
    rows = slice(None) if places is None else np.array(places, np.intp)
    cosine = batch.cosine[rows]
    scores = zip(batch.bm25[rows].tolist(), batch.coverage[rows].tolist(), cosine.tolist(), strict=True)
    told = [{"bm25": bm25, "coverage": coverage, "cosine": cosine} for bm25, coverage, cosine in scores]
    for place in batch.without_vector[rows].nonzero()[0].tolist():
        del told[place]["cosine"]
    for name in [name for name, column in columns.items() if name in _SHOWN and column is not batch.nothing]:
        values = columns[name][rows]
        there = values.nonzero()[0]  # most columns tell of nobody
        for place, value in zip(there.tolist(), values[there].tolist(), strict=True):
            told[place][name] = value
    return told
