"""Captures an exchange: the new messages and the answer, written to the journal before the answer's end is released."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

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
from memproxy.relay.unwritten import Unwritten, Waiting
from memproxy.relay.work import BodyWork
from memproxy.tasks import TaskOwner
from memproxy.wire.responses import background_key

log = logging.getLogger(__name__)

PROBE = "journal_probe"
"""Key in the state's facts that is written to see whether turns could be."""


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


class SessionNote:
    """Which session an exchange belongs to of which no turn is captured: without it the conversation would fall apart.
    It is noted once: with its answer, or without where that did not come to its end.
    """

    def __init__(self, start: Callable[[str | None, str | None], list[asyncio.Task[None]]] | None = None) -> None:
        """``start`` begins to note it; without it there is none to note."""
        self._start = start

    def keep(self, answer: str | None = None, response_id: str | None = None) -> list[asyncio.Task[None]]:
        """Note it in the background, by the tasks that come back; the second time nothing more happens.
        ``response_id`` is what later requests may go on from.
        """
        start, self._start = self._start, None
        return start(answer, response_id) if start is not None else []


NO_NOTE = SessionNote()
"""There is none to note."""


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
        work: BodyWork,
        shared: bool = False,
    ) -> None:
        """``shared``: other relays may get the conversation's next request, so an answer waits for its session too."""
        self._shared = shared
        self._trouble: str | None = None
        self._state = state
        self._sessions = sessions
        self._engine = engine
        self._commit_timeout_s = commit_timeout_s
        self._redact = redact_kinds
        self._work = work
        self._tasks = TaskOwner("relay.journal")
        self._unwritten = Unwritten(state)

    async def close(self) -> None:
        """Let commits that are under way finish, and try a last time what could not be written; then let be noted what
        belongs to both.
        """
        await self._tasks.drain(self._commit_timeout_s)
        await self._unwritten.close()
        await self._tasks.drain(self._commit_timeout_s)

    async def trouble(self) -> str | None:
        """Why turns cannot be kept, if the last one could not, and still none could."""
        if self._trouble is not None:
            try:
                async with asyncio.timeout(self._commit_timeout_s):
                    await self._state.set_meta(PROBE, datetime.now(UTC).isoformat())
            except StateUnavailable as error:
                self._trouble = error.message
            except TimeoutError:
                pass  # as before, for all that is known
            else:
                self._trouble = None
        return self._trouble

    async def write(self, exchange: Exchange, answer: str, *, response_id: str | None = None) -> None:
        """Make the exchange durable; ``response_id`` is what later requests may go on from. Returns when it is, or when
        waiting longer would hold the answer back too long.

        Never raises: a journal that fails does not cost the answer. The turn waits beside it then (`Unwritten`).
        """
        if response_id is not None:
            exchange = msgspec.structs.replace(exchange, conversation=exchange.conversation.followed_by(response_id))
        size = len(answer) + sum(len(message.content) for message in exchange.messages)
        messages, entry = await self._work.run(partial(self._made, exchange, answer), size)
        if entry is None:
            metrics().capture_skipped.labels(reason="empty").inc()
            return
        late = partial(self._captured_late, exchange, messages, answer)
        waiting = Waiting(entry, len(messages), late)
        commit = self._tasks.start(self._commit(exchange, messages, answer, waiting), "commit")
        done, _ = await asyncio.wait({commit}, timeout=self._commit_timeout_s)
        if not done:
            metrics().internal_errors.labels(where="relay.journal_late").inc()
            if not await self._unwritten.set_aside(waiting):
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

    def session_note(self, scope: Scope, conversation: Conversation, block: NewBlock) -> SessionNote:
        """What notes the session of an exchange that is not captured, and its block with it."""

        def start(answer: str | None, response_id: str | None) -> list[asyncio.Task[None]]:
            followed = conversation if response_id is None else conversation.followed_by(response_id)
            return self._start_noting(scope, followed, block, answer)

        return SessionNote(start)

    def _made(self, exchange: Exchange, answer: str) -> tuple[list[Message], JournalEntry | None]:
        messages = self._cleaned(exchange, answer)
        return messages, _entry(exchange, messages) if messages else None

    def _cleaned(self, exchange: Exchange, answer: str) -> list[Message]:
        spoken = [*exchange.messages, Message(role="assistant", content=answer, id=exchange.answer_id)]
        cleaned = []
        for message in spoken:
            text = redact(strip_blocks(message.content), self._redact) if message.content else ""
            if text.strip():
                name = redact(message.name, self._redact) if message.name else None
                cleaned.append(msgspec.structs.replace(message, content=text, name=name))
        return cleaned

    async def _commit(self, exchange: Exchange, messages: list[Message], answer: str, waiting: Waiting) -> None:
        noting = self._note(exchange, answer) if self._shared else None  # one commit with the turn's
        try:
            if self._unwritten:  # it would come before them, and wait as they did
                raise StateUnavailable(self._trouble or "turns before it wait")
            number = await self._state.append(waiting.entry)
        except StateUnavailable as error:
            self._trouble = error.message
            if noting is None:
                self._note(exchange, answer)  # in memory at least, so that the conversation goes on as one
            await self._unwritten.add(waiting, why=error.message)
            return
        except asyncio.CancelledError:
            await self._unwritten.add(waiting, why="the process ends, and the journal has not answered")
            raise
        await self._unwritten.written(waiting)
        if not number:  # it was erased while its answer was under way
            self._trouble = None
            return
        self._captured(exchange, messages)
        if noting is None:
            self._note(exchange, answer)  # in one commit behind the turn's, which the answer's end waits for
        else:
            await asyncio.wait(noting)

    def _captured(self, exchange: Exchange, messages: Sequence[Message]) -> None:
        self._trouble = None
        metrics().turns_captured.inc(len(messages))
        self._engine.notices.captured(Captured(scope=exchange.scope, access=exchange.access))

    def _captured_late(self, exchange: Exchange, messages: Sequence[Message], answer: str) -> None:
        self._captured(exchange, messages)
        self._note(exchange, answer)

    def _note(self, exchange: Exchange, answer: str) -> list[asyncio.Task[None]]:
        return self._start_noting(exchange.scope, exchange.conversation, exchange.block, answer)

    def _start_noting(
        self, scope: Scope, conversation: Conversation, block: NewBlock, answer: str | None
    ) -> list[asyncio.Task[None]]:
        saving = block.keep()
        noting = self._tasks.start(self._remember(scope, conversation, answer), "remember")
        return [noting] if saving is None else [noting, saving]

    async def _remember(self, scope: Scope, conversation: Conversation, answer: str | None) -> None:
        try:
            await self._sessions.remember(scope, conversation, answer)
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
        captured_at=exchange.conversation.asked_at,
    )
