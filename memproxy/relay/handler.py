"""A request that carries memory, in order: read, decide what memory does, inject, send, relay, capture."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import astuple

from memproxy.core.protocol import Identity
from memproxy.core.receipt import Carried, ReceiptPart
from memproxy.errors import Overloaded, RequestError
from memproxy.logs import LogLimit
from memproxy.metrics import child, metrics
from memproxy.relay import bodies
from memproxy.relay.admission import Admission
from memproxy.relay.bodies import OFF_LOOP_BYTES, BodyWork, Stop
from memproxy.relay.capture import CaptureJournal, Exchange
from memproxy.relay.controls import Mode, read_mode, user_of
from memproxy.relay.decide import DEGRADED, Decider, Decision
from memproxy.relay.memory_tools import ToolAnswer, may_be_read
from memproxy.relay.passthrough import Passthrough
from memproxy.relay.refusal import Positions, Refusal, refusal_of
from memproxy.relay.request import Hangups, Request
from memproxy.relay.request_trace import RequestTrace
from memproxy.relay.session_blocks import NO_BLOCK, Save
from memproxy.relay.stream import AnyAnswer, Copies, Keep, NoteName, Tap, relay_body
from memproxy.relay.upstream import Upstream, UpstreamAnswer
from memproxy.settings import Settings
from memproxy.traces import Traces
from memproxy.wire.answer import Answer
from memproxy.wire.format import RESPONSES, WireFormat
from memproxy.wire.made_answer import made_answer
from memproxy.wire.own_fields import may_hold_ours
from memproxy.wire.request_body import MOST_BYTES, Position, RequestBody
from memproxy.wire.responses import ResponsesRequest
from memproxy.wire.splice import Unreadable

log = logging.getLogger(__name__)

NOTED_WITHIN_S = 0.5
"""How long an answer that is not captured waits for its session's notes, which began before it was asked for."""

TOOLLESS = frozenset({404, 501})
"""Further statuses by which an upstream may say that no model of it takes tools."""

_OFF = Decision(result="off")
_UNREADABLE = Decision(result="skipped", reason="unreadable")


class _ReadRequest(NamedTuple):
    """One request, read. ``note_name`` notes the name that the upstream gives its answer, where that matters."""

    request: Request
    chat: RequestBody
    wire: WireFormat
    body: bytes
    encoding: str | None
    note_name: NoteName | None
    at: datetime
    began: float
    trace: RequestTrace | None


class _Built(NamedTuple):
    """A request as it is sent: its decision, the place of its blocks, and how it is made without our tools."""

    decision: Decision
    position: Position
    toolless: Callable[[], bytes]
    body: bytes


@dataclass(kw_only=True, eq=False)
class MemoryHandler:
    """Handles ``POST /v1/chat/completions`` and ``POST /v1/responses``."""

    settings: Settings
    decider: Decider
    upstream: Upstream
    journal: CaptureJournal
    passthrough: Passthrough
    positions: Positions
    hangups: Hangups
    admission: Admission
    work: BodyWork
    copies: Copies
    traces: Traces | None = None
    _degraded: LogLimit = field(default_factory=LogLimit)

    async def handle(self, request: Request, wire: WireFormat, caller: Identity | None) -> int:
        """Answer the request, which is of this format; the status that went out. ``caller`` is whom `Admission` let
        pass; None where the client's own key goes upstream.

        Raises:
            MemproxyError: to be answered as an error of ours, if nothing went out yet.
            ClientGone: the client left.
        """
        trace = RequestTrace.of(self.traces, request, wire.name) if self.traces is not None else None
        if trace is None:
            return await self._handle(request, wire, caller, None)
        with trace:
            trace.status = await self._handle(request, wire, caller, trace)
            return trace.status

    async def _handle(
        self, request: Request, wire: WireFormat, caller: Identity | None, trace: RequestTrace | None
    ) -> int:
        body = await request.body(self.settings.server.max_body_bytes)
        began, asked_at = time.perf_counter(), datetime.now(UTC)
        off = read_mode(request.headers, None) is Mode.OFF
        encoding = bodies.encoding_of(request.headers)
        is_checked = caller is not None and wire is RESPONSES  # it may go on from another's response
        must_read = is_checked or encoding is not None
        is_looked_at = off and not must_read and len(body) <= MOST_BYTES
        may_hold = is_looked_at and await self.work.run(partial(may_hold_ours, body), len(body))
        if off and not must_read and not may_hold:
            child(metrics().request_overhead, wire.name).observe(time.perf_counter() - began)
            return await self._untouched(request, body, _OFF, trace, began)
        try:
            chat = await self._read(request, body, encoding, wire)
        except Unreadable as problem:
            if caller is not None and is_checked:
                self.admission.check_unread(caller)
            log.debug("%s cannot be read (%s) and goes on untouched", request.request_id, problem.reason)
            return await self._untouched(request, body, _OFF if off else _UNREADABLE, trace, began)
        note_name = None
        if caller is not None and isinstance(chat, ResponsesRequest):
            user = user_of(caller, chat)
            note_name = await self.admission.chained(caller, user, self.upstream.name, chat.kept_upstream)
        incoming = _ReadRequest(request, chat, wire, body, encoding, note_name, asked_at, began, trace)
        with self.hangups.watching(request):
            decision = await self._decide(incoming)
            request.memory_headers = decision.headers()
            if trace is not None:
                trace.decided(decision, began)
            if decision.own_answer is not None:
                self._count_decided(wire, decision, time.perf_counter() - began)
                return await self._answer(incoming, decision, decision.own_answer)
            built = await self._build(incoming, decision)
            overhead_s = time.perf_counter() - began
            # beside the upstream's work, not before it
            asyncio.get_running_loop().call_soon(self._count_decided, wire, built.decision, overhead_s)
            return await self._exchange(incoming, built)

    async def _build(self, incoming: _ReadRequest, decision: Decision) -> _Built:
        """The request with what was decided; as the client wrote it where a fault of ours is in the way."""
        chat = incoming.chat
        try:
            position = self.positions.of(decision.tenant, self.upstream.name, chat.kept_model)
            context = decision.conversed.context
            edits = decision.offer.edits(chat, context.left_out) if decision.offer is not None else ()
            toolless = partial(chat.rebuild, decision.blocks, position, context)
            body = await self.work.run(partial(toolless, edits), len(chat.body))
        except Exception:
            # Memory is an enhancement: a fault of ours in injecting it, whatever it is, costs the memory only.
            metrics().internal_errors.labels(where="relay.inject").inc()
            log.exception("injecting memory failed; %s goes on without it", incoming.request.request_id)
            decision = self.decider.without_memory(decision, reason="internal")
            incoming.request.memory_headers = decision.headers()
            return _Built(decision, "auto", chat.rebuild, await self._plain(incoming))
        return _Built(decision, position, toolless, body)

    async def _plain(self, incoming: _ReadRequest) -> bytes:
        """The body as the client wrote it, without our fields; with them where a fault of ours is in the way."""
        try:
            return await self.work.run(incoming.chat.rebuild, len(incoming.chat.body))
        except Exception:
            # As in `_build`: the upstream may refuse our fields, but not for want of its request.
            metrics().internal_errors.labels(where="relay.inject").inc()
            log.exception("our fields could not be taken out of %s", incoming.request.request_id)
            return incoming.chat.body

    async def _untouched(
        self, request: Request, body: bytes, decision: Decision, trace: RequestTrace | None, began: float
    ) -> int:
        """A body that we cannot read, or need not, goes on as it is; the upstream says what it thinks of it."""
        await self.decider.admit(request.headers, None)
        if decision is _UNREADABLE:
            scope = await self.decider.owner(request.headers)
            decision = msgspec.structs.replace(decision, scope=scope, injects=read_mode(request.headers, None).injects)
        decision.count()
        request.memory_headers = decision.headers()
        if trace is not None:
            trace.decided(decision, began)
            trace.calling(self.upstream.host, None)
        note = partial(self._note_unread, request, decision, datetime.now(UTC))
        status = await self.passthrough.send(request, body, len(body), note)
        if trace is not None:
            trace.answered(status)
        return status

    def _note_unread(self, request: Request, decision: Decision, at: datetime, answer: UpstreamAnswer) -> None:
        if decision.scope is not None:
            decided = decision.for_receipt(status=answer.status, model=None)
            part = ReceiptPart(request_id=request.request_id, scope=decision.scope, at=at, decided=decided)
            self.decider.engine.report(part)

    async def _read(self, request: Request, body: bytes, encoding: str | None, wire: WireFormat) -> RequestBody:
        """The request's body as memory sees it; a large or compressed one is read in a thread. Raises `Unreadable` for
        one that goes on untouched, `RequestError` where a field of ours in it cannot be used.
        """
        if encoding is None and len(body) <= OFF_LOOP_BYTES:
            return _parsed(request, body, wire)

        def read(stop: Stop) -> RequestBody:
            plain = body if encoding is None else bodies.decompressed(body, encoding, MOST_BYTES, stop)
            chat = _parsed(request, plain, wire)
            stop.check()
            chat.look()
            return chat

        try:
            with self.hangups.watching(request):
                chat = await self.work.read(read)
            request.hold(len(chat.body) if encoding is not None else 0)
        except Overloaded as error:  # no time for it, or no room: it goes without memory
            raise Unreadable("overloaded") from error
        return chat

    async def _decide(self, incoming: _ReadRequest) -> Decision:
        request, chat = incoming.request, incoming.chat
        await self.decider.admit(request.headers, chat)
        try:
            return await self.decider.decide(request.headers, chat, request.request_id, incoming.at, self.upstream.name)
        except RequestError:
            raise
        except Exception:
            # Memory is an enhancement: a fault of ours in deciding about it, whatever it is, costs the memory only.
            metrics().internal_errors.labels(where="relay.decide").inc()
            log.exception("deciding about memory failed; %s goes on without it", request.request_id)
            return Decision(result="degraded", reason="internal")

    async def _answer(self, incoming: _ReadRequest, decision: Decision, text: str) -> int:
        """Answer in the upstream's place. Of the exchange the session alone is noted, so that it goes on as one."""
        answer, request = made_answer(incoming.chat, text), incoming.request
        self._note_decided(incoming, decision, 200)
        if decision.scope is not None and decision.conversation is not None:
            noting = self.journal.note(decision.scope, decision.conversation, NO_BLOCK, text, answer.response_id)
            await asyncio.wait(noting, timeout=NOTED_WITHIN_S)
        headers = [(b"content-type", answer.content_type)]
        if len(answer.parts) == 1:
            headers.append((b"content-length", b"%d" % len(answer.parts[0])))
        await request.begin(200, headers)
        for part_of_body in answer.parts[:-1]:
            await request.write(part_of_body)
        await request.end(answer.parts[-1])
        return 200

    def _count_decided(self, wire: WireFormat, decision: Decision, overhead_s: float) -> None:
        decision.count()
        child(metrics().request_overhead, wire.name).observe(overhead_s)
        reason = decision.reason
        if decision.result == "degraded" and reason is not None and (count := self._degraded.due(reason)):
            log.warning(
                "recall is degraded (%s), %d requests went on without memory: %s",
                reason,
                count,
                DEGRADED.get(reason, "/readyz says how the parts of memory are"),
                extra={"fields": {"reason": reason, "count": count}},
            )

    async def _exchange(self, incoming: _ReadRequest, built: _Built) -> int:
        """Send the request; its answer's end waits until the turn is kept."""
        request, decision, began = incoming.request, built.decision, time.perf_counter()
        block = self.decider.new_block(decision)
        note: Save | None = None
        if decision.scope is not None and decision.conversation is not None:
            note = Save(partial(self.journal.note, decision.scope, decision.conversation, block))
        answer: AnyAnswer | None = None
        exchange: Exchange | None = None
        tap: Tap | None = None
        try:
            answer = first = await self._send(incoming, built.body, read_here=decision.offer is not None)
            refusal = await refusal_of(first) if decision.is_changed else None
            if refusal is None and decision.offer is not None and first.status in TOOLLESS:
                refusal = Refusal.OTHER
            if refusal is not None:
                first.close()
                block.drop()
                decision, answer = await self._send_plain(incoming, built, refusal, first.status)
            elif decision.offer is not None and first.is_success and may_be_read(first):
                answer = answered = ToolAnswer(
                    tools=self.decider.tools,
                    offer=decision.offer,
                    answer=first,
                    sent=built.body,
                    wants_stream=incoming.chat.stream,
                    send=partial(self._send, incoming, read_here=True),
                    plain=built.toolless,
                )
                await answered.settle()
            asyncio.get_running_loop().call_soon(_count_injected, decision)
            exchange = self._to_capture(incoming, decision, answer, block)
            if exchange is None or not decision.searched:
                self._note_decided(incoming, decision, answer.status)
            tap = await self._tap(incoming, answer, exchange, note, block)
            await request.begin(answer.status, answer.headers)
            await relay_body(request, answer, tap)
            self._count_answered(incoming, decision, tap)
        finally:
            block.keep()
            if answer is not None:
                answer.close()
                metrics().upstream.observe(time.perf_counter() - began)
            if tap is not None and tap.goes_on:
                await tap.finish()  # the client that left this stream may fetch the response later
            if note is not None:  # whatever became of the answer: the conversation may go on behind it
                note.keep()
            if answer is None or (exchange is not None and (tap is None or not tap.is_kept)):
                self._note_decided(incoming, decision, answer.status if answer is not None else None, is_lost=True)
        return answer.status

    async def _send_plain(
        self, incoming: _ReadRequest, built: _Built, refusal: Refusal, status: int
    ) -> tuple[Decision, AnyAnswer]:
        """Send once, as the client wrote it, what the upstream refused with memory; learn from that if it really was
        about what we injected: without it, the upstream answers.
        """
        refused, chat = built.decision, incoming.chat
        decision = self.decider.refused(refused, status)
        decision.count()
        incoming.request.memory_headers = decision.headers()
        answer = await self._send(incoming, await self._plain(incoming))
        if not answer.is_success:
            return decision, answer
        if refused.offer is not None and (refusal is Refusal.OTHER or not refused.has_blocks):
            self.decider.tools.refused(refused.tenant, self.upstream.name, chat.kept_model)
        if refusal is Refusal.ROLES and (built.position != "system" or chat.may_hold_blocks):
            self.positions.refused(refused.tenant, self.upstream.name, chat.kept_model, built.position)
        elif refusal is Refusal.LENGTH and refused.scope is not None:
            self.decider.budgets.halve(refused.scope)
        return decision, answer

    def _count_answered(self, incoming: _ReadRequest, decision: Decision, tap: Tap | None) -> None:
        if tap is None:
            return
        usage = tap.usage
        if incoming.trace is not None:
            incoming.trace.used(usage)
        if usage is not None:
            metrics().upstream_cached_tokens.inc(usage.cached)
            memory = "injected" if decision.has_blocks else "none"
            for kind, count in zip(("input", "output", "cached"), astuple(usage), strict=True):
                metrics().upstream_tokens.labels(memory, kind).inc(count)
        if decision.arm is not None and decision.scope is not None:
            seconds, tokens = time.perf_counter() - incoming.began, astuple(usage) if usage else None
            self.decider.experiment.note_request(decision.scope, decision.arm, seconds, tokens)

    async def _send(self, incoming: _ReadRequest, body: bytes, *, read_here: bool = False) -> UpstreamAnswer:
        """``read_here``: what is in the answer decides what the client gets, so it should not be compressed."""
        request, trace = incoming.request, incoming.trace
        if incoming.encoding is not None:
            same = body == incoming.chat.body
            closed = partial(bodies.COMPRESS[incoming.encoding], body)
            body = incoming.body if same else await self.work.run(closed, len(body))
        headers = self.upstream.headers_for(request.headers, len(body))
        if read_here:
            headers["accept-encoding"] = "identity"
        if trace is None:
            return await self.upstream.send(request.method, request.raw_path, headers, body)
        trace.calling(self.upstream.host, incoming.chat.kept_model, streamed=incoming.chat.stream)
        answer = await self.upstream.send(request.method, request.raw_path, headers, body)
        trace.answered(answer.status)
        return answer

    def _note_decided(
        self, incoming: _ReadRequest, decision: Decision, status: int | None, *, is_lost: bool = False
    ) -> None:
        """Report a request to the engine that was not captured, or made no recall. A captured turn reports it too, but
        perhaps after the client asks for the receipt.
        """
        if decision.scope is not None:
            decided = decision.for_receipt(status=status, model=incoming.chat.kept_model, is_lost=is_lost)
            name = incoming.request.request_id
            part = ReceiptPart(request_id=name, scope=decision.scope, at=incoming.at, decided=decided)
            self.decider.engine.report(part)

    def _to_capture(
        self, incoming: _ReadRequest, decision: Decision, answer: AnyAnswer, block: Save
    ) -> Exchange | None:
        if decision.scope is None or decision.conversation is None or not decision.captures or not answer.is_success:
            return None
        try:
            messages = incoming.chat.new_messages_at(decision.conversation.said_before)
        except Exception:
            # A request is read for memory alone: a fault of ours in that, whatever it is, costs the capture only.
            metrics().internal_errors.labels(where="relay.capture").inc()
            metrics().capture_skipped.labels(reason="internal").inc()
            log.exception("reading what is new failed; %s is relayed but not captured", incoming.request.request_id)
            return None
        return Exchange(
            scope=decision.scope,
            conversation=decision.conversation,
            messages=messages,
            request_id=incoming.request.request_id,
            access=self.upstream.access(incoming.request.headers, incoming.chat.kept_model),
            decided=decision.for_receipt(status=answer.status, model=incoming.chat.kept_model),
            block=block,
            asks=decision.conversed.asks,
            trace=incoming.trace.name if incoming.trace is not None else None,
        )

    async def _tap(
        self, incoming: _ReadRequest, answer: AnyAnswer, exchange: Exchange | None, note: Save | None, block: Save
    ) -> Tap | None:
        """The tap that has the answer captured, or its session noted with it; None where it is not looked at."""
        keep: Keep | None = None
        if exchange is not None:
            keep = partial(self._capture, incoming, answer, exchange, note)
        elif note is not None and answer.is_success:
            keep = partial(self._note, note, block)
        else:
            await self._note(note, block)
        note_name = incoming.note_name if answer.is_success else None
        if keep is None and note_name is None:
            return None
        return Tap(
            answer,
            incoming.wire,
            incoming.request.request_id,
            keep,
            copies=self.copies,
            asked_for_stream=incoming.chat.stream,
            note_name=note_name,
            captures=exchange is not None,
        )

    async def _capture(
        self, incoming: _ReadRequest, answer: AnyAnswer, exchange: Exchange, note: Save | None, read_answer: Answer
    ) -> None:
        if note is not None:
            note.drop()  # the journal notes the session with the turn
        if isinstance(answer, ToolAnswer) and answer.called and (decided := exchange.decided) is not None:
            carried = msgspec.structs.replace(decided.context or Carried(), called=answer.called)
            exchange = msgspec.structs.replace(exchange, decided=msgspec.structs.replace(decided, context=carried))
        began = time.perf_counter()
        text, begun = "" if read_answer.begun else read_answer.text, read_answer.begun
        await self.journal.write(exchange, text, response_id=read_answer.response_id, is_begun=begun)
        if incoming.trace is not None:
            incoming.trace.captured(began)

    async def _note(self, note: Save | None, block: Save, read_answer: Answer | None = None) -> None:
        """Note what is not captured. Another relay may get a conversation's next request as soon as this answer is
        complete.
        """
        noting = [*block.keep()]
        if note is not None:
            noting += note.keep(read_answer.text, read_answer.response_id) if read_answer is not None else note.keep()
        if self.settings.shares_state and noting:
            await asyncio.wait(noting, timeout=NOTED_WITHIN_S)


def _parsed(request: Request, body: bytes, wire: WireFormat) -> RequestBody:
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


def _count_injected(decision: Decision) -> None:
    if decision.has_blocks and decision.answer.result == "injected":
        metrics().injected_memories.observe(len(decision.answer.citations))
        metrics().injected_tokens.observe(decision.answer.tokens)
