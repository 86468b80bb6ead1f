"""Kills a real ``memproxy serve`` over and over while people talk through it, then counts what is left.

    python -m tests.e2e.crash [--cycles 200] [--seed N] [--users 6] [--learn model|verbatim|both]
        [--folder DIR]

Each cycle lets people talk (streamed and not, new statements and corrections of the same ones), kills the relay, the
engine, both, the supervisor or all of them with SIGKILL, at a random moment, right after a model's answer (while its
plan is made and applied; where the rules learn, while they do) or while the store is away, and starts again what nobody
else starts. In the end the journal must drain, and `crash_audit` compares what is stored with what was said. The home
is made in main memory where there is room (``--folder`` names another place): a killed process loses nothing there that
it would not lose on a disk either, and starts sooner.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from memproxy.evals.output import Step, progress
from tests.e2e.crash_audit import Audit, audit, drained, number
from tests.e2e.crash_people import People, talking
from tests.support.folders import MEMORY_FOLDER, has_room
from tests.support.proxy import Proxy, base_config, free_port, merged
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import LONGEST_S, eventually

VICTIMS = ("engine", "relay", "both", "supervisor", "all")
LEARN_MODES = ("model", "verbatim")
MOMENTS = ("any", "apply", "outage")
LONGEST_TALK_S = 1.2
LONGEST_APPLY_S = 0.3
"""A plan is saved, applied and flushed within about this time after the model's answer."""

_LOOK_S = 0.02
DRAIN_S = 400.0
READY_S = 240.0
"""A start took 20 to 40 s beside twenty other busy processes."""

_MARKER = "memproxy-store.json"
_APPLYING = "SELECT count(*) FROM journal WHERE state = 'running' AND plan IS NOT NULL"
_RUNNING = "SELECT count(*) FROM journal WHERE state = 'running'"
_LEARNING = "SELECT count(*) FROM journal WHERE state = 'running' AND lane = 'learn'"


@dataclass
class Figures:
    """What was done, for the report."""

    kills: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    hit_running: int = 0
    hit_applying: int = 0
    seconds: float = 0.0
    drain_s: float = 0.0


def config(upstream: ScriptedUpstream, learn: str) -> dict[str, Any]:
    """Learning soon after every turn, by a model whose key is known (so that nothing waits for a next request) or by
    the rules. No row is given up: it would be blamed for kills that it did not cause (`test_crashes` has a row that
    does).
    """
    model = {"base_url": upstream.base_url, "model": "extractor", "api_key": "sk-test-extractor"}
    soon = {"mode": learn, "every_turns": 4, "idle_s": 0.5, "max_attempts": 10_000}
    changes = {"learn": soon, "models": {"extract": model}}
    return merged(base_config(upstream.base_url, free_port()), changes)


async def run(
    home: Path,
    *,
    cycles: int,
    seed: int,
    users: int,
    learn: str = "model",
    pause_s: float = 1.0,
    step: Step = lambda _done: None,
) -> tuple[People, Figures, Audit]:
    """All of it; ``learn`` is ``learn.mode``, and ``step`` is told of each cycle."""
    chance, people, figures = random.Random(seed), People(verbatim=learn == "verbatim"), Figures()
    began = time.monotonic()
    async with scripted_upstream() as upstream:
        upstream.extractor = people.extract
        proxy = Proxy(home, config(upstream, learn))
        try:
            await _start(proxy)
            async with talking(proxy, people, users=users, pause_s=pause_s, chance=chance):
                for _ in range(cycles):
                    await _cycle(proxy, people, figures, chance)
                    step(1)
                await proxy.memory_ready(READY_S)
            figures.seconds = time.monotonic() - began
            await drained(proxy, DRAIN_S)
            figures.drain_s = time.monotonic() - began - figures.seconds
            return people, figures, await audit(proxy, people)
        finally:
            await _end(proxy)


async def _end(proxy: Proxy) -> None:
    if proxy.process.poll() is None:
        await proxy.stop()


async def _cycle(proxy: Proxy, people: People, figures: Figures, chance: random.Random) -> None:
    """Talk, kill, start again; often the next cycle begins before everything is well again."""
    victim, moment = chance.choice(VICTIMS), chance.choice(MOMENTS)
    await asyncio.sleep(chance.uniform(0.05, LONGEST_TALK_S))
    if moment == "apply":
        victim = chance.choice(("engine", "engine", "all"))
        with suppress(TimeoutError):
            await asyncio.wait_for(_learning(proxy, people), 3.0)
        await asyncio.sleep(chance.uniform(0, LONGEST_APPLY_S))
    if moment == "outage":
        with suppress(FileNotFoundError):  # the very first kills may come before there is a store
            marker = proxy.home / "store" / _MARKER
            marker.rename(aside := proxy.home / _MARKER)
            try:
                await asyncio.sleep(chance.uniform(0, LONGEST_TALK_S))
                await _kill(proxy, victim, figures)
                await asyncio.sleep(chance.uniform(0, LONGEST_TALK_S))
            finally:
                aside.rename(marker)
    else:
        await _kill(proxy, victim, figures)
    figures.moments[moment] += 1
    if chance.random() < 0.5:
        await proxy.memory_ready(READY_S)


async def _learning(proxy: Proxy, people: People) -> None:
    """Returns when something is to be planned and applied."""
    if not people.verbatim:
        people.extracting.clear()
        await people.extracting.wait()
    while people.verbatim and not number(proxy, _LEARNING):
        await asyncio.sleep(_LOOK_S)


async def _kill(proxy: Proxy, victim: str, figures: Figures) -> None:
    figures.kills[victim] += 1
    if victim == "all":
        proxy.kill()
    elif victim == "supervisor":
        proxy.process.kill()
        proxy.process.wait(LONGEST_S)
    else:
        names = {"relay": ("_relay",), "engine": ("_engine",), "both": ("_relay", "_engine")}[victim]
        for process in [process for name in names for process in proxy.family(name)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    if victim != "relay":
        figures.hit_running += number(proxy, _RUNNING) > 0
        figures.hit_applying += number(proxy, _APPLYING) > 0
    if proxy.process.poll() is not None:
        await _start(proxy)
    else:
        await eventually(lambda: proxy.family("_relay"), READY_S, what="a relay")


async def _start(proxy: Proxy) -> None:
    """Start it and wait until requests are served, memory or not."""

    async def served() -> bool:
        return (await proxy.readiness())[0] == 200

    proxy.launch()
    await eventually(served, READY_S, what=lambda: f"it serves\n{proxy.log[-5000:]}")


def report(people: People, figures: Figures, found: Audit, seed: int) -> str:
    learned = "the rules" if people.verbatim else "a model"
    kills = ", ".join(f"{name} {count}" for name, count in sorted(figures.kills.items()))
    moments = ", ".join(f"{name} {count}" for name, count in sorted(figures.moments.items()))
    lines = [
        f"seed {seed}, learned by {learned}: {figures.kills.total()} kills in {figures.seconds:.0f} s ({kills})",
        f"  moments: {moments}",
        f"  rows were running at {figures.hit_running} kills, a plan was being applied at {figures.hit_applying}",
        f"  {len(people.said)} messages said, {len(people.ended)} answers ended at the client",
        f"  {people.extractions} extractions; stored: {found.turns} turns, {found.facts} facts",
        f"  drained in {figures.drain_s:.1f} s; {found.parked} rows parked, {found.refused} refused",
        f"  {len(found.faults)} faults",
    ]
    return "\n".join([*lines, *(f"    {fault}" for fault in found.faults[:40])])


def main() -> int:
    """The command; 1 when there is any fault."""
    parser = argparse.ArgumentParser(description="Kill memproxy over and over, then count what is left.")
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--users", type=int, default=6)
    parser.add_argument("--learn", choices=(*LEARN_MODES, "both"), default="model")
    parser.add_argument("--folder", type=Path, default=MEMORY_FOLDER if has_room(MEMORY_FOLDER) else None)
    chosen = parser.parse_args()
    modes = LEARN_MODES if chosen.learn == "both" else (chosen.learn,)
    return max([_run_in(chosen, learn) for learn in modes])


def _run_in(chosen: argparse.Namespace, learn: str) -> int:
    """All cycles with one ``learn.mode``; 1 when there is any fault. Then the home is kept and named."""
    home = Path(tempfile.mkdtemp(prefix="memproxy-crash-", dir=chosen.folder))
    try:
        with progress(Console(stderr=True), "kills", chosen.cycles) as step:
            work = run(home, cycles=chosen.cycles, seed=chosen.seed, users=chosen.users, learn=learn, step=step)
            people, figures, found = asyncio.run(work)
    except BaseException:
        print(f"seed {chosen.seed}; its home is kept: {home}", file=sys.stderr)
        raise
    print(report(people, figures, found, chosen.seed))
    if found.faults:
        print(f"the home is kept: {home}", file=sys.stderr)
        return 1
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
