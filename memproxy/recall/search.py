"""The search itself: one query to the store, every signal looked at, calibrated scores, best first."""

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from memproxy.core import fusion
from memproxy.core.memory import Memory
from memproxy.core.text import GENERIC_WORDS, STOPWORDS
from memproxy.ports import Candidate, HybridQuery, LexicalEncoder
from memproxy.recall.documents import dense_text

CANDIDATES = 60
"""Candidates asked for on each side (by vector, by words), at least. A hundred find no more on LoCoMo (turn recall@10
0.733 against 0.739) and cost the store half as much time again. `core.fusion` is fitted with this number.
"""

_COVERAGE_CHARACTERS = 4000
"""What is read of one candidate to see which of the query's words it has."""

_CACHED_TEXTS = 4096
"""Texts whose words are kept (about 10 MB): a user's questions keep finding the same memories."""


class Scored(msgspec.Struct, kw_only=True):
    """One memory with its calibrated score in [0, 1] and the signals it comes from (``cosine`` only with a vector)."""

    memory: Memory
    score: float
    signals: dict[str, float]


class Ranker:
    """Turns a store's candidates into scored memories, best first."""

    def __init__(self, lexical: LexicalEncoder) -> None:
        self._lexical = lexical
        self._terms = functools.lru_cache(_CACHED_TEXTS)(self._encode)
        self._generic = frozenset(lexical.encode_query(" ".join(GENERIC_WORDS | STOPWORDS)).indices)

    def rank(self, query: HybridQuery, candidates: Sequence[Candidate]) -> list[Scored]:
        """All candidates by descending score; ties go to the newer memory, then by id, so the order is stable."""
        evidence = self.evidence(query, candidates)
        scores = fusion.scores(evidence, len(query.bm25.indices) if query.bm25 else 0)
        scored = [
            Scored(memory=candidate.memory, score=score, signals=_signals(known))
            for candidate, known, score in zip(candidates, evidence, scores, strict=True)
        ]
        return sorted(scored, key=_best_first)

    def evidence(self, query: HybridQuery, candidates: Sequence[Candidate]) -> list[fusion.Evidence]:
        """What fusion is told of each candidate."""
        terms = frozenset(query.bm25.indices if query.bm25 else ())
        documents = [self._terms(_own_text(candidate.memory)) for candidate in candidates]
        weights = fusion.term_weights(terms, self._generic, documents)
        return [
            fusion.Evidence(candidate.cosine, candidate.bm25 or 0.0, fusion.coverage(weights, document))
            for candidate, document in zip(candidates, documents, strict=True)
        ]

    def _encode(self, text: str) -> frozenset[int]:
        return frozenset(self._lexical.encode_document(text).indices)


def _own_text(memory: Memory) -> str:
    labels = " ".join((*memory.tags, *memory.entities, memory.category or ""))
    return f"{dense_text(memory)[:_COVERAGE_CHARACTERS]} {labels}"


def _best_first(scored: Scored) -> tuple[Any, ...]:
    return (-scored.score, -scored.memory.created_at.timestamp(), scored.memory.id)


def _signals(evidence: fusion.Evidence) -> dict[str, float]:
    signals = {"bm25": evidence.bm25, "coverage": evidence.coverage}
    return signals if evidence.cosine is None else {"cosine": evidence.cosine, **signals}
