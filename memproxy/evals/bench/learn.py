"""Does learning keep up, and does the relay notice? ``python -m memproxy.evals.bench.learn [--seconds 60]``.

The same open-loop traffic (so many exchanges a second, whatever the answers take) goes through a proxy that does not
learn and through one that does, by words only, its extraction model stubbed with a latency of a second. Then the
backlog drains. Shown: latencies of both and the ratio of their 99th percentiles, the journal's size on disk, what was
captured, indexed and lost, and the time of draining.
"""

import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator
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
    """What one run of the traffic came to."""

    latencies_ms: list[float] = []
    errors: int = 0
    elapsed_s: float = 0.0
    journal_rows: int = 0
    state_mb: float = 0.0

    @property
    def times(self) -> Times:
        """Its latencies."""
        return Times.of(self.latencies_ms)


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


def _unlearned(home: Path) -> int:
    with closing(sqlite3.connect(home / "state.db", timeout=10)) as db:
        (sessions,) = db.execute("SELECT count(*) FROM progress WHERE unlearned >= 10").fetchone()
    return int(sessions)


async def drained(home: Path, limit_s: float) -> float | None:
    """Seconds until no row and no session that is due is left; None when that takes over ``limit_s``."""
    began = time.perf_counter()
    while time.perf_counter() - began < limit_s:
        if not (await asyncio.to_thread(_journal, home))[0] and not await asyncio.to_thread(_unlearned, home):
            return time.perf_counter() - began
        await asyncio.sleep(_SAMPLE_EVERY_S)
    return None


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


async def measure(console: Console, *, turns: float, seconds: float, limit_s: float) -> None:
    """Both runs, and what is shown of them."""
    with tempfile.TemporaryDirectory(prefix="memproxy-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Nursery(folder) as nursery:
            _, upstream_port = await nursery.start_server("upstream")
            async with stub_extractor() as extractor:
                runs = {}
                for learns in (False, True):
                    instance = await Instance.start(
                        nursery,
                        folder,
                        "learning" if learns else "plain",
                        upstream_port=upstream_port,
                        model_path=None,
                        extractor=extractor if learns else None,
                    )
                    home = folder / instance.name
                    run = runs[learns] = await flood(instance, home, per_second=turns / 2, seconds=seconds)
                    _show(console, instance.name, run)
                    took = await drained(home, limit_s)
                    console.print(
                        f"  drained in {took if took is None else round(took, 1)} s: {await counters(instance)}"
                    )
                    await instance.stop()
                ratio = runs[True].times.p99_ms / max(runs[False].times.p99_ms, 0.001)
                console.print(f"p99 with learning / without: {ratio:.2f} (load average {os.getloadavg()[0]:.1f})")


def _show(console: Console, name: str, run: Flood) -> None:
    times = run.times
    console.print(
        f"{name}: {times.count} exchanges in {run.elapsed_s:.0f} s, {run.errors} errors; p50 {times.p50_ms:.1f} ms, "
        f"p95 {times.p95_ms:.1f} ms, p99 {times.p99_ms:.1f} ms; at most {run.journal_rows} journal rows, "
        f"{run.state_mb:.1f} MB of state (load average {os.getloadavg()[0]:.1f})"
    )


def main(
    *,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds of traffic, twice.")] = 60.0,
    turns: Annotated[float, typer.Option(min=2, help="Turns (messages) a second, two for each exchange.")] = 200.0,
    limit: Annotated[float, typer.Option(help="Longest draining, in seconds.")] = DRAIN_LIMIT_S,
) -> None:
    """Compare the relay's latency with learning on and off, and see the backlog drain."""
    asyncio.run(measure(Console(), turns=turns, seconds=seconds, limit_s=limit))


if __name__ == "__main__":
    typer.run(main)
