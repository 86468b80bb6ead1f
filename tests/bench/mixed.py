"""One installation under everything at once: ``python -m tests.bench.mixed [--minutes 30] [--rate N]``.

Chat requests (with memory, reading, without; streams), searches, lists and saved memories of `USERS` users come at a
fixed rate, whatever the answers take. Without ``--rate`` the highest is looked for first: it is raised by half until
something fails, is degraded, or takes too long, and what held last counts. Then it is held, and every `LOOK_S` seconds
resident memory, descriptors, threads and tasks of each process are read. Printed are the errors, the latencies, and how
each of those grew over the second half. Exits with 1 where there was an error.
"""

import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import msgspec
import psutil
import typer
from rich.console import Console

from memproxy.tasks import TaskOwner
from tests.bench import payloads
from tests.bench.children import family
from tests.bench.figures import Times
from tests.bench.jobs import RECALL_HEADER
from tests.bench.learn_load import Extractor
from tests.bench.machine import Pinning
from tests.bench.stage import open_stage

USERS = 200
FIRST_RATE, STEP_S, STEPS = 4.0, 20.0, 12
SLOW_MS = 1_000.0
"""A rate is not held at which one request in twenty takes longer."""

LOOK_S = 10.0
PATIENCE_S = 60.0
_MIX = ("on",) * 9 + ("read",) * 4 + ("off",) * 2 + ("stream",) * 2 + ("search", "list", "save")

_COUNTER = """
import asyncio.tasks, os, threading, time
def look():
    while True:
        with open(os.path.join({folder!r}, "tasks-%d" % os.getpid()), "w") as out:
            out.write(str(sum(not one.done() for one in list(asyncio.tasks._all_tasks))))
        time.sleep(2)
threading.Thread(target=look, daemon=True).start()
"""
"""Runs in each process of the proxy, and notes how many tasks it has."""


class Mixed(msgspec.Struct):
    """What so many seconds came to."""

    sent: int = 0
    took_ms: list[float] = []
    errors: Counter[str] = Counter()
    recalls: Counter[str] = Counter()

    @property
    def degraded(self) -> float:
        chats = sum(self.recalls.values())
        return sum(count for name, count in self.recalls.items() if name.startswith("degraded")) / max(1, chats)

    def held(self, degraded: float) -> bool:
        """Whether the machine keeps pace, no more than this share of the chats without memory."""
        in_time = bool(self.took_ms) and Times.of(self.took_ms).p95_ms <= SLOW_MS
        return not self.errors and in_time and self.degraded <= degraded


class Sender:
    """Sends requests, numbered over the whole run."""

    def __init__(self, port: int) -> None:
        self._http = aiohttp.ClientSession(
            f"http://127.0.0.1:{port}",
            headers={"authorization": f"Bearer {payloads.KEY}"},
            json_serialize=lambda value: msgspec.json.encode(value).decode(),  # as the upstream knows a stream by
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=PATIENCE_S),
        )
        self._number = 0

    async def close(self) -> None:
        await self._http.close()

    async def run(self, rate: float, seconds: float) -> Mixed:
        """At a fixed rate for so long, and until the last one is answered."""
        result, owner, began = Mixed(), TaskOwner("mixed"), time.perf_counter()
        for place in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, began + place / rate - time.perf_counter()))
            self._number += 1
            result.sent += 1
            owner.start(self._one(self._number, result), "request")
        await owner.drain(PATIENCE_S)
        return result

    async def _one(self, number: int, result: Mixed) -> None:
        kind, user, began = _MIX[number * 7 % len(_MIX)], f"user{number % USERS}", time.perf_counter()
        try:
            status = await self._asked(kind, user, number, result)
        except (aiohttp.ClientError, TimeoutError) as error:
            result.errors[f"{kind}: {type(error).__name__}"] += 1
            return
        if status >= 400:
            result.errors[f"{kind}: {status}"] += 1
        result.took_ms.append((time.perf_counter() - began) * 1000)

    async def _asked(self, kind: str, user: str, number: int, result: Mixed) -> int:
        call: dict[str, Any]
        match kind:
            case "search":
                call = {"method": "POST", "url": "/v1/memory/search"}
                call["json"] = {"query": payloads.question(number - USERS), "user_id": user, "limit": 5}
            case "list":
                call = {"method": "GET", "url": "/v1/memory", "params": {"user_id": user, "limit": 20}}
            case "save":
                call = {"method": "POST", "url": "/v1/memory"}
                call["json"] = {"content": payloads.fact(number), "user_id": user}
            case _:
                told = payloads.fact(number) if kind == "on" else payloads.question(number - 7 * USERS)
                call = {"method": "POST", "url": "/v1/chat/completions"}
                call["json"] = {"model": "stub", "messages": [{"role": "user", "content": told}]}
                if kind == "stream":
                    call["json"]["stream"] = True
                call["headers"] = {
                    "x-memproxy-memory": kind if kind in {"read", "off"} else "on",
                    "x-memproxy-user": user,
                    "x-memproxy-session": f"{user}-{number // (USERS * 20)}",
                }
        async with self._http.request(**call) as response:
            await response.read()
            if (found := response.headers.get(RECALL_HEADER.decode())) is not None and kind != "off":
                result.recalls[found] += 1
            return response.status


class Look(msgspec.Struct, frozen=True):
    """What a process has at a time."""

    at_s: float
    process: str
    mb: float
    descriptors: int
    threads: int
    tasks: int


def looked(pid: int, folder: Path, at_s: float) -> list[Look]:
    """What each process of the proxy has now."""
    found = []
    for one in family(pid):
        with suppress(psutil.Error, OSError, ValueError):
            process = psutil.Process(one.pid)
            tasks = int((folder / f"tasks-{one.pid}").read_text() or 0)
            name = one.command.rsplit(" ", 1)[-1] if " _" in one.command else "supervisor"
            mb = process.memory_info().rss / 1e6
            found.append(Look(at_s, name, mb, process.num_fds(), process.num_threads(), tasks))
    return found


def grown(looks: list[Look]) -> dict[str, dict[str, list[float]]]:
    """Of each process: what it had in the middle of the second and of the last quarter (medians), and at most."""
    figures: dict[str, dict[str, list[float]]] = {}
    last = max(one.at_s for one in looks)
    for name in sorted({one.process for one in looks}):
        own = [one for one in looks if one.process == name]
        quarters = [[one for one in own if place * last / 4 <= one.at_s <= (place + 1) * last / 4] for place in (1, 3)]
        figures[name] = {
            field: [
                *(round(statistics.median(getattr(one, field) for one in some), 1) for some in quarters if some),
                round(max(getattr(one, field) for one in own), 1),
            ]
            for field in ("mb", "descriptors", "threads", "tasks")
        }
    return figures


async def highest(sender: Sender, degraded: float, console: Console) -> float:
    """The highest rate of those that are tried which is held; the first one, where not even that is."""
    rate = best = FIRST_RATE
    for _ in range(STEPS):
        found = await sender.run(rate, STEP_S)
        console.print(f"{rate:.0f} a second: {Times.of(found.took_ms)}, {found.degraded:.1%} degraded, {found.errors}")
        if not found.held(degraded):
            break
        best, rate = rate, rate * 1.5
    return best


async def measure(minutes: float, rate: float | None, degraded: float, console: Console) -> dict[str, Any]:
    """Find the rate, unless it is given, and hold it."""
    async with open_stage(Pinning(wanted=False)) as stage, Extractor(0.5).serving() as extractor:
        (stage.folder / "sitecustomize.py").write_text(_COUNTER.format(folder=str(stage.folder)))
        environment = {"PYTHONPATH": f"{stage.folder}:{Path(__file__).parents[2]}"}
        instance = await stage.start_instance("mixed", extractor=extractor.base_url, environment=environment)
        sender = Sender(instance.port)
        try:
            found = rate or await highest(sender, degraded, console)
            looks, began, owner = list[Look](), time.perf_counter(), TaskOwner("looks")

            async def look_on() -> None:
                while True:
                    at_s = time.perf_counter() - began
                    looks.extend(await asyncio.to_thread(looked, instance.pid, stage.folder, at_s))
                    await asyncio.sleep(LOOK_S)

            owner.start(look_on(), "look")
            load = [psutil.getloadavg()[0]]
            mixed = await sender.run(found, 60 * minutes)
            load.append(psutil.getloadavg()[0])
            await owner.cancel()
        finally:
            await sender.close()
    return {
        "rate": round(found, 1),
        "minutes": minutes,
        "requests": mixed.sent,
        "errors": dict(mixed.errors),
        "latency": msgspec.to_builtins(Times.of(mixed.took_ms)),
        "recalls": dict(mixed.recalls),
        "of each process, second quarter, last quarter, at most": grown(looks),
        "load of the machine, begin and end": load,
    }


def main(
    *,
    degraded: Annotated[float, typer.Option(help="Share of the chats that may go without memory.")] = 0.01,
    minutes: Annotated[float, typer.Option(min=0.1, help="To hold the rate for.")] = 30.0,
    rate: Annotated[float | None, typer.Option(help="Requests a second; without it the highest is looked for.")] = None,
) -> None:
    """Find the highest mixed rate and hold it; a line of JSON."""
    figures = asyncio.run(measure(minutes, rate, degraded, Console(stderr=True)))
    typer.echo(json.dumps(figures))
    sys.exit(bool(figures["errors"]))


if __name__ == "__main__":
    typer.run(main)
