"""What only shows in the long run or in bulk: ``python -m tests.bench.endurance``.

Resident memory of the relay over many requests and with many streams open at once, and
what a second relay process brings. Each part prints its figures; ``--json`` writes all of them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from tests.bench import payloads
from tests.bench.instance import Instance
from tests.bench.jobs import Job, chat_job
from tests.bench.machine import Pinning, cpu_seconds
from tests.bench.stage import Stage, open_stage

PARTS = 20
"""Resident memory is read after each of so many parts of the requests; the slope needs four."""

AT_ONCE = 16
MEMORIES = 1_000
USER = "benchmark"
WORKERS_REQUESTS = 2_000
WORKERS_ROUNDS = 10
PART_LIMIT_S = 600.0

MODES = (("off", 16), ("read", 3), ("on", 1))
"""Of twenty requests so many have each mode: those with memory take most of the time, and hold most of the state."""


class LongRun(msgspec.Struct, frozen=True, kw_only=True):
    """Resident memory of the relay in MB, after so many requests; ``outcomes`` and ``errors`` over all of them."""

    requests: list[int]
    relay_mb: list[float]
    outcomes: dict[str, int]
    errors: dict[str, int]

    @property
    def slope(self) -> float:
        """MB for every 100,000 requests, over the last half (least squares)."""
        half = len(self.requests) // 2
        xs, ys = self.requests[half:], self.relay_mb[half:]
        mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
        spread = sum((x - mean_x) ** 2 for x in xs)
        return 100_000 * sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread


class OpenStreams(msgspec.Struct, frozen=True, kw_only=True):
    """``streams`` at once: resident memory of the relay before, and the most there was meanwhile."""

    streams: int
    complete: int
    before_mb: float
    peak_mb: float
    errors: dict[str, int]


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """So many relay processes: requests a second that came through, processor time per request, what part of it each
    process had (the greatest first), and requests for each second of it.

    ``capacity`` is how many times as much as one process they could do, if each had a processor to itself: the busiest
    is then the bound. A machine whose processors are shared with client, upstream and others shows no more throughput.
    """

    workers: int
    per_second: float
    relay_cpu_us: float
    shares: list[float]
    per_cpu_second: float
    capacity: float


class Used(msgspec.Struct):
    """What requests took of the processes of one proxy, added up over rounds."""

    answered: int = 0
    elapsed_s: float = 0.0
    relay_s: dict[int, float] = {}

    def workers(self, alone: "Used") -> Workers:
        """The figures, compared with those of one process alone."""
        total = sum(self.relay_s.values())
        by_busiest = _ratio(self.answered, max(self.relay_s.values()))
        return Workers(
            workers=len(self.relay_s),
            per_second=round(_ratio(self.answered, self.elapsed_s), 1),
            relay_cpu_us=round(_ratio(total, self.answered) * 1e6, 1),
            shares=[round(_ratio(one, total), 3) for one in sorted(self.relay_s.values(), reverse=True)],
            per_cpu_second=round(_ratio(self.answered, total), 1),
            capacity=round(_ratio(by_busiest, _ratio(alone.answered, sum(alone.relay_s.values()))), 2),
        )


class Figures(msgspec.Struct, kw_only=True):
    """All that was measured; None: not asked for."""

    residence: LongRun | None = None
    slope_mb: float | None = None
    streams: OpenStreams | None = None
    workers: list[Workers] = []


class Endurance:
    """The measurements, one after the other."""

    def __init__(self, stage: Stage, console: Console) -> None:
        self._stage = stage
        self._console = console
        self.figures = Figures()

    @asynccontextmanager
    async def _instance(self, name: str, *, workers: int = 1) -> AsyncIterator[Instance]:
        server = {"workers": workers, "max_concurrent_requests": 10_000}
        instance = await self._stage.start_instance(name, server=server)
        try:
            yield instance
        finally:
            await instance.stop()

    async def residence(self, requests: int, parts: int) -> None:
        """Resident memory over many requests of all modes, read so many times."""
        counts, sizes = [], []
        outcomes: dict[str, int] = {}
        errors: dict[str, int] = {}
        async with self._instance("many-requests") as instance:
            await instance.ingest(USER, 0, min(MEMORIES, requests))
            done = 0
            for part in range(parts):
                for mode, share in MODES:
                    result = await self._stage.client.run(_job(instance, mode, requests // parts * share // 20, part))
                    done += result.answered
                    _add(outcomes, result.outcomes)
                    _add(errors, result.errors)
                counts.append(done)
                sizes.append(instance.residence().relay_mb)
                self._console.print(f"after {done:,} requests the relay has {sizes[-1]:.0f} MB")
        found = LongRun(requests=counts, relay_mb=sizes, outcomes=outcomes, errors=errors)
        self.figures.residence, self.figures.slope_mb = found, round(found.slope, 2)
        self._console.print(
            f"over the last half: {found.slope:+.1f} MB for every 100,000 requests; {outcomes} {errors}"
        )

    async def streams(self, count: int) -> None:
        """Resident memory with many streams open at once, memory off."""
        async with self._instance("many-streams") as instance:
            before = _peak_mb(instance)
            questions, headers = [payloads.question(0)], payloads.headers(USER, "off")
            bounds: dict[str, Any] = {"concurrency": count, "warmup": 0, "count": count, "seconds": 120.0}
            result = await self._stage.client.run(chat_job(instance.port, questions, headers, stream=True, **bounds))
            found = OpenStreams(
                streams=count,
                complete=len(result.total_ms),
                before_mb=before,
                peak_mb=_peak_mb(instance),
                errors=result.errors,
            )
        self.figures.streams = found
        self._console.print(
            f"{found.complete:,} streams at once: the relay had {found.before_mb:.0f} MB before and at most "
            f"{found.peak_mb:.0f} MB; {found.errors or 'no errors'}"
        )

    async def workers(self, count: int) -> None:
        """One relay process and several, memory off, in turn; not pinned."""
        async with self._instance("one-worker") as one, self._instance("workers", workers=count) as several:
            used = {instance.name: Used() for instance in (one, several)}
            for instance in (one, several):
                await self._stage.client.run(_job(instance, "off", WORKERS_REQUESTS, 0))
            for part in range(1, WORKERS_ROUNDS + 1):
                for instance in (one, several):
                    await self._use(instance, part, used[instance.name])
        for found in (used[instance.name].workers(used[one.name]) for instance in (one, several)):
            self.figures.workers.append(found)
            self._console.print(
                f"{found.workers} relay processes: {found.per_second:,.0f} requests a second, "
                f"{found.relay_cpu_us:.0f} µs of processor time each, spread {found.shares}; with a processor each "
                f"{found.capacity:.2f} times as much as one"
            )

    async def _use(self, instance: Instance, part: int, used: Used) -> None:
        before = {pid: cpu_seconds([pid]) or 0.0 for pid in instance.relay_pids}
        result = await self._stage.client.run(_job(instance, "off", WORKERS_REQUESTS, part))
        used.answered += result.answered
        used.elapsed_s += result.elapsed_s
        for pid, was in before.items():
            used.relay_s[pid] = used.relay_s.get(pid, 0.0) + (cpu_seconds([pid]) or 0.0) - was


def _ratio(part: float, whole: float) -> float:
    """0 where there is nothing to divide by: no answers, or a system that does not tell processor time."""
    return part / whole if whole else 0.0


def _job(instance: Instance, mode: str, count: int, part: int) -> Job:
    first = part * 97
    return chat_job(
        instance.port,
        [payloads.question(number % MEMORIES) for number in range(first, first + MEMORIES)],
        payloads.headers(USER, mode),
        concurrency=AT_ONCE,
        warmup=0,
        count=max(AT_ONCE, count),
        seconds=PART_LIMIT_S,
    )


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _peak_mb(instance: Instance) -> float:
    """The most resident memory that the relay's processes ever had (Linux), else what they have now."""
    found = 0.0
    for pid in instance.relay_pids:
        status = Path(f"/proc/{pid}/status")
        if not status.exists():
            return instance.residence().relay_mb
        line = next(line for line in status.read_text("utf-8").splitlines() if line.startswith("VmHWM:"))
        found += int(line.split()[1]) / 1024
    return round(found, 1)


async def measure(console: Console, *, requests: int, parts: int, streams: int, workers: int) -> Figures:
    """What is asked for; a count of 0 leaves its part out."""
    async with open_stage(Pinning(wanted=False)) as stage:
        endurance = Endurance(stage, console)
        if workers:
            await endurance.workers(workers)
        if streams:
            await endurance.streams(streams)
        if requests:
            await endurance.residence(requests, parts)
    return endurance.figures


def main(
    *,
    requests: Annotated[int, typer.Option(min=0, help="Requests over which resident memory is watched.")] = 100_000,
    parts: Annotated[int, typer.Option(min=4, help="How often it is read.")] = PARTS,
    streams: Annotated[int, typer.Option(min=0, help="Streams open at once.")] = 1_000,
    workers: Annotated[int, typer.Option(min=0, help="Relay processes to compare one with.")] = 2,
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
) -> None:
    """Measure what shows in the long run, offline."""
    found = asyncio.run(measure(Console(), requests=requests, parts=parts, streams=streams, workers=workers))
    if json is not None:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


if __name__ == "__main__":
    typer.run(main)
