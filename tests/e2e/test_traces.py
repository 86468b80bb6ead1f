"""Traces told to a real OpenTelemetry collector: what they say, what they never say, and that nobody waits for it."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from memproxy.logs import LogLimit
from tests.e2e.talk import body, extract_by_rules
from tests.support.answers import chat_events, error, stream
from tests.support.collector import Collector, running_collector
from tests.support.folders import Folders
from tests.support.proxy import KEY, Proxy, memproxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=one"}
PERSON = {"x-memproxy-user": "anna-of-accounting", "x-memproxy-session": "a-session-of-annas"}
TOLD, ASKED = "My locker code is tangerine-4711.", "What is my locker code?"
QUEUE = 64
TRY_S = 55.0
"""How long one try of an export may take: longer than what is not to wait for it does on a busy machine."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def collector() -> AsyncIterator[Collector]:
    async with running_collector() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def proxy(collector: Collector, shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_SERVICE_NAME": "memory-of-the-desk",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_BSP_MAX_QUEUE_SIZE": str(QUEUE),
        "OTEL_EXPORTER_OTLP_TIMEOUT": str(TRY_S),
    }
    with folders.new("home") as home:
        settings: dict[str, Any] = {"telemetry": {"traces": True}}
        async with running_proxy(shared_upstream.base_url, home, settings, environment=environment) as running:
            yield running


async def spans_by_result(proxy: Proxy) -> dict[str, float]:
    families = text_string_to_metric_families((await proxy.call("GET", "/metrics")).text)
    samples = [sample for family in families for sample in family.samples]
    return {one.labels["result"]: one.value for one in samples if one.name == "memproxy_trace_spans_total"}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_request_is_told_step_by_step_and_what_is_learned_leads_back_to_it(
    proxy: Proxy, collector: Collector, model: ScriptedUpstream
) -> None:
    model.extractor = extract_by_rules
    async with proxy.client(**PERSON) as client:
        for text, headers in ((TOLD, PARENT), (ASKED, {})):
            answer = await client.post("/v1/chat/completions", content=body(text), headers=headers)
            assert answer.status_code == 200
        assert (await client.post("/v1/memory/sessions/a-session-of-annas/end?wait=true")).status_code == 200
    assert [model.received[0].header(name) for name in PARENT] == list(PARENT.values())
    assert model.received[1].header("traceparent") is None

    await eventually(lambda: collector.named("memory.learn"), what="what is learned is told")
    await eventually(lambda: len(collector.named("POST /v1/chat/completions")) == 2, what="both requests are told")
    first, second = sorted(collector.named("POST /v1/chat/completions"), key=lambda one: one.span.start_time_unix_nano)
    assert (first.trace, first.parent) == (TRACE, CALLER)
    assert second.trace != TRACE
    assert not second.parent
    assert first.process["service.name"] == "memory-of-the-desk"
    assert first.process["memproxy.process"] == "relay"
    assert second.said["memproxy.recall.result"] == "injected"
    assert second.said["memproxy.memories"] > 0
    assert second.said["http.response.status_code"] == 200

    steps = collector.below(second)
    assert steps.keys() == {"memory.decide", "chat test-model", "memory.capture"}
    deciding = collector.below(steps["memory.decide"])
    assert deciding.keys() == {"memory.gate", "memory.recall"}
    stages = collector.below(deciding["memory.recall"])
    assert {"memory.embed", "memory.search", "memory.rank", "memory.assemble"} <= stages.keys()
    for around, within in ((second, steps), (steps["memory.decide"], deciding), (deciding["memory.recall"], stages)):
        for one in within.values():
            assert around.span.start_time_unix_nano <= one.span.start_time_unix_nano + 2_000, one.name
            assert one.span.end_time_unix_nano <= around.span.end_time_unix_nano + 2_000, one.name
    call = steps["chat test-model"].said
    assert {name: call[name] for name in call if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "test-model",
        "gen_ai.request.stream": False,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 0,
    }

    learned = collector.named("memory.learn")[-1]
    assert learned.process["memproxy.process"] == "engine"
    requests = {(one.trace, one.id) for one in (first, second)}

    def leads_back(name: str) -> bool:
        return {link for one in collector.named(name) for link in one.links} == requests

    for work in ("memory.index", "memory.learn"):
        await eventually(partial(leads_back, work), what=f"{work} leads back to both requests")
    assert learned.trace not in {first.trace, second.trace}
    extraction = next(one for one in collector.named("chat test-model") if one.process["memproxy.process"] == "engine")
    assert extraction.said["memproxy.role"] == "extract"
    assert extraction.said["gen_ai.usage.input_tokens"] > 0


@pytest.mark.asyncio(loop_scope="session")
async def test_nothing_that_anybody_wrote_and_no_name_is_told(
    proxy: Proxy, collector: Collector, model: ScriptedUpstream
) -> None:
    async with proxy.client(**PERSON) as client:
        await client.post("/v1/chat/completions", content=body(TOLD, "Noted.", ASKED))
        model.script(error(400, "I refuse to answer about tangerine-4711"))
        answer = await client.post("/v1/chat/completions", content=body("What is my locker code again?"))
        assert answer.headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
        await client.post("/v1/memory/search", json={"query": "tangerine"})
    refused = await eventually(lambda: [one for one in collector.spans if one.said.get("error.type") == "400"])
    assert refused[0].failed
    sent = [one for one in collector.named("chat test-model") if one.parent == refused[0].parent]
    assert [one.said["http.response.status_code"] for one in sent] == [400, 200]
    told = b"".join(collector.bodies)
    for word in (b"tangerine", b"locker", b"Noted", KEY.encode(), *(value.encode() for value in PERSON.values())):
        assert word not in told


@pytest.mark.asyncio(loop_scope="session")
async def test_a_caller_that_samples_nothing_is_heeded(
    proxy: Proxy, collector: Collector, model: ScriptedUpstream
) -> None:
    trace = "1" * 32
    headers = {"traceparent": f"00-{trace}-{CALLER}-00"}
    async with proxy.client(**PERSON) as client:
        assert (await client.post("/v1/chat/completions", content=body("Hi!"), headers=headers)).status_code == 200
        model.script(stream(chat_events("Hel", "lo")))
        await client.post("/v1/chat/completions", content=body("Hi again!", stream=True), headers=PARENT)
        turns = {
            "session_id": "s",
            "messages": [{"role": "user", "content": "Mine."}],
            "metadata": {"traceparent": [7]},
        }
        assert (
            await client.post("/v1/memory/turns", json=turns)
        ).status_code == 201  # and not given up for what it names
    await eventually(
        lambda: [one for one in collector.named("chat test-model") if one.said.get("gen_ai.request.stream")],
        what="the request after it is told",
    )
    assert trace not in {one.trace for one in collector.spans}


@pytest.mark.asyncio(loop_scope="session")
async def test_nobody_waits_for_a_collector_that_refuses_or_does_not_answer(
    proxy: Proxy, collector: Collector, model: ScriptedUpstream
) -> None:
    collector.status, began = 400, time.monotonic()
    before = await spans_by_result(proxy)
    async with proxy.client(**PERSON) as client:

        async def failed() -> bool:
            assert (await client.post("/v1/chat/completions", content=body("Hi!"))).status_code == 200
            return (await spans_by_result(proxy))["failed"] > before["failed"]

        await eventually(failed, what="spans that were refused are counted")
        collector.open.clear()
        asked = collector.asked

        async def dropped() -> bool:
            posts = (client.post("/v1/chat/completions", content=body("Hi!")) for _ in range(16))
            assert {answer.status_code for answer in await asyncio.gather(*posts)} == {200}
            return (await spans_by_result(proxy))["dropped"] > 0

        await eventually(dropped, what="spans for which there is no room are counted")
        assert collector.asked > asked
        asking = time.monotonic()
        for _ in range(20):
            assert (await client.post("/v1/chat/completions", content=body("Hi!"))).status_code == 200
        assert time.monotonic() - asking < TRY_S, "less than one try of an export takes"
    lost = [line for line in proxy.log.splitlines() if "spans of traces are lost" in line]
    told = Counter((line.split()[3], "wait to be sent" in line) for line in lost)  # by process, and why
    most = 1 + (time.monotonic() - began) // LogLimit()._every_s
    assert max(told.values()) <= most, lost
    assert {waits for _, waits in told} == {False, True}, lost
    assert "opentelemetry" not in proxy.log
    began = time.monotonic()
    assert await proxy.stop() == 0
    assert time.monotonic() - began < TRY_S


def test_what_traces_need_is_looked_at_before_the_start(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("telemetry: {traces: true}\n", encoding="utf-8")
    done = memproxy(tmp_path / "home", "serve", "--config", str(config), extra={"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert done.returncode
    assert "telemetry.traces: OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc', and only http/protobuf is spoken" in done.stderr
