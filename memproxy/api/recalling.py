"""`POST /v1/memory/search` and `POST /v1/memory/recall`: what is found, and what the proxy would inject."""

import uuid
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import ConfigDict, FailFast, Field

from memproxy.api.calls import Call, operation
from memproxy.api.context import Backends, scope_and_filter
from memproxy.api.fields import MAX_MESSAGES, Limit, Name, Query, ReadableContent
from memproxy.api.knowledge import with_subcategories
from memproxy.api.models import Body, Filters, Shown, ShownMemory
from memproxy.api.palace import in_palace
from memproxy.api.receipts import contents_of, with_contents
from memproxy.core import gate
from memproxy.core.block import session_nonce
from memproxy.core.choices import Choices
from memproxy.core.housekeeping import is_housekeeping
from memproxy.core.protocol import Citation, RecallAnswer, RecallLimits, RecallRequest
from memproxy.core.turn import INSTRUCTIONS, quoted_digests, text_digest
from memproxy.errors import StoreUnavailable
from memproxy.recall.select import Limits, why_left_out

EARLIER_QUERIES = 3
"""User messages before the current one that a vague query is completed from."""

COUNTED = 10
"""Memories of a search that count as recalled: long lists are for people who look through what there is."""

AWAY = frozenset({"store", "loading"})
"""Reasons of a degraded recall that mean there is no memory to ask just now."""


class SearchBody(Filters, Shown):
    """`POST /v1/memory/search`."""

    query: Query
    limit: Limit = 10
    explain: bool = False


class ChatMessage(Body):
    """A message of the chat request for which memory is recalled."""

    model_config = ConfigDict(extra="ignore")

    role: str
    content: ReadableContent = ""


class RecallBody(Body):
    """`POST /v1/memory/recall`."""

    query: Query
    messages: Annotated[list[ChatMessage], FailFast(), Field(max_length=MAX_MESSAGES)] = Field([])
    session_id: Name | None = None
    user_id: Name | None = None
    project_id: Name | None = None
    agent_id: Name | None = None
    max_tokens: Annotated[int, Field(ge=0, le=100_000)] | None = None
    explain: bool = False


class FoundMemory(msgspec.Struct):
    """A memory, how well it fits (`score` is in [0, 1]), and what that was made of."""

    memory: ShownMemory
    score: float
    signals: dict[str, float]
    rejected: str | UnsetType | None = UNSET


class Found(msgspec.Struct):
    """What a search found, best first."""

    data: list[FoundMemory]
    floor: float | UnsetType = UNSET


@operation("POST", "/v1/memory/search", "memory:read", query=Shown, repeatable=False, audited_read="user.search")
async def search(api: Backends, call: Call, body: SearchBody) -> Found:
    """Search, best first.

    No gate, no floor, no budget.

    What was superseded is left out unless ``active`` or ``as_of`` ask for it. With ``explain`` each memory says why a
    recall for this query would leave it out (``rejected``; null: nothing but the budget speaks against it), and
    ``floor`` is the score that it needs.
    """
    scope, where = scope_and_filter(call.identity, body, api.parts.clock.now())
    if not body.active and body.as_of is None:
        where = msgspec.structs.replace(where, active=True)
    api.require("store")
    where = await in_palace(api, scope, body, await with_subcategories(api, scope, where))
    hits = await api.parts.recall.search(scope, body.query, limit=body.limit, where=where)
    api.accesses.note(scope, [hit.memory.id for hit in hits[:COUNTED]])
    data = [FoundMemory(call.show(hit.memory), hit.score, hit.signals) for hit in hits]
    if not body.explain:
        return Found(data)
    limits = Limits.of(api.parts.settings, RecallLimits())
    for hit, reason in zip(data, why_left_out(hits, limits, body.query, now=api.parts.clock.now()), strict=True):
        hit.rejected = reason
    return Found(data, floor=limits.floor)


class Decision(msgspec.Struct):
    """Whether memory was searched, and why (not)."""

    searched: bool
    reason: str


class Recalled(msgspec.Struct, kw_only=True):
    """The block that the proxy would inject, and how it came about."""

    context: str
    tokens: int
    citations: list[Citation]
    decision: Decision
    timings: dict[str, float]
    degraded: str | UnsetType | None = UNSET
    query: str | UnsetType = UNSET
    floor: float | UnsetType | None = UNSET
    candidates: list[dict[str, Any]] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET


@operation("POST", "/v1/memory/recall", "memory:read", repeatable=False)
async def recall(api: Backends, call: Call, body: RecallBody) -> Recalled:
    """What the proxy would inject.

    The block, its citations, and the gate's verdict, as for a request whose last message is the query.
    """
    scope = call.scope(body.session_id)
    chosen = await api.state.choices(scope)
    texts = [message.content for message in body.messages if message.role == "user" and message.content.strip()]
    if texts and texts[-1].strip() == body.query.strip():
        texts.pop()  # the whole conversation was sent, its last message is the query
    skip = frozenset[str](api.parts.settings.gate.skip if api.parts.settings.gate.enabled else ())
    verdict = _verdict(api, chosen, body.query, skip, follows=bool(texts))
    if not verdict.reaches_memory:
        return _recalled(RecallAnswer(result="empty"), verdict, explain=body.explain)
    api.require("store")
    instructions = [message.content for message in body.messages if message.role in INSTRUCTIONS]
    present = [text_digest(message.content) for message in body.messages if message.content]
    request = RecallRequest(
        request_id=f"api_{uuid.uuid4().hex}",
        scope=scope,
        queries=[*texts[-EARLIER_QUERIES:], body.query],
        nonce=session_nonce(api.parts.secret, scope.tenant, scope.user, scope.session or ""),
        present=[*present, text_digest(body.query), *quoted_digests(instructions, [*texts, body.query])],
        explain=body.explain,
        verdict=verdict.reason,
        only_if_told=verdict.asks_memory,
        first_turn=gate.is_first_search(texts, skip),
        limits=RecallLimits(max_tokens=body.max_tokens, retrieval_limit=chosen.limit, rerank=chosen.rerank),
    )
    recalled = await api.parts.recall.recall(request)
    if recalled.result == "degraded" and recalled.reason in AWAY:
        raise StoreUnavailable("The memory store does not answer just now; nothing was recalled. Try again shortly.")
    api.accesses.note(scope, [line.memory_id for line in recalled.citations])
    verdict = gate.Verdict(searched=recalled.result != "skipped", reason=verdict.reason)
    if body.explain:
        contents = await contents_of(api, scope, [candidate["memory_id"] for candidate in recalled.candidates])
        recalled = msgspec.structs.replace(recalled, candidates=with_contents(recalled.candidates, contents))
    return _recalled(recalled, verdict, explain=body.explain)


def _verdict(api: Backends, chosen: Choices, query: str, skip: frozenset[str], *, follows: bool) -> gate.Verdict:
    if not chosen.recalls:
        return gate.Verdict(searched=False, reason="settings")
    if is_housekeeping(query):
        return gate.Verdict(searched=False, reason="housekeeping")
    if not api.parts.settings.gate.enabled:
        return gate.Verdict(searched=True, reason="gate_off")
    return gate.judge(query, skip, follows=follows)


def _recalled(recalled: RecallAnswer, verdict: gate.Verdict, *, explain: bool) -> Recalled:
    return Recalled(
        context=recalled.context,
        tokens=recalled.tokens,
        citations=recalled.citations,
        decision=Decision(verdict.searched, verdict.reason),
        timings=recalled.timings,
        degraded=recalled.reason if recalled.result == "degraded" else UNSET,
        query=recalled.query if explain else UNSET,
        floor=recalled.floor if explain else UNSET,
        candidates=recalled.candidates if explain else UNSET,
        notes=recalled.notes if explain else UNSET,
    )
