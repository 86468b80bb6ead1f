"""A whole run, in order: starts, memories in and out again, then requests and streams side by side."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench import calls, recall, targets
from tests.bench.figures import MemoryUse, RecallRow, Report, Row
from tests.bench.instance import Instance, Residence, Starting
from tests.bench.machine import BUSY_LOAD, Machine, OthersWatch, Pinning, describe
from tests.bench.plan import Plan, Population
from tests.bench.stage import Stage, open_stage
from tests.bench.targets import STRANGER, STRANGER_MEMORIES, USER, VECTORS, WORDS, Target

OTHERS_NOTABLE = 0.05
"""Part of the machine's time that other work may use before the report warns."""

Step = Callable[[str], None]


async def run_suite(
    plan: Plan, *, model_path: Path | None, pinned: bool, begin: Callable[[int], None], step: Step
) -> Report:
    """One whole run. ``begin`` is called with the number of steps, ``step`` before each of them with what comes.

    Raises:
        ConfigError: something could not be started; the message holds the end of its log.
        RequestError: the memory API refused what was put in.
    """
    pinning = Pinning(wanted=pinned)
    machine, watch, began = describe(pinned=pinning.active), OthersWatch(), time.monotonic()
    async with open_stage(pinning) as stage:
        suite = Suite(plan, stage, model_path, step)
        begin(suite.steps())
        await suite.run()
    machine.others_share = watch.share()
    return suite.report(machine, round(time.monotonic() - began, 1))


class Suite:
    """The measurements of one run and what came of them."""

    def __init__(self, plan: Plan, stage: Stage, model_path: Path | None, step: Step) -> None:
        self._plan = plan
        self._stage = stage
        self._model_path = model_path
        self._step = step
        self._starts: list[Starting] = []
        self._recall: list[RecallRow] = []
        self._rows: list[Row] = []
        self._uses: list[MemoryUse] = []
        self._skipped: list[str] = []

    def steps(self) -> int:
        populations = len(self._apart()) + len(self._embedders())
        slices = calls.steps(self._plan, targets.kinds(with_model=self._model_path is not None))
        return self._plan.starts + populations * (recall.STEPS + 1) + slices

    async def run(self) -> None:
        for _ in range(self._plan.starts):
            await (await self._start(None)).stop()
        for population in self._apart():
            instance = await self._start(None)
            await self._populate(instance, population, WORDS)
            await instance.stop()
        await self._measure_chat()

    def _apart(self) -> list[Population]:
        """Populations with a store of their own; that of the chat requests' user is measured where it is used."""
        return [one for one in self._plan.populations if one.users > 1 or one.memories != self._plan.user_memories]

    def _embedders(self) -> list[Path | None]:
        return [None] if self._model_path is None else [None, self._model_path]

    async def _start(self, model_path: Path | None) -> Instance:
        self._step("starting memproxy")
        instance = await self._stage.start_instance(model_path=model_path)
        if model_path is None:
            self._starts.append(instance.starting)
        return instance

    async def _populate(self, instance: Instance, population: Population, embedder: str) -> None:
        row = await recall.measure_population(
            self._stage.client,
            instance,
            population,
            user=USER,
            embedder=embedder,
            searches=self._plan.searches,
            step=self._step,
        )
        self._recall.append(row)

    async def _measure_chat(self) -> None:
        memories = self._plan.user_memories
        chosen: list[Target] = []
        at_start: list[tuple[Instance, str, Residence]] = []
        for model_path in self._embedders():
            instance = await self._start(model_path)
            embedder = WORDS if model_path is None else VECTORS
            at_start.append((instance, embedder, instance.residence()))
            await self._populate(instance, Population(memories=memories), embedder)
            if model_path is None:
                await instance.ingest(STRANGER, 0, min(memories, STRANGER_MEMORIES))
            chosen += targets.of_instance(instance, embedder, memories)
        baselines, self._skipped = await targets.start_baselines(self._stage, memories)
        for situation in calls.situations(self._plan):
            self._rows += await calls.measure(
                self._stage.client, self._plan, situation, [*baselines, *chosen], self._step
            )
        self._uses = [self._use(*each, chosen) for each in at_start]

    def _use(self, instance: Instance, embedder: str, start: Residence, chosen: list[Target]) -> MemoryUse:
        names = {target.name for target in chosen if target.instance is instance}
        requests = sum(row.total.count for row in self._rows if row.target in names)
        return MemoryUse(instance=embedder, at_start=start, at_end=instance.residence(), requests=requests)

    def report(self, machine: Machine, seconds: float) -> Report:
        return Report(
            plan=self._plan.name,
            machine=machine,
            warnings=[*self._skipped, *_circumstances(machine), *self._errors()],
            seconds=seconds,
            starts=self._starts,
            calls=[row for row in self._rows if row.kind == "call"],
            streams=[row for row in self._rows if row.kind == "stream"],
            recall=sorted(self._recall, key=lambda row: (row.memories, row.users, row.embedder)),
            memory_use=self._uses,
        )

    def _errors(self) -> list[str]:
        rows = [
            f"{row.target}, {row.kind} {row.body_bytes} B at {row.concurrency}: {row.errors}"
            for row in self._rows
            if row.errors
        ]
        searches = [f"search among {row.memories}: {row.errors}" for row in self._recall if row.errors]
        return [*rows, *searches]


def _circumstances(machine: Machine) -> list[str]:
    """What makes figures worse than they need be."""
    found = []
    load, others = machine.load_average_at_start[0], machine.others_share
    if load > BUSY_LOAD * (os.cpu_count() or 1):
        found.append(f"The machine was busy at the start (load average {load:.2f}): figures may be too bad.")
    if others is not None and others > OTHERS_NOTABLE:
        found.append(f"Other work used {others:.0%} of the machine during the run: figures may be too bad.")
    if not machine.pinned:
        found.append("The relay under test had no processor of its own.")
    return found
