"""Spans for an OpenTelemetry collector, by OTLP over HTTP (the extra `otel`). Where it is, and how many spans are
sampled, the environment says by OpenTelemetry's own variables.

Nothing waits for a collector: spans go through a queue of bounded length to a thread of the SDK's. What does not get
there is counted, and logged now and then.
"""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanKind, StatusCode, Tracer, get_current_span, set_span_in_context
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from memproxy import __version__
from memproxy.errors import MemproxyError
from memproxy.logs import LogLimit
from memproxy.metrics import metrics
from memproxy.tasks import happens
from memproxy.traces import TRACEPARENT, Attributes, Span

log = logging.getLogger(__name__)

MOST_QUEUED = 2048
"""Spans that wait to be sent, unless ``OTEL_BSP_MAX_QUEUE_SIZE`` says otherwise."""

CLOSING_S = 2.0
"""How long the end of a process waits for the last spans to be sent."""

_W3C = TraceContextTextMapPropagator()


class OpenTelemetrySpan:
    """Implements `traces.Span`."""

    __slots__ = ("within",)

    def __init__(self, within: OtelSpan) -> None:
        self.within = within

    @property
    def is_wanted(self) -> bool:
        return self.within.is_recording()

    @property
    def name(self) -> str:
        context = self.within.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    def note(self, attributes: Attributes) -> None:
        self.within.set_attributes({name: value for name, value in attributes.items() if value is not None})

    def fail(self, error: BaseException | str) -> None:
        kind = error if isinstance(error, str) else error.code if isinstance(error, MemproxyError) else None
        self.within.set_attribute("error.type", kind or type(error).__name__)
        self.within.set_status(StatusCode.ERROR)

    def end(self, at_ns: int | None = None) -> None:
        self.within.end(at_ns)


class OpenTelemetryTraces:
    """Implements `traces.Traces`."""

    def __init__(self, process: str) -> None:
        """``process`` is which of ours makes the spans."""
        # the SDK logs each failure with the collector's answer; ours says it now and then
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        about = {"service.name": "memproxy", "service.version": __version__, "service.instance.id": os.urandom(8).hex()}
        resource = Resource.create({**about, "memproxy.process": process})
        # what the environment says of the service wins
        self._provider = TracerProvider(
            resource=resource.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
        )
        self._provider.add_span_processor(_Queue(int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", MOST_QUEUED))))
        self._tracer: Tracer = self._provider.get_tracer("memproxy", __version__)

    def begin(
        self,
        name: str,
        *,
        kind: str = "internal",
        parent: Span | Mapping[str, str] | None = None,
        links: Sequence[str] = (),
        began_ns: int | None = None,
        attributes: Attributes | None = None,
    ) -> OpenTelemetrySpan:
        around = Context()
        if isinstance(parent, OpenTelemetrySpan):
            around = set_span_in_context(parent.within, around)
        elif isinstance(parent, Mapping):
            around = _W3C.extract(parent, around)
        linked = [get_current_span(_W3C.extract({TRACEPARENT: link}, Context())).get_span_context() for link in links]
        span = OpenTelemetrySpan(
            self._tracer.start_span(
                name,
                around,
                kind=SpanKind[kind.upper()],
                links=[Link(context) for context in linked if context.is_valid],
                start_time=began_ns,
            )
        )
        if attributes is not None:
            span.note(attributes)
        return span

    async def close(self) -> None:
        loop, closed = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with contextlib.suppress(RuntimeError):  # nobody waits any more
                loop.call_soon_threadsafe(closed.set)

        threading.Thread(target=shut_down, name="traces", daemon=True).start()
        await happens(closed, CLOSING_S)


class _Queue(BatchSpanProcessor):
    """The SDK's queue and thread; what there is no room for is counted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counted = _CountingExporter()
        super().__init__(self._counted, max_queue_size=most, max_export_batch_size=min(512, most))

    def on_end(self, span: ReadableSpan) -> None:
        if self._counted.take(self._most):
            super().on_end(span)


class _CountingExporter(SpanExporter):
    """Sends, and counts what becomes of the spans."""

    def __init__(self) -> None:
        self._sending = OTLPSpanExporter()
        self._lock = threading.Lock()
        self._waiting = 0
        self._lost = LogLimit()

    def take(self, most: int) -> bool:
        """Count one more that waits; False, and told, where ``most`` do."""
        with self._lock:
            if self._waiting < most:
                self._waiting += 1
                return True
        self._note_lost(1, "dropped", f"more than {most} wait to be sent (OTEL_BSP_MAX_QUEUE_SIZE)")
        return False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._sending.export(spans)
        finally:
            with self._lock:
                self._waiting -= len(spans)
            if result is SpanExportResult.SUCCESS:
                metrics().trace_spans.labels("sent").inc(len(spans))
            else:
                why = "the collector does not take them; see OTEL_EXPORTER_OTLP_ENDPOINT"
                self._note_lost(len(spans), "failed", why)
        return result

    def shutdown(self) -> None:
        self._sending.shutdown()  # type: ignore[no-untyped-call]

    def _note_lost(self, count: int, result: str, why: str) -> None:
        metrics().trace_spans.labels(result).inc(count)
        if self._lost.due(result):
            log.warning("spans of traces are lost, nothing else: %s (memproxy_trace_spans_total counts them)", why)
