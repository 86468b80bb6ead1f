"""Recall, in order: rewrite, embed, search, rank, links, former, rerank, select, assemble.

One deadline for all of it but the models' parts (rewrite, rerank): what a model may take is said by its own setting.
"""

import asyncio
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from memproxy.core.facts import begins
from memproxy.core.memory import Kind
from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.core.scope import Scope, paid_by
from memproxy.errors import EmbedderUnavailable, ModelError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import (
    Candidate,
    Clock,
    Embedder,
    HybridQuery,
    LexicalEncoder,
    MemoryFilter,
    MemoryStore,
    NotesAhead,
    Question,
    Reranker,
)
from memproxy.recall import links, listed, topics
from memproxy.recall.assemble import Block, assemble
from memproxy.recall.deadline import Deadline, OwnWords
from memproxy.recall.documents import bm25_text, word_scores
from memproxy.recall.former import asks_for_past, likeliest_facts, with_former
from memproxy.recall.hot import Hot
from memproxy.recall.other_words import OtherWords
from memproxy.recall.query import Query, parts_of
from memproxy.recall.ranking import REPLACED, Ranker, Scored, merge_searches, searched_candidates, set_aside
from memproxy.recall.recall_answer import answer_with, answer_without
from memproxy.recall.recipes import LATE, Recipe, configured
from memproxy.recall.rerank import reranked
from memproxy.recall.rewrite import Rewriter, by_itself, leans_on_context, shorten, with_context, with_earlier
from memproxy.recall.select import ELBOW, Judgements, Limits, select
from memproxy.recall.speaks_of import raised_floor, speaks_of
from memproxy.settings import Settings

EMBED_SHARE = 0.6
"""The part of the deadline that the embedder may use: after it there is time left to search by words alone."""

SEARCH_EMBED_SECONDS = 5.0
"""How long the search API waits for the embedder, which may be busy with a long import."""

EXPLAINED = 50
"""Candidates that an explained answer shows beside those in the block."""

FACTS = 5
"""Facts that are candidates on each side, however many turns are nearer: a question asked again and again leaves as
many answers, which have more of its words than the fact that they came from (docs/decisions/0028).
"""


class _GeneralQuestion(Exception):
    """The question looks general, and the user's memories do not speak of it."""


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    """One recall's scope, limits and deadline. ``messages`` are the user's last ones, oldest first."""

    scope: Scope
    messages: list[str]
    limits: Limits
    deadline: Deadline
    only_if_told: bool
    rerank: bool


class Recall:
    """Finds what is worth knowing for a request. A missed deadline costs the memories, never the request."""

    def __init__(
        self,
        *,
        settings: Settings,
        store: MemoryStore,
        embedder: Embedder,
        lexical: LexicalEncoder,
        clock: Clock,
        recipe: Recipe | None = None,
        rewriter: Rewriter | None = None,
        reranker: Reranker | None = None,
        hot: Hot | None = None,
    ) -> None:
        """``recipe`` None: that of the settings. Without ``rewriter`` and ``reranker`` no model is asked. ``hot`` takes
        the store's place in an outage.

        Raises:
            ConfigError: the settings name a recipe or a stage that does not exist.
        """
        self._settings = settings
        self._deadline_s = settings.recall.deadline_ms / 1000
        self._store = store
        self._embedder = embedder
        self._lexical = lexical
        self._clock = clock
        self._recipe = recipe or configured(settings.recall)
        self._ranker = Ranker(lexical, self._recipe)
        self._other_words = OtherWords(lexical)
        self._rewriter = rewriter
        self._reranker = reranker
        self._hot = hot
        self.own_words = OwnWords(self._deadline_s)
        if isinstance(store, NotesAhead):
            store.note_ahead(self._ranker.note)

    async def prepare(self) -> bool:
        """Work ahead of requests; called now and then. Returns False while it should be called again soon, because the
        embedder is still loading.
        """
        await self._ranker.topics.prepare(self._embedder)
        return self.embedder_state != "loading"

    @property
    def embedder_state(self) -> str:
        """The embedder's state, still ``loading`` while the examples of topics wait for it."""
        state = self._embedder.state
        return "loading" if state == "ready" and not self._ranker.topics.has_vectors else state

    async def recall(self, request: RecallRequest, *, explained: int = EXPLAINED) -> RecallAnswer:
        """The block to inject. Trouble is in the answer (``degraded`` with ``store`` or ``timeout``), never raised.

        ``explained`` is of how many candidates an explained answer tells beside those in the block.
        """
        deadline = Deadline(self._deadline_s)
        limits = Limits.of(self._settings, request.limits)
        if request.only_if_told:
            limits = msgspec.structs.replace(limits, floor=raised_floor(limits.floor))
        query = with_context(request.queries)
        if not request.queries or not limits.kinds or not limits.limit:
            return answer_without(deadline, "empty", query=query)
        try:
            await self.own_words.wait(request.scope, deadline)
            request = await with_earlier(self._store, request, deadline, now=self._clock.now())
            sought = _Task(
                scope=request.scope,
                messages=request.queries,
                limits=limits,
                deadline=deadline,
                only_if_told=request.only_if_told,
                rerank=request.limits.rerank is not False,
            )
            query = await self._rewritten(sought)
            query, scored = await self._search_parts(sought, query)
            stable = await self._stable(sought) if request.first_turn else []
        except _GeneralQuestion:
            return answer_without(deadline, "skipped", "fact", query=query)
        except TimeoutError:
            return await self._from_cache(request, limits, deadline, query, "timeout", explained=explained)
        except StoreUnavailable:
            return await self._from_cache(request, limits, deadline, query, "store", explained=explained)
        with deadline.stage("assemble"):
            judged = self._judged(request, scored, stable, limits)
            block = self._assemble(judged, query, request, limits)
        shown = explained if request.explain else 0
        return answer_with(block, judged, query, deadline, floor=limits.floor, explained=shown)

    async def without_store(self, request: RecallRequest) -> RecallAnswer:
        """The block while the store was never open: of hot memories, where there are any."""
        limits, query = Limits.of(self._settings, request.limits), with_context(request.queries)
        deadline = Deadline(self._deadline_s)
        return await self._from_cache(request, limits, deadline, query, "store", explained=EXPLAINED)

    async def _from_cache(
        self, request: RecallRequest, limits: Limits, deadline: Deadline, query: str, reason: str, *, explained: int
    ) -> RecallAnswer:
        """The block of hot memories, found by words and judged like all others: ``degraded`` with ``cache``; with
        ``reason`` (why the store was not asked) where they hold nothing for the question.
        """
        nothing = answer_without(deadline, "degraded", reason, query=query)
        if self._hot is None or not request.queries or not limits.kinds or not limits.limit:
            return nothing
        with deadline.stage("cache"):
            memories = await self._hot.memories(request.scope)
            texts = [bm25_text(memory, None, None) for memory in memories]
            words = word_scores(self._lexical, query, texts)
            candidates = [Candidate(memory=hot, bm25=bm25) for hot, bm25 in zip(memories, words, strict=True) if bm25]
            if not candidates or (request.only_if_told and not speaks_of(query, candidates)):
                return nothing
            hybrid = HybridQuery(bm25=self._other_words.encoded(query))
            aside, noise = set_aside(query, candidates)
            read_query = Query(query, self._clock.now())
            scored = self._ranker.rank(read_query, hybrid, candidates, aside=aside, noise=noise, ranked=False)
            judged = self._judged(request, scored, [], limits)
            block = self._assemble(judged, query, request, limits)
        if not block.text:
            return answer_without(deadline, "degraded", reason, query=query)
        shown = explained if request.explain else 0
        answer = answer_with(block, judged, query, deadline, floor=limits.floor, explained=shown)
        return msgspec.structs.replace(answer, result="degraded", reason="cache")

    async def search(self, scope: Scope, query: str, *, limit: int, where: MemoryFilter) -> list[Scored]:
        """The ``limit`` best memories for a query: no gate, no floor, no budget.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        text = shorten(query)
        with paid_by(scope.tenant):
            hybrid = await self._embedded(text, SEARCH_EMBED_SECONDS, least=limit, where=where)
        candidates = searched_candidates(self._recipe, hybrid, await self._store.search(scope, hybrid))
        return self._ranker.rank(Query(text, where.as_of or self._clock.now()), hybrid, candidates)[:limit]

    async def _rewritten(self, sought: _Task) -> str:
        """What is searched first: the last message, completed where it is vague."""
        mode = self._settings.rewrite.mode
        if mode == "none":
            return shorten(sought.messages[-1])
        if mode == "llm" and self._rewriter is not None and leans_on_context(sought.messages):
            try:
                with sought.deadline.stage("rewrite"):
                    return await self._rewriter.completed(sought.scope.tenant, sought.messages)
            except ModelError as error:
                sought.deadline.note_missing_model("rewrite", error)
        return by_itself(sought.messages) or with_context(sought.messages)

    async def _search_parts(self, sought: _Task, query: str) -> tuple[str, list[Scored]]:
        """The text that was searched for in the end, and all candidates, best first."""
        async with sought.deadline.in_time():
            parts = parts_of(query)
            only_told = sought.only_if_told and len(parts) == 1
            searches = [await self._find(sought, part, only_if_told=only_told) for part in parts]
            scored = searches[0] if len(searches) == 1 else merge_searches(searches)
        if self._settings.rewrite.mode == "hyde" and all(candidate.score < sought.limits.floor for candidate in scored):
            query, scored = await self._by_statement(sought, query, scored)
        scored = await self._with_former(sought, await self._linked(sought, query, scored))
        if self._reranker is None or not scored or not sought.rerank:
            return query, scored
        try:
            with sought.deadline.stage("rerank"):
                return query, await reranked(self._reranker, sought.scope.tenant, query, scored)
        except ModelError as error:
            sought.deadline.note_missing_model("rerank", error)
            return query, scored

    async def _by_statement(self, sought: _Task, query: str, scored: list[Scored]) -> tuple[str, list[Scored]]:
        """Search again by a statement that a model thinks the answer looks like."""
        if self._rewriter is None:
            return query, scored
        try:
            with sought.deadline.stage("rewrite"):
                statement = await self._rewriter.statement(sought.scope.tenant, sought.messages)
        except ModelError as error:
            sought.deadline.note_missing_model("rewrite", error)
            return query, scored
        async with sought.deadline.in_time():
            return statement, await self._find(sought, statement)

    async def _linked(self, sought: _Task, query: str, scored: list[Scored]) -> list[Scored]:
        """The candidates with those behind a relation in the query; without them when there is no time."""
        phrase = links.phrase_of(query) if self._recipe.hops else None
        if phrase is None or links.resolve(phrase, (candidate.memory for candidate in scored)) is None:
            return scored
        try:
            with sought.deadline.stage("hops"):
                async with sought.deadline.in_time():
                    return await links.search_linked(query, scored, lambda other: self._find(sought, other))
        except (TimeoutError, StoreUnavailable) as error:
            sought.deadline.notes.append(f"hops: {'timeout' if isinstance(error, TimeoutError) else 'store'}")
            return scored

    async def _with_former(self, sought: _Task, scored: list[Scored]) -> list[Scored]:
        """The candidates with former statements, where the query asks for them or what replaces them is still to begin;
        without them when there is no time.
        """
        facts, now = likeliest_facts(scored, sought.limits.floor), self._clock.now()
        past = asks_for_past(sought.messages[-1])
        if past:
            for candidate in scored:
                candidate.signals.pop(REPLACED, None)
        elif not (facts := [fact for fact in facts if begins(fact.memory) > now]):
            return scored
        try:
            with sought.deadline.stage("former"):
                async with sought.deadline.in_time():
                    return await with_former(self._store, sought.scope, scored, facts, None if past else now)
        except (TimeoutError, StoreUnavailable) as error:
            sought.deadline.notes.append(f"former: {'timeout' if isinstance(error, TimeoutError) else 'store'}")
            return scored

    async def _stable(self, sought: _Task) -> list[Scored]:
        """The facts that a session begins with."""
        count = self._settings.recall.first_turn_facts
        if not count:
            return []
        with sought.deadline.stage("first_turn"):
            if (
                self._hot is not None
                and (cached := await self._hot.facts(sought.scope, sought.limits, count)) is not None
            ):
                return cached
            async with sought.deadline.in_time():
                return await listed.stable_facts(self._store, sought.scope, sought.limits, count, self._clock.now())

    async def _find(self, sought: _Task, text: str, *, only_if_told: bool = False) -> list[Scored]:
        """What is found for one question, likeliest first."""
        deadline, scope, query = sought.deadline, sought.scope, Query(text, self._clock.now())
        where = MemoryFilter(
            kinds=sought.limits.kinds,
            active=True,
            quarantined=False,
            telling=not query.type.assistant_said,
            now=query.now,
        )
        with deadline.stage("embed"), paid_by(scope.tenant):
            hybrid = await self._embedded(text, EMBED_SHARE * self._deadline_s, least=0, where=where)
            hybrid = msgspec.structs.replace(hybrid, facts=FACTS if Kind.TURN in sought.limits.kinds else 0)
        if (topic := self._ranker.topics.inventory(hybrid.dense)) is not None:
            return await self._profile(sought, topic, where)
        with deadline.stage("search"):
            if listed.asks_by_day(query):
                return await listed.of_days(self._store, scope, where, query)
            candidates = searched_candidates(self._recipe, hybrid, await self._store.search(scope, hybrid))
        if only_if_told:
            with deadline.stage("look"):
                if not speaks_of(text, candidates) and not self._ranker.bears(hybrid, candidates):
                    raise _GeneralQuestion
        with deadline.stage("rank"):
            aside, noise = set_aside(text, candidates)
            return self._ranker.rank(query, hybrid, candidates, aside=aside, noise=noise, ranked=False)

    async def _profile(self, sought: _Task, topic: int, where: MemoryFilter) -> list[Scored]:
        """The profile of a topic: the question asks for everything known about it."""
        ranker = self._ranker
        nearest = HybridQuery(
            dense=ranker.topics.centre(topic),
            tokens=np.zeros((0, 0), np.float32),
            limit=topics.PROFILE_CANDIDATES,
            facts=topics.PROFILE_LINES,
            where=where,
        )
        with sought.deadline.stage("search"):
            candidates = await self._store.search(sought.scope, nearest)
        with sought.deadline.stage("rank"):
            return ranker.profile(candidates, topic)

    async def _embedded(self, text: str, patience_s: float, *, least: int, where: MemoryFilter) -> HybridQuery:
        """Both halves of the query, for as many candidates as the recipe has, or ``least`` if those are more; without
        the vector when the embedder is not there, late, or cannot read the text.
        """
        question: Question | None = None
        try:
            async with asyncio.timeout(patience_s):
                question = await self._embedder.embed_question(text)
            vector = "unread" if question.unread else "yes"
        except TimeoutError:
            vector = "timeout"
        except EmbedderUnavailable:
            # only words are left to search by; the embedder reports its own trouble
            vector = self._embedder.state if self._embedder.state in {"off", "loading"} else "unavailable"
        metrics().queries.labels(vector).inc()
        if question is None or question.unread:
            limit = max(least, self._recipe.candidates)
            return HybridQuery(bm25=self._other_words.encoded(text), limit=limit, where=where)
        tokens = question.tokens if LATE in self._recipe.stages else None
        return HybridQuery(
            dense=question.vector,
            bm25=self._lexical.encode_query(text),
            tokens=tokens,
            words=question.words,
            limit=max(least, self._recipe.candidates if tokens is None else self._recipe.by_tokens),
            where=where,
        )

    def _judged(
        self, request: RecallRequest, scored: Sequence[Scored], stable: Sequence[Scored], limits: Limits
    ) -> Judgements:
        """Why each may be injected or not; the stable facts of a first turn, which need no score, come last."""
        now, present, shown = self._clock.now(), frozenset(request.present), frozenset(request.shown)
        if _is_profile(scored) and request.limits.retrieval_limit is None:
            limits = msgspec.structs.replace(limits, limit=max(topics.PROFILE_LINES, limits.limit))
        judged = select(
            scored,
            limits,
            query=request.queries[-1],
            present=present,
            shown=shown,
            elbow=ELBOW if self._recipe.calibrated else math.inf,
            now=now,
        )
        if not stable:
            return judged
        kept_ids = frozenset(candidate.memory.id for candidate in judged.kept)
        every = msgspec.structs.replace(limits, floor=0.0, limit=len(stable))
        added = select(stable, every, present=present, shown=shown | kept_ids, now=now)
        return judged.followed_by([candidate for candidate in added if candidate.scored.memory.id not in kept_ids])

    def _assemble(self, judged: Judgements, query: str, request: RecallRequest, limits: Limits) -> Block:
        return assemble(
            judged.kept,
            query=query,
            nonce=request.nonce,
            max_tokens=limits.max_tokens,
            heading=self._settings.inject.template,
            profile=_is_profile(judged.kept),
            now=self._clock.now(),
        )


def _is_profile(scored: Sequence[Scored]) -> bool:
    return any(topics.PROFILE in candidate.signals for candidate in scored)
