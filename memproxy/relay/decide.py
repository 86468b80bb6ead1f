"""What memory does for one chat request: whose, which session, gate, recall. Decided once, told in the headers."""

import asyncio
import logging
import time
from collections.abc import Awaitable
from datetime import datetime
from typing import TypeVar

import msgspec

from memproxy.auth import Authenticator, Headers
from memproxy.auth.limits import TURNS
from memproxy.core.block import session_nonce
from memproxy.core.choices import NOTHING_CHOSEN, Choices
from memproxy.core.gate import Verdict
from memproxy.core.housekeeping import is_housekeeping
from memproxy.core.protocol import Identity, RecallAnswer, RecallRequest
from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable, Unauthenticated
from memproxy.metrics import metrics
from memproxy.ports import ChoiceStore
from memproxy.relay import counted
from memproxy.relay.budget import Budgets
from memproxy.relay.controls import NO_USER, NOT_ALLOWED, Controls, Mode, narrowed, read_controls, user_of
from memproxy.relay.engine import NOT_ASKED, EngineClient
from memproxy.relay.gate import Gate
from memproxy.relay.limits import ChatLimits
from memproxy.relay.request import RawHeaders
from memproxy.relay.sessions import Conversation, Sessions
from memproxy.relay.sticky import NO_BLOCK, Given, NewBlock, Sticky
from memproxy.wire.request import RequestBody

log = logging.getLogger(__name__)

PATIENCE_S = 1.0
"""Longest that a request waits for what the state knows of its user and session: more than recall's deadline, because
without it the user's choices do not count and a conversation may begin anew.
"""

Result = TypeVar("Result")

MAX_QUERIES = 4
"""User messages sent to recall: the current one and the three before it, for rewriting."""

MOST_QUERIED = 8_000
"""Characters of each, of its beginning and its end: what is asked stands before or after what was pasted."""

_CAUSES = {
    "no_identity": "it brings no API key (`Authorization: Bearer …`, `api-key` or `x-api-key`) to know its user by",
    NO_USER: "it names no user, nor is its key or token for one",
    NOT_ALLOWED: "it names a user whom its key or token may not name",
    "unusable_user": "its field user (or metadata.user_id, safety_identifier) is no usable name. Send X-Memproxy-User",
}
"""Why requests are nobody's, by the reason in their header."""

STAGES = ("gate", "rewrite", "embed", "search", "rerank", "assemble", "recall")


DEGRADED = {
    "timeout": "recall took longer than recall.deadline_ms",
    "busy": "more recalls came than the engine can answer within recall.deadline_ms",
    "engine": "the engine does not answer; /readyz says how it is",
    "loading": "the store is being opened",
    "store": "the store does not answer; /readyz says why",
    "state": "the state could not be asked for the session's blocks",
    "internal": "a fault of memproxy's, which the log tells of",
}
"""What a reason means, for the log. Of ``upstream_rejected`` a line of its own tells, with the upstream's status."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What memory does for one request. ``result`` and ``reason`` are those of the header ``X-Memproxy-Recall``.

    ``answer`` is what was recalled now; ``given`` holds it and the session's earlier blocks, and ``injects`` says that
    they are put into the request. ``scope`` None: nobody's, or refused by who asks. ``searched``: the engine was asked,
    and tells the receipt of it.
    """

    result: str
    reason: str | None = None
    answer: RecallAnswer = RecallAnswer(result="empty")
    given: Given | None = None
    injects: bool = False
    timings: dict[str, float] = {}
    scope: Scope | None = None
    conversation: Conversation | None = None
    captures: bool = False
    searched: bool = False

    @property
    def blocks(self) -> dict[int, str]:
        """The texts to inject, each with the index of the message it stands before."""
        return self.given.texts if self.given is not None and self.injects else {}

    @property
    def has_blocks(self) -> bool:
        """Whether there are any."""
        return self.injects and self.given is not None and bool(self.given.blocks)

    @property
    def memories(self) -> int:
        """How many memories the request carries (in shadow mode: would carry), repeated ones included."""
        return self.given.memories if self.given is not None else 0

    @property
    def new_memories(self) -> int:
        """How many of them were recalled now; the others repeat what the session's earlier requests were given."""
        return len(self.answer.citations) if self.given is not None and self.answer.result == "injected" else 0

    def headers(self) -> RawHeaders:
        """What the answer's headers say of it."""
        told = self.result if self.reason is None else f"{self.result}; reason={self.reason}"
        headers = [
            (b"x-memproxy-recall", told.encode()),
            (b"x-memproxy-memories", str(self.memories).encode()),
            (b"x-memproxy-memories-new", str(self.new_memories).encode()),
        ]
        if self.conversation is not None:
            headers.append((b"x-memproxy-session", self.conversation.session.encode("utf-8")))
        if self.timings:
            shown = [f"{stage};dur={self.timings[stage]:.2f}" for stage in STAGES if stage in self.timings]
            headers.append((b"server-timing", ", ".join(shown).encode()))
        return headers

    def count(self) -> None:
        """Note it in the metrics."""
        counted.recalls(self.result, self.reason or "").inc()


class Decider:
    """Decides."""

    def __init__(
        self,
        *,
        secret: bytes,
        authenticator: Authenticator,
        sessions: Sessions,
        gate: Gate,
        engine: EngineClient,
        sticky: Sticky,
        budgets: Budgets,
        limits: ChatLimits,
        state: ChoiceStore,
        remembered: str,
    ) -> None:
        """``remembered`` says who gets memory, for the log."""
        self._secret = secret
        self._authenticator = authenticator
        self._sessions = sessions
        self._gate = gate
        self._engine = engine
        self._sticky = sticky
        self._budgets = budgets
        self._limits = limits
        self._state = state
        self._told: set[str] = set()
        self._remembered = remembered

    def _tell(self, problem: str | None) -> None:
        """Say once why requests have no memory; ``memproxy_recall_total`` counts them all."""
        if problem in _CAUSES and problem not in self._told:
            self._told.add(problem)
            log.warning(
                "a request has no memory (skipped; reason=%s): %s. Who has: %s. Others are only counted "
                "(memproxy_recall_total)",
                problem,
                _CAUSES[problem],
                self._remembered,
            )

    async def decide(self, headers: Headers, chat: RequestBody, request_id: str, asked_at: datetime) -> Decision:
        """Everything between a request's reading and its sending. ``asked_at`` is when it came.

        Raises:
            RequestError: a header or field of ours cannot be used; the message names it.
        """
        controls = read_controls(headers, chat, await self._identity(headers))
        if controls.mode is Mode.OFF:
            return Decision(result="off")
        if controls.user is None:
            self._tell(controls.problem)
            return Decision(result="skipped", reason=controls.problem)
        owner = Scope(tenant=controls.tenant, user=controls.user, project=controls.project, agent=controls.agent)
        if (reason := self._unsaid(chat)) is not None:
            return Decision(result="skipped", reason=reason, scope=owner, injects=controls.mode.injects)
        controls = narrowed(controls, await self._chosen(owner))
        if controls.mode is Mode.OFF:
            return Decision(result="off", reason="settings", scope=owner)
        full = await self._limits.refused(owner, chat) if controls.mode.captures else None
        if full == TURNS:
            return Decision(result="skipped", reason=full, scope=owner, injects=controls.mode.injects)
        conversation = await self._conversation(owner, controls.session, chat, asked_at)
        scope = msgspec.structs.replace(owner, session=conversation.session)
        decision = await self._recall(controls, scope, chat, request_id, conversation)
        captures = controls.mode.captures and full is None
        return msgspec.structs.replace(
            decision,
            reason=decision.reason or full,
            scope=scope,
            conversation=conversation,
            captures=captures,
        )

    async def admit(self, headers: Headers, chat: RequestBody | None) -> None:
        """Count a request against the limits of chat; without any nothing is asked. ``chat`` None: it cannot be read.

        Raises:
            TooManyRequests: over ``limits.tenant.chat_per_minute`` or ``limits.user.chat_per_minute``.
            RequestError: a header or field of ours cannot be used; the message names it.
        """
        if not self._limits.bounds_chat:
            return
        identity = await self._identity(headers)
        if identity is not None:
            await self._limits.admit(identity.tenant, user_of(identity, chat))

    async def _chosen(self, owner: Scope) -> Choices:
        try:
            return await _soon(self._state.choices(owner))
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.choices").inc()
            log.warning("settings of users cannot be read, the configuration counts: %s", error.message)
            return NOTHING_CHOSEN

    def _unsaid(self, chat: RequestBody) -> str | None:
        """Why there is nothing in the request that memory is for."""
        if not chat.user_texts:
            return None if _goes_on(chat) else "no_user_message"
        return "housekeeping" if is_housekeeping(chat.user_texts[-1]) else None

    async def _identity(self, headers: Headers) -> Identity | None:
        try:
            return await self._authenticator.identify(headers)
        except Unauthenticated:
            return None

    async def _conversation(self, owner: Scope, named: str | None, chat: RequestBody, now: datetime) -> Conversation:
        try:
            found = await _soon(self._known(owner, chat, now))
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.sessions").inc()
            log.warning("sessions cannot be looked up, this request begins a new one: %s", error.message)
            found = Conversation.beginning(now)
        return msgspec.structs.replace(found, session=named, begins=False) if named else found

    async def _known(self, owner: Scope, chat: RequestBody, now: datetime) -> Conversation:
        if chat.chain is not None:
            return await self._sessions.find_chained(owner, chat.chain, now=now)
        return await self._sessions.find(
            owner,
            chat.user_digests,
            answer=chat.last_answer,
            tool_followup=chat.is_tool_followup,
            now=now,
        )

    async def _recall(
        self, controls: Controls, scope: Scope, chat: RequestBody, request_id: str, conversation: Conversation
    ) -> Decision:
        if not controls.mode.recalls:
            return Decision(result="off", reason="write")
        began = time.perf_counter()
        verdict = self._gate.judge(chat) if chat.user_texts else Verdict(searched=True, reason="tool_loop")
        timings = {"gate": _ms_since(began)}
        budget = self._budgets.of(scope, controls.limits.max_tokens)
        given = await self._sticky.given(scope, chat, shadow=not controls.mode.injects, begins=conversation.begins)
        given = given.within(budget.total)
        decision = Decision(result="empty", timings=timings, given=given, injects=controls.mode.injects)
        if chat.is_tool_followup:
            return _followed_up(decision, given, verdict)
        if not verdict.reaches_memory:
            return msgspec.structs.replace(decision, result="skipped", reason=verdict.reason)
        room = budget.beside(given.tokens)
        if given.blocks and not room:
            return _told(msgspec.structs.replace(decision, reason="session_total"))
        question = msgspec.structs.replace(
            self._question(controls, scope, chat, request_id),
            asked_at=conversation.asked_at,
            shown=given.memory_ids,
            limits=msgspec.structs.replace(controls.limits, max_tokens=room),
            verdict=verdict.reason,
            only_if_told=verdict.asks_memory,
            first_turn=not given.blocks and self._gate.is_first_search(chat),
        )
        return _told(await self._searched(decision, given, question))

    async def _searched(self, decision: Decision, given: Given, question: RecallRequest) -> Decision:
        began = time.perf_counter()
        answer = await self._engine.recall(question)
        timings = {**answer.timings, **decision.timings, "recall": _ms_since(began)}
        if answer.result == "injected":
            given = given.adding(answer)
        return msgspec.structs.replace(
            decision,
            result=answer.result,
            reason=answer.reason,
            answer=answer,
            timings=timings,
            given=given,
            searched=answer.reason not in NOT_ASKED,
        )

    def _question(self, controls: Controls, scope: Scope, chat: RequestBody, request_id: str) -> RecallRequest:
        return RecallRequest(
            request_id=request_id,
            scope=scope,
            queries=[_shortened(text) for text in chat.user_texts[-MAX_QUERIES:]],
            nonce=session_nonce(self._secret, scope.tenant, scope.user, scope.session or ""),
            present=chat.present,
            limits=controls.limits,
            chained=chat.chain is not None,
        )

    def new_block(self, decision: Decision) -> NewBlock:
        """What the session's next requests are to repeat. It is kept at once where no turn will be captured."""
        if decision.scope is None or decision.given is None or decision.answer.result != "injected":
            return NO_BLOCK
        block = self._sticky.new_block(decision.scope, decision.given)
        if not decision.captures:
            block.keep()
        return block

    def refused(self, decision: Decision, status: int) -> Decision:
        """The upstream refused a request that was injected into; the client's own bytes take its place."""
        log.warning("the upstream answered %d to an injected request; sent again without memory", status)
        if decision.scope is not None and decision.given is not None and decision.given.has_own:
            self._sticky.take_back(decision.scope, decision.given)
        return msgspec.structs.replace(
            decision, result="degraded", reason="upstream_rejected", given=None, injects=False
        )

    def too_long(self, decision: Decision) -> None:
        """Without what was injected, the request was not too long for the upstream."""
        if decision.scope is not None:
            self._budgets.halve(decision.scope)


async def _soon(reading: Awaitable[Result]) -> Result:
    """What the state is asked for before the upstream is.

    Raises:
        StateUnavailable: also when it takes longer than a request may wait for memory (a write may stand before it).
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reading
    except TimeoutError as error:
        raise StateUnavailable(f"The state took over {PATIENCE_S:g} s.") from error


def _shortened(text: str) -> str:
    half = MOST_QUERIED // 2
    return text if len(text) <= MOST_QUERIED else f"{text[:half]}\n{text[-half:]}"


def _goes_on(chat: RequestBody) -> bool:
    """Whether it brings a tool's result only: what the user said is with the upstream."""
    return chat.chain is not None and chat.is_tool_followup


def _followed_up(decision: Decision, given: Given, verdict: Verdict) -> Decision:
    """A tool loop's follow-up: nobody said anything new, so it carries what its turn did, and nothing is searched."""
    if given.has_own:
        return _told(decision)
    if not verdict.searched:
        return msgspec.structs.replace(decision, result="skipped", reason=verdict.reason)
    if given.erasures is None:
        return msgspec.structs.replace(decision, result="degraded", reason="state")
    return _told(decision)


def _told(decision: Decision) -> Decision:
    """The decision as the header tells it: what the request carries counts, whether it was recalled now or before."""
    if decision.result == "degraded" or (decision.result == "skipped" and not decision.memories):
        return decision
    if not decision.injects:
        return msgspec.structs.replace(decision, result="shadow")
    return msgspec.structs.replace(decision, result="injected" if decision.memories else "empty")


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
