"""`/v1/memory/receipts/{request_id}` and `/activity`: why something was or was not remembered.

A receipt names memories by id; what they say is read from the store when it is asked for, so that a forgotten memory is
``"content": null`` in every receipt. The searched query is kept as it was after rewriting, with what `privacy.redact`
names replaced; it goes with its user, its session, or after seven days.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import StreamingResponse

from memproxy.api.administration import Cost, Tokens
from memproxy.api.calls import Call, operation
from memproxy.api.context import Backends, find, foreign_cursor, read_cursor, write_cursor
from memproxy.api.fields import Id, Limit, Name
from memproxy.api.models import Body, Instant, OneQuery, PlacePageQuery, UserQuery, one_of
from memproxy.core.memory import Memory, Trust
from memproxy.core.receipt import Carried, Decided, Outcome
from memproxy.core.receipt import Receipt as StoredReceipt
from memproxy.core.retention import is_expired
from memproxy.core.scope import Scope
from memproxy.errors import Forbidden, MemoryUnavailable, NotFound, StoreUnavailable, TooManyRequests
from memproxy.ports import JournalKind

log = logging.getLogger(__name__)

SNIPPET = 160
"""Characters shown of a memory."""

MOST_PARKED = 200

EVENT_STREAM = "text/event-stream"
LOOK_S = 1.0
"""Seconds between two looks for new activity; something is sent at each, which shows whether the listener is there."""

STREAM_S = 55.0
"""Length of a stream of activity, below what a relay waits for an answer."""

MOST_STREAMS = 8
"""Open streams of one user: each looks at the state once a second."""

SOON_S = 1.0
"""How long a receipt waits for turns of its user that are being indexed."""

FEEDBACK = "feedback"
"""Result of an outcome that tells what was said of a memory later."""

_NOT_SHOWN = frozenset({"nothing", "tokens"})

_LEARNED = ("stored", "superseded", "duplicate", "rejected", "retracted", "pending", "kept", "nothing")
RESULTS = (*_LEARNED, "edited", "deleted", "feedback")
"""Results in the activity of a candidate of learning, of a memory that a call wrote, or of one that was judged."""


class OutcomeFields(msgspec.Struct, kw_only=True):
    """What is known of a candidate of learning (`core.receipt.Outcome`) besides what it says now."""

    memory_id: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    turn_id: str | UnsetType = UNSET
    request_ids: list[str] | UnsetType = UNSET
    supersedes: str | UnsetType = UNSET
    superseded_by: str | UnsetType = UNSET


class ShownOutcome(OutcomeFields, kw_only=True):
    """What became of it."""

    result: Annotated[Any, one_of(*RESULTS)]
    reason: str | UnsetType = UNSET
    content: str | None


class LearnedFromTurn(msgspec.Struct):
    """What was learned from a request's turn: ``none`` when it was not captured; ``reason`` is why it was given up."""

    state: Annotated[Any, one_of("none", "off", "pending", "parked", "done")]
    outcomes: list[ShownOutcome]
    reason: str | UnsetType = UNSET
    tokens: Cost | UnsetType = UNSET


class GivenMemory(msgspec.Struct, kw_only=True):
    """A memory that the request was given; null as ``content``: it is not there any more."""

    memory_id: str
    turn_id: str | UnsetType = UNSET
    score: float | UnsetType = UNSET
    repeated: bool | UnsetType = UNSET
    content: str | None


class Judgement(msgspec.Struct):
    """What was said of a memory later."""

    signal: str
    memory_id: str


class Receipt(msgspec.Struct, kw_only=True):
    """Everything that is known about one request. ``said`` is the user's message, where nothing was searched for;
    ``floor`` the score that a candidate needed.
    """

    request_id: str
    created_at: Instant
    user_id: str
    project_id: str | UnsetType | None = UNSET
    agent_id: str | UnsetType | None = UNSET
    session_id: str | UnsetType | None = UNSET
    result: str | None
    reason: str | UnsetType | None = UNSET
    mode: str | UnsetType | None = UNSET
    decision: dict[str, Any] | UnsetType | None = UNSET
    query: str | UnsetType | None = UNSET
    said: str | UnsetType | None = UNSET
    floor: float | UnsetType | None = UNSET
    memories: list[GivenMemory]
    tokens: int | None
    candidates: list[dict[str, Any]]
    timings: dict[str, float]
    upstream: dict[str, Any] | UnsetType | None = UNSET
    context: Carried | UnsetType = UNSET
    captured: bool | UnsetType = UNSET
    turn_ids: list[str] | UnsetType = UNSET
    learned: LearnedFromTurn
    feedback: list[Judgement] | UnsetType = UNSET


@operation("GET", "/v1/memory/receipts/{request_id}", "memory:read", query=OneQuery, errors=(404,))
async def receipt(api: Backends, call: Call) -> Receipt:
    """Why a request got the memories it got, and what was learned from it."""
    scope = call.scope()
    stored = await _stored(api, scope, call.path["request_id"])
    recalled, decided = stored.recalled, stored.decided
    last = decided or recalled
    cited = last.memories if last is not None else []
    candidates = recalled.candidates if recalled is not None else []
    ids = [row.memory_id for row in cited] + [row["memory_id"] for row in candidates]
    contents = await contents_of(api, scope, [*ids, *_memory_ids(stored.outcomes)])
    wider = _is_wider(stored.scope, scope)
    if wider:  # it was given what this caller does not see, nor how much of it
        cited = [row for row in cited if row.memory_id in contents]
        candidates = [row for row in candidates if row["memory_id"] in contents]
        stored = msgspec.structs.replace(stored, outcomes=[row for row in stored.outcomes if _is_shown(row, contents)])
    return Receipt(
        **_heading(stored),
        user_id=stored.scope.user,
        mode=decided.mode if decided else None,
        decision=_verdict(stored),
        said=(await _unsearched_texts(api, scope, [stored])).get(stored.request_id),
        floor=recalled.floor if recalled else None,
        memories=[GivenMemory(**msgspec.to_builtins(row), content=contents.get(row.memory_id)) for row in cited],
        tokens=None if wider else last.tokens if last else 0,
        candidates=with_contents(candidates, contents),
        timings=(recalled.timings if recalled else {}) | (decided.timings if decided else {}),
        upstream={"status": decided.status, "model": decided.model} if decided else None,
        context=decided.context if decided and decided.context is not None and not wider else UNSET,
        captured=_is_captured(decided),
        turn_ids=decided.turn_ids if decided else [],
        learned=await _learned(api, stored, contents),
        feedback=[
            Judgement(row.reason or "", row.memory_id or "") for row in stored.outcomes if row.result == FEEDBACK
        ],
    )


async def _stored(api: Backends, scope: Scope, request_id: str) -> StoredReceipt:
    await api.receipts_written()
    stored = await api.state.receipt(scope, request_id)
    if stored is None or not _is_captured(stored.decided):
        # what the relay made of it comes with the turn, through the journal: who asks at once need not ask again
        await api.parts.worker.indexed(scope, SOON_S)
        stored = await api.state.receipt(scope, request_id)
    # within a project (agent) is seen what is of that one or of none
    if stored is None or not scope.sees(stored.scope.project, stored.scope.agent):
        raise NotFound(
            f"No receipt has the id {request_id[:200]!r}. Receipts are kept for seven days; a request that asked "
            "for memory to be off has none.",
            param="request_id",
        )
    return stored


async def contents_of(api: Backends, scope: Scope, ids: Iterable[str]) -> dict[str, str | None]:
    """What these memories say. Nothing while the store is away."""
    return {name: memory.content[:SNIPPET] for name, memory in (await _memories(api, scope, ids)).items()}


def with_contents(candidates: Sequence[Mapping[str, Any]], contents: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Candidates, each with what it says (null: it is not there any more)."""
    return [{**candidate, "content": contents.get(candidate["memory_id"])} for candidate in candidates]


async def _memories(api: Backends, scope: Scope, ids: Iterable[str]) -> dict[str, Memory]:
    """Those of these memories that the caller's project (agent) sees: a request outside of any may have been given
    another's. Empty while the store is away.
    """
    everywhere = msgspec.structs.replace(scope, session=None)
    distinct = list(dict.fromkeys(ids))
    try:
        stored = await api.store.get(everywhere, distinct) if distinct else {}
    except StoreUnavailable:
        return {}
    now = api.parts.clock.now()
    return {name: memory for name, memory in stored.items() if not is_expired(memory, now)}


async def _unsearched_texts(api: Backends, scope: Scope, receipts: Sequence[StoredReceipt]) -> dict[str, str]:
    """What the user said, by request, where nothing was searched for and the message is still there."""
    silent = [
        (stored.request_id, name)
        for stored in receipts
        if stored.decided is not None and not (stored.recalled is not None and stored.recalled.query)
        for name in stored.decided.turn_ids
    ]
    turns = await _memories(api, scope, [name for _, name in silent])
    return {
        request_id: turns[name].content[:SNIPPET]
        for request_id, name in silent
        if name in turns and turns[name].trust is Trust.USER
    }


async def _learned(api: Backends, stored: StoredReceipt, contents: Mapping[str, str | None]) -> LearnedFromTurn:
    """What became of the turn."""
    outcomes = [outcome for outcome in stored.outcomes if outcome.result != FEEDBACK]
    if outcomes:
        # with the turns that were read together with it, by source
        spent: Cost = {}
        for source, (input_tokens, output_tokens) in (pair for outcome in outcomes for pair in outcome.tokens.items()):
            total = spent.setdefault(source, Tokens(0, 0))
            total.input_tokens += input_tokens
            total.output_tokens += output_tokens
        shown = [ShownOutcome(**_outcome(row, contents)) for row in outcomes if row.result not in _NOT_SHOWN]
        return LearnedFromTurn("done", shown, tokens=spent)
    if not _is_captured(stored.decided):
        return LearnedFromTurn("none", [])
    if not api.parts.settings.learn.enabled:
        return LearnedFromTurn("off", [])
    for row in await api.state.parked(stored.scope, limit=MOST_PARKED):
        if row.scope.session == stored.scope.session and row.parked_at >= stored.at:
            return LearnedFromTurn("parked", [], reason=row.error)
    return LearnedFromTurn("pending", [])


class ReceiptsQuery(PlacePageQuery):
    """`GET /v1/memory/receipts`: of one conversation, or of requests that were given one memory."""

    session_id: Name | None = None
    memory_id: Id | None = None


class ReceiptSummary(msgspec.Struct, kw_only=True):
    """A request in short. ``memories`` and ``tokens`` are null where the caller does not see all that it was given;
    ``said`` is the user's message, where nothing was searched for.
    """

    request_id: str
    created_at: Instant
    session_id: str | None
    project_id: str | None
    agent_id: str | None
    result: str | None
    reason: str | None
    query: str | None
    said: str | None
    memories: int | None
    tokens: int | None
    model: str | None


class Receipts(msgspec.Struct):
    """One page of requests."""

    data: list[ReceiptSummary]
    next_cursor: str | None


@operation("GET", "/v1/memory/receipts", "memory:read", errors=(404, 409))
async def list_receipts(api: Backends, call: Call, query: ReceiptsQuery) -> Receipts:
    """The requests of the last days, newest first, each with what memory did for it in short.

    With ``memory_id`` only those that were given this memory, which the caller must see.
    """
    scope = msgspec.structs.replace(call.scope(), session=None)
    below = _cursor_position(query.cursor)
    memory_id = (await find(api, scope, query.memory_id)).id if query.memory_id is not None else None
    await api.receipts_written()
    receipts: list[StoredReceipt] = []
    while True:
        newest = await api.state.receipts(
            scope, session=query.session_id, memory_id=memory_id, before=below, limit=query.limit + 1
        )
        receipts += [row for row in newest if memory_id is None or _was_given(row, memory_id)]
        if len(newest) <= query.limit or len(receipts) > query.limit:
            break
        below = (newest[-1].at, newest[-1].request_id)
    page, more = receipts[: query.limit], len(receipts) > query.limit
    cursor = write_cursor("receipts", page[-1].at.isoformat(), page[-1].request_id) if more else None
    texts = await _unsearched_texts(api, scope, page)
    return Receipts([_summary(row, scope, texts.get(row.request_id)) for row in page], cursor)


def _cursor_position(cursor: str | None) -> tuple[datetime, str] | None:
    """Where a page of receipts begins."""
    match read_cursor("receipts", cursor):
        case []:
            return None
        case [str(at), str(request_id)]:
            with suppress(ValueError):
                return datetime.fromisoformat(at), request_id
    raise foreign_cursor()


def _was_given(stored: StoredReceipt, memory_id: str) -> bool:
    last = stored.decided or stored.recalled
    return last is not None and any(cited.memory_id == memory_id for cited in last.memories)


def _heading(stored: StoredReceipt) -> dict[str, Any]:
    last = stored.decided or stored.recalled
    return {
        "request_id": stored.request_id,
        "created_at": stored.at,
        **_place_fields(stored.scope),
        "result": last.result if last else None,
        "reason": last.reason if last else None,
        "query": stored.recalled.query if stored.recalled else None,
    }


def _summary(stored: StoredReceipt, scope: Scope, text: str | None) -> ReceiptSummary:
    last, wider = stored.decided or stored.recalled, _is_wider(stored.scope, scope)
    return ReceiptSummary(
        **_heading(stored),
        said=text,
        memories=None if wider else len(last.memories) if last else 0,
        tokens=None if wider else last.tokens if last else 0,
        model=stored.decided.model if stored.decided else None,
    )


class ActivityQuery(Body):
    """`GET /v1/memory/activity`: whose, of one session or all."""

    user_id: Name | None = None
    session_id: Name | None = None
    limit: Limit = 50


class Event(OutcomeFields, kw_only=True):
    """What became of a candidate of learning, what a call wrote, or (``parked``) what was given up."""

    at: Instant
    session_id: str | None
    project_id: str | None
    agent_id: str | None
    result: Annotated[Any, one_of(*RESULTS, "parked")]
    what: str | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    content: str | UnsetType | None = UNSET


class Activity(msgspec.Struct):
    """What happened lately, newest first."""

    data: list[Event]


@operation("GET", "/v1/memory/activity", "memory:read", errors=(429,))
async def activity(api: Backends, call: Call, query: ActivityQuery) -> Activity | StreamingResponse:
    """What was learned lately, newest first.

    What learning stored, superseded, repeated, rejected or gave up, and what calls stored, edited or deleted. With
    ``accept: text/event-stream`` each is an event: the newest ``limit``, oldest first, then what comes.
    """
    scope = call.scope()
    api.require("state")
    if EVENT_STREAM in call.request.headers.get("accept", ""):
        if api.listeners[scope.owner] >= MOST_STREAMS:
            raise TooManyRequests(
                f"{MOST_STREAMS} streams of this user's activity are open: close one.", retry_after_s=int(STREAM_S)
            )
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(_events(api, scope, query), media_type=EVENT_STREAM, headers=headers)
    window = query.limit
    while True:
        events, more = await _newest(api, scope, query.session_id, window)
        # how many of the newest are left out would tell what is done in other projects
        if not more or len(events) >= query.limit:
            return Activity(events[: query.limit])
        window *= 4


async def _events(api: Backends, scope: Scope, query: ActivityQuery) -> AsyncIterator[bytes]:
    """Activity as server-sent events (``learned``). The stream ends after a while: a client that asks again gets the
    newest again.
    """
    api.listeners[scope.owner] += 1
    sent: set[bytes] = set()
    since: datetime | None = None
    until = asyncio.get_running_loop().time() + STREAM_S
    try:
        while asyncio.get_running_loop().time() < until:
            events, _ = await _newest(api, scope, query.session_id, query.limit)
            new = []
            for event in reversed(events[: query.limit]):
                # what it says may be forgotten meanwhile: that is no other event
                name = msgspec.json.encode(msgspec.structs.replace(event, content=None))
                if name not in sent and (since is None or event.at >= since):
                    sent.add(name)
                    new.append(b"event: learned\ndata: %s\n\n" % msgspec.json.encode(event))
            since = since or (events[-1].at if events else None)
            yield b"".join(new) or b": nothing new\n\n"
            await asyncio.sleep(LOOK_S)
    except MemoryUnavailable as error:
        log.debug("a stream of activity ends: %s", error.message)  # asking again tells why
    finally:
        api.listeners[scope.owner] -= 1
        if not api.listeners[scope.owner]:
            del api.listeners[scope.owner]


async def _newest(api: Backends, scope: Scope, session: str | None, window: int) -> tuple[list[Event], bool]:
    """What the caller sees of the newest ``window``, and whether there are others behind them."""
    noted = await api.state.outcomes(scope, session=session, limit=window)
    parked = await api.state.parked(scope, limit=window)
    contents = await contents_of(api, scope, _memory_ids(entry.outcome for entry in noted))
    events = [
        Event(at=entry.at, **_place_fields(entry.scope), **_outcome(entry.outcome, contents))
        for entry in noted
        if not _is_wider(entry.scope, scope) or _is_shown(entry.outcome, contents)
    ]
    events += [
        Event(
            at=row.parked_at,
            **_place_fields(row.scope),
            result="parked",
            what="learning" if row.kind is JournalKind.LEARN else "indexing",
            reason=row.error,
        )
        for row in parked
        # the reason may name memories that a call outside of the caller's project was about
        if not (row.kind is JournalKind.PLAN and _is_wider(row.scope, scope)) and session in {None, row.scope.session}
    ]
    events.sort(key=lambda event: event.at, reverse=True)
    return events, max(len(noted), len(parked)) == window


class Retried(msgspec.Struct):
    """How many rows are tried again."""

    retried: int


@operation("POST", "/v1/memory/activity/retry", "memory:write", query=UserQuery)
async def retry(api: Backends, call: Call) -> Retried:
    """Try again what was given up after its retries."""
    scope = call.scope()
    if call.identity.bound_project:
        raise Forbidden("What was given up is of all projects: a key that is bound to one cannot retry it.")
    retried = await api.state.unpark(scope)
    api.parts.worker.wake()
    return Retried(retried)


def _is_wider(done_in: Scope, scope: Scope) -> bool:
    """Whether what was done there may concern memories that the caller does not see from his project (agent)."""
    pairs = ((done_in.project, scope.project), (done_in.agent, scope.agent))
    return any(name is not None and written != name for written, name in pairs)


def _is_shown(outcome: Outcome, contents: Mapping[str, object]) -> bool:
    return outcome.memory_id is None or outcome.memory_id in contents


def _is_captured(decided: Decided | None) -> bool:
    """Whether the turn is kept (it may not be indexed yet). A request that only reads, or whose answer is an error or
    was cut short, is decided about, too.
    """
    if decided is None or decided.turn_ids or decided.is_lost:
        return decided is not None and not decided.is_lost
    answered = decided.status is None or 200 <= decided.status < 300
    return answered and decided.mode not in {"read", "off", "shadow"}


def _verdict(stored: StoredReceipt) -> dict[str, Any] | None:
    """The gate's verdict, as the recall call answers it; None when the gate was not call."""
    if stored.recalled is not None:
        return {"searched": stored.recalled.result != "skipped", "reason": stored.recalled.verdict}
    if stored.decided is not None and stored.decided.result == "skipped":
        return {"searched": False, "reason": stored.decided.reason}
    return None


def _memory_ids(outcomes: Iterable[Outcome]) -> list[str]:
    return [outcome.memory_id for outcome in outcomes if outcome.memory_id is not None]


def _outcome(outcome: Outcome, contents: Mapping[str, str | None]) -> dict[str, Any]:
    content = outcome.content if outcome.memory_id is None else contents.get(outcome.memory_id)
    return {**msgspec.to_builtins(msgspec.structs.replace(outcome, tokens={})), "content": content}


def _place_fields(scope: Scope) -> dict[str, Any]:
    return {"session_id": scope.session, "project_id": scope.project, "agent_id": scope.agent}
