"""Which files of memproxy one chat request and one captured turn enter: ``python -m tests.walk``.

A real proxy is started with a scripted model. Its processes note every file of the package in which they call a
function, while they answer a request for which memories are recalled, and then while a turn is captured, indexed and
learned from.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from tests.e2e.talk import chat, extract_by_rules, found
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent
HOOK = Path(__file__).resolve().parent / "support" / "entered"

REQUEST, TURN = "request", "turn"
PROCESSES = ("relay", "engine", "state")
TURN_BEGINS_IN = "relay/capture.py"

REQUEST_QUIET_S, TURN_QUIET_S = 0.4, 1.5
"""A request or a turn is over when no process entered another file for this long."""

Walk = dict[str, list[str]]
"""The files that each process entered, in order."""


QUESTIONS = ("Which name does my dog have?", "What name did I give my dog?", "How is my dog called?")
TOLD = ("My cat is called Minka.", "My parrot is called Coco.", "My rabbit is called Hazel.")
"""Each is asked and told once: what all of them enter is the walk, for other tasks of the processes go on meanwhile."""


async def walk(home: Path) -> dict[str, Walk]:
    """What one request and one turn enter, of a proxy with this home."""
    notes = home / "entered"
    notes.mkdir(parents=True)
    (notes / "phase").touch()
    async with scripted_upstream() as upstream, _noting_proxy(upstream, home, notes) as proxy, proxy.client() as client:
        upstream.extractor = extract_by_rules
        await chat(client, "My dog is called Biscuit.")
        await eventually(lambda: found(proxy, "Biscuit", kind="semantic"), what="a first turn is learned from")
        await chat(client, "What is my dog called?", headers={"x-memproxy-memory": "read"})  # what is done once is done
        await asyncio.sleep(TURN_QUIET_S)
        for place, question in enumerate(QUESTIONS):
            await _begin(notes, f"{REQUEST}{place}")
            answer = await chat(client, question, headers={"x-memproxy-memory": "read"})
            assert answer.recall == "injected", answer.recall
            await _quiet(notes, f"{REQUEST}{place}", REQUEST_QUIET_S)
        for place, text in enumerate(TOLD):
            learned = len(upstream.extractions)
            await _begin(notes, f"{TURN}{place}", TURN_BEGINS_IN)
            await chat(client, text, headers={"x-memproxy-memory": "write"})
            await eventually(partial(_extracted, upstream, learned), what="the turn is learned from")
            await _quiet(notes, f"{TURN}{place}", TURN_QUIET_S)
    return {
        REQUEST: _common([_entered(notes, f"{REQUEST}{place}") for place in range(len(QUESTIONS))]),
        TURN: _common([_entered(notes, f"{TURN}{place}") for place in range(len(TOLD))]),
    }


@asynccontextmanager
async def _noting_proxy(upstream: ScriptedUpstream, home: Path, notes: Path) -> AsyncIterator[Proxy]:
    paths = os.pathsep.join([str(HOOK), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    changes = {"learn": {"every_turns": 1, "idle_s": 60}}
    environment = {"PYTHONPATH": paths, "ENTERED_FOLDER": str(notes)}
    async with running_proxy(upstream.base_url, home, changes, environment=environment) as proxy:
        yield proxy


async def _begin(notes: Path, phase: str, begins_in: str = "") -> None:
    new = notes / "phase.new"
    new.write_text(f"{phase} {begins_in}", encoding="utf-8")
    new.replace(notes / "phase")
    await eventually(lambda: len(_entered(notes, phase)) == len(PROCESSES), what="every process notes")


def _entered(notes: Path, phase: str) -> Walk:
    files = {process: notes / f"{phase}-{process}" for process in PROCESSES}
    return {name: path.read_text(encoding="utf-8").split() for name, path in files.items() if path.exists()}


def _extracted(upstream: ScriptedUpstream, before: int) -> bool:
    return len(upstream.extractions) > before


def _common(walks: list[Walk]) -> Walk:
    """What all of them entered, in the order of the first."""
    first, *others = walks
    common = {
        process: [name for name in names if all(name in other.get(process, ()) for other in others)]
        for process, names in first.items()
    }
    return {process: names for process, names in common.items() if names}


async def _quiet(notes: Path, phase: str, quiet_s: float) -> None:
    before: Walk = {}
    since = time.monotonic()
    while time.monotonic() - since < quiet_s:
        if (now := _entered(notes, phase)) != before:
            before, since = now, time.monotonic()
        await asyncio.sleep(0.05)


def report(walks: dict[str, Walk]) -> str:
    """The files of both walks, process by process, and how many there are."""
    lines = []
    for phase, entered in walks.items():
        files = {name for names in entered.values() for name in names}
        lines.append(f"one {phase}: {len(files)} files")
        lines += [f"  {process} ({len(names)}): {' '.join(names)}" for process, names in entered.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(report(asyncio.run(walk(Path(folder) / "home"))))
