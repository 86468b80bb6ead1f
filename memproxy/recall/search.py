"""Ranking: every signal that the recipe's stages see in the candidates, one score for each, best first."""

import math
from collections.abc import Callable, Sequence, Set
from datetime import datetime
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.text import GENERIC_WORDS, STOPWORDS
from memproxy.ports import Candidate, HybridQuery, LexicalEncoder
from memproxy.recall.batch import Batch
from memproxy.recall.each import Each
from memproxy.recall.reading import Reader
from memproxy.recall.recipes import Recipe
from memproxy.recall.scores import scores as scores_of
from memproxy.recall.stages import STAGES, Columns


class Scored(msgspec.Struct, kw_only=True):
    """One memory with its score in [0, 1] (of the default recipe: calibrated) and the signals it comes from
    (``cosine`` only with a vector).
    """

    memory: Memory
    score: float
    signals: dict[str, float]


class Ranker:
    """Turns a store's candidates into scored memories, best first, by one recipe."""

    def __init__(self, lexical: LexicalEncoder, recipe: Recipe) -> None:
        self._recipe = recipe
        self._reader = Reader(lexical)
        self._generic = self._reader.terms(" ".join(GENERIC_WORDS | STOPWORDS))

    def rank(
        self,
        text: str,
        query: HybridQuery,
        candidates: Sequence[Candidate],
        *,
        now: datetime,
        aside: Set[int] = frozenset(),
        noise: Set[int] = frozenset(),
    ) -> list[Scored]:
        """All candidates by descending score; ties go to the newer memory, then by id, so the order is stable.

        ``text`` is what was searched for, ``now`` the time it was asked at. Candidates at the places ``noise`` have the
        score that they get among all, and do not count in that of the others; those at ``aside`` have the score that
        they get without the noise, and do not count in that of the rest.
        """
        if not candidates:
            return []
        batch = self.batch(text, query, candidates, now)
        scored: list[Scored] = []
        left: Sequence[int] = range(len(candidates))
        for away in (noise, aside - noise):
            if away:
                here = batch if len(left) == len(candidates) else batch.only(left)
                scored += self._scored(here, [row for row, place in enumerate(left) if place in away])
                left = [place for place in left if place not in away]
        if left:
            scored += self._scored(batch if len(left) == len(candidates) else batch.only(left))
        return best_first(scored)

    def _scored(self, batch: Batch, places: Sequence[int] | None = None) -> list[Scored]:
        """The candidates of the batch, or those at some of its places."""
        columns = self.columns(batch)
        scores: list[float] = scores_of(self._recipe, batch, columns).tolist()
        signals = _signals(batch, columns)
        wanted = range(len(scores)) if places is None else places
        return [Scored(memory=batch.memories[place], score=scores[place], signals=signals(place)) for place in wanted]

    def batch(self, text: str, query: HybridQuery, candidates: Sequence[Candidate], now: datetime) -> Batch:
        """The candidates side by side."""
        terms = list(frozenset(query.bm25.indices if query.bm25 else ()))
        readings = [self._reader.read(candidate.memory) for candidate in candidates]
        each = Each(
            text=text,
            terms=terms,
            generic=self._generic,
            candidates=candidates,
            readings=readings,
            held=self._reader.found(text, terms, readings),
            now=now,
            tokens=query.tokens,
            words=query.words,
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
    if all(one.score > other.score for one, other in pairwise(ordered)):
        return ordered  # no ties, as nearly always

    def place(one: Scored) -> tuple[Any, ...]:
        return (-one.score, -one.memory.created_at.timestamp(), one.memory.id)

    return sorted(ordered, key=place)


_SHOWN = ("session", "speaker", "your_words", "not_my_words", "near_time", "newest", "answers_match", "late")
"""Columns beside the raw scores that explain an order; a receipt has them where they are not 0."""


def _signals(batch: Batch, columns: Columns) -> Callable[[int], dict[str, float]]:
    """What is told of the candidate at a place."""
    bm25, coverage, cosine = batch.bm25.tolist(), batch.coverage.tolist(), batch.cosine.tolist()
    shown = [(name, columns[name].tolist()) for name in columns if name in _SHOWN and columns[name].any()]

    def signals(place: int) -> dict[str, float]:
        told = {"bm25": bm25[place], "coverage": coverage[place]}
        if not math.isnan(cosine[place]):
            told["cosine"] = cosine[place]
        for name, values in shown:
            if values[place]:
                told[name] = values[place]
        return told

    return signals
