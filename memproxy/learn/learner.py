"""The learn lane: a session's new turns become facts (extract, reconcile, save the plan, apply)."""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from time import perf_counter
from typing import Any

import msgspec

from memproxy.core.facts import REFINED, Operation
from memproxy.core.memory import Kind, Memory, Source, Trust
from memproxy.core.palace import USER, subject_name
from memproxy.core.protocol import DRIFT, SILENT, LearnBody, PlanBody
from memproxy.core.receipt import Outcome
from memproxy.core.scope import OwnerKey, Scope
from memproxy.errors import ModelAwaited, NotFound, StateUnavailable
from memproxy.learn.apply import Applier, without_what_went
from memproxy.learn.budget import Spent, tallied
from memproxy.learn.candidates import Grounded, Intent, Read, Window, memory_of
from memproxy.learn.compress import Compressor
from memproxy.learn.extract import MINE, Reader, is_visible, turns_of, unlearned
from memproxy.learn.forget_everything import split_at_order, without_covered
from memproxy.learn.grounding import hold_nothing
from memproxy.learn.index import decoded
from memproxy.learn.judge import Advice
from memproxy.learn.outcomes import of_reading
from memproxy.learn.outdated import end_outdated
from memproxy.learn.parts import Parts
from memproxy.learn.pending import changed_by
from memproxy.learn.placement import is_elsewhere, new_places
from memproxy.learn.plan import Planned, Planner, hide_questions, mere_questions, silent_turns
from memproxy.learn.summary import Summariser, Summary, still_so
from memproxy.metrics import metrics
from memproxy.ports import JournalRow, MemoryFilter
from memproxy.traces import Attributes, spans_in, step, work

log = logging.getLogger(__name__)

END = "end"  # reason of a row of a session that is over: what is new is learned, and the whole is summarised
_OVER = frozenset({MINE, END, SILENT})  # reasons of rows that have work to do where nothing is new
_LEAST_MESSAGES = 2  # least messages of the user in a session that is summarised because it fell silent
_PLANNING_TRIES = 5
_PLANNED_AT_ONCE = 4  # plans made at once: many sessions may wait for one flush, and would all go on together behind it
_SETTLING_TRIES = 3  # how many flushes of others a plan waits for, its owner writing all the time, before its own
_MOST_UNPLANNED = 8  # sessions that may be read and wait to be planned while a model is asked about others
_LATEST = 30  # newest turns of a session that tell what it is about
_MOST_HOUSED = 500  # newest turns of a session that move when it gets a wing of its own

_FACTS = (Kind.SEMANTIC, Kind.PROCEDURAL, Kind.REFLECTIVE)

_MOST_LEARNED = 500  # facts, of the turns of a few windows, that are looked at for what was learned before


class _Progress(msgspec.Struct):
    """How far a row's extraction is: a retry after a failure asks for what is left. ``shown`` are the windows as they
    are read; ``all_read`` is called when no model is asked any more (`Learner.learn`).
    """

    row: JournalRow
    windows: list[Window]
    shown: list[Window]
    read: list[Read] = []
    summary: Summary | None = None
    summarised: bool = False
    spent: Spent = {}
    all_read: Callable[[], None] = lambda: None

    @property
    def new_turns(self) -> list[Memory]:
        """The turns that are read as new, each once."""
        new = [turn for window in self.windows for turn in window.turns if turn.id in window.new_ids]
        return list({(turn.session_id, turn.id): turn for turn in new}.values())


class Learner:
    """Handles rows of kind ``learn``."""

    def __init__(self, parts: Parts, planner: Planner, applier: Applier, wake_index: Callable[[], None]) -> None:
        self._parts = parts
        self._most_turns = parts.settings.learn.window_turns
        self._reader = Reader(parts)
        self._summariser = Summariser(parts)
        self._compressor = Compressor(parts, wake_index)
        self._planner = planner
        self._applier = applier
        self._unplanned = 0
        self._planning = asyncio.Semaphore(_PLANNED_AT_ONCE)
        self._progress: dict[int, _Progress] = {}

    async def learn_all(self, rows: Sequence[JournalRow], *, all_read: Callable[[], None]) -> None:
        """As `learn`, from rows of one owner, in their order; small ones are read in one call."""
        if len(rows) > 1:
            await self._read_together(rows)
        for row in rows[:-1]:
            await self.learn(row, all_read=lambda: None)
        await self.learn(rows[-1], all_read=all_read)

    async def _read_together(self, rows: Sequence[JournalRow]) -> None:
        """Read small windows of one place in one call. An order to forget everything is read alone."""
        first = decoded(rows[0].entry.body, LearnBody)
        joined: list[_Progress] = []
        turns: list[Memory] = []
        for row in rows:
            body = decoded(row.entry.body, LearnBody)
            progress = await self._progress_of(row, body)
            if progress.read or len(progress.windows) != 1 or body.model != first.model:
                continue
            window = progress.windows[0]
            fits = len(turns) + len(window.turns) <= self._most_turns
            plain = split_at_order(window)[1] is None and not hold_nothing(window.turns, window.new_ids)
            if fits and plain and (not turns or turns[-1].place == window.newest.place):
                joined.append(progress)
                turns += window.turns
        if len(joined) <= 1 or len({turn.id for turn in turns}) < len(turns):
            return  # one is read as ever; ids that two clients' sessions share would be taken for each other
        self._reader.require_model(rows[0].entry.scope, first)
        await self._step(rows[0].entry.scope)
        window = Window(turns=turns, new_ids=frozenset().union(*(progress.windows[0].new_ids for progress in joined)))
        spent = joined[0].spent
        links = spans_in(turn.metadata for turn in turns)
        with tallied(spent), work(self._parts.traces, "memory.read", links, {"memproxy.rows": len(joined)}):
            read = await self._reader.read(rows[0].entry.scope.at(*window.newest.place), first, window)
        for progress in joined:
            self._check_is_there(progress)
            own_ids = {turn.id for turn in progress.windows[0].turns}
            own_candidates = [grounded for grounded in read.grounded if grounded.turn.id in own_ids]
            progress.read.append(Read(own_candidates, read.rejected if progress.spent is spent else []))

    async def learn(self, row: JournalRow, *, all_read: Callable[[], None]) -> None:
        """Learn from the row's turns; a plan that was saved before is applied, but for what was taken back since.
        Durable after the next flush. ``all_read`` is called when no model is asked any more: planning may wait. Raises
        `RequestError` for a row that cannot be read, `BudgetSpent`, and the model's errors: `ModelRefused` without an
        accepted key, `ModelAwaited` while it does not answer, `ModelError`.
        """
        if row.plan is not None:
            all_read()
            await self._apply_saved(row, decoded(row.plan, PlanBody))
            return
        scope, body = row.entry.scope, decoded(row.entry.body, LearnBody)
        if body.compress is not None:
            if await self._may_read(scope):
                self._reader.require_model(scope, body)
                with work(self._parts.traces, "memory.compress", (), {}):
                    await self._compressor.compress(scope, body.compress, self._reader.known_credential(scope, body))
            all_read()
        elif body.refine is not None:
            await self._refine(row, body, body.refine, all_read)
            self.forget(row.number)
        elif body.unlearned or body.reason in _OVER:
            await self._learn(row, body, all_read)

    async def _learn(self, row: JournalRow, body: LearnBody, all_read: Callable[[], None]) -> None:
        began, scope = perf_counter(), row.entry.scope
        earlier_progress = self._progress.get(row.number)
        is_read = earlier_progress is not None and len(earlier_progress.read) == len(earlier_progress.windows)
        if earlier_progress is None or not is_read or (self._sums_up(body) and not earlier_progress.summarised):
            self._reader.require_model(scope, body)
        await self._step(scope)
        progress = await self._progress_of(row, body)
        progress.all_read = all_read
        about: Attributes = {"memproxy.reason": body.reason, "memproxy.row": row.number}
        links = spans_in(turn.metadata for turn in progress.new_turns)
        with tallied(progress.spent), work(self._parts.traces, "memory.learn", links, about) as span:
            try:
                await self._extract(body, progress)
            except ModelAwaited:
                if not progress.read:
                    self.forget(row.number)  # many may wait for long: their turns are not kept in memory
                raise
            planned, outcomes = await self._plan_candidates(progress)
            if span is not None and planned is not None:
                span.note({f"memproxy.{operation}": count for operation, count in planned.operations.items()})
        subjects = [memory.subject for memory in planned.plan.upserts if memory.subject] if planned is not None else []
        # what is about somebody else may have made a wing of its own
        if body.reason in {MINE, END} or any(subject_name(subject) != USER for subject in subjects):
            await self._move_turns(scope)
        await self._parts.state.note_outcomes(row.number, outcomes, self._parts.clock.now())
        self.forget(row.number)
        metrics().learn_seconds.observe(perf_counter() - began)
        _report(row, planned)

    async def _may_read(self, scope: Scope) -> bool:
        """Whether a model reads, and may read what this user says."""
        return self._reader.asks_model and (await self._parts.state.choices(scope)).learns

    async def _refine(self, row: JournalRow, body: LearnBody, name: str, all_read: Callable[[], None]) -> None:
        """Put several statements in the place of a memory saved as it was told, or label it; if a model may read it."""
        scope = row.entry.scope
        saved = (await self._parts.store.get(scope, [name])).get(name)
        if not await self._may_read(scope) or saved is None or not saved.active or REFINED in saved.metadata:
            all_read()
            return
        self._reader.require_model(scope, body)
        as_turn = msgspec.structs.replace(saved, kind=Kind.TURN, source=Source.TOOL, metadata={}, turn_ids=[name])
        window = Window(turns=[as_turn], new_ids=frozenset({name}))
        progress = _Progress(row, [window], [window], all_read=all_read)
        with tallied(progress.spent):
            progress.read.append(await self._reader.read(scope.at(*as_turn.place), body, window))
        statements = [grounded for grounded in progress.read[0].grounded if grounded.candidate.intent is Intent.STATE]

        async def plan_at(now: datetime) -> Planned | None:
            current = (await self._parts.store.get(scope, [name])).get(name)
            if current is None or not current.active or current.content != saved.content:
                return None  # it was forgotten or edited meanwhile
            return await self._plan_refinement(scope, current, statements, now)

        planned, outcomes = await self._plan_and_apply(progress, plan_at)
        if planned is not None:
            await self._parts.state.note_outcomes(row.number, outcomes, self._parts.clock.now())
            _report(row, planned)

    async def _plan_refinement(
        self, scope: Scope, saved: Memory, statements: Sequence[Grounded], now: datetime
    ) -> Planned:
        """The plan for a saved memory: what it holds in its place, if all of that may stand there; else its labels."""
        plan = partial(self._planner.plan, scope, now=now, extractor=self._reader.version)
        if len(statements) > 1 and saved.slot is None:
            planned = await plan(statements, aside=saved)
            stored_as = (Operation.ADD, Operation.COEXIST, Operation.UPDATE, Operation.DUPLICATE)
            if sum(planned.operations.get(operation.value, 0) for operation in stored_as) == len(statements):
                return planned
        planned = await plan([])
        labelled = [memory_of(statement, scope, now=now, extractor=self._reader.version) for statement in statements]
        fields: dict[str, Any] = {
            "tags": list(dict.fromkeys(itertools.chain(saved.tags, *(memory.tags for memory in labelled)))),
            "entities": list(dict.fromkeys(itertools.chain(saved.entities, *(memory.entities for memory in labelled)))),
            "relations": [*saved.relations, *itertools.chain(*(memory.relations for memory in labelled))],
            "category": saved.category or next((memory.category for memory in labelled if memory.category), None),
            "metadata": saved.metadata | {REFINED: False},
            "updated_at": now,
        }
        await planned.view.change(saved.id, fields)
        return planned

    async def _apply_saved(self, row: JournalRow, plan: PlanBody) -> None:
        """Apply a plan that lay saved for a while, but for what was taken back since."""
        scope = row.entry.scope
        await self._step(scope)
        async with self._parts.locks.of(scope.owner):
            now = self._parts.clock.now()
            plan = await without_what_went(self._parts, scope, plan, now)
            with self._parts.flushes.of("learn", scope.owner):
                await self._applier.apply(scope, plan, now=now)
        await self._parts.state.note_outcomes(row.number, plan.outcomes, self._parts.clock.now())
        if plan.upserts:
            log.info("stored %d memories (row %d: its plan was applied again)", len(plan.upserts), row.number)

    def forget(self, number: int) -> None:
        """Drop what was read for a row that is done, given up or erased: no model is asked about it any more."""
        self._progress.pop(number, None)

    def _sums_up(self, body: LearnBody) -> bool:
        """Whether the session is summarised: it is over, or a model reads and its topic has changed."""
        return body.reason in {END, SILENT} or (body.reason == DRIFT and self._reader.asks_model)

    async def _progress_of(self, row: JournalRow, body: LearnBody) -> _Progress:
        progress = self._progress.get(row.number)
        if progress is None:
            windows = await unlearned(self._parts.store, row.entry.scope, body, self._most_turns)
            # an order to forget everything covers what was said in its project and agent
            places = itertools.groupby(windows, key=lambda window: window.newest.place)
            shown = [window for _, of_place in places for window in without_covered(list(of_place))]
            progress = self._progress[row.number] = _Progress(row, windows, shown)
        return progress

    async def _extract(self, body: LearnBody, progress: _Progress) -> None:
        """All windows' candidates, and the summary of a session that is over."""
        scope = progress.row.entry.scope
        for window in progress.shown[len(progress.read) :]:
            self._check_is_there(progress)
            await self._step(scope)
            window_scope = scope.at(*progress.windows[len(progress.read)].newest.place)
            progress.read.append(await self._reader.read(window_scope, body, window) if window.turns else Read([], []))
        if self._sums_up(body) and not progress.summarised:
            self._check_is_there(progress)
            all_turns = await turns_of(self._parts.store, scope, until=body.until)
            turns = [turn for turn in all_turns if is_visible(scope.project, scope.agent, turn)]
            if body.reason == END or sum(turn.trust is Trust.USER for turn in turns) >= _LEAST_MESSAGES:
                credential_of = self._reader.credential if body.reason == END else self._reader.known_credential
                progress.summary = await self._summariser.summary(scope, turns, credential_of(scope, body))
            progress.summarised = True

    def _check_is_there(self, progress: _Progress) -> None:
        number = progress.row.number
        if self._progress.get(number) is not progress:
            raise NotFound(f"Journal row {number} is gone: its owner was erased. Nothing is left to do for it.")

    async def _plan_candidates(self, progress: _Progress) -> tuple[Planned | None, list[Outcome]]:
        """Plan and apply what was extracted; also what became of each candidate and turn."""
        scope = progress.row.entry.scope
        candidates = [grounded for reading in progress.read for grounded in reading.grounded]
        questions = await self._mere_questions(scope, progress)
        if not candidates and not questions and progress.summary is None and not changed_by(progress.new_turns):
            return None, of_reading([], progress.windows, progress.read, progress.spent)
        # Before the lock: a model may be asked, and nobody of the owner's should wait for it.
        with step("memory.judge"):
            advice = await self._planner.advice(scope, candidates, now=self._parts.clock.now())

        async def plan_at(now: datetime) -> Planned:
            with step("memory.plan", {"memproxy.candidates": len(candidates)}):
                planned = await self._plan(scope, candidates, progress, advice, now)
                hide_questions(planned.view, questions, candidates)
            return planned

        return await self._plan_and_apply(progress, plan_at)

    async def _plan_and_apply(
        self, progress: _Progress, plan_at: Callable[[datetime], Awaitable[Planned | None]]
    ) -> tuple[Planned | None, list[Outcome]]:
        """Plan, save and apply, again when slots changed meanwhile; with every outcome. None: nothing to do."""
        row, scope = progress.row, progress.row.entry.scope
        async with self._turn_to_plan(progress.all_read), self._flushed_lock(scope.owner):
            for _ in range(_PLANNING_TRIES):
                await self._step(scope)
                now = self._parts.clock.now()
                if (planned := await plan_at(now)) is None:
                    return None, []
                outcomes = of_reading(planned.plan.outcomes, progress.windows, progress.read, progress.spent)
                plan = msgspec.structs.replace(planned.view.plan(), outcomes=outcomes)
                await self._step(scope)
                changes = planned.view.slot_changes()
                if await self._parts.state.save_plan(row.number, msgspec.json.encode(plan), changes):
                    await self._step(scope)
                    with self._parts.flushes.of("learn", scope.owner), step("memory.store"):
                        await self._applier.apply(scope, plan, now=now)
                    return planned, outcomes
        raise StateUnavailable("the slots changed under every plan; it is tried again")

    @asynccontextmanager
    async def _turn_to_plan(self, all_read: Callable[[], None]) -> AsyncIterator[None]:
        """One of those that plan. Where many wait, no model is asked: what it reads would only lie in memory."""
        if self._unplanned < _MOST_UNPLANNED:
            all_read()
        self._unplanned += 1
        try:
            await self._planning.acquire()
        finally:
            self._unplanned -= 1
        try:
            all_read()
            yield
        finally:
            self._planning.release()

    @asynccontextmanager
    async def _flushed_lock(self, owner: OwnerKey) -> AsyncIterator[None]:
        """The owner's lock within it, with all flushed that the index lane wrote for the owner."""
        async with AsyncExitStack() as held:
            for _ in range(_SETTLING_TRIES):
                patient = self._parts.scheduler.is_patient(owner)
                # behind others' flush at once: else the owner's next turn is written, and not flushed
                with self._parts.scheduler.hurrying(owner):
                    if patient and not self._parts.flushes.is_settled("index", owner):
                        await self._parts.flushes.flush_with_others()
                    await held.enter_async_context(self._parts.locks.of(owner))
                if not patient or self._parts.flushes.is_settled("index", owner):
                    break
                await held.aclose()
            else:
                await held.enter_async_context(self._parts.locks.of(owner))
            await self._parts.flushes.settle("index", owner)
            yield

    async def _plan(
        self, scope: Scope, candidates: Sequence[Grounded], progress: _Progress, advice: Advice, now: datetime
    ) -> Planned:
        """The plan as things stand now, under the owner's lock, with the summary."""
        stored = await self._parts.store.get(scope.at(None, None), list({grounded.turn.id for grounded in candidates}))
        # others were deleted while the model was asked
        still = [grounded for grounded in candidates if grounded.turn.id in stored]
        plan = partial(self._planner.plan, scope, now=now, extractor=self._reader.version)
        planned = await plan(still, advice=advice, read=progress.new_turns)
        await self._step(scope)
        summary = await still_so(progress.summary, planned.view) if progress.summary is not None else None
        if summary is not None:
            await self._summariser.put(planned.view, scope, summary)
        await end_outdated(planned.view)  # summaries that tell what the plan supersedes
        return planned

    async def _mere_questions(self, scope: Scope, progress: _Progress) -> list[Memory]:
        """The user's new turns that ask: a model found nothing told in them, now or before. None while nothing is known
        of the user at all: such a model may find nothing in anything.
        """
        if not self._reader.asks_model:
            return []
        read = zip(progress.shown, progress.read, strict=True)
        silent = {turn.id: turn for window, reading in read for turn in silent_turns(window, reading)}
        if not silent:
            return []
        telling_ids = {grounded.turn.id for window in progress.read for grounded in window.grounded}
        page = self._parts.store.page
        if not telling_ids and not (await page(scope.whole, MemoryFilter(kinds=_FACTS), limit=1)).memories:
            return []
        learned = await page(scope.whole, MemoryFilter(kinds=_FACTS, turn_ids=tuple(silent)), limit=_MOST_LEARNED)
        telling_ids |= {name for memory in learned.memories for name in memory.turn_ids}
        return mere_questions([turn for name, turn in silent.items() if name not in telling_ids])

    async def _step(self, scope: Scope) -> None:
        await self._parts.scheduler.step(scope.owner)

    async def _move_turns(self, scope: Scope) -> None:
        """Move the session's turns into the wing of what it is about, where that had none when they came."""
        await self._step(scope)
        async with self._parts.locks.of(scope.owner):
            latest = await turns_of(self._parts.store, scope, last=_LATEST)
            if not await is_elsewhere(self._parts.state, scope, latest):
                return
            turns = await turns_of(self._parts.store, scope, last=_MOST_HOUSED)
            if moved := await new_places(self._parts.state, scope, turns):
                with self._parts.flushes.of("learn", scope.owner):
                    await self._parts.store.set_fields(scope, moved)


def _report(row: JournalRow, planned: Planned | None) -> None:
    operations = planned.operations if planned is not None else {}
    for operation in Operation:
        metrics().memories_written.labels(operation=operation.value).inc(operations.get(operation.value, 0))
    counts = ", ".join(f"{count} {name}" for name, count in operations.items()) or "nothing to learn"
    stored = len(planned.plan.upserts) if planned is not None else 0
    if stored:
        log.info("stored %d memories (row %d: %s)", stored, row.number, counts)
    elif operations.get(Operation.RETRACT.value):
        log.info("ended memories that were taken back (row %d: %s)", row.number, counts)
    else:
        log.debug("stored nothing (row %d: %s)", row.number, counts)
