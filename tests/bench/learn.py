"""Does learning keep up, and does the relay notice? ``python -m tests.bench.learn [--model-path DIR]``.

Two proxies run side by side, one that does not learn and one that does, its extraction model stubbed with a latency of
a second. The same open-loop traffic (so many exchanges a second, whatever the answers take) goes through one and the
other in turns, in rounds of some seconds; whichever is not asked is stopped (SIGSTOP) meanwhile, so that each round
has the machine to itself and both see the same noise. Shown: the ratio of the medians of the rounds' 99th percentiles
with learning to those without, of the whole latency and of the relay's part of it (without the wait for recall), and
an interval; the journal's size on disk; processor time; what was captured, indexed and lost. Then the backlog drains.
"""

import asyncio
import math
import os
import signal
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated

import aiohttp
import msgspec
import typer
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from memproxy.tasks import TaskOwner
from tests.bench.children import Nursery
from tests.bench.figures import Times, median
from tests.bench.instance import Instance
from tests.bench.learn_load import Extractor, send
from tests.bench.learn_processes import Processor, stopped

LATENCY_S = 1.0
DRAIN_LIMIT_S = 900.0
LONGEST_ROUND_S = 20.0
"""The supervisor takes an engine for hung that does not answer for 30 s: the other proxy is stopped no longer."""

SURE = 0.95
"""Coverage that the interval of the ratio is to have; fewer than six pairs of rounds cannot reach it."""

_SAMPLE_EVERY_S = 1.0
_COUNTED = {
    ("memproxy_turns_captured_total", None): "captured",
    ("memproxy_turns_lost_total", None): "lost",
    ("memproxy_memories_written_total", "turn"): "indexed",
    ("memproxy_memories_written_total", "add"): "facts",
    ("memproxy_memories_written_total", "coexist"): "facts",
    ("memproxy_memories_written_total", "update"): "facts",
    ("memproxy_learn_jobs", "parked"): "parked",
}


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round of one proxy. Times in milliseconds, processor time in seconds.

    ``slowest`` are the exchanges of the last percent, in their order: seconds since the round's beginning when each was
    sent, and its latency without the wait for recall. Those of one stall stand beside each other. ``waited_s`` is the
    time that threads of the relay and of the engine could run and had no processor: what is the machine's, not ours.
    """

    learns: bool
    total: Times
    alone: Times
    errors: int
    degraded: int
    elapsed_s: float
    slowest: list[tuple[float, float]]
    relay_cpu_s: float
    engine_cpu_s: float
    relay_waited_s: float
    engine_waited_s: float
    load_average: float


class Backlog(msgspec.Struct, kw_only=True):
    """The most that waited on disk at once while there was traffic: journal rows, megabytes of the state's files."""

    rows: int = 0
    state_mb: float = 0.0


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """After the last round. ``to_index`` turns and ``to_learn`` turns were left; the seconds until none was, None when
    that took over the limit; ``calls`` of the model and the engine's processor time meanwhile.
    """

    to_index: int
    to_learn: int
    indexed_s: float | None
    learned_s: float | None
    calls: int
    engine_cpu_s: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    turns_per_s: float
    round_s: float
    embedder: str
    rounds: list[Round]
    backlog: Backlog
    drain: Drain
    counters: dict[str, float]
    plain_counters: dict[str, float]

    def p99s(self, learns: bool, part: str) -> list[float]:
        """The rounds' 99th percentiles of ``total`` or ``alone``, in their order."""
        return [getattr(one, part).p99_ms for one in self.rounds if one.learns is learns]

    def ratio(self, part: str) -> float:
        """The median of the rounds' 99th percentiles with learning, to that without; 1: learning costs nothing."""
        return median(self.p99s(True, part)) / max(median(self.p99s(False, part)), 0.001)

    def interval(self, part: str) -> tuple[float, float, float]:
        """`median_interval` of the ratios of the rounds next to each other."""
        pairs = zip(self.p99s(True, part), self.p99s(False, part), strict=True)
        return median_interval([learning / max(plain, 0.001) for learning, plain in pairs])


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """An interval for the median of what these values are drawn from, and its coverage: the narrowest pair of order
    statistics that covers it with `SURE`, else the least and the greatest. Nothing is assumed of the distribution.
    """
    ordered, count = sorted(values), len(values)
    coverage = [1 - 2 * sum(math.comb(count, low) for low in range(cut + 1)) / 2**count for cut in range(count)]
    cut = max((cut for cut in range(count // 2) if coverage[cut] >= SURE), default=0)
    return ordered[cut], ordered[count - 1 - cut], max(0.0, coverage[cut])


async def one_round(instance: Instance, *, learns: bool, first: int, turns: float, seconds: float) -> Round:
    relay, engine = Processor.of(instance.relay_pids), Processor.of(instance.engine_pids)
    run = await send(instance.port, first=first, per_second=turns / 2, seconds=seconds)
    relay, engine = relay.since(), engine.since()
    return Round(
        learns=learns,
        total=Times.of(run.latencies_ms),
        alone=Times.of(run.alone_ms),
        errors=run.errors,
        degraded=run.degraded,
        elapsed_s=run.elapsed_s,
        slowest=run.slowest(),
        relay_cpu_s=relay.used_s,
        engine_cpu_s=engine.used_s,
        relay_waited_s=relay.waited_s,
        engine_waited_s=engine.waited_s,
        load_average=os.getloadavg()[0],
    )


async def _sample(home: Path, most: Backlog) -> None:
    while True:
        rows, size = await asyncio.to_thread(_on_disk, home)
        most.rows, most.state_mb = max(most.rows, rows), max(most.state_mb, size)
        await asyncio.sleep(_SAMPLE_EVERY_S)


def _on_disk(home: Path) -> tuple[int, float]:
    """Rows that wait, and megabytes of the state's files."""
    with closing(sqlite3.connect(home / "state.db", timeout=10)) as db:
        (rows,) = db.execute("SELECT count(*) FROM journal").fetchone()
    return int(rows), sum(file.stat().st_size for file in home.glob("state.db*")) / 1e6


def _left(home: Path) -> tuple[int, int]:
    """Rows to index; rows to learn from and turns of sessions that are due for it (those below ten wait for more)."""
    with closing(sqlite3.connect(home / "state.db", timeout=10)) as db:
        rows = dict(db.execute("SELECT lane, count(*) FROM journal WHERE state != 'parked' GROUP BY lane").fetchall())
        (turns,) = db.execute("SELECT ifnull(sum(unlearned), 0) FROM progress WHERE unlearned >= 10").fetchone()
    return int(rows.get("index", 0)), int(rows.get("learn", 0)) + int(turns)


async def drained(home: Path, limit_s: float) -> tuple[float | None, float | None]:
    """Seconds until nothing is left to index, and to learn from; None for what takes over ``limit_s``."""
    began, indexed = time.perf_counter(), None
    while (waited := time.perf_counter() - began) < limit_s:
        to_index, to_learn = await asyncio.to_thread(_left, home)
        if not to_index and indexed is None:
            indexed = waited
        if not to_index and not to_learn:
            return indexed, waited
        await asyncio.sleep(_SAMPLE_EVERY_S)
    return indexed, None


async def counters(instance: Instance) -> dict[str, float]:
    """What an instance captured, lost, indexed and learned, and parked rows."""
    address = f"http://127.0.0.1:{instance.port}/metrics"
    async with aiohttp.ClientSession() as http, http.get(address) as response:
        text = await response.text()
    found = dict.fromkeys(_COUNTED.values(), 0.0)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = _COUNTED.get((sample.name, sample.labels.get("operation") or sample.labels.get("state")))
            if name is not None:
                found[name] += sample.value
    return found


class Bench:
    """Both proxies, and what is asked of them."""

    def __init__(self, console: Console, folder: Path, *, turns: float, round_s: float) -> None:
        self._console = console
        self._folder = folder
        self._turns = turns
        self._round_s = round_s
        self._backlog = Backlog()
        self._sent = {False: 0, True: 0}
        self.rounds: list[Round] = []

    async def run(self, *, pairs: int, model_path: Path | None, limit_s: float, concurrency: int | None) -> Comparison:
        """All rounds and the draining.

        Raises:
            ConfigError: a process ended by itself or was not ready in time.
        """
        with Nursery(self._folder) as nursery:
            _, port = await nursery.start_server("upstream")
            async with Extractor(LATENCY_S).serving() as extractor:
                start = partial(Instance.start, nursery, self._folder, upstream_port=port, model_path=model_path)
                plain = await start(name="plain")
                with stopped(plain):
                    learn = {} if concurrency is None else {"concurrency": concurrency}
                    learning = await start(name="learning", extractor=extractor.base_url, learn=learn)
                await self._rounds(plain, learning, pairs)
                with stopped(plain):
                    drain = await self._drain(learning, extractor, limit_s)
                    told = await counters(learning)
                plain_told = await counters(plain)
                await learning.stop()
                await plain.stop()
            await nursery.stop()
        return Comparison(
            turns_per_s=self._turns,
            round_s=self._round_s,
            embedder="none" if model_path is None else model_path.name,
            rounds=self.rounds,
            backlog=self._backlog,
            drain=drain,
            counters=told,
            plain_counters=plain_told,
        )

    async def _rounds(self, plain: Instance, learning: Instance, pairs: int) -> None:
        for pair in range(pairs):
            # in turns first and second, so that a machine that grows busier is no argument against either
            for learns in (False, True) if pair % 2 == 0 else (True, False):
                asked, other = (learning, plain) if learns else (plain, learning)
                with stopped(other):
                    await self._round(asked, learns)

    async def _round(self, instance: Instance, learns: bool) -> None:
        owner = TaskOwner("sample")
        if learns:
            owner.start(_sample(self._folder / instance.name, self._backlog), "sample")
        try:
            done = await one_round(
                instance, learns=learns, first=self._sent[learns], turns=self._turns, seconds=self._round_s
            )
        finally:
            await owner.cancel()
        self._sent[learns] += round(self._turns / 2 * self._round_s)
        self.rounds.append(done)
        self._console.print(_line(instance.name, done), soft_wrap=True)

    async def _drain(self, instance: Instance, extractor: Extractor, limit_s: float) -> Drain:
        home = self._folder / instance.name
        before, calls, engine = await counters(instance), extractor.calls, Processor.of(instance.engine_pids)
        _, to_learn = await asyncio.to_thread(_left, home)
        indexed, learned = await drained(home, limit_s)
        return Drain(
            to_index=round(before["captured"] - before["indexed"]),
            to_learn=to_learn,
            indexed_s=indexed,
            learned_s=learned,
            calls=extractor.calls - calls,
            engine_cpu_s=engine.since().used_s,
        )


def _line(name: str, done: Round) -> str:
    total, alone = done.total, done.alone
    return (
        f"{name:>8}: {total.count} exchanges in {done.elapsed_s:.0f} s, {done.errors} errors, {done.degraded} without "
        f"memory; p50 {total.p50_ms:.1f}, p95 {total.p95_ms:.1f}, p99 {total.p99_ms:.1f} ms; without recall p50 "
        f"{alone.p50_ms:.1f}, p95 {alone.p95_ms:.1f}, p99 {alone.p99_ms:.1f} ms; processor time of the relay "
        f"{done.relay_cpu_s:.1f} s, of the engine {done.engine_cpu_s:.1f} s; they waited for a processor for "
        f"{done.relay_waited_s:.1f} and {done.engine_waited_s:.1f} s (load average {done.load_average:.1f})"
    )


def _show(console: Console, found: Comparison) -> None:
    for part, what in (("total", "p99 with learning / without"), ("alone", "the same without the wait for recall")):
        low, high, coverage = found.interval(part)
        console.print(
            f"{what}: {found.ratio(part):.2f}; the pairs' median lies in {low:.2f} to {high:.2f} ({coverage:.0%})",
            soft_wrap=True,
        )
    drain, most = found.drain, found.backlog
    console.print(
        f"at most {most.rows} journal rows, {most.state_mb:.1f} MB of state; at the end {drain.to_index} turns were to "
        f"be indexed, done after {_seconds(drain.indexed_s)}{_rate(drain.to_index, drain.indexed_s)}, and "
        f"{drain.to_learn} to be learned from, done after {_seconds(drain.learned_s)} with {drain.calls} calls"
        f"{_rate(drain.to_learn, drain.learned_s)}; {drain.engine_cpu_s:.0f} s of the engine's processor time",
        soft_wrap=True,
    )
    console.print(f"learning: {found.counters}; plain: {found.plain_counters}", soft_wrap=True)


def _seconds(took: float | None) -> str:
    return "more than the limit" if took is None else f"{took:.0f} s"


def _rate(count: int, took: float | None) -> str:
    return f" ({count / took:.0f} turns a second)" if took else ""


def main(
    *,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each; six give an interval of 95 %.")] = 6,
    seconds: Annotated[float, typer.Option(min=1, max=LONGEST_ROUND_S, help="Seconds of a round.")] = 10.0,
    turns: Annotated[float, typer.Option(min=2, help="Turns (messages) a second, two for each exchange.")] = 200.0,
    limit: Annotated[float, typer.Option(help="Longest draining, in seconds.")] = DRAIN_LIMIT_S,
    concurrency: Annotated[int | None, typer.Option(min=1, help="`learn.concurrency`; its default.")] = None,
    model_path: Annotated[Path | None, typer.Option(help="Folder of an embedding model; without: words only.")] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
) -> None:
    """Compare the relay's latency with learning on and off, and see the backlog drain."""
    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the proxies, one of them stopped, end with us
    with tempfile.TemporaryDirectory(prefix="memproxy-bench-", ignore_cleanup_errors=True) as name:
        bench = Bench(console, Path(name), turns=turns, round_s=seconds)
        found = asyncio.run(bench.run(pairs=rounds, model_path=model_path, limit_s=limit, concurrency=concurrency))
    _show(console, found)
    if json is not None:
        ratios = {f"p99_ratio_{part}": [found.ratio(part), *found.interval(part)] for part in ("total", "alone")}
        figures = {**msgspec.to_builtins(found), **ratios}
        json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")


if __name__ == "__main__":
    typer.run(main)
