"""Dreams: what is remembered of a user is tidied in the background, a page of entries at a time.

    take up    a record in the state says whose dream waits, or was broken off; one a user at a time
    look       a page of entries, each with what is near it
    decide     by rules (`consolidate`), then by a model where there is one (`dream_model`)
    write      a step is a journal row: planned under the owner's lock (`dream_plan`) and applied like any other
    note       how far the dream is, before the next page

A kill anywhere loses nothing: what the journal has is applied first, then the page is looked at again.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from time import monotonic

import msgspec
from cronsim import CronSim

from memproxy.core.dream import (
    COUNT,
    DONE,
    FAILED,
    RUNNING,
    SESSION_END,
    UNDOABLE,
    UNDONE,
    WAITING,
    Action,
    Change,
    Dream,
    Step,
    mark_of,
    needs_permission,
)
from memproxy.core.memory import FACTS, PLANTED, Kind, Memory, Trust, version_of
from memproxy.core.memory_feedback import feedback_of
from memproxy.core.protocol import PlanBody
from memproxy.core.scope import Scope
from memproxy.core.similar import Neighbour, marks_change
from memproxy.core.slots import slot_name, subject_name
from memproxy.errors import Conflict, MemproxyError, NotFound, RequestError, StateUnavailable, StoreUnavailable
from memproxy.learn.consolidate import Near, consolidated, likest
from memproxy.learn.dream_model import WINDOW, DreamModel, windows
from memproxy.learn.outdated import PREDICATE as SUMMARY
from memproxy.learn.parts import Parts
from memproxy.metrics import metrics
from memproxy.ports import HybridQuery, MemoryFilter, every
from memproxy.recall.documents import dense_text
from memproxy.tasks import TaskOwner, happens
from memproxy.traces import work

log = logging.getLogger(__name__)

LEASE = timedelta(minutes=3)  # how long nobody else takes up a dream that tells nothing: longer than any one step

_EVER = timedelta(days=36_500)  # what is open at the start is nobody else's, whatever clock its lease was made by
AT_ONCE = 2  # dreams of different users at once
_POLL_S = 5.0
_PAGE = 100
_NEAR = 12  # entries near one
_MATES = 50  # the same where one says that something changed: they show what of it is a value
_KNOWN = 200  # newest entries among which the preferences are that are known already
_QUERY = 2_000  # characters of an entry by which its neighbours are looked for
_SETTLE_S = 120.0  # how long a dream waits for what the journal holds of its user, and for one of its own steps
_OWNERS = 500
_DREAMS = 50
_TURNS = 120  # messages that preferences are looked for in, and entries that are reflected on
_MOST_LOOKED_AT = 10_000  # newest entries among which those are looked for that people called wrong

_AFTER = {Action.INFER: Action.AVOID, Action.AVOID: Action.REFLECT, Action.REFLECT: "end"}

_ACTIVE_FACTS = MemoryFilter(kinds=FACTS, active=True)


class Dreamer:
    """Dreams for everybody; one instance beside a worker. ``write`` writes a plan through the journal (True: it is
    applied), and ``indexed`` waits until the owner's index lane is empty, each up to a number of seconds.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        write: Callable[[Scope, PlanBody, float], Awaitable[bool]],
        indexed: Callable[[Scope, float], Awaitable[bool]],
    ) -> None:
        self._parts = parts
        self._settings = parts.settings.dream
        self._model = DreamModel(parts)
        self._bands = parts.bands
        self._write = write
        self._indexed = indexed
        self._alone = parts.settings.state.backend == "sqlite"
        """No other engine uses this state, so this one goes on with dreams that are open at the start."""
        self._tasks = TaskOwner("dreams")
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._asking: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Resume waiting and interrupted dreams, and begin scheduled ones."""
        self._tasks.start(self._take_up(), "take up")
        if self._settings.schedule is not None:
            self._tasks.start(self._by_schedule(self._settings.schedule), "schedule")

    async def close(self) -> None:
        """Stop; a dream under way is resumed at the next start."""
        await self._tasks.cancel()

    async def begin(self, scope: Scope, trigger: str, *, dream_id: str | None = None) -> Dream:
        """A new dream of this user, which begins at once. Raises `Conflict` where one waits or runs already."""
        owner = scope.whole
        dream = Dream(id=dream_id or f"dream_{uuid.uuid4().hex}", trigger=trigger, created_at=self._parts.clock.now())
        dream.stage = "" if dream.is_whole else Action.REFLECT
        if not await self._parts.state.begin_dream(owner, dream):
            last = next(iter(await self._parts.state.dreams(owner, after=0, limit=1)), None)
            named = f" ({last.id})" if last is not None else ""
            raise Conflict(
                f"A dream of this user waits or runs already{named}: GET /v1/memory/dreams/{{id}} tells how far."
            )
        self._wake.set()
        return dream

    async def ended(self, scope: Scope, dream_id: str, timeout_s: float) -> Dream:
        """Wait up to ``timeout_s`` for the dream to end; the dream as it then is. Raises `NotFound`."""
        until = monotonic() + timeout_s
        while True:
            dream = await self.read(scope, dream_id)
            if not dream.is_open or (remaining_s := until - monotonic()) <= 0:
                return dream
            running = self._running.get(scope.owner)
            if running is not None:
                await asyncio.wait({running}, timeout=remaining_s)
            else:
                await asyncio.sleep(min(0.05, remaining_s))

    async def read(self, scope: Scope, dream_id: str) -> Dream:
        """One of the user's dreams. Raises `NotFound`."""
        dream = await self._parts.state.dream(scope.whole, dream_id)
        if dream is None:
            raise NotFound(f"No dream has the id {dream_id!r}.", param="id")
        return dream

    async def undo(self, scope: Scope, dream_id: str) -> Dream:
        """Take a dream back: everything it changed is as it was before, but for what somebody changed since.

        Raises:
            NotFound: there is no such dream.
            Conflict: it runs, is taken back already, is too long ago, or a later one changed the same memories.
            StoreUnavailable: it waits in the journal, because the store does not answer.
        """
        dream = await self.read(scope, dream_id)
        now = self._parts.clock.now()
        if dream.is_open:
            raise Conflict("This dream is not over yet: wait until it is.", param="id")
        if dream.state == UNDONE:
            raise Conflict("This dream is taken back already.", param="id")
        if dream.created_at + UNDOABLE <= now:
            raise Conflict(f"A dream can be taken back for {UNDOABLE.days} days; this one is older.", param="id")
        if not await self._write(scope.whole, PlanBody(dream=Step(dream=dream.id, undo=True)), _SETTLE_S):
            raise StoreUnavailable("The store does not answer: the dream is taken back as soon as it does. Look again.")
        dream.state, dream.undone_at = UNDONE, now
        await self._parts.state.put_dream(scope.whole, dream)
        return dream

    async def dry_run(self, scope: Scope) -> tuple[Dream, list[Step]]:
        """What a dream would do now; nothing is written."""
        dream = Dream(id="", trigger="call", state="dry_run", created_at=self._parts.clock.now())
        steps = [step async for step in self._steps(scope.whole, dream)]
        dream.changes = [change for step in steps for change in step.changes]
        dream.count()
        dream.ended_at = self._parts.clock.now()
        return dream, steps

    async def _take_up(self) -> None:
        first = True
        while True:
            self._wake.clear()
            now = self._parts.clock.now()
            since = now + _EVER if first and self._alone else now
            try:
                for owner in await self._parts.state.take_up_dreams(since, now + LEASE):
                    if owner.owner not in self._running:
                        self._running[owner.owner] = self._tasks.start(self._run(owner), "dream")
                first = False
            except StateUnavailable as error:
                log.warning("dreams wait: %s", error.message)
            await happens(self._wake, _POLL_S)  # what another process left may be due

    async def _run(self, owner: Scope) -> None:
        """The user's open dream, from where it is to its end."""
        try:
            async with self._slots:
                newest = await self._parts.state.dreams(owner, after=0, limit=5)
                dream = next((candidate for candidate in newest if candidate.is_open), None)
                if dream is not None:
                    with work(self._parts.traces, "memory.dream", (), {}):
                        await self._dream(owner, dream)
        except (StateUnavailable, StoreUnavailable) as error:
            log.warning("a dream waits, and goes on when its store answers: %s", error.message)
            metrics().internal_errors.labels(where="learn.dream").inc()
        finally:
            del self._running[owner.owner]

    async def _dream(self, owner: Scope, dream: Dream) -> None:
        began, earlier_seconds = monotonic(), dream.seconds
        try:
            if not await self._indexed(owner, _SETTLE_S):
                raise StoreUnavailable("what its user told waits for the store")
            async for step in self._steps(owner, dream):
                dream.seconds = earlier_seconds + monotonic() - began
                noted = {_key(change) for change in dream.changes}
                new = [change for change in step.changes if _key(change) not in noted]
                dream.changes += [msgspec.structs.replace(change, labels={}) for change in new]  # without text
                dream.count()
                if not await self._note(owner, dream):
                    return
                if step.changes and not await self._write(owner, PlanBody(dream=step), _SETTLE_S):
                    raise StoreUnavailable("a step waits in the journal for the store")
            await self._settle(owner, dream)
            dream.state = DONE
        except (StateUnavailable, StoreUnavailable):
            raise
        except MemproxyError as error:
            dream.state, dream.error = FAILED, error.message
            log.error("a dream ended early: %s", error.message)
        except Exception as error:
            # whatever it is, its user must be able to dream again, and to read why this one ended
            metrics().internal_errors.labels(where="learn.dream").inc()
            log.error("a dream failed unexpectedly", exc_info=error)
            dream.state, dream.error = FAILED, f"It failed unexpectedly ({type(error).__name__}); the log says where."
        dream.ended_at = self._parts.clock.now()
        dream.seconds = round(earlier_seconds + monotonic() - began, 3)
        await self._note(owner, dream)
        metrics().dreams.labels(result=dream.state).inc()
        for action, count in dream.counts.items():
            metrics().dream_changes.labels(action=action).inc(count)

    async def _note(self, owner: Scope, dream: Dream) -> bool:
        """Save the dream's progress; False when its user was erased."""
        return await self._parts.state.put_dream(owner, dream, due=self._parts.clock.now() + LEASE)

    async def _settle(self, owner: Scope, dream: Dream) -> None:
        """Keep in the record what was really done: a memory may have changed between the look and the step."""
        done: list[Change] = []
        for start in range(0, len(dream.changes), _PAGE):
            page = dream.changes[start : start + _PAGE]
            ids = sorted(_ids_of(page))
            stored = await self._parts.store.get(owner, ids)
            touched = {name for name, memory in stored.items() if mark_of(memory, dream.id) is not None}
            done += [change for change in page if not touched.isdisjoint({change.memory_id, *change.sources})]
        dream.changes = done
        dream.count()

    async def _steps(self, owner: Scope, dream: Dream) -> AsyncIterator[Step]:
        """What is to be done, page by page; the dream's record says how far it is, before each is carried out."""
        if dream.started_at is None:
            dream.started_at = self._parts.clock.now()
            dream.entries = await self._parts.store.count(owner, _ACTIVE_FACTS)
            last = await self._last(owner, whole=True)
            dream.cursor = last.cursor if last is not None and not last.complete else None  # where it stopped
        dream.state = dream.state if dream.state != WAITING else RUNNING
        handled: set[str] = set()
        began = monotonic() - dream.seconds
        while dream.stage == "":
            remaining = self._settings.max_entries - dream.looked_at
            if remaining <= 0 or monotonic() - began > self._settings.max_seconds:
                bound = "dream.max_entries" if remaining <= 0 else "dream.max_seconds"
                dream.note(f"{bound} is reached: the next dream goes on with the entries that are left.")
                dream.complete, dream.stage = False, Action.INFER
                break
            try:
                size = min(_PAGE, remaining)
                page = await self._parts.store.page(owner, _ACTIVE_FACTS, limit=size, cursor=dream.cursor)
            except RequestError:  # a cursor of another form, of an earlier version
                dream.cursor = None
                continue
            entries = [memory for memory in page.memories if memory.id not in handled]
            near = await self._near(owner, entries, handled)
            yield await self._looked_at(dream, entries, near, handled)
            async for step in self._thought_about(owner, dream, entries, near, handled):
                yield step
            dream.looked_at += len(page.memories)
            dream.cursor = page.next_cursor
            if page.next_cursor is None:
                dream.stage = Action.INFER
        stages = {Action.INFER: self._infer_preferences, Action.AVOID: self._avoidances, Action.REFLECT: self._reflect}
        for stage, thinking in stages.items():
            if dream.stage == stage:
                for step in await thinking(owner, dream) if self._thinks(owner) else ():
                    yield step
                dream.stage = _AFTER[stage]

    def _thinks(self, owner: Scope) -> bool:
        return self._model.credential(owner.tenant) is not None

    async def _thought_about(
        self, owner: Scope, dream: Dream, entries: Sequence[Memory], near: Near, handled: set[str]
    ) -> AsyncIterator[Step]:
        """What a model makes of what the rules left of a page, and of what is nearest to each, window by window."""
        if not self._thinks(owner):
            return
        alike = [[entry, *likest(entry, near.get(entry.id, ()), self._bands)] for entry in entries]
        ids = list(dict.fromkeys(entry.id for group in alike for entry in group))
        stored = await self._parts.store.get(owner, ids)
        remaining = [stored[name] for name in ids if name in stored and name not in handled]
        shown = [entry for entry in remaining if entry.active and not entry.quarantined and entry.predicate != SUMMARY]
        for window in windows(shown):
            step = await self._model.tidy(owner, dream, window)
            handled |= _ids_of(step.changes)
            yield step

    async def _infer_preferences(self, owner: Scope, dream: Dream) -> list[Step]:
        """Preferences from what the user said last, place by place."""
        where = MemoryFilter(kinds=(Kind.TURN,), active=True, quarantined=False)
        turns = (await self._parts.store.page(owner, where, limit=_TURNS)).memories
        user_turns = [turn for turn in turns if turn.trust is Trust.USER and not turn.superseded_by]
        user_turns = [turn for turn in user_turns if PLANTED not in turn.metadata]
        memories = (await self._parts.store.page(owner, _ACTIVE_FACTS, limit=_KNOWN)).memories
        texts = [memory.content for memory in memories if (memory.category or "").startswith("user-preferences")]
        steps = []
        for place in dict.fromkeys(turn.place for turn in user_turns):
            messages = [turn for turn in user_turns if turn.place == place][::-1]
            steps.append(await self._model.infer_preferences(owner, dream, messages, texts))
        return steps

    async def _avoidances(self, owner: Scope, dream: Dream) -> list[Step]:
        """Lessons of what to avoid, from memories that were judged wrong since the last dream."""
        last = await self._last(owner, whole=True)
        since = last.started_at if last is not None else None
        wrong: list[Memory] = []
        looked_at = 0
        async for memory in every(self._parts.store, owner, MemoryFilter(kinds=FACTS)):
            looked_at += 1
            opinion = feedback_of(memory)
            is_new = since is None or (opinion.at is not None and opinion.at > since)
            wrong += [memory] if is_new and opinion.wrong + opinion.correction > opinion.helpful else []
            if len(wrong) == WINDOW or looked_at == _MOST_LOOKED_AT:
                break
        if not wrong:
            return []
        right = await self._parts.store.get(owner, [memory.superseded_by for memory in wrong if memory.superseded_by])
        pairs = [(memory, right.get(memory.superseded_by or "")) for memory in wrong]
        return [await self._model.infer_lessons(owner, dream, pairs)]

    async def _reflect(self, owner: Scope, dream: Dream) -> list[Step]:
        return [await self._model.reflect(owner, dream, window) for window in await self._with_news(owner)]

    async def _with_news(self, owner: Scope) -> list[list[Memory]]:
        """What is reflected on together, as far as enough of it was learned since the last time."""
        last, least = await self._last(owner, whole=False), self._settings.reflect_from
        since = last.started_at if last is not None else None
        all_windows = await self._to_reflect_on(owner, None)
        return [window for window in all_windows if sum(since is None or m.created_at > since for m in window) >= least]

    def learned(self, scope: Scope, *, over: bool) -> None:
        """Something was learned in a session (``over``?): reflect, where `dream.reflect` says so and enough is new."""
        is_due = self._settings.reflect == "count" or (over and self._settings.reflect == "session_end")
        if is_due and self._parts.by_model and scope.owner not in self._asking:
            self._asking.add(scope.owner)
            self._tasks.start(self._reflect_if_news(scope.whole, SESSION_END if over else COUNT), "reflect")

    async def _reflect_if_news(self, owner: Scope, trigger: str) -> None:
        try:
            learns = (await self._parts.state.choices(owner)).learns
            if learns and self._thinks(owner) and await self._with_news(owner):
                await self.begin(owner, trigger)
        except Conflict:
            pass  # a dream is under way: it reflects itself, or the next end of a session finds what is new
        except (StateUnavailable, StoreUnavailable) as error:
            log.warning("nothing is reflected on now, the next time it is: %s", error.message)
        finally:
            self._asking.discard(owner.owner)

    async def reflect(self, scope: Scope, about: str | None) -> list[Memory]:
        """Insights over what the scope sees, by a call; the new ones. Raises `Conflict` where no model answers."""
        owner = scope.whole
        if not self._thinks(owner):
            raise Conflict(
                "Reflection needs a chat model: set learn.mode: model, dream.max_model_tokens above 0, and "
                "models.extract.model (with base_url and api_key where they are not the upstream's)."
            )
        dream = Dream(id=f"dream_{uuid.uuid4().hex}", trigger="reflect", created_at=self._parts.clock.now())
        new_ids: list[str] = []
        for window in await self._to_reflect_on(scope, about):
            step = await self._model.reflect(owner, dream, window, about)
            if step.changes and not await self._write(owner, PlanBody(dream=step), _SETTLE_S):
                raise StoreUnavailable("The store does not answer: the insights are stored as soon as it does.")
            new_ids += [memory.id for memory in step.new]
        if "model" in dream.stopped:
            raise Conflict(dream.notes[-1])
        stored = await self._parts.store.get(owner, new_ids)
        return [memory for memory in stored.values() if mark_of(memory, dream.id) is not None]

    async def _to_reflect_on(self, scope: Scope, about: str | None) -> list[list[Memory]]:
        """The entries nearest to a topic, or the newest, of each place."""
        where = MemoryFilter(kinds=(Kind.SEMANTIC, Kind.PROCEDURAL, Kind.EPISODIC), active=True, quarantined=False)
        if about is None:
            entries = (await self._parts.store.page(scope, where, limit=_TURNS)).memories
        else:
            (vector,) = await self._parts.vectors.statement_vectors([about], scope.tenant)
            words = self._parts.lexical.encode_query(about)
            query = HybridQuery(dense=vector, bm25=words, limit=WINDOW, where=where, background=True)
            entries = [candidate.memory for candidate in await self._parts.store.search(scope, query)]
        entries.sort(key=lambda entry: (subject_name(entry.subject or "user"), entry.category or "", entry.content))
        return windows([entry for entry in entries if not needs_permission(entry)])

    async def _last(self, owner: Scope, *, whole: bool) -> Dream | None:
        """The last dream that is over; with ``whole`` of those that do more than reflect."""
        after = 0
        while dreams := await self._parts.state.dreams(owner, after=after, limit=_DREAMS):
            for dream in dreams:
                if dream.state == DONE and (dream.is_whole or not whole):
                    return dream
            after += len(dreams)
        return None

    async def _looked_at(self, dream: Dream, entries: Sequence[Memory], near: Near, handled: set[str]) -> Step:
        """What the rules make of a page of entries."""
        now = self._parts.clock.now()
        changes, conflicts = await asyncio.to_thread(consolidated, entries, near, self._bands, now)
        handled |= _ids_of(changes)
        changes += [
            Change(action=Action.CONFLICT, reason=reason, memory_id=first, sources=(other,))
            for first, other, reason in conflicts
            if first not in handled and other not in handled
        ]
        neighbours = (neighbour.memory for group in near.values() for neighbour in group)
        by_id = {memory.id: memory for memory in (*entries, *neighbours)}
        return Step(dream=dream.id, changes=changes, seen={name: version_of(by_id[name]) for name in _ids_of(changes)})

    async def _near(self, owner: Scope, entries: Sequence[Memory], handled: set[str]) -> dict[str, list[Neighbour]]:
        """The entries nearest to each, and those of its slot; without what is set aside already."""
        vectors = await self._parts.vectors.statement_vectors([dense_text(entry) for entry in entries], owner.tenant)
        slots = tuple(dict.fromkeys(slot for entry in entries if (slot := slot_name(entry)) is not None))
        by_slot: dict[str, list[Memory]] = {}
        if slots:
            async for memory in every(self._parts.store, owner, MemoryFilter(slots=slots, active=True)):
                by_slot.setdefault(memory.slot or "", []).append(memory)
        nearest: dict[str, list[Neighbour]] = {}
        for entry, vector in zip(entries, vectors, strict=True):
            await self._parts.scheduler.step(owner.owner)
            words = self._parts.lexical.encode_query(entry.content[:_QUERY])
            limit, where = _MATES if marks_change(entry) else _NEAR, MemoryFilter(kinds=(entry.kind,), active=True)
            query = HybridQuery(dense=vector, bm25=words, limit=limit, where=where, background=True)
            near = {
                candidate.memory.id: Neighbour(candidate.memory, candidate.cosine)
                for candidate in await self._parts.store.search(owner, query)
            }
            for memory in by_slot.get(slot_name(entry) or "", ()):
                near.setdefault(memory.id, Neighbour(memory))
            aside = {entry.id, *handled}
            nearest[entry.id] = [neighbour for name, neighbour in near.items() if name not in aside]
        return nearest

    async def _by_schedule(self, schedule: str) -> None:
        """Begin a dream of everybody for whom something was written since the last one, whenever it is time."""
        for at in CronSim(schedule, self._parts.clock.now()):
            await asyncio.sleep(max(0.0, (at - self._parts.clock.now()).total_seconds()))
            try:
                await self._everybody(at)
            except MemproxyError as error:
                log.warning("a scheduled dream of everybody ended early: %s", error.message)

    async def _everybody(self, at: datetime) -> None:
        after: tuple[str, str] | None = None
        while True:
            owners = await self._parts.state.owners(after=after, limit=_OWNERS)
            for tenant, user in owners:
                owner = Scope(tenant=tenant, user=user)
                if await self._is_worth_it(owner):
                    name = uuid.uuid5(uuid.NAMESPACE_OID, f"{tenant}\n{user}\n{at.isoformat()}").hex
                    try:
                        await self.begin(owner, "schedule", dream_id=f"dream_{name}")
                    except Conflict:
                        log.info("a scheduled dream is left out: another one of its user is under way")
            if len(owners) < _OWNERS:
                return
            after = owners[-1]

    async def _is_worth_it(self, owner: Scope) -> bool:
        if not (await self._parts.state.choices(owner)).learns:
            return False
        dreams = await self._parts.state.dreams(owner, after=0, limit=_DREAMS)
        last = next((dream for dream in dreams if dream.is_whole), None)
        newest = (await self._parts.store.page(owner, _ACTIVE_FACTS, limit=1)).memories
        if last is None or last.started_at is None or not last.complete:
            return bool(newest)
        return bool(newest) and newest[0].created_at > last.started_at


def _ids_of(changes: Iterable[Change]) -> set[str]:
    return {name for change in changes for name in (change.memory_id, *change.sources)}


def _key(change: Change) -> tuple[str, str, tuple[str, ...]]:
    return change.action, change.memory_id, tuple(sorted(change.sources))
