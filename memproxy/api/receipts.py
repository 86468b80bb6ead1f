"""`/v1/memory/receipts/{request_id}`, `/activity` and `/stats`: why something was or was not remembered.

A receipt names memories by id; what they say is read from the store when it is asked for, so that a forgotten memory is
``"content": null`` in every receipt. The searched query is kept as it was after rewriting, with what `privacy.redact`
names replaced; it goes with its user, its session, or after seven days.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends
from memproxy.api.http import answer, caller, read_query
from memproxy.api.queries import ActivityQuery, OneQuery, SessionQuery
from memproxy.auth import administered_user, resolve_scope, speaks_for_all
from memproxy.core.memory import Kind
from memproxy.core.receipt import Cited, Decided, Noted, Outcome, Receipt
from memproxy.core.retention import is_expired
from memproxy.core.scope import Scope
from memproxy.errors import Forbidden, NotFound, StoreUnavailable
from memproxy.ports import JournalKind, MemoryFilter, ParkedRow

SNIPPET = 160
"""Characters shown of a memory."""

MOST_PARKED = 200
SOON_S = 1.0
"""How long a receipt waits for turns of its user that are being indexed."""

_UNTOLD = frozenset({"nothing", "tokens"})
FEEDBACK = "feedback"
"""Result of an outcome that tells what was said of a memory later."""

NOT_SEARCHED = frozenset({"skipped"})


class Receipts:
    """The calls that explain."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    async def receipt(self, request: Request) -> Response:
        """`GET /v1/memory/receipts/{request_id}`: everything that is known about one request."""
        identity = caller(request, "memory:read")
        query = read_query(request, OneQuery)
        scope = resolve_scope(identity, user=query.user_id, project=query.project_id, agent=query.agent_id)
        request_id = request.path_params["request_id"]
        self._backends.require_state()
        await self._backends.receipts_written()
        found = await self._backends.state.receipt(scope, request_id)
        if found is None or not _is_captured(found.decided):
            # what the relay made of it comes with the turn, through the journal: who asks at once need not ask again
            await self._backends.worker.indexed(scope, SOON_S)
            found = await self._backends.state.receipt(scope, request_id)
        if found is None or not _is_seen(found.scope, scope):
            raise NotFound(
                f"No receipt has the id {request_id[:200]!r}. Receipts are kept for seven days; a request that asked "
                "for memory to be off has none.",
                param="request_id",
            )
        return answer(await self._described(scope, found))

    async def _described(self, scope: Scope, found: Receipt) -> dict[str, Any]:
        recalled, decided = found.recalled, found.decided
        told = decided or recalled
        cited = decided.memories if decided is not None else recalled.memories if recalled is not None else []
        candidates = recalled.candidates if recalled is not None else []
        ids = [one.memory_id for one in cited] + [one["memory_id"] for one in candidates]
        said = await self._contents(scope, [*ids, *_named(found.outcomes)])
        wider = _is_wider(found.scope, scope)
        if wider:  # it was given what this caller does not see, nor how much of it
            cited = [one for one in cited if one.memory_id in said]
            candidates = [one for one in candidates if one["memory_id"] in said]
            found = msgspec.structs.replace(found, outcomes=[one for one in found.outcomes if _is_told(one, said)])
        return {
            "request_id": found.request_id,
            "created_at": found.at,
            "user_id": found.scope.user,
            "project_id": found.scope.project,
            "agent_id": found.scope.agent,
            "session_id": found.scope.session,
            "result": told.result if told else None,
            "reason": told.reason if told else None,
            "mode": decided.mode if decided else None,
            "decision": _verdict(found),
            "query": recalled.query if recalled else None,
            "memories": [_cited(one, said) for one in cited],
            "tokens": None if wider else told.tokens if told else 0,
            "candidates": [{**one, "content": said.get(one["memory_id"])} for one in candidates],
            "timings": (recalled.timings if recalled else {}) | (decided.timings if decided else {}),
            "upstream": {"status": decided.status, "model": decided.model} if decided else None,
            "captured": _is_captured(decided),
            "turn_ids": decided.turn_ids if decided else [],
            "learned": await self._learned(found, said),
            "feedback": [
                {"signal": one.reason, "memory_id": one.memory_id} for one in found.outcomes if one.result == FEEDBACK
            ],
        }

    async def _contents(self, scope: Scope, ids: Iterable[str]) -> dict[str, str | None]:
        """What these memories say, as far as the caller's project (agent) sees them: a request outside of any may have
        been given another's. Nothing while the store is away.
        """
        place = msgspec.structs.replace(scope, session=None)
        wanted = list(dict.fromkeys(ids))
        try:
            self._backends.require_store()
            found = await self._backends.store.get(place, wanted) if wanted else {}
        except StoreUnavailable:
            return {}
        now = self._backends.clock.now()
        return {name: one.content[:SNIPPET] for name, one in found.items() if not is_expired(one, now)}

    async def _learned(self, found: Receipt, said: dict[str, str | None]) -> dict[str, Any]:
        """What became of the turn: ``none`` when it was not captured, ``off``, ``pending``, ``parked`` or ``done``."""
        learned = [one for one in found.outcomes if one.result != FEEDBACK]
        outcomes = [_outcome(one, said) for one in learned if one.result not in _UNTOLD]
        if learned:
            return {"state": "done", "outcomes": outcomes, "tokens": _tokens(learned)}
        if not _is_captured(found.decided):
            return {"state": "none", "outcomes": []}
        if not self._backends.settings.learn.enabled:
            return {"state": "off", "outcomes": []}
        rows = await self._backends.state.parked(found.scope, limit=MOST_PARKED)
        for row in rows:
            if row.scope.session == found.scope.session and row.parked_at >= found.at:
                return {"state": "parked", "reason": row.error, "outcomes": []}
        return {"state": "pending", "outcomes": []}

    async def activity(self, request: Request) -> Response:
        """`GET /v1/memory/activity`: what learning stored, superseded, repeated, rejected or gave up, and what calls
        stored, edited or deleted, newest first.
        """
        identity = caller(request, "memory:read")
        query = read_query(request, ActivityQuery)
        scope = resolve_scope(identity, user=query.user_id)
        self._backends.require_state()
        window, events = query.limit, list[dict[str, Any]]()
        # how many of the newest are left out would tell what is done in other projects
        while await self._newest(scope, query.session_id, window, events) and len(events) < query.limit:
            window *= 4
        return answer({"data": events[: query.limit]})

    async def _newest(self, scope: Scope, session: str | None, window: int, events: list[dict[str, Any]]) -> bool:
        """Put into ``events`` what the caller sees of the newest ``window``; whether there are others behind them."""
        state = self._backends.state
        noted = await state.outcomes(scope, session=session, limit=window)
        parked = await state.parked(scope, limit=window)
        said = await self._contents(scope, _named(one.outcome for one in noted))
        events[:] = [
            _event(one, said) for one in noted if not _is_wider(one.scope, scope) or _is_told(one.outcome, said)
        ]
        events += [
            _parked_event(row)
            for row in parked
            # the reason may name memories that a call outside of the caller's project was about
            if not (row.kind is JournalKind.PLAN and _is_wider(row.scope, scope))
            and session in {None, row.scope.session}
        ]
        events.sort(key=lambda event: event["at"], reverse=True)
        return max(len(noted), len(parked)) == window

    async def retry(self, request: Request) -> Response:
        """`POST /v1/memory/activity/retry`: what was given up of the user's is tried again; answers how many rows."""
        identity = caller(request, "memory:write")
        query = read_query(request, SessionQuery)
        scope = resolve_scope(identity, user=query.user_id)
        if identity.bound_project:
            raise Forbidden("What was given up is of all projects: a key that is bound to one cannot retry it.")
        self._backends.require_state()
        retried = await self._backends.state.unpark(scope)
        self._backends.worker.wake()
        return answer({"retried": retried})

    async def stats(self, request: Request) -> Response:
        """`GET /v1/memory/stats`: how many memories of each kind the user has, and what waits to be written; and what
        models cost the tenant, for who speaks for all of it.
        """
        identity = caller(request, "memory:read", "admin")
        query = read_query(request, SessionQuery)
        scope = Scope(
            tenant=identity.tenant,
            user=administered_user(identity, query.user_id),
            project=identity.project,
            agent=identity.agent,
        )
        self._backends.require_store()
        self._backends.require_state()
        kinds = {kind.value: await self._counted(scope, kind) for kind in Kind}
        active = sum(counts["active"] for counts in kinds.values())
        total = sum(counts["total"] for counts in kinds.values())
        # how many of the user's rows wait says how much is said in other projects
        queues = {} if identity.bound_project else await self._backends.state.backlog(scope)
        memories = {"active": active, "total": total, "kinds": kinds}
        erasure = "pending" if self._backends.eraser.pending else "complete"
        # what a tenant's learning costs says how much its other users talk
        cost = await self._cost(scope.tenant) if speaks_for_all(identity) else None
        return answer({"memories": memories, "queues": queues, "cost": cost, "erasure": erasure})

    async def _cost(self, tenant: str) -> dict[str, Any]:
        """What our own model calls used for the whole tenant, by source: today (UTC) and in the last year."""
        now = self._backends.clock.now()
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        state = self._backends.state
        spent = {"today": await state.tokens_spent(tenant, since=today)}
        spent["year"] = await state.tokens_spent(tenant, since=today - timedelta(days=365))
        return {
            when: {source: {"input_tokens": given, "output_tokens": made} for source, (given, made) in sources.items()}
            for when, sources in spent.items()
        }

    async def _counted(self, scope: Scope, kind: Kind) -> dict[str, int]:
        where = MemoryFilter(kinds=(kind,), now=self._backends.clock.now())
        total = await self._backends.store.count(scope, where)
        active = msgspec.structs.replace(where, active=True)
        return {"active": await self._backends.store.count(scope, active) if total else 0, "total": total}


def _tokens(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """What learning from the request's turn cost, with the turns that were read together with it, by source."""
    spent: dict[str, dict[str, int]] = {}
    for source, (given, made) in ((name, pair) for one in outcomes for name, pair in one.tokens.items()):
        known = spent.setdefault(source, {"input_tokens": 0, "output_tokens": 0})
        known["input_tokens"] += given
        known["output_tokens"] += made
    return spent


def _is_seen(place: Scope, scope: Scope) -> bool:
    """Whether a caller sees what is noted for a place: within a project (agent) what is of that one or of none."""
    return scope.sees(place.project, place.agent)


def _is_wider(place: Scope, scope: Scope) -> bool:
    """Whether what was done there may concern memories that the caller does not see from his project (agent)."""
    pairs = ((place.project, scope.project), (place.agent, scope.agent))
    return any(here is not None and there != here for there, here in pairs)


def _is_told(one: Outcome, said: Mapping[str, object]) -> bool:
    return one.memory_id is None or one.memory_id in said


def _is_captured(decided: Decided | None) -> bool:
    """Whether the turn is kept (it may not be indexed yet): a request that only reads is decided about, too."""
    return decided is not None and (bool(decided.turn_ids) or decided.mode not in {"read", "off", "shadow"})


def _verdict(found: Receipt) -> dict[str, Any] | None:
    """The gate's verdict, as the recall call answers it; None when the gate was not asked."""
    if found.recalled is not None:
        return {"searched": found.recalled.result != "skipped", "reason": found.recalled.verdict}
    if found.decided is not None and found.decided.result in NOT_SEARCHED:
        return {"searched": False, "reason": found.decided.reason}
    return None


def _cited(one: Cited, said: dict[str, str | None]) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "content": said.get(one.memory_id)}


def _named(outcomes: Iterable[Outcome]) -> list[str]:
    return [one.memory_id for one in outcomes if one.memory_id is not None]


def _outcome(one: Outcome, said: dict[str, str | None]) -> dict[str, Any]:
    content = one.content if one.memory_id is None else said.get(one.memory_id)
    return {**msgspec.to_builtins(one), "content": content}


def _event(noted: Noted, said: dict[str, str | None]) -> dict[str, Any]:
    place = {"session_id": noted.scope.session, "project_id": noted.scope.project, "agent_id": noted.scope.agent}
    return {"at": noted.at, **place, **_outcome(noted.outcome, said)}


def _parked_event(row: ParkedRow) -> dict[str, Any]:
    place = {"session_id": row.scope.session, "project_id": row.scope.project, "agent_id": row.scope.agent}
    what = "learning" if row.kind is JournalKind.LEARN else "indexing"
    return {"at": row.parked_at, **place, "result": "parked", "what": what, "reason": row.error}
