"""``tools.memory: inject``: the model of a request is offered the memory tools itself, and its calls are answered here,
so that the client sees the final answer alone.

The tools are those of ``/mcp``: the engine says what they are, checks their arguments and carries them out with the
identity of the request. A failure here costs the tools alone: a call that cannot be carried out is answered with an
error that the model reads, and a request that fails with tools is sent again without.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from memproxy.auth.identity import encode_identity
from memproxy.core.bounded import BoundedCache
from memproxy.core.protocol import IDENTITY_HEADER, Identity
from memproxy.core.scope import Scope
from memproxy.errors import EngineUnavailable, UpstreamError, UpstreamUnreachable
from memproxy.metrics import metrics
from memproxy.relay.controls import Controls
from memproxy.relay.engines import Engines
from memproxy.relay.request import RawHeaders
from memproxy.relay.upstream import UpstreamAnswer
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner
from memproxy.wire.encoding import BodyDecoder
from memproxy.wire.request_body import RequestBody
from memproxy.wire.splice import Edit, Unreadable
from memproxy.wire.tool_rounds import ClientView, KeptCalls, Round, ToolCall, ToolFormat, encoded

log = logging.getLogger(__name__)

MOST_ROUNDS = 4
"""Rounds of calls that are answered; then the model is asked for its answer with no more calls."""

MOST_CALLS = 16
"""Calls of one round that are carried out."""

MOST_RESULT = 16 * 1024
MOST_RESULTS = 64 * 1024
"""Most bytes of one call's result, and of all results of a request."""

CALL_S = 5.0
CALLS_S = 20.0
"""How long one call may take, and all of a request."""

LIST_S = 3.0
"""How long the first request waits for the list of tools: the engine loads a library for it, once."""

ASK_AGAIN_S = 5.0
"""How long requests go without tools after an engine could not say what they are."""

REFUSED_S = 3600.0
"""How long a model is not offered tools that its upstream refused."""

KEPT_S = 1800.0
"""How long calls that came with the client's own are kept for the request that answers those."""

KEPT_BYTES = 8 * 1024 * 1024
REFUSED_BYTES = 1024 * 1024

_AWAY = "Memory is not available just now. Answer without it."


class Tool(msgspec.Struct, frozen=True):
    """A tool of ours as the model sees it (name, description, parameters), and whether it only reads."""

    name: str
    described: dict[str, Any]
    reads: bool


class Offer(msgspec.Struct, frozen=True):
    """What one request's model is offered, in which format, as whom its calls are made, and earlier calls that its
    client does not know of, by the message (index) that they belong to.
    """

    tools: tuple[Tool, ...]
    format: ToolFormat
    scope: Scope
    headers: dict[str, str]
    earlier_calls: dict[int, KeptCalls] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)

    def edits(self, chat: RequestBody, left_out: Collection[int]) -> list[Edit]:
        """What is added to the request, of which these messages (indexes) are ``left_out``."""
        earlier = {index: calls for index, calls in self.earlier_calls.items() if index not in left_out}
        tools = [self.format.tool(tool.described) for tool in self.tools]
        return [*chat.with_tools(tools), *chat.with_earlier_calls(earlier)]


class DoneCall(msgspec.Struct, frozen=True):
    """A call, as it stands in the model's message, and its result; None: it is to be made again."""

    call: ToolCall
    json: bytes
    result: str | None


class MemoryTools:
    """Offers the tools, and carries out calls of them."""

    def __init__(self, engine: Engines, tasks: TaskOwner, settings: Settings) -> None:
        self._engine = engine
        self._owner = tasks
        self._offered = settings.tools.memory == "inject"
        self._tools: tuple[Tool, ...] = ()
        self._asking: asyncio.Task[tuple[Tool, ...]] | None = None
        self._asked_at = -ASK_AGAIN_S
        self._refused: BoundedCache[tuple[str, str, str], float] = BoundedCache(REFUSED_BYTES)
        self._kept_calls: BoundedCache[tuple[str, ...], tuple[list[DoneCall], float]] = BoundedCache(KEPT_BYTES)

    async def offer(
        self, controls: Controls, identity: Identity, scope: Scope, chat: RequestBody, upstream: str
    ) -> Offer | None:
        """The tools to offer a request's model, None: none. A caller that may only read gets the reading tools; a tool
        name that the client uses itself is the client's.
        """
        is_offered = self._offered if controls.memory_tools is None else controls.memory_tools == "inject"
        if not (is_offered and controls.mode.injects and chat.may_offer_tools):
            return None
        refused_at = self._refused.get((scope.tenant, upstream, chat.kept_model or ""))
        if refused_at is not None and time.monotonic() - refused_at < REFUSED_S:
            return None
        asker = msgspec.structs.replace(
            identity, named_user=scope.user, project=scope.project, agent=scope.agent, session=scope.session
        )
        headers = {IDENTITY_HEADER: encode_identity(asker)}
        theirs = {name for name, _ in chat.offered_tools}
        may_read, may_write = (f"memory:{action}" in identity.permissions for action in ("read", "write"))
        tools = tuple(
            tool
            for tool in await self._list_tools(headers)
            if tool.name not in theirs and (may_read if tool.reads else may_write and controls.mode.captures)
        )
        if not tools:
            return None
        offer = Offer(tools, chat.tool_format, scope, headers)
        return msgspec.structs.replace(offer, earlier_calls=await self._put_back(offer, chat))

    def refused(self, tenant: str, upstream: str, model: str | None) -> None:
        """An upstream that refused a request with tools took it without."""
        log.warning("%s takes no tools for model %r: it is not offered memory tools for an hour", upstream, model)
        self._refused.put((tenant, upstream, model or ""), time.monotonic())

    def keep(self, scope: Scope, names: Sequence[str], done: Sequence[DoneCall]) -> None:
        """Keep calls for the request that brings the results of the client's own, which have these names."""
        reads = {tool.name for tool in self._tools if tool.reads}
        kept_calls = [
            item if item.call.name not in reads else msgspec.structs.replace(item, result=None) for item in done
        ]
        self._kept_calls.put(_kept_as(scope, names), (kept_calls, time.monotonic()))

    async def _put_back(self, offer: Offer, chat: RequestBody) -> dict[int, KeptCalls]:
        """Calls that were kept, by the messages (indexes) they belong to. Reading is done again: erased things are not
        told.
        """
        earlier: dict[int, KeptCalls] = {}
        for index, names in chat.called().items() if self._kept_calls else ():
            done, at = self._kept_calls.get(_kept_as(offer.scope, names)) or ([], 0.0)
            if not done or time.monotonic() - at > KEPT_S:
                continue
            results = [call.result or await self.run(offer, call.call, CALL_S) for call in done[:MOST_CALLS]]
            results_json = [offer.format.result(call.call, result) for call, result in zip(done, results, strict=False)]
            earlier[index] = KeptCalls(b",".join(call.json for call in done[:MOST_CALLS]), b",".join(results_json))
        return earlier

    async def run(self, offer: Offer, call: ToolCall, within_s: float) -> str:
        """Carry out a call and return its result as JSON, or an error in words. Never raises."""
        if call.arguments is None:
            return _failed(call.name, "refused", "The arguments of this call are no JSON object. Call again with one.")
        params = {"name": call.name, "arguments": call.arguments}
        try:
            async with asyncio.timeout(within_s):
                answer = await self._call(offer.headers, "tools/call", params)
        except (EngineUnavailable, TimeoutError, _Unusable) as error:
            log.warning("the model's call of %s cannot be answered: %r", call.name, error)
            return _failed(call.name, "unavailable", _AWAY)
        text = "\n".join(part["text"] for part in answer.get("content") or () if isinstance(part.get("text"), str))
        if answer.get("isError"):
            return _failed(call.name, "refused", text[:MOST_RESULT])
        structured = answer.get("structuredContent")
        result = encoded(structured).decode() if structured is not None else text
        if len(result) > MOST_RESULT:
            return _failed(call.name, "refused", f"The answer is longer than {MOST_RESULT} bytes. Ask for less of it.")
        metrics().tool_calls.labels(call.name, "done").inc()
        return result

    async def _list_tools(self, headers: dict[str, str]) -> tuple[Tool, ...]:
        """The tools; none while the engine cannot list them."""
        if self._tools or (self._asking is None and time.monotonic() - self._asked_at < ASK_AGAIN_S):
            return self._tools
        if self._asking is None:
            self._asking = self._owner.start(self._ask(headers), "list tools")
        self._tools = await asyncio.shield(self._asking)
        return self._tools

    async def _ask(self, headers: dict[str, str]) -> tuple[Tool, ...]:
        try:
            async with asyncio.timeout(LIST_S):
                listed = await self._call(headers, "tools/list", {})
            return tuple(map(_tool, listed["tools"]))
        except (EngineUnavailable, TimeoutError, _Unusable, LookupError, TypeError) as error:
            metrics().internal_errors.labels(where="relay.tools").inc()
            log.warning("what the memory tools are cannot be learned, requests go on without them: %r", error)
            return ()
        finally:
            self._asked_at, self._asking = time.monotonic(), None

    async def _call(self, headers: dict[str, str], method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask ``/mcp``; its result. Raises `EngineUnavailable` without an answer, `_Unusable` for something else."""
        body = encoded({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        sent = {**headers, "content-type": "application/json", "accept": "application/json, text/event-stream"}
        status, _, chunks = await self._engine.api("POST", "/mcp", sent, body)
        answered = b"".join([chunk async for chunk in chunks])
        try:
            return msgspec.json.decode(answered, type=_Answered).result
        except msgspec.DecodeError as error:
            raise _Unusable(f"status {status}: {answered[:300]!r}") from error


@dataclass(kw_only=True, eq=False)
class ToolAnswer:
    """The upstream's answer to a request that offered tools, as the client gets it: like `UpstreamAnswer`. ``sent`` is
    the request that ``answer`` answers first, ``plain`` makes the same without tools.
    """

    tools: MemoryTools
    offer: Offer
    answer: UpstreamAnswer
    sent: bytes
    wants_stream: bool
    send: Callable[[bytes], Awaitable[UpstreamAnswer]]
    plain: Callable[[], bytes]
    called: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._streamed = self.answer.is_stream(asked_for=self.wants_stream)
        self._room, self._time_s = MOST_RESULTS, CALLS_S
        self._relayed = self._rounds()
        self._ready: list[bytes] = []

    @property
    def status(self) -> int:
        """Of the answer whose end the client gets."""
        return self.answer.status

    @property
    def is_success(self) -> bool:
        return self.answer.is_success

    @property
    def headers(self) -> RawHeaders:
        """The headers that hold for a body that may have changed."""
        return [(name, value) for name, value in self.answer.headers if name.lower() not in _OF_THE_BYTES]

    @property
    def ended(self) -> bool:
        """Nobody knows."""
        return False

    def header(self, name: str) -> str | None:
        return None if name.encode() in _OF_THE_BYTES else self.answer.header(name)

    def is_stream(self, *, asked_for: bool) -> bool:
        """As `UpstreamAnswer.is_stream`."""
        return self.answer.is_stream(asked_for=asked_for)

    async def settle(self) -> None:
        """Wait until status and headers are known: for all rounds of an answer that is no stream. Raises
        `UpstreamError` where the upstream does not answer.
        """
        if not self._streamed:
            with contextlib.suppress(StopAsyncIteration):
                self._ready.append(await anext(self._relayed))

    def __aiter__(self) -> "ToolAnswer":
        return self

    async def __anext__(self) -> bytes:
        """The next part of what the client gets. Raises `UpstreamError` where the upstream breaks off or fails."""
        return self._ready.pop(0) if self._ready else await anext(self._relayed)

    def close(self) -> None:
        self.answer.close()

    async def _rounds(self) -> AsyncIterator[bytes]:
        names, client_view, rounds, is_last = self.offer.names, ClientView(), 0, False
        tool_format = self.offer.format
        while True:
            this = (tool_format.stream if self._streamed else tool_format.whole)(names, client_view)
            async for out in self._read(this):
                yield out
            if not this.calls:
                return
            if is_last and not this.others:
                names = await self._without("the model calls tools for ever")
                continue
            done = await self._run(this)
            if this.others:
                self.tools.keep(self.offer.scope, this.others, done)
                yield this.tail
                return
            rounds += 1
            is_last = rounds >= MOST_ROUNDS or self._room <= 0 or self._time_s <= 0
            results = [tool_format.result(call.call, call.result or "") for call in done]
            if not await self._next(b",".join([this.reply_json(), *results]), last=is_last):
                names = frozenset()

    async def _read(self, this: Round) -> AsyncIterator[bytes]:
        """The client's part of the current answer. One that calls our tools is not read to its very end."""
        decoder = _decoder(self.answer)
        async for chunk in self.answer:
            for part in decoder.parts(chunk):
                if out := this.feed(part):
                    yield out
            if decoder.broken:
                raise UpstreamUnreachable("The upstream sent an answer that does not decode.")
            if this.done and this.calls:
                return
        if out := this.finish():
            yield out

    async def _run(self, this: Round) -> list[DoneCall]:
        done = []
        for index, call in enumerate(this.calls):
            began = time.monotonic()
            if index >= MOST_CALLS or self._room <= 0 or self._time_s <= 0:
                result = _failed(call.name, "refused", "Too many calls of memory tools. Answer with what you have.")
            else:
                result = await self.tools.run(self.offer, call, min(CALL_S, self._time_s))
            self._time_s -= time.monotonic() - began
            self._room -= len(result)
            self.called.append(call.name)
            done.append(DoneCall(call, this.call_json(index), result))
        return done

    async def _next(self, reply: bytes, *, last: bool) -> bool:
        """Ask for the next round; False: it failed, and the request was sent without tools."""
        try:
            sent = self.offer.format.next_round(self.sent, reply, last=last)
            answer = await self.send(sent)
        except (Unreadable, UpstreamError) as error:
            await self._without(f"a round with results failed ({error!r})")
            return False
        self.answer.close()
        self.answer, self.sent = answer, sent
        streamed = answer.is_stream(asked_for=self.wants_stream)
        if not answer.is_success or streamed != self._streamed or not may_be_read(answer):
            await self._without(f"a round with results was answered {answer.status}")
            return False
        return True

    async def _without(self, why: str) -> frozenset[str]:
        """Send the request without tools; none of them is looked for in its answer. Raises `UpstreamError` where that
        fails, too, and the client has the beginning of an answer already.
        """
        log.warning("%s: the request is sent without memory tools", why)
        metrics().internal_errors.labels(where="relay.tools").inc()
        self.answer.close()
        self.answer = await self.send(self.plain())
        streamed = self.answer.is_stream(asked_for=self.wants_stream)
        if self._streamed and not (self.answer.is_success and streamed):
            raise UpstreamUnreachable(f"The upstream answered {self.answer.status} in the middle of an answer.")
        return frozenset()


_OF_THE_BYTES = frozenset({b"content-length", b"content-encoding"})


class _Unusable(Exception):
    """What the engine answered is no answer of a tool."""


class _Answered(msgspec.Struct):
    result: dict[str, Any]


def _tool(listed: dict[str, Any]) -> Tool:
    described = {"name": listed["name"], "description": listed["description"], "parameters": listed["inputSchema"]}
    reads = bool((listed.get("annotations") or {}).get("readOnlyHint"))
    return Tool(listed["name"], described, reads)


def _failed(tool: str, result: str, why: str) -> str:
    metrics().tool_calls.labels(tool, result).inc()
    return encoded({"error": why}).decode()


def _kept_as(scope: Scope, names: Sequence[str]) -> tuple[str, ...]:
    return (*scope.owner, scope.project or "", scope.agent or "", scope.session or "", *names)


def may_be_read(answer: UpstreamAnswer) -> bool:
    """Whether its body is in an encoding that is known."""
    return _decoder(answer).supported


def _decoder(answer: UpstreamAnswer) -> BodyDecoder:
    return BodyDecoder(answer.header("content-encoding"), limit=2**62)
