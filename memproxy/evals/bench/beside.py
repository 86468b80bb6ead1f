"""Two versions beside each other: ``python -m memproxy.evals.bench.beside [--rounds N] FOLDER FOLDER``.

Each folder is a version's checkout, the first the one to compare with. Both run at the same time, by this environment's
packages, and take turns slice by slice, so that a machine that is slower for a while is so for both: where whole runs
one after the other differ by a fifth from hour to hour, these differ by a few hundredths. Run it from a folder that is
no checkout, else that one's code is taken for both.
"""

import argparse
import asyncio
import statistics
from collections import defaultdict
from pathlib import Path

from memproxy.evals.bench import payloads, targets
from memproxy.evals.bench.instance import Instance
from memproxy.evals.bench.jobs import Job
from memproxy.evals.bench.machine import Pinning, cpu_seconds
from memproxy.evals.bench.stage import Stage, open_stage

_CASES = (
    ("2 KB at 1", 2_000, 1, False),
    ("2 KB at 16", 2_000, 16, False),
    ("200 KB at 16", 200_000, 16, False),
    ("streams at 64", 2_000, 64, True),
)
_INGESTED = 1_000
_SLICE_S = 1.0


async def _slice(stage: Stage, instance: Instance, case: tuple[str, int, int, bool]) -> tuple[float, float]:
    """One slice with memory off: the relay's microseconds of a processor for each answer (a stream's piece), and
    milliseconds to the first byte (median).
    """
    _, size, concurrency, stream = case
    prefix, suffix = payloads.chat_template(size, stream=stream)
    job = Job(
        port=instance.port,
        path="/v1/chat/completions",
        prefix=prefix,
        suffix=suffix,
        questions=[payloads.question(number) for number in range(20)],
        headers=targets.of_instance(instance, targets.WORDS, _INGESTED)[0].headers,
        concurrency=concurrency,
        count=3 * concurrency if stream else 1_000_000,
        seconds=20.0 if stream else _SLICE_S,
        stagger_s=0.25 / concurrency if stream else 0.0,
    )
    before = cpu_seconds(instance.relay_pids) or 0.0
    result = await stage.client.run(job)
    spent = (cpu_seconds(instance.relay_pids) or 0.0) - before
    return spent * 1e6 / max(1, result.pieces if stream else result.answered), statistics.median(result.first_ms)


async def compare(folders: list[Path], rounds: int) -> None:
    """Measure and print: of each case the medians, and what they are of the first folder's."""
    found: defaultdict[tuple[str, Path], list[tuple[float, float]]] = defaultdict(list)
    async with open_stage(Pinning(wanted=True)) as stage:
        instances = {}
        for place, folder in enumerate(folders):
            instances[folder] = await Instance.start(
                stage.nursery,
                stage.folder,
                f"version-{place}",
                upstream_port=stage.upstream_port,
                model_path=None,
                environment={"PYTHONPATH": str(folder)},
            )
        try:
            for number in range(rounds):
                order = folders if number % 2 else folders[::-1]
                for case in _CASES:
                    for folder in order:
                        found[case[0], folder].append(await _slice(stage, instances[folder], case))
            for folder in folders:
                before = cpu_seconds(instances[folder].engine_pids) or 0.0
                seconds = await instances[folder].ingest(targets.USER, 0, _INGESTED)
                spent = (cpu_seconds(instances[folder].engine_pids) or 0.0) - before
                found["turns in", folder].append((spent * 1e6 / _INGESTED, seconds * 1e3 / _INGESTED))
        finally:
            for instance in instances.values():
                await instance.stop()
    for case_name in dict.fromkeys(name for name, _ in found):
        first = None
        for folder in folders:
            cpu, wait = (statistics.median(column) for column in zip(*found[case_name, folder], strict=True))
            first = first or (cpu, wait)
            print(  # noqa: T201 - a command's result
                f"{case_name:14} {folder.name:20} cpu {cpu:8.1f} us ({cpu / first[0]:.2f})  {wait:8.3f} ms "
                f"({wait / first[1]:.2f})"
            )


def main() -> None:
    """The command."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders", type=Path, nargs="+")
    arguments.add_argument("--rounds", type=int, default=6)
    given = arguments.parse_args()
    asyncio.run(compare([folder.resolve() for folder in given.folders], given.rounds))


if __name__ == "__main__":
    main()
