"""`POST /v1/memory/feedback`: helpful, wrong, or said better; about a memory, or about all that a request was given."""

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import QUEUED, Backends, OwnerLocks, Writer, find, shown_to
from memproxy.api.http import answer, caller, named_once, read_body, read_query
from memproxy.api.idempotency import new_id
from memproxy.api.queries import FeedbackQuery
from memproxy.api.receipts import FEEDBACK
from memproxy.api.schemas import FeedbackBody
from memproxy.auth import resolve_scope
from memproxy.core.feedback import feedback_of, judged
from memproxy.core.memory import Kind, Memory, Source
from memproxy.core.protocol import PlanBody
from memproxy.core.receipt import Outcome
from memproxy.core.redact import redact
from memproxy.core.reworded import terms
from memproxy.core.scope import Scope
from memproxy.core.slots import numbers
from memproxy.errors import Conflict, NotFound
from memproxy.learn.outdated import PREDICATE as SUMMARY
from memproxy.ports import MemoryFilter

_FACTS = tuple(kind for kind in Kind if kind is not Kind.TURN)
_MOST_TOLD = 200
"""Facts of one turn that go with it; one tells a handful."""

_MOST_NAMED = 8
"""Ids in a refusal."""


class FeedbackApi:
    """The call."""

    def __init__(self, backends: Backends, writer: Writer, locks: OwnerLocks) -> None:
        self._backends = backends
        self._writer = writer
        self._locks = locks
        self._max_bytes = backends.settings.server.max_body_bytes
        self._redact = frozenset[str](backends.settings.privacy.redact)

    async def give(self, request: Request) -> Response:
        """201 with the memories as they are now; 202 when that waits for the store."""
        identity = caller(request, "memory:write")
        query = read_query(request, FeedbackQuery)
        body = await read_body(request, FeedbackBody, self._max_bytes)
        body.check()
        user = named_once(query.user_id, body.user_id)
        scope = resolve_scope(identity, user=user, project=body.project_id, agent=body.agent_id)
        text = redact(body.text, self._redact) if body.text is not None else None
        async with self._locks.of(scope):
            memories = await self._meant(scope, body)
            if body.signal == "correction":
                plan, told = await self._correct(request, scope, body, memories, text or "")
            else:
                plan, told = await self._judge(scope, body, memories, text)
            return await self._written(partial(shown_to, identity, nulls=query.nulls), scope, body, plan, told)

    async def _meant(self, scope: Scope, body: FeedbackBody) -> list[Memory]:
        """The memories that it is about; of a request those that it was given, that are still there, and that the
        caller's project (agent) sees.

        Raises:
            NotFound: there is no such memory, or no such receipt.
        """
        if body.memory_id is not None:
            return [await find(self._backends, scope, body.memory_id)]
        self._backends.require_state()
        self._backends.require_store()
        await self._backends.receipts_written()
        found = await self._backends.state.receipt(scope, body.request_id or "")
        if found is None or not scope.sees(found.scope.project, found.scope.agent):
            raise NotFound("No receipt has this id. Receipts are kept for seven days.", param="request_id")
        told = found.decided or found.recalled
        ids = [one.memory_id for one in told.memories] if told is not None else []
        place = msgspec.structs.replace(scope, session=None)
        stored = await self._backends.store.get(place, ids) if ids else {}
        return list(stored.values())

    async def _judge(
        self, scope: Scope, body: FeedbackBody, memories: list[Memory], text: str | None
    ) -> tuple[PlanBody, list[str]]:
        """What is to be written, and the ids of whom the answer tells."""
        now = self._backends.clock.now()
        given = {one.id for one in memories}
        told = [one for one in await self._told_by(scope, memories) if one.id not in given]
        memories = [*memories, *(one for one in told if _goes_along(one, body.signal))]
        changed = [(one, judged(one, body.signal, text=text, now=now)) for one in memories]
        facts = {one.id: dict(fields) for one, fields in changed if one.kind is not Kind.TURN}
        turns: dict[str, dict[str, dict[str, Any]]] = {}
        for one, fields in changed:
            if one.kind is Kind.TURN:
                turns.setdefault(one.session_id or "", {})[one.id] = msgspec.to_builtins(fields)
        plan = PlanBody(
            changes=msgspec.to_builtins(facts), turn_changes=turns, outcomes=[_outcome(body, one) for one in memories]
        )
        return plan, [one.id for one in memories]

    async def _told_by(self, scope: Scope, memories: list[Memory]) -> list[Memory]:
        """The active facts that rest on these turns alone, and that the caller's project (agent) sees: what is said of
        a turn is said of them.
        """
        found: dict[str, Memory] = {}
        for turn in memories:
            if turn.kind is Kind.TURN:
                where = MemoryFilter(kinds=_FACTS, turn_ids=(turn.id,), active=True)
                page = await self._backends.store.page(scope, where, limit=_MOST_TOLD)
                found |= {one.id: one for one in page.memories if one.session_id == turn.session_id}
        turns = {one.id for one in memories if one.kind is Kind.TURN}
        return [one for one in found.values() if set(one.turn_ids) <= turns]

    async def _correct(
        self, request: Request, scope: Scope, body: FeedbackBody, memories: list[Memory], text: str
    ) -> tuple[PlanBody, list[str]]:
        """The text takes the memory's place, which stays in the history; as `_judge`."""
        memories = _distinct(memories)
        if len(memories) != 1:
            raise Conflict(
                f"The request was given {_counted(memories)}: say by memory_id which one the text corrects.",
                param="memory_id",
            )
        wrong, now = memories[0], self._backends.clock.now()
        if wrong.superseded_by is not None:
            raise Conflict(
                "This memory was superseded already: correct the one that took its place.", param="memory_id"
            )
        await self._backends.quotas.admit_memories(scope, 1)
        right = _corrected(wrong, text, name=new_id(request, "mem", uuid.uuid4().hex), now=now)
        ended: dict[str, Any] = {**judged(wrong, "correction", text=None, now=now), "superseded_by": right.id}
        over = {"superseded_by": right.id, "active": False, "valid_to": now, "updated_at": now}
        if wrong.kind is Kind.TURN:
            told = _meant_by(text, wrong, await self._told_by(scope, [wrong]))
            right = msgspec.structs.replace(right, supersedes=told[0].id if told else None)
            marks = {wrong.session_id or "": {wrong.id: msgspec.to_builtins(ended)}}
            changes = {one.id: msgspec.to_builtins(over) for one in told}
            plan = PlanBody(upserts=[right], turn_changes=marks, changes=changes)
        else:
            plan = PlanBody(upserts=[right], changes={wrong.id: msgspec.to_builtins(ended | over)})
        plan.outcomes = [_outcome(body, wrong)]
        return plan, [right.id, wrong.id]

    async def _written(
        self, show: Callable[[Memory], dict[str, Any]], scope: Scope, body: FeedbackBody, plan: PlanBody, ids: list[str]
    ) -> Response:
        place = msgspec.structs.replace(scope, session=None)
        applied = await self._writer.plan(place, plan)
        found = await self._backends.store.get(place, ids) if applied and ids else {}
        data = {
            "signal": body.signal,
            "memory_ids": ids,
            "data": [show(found[name]) for name in ids if name in found],
        }
        return answer(data, 201) if applied else answer(data, 202, QUEUED)


def _goes_along(told: Memory, signal: str) -> bool:
    """Whether a fact that rests on a turn changes with it: it is withheld with a wrong one, and given again with it. A
    turn that was helpful says nothing of what else was learned from it.
    """
    return not told.quarantined if signal == "wrong" else feedback_of(told).withheld


def _distinct(memories: list[Memory]) -> list[Memory]:
    """Without turns that are told by a fact among them, and, beside others, without summaries: these end with what they
    tell.
    """
    facts = [one for one in memories if one.kind is not Kind.TURN and one.predicate != SUMMARY]
    told = {(one.session_id, name) for one in facts for name in one.turn_ids}
    turns = [one for one in memories if one.kind is Kind.TURN and (one.session_id, one.id) not in told]
    return [*facts, *turns] or memories


def _meant_by(text: str, turn: Memory, told: list[Memory]) -> list[Memory]:
    """The facts of a turn in whose place a correction of the turn stands: the only one, else those of its topic, else
    the only one whose value is a number as the text's is, or none as there.

    Raises:
        Conflict: the text names nothing that the turn speaks of ("It is Bern."), and several facts may be meant.
    """
    facts = [one for one in told if one.predicate != SUMMARY]
    if len(facts) == 1:
        return facts
    wanted = terms(text)
    if not facts or wanted & terms(turn.content):
        return [one for one in facts if wanted & terms(one.content)]
    alike = [one for one in facts if bool(numbers(one.object or one.content)) == bool(numbers(text))]
    if len(alike) != 1:
        raise Conflict(
            f"The turn tells {_counted(facts)}: say by memory_id which one the text corrects, or name in the text what "
            "it is about.",
            param="memory_id",
        )
    return alike


def _counted(memories: list[Memory]) -> str:
    """How many they are, and the ids by which the call can be made again."""
    if not memories:
        return "no memories"
    named = ", ".join(one.id for one in memories[:_MOST_NAMED])
    return f"{len(memories)} memories ({named}{', …' if len(memories) > _MOST_NAMED else ''})"


def _corrected(wrong: Memory, text: str, *, name: str, now: Any) -> Memory:
    """What the person says instead. Which share of the old statement's words it keeps nobody can tell, so it has no
    subject, predicate and object of its own; the topic and the places stay.
    """
    return Memory(
        id=name,
        tenant=wrong.tenant,
        user_id=wrong.user_id,
        project_id=wrong.project_id,
        agent_id=wrong.agent_id,
        session_id=None if wrong.kind is Kind.TURN else wrong.session_id,
        kind=Kind.SEMANTIC if wrong.kind is Kind.TURN else wrong.kind,
        content=text,
        category=wrong.category,
        tags=list(wrong.tags),
        importance=max(wrong.importance, 0.5),
        source=Source.API,
        created_at=now,
        updated_at=now,
        valid_from=now,
        supersedes=None if wrong.kind is Kind.TURN else wrong.id,
    )


def _outcome(body: FeedbackBody, memory: Memory) -> Outcome:
    requests = [body.request_id] if body.request_id is not None else []
    return Outcome(
        result=FEEDBACK, reason=body.signal, memory_id=memory.id, kind=memory.kind.value, request_ids=requests
    )
