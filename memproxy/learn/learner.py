"""The learn lane: a session's new turns become facts (extract, reconcile, save the plan, apply)."""

import logging
import math
from collections.abc import Sequence
from datetime import datetime
from time import perf_counter

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import LearnBody, PlanBody
from memproxy.core.receipt import Outcome
from memproxy.core.scope import Scope
from memproxy.core.supersede import Operation
from memproxy.core.turn import in_order
from memproxy.errors import ModelRefused, StateUnavailable
from memproxy.learn.access import ModelAccess
from memproxy.learn.apply import Applier
from memproxy.learn.candidates import Grounded
from memproxy.learn.extract import Extractor, Read, Window
from memproxy.learn.index import decoded
from memproxy.learn.locks import OwnerLocks
from memproxy.learn.outcomes import kept_out, with_silent
from memproxy.learn.reconcile import Planned, Reconciler
from memproxy.learn.vectors import Vectors
from memproxy.metrics import metrics
from memproxy.ports import (
    Candidate,
    Clock,
    Credential,
    HybridQuery,
    JournalRow,
    LexicalEncoder,
    MemoryFilter,
    MemoryStore,
    StateStore,
)
from memproxy.settings import Settings

log = logging.getLogger(__name__)

_FACTS = (Kind.SEMANTIC, Kind.PROCEDURAL, Kind.EPISODIC, Kind.REFLECTIVE)
_KNOWN = 12
_QUERY = 2_000
_PAGE = 200
_PLANNING_TRIES = 5
_SLACK = 2
"""Turns before the new ones that are read as new too: an exchange that came while the row was made is not missed, and
what is read twice changes nothing.
"""


class _Progress(msgspec.Struct):
    """How far a row's extraction is: a retry after a failure asks for the windows that are left."""

    windows: list[Window]
    read: list[Read] = []


class Learner:
    """Handles rows of kind ``learn``."""

    def __init__(
        self,
        *,
        settings: Settings,
        store: MemoryStore,
        state: StateStore,
        lexical: LexicalEncoder,
        vectors: Vectors,
        extractor: Extractor,
        access: ModelAccess,
        reconciler: Reconciler,
        applier: Applier,
        locks: OwnerLocks,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._store = store
        self._state = state
        self._lexical = lexical
        self._vectors = vectors
        self._extractor = extractor
        self._access = access
        self._reconciler = reconciler
        self._applier = applier
        self._locks = locks
        self._clock = clock
        self._progress: dict[int, _Progress] = {}

    async def learn(self, row: JournalRow) -> None:
        """Learn from the row's turns; a plan that was saved before is applied as it is.

        Raises:
            RequestError: the row cannot be read; it never will.
            ModelRefused: no key, or one that is not accepted.
            ModelError: the model failed or its answer cannot be read.
            StoreUnavailable, StateUnavailable: try again later.
        """
        began = perf_counter()
        scope = row.entry.scope
        if row.plan is not None:
            plan = decoded(row.plan, PlanBody)
            async with self._locks.of(scope.owner):
                await self._applier.apply(scope, plan, now=self._clock.now())
            await self._state.note_outcomes(row.number, plan.outcomes, self._clock.now())
            log.info("Stored %d memories (row %d: its plan was applied again)", len(plan.upserts), row.number)
            return
        body = decoded(row.entry.body, LearnBody)
        if not body.unlearned:
            return
        progress = await self._extracted(row, body)
        planned, outcomes = await self._stored(row, progress)
        await self._state.note_outcomes(row.number, outcomes, self._clock.now())
        self.forget(row.number)
        metrics().learn_seconds.observe(perf_counter() - began)
        _report(row, planned)

    def forget(self, number: int) -> None:
        """Drop what was read for a row that is done or given up."""
        self._progress.pop(number, None)

    async def _extracted(self, row: JournalRow, body: LearnBody) -> _Progress:
        """All windows' candidates."""
        progress = self._progress.get(row.number)
        if progress is None:
            progress = self._progress[row.number] = _Progress(await self._windows(row.entry.scope, body))
        for window in progress.windows[len(progress.read) :]:
            known = await self._related(row.entry.scope, window)
            credential = self._credential(row, body)
            read = await self._extractor.extract(credential, msgspec.structs.replace(window, known=known))
            progress.read.append(read)
        return progress

    def _credential(self, row: JournalRow, body: LearnBody) -> Credential:
        credential = self._access.credential(row.entry.scope.tenant, self._settings.models.extract, body.model)
        if credential is None:
            raise ModelRefused("no key is known for extraction; the tenant's next request brings one, or configure one")
        return credential

    async def _windows(self, scope: Scope, body: LearnBody) -> list[Window]:
        """The new turns in windows of at most ``learn.window_turns``, each after some turns that lead up to it."""
        most = self._settings.learn.window_turns
        unlearned = body.unlearned + _SLACK
        turns = await self._last_turns(scope, unlearned + most, body.until)
        first = max(0, len(turns) - unlearned)
        count = len(turns) - first
        size = count if count <= most else math.ceil(count / math.ceil(count / max(1, most * 2 // 3)))
        windows = []
        for start in range(first, len(turns), max(1, size)):
            new = turns[start : start + size]
            lead = turns[max(0, start - (most - len(new))) : start]
            windows.append(Window(turns=[*lead, *new], new_ids=frozenset(turn.id for turn in new)))
        return windows

    async def _last_turns(self, scope: Scope, count: int, until: datetime | None) -> list[Memory]:
        sessions = (scope.session,) if scope.session is not None else ()
        where = MemoryFilter(kinds=(Kind.TURN,), session_ids=sessions)
        found: list[Memory] = []
        cursor = None
        while len(found) < count:
            page = await self._store.page(scope, where, limit=_PAGE, cursor=cursor)
            found += [turn for turn in page.memories if until is None or turn.created_at <= until]
            if (cursor := page.next_cursor) is None:
                break
        return in_order(found)[-count:]

    async def _related(self, scope: Scope, window: Window) -> list[Memory]:
        """What is known about the things that the window's new messages speak of, the nearest first."""
        said = [turn.content for turn in window.turns if turn.id in window.new_ids]
        text = "\n".join(said)[-_QUERY:]
        vector = (await self._vectors.statement_vectors([text]))[0]
        where = MemoryFilter(kinds=_FACTS, active=True, now=self._clock.now())
        query = HybridQuery(dense=vector, bm25=self._lexical.encode_query(text), limit=_KNOWN, where=where)
        found = await self._store.search(scope, query)
        return [candidate.memory for candidate in sorted(found, key=_nearness, reverse=True)[:_KNOWN]]

    async def _stored(self, row: JournalRow, progress: _Progress) -> tuple[Planned | None, list[Outcome]]:
        """Plan and apply what was extracted; also what became of each candidate and turn."""
        found = [grounded for read in progress.read for grounded in read.kept]
        rejected = [
            outcome
            for window, read in zip(progress.windows, progress.read, strict=True)
            for outcome in kept_out(window, read)
        ]
        if not found:
            return None, with_silent(rejected, progress.windows)
        scope = row.entry.scope
        async with self._locks.of(scope.owner):
            for _ in range(_PLANNING_TRIES):
                now, extractor = self._clock.now(), self._extractor.prompt.version
                still = await self._not_forgotten(scope, found)
                planned = await self._reconciler.learned(scope, still, now=now, extractor=extractor)
                outcomes = with_silent([*planned.plan.outcomes, *rejected], progress.windows)
                plan = msgspec.structs.replace(planned.plan, outcomes=outcomes)
                changes = planned.known.slot_changes()
                if await self._state.save_plan(row.number, msgspec.json.encode(plan), changes):
                    await self._applier.apply(scope, plan, now=now)
                    return planned, outcomes
        raise StateUnavailable("the slots changed under every plan; it is tried again")

    async def _not_forgotten(self, scope: Scope, found: Sequence[Grounded]) -> list[Grounded]:
        """Without those whose turn was deleted while the model was asked."""
        there = await self._store.get(scope, list({grounded.turn.id for grounded in found}))
        return [grounded for grounded in found if grounded.turn.id in there]


def _nearness(candidate: Candidate) -> tuple[float, float]:
    return (candidate.bm25 or 0.0, candidate.cosine or 0.0)


def _report(row: JournalRow, planned: Planned | None) -> None:
    operations = planned.operations if planned is not None else {}
    for operation in Operation:
        metrics().memories_written.labels(operation=operation.value).inc(operations.get(operation.value, 0))
    counts = ", ".join(f"{count} {name}" for name, count in operations.items()) or "nothing to learn"
    stored = len(planned.plan.upserts) if planned is not None else 0
    log.info("Stored %d memories (row %d: %s)", stored, row.number, counts)
