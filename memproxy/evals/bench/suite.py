"""A whole run: starts everything on 127.0.0.1, measures in order, stops everything."""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from memproxy.evals.bench import calls, recall, targets
from memproxy.evals.bench.calls import LoadClient
from memproxy.evals.bench.children import Child, Nursery
from memproxy.evals.bench.figures import MemoryUse, RecallRow, Report, Row
from memproxy.evals.bench.instance import Instance, Residence, Starting
from memproxy.evals.bench.machine import BUSY_LOAD, OthersWatch, Pinning, describe
from memproxy.evals.bench.plan import Plan, Population
from memproxy.evals.bench.targets import Target

OTHERS_NOTABLE = 0.05
"""Part of the machine's time that other work may use before the report warns."""

WORDS, VECTORS = "words only", "fastembed"


class Suite:
    """One run."""

    def __init__(
        self, plan: Plan, folder: Path, nursery: Nursery, *, model_path: Path | None, pinning: Pinning
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._nursery = nursery
        self._model_path = model_path
        self._pinning = pinning
        self._count = 0
        self._upstream: tuple[Child, int] | None = None
        self._client: LoadClient | None = None
        self._starts: list[Starting] = []
        self._recall: list[RecallRow] = []
        self._rows: list[Row] = []
        self._uses: list[MemoryUse] = []
        self._skipped: list[str] = []

    def steps(self) -> int:
        """How often `run` calls ``step``, about: nginx may be missing."""
        chat = targets.count(with_model=self._model_path is not None)
        populations = len(self._populations()) + len(self._embedders())
        measured = sum(
            calls.rounds(self._plan, each) * (targets.STREAMED if each.stream else chat)
            for each in calls.situations(self._plan)
        )
        return self._plan.starts + populations * (recall.steps() + 1) + measured

    async def run(self, step: Callable[[str], None]) -> Report:
        """Measure everything; ``step`` is called before each step with what comes."""
        machine = describe(pinned=self._pinning.active)
        watch, began = OthersWatch(), time.monotonic()
        async with AsyncExitStack() as stack:
            await self._start_helpers(stack)
            await self._measure_starts(step)
            for population in self._populations():
                await self._measure_apart(population, step)
            await self._measure_chat(stack, step)
        machine.others_share = watch.share()
        return Report(
            plan=self._plan.name,
            machine=machine,
            warnings=self._warnings(machine.load_average_at_start[0], machine.others_share),
            seconds=round(time.monotonic() - began, 1),
            starts=self._starts,
            calls=[row for row in self._rows if row.kind == "call"],
            streams=[row for row in self._rows if row.kind == "stream"],
            recall=sorted(self._recall, key=lambda row: (row.memories, row.users, row.embedder)),
            memory_use=self._uses,
        )

    def _populations(self) -> list[Population]:
        """Those that have an instance of their own; the chat requests' user is measured where it is used."""
        return [one for one in self._plan.populations if one.users > 1 or one.memories != self._plan.user_memories]

    def _embedders(self) -> list[Path | None]:
        return [None] if self._model_path is None else [None, self._model_path]

    async def _start_helpers(self, stack: AsyncExitStack) -> None:
        upstream, port = await self._nursery.start_server("upstream")
        client = await self._nursery.start_module("client")
        for child in (upstream, client):
            stack.push_async_callback(child.stop)
            self._pinning.pin_rest([child.pid])
        self._upstream, self._client = (upstream, port), LoadClient(client)

    async def _start_instance(self, model_path: Path | None) -> Instance:
        assert self._upstream is not None, "started first"  # noqa: S101 - a programming error, not an input
        self._count += 1
        name = f"memproxy-{self._count}"
        instance = await Instance.start(
            self._nursery, self._folder, name, upstream_port=self._upstream[1], model_path=model_path
        )
        instance.pin(self._pinning)
        return instance

    async def _measure_starts(self, step: Callable[[str], None]) -> None:
        for _ in range(self._plan.starts):
            step("starting memproxy")
            instance = await self._start_instance(None)
            await instance.stop()
            self._starts.append(instance.starting)

    async def _measure_apart(self, population: Population, step: Callable[[str], None]) -> None:
        """A population in a store of its own, by words."""
        step("starting memproxy")
        instance = await self._start_instance(None)
        try:
            await self._populate(instance, population, WORDS, step)
        finally:
            await instance.stop()

    async def _populate(
        self, instance: Instance, population: Population, embedder: str, step: Callable[[str], None]
    ) -> None:
        row = await recall.measure_population(
            self._need_client(),
            instance,
            population,
            user=targets.USER,
            embedder=embedder,
            searches=self._plan.searches,
            step=step,
        )
        self._recall.append(row)

    def _need_client(self) -> LoadClient:
        assert self._client is not None, "started first"  # noqa: S101 - a programming error, not an input
        return self._client

    async def _measure_chat(self, stack: AsyncExitStack, step: Callable[[str], None]) -> None:
        memories = self._plan.user_memories
        chosen: list[Target] = []
        at_start: list[tuple[Instance, str, Residence]] = []
        for model_path in self._embedders():
            step("starting memproxy")
            instance = await self._start_instance(model_path)
            stack.push_async_callback(instance.stop)
            embedder = WORDS if model_path is None else VECTORS
            at_start.append((instance, embedder, instance.residence()))
            await self._populate(instance, Population(memories=memories), embedder, step)
            if model_path is None:
                await instance.ingest(targets.STRANGER, 0, min(memories, targets.STRANGER_MEMORIES))
            chosen += (targets.of_words if model_path is None else targets.of_vectors)(instance, memories)
        assert self._upstream is not None, "started first"  # noqa: S101 - a programming error, not an input
        baselines, self._skipped = await targets.start_baselines(
            self._nursery, self._folder, self._upstream, self._pinning, memories
        )
        for situation in calls.situations(self._plan):
            found = await calls.measure(self._need_client(), self._plan, situation, [*baselines, *chosen], step)
            self._rows += found
        self._uses = [self._use(*each, chosen) for each in at_start]

    def _use(self, instance: Instance, embedder: str, start: Residence, chosen: list[Target]) -> MemoryUse:
        names = {target.name for target in chosen if target.instance is instance}
        requests = sum(row.total.count for row in self._rows if row.target in names)
        return MemoryUse(instance=embedder, at_start=start, at_end=instance.residence(), requests=requests)

    def _warnings(self, load: float, others: float | None) -> list[str]:
        found = list(self._skipped)
        if load > BUSY_LOAD * (os.cpu_count() or 1):
            found.append(f"The machine was busy when the run began (load average {load:.2f}): figures may be too bad.")
        if others is not None and others > OTHERS_NOTABLE:
            found.append(f"Other work used {others:.0%} of the machine while the run was on: figures may be too bad.")
        if not self._pinning.active:
            found.append("The relay under test shared its processors with the load client and the upstream.")
        for row in self._rows:
            if row.errors:
                found.append(f"{row.target}, {row.kind} of {row.body_bytes} bytes at {row.concurrency}: {row.errors}.")
        return found


async def run_suite(
    plan: Plan, *, model_path: Path | None, pinned: bool, step: Callable[[str], None], begin: Callable[[int], None]
) -> Report:
    """One whole run in a temporary folder; nothing of it is left, however it ends.

    ``begin`` is called with the number of steps, ``step`` before each of them.

    Raises:
        ConfigError: something could not be started; the message holds the end of its log.
    """
    with tempfile.TemporaryDirectory(prefix="memproxy-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Nursery(folder) as nursery:
            suite = Suite(plan, folder, nursery, model_path=model_path, pinning=Pinning(wanted=pinned))
            begin(suite.steps())
            return await suite.run(step)
