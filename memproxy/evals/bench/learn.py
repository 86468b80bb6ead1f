"""Does learning keep up, and does the relay notice? ``python -m memproxy.evals.bench.learn [--seconds 60]``.

The same open-loop traffic (so many exchanges a second, whatever the answers take) goes through a proxy that does not
learn and through one that does, by words only, its extraction model stubbed with a latency of a second. Then the
backlog drains. Shown: latencies of both and the ratio of their 99th percentiles, the journal's size on disk, processor
time of relay and engine, what was captured, indexed and lost, and the time of draining.
"""

import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Annotated

import aiohttp
import msgspec
import typer
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from memproxy.demo.facts import extract
from memproxy.demo.process import free_port
from memproxy.evals.bench import payloads
from memproxy.evals.bench.children import Nursery
from memproxy.evals.bench.figures import Times
from memproxy.evals.bench.instance import Instance
from memproxy.tasks import TaskOwner

LATENCY_S = 1.0
USERS = 100
MESSAGES_OF_A_SESSION = 20
DRAIN_LIMIT_S = 900.0
_SAMPLE_EVERY_S = 1.0


class Flood(msgspec.Struct, kw_only=True):
    """What one run of the traffic came to. ``journal_rows`` and ``state_mb`` are the most there were at once."""

    latencies_ms: list[float] = []
    errors: int = 0
    elapsed_s: float = 0.0
    journal_rows: int = 0
    state_mb: float = 0.0

    @property
    def times(self) -> Times:
        """Its latencies."""
        return Times.of(self.latencies_ms)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One instance's figures. ``indexed_after_s`` and ``learned_after_s`` are the seconds from the end of the traffic
    until no row to index, and nothing to learn, was left; None when that took over the limit.
    """

    learns: bool
    times: Times
    errors: int
    elapsed_s: float
    journal_rows: int
    state_mb: float
    indexed_meanwhile: float
    relay_cpu_s: float
    engine_cpu_s: float
    indexed_after_s: float | None
    learned_after_s: float | None
    counters: dict[str, float]
    load_average: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Both, and the ratio of the 99th percentiles with learning to without."""

    turns_per_s: float
    seconds: float
    without: Figures
    learning: Figures

    @property
    def p99_ratio(self) -> float:
        """1 when learning costs the requests nothing."""
        return self.learning.times.p99_ms / max(self.without.times.p99_ms, 0.001)


@asynccontextmanager
async def stub_extractor() -> AsyncIterator[str]:
    """A model that extracts by rules and takes `LATENCY_S` for it; its base URL."""

    async def complete(request: web.Request) -> web.Response:
        asked = await request.json()
        await asyncio.sleep(LATENCY_S)
        found = extract(str(asked["messages"][-1]["content"]))
        message = {"role": "assistant", "content": msgspec.json.encode({"candidates": found}).decode()}
        return web.json_response({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]})

    app, port = web.Application(client_max_size=2**26), free_port()
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        await runner.cleanup()


async def flood(instance: Instance, home: Path, *, per_second: float, seconds: float) -> Flood:
    """Send exchanges at a fixed rate, each of the next user; two turns each."""
    result, owner = Flood(), TaskOwner("flood")
    limit = aiohttp.TCPConnector(limit=0)
    address, headers = f"http://127.0.0.1:{instance.port}", {"authorization": f"Bearer {payloads.KEY}"}
    async with aiohttp.ClientSession(address, headers=headers, connector=limit) as http:
        began = time.perf_counter()
        sampling = owner.start(_sample(home, result), "sample")
        for number in range(round(per_second * seconds)):
            await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            owner.start(_exchange(http, number, result), "exchange")
        result.elapsed_s = time.perf_counter() - began
        sampling.cancel()
        await owner.drain(30.0)
    return result


async def _exchange(http: aiohttp.ClientSession, number: int, result: Flood) -> None:
    user, turn = f"user{number % USERS}", number // USERS
    text = f"My room{number} budget is ${1_000 + number}."
    body = {"model": "stub", "messages": [{"role": "user", "content": text}]}
    headers = {"x-memproxy-user": user, "x-memproxy-session": f"{user}-{turn // MESSAGES_OF_A_SESSION}"}
    began = time.perf_counter()
    try:
        async with http.post("/v1/chat/completions", json=body, headers=headers) as response:
            await response.read()
            result.errors += response.status != 200
    except aiohttp.ClientError:
        result.errors += 1
    else:
        result.latencies_ms.append((time.perf_counter() - began) * 1_000)


async def _sample(home: Path, result: Flood) -> None:
    while True:
        rows, size = await asyncio.to_thread(_journal, home)
        result.journal_rows, result.state_mb = max(result.journal_rows, rows), max(result.state_mb, size)
        await asyncio.sleep(_SAMPLE_EVERY_S)


def _journal(home: Path) -> tuple[int, float]:
    """Rows that wait, and megabytes of the state's files."""
    with closing(sqlite3.connect(home / "state.db", timeout=10)) as db:
        (rows,) = db.execute("SELECT count(*) FROM journal").fetchone()
    return int(rows), sum(file.stat().st_size for file in home.glob("state.db*")) / 1e6


def _left(home: Path) -> tuple[int, int]:
    """Rows to index; rows to learn from and sessions that are due for it."""
    with closing(sqlite3.connect(home / "state.db", timeout=10)) as db:
        rows = dict(db.execute("SELECT lane, count(*) FROM journal WHERE state != 'parked' GROUP BY lane").fetchall())
        (sessions,) = db.execute("SELECT count(*) FROM progress WHERE unlearned >= 10").fetchone()
    return int(rows.get("index", 0)), int(rows.get("learn", 0)) + int(sessions)


async def drained(home: Path, limit_s: float, *, learns: bool) -> tuple[float | None, float | None]:
    """Seconds until nothing is left to index, and to learn from; None for what takes over ``limit_s``."""
    began, indexed = time.perf_counter(), None
    while (waited := time.perf_counter() - began) < limit_s:
        to_index, to_learn = await asyncio.to_thread(_left, home)
        if not to_index and indexed is None:
            indexed = waited
        if not to_index and not (learns and to_learn):
            return indexed, waited
        await asyncio.sleep(_SAMPLE_EVERY_S)
    return indexed, None


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time that these processes took so far; 0 where the system does not tell (it does on Linux)."""
    ticks = 0
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            # after the command's name in parentheses: state is the third field, user and system time 14 and 15
            fields = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def counters(instance: Instance) -> dict[str, float]:
    """Turns captured, lost and indexed, and parked rows, of an instance."""
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{instance.port}/metrics") as response,
    ):
        text = await response.text()
    wanted = {
        ("memproxy_turns_captured_total", None): "captured",
        ("memproxy_turns_lost_total", None): "lost",
        ("memproxy_memories_written_total", "turn"): "indexed",
        ("memproxy_memories_written_total", "add"): "facts",
        ("memproxy_learn_jobs", "parked"): "parked",
    }
    found = dict.fromkeys(wanted.values(), 0.0)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = wanted.get((sample.name, sample.labels.get("operation") or sample.labels.get("state")))
            if name is not None:
                found[name] += sample.value
    return found


async def measure(console: Console, *, turns: float, seconds: float, limit_s: float) -> Comparison:
    """Both runs, shown as they end."""
    found: dict[bool, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="memproxy-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Nursery(folder) as nursery:
            _, upstream_port = await nursery.start_server("upstream")
            async with stub_extractor() as extractor:
                for learns in (False, True):
                    instance = await Instance.start(
                        nursery,
                        folder,
                        "learning" if learns else "plain",
                        upstream_port=upstream_port,
                        model_path=None,
                        extractor=extractor if learns else None,
                    )
                    found[learns] = await _run(
                        instance, folder / instance.name, learns, turns=turns, seconds=seconds, limit_s=limit_s
                    )
                    _show(console, instance.name, found[learns])
                    await instance.stop()
    compared = Comparison(turns_per_s=turns, seconds=seconds, without=found[False], learning=found[True])
    console.print(f"p99 with learning / without: {compared.p99_ratio:.2f}")
    return compared


async def _run(
    instance: Instance, home: Path, learns: bool, *, turns: float, seconds: float, limit_s: float
) -> Figures:
    """The traffic through one instance, and its draining."""
    relay, engine = cpu_seconds(instance.relay_pids), cpu_seconds(instance.engine_pids)
    run = await flood(instance, home, per_second=turns / 2, seconds=seconds)
    relay, engine = cpu_seconds(instance.relay_pids) - relay, cpu_seconds(instance.engine_pids) - engine
    load, meanwhile = os.getloadavg()[0], (await counters(instance))["indexed"]
    indexed, learned = await drained(home, limit_s, learns=learns)
    return Figures(
        learns=learns,
        times=run.times,
        errors=run.errors,
        elapsed_s=run.elapsed_s,
        journal_rows=run.journal_rows,
        state_mb=run.state_mb,
        indexed_meanwhile=meanwhile,
        relay_cpu_s=relay,
        engine_cpu_s=engine,
        indexed_after_s=indexed,
        learned_after_s=learned,
        counters=await counters(instance),
        load_average=load,
    )


def _show(console: Console, name: str, run: Figures) -> None:
    times = run.times
    console.print(
        f"{name}: {times.count} exchanges in {run.elapsed_s:.0f} s, {run.errors} errors; p50 {times.p50_ms:.1f} ms, "
        f"p95 {times.p95_ms:.1f} ms, p99 {times.p99_ms:.1f} ms; at most {run.journal_rows} journal rows, "
        f"{run.state_mb:.1f} MB of state; processor time of the relay {run.relay_cpu_s:.1f} s, of the engine "
        f"{run.engine_cpu_s:.1f} s (load average {run.load_average:.1f})",
        soft_wrap=True,
    )
    console.print(
        f"  {run.indexed_meanwhile:.0f} turns were indexed at its end, all after {_seconds(run.indexed_after_s)}, "
        f"learned from after {_seconds(run.learned_after_s)}: {run.counters}",
        soft_wrap=True,
    )


def _seconds(took: float | None) -> str:
    return "more than the limit" if took is None else f"{took:.0f} s"


def main(
    *,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds of traffic, twice.")] = 60.0,
    turns: Annotated[float, typer.Option(min=2, help="Turns (messages) a second, two for each exchange.")] = 200.0,
    limit: Annotated[float, typer.Option(help="Longest draining, in seconds.")] = DRAIN_LIMIT_S,
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
) -> None:
    """Compare the relay's latency with learning on and off, and see the backlog drain."""
    compared = asyncio.run(measure(Console(), turns=turns, seconds=seconds, limit_s=limit))
    if json is not None:
        figures = {**msgspec.to_builtins(compared), "p99_ratio": compared.p99_ratio}
        json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")


if __name__ == "__main__":
    typer.run(main)
