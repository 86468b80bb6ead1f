"""What memory does for one chat request: whose, which session, gate, recall. Decided once, told in the headers."""

import logging
import time
from datetime import UTC, datetime

import msgspec

from memproxy.auth import Authenticator, Headers
from memproxy.core.block import session_nonce
from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.relay.controls import Controls, Mode, read_controls
from memproxy.relay.engine import EngineClient
from memproxy.relay.gate import Gate
from memproxy.relay.request import RawHeaders
from memproxy.relay.sessions import Conversation, Sessions, new_session
from memproxy.wire.chat import ChatRequest

log = logging.getLogger(__name__)

MAX_QUERIES = 4
"""User messages sent to recall: the current one and the three before it, for rewriting."""

STAGES = ("gate", "embed", "search", "assemble", "recall")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What memory does for one request. ``result`` and ``reason`` are those of the header ``X-Memproxy-Recall``."""

    result: str
    reason: str | None = None
    answer: RecallAnswer = RecallAnswer(result="empty")
    timings: dict[str, float] = {}
    scope: Scope | None = None
    conversation: Conversation | None = None
    captures: bool = False

    @property
    def block(self) -> str | None:
        """The text to inject."""
        return self.answer.context if self.result == "injected" else None

    def headers(self, request_id: str) -> RawHeaders:
        """What the answer's headers say of it."""
        told = self.result if self.reason is None else f"{self.result}; reason={self.reason}"
        count = len(self.answer.citations) if self.result in {"injected", "shadow"} else 0
        headers = [
            (b"x-memproxy-request-id", request_id.encode()),
            (b"x-memproxy-recall", told.encode()),
            (b"x-memproxy-memories", str(count).encode()),
        ]
        if self.conversation is not None:
            headers.append((b"x-memproxy-session", self.conversation.session.encode("utf-8")))
        if self.timings:
            shown = [f"{stage};dur={self.timings[stage]:.2f}" for stage in STAGES if stage in self.timings]
            headers.append((b"server-timing", ", ".join(shown).encode()))
        return headers

    def count(self) -> None:
        """Note it in the metrics."""
        metrics().recall.labels(result=self.result, reason=self.reason or "").inc()


class Decider:
    """Decides."""

    def __init__(
        self, *, secret: bytes, authenticator: Authenticator, sessions: Sessions, gate: Gate, engine: EngineClient
    ) -> None:
        self._secret = secret
        self._authenticator = authenticator
        self._sessions = sessions
        self._gate = gate
        self._engine = engine

    async def decide(self, headers: Headers, chat: ChatRequest, request_id: str) -> Decision:
        """Everything between a request's reading and its sending.

        Raises:
            RequestError: a header or field of ours cannot be used; the message names it.
        """
        controls = read_controls(headers, chat, self._authenticator)
        if controls.mode is Mode.OFF:
            return Decision(result="off")
        if controls.user is None:
            return Decision(result="skipped", reason=controls.problem)
        if not chat.user_texts:
            return Decision(result="skipped", reason="no_user_message")
        if self._gate.is_housekeeping(chat.user_texts[-1]):
            return Decision(result="skipped", reason="housekeeping")
        owner = Scope(tenant=controls.tenant, user=controls.user, project=controls.project, agent=controls.agent)
        conversation = await self._conversation(owner, controls.session, chat)
        scope = msgspec.structs.replace(owner, session=conversation.session)
        decision = await self._recall(controls, scope, chat, request_id)
        return msgspec.structs.replace(
            decision, scope=scope, conversation=conversation, captures=controls.mode.captures
        )

    async def _conversation(self, owner: Scope, named: str | None, chat: ChatRequest) -> Conversation:
        now = datetime.now(UTC)
        answers = [message.text for message in chat.messages if message.role == "assistant" and message.text]
        try:
            found = await self._sessions.find(
                owner,
                chat.user_texts,
                answer=answers[-1] if answers else None,
                tool_followup=chat.is_tool_followup,
                now=now,
            )
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.sessions").inc()
            log.warning("sessions cannot be looked up, this request begins a new one: %s", error.message)
            found = Conversation(session=new_session(), said_at=now)
        return msgspec.structs.replace(found, session=named) if named else found

    async def _recall(self, controls: Controls, scope: Scope, chat: ChatRequest, request_id: str) -> Decision:
        if not controls.mode.recalls:
            return Decision(result="off", reason="write")
        began = time.perf_counter()
        verdict = self._gate.judge(chat)
        gate_ms = _ms_since(began)
        if not verdict.searched:
            return Decision(result="skipped", reason=verdict.reason, timings={"gate": gate_ms})
        answer = await self._engine.recall(self._question(controls, scope, chat, request_id))
        timings = {**answer.timings, "gate": gate_ms, "recall": _ms_since(began) - gate_ms}
        told = answer.result if controls.mode.injects or answer.result == "degraded" else "shadow"
        return Decision(result=told, reason=answer.reason, answer=answer, timings=timings)

    def _question(self, controls: Controls, scope: Scope, chat: ChatRequest, request_id: str) -> RecallRequest:
        return RecallRequest(
            request_id=request_id,
            scope=scope,
            queries=chat.user_texts[-MAX_QUERIES:],
            nonce=session_nonce(self._secret, scope.tenant, scope.user, scope.session or ""),
            present=chat.digests,
            limits=controls.limits,
        )


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
