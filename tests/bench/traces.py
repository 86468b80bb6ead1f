"""What traces cost a request: processor time and latency with `telemetry.traces` and without, side by side in one run.

    python -m tests.bench.traces [--requests 200] [--rounds 6] [--facts 500] [--at-once 1]

Three servers stand on one scripted upstream, alike but for traces: without, with all of them told to a collector that
takes them, and with the sampler that docs/metrics.md recommends (a tenth). They are asked in turn, in small slices, so
that whatever else the machine does falls on each alike; the ratios say something where absolute times do not.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from tests.bench import payloads
from tests.bench.figures import median, percentile
from tests.bench.instance import Instance
from tests.bench.jobs import Job, Result, chat_job
from tests.bench.machine import Pinning
from tests.bench.stage import Stage, open_stage
from tests.support.collector import Collector, running_collector

USER = "benchmark"
MODES = ("off", "on")
"""What memory does for the requests: nothing; or it is searched, put in and kept."""

SAMPLED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}
SLICE_S = 60.0


def servers(collector: Collector) -> dict[str, Mapping[str, str]]:
    told = {
        "MEMPROXY__TELEMETRY__TRACES": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_MAX_QUEUE_SIZE": "100000",  # every span is told: none is saved by being dropped
    }
    return {"without": {}, "all": told, "a tenth": {**told, **SAMPLED}}


class Asked:
    """One server's slices of one mode."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.relay_us: list[float] = []
        self.engine_us: list[float] = []

    def add(self, result: Result, relay_s: float, engine_s: float) -> None:
        self.results.append(result)
        self.relay_us.append(1e6 * relay_s / result.answered)
        self.engine_us.append(1e6 * engine_s / result.answered)

    def row(self) -> dict[str, Any]:
        times = [value for one in self.results for value in one.total_ms]
        outcomes = {name for one in self.results for name in one.outcomes}
        return {
            "requests": len(times),
            "p50_ms": round(percentile(times, 0.5), 2),
            "p95_ms": round(percentile(times, 0.95), 2),
            "relay_us": round(median(self.relay_us)),
            "engine_us": round(median(self.engine_us)),
            "outcomes": sorted(outcomes),
            "errors": sum(sum(one.errors.values()) for one in self.results),
        }


async def measure(asked: argparse.Namespace) -> dict[str, dict[str, dict[str, Any]]]:
    """Start all of them, and ask them in turn; the figures by mode and server."""
    async with running_collector() as collector, open_stage(Pinning(wanted=False)) as stage:
        running: dict[str, Instance] = {}
        for name, environment in servers(collector).items():
            running[name] = await stage.start_instance(environment=environment)
            await running[name].ingest(USER, 0, asked.facts)
            await running[name].settle(USER)
        found = await _in_turn(stage, running, asked)
        told = len(collector.named("POST /v1/chat/completions"))
    assert told > asked.requests * asked.rounds, f"the collector was told of {told} requests only"
    return {mode: {name: one.row() for name, one in by_name.items()} for mode, by_name in found.items()}


async def _in_turn(
    stage: Stage, running: Mapping[str, Instance], asked: argparse.Namespace
) -> dict[str, dict[str, Asked]]:
    found = {mode: {name: Asked() for name in running} for mode in MODES}
    questions = {name: _questions(asked.facts) for name in running}
    names = list(running)
    for number in range(asked.rounds + 1):
        first = number % len(names)
        for mode in MODES:
            for name in (*names[first:], *names[:first]):
                instance = running[name]
                before = instance.spent()
                result = await stage.client.run(_job(instance, mode, asked, questions[name]))
                if mode == "on":
                    await instance.settle(USER)  # what is indexed and told behind the answers counts
                relay_s, engine_s = (after - former for after, former in zip(instance.spent(), before, strict=True))
                if number:  # the first round warms all of them up
                    found[mode][name].add(result, relay_s, engine_s)
    return found


def _questions(facts: int) -> Iterator[str]:
    return (payloads.question(number) for number in payloads.numbers(0, facts))


def _job(instance: Instance, mode: str, asked: argparse.Namespace, questions: Iterator[str]) -> Job:
    return chat_job(
        instance.port,
        list(islice(questions, asked.requests)),
        payloads.headers(USER, mode),
        concurrency=asked.at_once,
        warmup=0,
        count=asked.requests,
        seconds=SLICE_S,
    )


def show(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Print the figures, and each server's beside those without traces."""
    for mode, by_name in found.items():
        without = by_name["without"]
        for name, row in by_name.items():
            ratios = {
                f"{figure} by without": round(row[figure] / without[figure], 2)
                for figure in ("p50_ms", "p95_ms", "relay_us", "engine_us")
                if name != "without" and without[figure]
            }
            print(json.dumps({"memory": mode, "traces": name, **row, **ratios}))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200, help="of a slice")
    parser.add_argument("--rounds", type=int, default=6, help="slices of each server and mode")
    parser.add_argument("--facts", type=int, default=500, help="that the user told before")
    parser.add_argument("--at-once", type=int, default=1, help="requests under way together")
    show(asyncio.run(measure(parser.parse_args(arguments))))


if __name__ == "__main__":
    main()
