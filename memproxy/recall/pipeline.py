"""Recall, in order: rewrite, embed, search, rank, hops, rerank, select, assemble.

One deadline for all of it but the models' parts (rewrite, rerank): what a model may take is said by its own setting.
"""

import asyncio
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from memproxy.core.memory import Kind, Memory
from memproxy.core.payer import paid_by
from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.core.scope import Scope
from memproxy.core.telling import about_questions
from memproxy.core.text import key_terms
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
from memproxy.recall import echoes, hops, profile
from memproxy.recall.answering import answered, note, without
from memproxy.recall.assemble import LINE_CHARACTERS, Block, assemble
from memproxy.recall.both import averaged
from memproxy.recall.by_day import asks_by_day, of_days
from memproxy.recall.candidates import looked_at, wanted
from memproxy.recall.course import Course
from memproxy.recall.earlier import with_earlier
from memproxy.recall.first_turn import stable_facts
from memproxy.recall.own_words import OwnWords
from memproxy.recall.query import Query
from memproxy.recall.reading import readings_of
from memproxy.recall.recipes import LATE, Recipe, configured
from memproxy.recall.rerank import reranked
from memproxy.recall.rewrite import Rewriter, by_itself, leans_on_context, shorten, with_context
from memproxy.recall.search import Ranker, Scored, best_first
from memproxy.recall.select import ELBOW, Judgements, Limits, select
from memproxy.recall.sides import sides_of, with_sides
from memproxy.recall.speaks_of import higher, speaks_of
from memproxy.recall.subqueries import parts_of
from memproxy.recall.tiers import Tier, tier_of
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

_EDGES = 30

_QUESTION_TERMS = 24
"""Facts that are read to see whom a relation means."""


class _General(Exception):
    """The question looks general, and the user's memories do not speak of it."""


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
        rewriter: Rewriter | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        """``recipe`` None: that of the settings. Without ``rewriter`` and ``reranker`` no model is asked.

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
        self._rewriter = rewriter
        self._reranker = reranker
        self.own_words = OwnWords(settings.recall.deadline_ms / 1000)
        if isinstance(store, NotesAhead):
            store.note_ahead(self._ranker.note)

    async def prepare(self) -> bool:
        """What is worth doing ahead of requests; called now and then. Answers False while it is to be called again
        soon, because the embedder is still being loaded.
        """
        await self._ranker.topics.prepare(self._embedder)
        return self._embedder.state != "loading"

    async def recall(self, request: RecallRequest, *, explained: int = EXPLAINED) -> RecallAnswer:
        """The block to inject. Trouble is in the answer (``degraded`` with ``store`` or ``timeout``), never raised.

        ``explained`` is of how many candidates an explained answer tells beside those in the block.
        """
        course = Course(self._settings.recall.deadline_ms / 1000)
        limits = Limits.of(self._settings, request.limits)
        if request.only_if_told:
            limits = msgspec.structs.replace(limits, floor=higher(limits.floor))
        if not request.queries or not limits.kinds or not limits.limit:
            return without(course, "empty", query=with_context(request.queries))
        query = with_context(request.queries)
        try:
            await self.own_words.wait(request.scope, course)
            request = await with_earlier(self._store, request, course, now=self._clock.now())
            query = await self._rewritten(request, course)
            query, found = await self._found(request, query, limits, course)
            stable = await self._stable(request, limits, course)
        except _General:
            return without(course, "skipped", "fact", query=query)
        except TimeoutError:
            return without(course, "degraded", "timeout", query=query)
        except StoreUnavailable:
            return without(course, "degraded", "store", query=query)
        with course.stage("assemble"):
            judged = self._judged(request, found, stable, limits)
            block = self._assemble(judged, query, request, limits)
        return answered(block, judged, query, course, explained=explained if request.explain else 0)

    async def search(self, scope: Scope, query: str, *, limit: int, where: MemoryFilter) -> list[Scored]:
        """The ``limit`` best memories for a query: no gate, no floor, no budget.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        text = shorten(query)
        with paid_by(scope.tenant):
            hybrid = await self._query(text, SEARCH_EMBED_SECONDS, least=limit, where=where)
        found = looked_at(self._recipe, hybrid, await self._store.search(scope, hybrid))
        return self._ranker.rank(text, hybrid, found, now=where.as_of or self._clock.now())[:limit]

    async def _rewritten(self, request: RecallRequest, course: Course) -> str:
        """What is searched first: the last message, completed where it is vague."""
        mode = self._settings.rewrite.mode
        if mode == "none":
            return shorten(request.queries[-1])
        if mode == "llm" and self._rewriter is not None and leans_on_context(request.queries):
            try:
                with course.stage("rewrite"):
                    return await self._rewriter.completed(request.scope.tenant, request.queries)
            except ModelError as error:
                note(course, "rewrite", error)
        return by_itself(request.queries) or with_context(request.queries)

    async def _found(
        self, request: RecallRequest, query: str, limits: Limits, course: Course
    ) -> tuple[str, list[Scored]]:
        """What was searched for in the end, and all that it found, best first."""
        async with course.in_time():
            found = await self._asked(request, query, limits, course)
        if self._settings.rewrite.mode == "hyde" and all(one.score < limits.floor for one in found):
            query, found = await self._by_statement(request, query, found, limits, course)
        found = await self._sided(request.scope, query, found, limits, course)
        found = await self._beyond(request.scope, query, found, limits, course)
        if request.limits.rerank is False:
            return query, found
        return query, await self._reranked(request.scope.tenant, query, found, course)

    async def _asked(self, request: RecallRequest, query: str, limits: Limits, course: Course) -> list[Scored]:
        """What is found for the query; for each of its questions where it has several."""
        parts = parts_of(query)
        only_if_told = request.only_if_told and len(parts) == 1
        searches = [await self._find(request.scope, part, limits, course, only_if_told=only_if_told) for part in parts]
        return searches[0] if len(searches) == 1 else averaged(*searches)

    async def _by_statement(
        self, request: RecallRequest, query: str, found: list[Scored], limits: Limits, course: Course
    ) -> tuple[str, list[Scored]]:
        """The search again, by what a model thinks that the answer looks like."""
        if self._rewriter is None:
            return query, found
        try:
            with course.stage("rewrite"):
                statement = await self._rewriter.statement(request.scope.tenant, request.queries)
        except ModelError as error:
            note(course, "rewrite", error)
            return query, found
        async with course.in_time():
            return statement, await self._find(request.scope, statement, limits, course)

    async def _sided(
        self, scope: Scope, query: str, found: list[Scored], limits: Limits, course: Course
    ) -> list[Scored]:
        """With what is told of each of two things that the query is about; without, when there is no time for it."""
        sides = sides_of(query) if self._recipe.calibrated else []  # of others a score is no probability
        if not sides:
            return found
        try:
            with course.stage("sides"):
                async with course.in_time():
                    return with_sides(found, [await self._find(scope, side, limits, course) for side in sides])
        except (TimeoutError, StoreUnavailable) as error:
            course.notes.append(f"sides: {'timeout' if isinstance(error, TimeoutError) else 'store'}")
            return found

    async def _beyond(
        self, scope: Scope, query: str, found: list[Scored], limits: Limits, course: Course
    ) -> list[Scored]:
        """With what lies behind a relation that the query goes by; without, when there is no time for it."""
        phrase = hops.phrase_of(query)
        if phrase is None or all(kind is Kind.TURN for kind in limits.kinds):
            return found
        if not phrase.inverse and not (
            hops.may_be_said(phrase, found) and hops.follow(phrase, (one.memory for one in found))
        ):
            return found  # a fact that says this relation has its word, so the search has found it
        try:
            with course.stage("hops"):
                async with course.in_time():
                    return await self._walked(scope, query, found, limits, course)
        except (TimeoutError, StoreUnavailable) as error:
            course.notes.append(f"hops: {'timeout' if isinstance(error, TimeoutError) else 'store'}")
            return found

    async def _walked(
        self, scope: Scope, question: str, found: list[Scored], limits: Limits, course: Course
    ) -> list[Scored]:
        known = [one.memory for one in found]
        seeds: list[Memory] = []
        name = ""
        while len(seeds) < hops.MOST_HOPS and (phrase := hops.phrase_of(question)) is not None:
            step = hops.follow(phrase, known)
            if step is None and (phrase.inverse or seeds):
                step = hops.follow(phrase, await self._edges(scope, phrase, limits))
            if step is None:
                break
            seed, name = step
            seeds.append(seed)
            question = hops.replaced(question, phrase, name)
        if not seeds:
            return found
        beyond = [one for one in await self._find(scope, question, limits, course) if hops.is_about(one.memory, name)]
        return best_first(hops.joined(found, beyond, len(seeds), frozenset(seed.id for seed in seeds)))

    async def _edges(self, scope: Scope, phrase: hops.Phrase, limits: Limits) -> list[Memory]:
        """The facts that have words of a relation, whatever else the question has."""
        kinds = tuple(kind for kind in limits.kinds if kind is not Kind.TURN)
        where = MemoryFilter(kinds=kinds, active=True, quarantined=False, now=self._clock.now())
        bm25 = self._lexical.encode_query(hops.searched(phrase))
        found = await self._store.search(scope, HybridQuery(bm25=bm25, limit=_EDGES, where=where))
        return [one.memory for one in found]

    async def _reranked(self, tenant: str, query: str, found: list[Scored], course: Course) -> list[Scored]:
        """As a model orders it; as it was when the model cannot."""
        if self._reranker is None or not found:
            return found
        try:
            with course.stage("rerank"):
                return await reranked(self._reranker, tenant, query, found)
        except ModelError as error:
            note(course, "rerank", error)
            return found

    async def _stable(self, request: RecallRequest, limits: Limits, course: Course) -> list[Scored]:
        count = self._settings.recall.first_turn_facts
        if not count or not request.first_turn:
            return []
        with course.stage("first_turn"):
            async with course.in_time():
                return await stable_facts(self._store, request.scope, limits, count, self._clock.now())

    async def _find(
        self, scope: Scope, query: str, limits: Limits, course: Course, *, only_if_told: bool = False
    ) -> list[Scored]:
        read = Query(query, self._clock.now())
        where = MemoryFilter(
            kinds=limits.kinds,
            active=True,
            quarantined=False,
            telling=not (about_questions(query) or read.asking.assistant_said),
            now=self._clock.now(),
        )
        with course.stage("embed"), paid_by(scope.tenant):
            share = EMBED_SHARE * self._settings.recall.deadline_ms / 1000
            hybrid = await self._query(query, share, least=0, where=where)
            hybrid = msgspec.structs.replace(hybrid, facts=FACTS if Kind.TURN in limits.kinds else 0)
        if (topic := self._ranker.topics.inventory(hybrid.dense)) is not None:
            return await self._profile(scope, topic, where, course)
        if asks_by_day(query, read.spans, read.now):
            with course.stage("search"):
                return await of_days(self._store, scope, where, read.spans)
        with course.stage("search"):
            candidates = looked_at(self._recipe, hybrid, await self._store.search(scope, hybrid))
        if only_if_told:
            with course.stage("look"):
                if not speaks_of(query, candidates):
                    raise _General
        with course.stage("rank"):
            return self._ranked(read, hybrid, candidates)

    async def _profile(self, scope: Scope, topic: int, where: MemoryFilter, course: Course) -> list[Scored]:
        """What tells most of a topic of which all that is known is asked for."""
        topics, tokens = self._ranker.topics, np.zeros((0, 0), np.float32)
        nearest = HybridQuery(
            dense=topics.centre(topic), tokens=tokens, limit=profile.CANDIDATES, facts=profile.LINES, where=where
        )
        with course.stage("search"):
            candidates = await self._store.search(scope, nearest)
        with course.stage("rank"):
            return profile.profile(candidates, self._ranker.read(candidates), topics, topic)

    def _ranked(self, query: Query, hybrid: HybridQuery, candidates: list[Candidate]) -> list[Scored]:
        """Likeliest first; those set aside do not lower the others' scores."""
        readings = self._ranker.read(candidates)
        away = echoes.places(query.text, candidates, readings)
        return self._ranker.rank(
            query.text,
            hybrid,
            candidates,
            now=query.now,
            read=query,
            aside=away.told,
            noise=away.noise,
            readings=readings,
            ranked=False,
        )

    async def _query(self, text: str, patience_s: float, *, least: int, where: MemoryFilter) -> HybridQuery:
        """Both halves of the query, for as many candidates as the recipe has, or ``least`` if those are more; without
        the vector when the embedder is not there or late.
        """
        asked: Question | None = None
        try:
            async with asyncio.timeout(patience_s):
                asked = await self._embedder.embed_question(text)
            vector = "yes"
        except TimeoutError:
            vector = "timeout"
        except EmbedderUnavailable:
            # words alone are what is left to search by; the embedder says itself what is wrong with it
            vector = self._embedder.state if self._embedder.state in {"off", "loading"} else "unavailable"
        metrics().queries.labels(vector).inc()
        bm25 = self._ranker.wording.encoded(text) if asked is None else self._lexical.encode_query(text)
        tokens = asked.tokens if asked is not None and LATE in self._recipe.stages else None
        limit = max(least, wanted(self._recipe, tokens=tokens is not None))
        if asked is None:
            return HybridQuery(bm25=bm25, limit=limit, where=where)
        return HybridQuery(dense=asked.vector, bm25=bm25, tokens=tokens, words=asked.words, limit=limit, where=where)

    def _judged(
        self, request: RecallRequest, found: Sequence[Scored], stable: Sequence[Scored], limits: Limits
    ) -> Judgements:
        """Why each may be injected or not; the stable facts of a first turn, which need no score, come last."""
        now, present, shown = self._clock.now(), frozenset(request.present), frozenset(request.shown)
        query = request.queries[-1]
        if _is_profile(found) and request.limits.retrieval_limit is None:
            limits = limits.up_to(profile.LINES)

        def asked(some: Sequence[Scored]) -> frozenset[str]:
            places = echoes.echoes(query, readings_of([one.notes for one in some]))
            places |= echoes.again(query, [one.memory for one in some])
            return frozenset(some[place].memory.id for place in places)

        judged = select(
            found,
            limits,
            present=present,
            shown=shown,
            asked=asked,
            session=request.scope.session,
            wanted=lambda: frozenset(key_terms(query, _QUESTION_TERMS)),
            elbow=ELBOW if self._recipe.calibrated else math.inf,
            now=now,
        )
        if not stable:
            return judged
        kept = frozenset(one.memory.id for one in judged.kept)
        added = select(stable, limits.for_stable(len(stable)), present=present, shown=shown | kept, now=now)
        return judged.followed_by([one for one in added if one.scored.memory.id not in kept])

    def _assemble(self, judged: Judgements, query: str, request: RecallRequest, limits: Limits) -> Block:
        now, session = self._clock.now(), request.scope.session

        def tier(memory: Memory) -> Tier:
            return tier_of(memory, session=session, now=now)

        return assemble(
            judged.kept,
            query=query,
            nonce=request.nonce,
            max_tokens=limits.max_tokens,
            heading=self._settings.inject.template,
            line=profile.LINE_CHARACTERS if _is_profile(judged.kept) else LINE_CHARACTERS,
            shares=limits.tiers,
            tier=tier,
        )


def _is_profile(found: Sequence[Scored]) -> bool:
    return any(profile.PROFILE in one.signals for one in found)
