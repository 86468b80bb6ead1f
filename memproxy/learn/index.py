"""The index lane: verbatim turns become searchable, and what the API wrote is carried out. Needs no chat model."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from memproxy.core.memory import Kind, Memory, Source, version_of
from memproxy.core.protocol import IDLE, Deletion, LearnBody, PlanBody, TurnsBody
from memproxy.core.receipt import ReceiptPart
from memproxy.core.scope import Scope
from memproxy.core.turn import in_order, make_turns
from memproxy.errors import PreconditionFailed, RequestError, StateUnavailable, StoreUnavailable
from memproxy.learn import pending
from memproxy.learn.api_plan import outcomes_written
from memproxy.learn.apply import Applier
from memproxy.learn.forget_everything import order_of
from memproxy.learn.memory_vectors import adjacency, turn_key
from memproxy.learn.parts import Parts
from memproxy.learn.placement import place_turns
from memproxy.learn.plan import Planned, Planner
from memproxy.learn.planted import marked
from memproxy.metrics import metrics
from memproxy.ports import JournalKind, JournalRow, MemoryFilter, every
from memproxy.retention.leftovers import erase_empty_places, erase_unsaid_names
from memproxy.traces import spans_in, step, work

_T = TypeVar("_T")
_Parsed = tuple[JournalRow, TurnsBody, list[Memory]]
_MOST_IDS = 200
_PLANNING_TRIES = 5


class Indexer:
    """Handles rows of kind ``turns`` and ``plan``. What it writes is found at once, and durable after a flush."""

    def __init__(self, parts: Parts, planner: Planner, applier: Applier) -> None:
        self._parts = parts
        self._planner = planner
        self._applier = applier
        self._corrected: Callable[[Scope, int], None] | None = None
        self._noted: set[int] = set()

    def on_corrected(self, callback: Callable[[Scope, int], None]) -> None:
        """``callback`` is called with how many messages of a chat corrected something that was said before."""
        self._corrected = callback

    async def turns(self, rows: Sequence[JournalRow]) -> bool:
        """Index the messages of one scope's rows; known ones change nothing. Answers whether to learn at once: that was
        asked for, or the user orders to forget everything. Raises `RequestError` for a row that cannot be read.
        """
        scope = rows[0].entry.scope
        parsed = [(row, body := decoded(row.entry.body, TurnsBody), await _turns(scope, body)) for row in rows]
        links = spans_in(body.metadata for _, body, _ in parsed)
        with work(self._parts.traces if links else None, "memory.index", links, {"memproxy.rows": len(rows)}) as span:
            async with self._parts.locks.of(scope.owner):
                new = await self._new_turns(scope, [turn for _, _, turns in parsed for turn in turns])
                if new:
                    near = await self._near(scope, new)
                    await self._note(rows, await self._from_the_end(scope, new, near))
                    marks = await pending.marks(self._parts, scope, new, self._parts.clock.now())
                    if marks is not None:
                        new, near = marks.turns, [_with_changes(turn, marks.plan) for turn in near]
                        await self._carry_out(scope, marks, parsed)
                    with self._parts.flushes.of("index", scope.owner):
                        await self._write(scope, new, near)
            await self._tell(parsed)
            if span is not None:
                span.note({"memproxy.turns": len(new)})
        self._noted.difference_update(row.number for row in rows)
        metrics().memories_written.labels(operation="turn").inc(len(new))
        return any(body.learn_now for _, body, _ in parsed) or any(order_of(turn) is not None for turn in new)

    async def _carry_out(self, scope: Scope, marks: pending.Marks, parsed: Sequence[_Parsed]) -> None:
        """Write what new messages end, before the messages: a try that is cut off between the two finds it again."""
        if marks.plan == PlanBody():
            return
        await self._parts.flushes.settle("learn", scope.owner)
        if marks.slots and not await self._parts.state.change_slots(scope, marks.slots):
            raise StateUnavailable("a slot changed while a message that ends its holder came; it is tried again")
        with self._parts.flushes.of("index", scope.owner):
            await self._applier.apply(scope, marks.plan, now=self._parts.clock.now())
        for row, _, turns in parsed:
            ids = {turn.id for turn in turns}
            outcomes = [outcome for outcome in marks.outcomes if outcome.turn_id in ids]
            await self._parts.state.note_outcomes(row.number, outcomes, self._parts.clock.now())
        in_chats = {turn.id for _, body, turns in parsed if body.source == Source.CONVERSATION for turn in turns}
        correcting = in_chats & {outcome.turn_id for outcome in marks.outcomes}
        if correcting and self._corrected is not None:
            self._corrected(scope, len(correcting))

    async def _tell(self, parsed: Sequence[_Parsed]) -> None:
        """Put what was decided for the requests into their receipts."""
        parts = []
        for row, body, turns in parsed:
            request = row.entry.request_id
            if body.decision is not None and request is not None:
                decided = msgspec.structs.replace(body.decision, turn_ids=[turn.id for turn in turns])
                now = self._parts.clock.now()
                parts.append(ReceiptPart(request_id=request, scope=row.entry.scope, at=now, decided=decided))
        if parts:
            await self._parts.state.note_receipts(parts)

    async def _new_turns(self, scope: Scope, turns: Sequence[Memory]) -> list[Memory]:
        unique = list({turn.id: turn for turn in reversed(turns)}.values())[::-1]
        known_ids: set[str] = set()
        for start in range(0, len(unique), _MOST_IDS):
            ids = tuple(turn.id for turn in unique[start : start + _MOST_IDS])
            where = MemoryFilter(ids=ids, kinds=(Kind.TURN,), session_ids=scope.sessions)
            page = await self._parts.store.page(scope.whole, where, limit=_MOST_IDS)
            known_ids |= {turn.id for turn in page.memories}
        return [turn for turn in unique if turn.id not in known_ids]

    async def _note(self, rows: Sequence[JournalRow], count: int) -> None:
        """Count turns as unlearned before they are written: a crash then costs a second look, not the learning."""
        numbers = {row.number for row in rows}
        scope = rows[0].entry.scope
        noted = await self._parts.state.progress(scope) if numbers <= self._noted else None
        # a trigger between two tries may have taken the count, and learned without what was not written yet
        if noted is None or noted.unlearned < count:
            await self._parts.state.note_turns(scope, count=count, at=self._parts.clock.now())
            self._noted |= numbers

    async def _from_the_end(self, scope: Scope, new: Sequence[Memory], near: Sequence[Memory]) -> int:
        """How many turns, from the session's end, hold all new ones, which may be older than what is known."""
        first = in_order(new)[0]
        if all(in_order([turn, first])[0] is turn for turn in near):
            return len(new)
        count = len(new)
        where = MemoryFilter(kinds=(Kind.TURN,), session_ids=scope.sessions)
        async for turn in every(self._parts.store, scope.whole, where):
            if turn.created_at < first.created_at:
                break
            count += 1
        return count

    async def _write(self, scope: Scope, new: Sequence[Memory], near: Sequence[Memory]) -> None:
        """Write new turns, and the turns next to them again: these are found by their neighbours' words too."""
        owner = scope.whole
        new = await place_turns(self._parts.state, scope, new)
        around = adjacency([*near, *new])
        fresh = {turn_key(turn) for turn in new}
        beside = {turn_key(turn): {turn_key(other) for other in around[turn_key(turn)] if other} for turn in near}
        touched = [turn for turn in near if not fresh.isdisjoint(beside[turn_key(turn)])]
        with step("memory.embed", {"gen_ai.operation.name": "embeddings"}):
            points = await self._parts.vectors.points(owner, [*new, *touched], around)
        with step("memory.store", {"memproxy.points": len(points)}):
            await self._parts.store.upsert(owner, points)

    async def _near(self, scope: Scope, new: Sequence[Memory]) -> list[Memory]:
        """Two stored turns on each side of every new one (the neighbours, and the neighbours' neighbours)."""
        all_sessions = msgspec.structs.replace(scope, session=None)
        order = in_order(new)
        # where nothing that is stored stands between the new ones, all of them stand between the same turns
        near = await self._parts.store.neighbours(all_sessions, order[:1], reach=2)
        if len(order) > 1 and any(in_order([order[0], turn, order[-1]])[1] is turn for turn in near):
            near = await self._parts.store.neighbours(all_sessions, new, reach=2)
        return near

    async def plan(self, row: JournalRow) -> Planned | None:
        """Carry out what the API asked for; a saved plan as it is. Raises `RequestError` for what can never be done."""
        scope = row.entry.scope
        planned: Planned | None = None
        request = decoded(row.entry.body, PlanBody)
        async with self._parts.locks.of(scope.owner):
            if row.plan is not None:
                plan = decoded(row.plan, PlanBody)
            else:
                await self._parts.flushes.settle("learn", scope.owner)
                planned = await self._save_plan(row, request)
                plan = planned.plan
            ids = [*plan.deletes, *(plan.delete_where.ids if plan.delete_where is not None else ())]
            going = list((await self._parts.store.get(scope.at(None, None), ids)).values()) if ids else []
            try:
                with self._parts.flushes.of("index", scope.owner):
                    await self._applier.apply(scope, plan, now=self._parts.clock.now(), given_vectors=request.vectors)
            except StoreUnavailable:
                # what could be deleted is gone by now, and the next try does not see any more where it stood
                await erase_empty_places(self._parts.store, self._parts.state, scope, going)
                raise
            await self._parts.state.note_outcomes(row.number, outcomes_written(request, plan), self._parts.clock.now())
            await erase_what_is_left(self._parts, row, request, going)
        return planned

    async def _save_plan(self, row: JournalRow, body: PlanBody) -> Planned:
        """The plan, saved under the owner's lock. Raises `PreconditionFailed` for another version than expected."""
        stored = await self._parts.store.get(row.entry.scope, list(body.expects)) if body.expects else {}
        for name, version in body.expects.items():
            memory = stored.get(name)
            if memory is None or version_of(memory) != version:
                raise PreconditionFailed(f"The memory {name!r} was changed meanwhile: read it again.", param="if-match")
        for _ in range(_PLANNING_TRIES):
            try:
                planned = await self._planner.plan_asked(row.entry.scope, body, now=self._parts.clock.now())
            except msgspec.ValidationError as error:
                raise RequestError(f"a memory's field does not take this value: {error}; correct it") from error
            slots = planned.view.slot_changes()
            # Where the plan consists of the row's turns alone, a crash loses nothing: the row makes it again.
            # It need not store it a second time (for an import that is all its text, and SQLite rewrites a row that
            # grows, with its vectors). Facts take slots and leave marks when deleted, which later rows may change.
            only_turns = not body.expects and all(memory.kind is Kind.TURN for memory in body.upserts)
            if only_turns and not slots and planned.plan == PlanBody(upserts=body.upserts):
                return planned
            if await self._parts.state.save_plan(row.number, msgspec.json.encode(planned.plan), slots):
                return planned
        raise StateUnavailable("the slots changed under every plan; it is tried again")


async def erase_what_is_left(parts: Parts, row: JournalRow, request: PlanBody, deleted: Sequence[Memory]) -> None:
    """Erase what the state holds of the user or session, up to this row and with it (the deletion is flushed before),
    and names in which nothing is left: of wings, after a project of closets and aliases, of an undone session in a
    project the receipts; after single memories (``deleted``) those of their wings and closets.
    """
    where, owner = request.delete_where, row.entry.scope.whole
    store, state, flush = parts.store, parts.state, parts.flushes.flush
    if request.undo_session is None and (where is None or where.ids):
        await erase_empty_places(store, state, owner, deleted)
        if deleted:
            await erase_unsaid_names(store, state, owner, deleted, flush)
        return
    await flush()
    await _erase_empty_wings(parts, owner)
    if where != Deletion():
        await erase_unsaid_names(store, state, owner, None, flush)
    if where is not None and where.project_ids:
        await _erase_empty_closets(parts, owner)
        await state.forget_receipts(owner, where.project_ids, where.session_ids)
        for project in where.project_ids if not where.session_ids else ():
            await state.erase_aliases(owner, project)
    if request.undo_session is not None and row.entry.scope.is_narrow:
        await state.forget_receipts(owner, [row.entry.scope.project or ""], [request.undo_session])
    elif request.undo_session is not None:
        await _forget(parts, owner, request.undo_session, row)
    elif where is not None and not where.project_ids and not where.agent_ids:
        for session in [*where.session_ids] or (None,):
            await _forget(parts, owner, session, row)


async def _forget(parts: Parts, owner: Scope, session: str | None, row: JournalRow) -> None:
    rows = await parts.state.forget(owner, session=session, until=row.number)
    if parts.working is not None:
        await parts.working.forget_working(owner, session)
    parts.on_rows_erased([number for number in rows if number != row.number])


async def _erase_empty_wings(parts: Parts, owner: Scope) -> None:
    names = set((await parts.state.palace_names(owner)).values())
    empty = [name for name in names if not await parts.store.count(owner, MemoryFilter(wings=(name,)))]
    if empty:
        await parts.state.erase_wings(owner, empty)


async def _erase_empty_closets(parts: Parts, owner: Scope) -> None:
    """Topics are words that were said. After a crash a project's are not known, so that all memories are looked at."""
    closets = {(row.parent, row.name) for row in await parts.state.palace_rows(owner) if row.kind == "closet"}
    async for memory in every(parts.store, owner, MemoryFilter()):
        closets.discard(("/".join((memory.pointer or "").split("/")[:2]), memory.closet or ""))
        if not closets:
            return
    if closets:
        await parts.state.erase_closets(owner, sorted(closets))


def decoded(body: bytes, kind: type[_T]) -> _T:
    """A journal row's body. Raises `RequestError` when it cannot be read: it never will be."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise RequestError(f"a journal row cannot be read as {kind.__name__}: {error}; it is given up") from error


def _with_changes(turn: Memory, plan: PlanBody) -> Memory:
    return msgspec.structs.replace(turn, **plan.turn_changes.get(turn.session_id or "", {}).get(turn.id, {}))


async def _turns(scope: Scope, body: TurnsBody) -> list[Memory]:
    metadata = body.metadata or None
    source = Source(body.source) if body.source in set(Source) else Source.CONVERSATION
    turns = make_turns(scope, body.messages, now=body.said_at, source=source, metadata=metadata)
    return [await marked(turn) for turn in turns]


def together(rows: Sequence[JournalRow]) -> Iterator[list[JournalRow]]:
    """Rows in order; in groups those of one scope's turns, and of one owner's silent sessions (read in one call)."""

    def joins(row: JournalRow) -> tuple[JournalKind, object, bool]:
        entry = row.entry
        if entry.kind is JournalKind.TURNS:
            return entry.kind, entry.scope, True
        try:
            body = decoded(entry.body, LearnBody) if entry.kind is JournalKind.LEARN and row.plan is None else None
        except RequestError:  # handled alone, it is refused
            body = None
        return entry.kind, entry.scope.owner, body is not None and body.reason == IDLE

    for (*_, joined), group in itertools.groupby(rows, key=joins):
        if joined:
            yield list(group)
        else:
            yield from ([row] for row in group)
