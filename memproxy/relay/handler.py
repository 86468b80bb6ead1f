"""A request that carries memory, in order: read, decide what memory does, inject, send, relay, capture."""

import asyncio
import json
import logging
import time
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import msgspec

from memproxy.auth import client_key
from memproxy.core.protocol import Identity, UpstreamAccess
from memproxy.core.receipt import ReceiptPart
from memproxy.errors import Overloaded, RequestError
from memproxy.logs import Seldom
from memproxy.metrics import metrics
from memproxy.relay import compressed, counted
from memproxy.relay.admission import Admission, MadeResponses
from memproxy.relay.capture import NO_NOTE, Exchange, Journal, SessionNote
from memproxy.relay.controls import Mode, read_mode, user_of
from memproxy.relay.decide import DEGRADED, Decider, Decision
from memproxy.relay.engine import EngineClient
from memproxy.relay.hangup import Hangups
from memproxy.relay.passthrough import Passthrough
from memproxy.relay.position import Positions
from memproxy.relay.receipt import decided
from memproxy.relay.refusal import Refusal, refusal_of
from memproxy.relay.request import Request
from memproxy.relay.sticky import NO_BLOCK, NewBlock
from memproxy.relay.stream import Copies, Keep, Named, Tap, relay_body
from memproxy.relay.upstream import Upstream, UpstreamAnswer
from memproxy.relay.upstreams import Upstreams
from memproxy.relay.work import OFF_LOOP_BYTES, BodyWork, Stop
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner
from memproxy.wire.controls import may_hold_ours
from memproxy.wire.format import RESPONSES, Answer, WireFormat
from memproxy.wire.request import MOST_BYTES, RequestBody
from memproxy.wire.responses import ResponsesRequest
from memproxy.wire.splice import Unreadable

log = logging.getLogger(__name__)


NOTED_WITHIN_S = 0.5
"""An answer that is not captured waits so long for its session's notes, which were begun before it was asked for."""

MOST_PARSED = 1024 * 1024
"""A body of more bytes that the strict parser does not take is for the default upstream: Python's own parser, which
takes more, keeps all others waiting.
"""


class _Modelled(msgspec.Struct):
    model: str | None = None


_MODEL = msgspec.json.Decoder(_Modelled)

_OFF = Decision(result="off")
_UNREADABLE = Decision(result="skipped", reason="unreadable")


class _Asked(NamedTuple):
    """One request, read."""

    request: Request
    chat: RequestBody
    wire: WireFormat
    upstream: Upstream
    body: bytes
    encoding: str | None
    named: Named | None
    at: datetime


class ChatHandler:
    """Handles ``POST /v1/chat/completions`` and ``POST /v1/responses``."""

    def __init__(
        self,
        *,
        settings: Settings,
        decider: Decider,
        upstreams: Upstreams,
        journal: Journal,
        passthrough: Passthrough,
        positions: Positions,
        engine: EngineClient,
        tasks: TaskOwner,
        admission: Admission,
        made: MadeResponses,
        work: BodyWork,
        copies: Copies,
    ) -> None:
        self._admission = admission
        self._made = made
        self._work = work
        self._copies = copies
        self._positions = positions
        self._engine = engine
        self._shared = settings.server.workers > 1
        self._max_body_bytes = settings.server.max_body_bytes
        self._decider = decider
        self._upstreams = upstreams
        self._journal = journal
        self._passthrough = passthrough
        self._hangups = Hangups(tasks)
        self._degraded = Seldom()

    async def handle(self, request: Request, wire: WireFormat, caller: Identity | None) -> int:
        """Answer the request, which is of this format; the status that went out. ``caller`` is whom `Admission` let
        pass; None where the client's own key goes upstream.

        Raises:
            MemproxyError: to be answered as an error of ours, if nothing went out yet.
            ClientGone: the client left.
        """
        body = await request.body(self._max_body_bytes)
        began, asked_at = time.perf_counter(), datetime.now(UTC)
        off = read_mode(request.headers, None) is Mode.OFF
        encoding = compressed.encoding_of(request.headers)
        names = caller is not None and wire is RESPONSES
        read = names or self._upstreams.routed
        if off and encoding is None and not read and not await self._may_hold_ours(body):
            counted.overhead(wire.name).observe(time.perf_counter() - began)
            return await self._untouched(request, body, off=off)
        try:
            chat = await self._read(request, body, encoding, wire)
        except Unreadable as problem:
            if caller is not None and names:
                self._admission.check_unread(caller)
            log.debug("%s cannot be read (%s) and goes on untouched", request.request_id, problem.reason)
            return await self._untouched(request, body, off=off)
        upstream = self._upstreams.of(chat.model)
        named = await self._named(caller, chat, upstream) if caller is not None else None
        with self._hangups.watching(request):
            decision = await self._decide(request, chat, asked_at)
            request.told = decision.headers()
            tenant = decision.scope.tenant if decision.scope is not None else ""
            position = self._positions.of(tenant, upstream.name, chat.kept_model)
            sent = await self._work.run(partial(chat.rebuild_with, decision.blocks, position), len(chat.body))
            # beside the upstream's work, not before it
            asyncio.get_running_loop().call_soon(self._count_decided, wire, decision, time.perf_counter() - began)
            asked = _Asked(request, chat, wire, upstream, body, encoding, named, asked_at)
            return await self._exchange(asked, decision, sent)

    async def _named(self, caller: Identity, chat: RequestBody, upstream: Upstream) -> Named | None:
        """What notes whose response it will be; only what this caller may fetch may it go on from."""
        if not isinstance(chat, ResponsesRequest):
            return None
        user = user_of(caller, chat)
        await self._admission.check_chain(caller, user, upstream.name, chat.kept_upstream)
        return partial(self._made.note, caller, user, upstream.name)

    async def _may_hold_ours(self, body: bytes) -> bool:
        """False also of what is too large to be looked at."""
        if len(body) <= OFF_LOOP_BYTES:
            return may_hold_ours(body)
        return len(body) <= MOST_BYTES and await self._work.run(partial(may_hold_ours, body), len(body))

    async def _read(self, request: Request, body: bytes, encoding: str | None, wire: WireFormat) -> RequestBody:
        if encoding is None and len(body) <= OFF_LOOP_BYTES:
            return _read(request, body, wire)

        def read(stop: Stop) -> RequestBody:
            plain = body if encoding is None else compressed.opened(body, encoding, MOST_BYTES, stop)
            chat = _read(request, plain, wire)
            stop.check()
            chat.look()
            return chat

        try:
            with self._hangups.watching(request):
                chat = await self._work.read(read)
            request.hold(len(chat.body) if encoding is not None else 0)
        except Overloaded as error:  # no time for it, or no room: it is memory that goes without
            raise Unreadable("overloaded") from error
        return chat

    async def _decide(self, request: Request, chat: RequestBody, asked_at: datetime) -> Decision:
        await self._decider.admit(request.headers, chat)
        try:
            return await self._decider.decide(request.headers, chat, request.request_id, asked_at)
        except RequestError:
            raise
        except Exception:
            # Memory is an enhancement: a fault of ours in deciding about it, whatever it is, costs the memory only.
            metrics().internal_errors.labels(where="relay.decide").inc()
            log.exception("deciding about memory failed; %s goes on without it", request.request_id)
            return Decision(result="degraded", reason="internal")

    def _count_decided(self, wire: WireFormat, decision: Decision, overhead_s: float) -> None:
        decision.count()
        counted.overhead(wire.name).observe(overhead_s)
        if decision.result == "degraded" and decision.reason is not None:
            self._tell_degraded(decision.reason)

    def _tell_degraded(self, reason: str) -> None:
        if count := self._degraded.due(reason):
            meaning = DEGRADED.get(reason, "/readyz says how the parts of memory are")
            fields = {"reason": reason, "count": count}
            log.warning(
                "recall is degraded (%s), %d requests went on without memory: %s",
                *(reason, count, meaning),
                extra={"fields": fields},
            )

    async def _untouched(self, request: Request, body: bytes, *, off: bool) -> int:
        """A body that we cannot read, or need not, goes on as it is; the upstream says what it thinks of it."""
        await self._decider.admit(request.headers, None)
        decision = _OFF if off else _UNREADABLE
        decision.count()
        request.told = decision.headers()
        upstream = self._upstreams.default
        if self._upstreams.routed:
            upstream = self._upstreams.of(await self._work.run(partial(_model_in, body), len(body)))
        return await self._passthrough.send(request, body, upstream)

    async def _exchange(self, asked: _Asked, decision: Decision, sent: bytes) -> int:
        request, chat = asked.request, asked.chat
        began = time.perf_counter()
        block = self._decider.new_block(decision)
        answer = await self._send(asked, sent)
        tap: Tap | None = None
        note = NO_NOTE
        try:
            refusal = await refusal_of(answer) if decision.has_blocks else None
            if refusal is not None:
                answer.close()
                decision, block = self._decider.refused(decision, answer.status), NO_BLOCK
                decision.count()
                request.told = decision.headers()
                plain = await self._work.run(partial(chat.rebuild, None), len(chat.body))
                answer = await self._send(asked, plain)
                self._learn(refusal, asked, decision, answer)
            asyncio.get_running_loop().call_soon(_count_injected, decision)
            self._tell_receipt(asked, decision, answer)
            exchange = self._to_capture(asked, decision, answer, block)
            note = self._to_note(decision, block)
            keep = self._keeper(exchange, note, block, answer)
            if keep is None:
                await self._noted(note, block)
            tap = self._tap(asked, answer, keep, captures=exchange is not None)
            await request.begin(answer.status, answer.headers)
            await relay_body(request, answer, tap)
        finally:
            block.keep()
            answer.close()
            metrics().upstream.observe(time.perf_counter() - began)
            if tap is not None and tap.goes_on:
                await tap.finish()  # whoever left this stream may fetch what it comes to
            note.keep()
        return answer.status

    async def _send(self, asked: _Asked, body: bytes) -> UpstreamAnswer:
        request = asked.request
        if asked.encoding is not None:
            same = body == asked.chat.body
            closed = partial(compressed.closed, body, asked.encoding)
            body = asked.body if same else await self._work.run(closed, len(body))
        headers = asked.upstream.headers_for(request.headers, len(body))
        return await asked.upstream.send(request.method, request.raw_path, headers, body)

    def _tell_receipt(self, asked: _Asked, decision: Decision, answer: UpstreamAnswer) -> None:
        """Of what the engine was not asked for it knows nothing; of a captured turn it hears, but later than the client
        may ask for the receipt.
        """
        if decision.scope is not None and not decision.searched:
            told = decided(decision, status=answer.status, model=asked.chat.kept_model)
            part = ReceiptPart(request_id=asked.request.request_id, scope=decision.scope, at=asked.at, decided=told)
            self._engine.notices.decided(part)

    async def _noted(self, note: SessionNote, block: NewBlock, seen: Answer | None = None) -> None:
        """Note what is not captured. Where there are other relays, one may get the next request of a conversation as
        soon as this answer is complete.
        """
        noting = note.keep(seen.text, seen.response_id) if seen is not None else note.keep()
        if (saving := block.keep()) is not None:
            noting.append(saving)
        if self._shared and noting:
            await asyncio.wait(noting, timeout=NOTED_WITHIN_S)

    def _tap(self, asked: _Asked, answer: UpstreamAnswer, keep: Keep | None, *, captures: bool) -> Tap | None:
        named = asked.named if 200 <= answer.status < 300 else None
        if keep is None and named is None:
            return None
        return Tap(
            answer,
            asked.wire,
            asked.request.request_id,
            keep,
            copies=self._copies,
            asked_for_stream=asked.chat.stream,
            named=named,
            captures=captures,
        )

    def _keeper(
        self, exchange: Exchange | None, note: SessionNote, block: NewBlock, answer: UpstreamAnswer
    ) -> Keep | None:
        """What keeps the answer, or only notes it; None where it is not looked at."""
        if exchange is None:
            return partial(self._noted, note, block) if note is not NO_NOTE and 200 <= answer.status < 300 else None

        async def keep(seen: Answer) -> None:
            if seen.begun:
                await self._journal.begin(exchange, seen.response_id or "")
            else:
                await self._journal.write(exchange, seen.text, response_id=seen.response_id)

        return keep

    def _to_note(self, decision: Decision, block: NewBlock) -> SessionNote:
        """Of what is not captured the session is noted all the same, whatever was recalled for it."""
        if decision.scope is None or decision.conversation is None or decision.captures:
            return NO_NOTE
        return self._journal.session_note(decision.scope, decision.conversation, block)

    def _learn(self, refusal: Refusal, asked: _Asked, decision: Decision, answer: UpstreamAnswer) -> None:
        """What a refusal teaches, if it really was what we injected: without it, the upstream answered."""
        if not 200 <= answer.status < 300:
            return
        if refusal is Refusal.ROLES:
            tenant = decision.scope.tenant if decision.scope is not None else ""
            self._positions.refused(tenant, asked.upstream.name, asked.chat.kept_model)
        elif refusal is Refusal.LENGTH:
            self._decider.too_long(decision)

    def _to_capture(
        self, asked: _Asked, decision: Decision, answer: UpstreamAnswer, block: NewBlock
    ) -> Exchange | None:
        if decision.scope is None or decision.conversation is None or not decision.captures:
            return None
        if not 200 <= answer.status < 300:
            return None
        access = UpstreamAccess(
            base_url=asked.upstream.base_url,
            model=asked.chat.kept_model or "",
            route=asked.upstream.route,
            api_key=client_key(asked.request.headers) if asked.upstream.takes_client_key else None,
        )
        return Exchange(
            scope=decision.scope,
            conversation=decision.conversation,
            messages=asked.chat.new_messages(),
            request_id=asked.request.request_id,
            access=access,
            decided=decided(decision, status=answer.status, model=asked.chat.kept_model),
            block=block,
        )


def _read(request: Request, body: bytes, wire: WireFormat) -> RequestBody:
    content_type = (request.headers.get(b"content-type") or "application/json").partition(";")[0].strip().lower()
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise Unreadable("content_type")
    try:
        return wire.read_request(body)
    except (Unreadable, RequestError):
        raise
    except Exception as error:
        # A request is read for memory alone: a fault of ours in that, whatever it is, costs the memory only.
        metrics().internal_errors.labels(where="relay.read").inc()
        log.exception("reading a request failed; it goes on untouched")
        raise Unreadable("internal") from error


def _model_in(body: bytes) -> str | None:
    """The model that a body names which is not read for memory: what any upstream's own parser finds there."""
    try:
        return _MODEL.decode(body).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if len(body) > MOST_PARSED:
            return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) else None


def _count_injected(decision: Decision) -> None:
    if decision.has_blocks and decision.answer.result == "injected":
        metrics().injected_memories.observe(len(decision.answer.citations))
        metrics().injected_tokens.observe(decision.answer.tokens)
