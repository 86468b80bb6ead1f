"""`POST /v1/memory/search` and `POST /v1/memory/recall`: what is found, and what the proxy would inject."""

import uuid
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends, scope_and_filter
from memproxy.api.http import answer, caller, read_body, read_query
from memproxy.api.places import in_palace
from memproxy.api.queries import NoQuery
from memproxy.api.schemas import RecallBody, SearchBody, Shown
from memproxy.auth import resolve_scope
from memproxy.core import gate
from memproxy.core.block import session_nonce
from memproxy.core.housekeeping import is_housekeeping
from memproxy.core.memory import to_public
from memproxy.core.protocol import RecallAnswer, RecallLimits, RecallRequest
from memproxy.core.scope import Scope
from memproxy.core.turn import INSTRUCTIONS, quoted_digests, text_digest
from memproxy.errors import StoreUnavailable
from memproxy.recall.search import Scored
from memproxy.recall.select import Limits, select

EARLIER_QUERIES = 3
"""User messages before the current one that a vague query is completed from."""

COUNTED = 10
"""Memories of a search that count as recalled: long lists are for people who look through what there is."""

AWAY = frozenset({"store", "loading"})
"""Reasons of a degraded recall that mean there is no memory to ask just now."""


class Recalling:
    """The calls that rank memories."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._max_bytes = backends.settings.server.max_body_bytes
        self._gate = backends.settings.gate

    async def search(self, request: Request) -> Response:
        """`POST /v1/memory/search`: best first, no gate, no floor, no budget.

        What was superseded is left out unless ``active`` or ``as_of`` ask for it. With ``explain`` each memory says
        why a recall for this query would leave it out (``rejected``; null: nothing but the budget speaks against it).
        """
        identity = caller(request, "memory:read")
        query = read_query(request, Shown)
        body = await read_body(request, SearchBody, self._max_bytes)
        scope, where = scope_and_filter(identity, body, self._backends.clock.now())
        if not body.active and body.as_of is None:
            where = msgspec.structs.replace(where, active=True)
        self._backends.require_store()
        where = await in_palace(self._backends, scope, body, where)
        found = await self._backends.recall.search(scope, body.query, limit=body.limit, where=where)
        self._backends.accesses.note(scope, [one.memory.id for one in found[:COUNTED]])
        nulls = query.nulls and body.nulls
        data: list[dict[str, Any]] = [
            {"memory": to_public(one.memory, nulls=nulls), "score": one.score, "signals": one.signals} for one in found
        ]
        if body.explain:
            data = [one | {"rejected": reason} for one, reason in zip(data, self._judged(found), strict=True)]
        return answer({"data": data})

    def _judged(self, found: list[Scored]) -> list[str | None]:
        limits = Limits.of(self._backends.settings, RecallLimits())
        judged = select(found, limits, present=frozenset(), now=self._backends.clock.now())
        return [one.rejected for one in judged]

    async def recall(self, request: Request) -> Response:
        """`POST /v1/memory/recall`: the block, its citations, and the gate's verdict."""
        identity = caller(request, "memory:read")
        read_query(request, NoQuery)
        body = await read_body(request, RecallBody, self._max_bytes)
        scope = resolve_scope(
            identity, user=body.user_id, project=body.project_id, agent=body.agent_id, session=body.session_id
        )
        chosen = await self._backends.state.choices(scope)
        said = _said_before(body)
        verdict = self._verdict(body.query, said) if chosen.recalls else gate.Verdict(searched=False, reason="settings")
        if not verdict.reaches_memory:
            return answer(_recalled(RecallAnswer(result="empty"), verdict, explain=body.explain))
        self._backends.require_store()
        asked = self._request(scope, body, said, verdict)
        limits = RecallLimits(max_tokens=body.max_tokens, retrieval_limit=chosen.limit, rerank=chosen.rerank)
        found = await self._backends.recall.recall(msgspec.structs.replace(asked, limits=limits))
        if found.result == "degraded" and found.reason in AWAY:
            raise StoreUnavailable(
                "The memory store does not answer just now; nothing was recalled. Try again shortly."
            )
        self._backends.accesses.note(scope, [line.memory_id for line in found.citations])
        verdict = gate.Verdict(searched=found.result != "skipped", reason=verdict.reason)
        return answer(_recalled(found, verdict, explain=body.explain))

    def _verdict(self, query: str, earlier: list[str]) -> gate.Verdict:
        """As the proxy judges a request whose last message is the query; no tools are offered here."""
        if is_housekeeping(query):
            return gate.Verdict(searched=False, reason="housekeeping")
        if not self._gate.enabled:
            return gate.Verdict(searched=True, reason="gate_off")
        return gate.judge(query, frozenset[str](self._gate.skip), follows=bool(earlier))

    def _is_first_search(self, earlier: list[str]) -> bool:
        skip = frozenset[str](self._gate.skip) if self._gate.enabled else frozenset[str]()
        return gate.is_first_search(earlier, skip)

    def _request(self, scope: Scope, body: RecallBody, said: list[str], verdict: gate.Verdict) -> RecallRequest:
        instructions = [message.content for message in body.messages if message.role in INSTRUCTIONS]
        present = [text_digest(message.content) for message in body.messages if message.content]
        return RecallRequest(
            request_id=f"api_{uuid.uuid4().hex}",
            scope=scope,
            queries=[*said[-EARLIER_QUERIES:], body.query],
            nonce=session_nonce(self._backends.secret, scope.tenant, scope.user, scope.session or ""),
            present=[*present, text_digest(body.query), *quoted_digests(instructions, [*said, body.query])],
            explain=body.explain,
            verdict=verdict.reason,
            only_if_told=verdict.asks_memory,
            first_turn=self._is_first_search(said),
        )


def _said_before(body: RecallBody) -> list[str]:
    """What the user said before the query, oldest first."""
    said = [message.content for message in body.messages if message.role == "user" and message.content.strip()]
    if said and said[-1].strip() == body.query.strip():
        said.pop()  # the whole conversation was sent, its last message is the query
    return said


def _recalled(found: RecallAnswer, verdict: gate.Verdict, *, explain: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "context": found.context,
        "tokens": found.tokens,
        "citations": found.citations,
        "decision": {"searched": verdict.searched, "reason": verdict.reason},
        "timings": found.timings,
    }
    if found.result == "degraded":
        data["degraded"] = found.reason
    if explain:
        data |= {"query": found.query, "candidates": found.candidates, "notes": found.notes}
    return data
