"""Recall, in order: rewrite, embed, search, rank, select, assemble. One deadline for all of it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memproxy.core.memory import Memory
from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.core.scope import Scope
from memproxy.errors import EmbedderUnavailable, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Candidate, Clock, Embedder, HybridQuery, LexicalEncoder, MemoryFilter, MemoryStore
from memproxy.recall.aside import asks_again, set_aside
from memproxy.recall.assemble import Block, assemble
from memproxy.recall.recipes import Recipe, configured
from memproxy.recall.rewrite import shorten, with_context
from memproxy.recall.search import Ranker, Scored, best_first
from memproxy.recall.select import Judged, Limits, select
from memproxy.settings import Settings

EMBED_SHARE = 0.6
"""The part of the deadline that the embedder may use: after it there is time left to search by words alone."""

SEARCH_EMBED_SECONDS = 5.0
"""How long the search API waits for the embedder, which may be busy with a long import."""

_EXPLAINED = 50
"""Candidates that a receipt shows."""


class Recall:
    """Finds what is worth knowing for a request. Expiring costs the memories, never the request."""

    def __init__(
        self,
        *,
        settings: Settings,
        store: MemoryStore,
        embedder: Embedder,
        lexical: LexicalEncoder,
        clock: Clock,
        recipe: Recipe | None = None,
    ) -> None:
        """``recipe`` None: that of the settings.

        Raises:
            ConfigError: the settings name a recipe or a stage that does not exist.
        """
        self._settings = settings
        self._store = store
        self._embedder = embedder
        self._lexical = lexical
        self._clock = clock
        self._recipe = recipe or configured(settings.recall)
        self._ranker = Ranker(lexical, self._recipe)

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """The block to inject. Trouble is in the answer (``degraded`` with ``store`` or ``timeout``), never raised."""
        watch = Stopwatch()
        query = self._rewrite(request)
        limits = Limits.of(self._settings, request.limits)
        if not query or not limits.kinds or not limits.limit:
            return RecallAnswer(result="empty", query=query, timings=watch.done())
        try:
            async with asyncio.timeout(self._settings.recall.deadline_ms / 1000):
                found = await self._find(request.scope, query, limits, watch)
        except TimeoutError:
            return RecallAnswer(result="degraded", reason="timeout", query=query, timings=watch.done())
        except StoreUnavailable:
            return RecallAnswer(result="degraded", reason="store", query=query, timings=watch.done())
        with watch.stage("assemble"):
            present, shown = frozenset(request.present), frozenset(request.shown)
            asked = frozenset(one.memory.id for one in found if asks_again(query, one.memory))
            judged = select(found, limits, present=present, shown=shown, asked=asked, now=self._clock.now())
            block = self._assemble(judged, query, request.nonce, limits)
        return _answer(block, judged if request.explain else [], query, watch)

    async def search(self, scope: Scope, query: str, *, limit: int, where: MemoryFilter) -> list[Scored]:
        """The ``limit`` best memories for a query: no gate, no floor, no budget.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        text = shorten(query)
        hybrid = await self._query(text, SEARCH_EMBED_SECONDS, limit=max(limit, self._recipe.candidates), where=where)
        candidates = await self._store.search(scope, hybrid)
        return self._ranker.rank(text, hybrid, candidates, now=where.as_of or self._clock.now())[:limit]

    def _rewrite(self, request: RecallRequest) -> str:
        if self._settings.rewrite.mode == "none":
            return shorten(request.queries[-1]) if request.queries else ""
        return with_context(request.queries)

    async def _find(self, scope: Scope, query: str, limits: Limits, watch: "Stopwatch") -> list[Scored]:
        where = MemoryFilter(kinds=limits.kinds, active=True, quarantined=False, now=self._clock.now())
        with watch.stage("embed"):
            share = EMBED_SHARE * self._settings.recall.deadline_ms / 1000
            hybrid = await self._query(query, share, limit=self._recipe.candidates, where=where)
        with watch.stage("search"):
            candidates = await self._store.search(scope, hybrid)
        with watch.stage("rank"):
            return self._ranked(query, hybrid, candidates)

    def _ranked(self, query: str, hybrid: HybridQuery, candidates: list[Candidate]) -> list[Scored]:
        """Best first; those set aside have the score that they get among all, and do not lower the others'."""
        now = self._clock.now()
        aside = {id(one.memory) for one in set_aside(query, candidates)}
        if not aside:
            return self._ranker.rank(query, hybrid, candidates, now=now)
        counted = [one for one in candidates if id(one.memory) not in aside]
        ranked = self._ranker.rank(query, hybrid, counted, now=now)
        everyone = self._ranker.rank(query, hybrid, candidates, now=now)
        return best_first([*ranked, *(one for one in everyone if id(one.memory) in aside)])

    async def _query(self, text: str, patience_s: float, *, limit: int, where: MemoryFilter) -> HybridQuery:
        """Both halves of the query; without the vector when the embedder is not there or late."""
        dense: list[float] | None = None
        try:
            async with asyncio.timeout(patience_s):
                dense = await self._embedder.embed_query(text)
        except (TimeoutError, EmbedderUnavailable):
            pass  # words alone are what is left to search by; the embedder says itself what is wrong with it
        return HybridQuery(dense=dense, bm25=self._lexical.encode_query(text), limit=limit, where=where)

    def _assemble(self, judged: list[Judged], query: str, nonce: str, limits: Limits) -> Block:
        chosen = [one.scored for one in judged if one.rejected is None]
        template = self._settings.inject.template
        return assemble(chosen, query=query, nonce=nonce, max_tokens=limits.max_tokens, heading=template)


def _answer(block: Block, explained: list[Judged], query: str, watch: "Stopwatch") -> RecallAnswer:
    shown = {citation.memory_id for citation in block.citations}
    return RecallAnswer(
        result="injected" if block.text else "empty",
        context=block.text,
        tokens=block.tokens,
        citations=block.citations,
        timings=watch.done(),
        query=query,
        candidates=[_explain(one, one.scored.memory, shown) for one in explained[:_EXPLAINED]],
    )


def _explain(judged: Judged, memory: Memory, shown: set[str]) -> dict[str, Any]:
    """One candidate of a receipt: its signals, and why it is not in the block (``budget``: no room was left)."""
    injected = judged.rejected is None and memory.id in shown
    return {
        "memory_id": memory.id,
        "kind": memory.kind.value,
        "score": round(judged.scored.score, 4),
        "signals": {name: round(value, 4) for name, value in judged.scored.signals.items()},
        "injected": injected,
        "rejected": None if injected else judged.rejected or "budget",
    }


class Stopwatch:
    """Milliseconds by stage of one recall; also observed as a metric."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times the block, also when it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self._stages[name] = round(seconds * 1000, 3)
            metrics().recall_stage.labels(stage=name).observe(seconds)

    def done(self) -> dict[str, float]:
        """All stages and their total, ``recall``."""
        return {**self._stages, "recall": round((time.perf_counter() - self._start) * 1000, 3)}
