"""Changes to the conversation of a request: replayed messages before a request without history, a state in place of a
long history's beginning, and the inventory of working memory.

All of it is off by default, and then nothing here runs. What is not there in time is left out, and the answer's header
says so.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from memproxy.core import history
from memproxy.core.bounded import BoundedCache
from memproxy.core.history import CompressAsked, KeptState
from memproxy.core.protocol import ReplayAsked
from memproxy.core.receipt import Carried
from memproxy.core.scope import Scope
from memproxy.core.turn import INSTRUCTIONS, Message, text_digest
from memproxy.errors import CacheUnavailable, MemproxyError, StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import BlockStore, WorkingStore
from memproxy.relay.controls import Controls
from memproxy.relay.engines import Engines
from memproxy.relay.session_blocks import STATE_SHARE, names_of, session_of
from memproxy.relay.session_lookup import Conversation
from memproxy.settings import Settings
from memproxy.wire.request_body import AS_SENT, Context, RequestBody

log = logging.getLogger(__name__)

ASK_AGAIN_S = 60.0
"""Pause before a state that did not come is asked for again: making one takes a model's call or more. It doubles each
time, to a day at most.
"""

_DOUBLINGS = 10

MOST_TOLD = 200
"""Most left out turns that a receipt names."""

LOOKED_THROUGH = 500
"""The inventory is chosen from so many entries of working memory, those changed last."""

REFUSALS = 2
"""After this many refusals of a session's changed conversation the upstream gets it as the client sent it."""

SESSIONS_BYTES = 2 * 1024 * 1024
"""For notes about sessions: some 10,000."""

_SAID = frozenset({"user", "assistant", "tool", "function"})


class MemoryRequest(NamedTuple):
    """A request whose memory is wanted: whose it is, and which conversation it belongs to."""

    request_id: str
    controls: Controls
    scope: Scope
    chat: RequestBody
    conversation: Conversation


class Conversed(msgspec.Struct, frozen=True, kw_only=True):
    """What one request is sent with. ``asks`` is the state to be made after the answer."""

    context: Context = AS_SENT
    carried: Carried = Carried()
    asks: CompressAsked | None = None

    @property
    def is_changed(self) -> bool:
        return self.context is not AS_SENT

    @property
    def replayed_texts(self) -> list[str]:
        """What the user said in the replayed messages."""
        return [text for role, text in self.context.replayed if role == "user"]

    def carrying(self, **carried: Any) -> "Conversed":
        """A copy that notes this for the header and the receipt (fields of `Carried`)."""
        return msgspec.structs.replace(self, carried=msgspec.structs.replace(self.carried, **carried))

    def present(self, chat: RequestBody) -> list[str]:
        """Digests of all that the request will say (`RequestBody.present`)."""
        if not self.is_changed:
            return chat.present
        held = chat.present_without(frozenset(self.context.left_out)) if self.context.left_out else chat.present
        return [*held, *(text_digest(text) for _, text in self.context.replayed)]


UNCHANGED = Conversed()


class Conversations:
    """Decides how requests' conversations are sent."""

    def __init__(self, settings: Settings, state: BlockStore, engine: Engines, working: WorkingStore) -> None:
        self._conversation = settings.conversation
        self._compress = settings.compress
        self._by_model = settings.learn.enabled and settings.learn.mode == "model"
        self._inject = settings.working.inject
        self._state = state
        self._working = working
        self._engine = engine
        self._patience_s = settings.recall.deadline_ms / 1000 * STATE_SHARE
        self._requested: BoundedCache[tuple[str, str, str], tuple[str, float, int]] = BoundedCache(SESSIONS_BYTES)
        self._refusals: BoundedCache[tuple[str, str, str], int] = BoundedCache(SESSIONS_BYTES)
        compresses = self._compress.above_tokens or self._compress.tenants
        self._is_on = bool(self._conversation.replay or compresses) or self._inject != "none"

    def concern(self, controls: Controls) -> bool:
        """Whether any of these changes is on for such a request."""
        return (self._is_on or bool(controls.compress_above)) and controls.mode.injects and controls.mode.recalls

    def refused(self, scope: Scope, *, beside_blocks: bool) -> None:
        """The upstream refused a request with a changed conversation. A block beside it may have been the reason."""
        refusals = (self._refusals.get(session_of(scope)) or 0) + (1 if beside_blocks else REFUSALS)
        self._refusals.put(session_of(scope), refusals)

    async def of(self, request: MemoryRequest, *, nonce: str, halved: int) -> Conversed:
        """What this request is sent with; ``halved``: how often the session's budget was."""
        scope, chat = request.scope, request.chat
        if (self._refusals.get(session_of(scope)) or 0) >= REFUSALS or chat.chain is not None or not chat.user_indexes:
            return UNCHANGED
        above = request.controls.compress_above  # the request's, its agent's or its user's; else its tenant's, or all's
        if above is None:
            above = self._compress.tenants.get(request.controls.tenant, self._compress.above_tokens)
        conversed = UNCHANGED
        # the client sends no history: instructions and one message of the user
        alone = len(chat.user_indexes) == 1 and {message.role for message in chat.messages} <= INSTRUCTIONS | {"user"}
        if self._conversation.replay and request.controls.session is not None and alone:
            conversed = await self._replayed(scope, self._conversation.replay_tokens >> halved)
        elif above and _tokens(chat, 0, len(chat.messages)) > above:
            conversed = await self._compressed(request, nonce=nonce, above=above)
        return await self._with_inventory(conversed, scope, nonce) if self._inject != "none" else conversed

    async def _replayed(self, scope: Scope, tokens: int) -> Conversed:
        request = ReplayAsked(scope=scope, turns=self._conversation.replay, tokens=tokens)
        answer = await self._engine.replay(request)
        messages = [(message.role, message.content) for message in answer.said]
        reasons = {} if answer.reason is None else {"replay": answer.reason}
        replayed = len(messages) if messages or not reasons else None
        carried = Carried(replayed=replayed, reasons=reasons)
        return Conversed(context=Context(replayed=messages) if messages else AS_SENT, carried=carried)

    async def _compressed(self, request: MemoryRequest, *, nonce: str, above: int) -> Conversed:
        """With the session's state in place of the beginning, and a request for the next state where it is due."""
        scope, chat = request.scope, request.chat
        former, rests_on = (None, list[str]()) if request.conversation.begins else await self._read_state(scope)
        users, names = chat.user_indexes, names_of(scope, chat.user_digests, shadow=False)
        roles = [history.Role(message.role, message.has_tool_calls) for message in chat.messages]
        cut = None
        if former is not None and former.after in names[:-1]:
            at = users[names.index(former.after) + 1]
            cut = at if history.may_cut(roles, at) else None
        new, since = history.cut_of(roles, self._compress.keep_last), cut or 0
        long = cut is None or _tokens(chat, since, len(roles)) > above
        asks = None
        if new is not None and new > since and (long or new - since >= self._compress.every_turns):
            asks = self._asks(request, names, since=since, new=new, former=former if cut else None)
        if former is None or cut is None:
            why = "no_model" if not self._by_model else ("not_ready" if new is not None else "short")
            return Conversed(carried=Carried(reasons={"compress": why}), asks=asks)
        gone = [at for at in range(cut) if roles[at].role not in INSTRUCTIONS]
        state = history.state_block(former.state, nonce)
        total, removed = _tokens(chat, 0, len(roles)), sum(_tokens(chat, at, at + 1) for at in gone)
        carried = Carried(
            left_out=len(gone),
            kept=len(roles) - len(gone),
            tokens=(total, total - removed + len(state.encode()) // 4),
            left_out_turns=rests_on[:MOST_TOLD],
        )
        return Conversed(context=Context(left_out=gone, state=state), carried=carried, asks=asks)

    async def _read_state(self, scope: Scope) -> tuple[KeptState | None, list[str]]:
        """The session's state, if all turns that it rests on are there, and their ids."""
        try:
            async with asyncio.timeout(self._patience_s):
                session_blocks = await self._state.find_blocks(scope, [history.STATE])
        except (TimeoutError, StateUnavailable) as error:
            _note("a session's state cannot be read, its request goes on whole", error)
            return None, []
        lines = session_blocks.blocks.get(history.STATE, [])
        turns = [line.memory_id for line in lines if line.memory_id is not None]
        return history.read_kept(next((line.text for line in lines if line.memory_id is None), None), len(turns)), turns

    def _asks(
        self, request: MemoryRequest, names: Sequence[str], *, since: int, new: int, former: KeptState | None
    ) -> CompressAsked | None:
        """The state to be made after this request's answer; None where it may not be, or was asked for just now."""
        controls, chat = request.controls, request.chat
        session, covered = session_of(request.scope), sum(at < new for at in chat.user_indexes)
        if not (controls.mode.captures and controls.learns and self._by_model and covered):
            return None
        after, at, tries = self._requested.get(session) or ("", 0.0, 0)
        is_made = former is not None and former.after == after
        if after and not is_made and time.monotonic() - at < ASK_AGAIN_S * 2**tries:
            return None
        tries = min(tries + 1, _DOUBLINGS) if after and not is_made else 0
        self._requested.put(session, (names[covered - 1], time.monotonic(), tries))
        messages = [message for message in chat.messages[since:new] if message.role in _SAID]
        return CompressAsked(
            after=names[covered - 1],
            messages=[Message(role=message.role, content=message.text, name=message.name) for message in messages],
            tokens=_tokens(chat, since, new),
            asked_at=request.conversation.asked_at,
            former=None if former is None else former.after,
        )

    async def _with_inventory(self, conversed: Conversed, scope: Scope, nonce: str) -> Conversed:
        now = datetime.now(UTC)
        try:
            async with asyncio.timeout(self._patience_s):
                entries = await self._working.newest_working(scope, now, most=LOOKED_THROUGH)
        except (TimeoutError, StateUnavailable, CacheUnavailable) as error:
            _note("working memory cannot be listed, a request goes on without", error)
            reason = "cache" if isinstance(error, CacheUnavailable) else "state"
            return conversed.carrying(reasons={**conversed.carried.reasons, "working": reason})
        shown = history.entries_to_list(
            entries, session=scope.session, agent=scope.agent, all_owners=self._inject == "all"
        )
        conversed = conversed.carrying(entries=[entry.key for entry in shown])
        if not shown:
            return conversed
        context = msgspec.structs.replace(conversed.context, notes=history.working_block(shown, nonce, now))
        return msgspec.structs.replace(conversed, context=context)


def _tokens(chat: RequestBody, first: int, end: int) -> int:
    """About what these messages cost: four bytes of their JSON are a token."""
    return (chat.messages[end - 1].end - chat.messages[first].start) // 4 if end > first else 0


def _note(problem: str, error: Exception) -> None:
    metrics().internal_errors.labels(where="relay.conversation").inc()
    log.warning("%s: %s", problem, error.message if isinstance(error, MemproxyError) else "it takes too long")
