"""Captures an exchange: the new messages and the answer, written to the journal before the answer's end is released."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.history import CompressAsked
from memproxy.core.protocol import COMPRESS, Captured, LearnBody, TurnsBody, UpstreamAccess
from memproxy.core.receipt import Decided
from memproxy.core.redact import redact
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.errors import RequestError, StateUnavailable
from memproxy.logs import LogLimit
from memproxy.metrics import metrics
from memproxy.ports import JournalEntry, JournalKind, StateStore
from memproxy.relay.bodies import BodyWork
from memproxy.relay.engines import Engines
from memproxy.relay.session_blocks import NO_BLOCK, Save
from memproxy.relay.session_lookup import Conversation, Sessions
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner
from memproxy.traces import TRACEPARENT
from memproxy.wire.responses import background_key

MOST_BYTES = 16 * 1024 * 1024
"""Most bytes of turns waiting in memory. More text waits only beside the journal, or is lost and counted."""

TRY_AGAIN_S = 1.0
LAST_TRY_S = 2.0
"""How long the journal is tried at shutdown for what still waits."""

LOG_EVERY_S = 30.0
"""Log at most this often during an outage: thousands of turns come in one."""


@dataclass(eq=False)
class Waiting:
    """A journal entry that waits, and the number of its messages; ``written`` is called when it is durable."""

    entry: JournalEntry
    messages: int
    written: Callable[[], None]
    aside: asyncio.Task[int | None] | None = None
    is_written: bool = False
    is_lean: bool = False
    """Whether its text is only beside the journal, where the engine finds it by itself."""


class CaptureBacklog:
    """Turns that the journal could not take (its disk is full, its file is away or locked), kept until it can: the
    oldest first, in memory, and, where the state can, beside the journal, where they survive this process.
    """

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._tasks = TaskOwner("relay.unwritten")
        self._asides = TaskOwner("relay.aside")
        self._waiting: deque[Waiting] = deque()
        self._bytes = 0
        self._outage = LogLimit(LOG_EVERY_S)
        self._trying: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        """Whether entries wait; a new one waits after them."""
        return bool(self._waiting)

    async def spill(self, waiting: Waiting) -> bool:
        """Write it once beside the journal, unless the journal has it; returns whether that succeeded."""
        if waiting.is_written:
            return True
        if waiting.aside is None:
            waiting.aside = self._asides.start(self._state.set_aside(waiting.entry), "set aside")
        return await asyncio.shield(waiting.aside) is not None

    async def written(self, waiting: Waiting) -> None:
        waiting.is_written = True
        if waiting.aside is not None and (spill := await asyncio.shield(waiting.aside)) is not None:
            await self._state.drop_aside(spill)

    async def add(self, waiting: Waiting, *, why: str) -> None:
        """Write it as soon as the journal works again."""
        size = len(waiting.entry.body)
        fits = self._bytes + size <= MOST_BYTES
        self._bytes += size
        self._waiting.append(waiting)
        if self._trying is None or self._trying.done():
            self._trying = self._tasks.start(self._try_again(), "write what waits")
        durable = await self.spill(waiting)
        if not fits and waiting in self._waiting and waiting is not self._waiting[0]:  # the first is being written
            self._bytes -= size
            if durable:
                waiting.entry = msgspec.structs.replace(waiting.entry, body=b"")
                waiting.written, waiting.is_lean = lambda: None, True
            else:
                self._waiting.remove(waiting)
                _count_lost(waiting, why)
                return
        if self._outage.due("wait"):
            where = "beside the journal" if durable else "in memory"
            log.error("turns (%d, since %s) wait %s: %s", len(self._waiting), waiting.entry.request_id, where, why)

    async def close(self) -> None:
        """Try a last time; what fails waits beside the journal for the next start, or is lost."""
        await self._tasks.cancel()
        why: str | None = f"it took over {LAST_TRY_S:g} s"
        try:
            async with asyncio.timeout(LAST_TRY_S):
                why = await self._write_all()
        except TimeoutError:
            pass  # `why` says so
        for waiting in self._waiting:
            if not await self.spill(waiting):
                _count_lost(waiting, why or "")
        self._waiting.clear()
        await self._asides.drain(LAST_TRY_S)

    async def _try_again(self) -> None:
        while self._waiting:
            await asyncio.sleep(TRY_AGAIN_S)
            await self._write_all()

    async def _write_all(self) -> str | None:
        """Why one could not be written; the later ones wait as well."""
        number = 0
        while self._waiting:
            waiting = self._waiting[0]
            entry: JournalEntry | None = waiting.entry
            if waiting.is_lean and waiting.aside is not None:
                spill = await asyncio.shield(waiting.aside)
                entry = None if spill is None else await self._state.read_aside(spill)
            if entry is None:
                self._waiting.popleft()
                _count_lost(waiting, "what was set aside is not there any more")
                continue
            try:
                written = await self._state.append(entry)
            except StateUnavailable as error:
                return error.message
            except RequestError as error:  # it never will be; later ones do not wait for that
                _count_lost(waiting, error.message, reason="refused")
            else:
                number += 1
                if written:  # else its user was erased meanwhile
                    waiting.written()
            self._waiting.popleft()
            self._bytes -= len(waiting.entry.body)
            await self.written(waiting)
        if number:
            log.info("turns that waited (%d) are in the journal now", number)
            self._outage = LogLimit(LOG_EVERY_S)
        return None


def _count_lost(waiting: Waiting, why: str, *, reason: str = "journal") -> None:
    metrics().turns_lost.labels(reason=reason).inc(waiting.messages)
    log.error("turns of %s are lost, the journal failed: %s", waiting.entry.request_id, why)


log = logging.getLogger(__name__)

PROBE = "journal_probe"
"""Key of the state that is written to test whether turns could be."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be captured of one request, known before the answer comes. ``decided`` goes into its receipt;
    ``answer_id`` names the answer's turn, where it may come again; ``block`` is kept after the turn, and the state that
    it ``asks`` for is made then. ``trace`` names the request's span, where it has one.
    """

    scope: Scope
    conversation: Conversation
    messages: list[Message]
    request_id: str
    access: UpstreamAccess
    decided: Decided | None = None
    answer_id: str | None = None
    block: Save = NO_BLOCK
    asks: CompressAsked | None = None
    trace: str | None = None


class CaptureJournal:
    """Writes exchanges to the journal. An answer waits for it ``state.commit_timeout_ms`` at most, and goes out then.

    Where nothing is captured, the session of the exchange is still noted: else its next request would not be
    recognised as the same conversation.
    """

    def __init__(
        self, state: StateStore, sessions: Sessions, engine: Engines, work: BodyWork, settings: Settings
    ) -> None:
        self._shared = settings.shares_state
        """Whether other relays may get the conversation's next request, so that an answer waits for its session too."""
        self._trouble: str | None = None
        self._state = state
        self._sessions = sessions
        self._engine = engine
        self._commit_timeout_s = settings.state.commit_timeout_ms / 1000
        self._redact = frozenset[str](settings.privacy.redact)
        self._work = work
        self._tasks = TaskOwner("relay.journal")
        self._backlog = CaptureBacklog(state)

    async def close(self) -> None:
        """Let commits under way finish, retry what could not be written, then write the notes of both."""
        await self._tasks.drain(self._commit_timeout_s)
        await self._backlog.close()
        await self._tasks.drain(self._commit_timeout_s)

    async def trouble(self) -> str | None:
        """Why turns cannot be kept; None when the last one was, or the next would be."""
        if self._trouble is not None and not self._backlog:  # a full disk may take a small write, and no turns
            try:
                async with asyncio.timeout(self._commit_timeout_s):
                    await self._state.set_meta(PROBE, datetime.now(UTC).isoformat())
            except StateUnavailable as error:
                self._trouble = error.message
            except TimeoutError:
                pass  # it may be as before
            else:
                self._trouble = None
        return self._trouble

    async def write(
        self, exchange: Exchange, answer: str, *, response_id: str | None = None, is_begun: bool = False
    ) -> None:
        """Make the exchange durable; ``response_id`` is what later requests may go on from. ``is_begun``: the response
        is made in the background, and its answer fetched later by its id. Returns when it is durable, or when waiting
        longer would hold the answer back too long.

        Raises nothing when the journal fails: the turn waits beside it then (`CaptureBacklog`).
        """
        if response_id is not None:
            keys = (background_key(response_id),) if is_begun else ()
            conversation = exchange.conversation.followed_by(response_id, *keys)
            exchange = msgspec.structs.replace(exchange, conversation=conversation)
        size = len(answer) + sum(len(message.content) for message in exchange.messages)
        messages, entry = await self._work.run(partial(self._entry, exchange, answer), size)
        if not messages:
            metrics().capture_skipped.labels(reason="empty").inc()
            self._note_session(exchange, answer)
            return

        def written() -> None:
            self._note_captured(exchange, len(messages))
            self._note_session(exchange, answer)

        waiting = Waiting(entry, len(messages), written)
        commit = self._tasks.start(self._commit(exchange, answer, waiting), "commit")
        done, _ = await asyncio.wait({commit}, timeout=self._commit_timeout_s)
        if not done:
            metrics().internal_errors.labels(where="relay.journal_late").inc()
            if not await self._backlog.spill(waiting):
                log.error(
                    "the journal took over %g s: the answer of %s goes out before its turn is durable",
                    self._commit_timeout_s,
                    exchange.request_id,
                )

    def note(
        self,
        scope: Scope,
        conversation: Conversation,
        block: Save,
        answer: str | None = None,
        response_id: str | None = None,
    ) -> list[asyncio.Task[None]]:
        """Note in the background which session these messages and ``answer`` belong to, and keep its block. Without an
        ``answer`` that did not come to its end; ``response_id`` is what later requests may go on from.
        """
        if response_id is not None:
            conversation = conversation.followed_by(response_id)
        saving = block.keep()
        return [self._tasks.start(self._remember(scope, conversation, answer), "remember"), *saving]

    def _entry(self, exchange: Exchange, answer: str) -> tuple[list[Message], JournalEntry]:
        """The messages as they are kept, without our blocks and redacted, and the journal's row of them."""
        spoken = [*exchange.messages, Message(role="assistant", content=answer, id=exchange.answer_id)]
        messages = [message for message in map(self._cleaned, spoken) if message.content.strip()]
        traced = {TRACEPARENT: exchange.trace} if exchange.trace is not None else {}
        body = TurnsBody(
            messages=messages,
            said_at=self._state.shared(exchange.conversation.said_at),
            metadata={"request_id": exchange.request_id, **traced},
            decision=exchange.decided,
            is_machine_time=not self._state.knows_time,
        )
        return messages, JournalEntry(
            kind=JournalKind.TURNS,
            scope=exchange.scope,
            body=msgspec.json.encode(body),
            request_id=exchange.request_id,
            captured_at=exchange.conversation.asked_at,
        )

    def _cleaned(self, message: Message) -> Message:
        """A message as it is kept: without our blocks, and redacted."""
        text = redact(strip_blocks(message.content), self._redact) if message.content else ""
        name = redact(message.name, self._redact) if message.name else None
        said_at = self._state.shared(message.timestamp) if message.timestamp is not None else None
        return msgspec.structs.replace(message, content=text, name=name, timestamp=said_at)

    async def _commit(self, exchange: Exchange, answer: str, waiting: Waiting) -> None:
        noting = self._note_session(exchange, answer) if self._shared else None  # one commit with the turn's
        try:
            if self._backlog:  # it would overtake them, and wait as they do
                raise StateUnavailable(self._trouble or "turns before it wait")
            number = await self._state.append(waiting.entry)
        except StateUnavailable as error:
            self._trouble = error.message
            if noting is None:
                self._note_session(exchange, answer)  # in memory at least, so that the conversation goes on as one
            await self._backlog.add(waiting, why=error.message)
            return
        except RequestError as error:  # it never will be written
            _count_lost(waiting, error.message, reason="refused")
            return
        except asyncio.CancelledError:
            await self._backlog.add(waiting, why="the process ends, and the journal has not answered")
            raise
        await self._backlog.written(waiting)
        if not number:  # it was erased while its answer was under way
            self._trouble = None
            return
        self._note_captured(exchange, waiting.messages)
        if noting is None:
            self._note_session(exchange, answer)  # in one commit after the turn's, which the answer's end waits for
        else:
            await asyncio.wait(noting)

    def _note_captured(self, exchange: Exchange, messages: int) -> None:
        self._trouble = None
        metrics().turns_captured.inc(messages)
        self._engine.notify(Captured(scope=exchange.scope, access=exchange.access))
        if exchange.asks is not None:
            self._tasks.start(self._ask_state(exchange, exchange.asks), "ask state")

    async def _ask_state(self, exchange: Exchange, asks: CompressAsked) -> None:
        """Ask for the session's state, behind the turn. Without it the next requests go on whole, and ask again."""
        size = sum(len(message.content) for message in asks.messages)
        entry = await self._work.run(partial(self._state_entry, exchange, asks), size)
        try:
            await self._state.append(entry)
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.conversation").inc()
            log.warning("a session's state could not be asked for: %s", error.message)

    def _state_entry(self, exchange: Exchange, asks: CompressAsked) -> JournalEntry:
        asks = msgspec.structs.replace(asks, messages=[self._cleaned(message) for message in asks.messages])
        body = LearnBody(unlearned=0, reason=COMPRESS, model=exchange.access.model or None, compress=asks)
        return JournalEntry(
            kind=JournalKind.LEARN,
            scope=exchange.scope,
            body=msgspec.json.encode(body),
            captured_at=exchange.conversation.asked_at,
        )

    def _note_session(self, exchange: Exchange, answer: str) -> list[asyncio.Task[None]]:
        return self.note(exchange.scope, exchange.conversation, exchange.block, answer)

    async def _remember(self, scope: Scope, conversation: Conversation, answer: str | None) -> None:
        try:
            await self._sessions.remember(scope, conversation, answer)
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.sessions").inc()
            log.warning("a session could not be noted, its next request may begin a new one: %s", error.message)
