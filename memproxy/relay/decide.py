"""What memory does for one chat request: whose it is, which session, gate, recall. Decided once, told in the headers.

Memory is an enhancement. Only a wrong field of ours, or a chat rate that the operator set, refuses a request; whatever
else goes wrong costs it the memory, and the header says so.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import NamedTuple, TypeVar

import msgspec

from memproxy.auth.experiment import Experiment
from memproxy.auth.headers import Headers
from memproxy.auth.limits import CHAT, MEMORIES, TURNS, Rates
from memproxy.auth.modes import Authenticator
from memproxy.core import gate
from memproxy.core.block import session_nonce
from memproxy.core.bounded import BoundedCache
from memproxy.core.choices import NOTHING_CHOSEN, Choices
from memproxy.core.control_phrases import command_in
from memproxy.core.experiment_arms import HOLDOUT, Arm
from memproxy.core.gate import OfferedTool, Verdict
from memproxy.core.housekeeping import is_housekeeping
from memproxy.core.message_kinds import fitted
from memproxy.core.protocol import Identity, RecallAnswer, RecallRequest
from memproxy.core.receipt import Cited, Decided
from memproxy.core.scope import Scope
from memproxy.core.text import message_tokens
from memproxy.errors import MemproxyError, StateUnavailable, TooManyRequests, Unauthenticated
from memproxy.metrics import child, metrics
from memproxy.ports import CallerStore, UsageStore
from memproxy.relay.controls import NO_USER, NOT_ALLOWED, Controls, Mode, narrow, read_controls, user_of
from memproxy.relay.conversation import UNCHANGED, Conversations, Conversed, MemoryRequest
from memproxy.relay.engine_client import NOT_ASKED
from memproxy.relay.engines import Engines
from memproxy.relay.in_chat import InChat
from memproxy.relay.memory_tools import MemoryTools, Offer
from memproxy.relay.request import RawHeaders
from memproxy.relay.session_blocks import NO_BLOCK, BlockKeeper, RequestBlocks, Save, session_of
from memproxy.relay.session_lookup import Conversation, Sessions
from memproxy.settings import GateSettings, LimitsSettings, Settings
from memproxy.wire.request_body import RequestBody

log = logging.getLogger(__name__)

PATIENCE_S = 1.0
"""The longest that a request waits for the state of its user and session: more than recall's deadline, because without
it the user's choices do not count and a conversation may be split.
"""

MAX_QUERIES = 4
"""User messages sent to recall: the current one and the three before it, for rewriting."""

MOST_QUERIED = 8_000
"""Characters of each, of its beginning and its end: a question stands before or after what was pasted."""

STAGES = ("gate", "rewrite", "embed", "search", "rerank", "assemble", "recall")

_NOBODYS = {
    "no_identity": "it brings no API key (`Authorization: Bearer …`, `api-key` or `x-api-key`) to know its user by",
    NO_USER: "it names no user, nor is its key or token for one",
    NOT_ALLOWED: "it names a user whom its key or token may not name",
    "unusable_user": "its field user (or metadata.user_id, safety_identifier) is no usable name. Send X-Memproxy-User",
}
"""Why requests are nobody's, by the reason in their header."""

DEGRADED = {
    "timeout": "recall took longer than recall.deadline_ms",
    "busy": "more recalls came than the engine can answer within recall.deadline_ms",
    "engine": "the engine does not answer; /readyz says how it is",
    "loading": "the store is being opened",
    "store": "the store does not answer; /readyz says why",
    "cache": "the store is away or too slow; hot memories take its place (docs/redis.md)",
    "state": "the state could not be asked for the session's blocks",
    "internal": "a fault of memproxy's, which the log tells of",
}
"""What a reason means, for the log. ``upstream_rejected`` has a line of its own, with the upstream's status."""

Result = TypeVar("Result")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What memory does for one request. ``result`` and ``reason`` are those of the header ``X-Memproxy-Recall``.

    ``answer`` is what was recalled now; ``request_blocks`` holds it and the session's earlier blocks, and ``injects``
    says that they are put into the request. ``scope`` None: nobody's, or refused by the client. ``searched``: the
    engine was asked, and writes the receipt itself. ``arm``: of the experiment, where the request takes part in one.
    ``own_answer`` is what memory itself answers in the upstream's place. ``conversed`` is how the conversation itself
    is sent, ``offer`` what tools of ours go with it.
    """

    result: str
    reason: str | None = None
    answer: RecallAnswer = RecallAnswer(result="empty")
    request_blocks: RequestBlocks | None = None
    injects: bool = False
    timings: dict[str, float] = {}
    scope: Scope | None = None
    conversation: Conversation | None = None
    captures: bool = False
    searched: bool = False
    arm: Arm | None = None
    own_answer: str | None = None
    conversed: Conversed = UNCHANGED
    offer: Offer | None = None

    @property
    def tenant(self) -> str:
        """Whose the request is; empty: nobody's."""
        return self.scope.tenant if self.scope is not None else ""

    @property
    def blocks(self) -> dict[int, str]:
        """The texts to inject, each with the index of the message it stands before."""
        return self.request_blocks.texts if self.request_blocks is not None and self.injects else {}

    @property
    def has_blocks(self) -> bool:
        return self.injects and self.request_blocks is not None and bool(self.request_blocks.blocks)

    @property
    def is_changed(self) -> bool:
        """Whether the request differs from what the client sent."""
        return self.has_blocks or self.conversed.is_changed or self.offer is not None

    @property
    def memories(self) -> int:
        """How many memories the request carries (in shadow mode: would carry), repeated ones included."""
        return self.request_blocks.memories if self.request_blocks is not None else 0

    @property
    def new_memories(self) -> int:
        """How many of them were recalled now; the others repeat what the session's earlier requests were given."""
        return len(self.answer.citations) if self.request_blocks is not None and self.answer.has_block else 0

    def by_what_it_carries(self) -> "Decision":
        """The decision with the header's result: memories count, whether recalled now or before."""
        if self.result == "degraded" or (self.result == "skipped" and not self.memories):
            return self
        carried = "injected" if self.memories else "empty"
        if self.injects:
            return msgspec.structs.replace(self, result=carried)
        return msgspec.structs.replace(self, result="shadow", reason=HOLDOUT if self.arm == HOLDOUT else self.reason)

    def headers(self) -> RawHeaders:
        """The answer's headers about memory."""
        recall = self.result if self.reason is None else f"{self.result}; reason={self.reason}"
        headers = [
            (b"x-memproxy-recall", recall.encode()),
            (b"x-memproxy-memories", str(self.memories).encode()),
            (b"x-memproxy-memories-new", str(self.new_memories).encode()),
        ]
        if self.conversation is not None:
            headers.append((b"x-memproxy-session", self.conversation.session.encode("utf-8")))
        if self.conversed is not UNCHANGED and (context := self.conversed.carried.header()):
            headers.append((b"x-memproxy-context", context.encode()))
        if self.timings:
            shown = [f"{stage};dur={self.timings[stage]:.2f}" for stage in STAGES if stage in self.timings]
            headers.append((b"server-timing", ", ".join(shown).encode()))
        return headers

    def count(self) -> None:
        child(metrics().recall, self.result, self.reason or "").inc()

    def for_receipt(self, *, status: int | None, model: str | None, is_lost: bool = False) -> Decided:
        """The relay's part of the receipt, with the upstream's status and the model that was asked for."""
        return Decided(
            result=self.result,
            reason=self.reason,
            mode=self._mode().value,
            tokens=sum(map(message_tokens, self.request_blocks.texts.values()))
            if self.request_blocks is not None
            else 0,
            memories=self._cited(),
            timings={stage: round(ms, 3) for stage, ms in self.timings.items()},
            status=status,
            model=model,
            context=self.conversed.carried if self.conversed is not UNCHANGED else None,
            is_lost=is_lost,
        )

    def _mode(self) -> Mode:
        """The request's mode: off but captured is writing; with blocks that are not injected it is in the shadow."""
        if self.result == "off":
            return Mode.WRITE if self.captures else Mode.OFF
        if not self.captures:
            return Mode.READ if self.injects else Mode.SHADOW
        return Mode.ON if self.injects or self.request_blocks is None else Mode.SHADOW

    def _cited(self) -> list[Cited]:
        """The memories that the request carries: those recalled for it, then the repeated ones."""
        if self.request_blocks is None:
            return []
        lines = self.answer.citations if self.answer.has_block else []
        new = [Cited(memory_id=line.memory_id, turn_id=line.turn_id, score=round(line.score, 4)) for line in lines]
        new_ids = {cited.memory_id for cited in new}
        repeated = [name for name in dict.fromkeys(self.request_blocks.memory_ids) if name not in new_ids]
        return [*new, *(Cited(memory_id=name, repeated=True) for name in repeated)]


@dataclass(kw_only=True, eq=False)
class Decider:
    """Decides. ``memory_for`` says in a sentence who gets memory, for the log."""

    secret: bytes
    authenticator: Authenticator
    sessions: Sessions
    gate: "Gate"
    engine: Engines
    block_keeper: BlockKeeper
    conversations: Conversations
    budgets: "Budgets"
    limits: "ChatLimits"
    state: CallerStore
    experiment: Experiment
    in_chat: InChat
    tools: MemoryTools
    memory_for: str
    _warned: set[str] = field(default_factory=set)

    async def admit(self, headers: Headers, chat: RequestBody | None) -> None:
        """Count a request against the limits of chat, where there are any. ``chat`` None: it cannot be read.

        Raises:
            TooManyRequests: over ``limits.tenant.chat_per_minute`` or ``limits.user.chat_per_minute``.
            RequestError: a header or field of ours cannot be used; the message names it.
        """
        if self.limits.bounds_chat and (identity := await self._identity(headers)) is not None:
            await self.limits.admit(identity.tenant, user_of(identity, chat))

    async def decide(
        self, headers: Headers, chat: RequestBody, request_id: str, asked_at: datetime, upstream: str
    ) -> Decision:
        """Everything between a request's reading and its sending. ``asked_at`` is when it came, ``upstream`` the name
        of where it goes. Raises `RequestError` as `read_controls`.
        """
        identity = await self._identity(headers)
        controls = read_controls(headers, chat, identity)
        if controls.mode is Mode.OFF:
            return Decision(result="off")
        if controls.user is None:
            self._warn(controls.problem)
            return Decision(result="skipped", reason=controls.problem)
        owner = Scope(tenant=controls.tenant, user=controls.user, project=controls.project, agent=controls.agent)
        if (reason := _nothing_said(chat)) is not None:
            return Decision(result="skipped", reason=reason, scope=owner, injects=controls.mode.injects)
        answered = None
        if identity is not None and self.in_chat.may_be_asked(chat, controls.mode):
            answered = await self._command_answer(identity, owner, controls, chat, asked_at)
        controls = narrow(controls, await self._choices(owner))
        if answered is not None or controls.mode is Mode.OFF:
            return answered or Decision(result="off", reason="settings", scope=owner)
        full = await self.limits.refused(owner, chat) if controls.mode.captures else None
        if full == TURNS:
            return Decision(result="skipped", reason=full, scope=owner, injects=controls.mode.injects)
        conversation = await self._conversation(owner, controls.session, chat, asked_at)
        scope = msgspec.structs.replace(owner, session=conversation.session)
        request, conversed = MemoryRequest(request_id, controls, scope, chat, conversation), UNCHANGED
        if self.conversations.concern(controls) and self.experiment.arm(scope) != HOLDOUT:
            halved = self.budgets.halvings(scope)
            conversed = await self.conversations.of(request, nonce=self._nonce(scope), halved=halved)
        decision, offer = await self._recall(request, conversed), None
        if identity is not None and decision.arm != HOLDOUT and decision.reason not in {"engine", "loading"}:
            offer = await self.tools.offer(controls, identity, scope, chat, upstream)
        return msgspec.structs.replace(
            decision,
            reason=decision.reason or full,
            scope=scope,
            conversation=conversation,
            captures=controls.mode.captures and full is None,
            conversed=conversed if offer is None else conversed.carrying(tools=len(offer.tools)),
            offer=offer,
        )

    async def _command_answer(
        self, identity: Identity, owner: Scope, controls: Controls, chat: RequestBody, asked_at: datetime
    ) -> Decision | None:
        """What memory answers to a message that is meant for it; None where the model is to answer. A user whose
        memory is switched off may switch it on, and have things forgotten.
        """
        command = command_in(chat.texts[-1])
        if command is None:
            return None
        if command.name == "about" and not narrow(controls, await self._choices(owner)).mode.recalls:
            return None
        conversation = await self._conversation(owner, controls.session, chat, asked_at)
        scope = msgspec.structs.replace(owner, session=conversation.session)
        command_scope = msgspec.structs.replace(scope, session=None) if conversation.begins else scope
        own_answer = await self.in_chat.carry_out(command, identity, command_scope, chat)
        if own_answer is None:
            return None
        return Decision(
            result="skipped", reason="control", scope=scope, conversation=conversation, own_answer=own_answer
        )

    async def owner(self, headers: Headers) -> Scope | None:
        """Whose a request is whose body cannot be read, by its key and headers; None: nobody's, or not to be told."""
        try:
            identity = await self.authenticator.identify(headers)
            user = user_of(identity, None)
        except MemproxyError:  # such a request is not ours to refuse
            return None
        if user is None:
            return None
        return Scope(tenant=identity.tenant, user=user, project=identity.project, agent=identity.agent)

    def _nonce(self, scope: Scope) -> str:
        return session_nonce(self.secret, scope.tenant, scope.user, scope.session or "")

    async def _identity(self, headers: Headers) -> Identity | None:
        try:
            return await self.authenticator.identify(headers)
        except Unauthenticated:
            return None

    def _warn(self, problem: str | None) -> None:
        """Log once why requests have no memory; ``memproxy_recall_total`` counts them all."""
        if problem in _NOBODYS and problem not in self._warned:
            self._warned.add(problem)
            log.warning(
                "a request has no memory (skipped; reason=%s): %s. Who has: %s. Others are only counted "
                "(memproxy_recall_total)",
                problem,
                _NOBODYS[problem],
                self.memory_for,
            )

    async def _choices(self, owner: Scope) -> Choices:
        try:
            return await _in_time(self.state.choices(owner))
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.choices").inc()
            log.warning("settings of users cannot be read, the configuration counts: %s", error.message)
            return NOTHING_CHOSEN

    async def _conversation(self, owner: Scope, named: str | None, chat: RequestBody, now: datetime) -> Conversation:
        if chat.chain is not None:
            finding = self.sessions.find_chained(owner, chat.chain, now=now)
        else:
            finding = self.sessions.find(
                owner,
                chat.user_digests,
                answer=chat.last_answer,
                tool_followup=chat.is_tool_followup,
                now=now,
                named=named,
                repeated=len(chat.said_again),
                all_digests=chat.digests,
            )
        try:
            conversation = await _in_time(finding)
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.sessions").inc()
            log.warning("sessions cannot be looked up, this request begins a new one: %s", error.message)
            conversation = Conversation.beginning(now)
        return msgspec.structs.replace(conversation, session=named, begins=False) if named else conversation

    async def _recall(self, request: MemoryRequest, conversed: Conversed) -> Decision:
        _, controls, scope, chat, conversation = request
        if not controls.mode.recalls:
            return Decision(result="off", reason="write")
        began = time.perf_counter()
        verdict = self.gate.judge(chat) if chat.user_texts else Verdict(searched=True, reason="tool_loop")
        timings = {"gate": _ms_since(began)}
        budget = self.budgets.of(scope, controls.limits.max_tokens)
        arm = self.experiment.arm(scope) if controls.mode.injects else None
        injects = controls.mode.injects and arm != HOLDOUT
        request_blocks = await self.block_keeper.blocks_for(scope, chat, shadow=not injects, begins=conversation.begins)
        if conversed.is_changed:
            request_blocks = request_blocks.without(conversed.context.left_out)
        request_blocks = request_blocks.within(budget.total)
        decision = Decision(result="empty", timings=timings, request_blocks=request_blocks, injects=injects, arm=arm)
        if chat.is_tool_followup:
            return _tool_followup(decision, request_blocks, verdict)
        if not verdict.reaches_memory:
            return msgspec.structs.replace(decision, result="skipped", reason=verdict.reason)
        room = budget.beside(request_blocks.tokens)
        if request_blocks.blocks and not room:
            return msgspec.structs.replace(decision, reason="session_total").by_what_it_carries()
        began = time.perf_counter()
        answer = await self.engine.recall(self._question(request, conversed, request_blocks, verdict, room))
        return msgspec.structs.replace(
            decision,
            result=answer.result,
            reason=answer.reason,
            answer=answer,
            timings={**answer.timings, **timings, "recall": _ms_since(began)},
            request_blocks=request_blocks.adding(answer) if answer.has_block else request_blocks,
            searched=answer.reason not in NOT_ASKED,
        ).by_what_it_carries()

    def _question(
        self, request: MemoryRequest, conversed: Conversed, request_blocks: RequestBlocks, verdict: Verdict, room: int
    ) -> RecallRequest:
        """What the engine is asked for beside the request's blocks, of ``room`` tokens at most."""
        request_id, controls, scope, chat, conversation = request
        return RecallRequest(
            request_id=request_id,
            scope=scope,
            queries=[_shortened(text) for text in [*conversed.replayed_texts, *chat.user_texts][-MAX_QUERIES:]],
            nonce=self._nonce(scope),
            present=conversed.present(chat),
            shown=request_blocks.memory_ids,
            limits=msgspec.structs.replace(controls.limits, max_tokens=room),
            chained=chat.chain is not None,
            asked_at=conversation.asked_at,
            verdict=verdict.reason,
            only_if_told=verdict.asks_memory,
            first_turn=not request_blocks.blocks and not conversed.replayed_texts and self.gate.is_first_search(chat),
        )

    def new_block(self, decision: Decision) -> Save:
        """The block that the session's next requests repeat. It is kept at once where no turn will be captured."""
        if decision.scope is None or decision.request_blocks is None or not decision.answer.has_block:
            return NO_BLOCK
        block = self.block_keeper.new_block(decision.scope, decision.request_blocks)
        if not decision.captures:
            block.keep()
        return block

    def refused(self, decision: Decision, status: int) -> Decision:
        """The upstream refused a request that was injected into; the client's own bytes take its place."""
        log.warning("the upstream answered %d to an injected request; sent again without memory", status)
        if decision.scope is not None and decision.conversed.is_changed:
            self.conversations.refused(decision.scope, beside_blocks=decision.has_blocks)
        return self.without_memory(decision, reason="upstream_rejected")

    def without_memory(self, decision: Decision, *, reason: str) -> Decision:
        """The decision for a request that goes as the client wrote it after all; its new block is not kept."""
        if decision.scope is not None and decision.request_blocks is not None and decision.request_blocks.has_own:
            self.block_keeper.take_back(decision.scope, decision.request_blocks)
        plain = msgspec.structs.replace(decision, request_blocks=None, injects=False, conversed=UNCHANGED, offer=None)
        return msgspec.structs.replace(plain, result="degraded", reason=reason)


async def _in_time(reading: Awaitable[Result]) -> Result:
    """What the state answers before the upstream is asked. Raises `StateUnavailable` also when it takes longer than a
    request may wait for memory: a write may stand before it.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reading
    except TimeoutError as error:
        raise StateUnavailable(f"The state took over {PATIENCE_S:g} s.") from error


def _nothing_said(chat: RequestBody) -> str | None:
    """Why nothing in the request is a question to memory."""
    if chat.user_texts:
        return "housekeeping" if is_housekeeping(chat.user_texts[-1]) else None
    only_a_tools_result = chat.chain is not None and chat.is_tool_followup  # the upstream has the user's message
    return None if only_a_tools_result else "no_user_message"


def _shortened(text: str) -> str:
    half = MOST_QUERIED // 2
    return text if len(text) <= MOST_QUERIED else f"{text[:half]}\n{text[-half:]}"


def _tool_followup(decision: Decision, request_blocks: RequestBlocks, verdict: Verdict) -> Decision:
    """A tool loop's follow-up: nobody said anything new, so it carries what its turn did, and nothing is searched."""
    if not request_blocks.has_own and not verdict.searched:
        return msgspec.structs.replace(decision, result="skipped", reason=verdict.reason)
    if not request_blocks.has_own and request_blocks.erasures is None:
        return msgspec.structs.replace(decision, result="degraded", reason="state")
    return decision.by_what_it_carries()


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


class Gate:
    """Says whether a request is worth a search, by its last user message."""

    def __init__(self, settings: GateSettings) -> None:
        self._enabled = settings.enabled
        self._skip = frozenset[str](settings.skip if settings.enabled else ())
        if self._enabled:
            fitted()  # read now rather than while the first request waits

    def judge(self, chat: RequestBody) -> Verdict:
        """The verdict on the request. Offered tools count only when the message, or request, asks for one of them."""
        if not self._enabled:
            return Verdict(searched=True, reason="gate_off")
        *earlier, text = chat.user_texts[-2:]
        short = chat.has_tools and len(text) <= 2 * gate.COMMAND_CHARACTERS  # long ones are no commands
        offered = [OfferedTool(*tool) for tool in chat.offered_tools] if short else []
        return gate.judge(text, self._skip, offered=offered, tool_forced=chat.tool_choice_forced, follows=bool(earlier))

    def is_first_search(self, chat: RequestBody) -> bool:
        """Whether nothing earlier in this conversation was searched for: its first turn may follow a greeting."""
        return gate.is_first_search(chat.user_texts[:-1], self._skip)


BLOCKS_IN_A_SESSION = 4
"""By default (``inject.session_tokens``) all blocks of a session cost at most as much as this many whole ones."""

LEAST_BLOCK_TOKENS = 100
"""With less only a block's heading would fit."""

SESSIONS_BYTES = 4 * 1024 * 1024
"""For the sessions whose budget shrank: some 8,000."""


class Budget(NamedTuple):
    """Tokens of a new block, and of all blocks of a request together."""

    block: int
    total: int

    def beside(self, used: int) -> int:
        """Tokens of a new block beside others that use ``used``; 0 when there is no room for one."""
        room = min(self.block, self.total - used)
        return room if room >= min(self.block, LEAST_BLOCK_TOKENS) else 0


class Budgets:
    """How many tokens the requests of a session may carry: half after each that its upstream found too long. Shrunken
    budgets are kept in memory, the oldest of them forgotten first.
    """

    def __init__(self, settings: Settings) -> None:
        self._block = settings.recall.max_tokens
        self._total = settings.inject.session_tokens
        self._halvings: BoundedCache[tuple[str, str, str], int] = BoundedCache(SESSIONS_BYTES)

    def of(self, scope: Scope, limit: int | None) -> Budget:
        """The budget of a request of this session; ``limit`` is its own limit for a block."""
        halvings = self.halvings(scope)
        block = self._block if limit is None else limit
        total = BLOCKS_IN_A_SESSION * block if self._total is None else self._total
        return Budget(block >> halvings, total >> halvings)

    def halvings(self, scope: Scope) -> int:
        return self._halvings.get(session_of(scope)) or 0

    def halve(self, scope: Scope) -> None:
        """The upstream found a request of this session too long."""
        self._halvings.put(session_of(scope), min(self.halvings(scope) + 1, 30))


FULL_SECONDS = 5.0
"""How long an answer about a memory quota counts. Turns above the quota may come in for as long."""

_QUOTAS_BYTES = 4 * 1024 * 1024


class ChatLimits:
    """What the limits mean for a chat request. Trouble in counting refuses nothing."""

    def __init__(self, limits: LimitsSettings, usage: UsageStore, engine: Engines) -> None:
        self._rates = Rates(limits, usage, lambda: datetime.now(UTC))
        self.bounds_chat = self._rates.bounds(CHAT)
        self._engine = engine
        self._bounds_memories = bool(limits.tenant.memories or limits.user.memories)
        self._full: BoundedCache[tuple[str, str], tuple[float, str | None]] = BoundedCache(_QUOTAS_BYTES)

    async def admit(self, tenant: str, user: str | None) -> None:
        """Count a chat request; raises `TooManyRequests` over ``limits.….chat_per_minute``."""
        try:
            await self._rates.chat(tenant, user)
        except StateUnavailable as error:
            _note_uncounted(error)

    async def refused(self, scope: Scope, chat: RequestBody) -> str | None:
        """The limit by which this request's turns may not be kept, or None; then its new messages and answer are
        counted.
        """
        if self._bounds_memories and (whose := await self._whose_is_full(scope)) is not None:
            metrics().limits_reached.labels(limit=MEMORIES, of=whose).inc()
            return MEMORIES
        if not self._rates.bounds(TURNS):
            return None
        try:
            await self._rates.turns(scope, len(chat.new_messages) + 1)
        except TooManyRequests:
            return TURNS
        except StateUnavailable as error:
            _note_uncounted(error)
        return None

    async def _whose_is_full(self, scope: Scope) -> str | None:
        """Whose memory quota is full, as the engine said lately."""
        noted = self._full.get(scope.owner)
        if noted is not None and monotonic() - noted[0] < FULL_SECONDS:
            return noted[1]
        whose = await self._engine.full(scope)
        self._full.put(scope.owner, (monotonic(), whose))
        return whose


def _note_uncounted(error: StateUnavailable) -> None:
    metrics().internal_errors.labels(where="relay.limits").inc()
    log.warning("limits cannot be counted, requests go on: %s", error.message)
