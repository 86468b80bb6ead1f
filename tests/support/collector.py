"""A small OpenTelemetry collector on a real socket: takes spans by OTLP over HTTP, refuses them, or never answers."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2


@dataclass(frozen=True, kw_only=True)
class Told:
    """One span as it came, with what its process says of itself."""

    span: trace_pb2.Span
    process: dict[str, Any]

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def trace(self) -> str:
        return self.span.trace_id.hex()

    @property
    def id(self) -> str:
        return self.span.span_id.hex()

    @property
    def parent(self) -> str:
        return self.span.parent_span_id.hex()

    @property
    def links(self) -> set[tuple[str, str]]:
        return {(link.trace_id.hex(), link.span_id.hex()) for link in self.span.links}

    @property
    def said(self) -> dict[str, Any]:
        return _values(self.span.attributes)

    @property
    def failed(self) -> bool:
        return self.span.status.code == trace_pb2.Status.STATUS_CODE_ERROR

    @property
    def seconds(self) -> float:
        return (self.span.end_time_unix_nano - self.span.start_time_unix_nano) / 1e9


class Collector:
    """What it was told, as spans and as bytes. While not ``open`` it takes what comes and does not answer; ``status``
    is what it answers.
    """

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.open = asyncio.Event()
        self.open.set()
        self.asked = 0
        self.spans: list[Told] = []
        self.bodies: list[bytes] = []

    def named(self, name: str) -> list[Told]:
        """The spans of this name."""
        return [one for one in self.spans if one.name == name]

    def below(self, span: Told) -> dict[str, Told]:
        """The children of a span, by name."""
        return {one.name: one for one in self.spans if (one.trace, one.parent) == (span.trace, span.id)}

    async def take(self, request: web.Request) -> web.Response:
        """`POST /v1/traces`."""
        self.asked += 1
        body = await request.read()
        await self.open.wait()
        if self.status != 200:
            return web.Response(status=self.status)
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.bodies.append(body)
        for of_process in ExportTraceServiceRequest.FromString(body).resource_spans:
            process = _values(of_process.resource.attributes)
            self.spans += [Told(span=span, process=process) for scope in of_process.scope_spans for span in scope.spans]
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )


def _values(attributes: "list[KeyValue]") -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value") for one in attributes}


@asynccontextmanager
async def running_collector() -> AsyncIterator[Collector]:
    """A collector until the block ends."""
    collector, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", collector.take)
    async with TestServer(app) as server:
        collector.url = str(server.make_url(""))
        try:
            yield collector
        finally:
            collector.open.set()
