"""The trace of one request: times are noted while it runs, and made into spans when its answer is over."""

import time
from types import TracebackType
from typing import Self

import msgspec

from memproxy.errors import MemproxyError
from memproxy.relay.decide import Decision
from memproxy.relay.request import ClientGone, Request
from memproxy.traces import TRACEPARENT, Attributes, Span, Traces, chat_attributes, token_attributes
from memproxy.wire.answer import Usage

_W3C = (TRACEPARENT, "tracestate")
_AROUND = frozenset({"gate", "recall"})
"""Timings of the relay's own; the others are stages within recall."""

_OPERATIONS = {"recall": "retrieval", "embed": "embeddings"}
"""What conventions call the stages that they have a name for."""

CLIENT_GONE = 499
"""Status of a request whose client left (nginx's convention)."""


class _Call(msgspec.Struct):
    """One sending to the upstream. Times are of `time.perf_counter`."""

    began: float
    attributes: dict[str, str | int | float | bool | None]
    ended: float | None = None
    status: int | None = None


class RequestTrace:
    """A block around one request; its span is the child of the one that the client's headers name, if any."""

    def __init__(self, traces: Traces, request: Request, span: Span) -> None:
        self._traces = traces
        self._request = request
        self._span = span
        self._began = time.perf_counter()
        self._began_ns = time.time_ns()
        self._decided: tuple[Decision, float, float] | None = None
        self._calls: list[_Call] = []
        self._captured: tuple[float, float] | None = None
        self._usage: Usage | None = None
        self.status: int | None = None

    @classmethod
    def of(cls, traces: Traces, request: Request, route: str) -> Self | None:
        """The trace of a request that has just come; None where the caller or the sampler does not want one."""
        sent = {name: value for name in _W3C if (value := request.headers.get(name.encode())) is not None}
        span = traces.begin(
            f"POST {request.path}",
            kind="server",
            parent=sent,
            attributes={
                "http.request.method": "POST",
                "http.route": request.path,
                "memproxy.route": route,
                "memproxy.request_id": request.request_id,
            },
        )
        return cls(traces, request, span) if span.is_wanted else None

    @property
    def name(self) -> str:
        """What names its span: it is kept with the turns, so that what is learned from them leads back here."""
        return self._span.name

    def decided(self, decision: Decision, began: float) -> None:
        """Memory's decision is made; reading and deciding began at ``began``."""
        self._decided = (decision, began, time.perf_counter())

    def calling(self, host: str, model: str | None, *, streamed: bool | None = None) -> None:
        """The request is sent to the upstream now; an earlier sending was refused."""
        now = time.perf_counter()
        if self._calls:
            self._calls[-1].ended = now
        self._calls.append(_Call(now, chat_attributes(model, host, **{"gen_ai.request.stream": streamed})))

    def answered(self, status: int) -> None:
        if self._calls:
            self._calls[-1].status = status

    def captured(self, began: float) -> None:
        """The answer's end has waited for the journal since ``began``."""
        self._captured = (began, time.perf_counter())

    def used(self, usage: Usage | None) -> None:
        self._usage = usage

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = time.perf_counter()
        if isinstance(error, MemproxyError):
            self.status = error.status
        elif isinstance(error, ClientGone):
            self.status = CLIENT_GONE
        elif error is not None:
            self.status = 500
        if self._decided is not None:
            self._tell_decision(*self._decided)
        for call in self._calls:
            self._tell_call(call, ended, error)
        if self._captured is not None:
            self._child("memory.capture", *self._captured)
        self._span.note({"http.response.status_code": self.status})
        if error is not None:
            self._span.fail(error)
        self._span.end(self._ns(ended))

    def _tell_decision(self, decision: Decision, began: float, ended: float) -> None:
        """The stages' lengths are known, not when each began: they stand one after another from recall's beginning."""
        self._span.note(
            {
                "memproxy.recall.result": decision.result,
                "memproxy.recall.reason": decision.reason,
                "memproxy.memories": decision.memories,
                "memproxy.injected_tokens": decision.request_blocks.tokens
                if decision.request_blocks and decision.injects
                else None,
            }
        )
        deciding = self._child("memory.decide", began, ended)
        timings = decision.timings
        at = ended - timings.get("recall", 0.0) / 1000
        if "gate" in timings:
            self._child("memory.gate", at - timings["gate"] / 1000, at, deciding)
        if "recall" not in timings:
            return
        recall = self._child("memory.recall", at, ended, deciding, {"gen_ai.operation.name": "retrieval"})
        for stage, ms in timings.items():
            if stage not in _AROUND:
                attributes = {"gen_ai.operation.name": _OPERATIONS.get(stage)}
                self._child(f"memory.{stage}", at, at := at + ms / 1000, recall, attributes)

    def _tell_call(self, call: _Call, ended: float, error: BaseException | None) -> None:
        is_last = call is self._calls[-1]
        usage = self._usage if is_last else None
        span = self._traces.begin(
            f"chat {call.attributes['gen_ai.request.model'] or ''}".strip(),
            kind="client",
            parent=self._span,
            began_ns=self._ns(call.began),
            attributes={
                **call.attributes,
                "http.response.status_code": call.status,
                **(token_attributes(usage.input, usage.output, usage.cached) if usage is not None else {}),
            },
        )
        if is_last and error is not None:
            span.fail(error)
        elif call.status is not None and call.status >= 400:
            span.fail(str(call.status))
        until = self._captured[0] if is_last and self._captured is not None else call.ended
        span.end(self._ns(ended if until is None else until))

    def _child(
        self, name: str, began: float, ended: float, parent: Span | None = None, attributes: Attributes | None = None
    ) -> Span:
        span = self._traces.begin(name, parent=parent or self._span, began_ns=self._ns(began), attributes=attributes)
        span.end(self._ns(ended))
        return span

    def _ns(self, moment: float) -> int:
        return self._began_ns + int((moment - self._began) * 1e9)
