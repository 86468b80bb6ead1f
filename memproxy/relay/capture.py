"""Captures an exchange: the new messages and the answer, written to the journal before the answer's end is released."""

import asyncio
import logging
from datetime import datetime

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.protocol import Captured, TurnsBody, UpstreamAccess
from memproxy.core.receipt import Decided
from memproxy.core.redact import redact
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import JournalEntry, JournalKind, StateStore
from memproxy.relay.engine import EngineClient
from memproxy.relay.sessions import Conversation, Sessions
from memproxy.relay.sticky import NO_BLOCK, NewBlock
from memproxy.tasks import TaskOwner
from memproxy.wire.responses import background_key

log = logging.getLogger(__name__)


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be captured of one request, known before the answer comes. ``decided`` goes into its receipt;
    ``answer_id`` names the answer's turn, where it may come again; ``block`` is kept behind the turn.
    """

    scope: Scope
    conversation: Conversation
    messages: list[Message]
    request_id: str
    access: UpstreamAccess
    decided: Decided | None = None
    answer_id: str | None = None
    block: NewBlock = NO_BLOCK


class Journal:
    """Writes exchanges to the journal. An answer waits for it ``commit_timeout_s`` at most, then goes out anyway."""

    def __init__(
        self,
        state: StateStore,
        sessions: Sessions,
        engine: EngineClient,
        *,
        commit_timeout_s: float,
        redact_kinds: frozenset[str],
    ) -> None:
        self._state = state
        self._sessions = sessions
        self._engine = engine
        self._commit_timeout_s = commit_timeout_s
        self._redact = redact_kinds
        self._tasks = TaskOwner("relay.journal")

    async def close(self) -> None:
        """Let commits that are under way finish."""
        await self._tasks.drain(self._commit_timeout_s)

    async def write(self, exchange: Exchange, answer: str, *, response_id: str | None = None) -> None:
        """Make the exchange durable; ``response_id`` is what later requests may go on from. Returns when it is, or when
        waiting longer would hold the answer back too long.

        Never raises: a journal that fails costs the turn, counted and logged, and not the answer.
        """
        if response_id is not None:
            exchange = msgspec.structs.replace(exchange, conversation=exchange.conversation.followed_by(response_id))
        messages = self._cleaned(exchange, answer)
        if not messages:
            metrics().capture_skipped.labels(reason="empty").inc()
            return
        commit = self._tasks.start(self._commit(exchange, messages, answer), "commit")
        done, _ = await asyncio.wait({commit}, timeout=self._commit_timeout_s)
        if not done:
            metrics().internal_errors.labels(where="relay.journal_late").inc()
            log.error(
                "the journal took over %g s: the answer of %s goes out before its turn is durable",
                self._commit_timeout_s,
                exchange.request_id,
            )

    async def begin(self, exchange: Exchange, response_id: str) -> None:
        """Make durable what a request for a response in the background brought, whose answer is fetched later, and
        note what it is fetched by. As `write`, it never raises.
        """
        conversation = exchange.conversation
        keys = (*conversation.keys, background_key(response_id))
        conversation = msgspec.structs.replace(conversation, keys=keys)
        await self.write(msgspec.structs.replace(exchange, conversation=conversation), "", response_id=response_id)

    def _cleaned(self, exchange: Exchange, answer: str) -> list[Message]:
        spoken = [*exchange.messages, Message(role="assistant", content=answer, id=exchange.answer_id)]
        cleaned = []
        for message in spoken:
            text = redact(strip_blocks(message.content), self._redact) if message.content else ""
            if text.strip():
                cleaned.append(msgspec.structs.replace(message, content=text))
        return cleaned

    async def _commit(self, exchange: Exchange, messages: list[Message], answer: str) -> None:
        entry = _entry(exchange, messages)
        try:
            await self._state.append(entry)
        except StateUnavailable as error:
            metrics().turns_lost.labels(reason="journal").inc(len(messages))
            log.error("turns of %s are lost, the journal failed: %s", exchange.request_id, error.message)
            return
        metrics().turns_captured.inc(len(messages))
        self._engine.captured(Captured(scope=exchange.scope, access=exchange.access))
        exchange.block.keep()  # in one commit with the session, behind the turn's: the answer's end waits for the turn
        self._tasks.start(self._remember(exchange, answer), "remember")

    async def _remember(self, exchange: Exchange, answer: str) -> None:
        try:
            await self._sessions.remember(exchange.scope, exchange.conversation, answer)
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.sessions").inc()
            log.warning("a session could not be noted, its next request may begin a new one: %s", error.message)


def _entry(exchange: Exchange, messages: list[Message]) -> JournalEntry:
    said_at: datetime = exchange.conversation.said_at
    metadata = {"request_id": exchange.request_id}
    body = TurnsBody(messages=messages, said_at=said_at, metadata=metadata, decision=exchange.decided)
    return JournalEntry(
        kind=JournalKind.TURNS,
        scope=exchange.scope,
        body=msgspec.json.encode(body),
        request_id=exchange.request_id,
    )
