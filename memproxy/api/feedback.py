"""`POST /v1/memory/feedback`: helpful, wrong, or said better; about a memory, or about all that a request was given."""

from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from memproxy.api.calls import Call, Reply, operation
from memproxy.api.context import QUEUED, Backends, find
from memproxy.api.fields import Content, Id, Name
from memproxy.api.models import Body, Shown, ShownChange, UserQuery, one_of
from memproxy.api.receipts import FEEDBACK
from memproxy.core.memory import FACTS, Kind, Memory, Source
from memproxy.core.memory_feedback import CORRECTS, feedback_of, judged_fields
from memproxy.core.protocol import PlanBody
from memproxy.core.receipt import Outcome
from memproxy.core.redact import redact
from memproxy.core.scope import Scope
from memproxy.core.similar import terms
from memproxy.core.slots import numbers
from memproxy.errors import Conflict, NotFound, RequestError
from memproxy.learn.outdated import PREDICATE as SUMMARY
from memproxy.ports import MemoryFilter

MAX_SAID = 10_000
"""Characters of a remark or a correction."""

_MOST_FACTS = 200
"""Facts of one turn that change with it; most turns have a handful."""

_MOST_NAMED = 8
"""Ids listed in an error message."""


class FeedbackQuery(UserQuery, Shown):
    """The query string of `POST /v1/memory/feedback`."""


class FeedbackBody(Body):
    """`POST /v1/memory/feedback`: about a memory, or about all that a request was given. A ``correction`` has the text
    that is right; with the other signals a text is a remark.
    """

    signal: Literal["helpful", "wrong", "correction"]
    memory_id: Annotated[Id | None, Field(description="The id, or the short one that a block cites.")] = None
    request_id: Id | None = None
    text: Annotated[Content, Field(max_length=MAX_SAID)] | None = None
    user_id: Name | None = None
    project_id: Name | None = None
    agent_id: Name | None = None


class Judged(msgspec.Struct):
    """What was judged, as it is now."""

    signal: Annotated[Any, one_of("helpful", "wrong", "correction")]
    memory_ids: list[str]
    data: list[ShownChange]


@operation("POST", "/v1/memory/feedback", "memory:write", query=FeedbackQuery, statuses=(201, 202), errors=(404, 429))
async def give_feedback(api: Backends, call: Call, body: FeedbackBody) -> Reply[Judged]:
    """Say that a memory, or what a request was given, was helpful or wrong, or what is right instead."""
    if (body.memory_id is None) == (body.request_id is None):
        raise RequestError("memory_id: give this or request_id, one of the two.", param="memory_id")
    if body.signal == "correction" and body.text is None:
        raise RequestError("text: is required, a correction says what is right.", param="text")
    scope = call.scope()
    everywhere = msgspec.structs.replace(scope, session=None)
    text = redact(body.text, api.redacted) if body.text is not None else None
    async with api.locks.of(*scope.owner):
        memories = await _meant(api, scope, body)
        if body.signal == "correction":
            plan, ids = await _correct(api, scope, body, memories, text or "", name=call.new_id("mem"))
        else:
            plan, ids = await _judge(api, scope, body, memories, text)
        applied = await api.write(everywhere, plan)
        api.experiment.note_signal(scope, body.signal)
        stored = await api.store.get(everywhere, ids) if applied and ids else {}
    answer = Judged(body.signal, ids, [call.show(stored[name]) for name in ids if name in stored])
    return Reply(answer, 201) if applied else Reply(answer, 202, QUEUED)


async def _meant(api: Backends, scope: Scope, body: FeedbackBody) -> list[Memory]:
    """The memories that it is about; of a request those that it was given, that are still there, and that the
    caller's project (agent) sees.
    """
    if body.memory_id is not None:
        return [await find(api, scope, body.memory_id)]
    await api.receipts_written()
    receipt = await api.state.receipt(scope, body.request_id or "")
    if receipt is None or not scope.sees(receipt.scope.project, receipt.scope.agent):
        raise NotFound("No receipt has this id. Receipts are kept for seven days.", param="request_id")
    last = receipt.decided or receipt.recalled
    ids = [cited.memory_id for cited in last.memories] if last is not None else []
    everywhere = msgspec.structs.replace(scope, session=None)
    stored = await api.store.get(everywhere, ids) if ids else {}
    return list(stored.values())


async def _judge(
    api: Backends, scope: Scope, body: FeedbackBody, memories: list[Memory], text: str | None
) -> tuple[PlanBody, list[str]]:
    """The plan, and the ids of the memories that the answer shows."""
    now = api.parts.clock.now()
    ids = {memory.id for memory in memories}
    for fact in await _facts_of(api, scope, memories):
        # a fact is withheld with a wrong turn, and given again with it: that a turn was helpful says nothing of what
        # else was learned from it
        changes_too = not fact.quarantined if body.signal == "wrong" else feedback_of(fact).withheld
        if fact.id not in ids and changes_too:
            memories = [*memories, fact]
    plan = PlanBody(outcomes=[_outcome(body, memory) for memory in memories])
    for memory in memories:
        is_turn = memory.kind is Kind.TURN
        changes = plan.turn_changes.setdefault(memory.session_id or "", {}) if is_turn else plan.changes
        changes[memory.id] = msgspec.to_builtins(judged_fields(memory, body.signal, text=text, now=now))
    return plan, [memory.id for memory in memories]


async def _facts_of(api: Backends, scope: Scope, memories: list[Memory]) -> list[Memory]:
    """The active facts that rest on these turns alone, and that the caller's project (agent) sees: what is said of
    a turn is said of them.
    """
    facts: dict[str, Memory] = {}
    for turn in memories:
        if turn.kind is Kind.TURN:
            where = MemoryFilter(kinds=FACTS, turn_ids=(turn.id,), active=True)
            page = await api.store.page(scope, where, limit=_MOST_FACTS)
            facts |= {fact.id: fact for fact in page.memories if fact.session_id == turn.session_id}
    turns = {memory.id for memory in memories if memory.kind is Kind.TURN}
    return [fact for fact in facts.values() if set(fact.turn_ids) <= turns]


async def _correct(
    api: Backends, scope: Scope, body: FeedbackBody, memories: list[Memory], text: str, *, name: str
) -> tuple[PlanBody, list[str]]:
    """The text takes the memory's place, which stays in the history; as `_judge`."""
    memories = _distinct(memories)
    if len(memories) != 1:
        raise Conflict(
            f"The request was given {_summary(memories)}: say by memory_id which one the text corrects.",
            param="memory_id",
        )
    wrong, now = memories[0], api.parts.clock.now()
    if wrong.superseded_by is not None:
        raise Conflict("This memory was superseded already: correct the one that took its place.", param="memory_id")
    await api.quotas.admit_memories(scope, 1)
    right = _correction(wrong, text, name=name, now=now)
    ended: dict[str, Any] = {**judged_fields(wrong, "correction", text=None, now=now), "superseded_by": right.id}
    over = {"superseded_by": right.id, "active": False, "valid_to": now, "updated_at": now}
    if wrong.kind is Kind.TURN:
        corrected = _meant_by(text, wrong, await _facts_of(api, scope, [wrong]))
        right = msgspec.structs.replace(right, supersedes=corrected[0].id if corrected else None)
        marks = {wrong.session_id or "": {wrong.id: msgspec.to_builtins(ended)}}
        changes = {fact.id: msgspec.to_builtins(over) for fact in corrected}
        plan = PlanBody(upserts=[right], turn_changes=marks, changes=changes)
    else:
        plan = PlanBody(upserts=[right], changes={wrong.id: msgspec.to_builtins(ended | over)})
    plan.outcomes = [_outcome(body, wrong)]
    return plan, [right.id, wrong.id]


def _distinct(memories: list[Memory]) -> list[Memory]:
    """The memories without turns that a fact among them tells, and, beside others, without summaries: these end with
    what they tell.
    """
    facts = [memory for memory in memories if memory.kind is not Kind.TURN and memory.predicate != SUMMARY]
    covered = {(memory.session_id, name) for memory in facts for name in memory.turn_ids}
    turns = [
        memory for memory in memories if memory.kind is Kind.TURN and (memory.session_id, memory.id) not in covered
    ]
    return [*facts, *turns] or memories


def _meant_by(text: str, turn: Memory, learned: list[Memory]) -> list[Memory]:
    """The facts of a turn in whose place a correction of the turn stands: the only one, else those of its topic, else
    the only one whose value is a number as the text's is, or none as there.

    Raises:
        Conflict: the text names nothing that the turn speaks of ("It is Bern."), and several facts may be meant.
    """
    facts = [fact for fact in learned if fact.predicate != SUMMARY]
    if len(facts) == 1:
        return facts
    topic = terms(text)
    if not facts or topic & terms(turn.content):
        return [fact for fact in facts if topic & terms(fact.content)]
    alike = [fact for fact in facts if bool(numbers(fact.object or fact.content)) == bool(numbers(text))]
    if len(alike) != 1:
        raise Conflict(
            f"The turn tells {_summary(facts)}: say by memory_id which one the text corrects, or name in the text what "
            "it is about.",
            param="memory_id",
        )
    return alike


def _summary(memories: list[Memory]) -> str:
    """Their number and first ids, so that the call can be made again by id."""
    if not memories:
        return "no memories"
    named = ", ".join(memory.id for memory in memories[:_MOST_NAMED])
    return f"{len(memories)} memories ({named}{', …' if len(memories) > _MOST_NAMED else ''})"


def _correction(wrong: Memory, text: str, *, name: str, now: Any) -> Memory:
    """What the person says instead. Which share of the old statement's words it keeps nobody can tell, so it has no
    subject, predicate and object of its own; the topic, the project and the agent stay. It is of no session: undoing
    the conversation of the wrong statement does not take it back.
    """
    return Memory(
        id=name,
        tenant=wrong.tenant,
        user_id=wrong.user_id,
        project_id=wrong.project_id,
        agent_id=wrong.agent_id,
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
        metadata={CORRECTS: [wrong.session_id, wrong.id]} if wrong.kind is Kind.TURN else {},
    )


def _outcome(body: FeedbackBody, memory: Memory) -> Outcome:
    requests = [body.request_id] if body.request_id is not None else []
    return Outcome(
        result=FEEDBACK, reason=body.signal, memory_id=memory.id, kind=memory.kind.value, request_ids=requests
    )
