"""The isolation fuzz as a command: ``python -m tests.isolation.fuzz --operations 100000 --tenants 20 --users 20``."""

import argparse
import asyncio
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.isolation.people import MODES, Mode
from tests.isolation.run import Step, fuzz
from tests.isolation.watching import Watch

_LINES = 20
"""Where there is no terminal a line tells how far it is, so many times."""


def main() -> None:
    """Run, and print what was seen; ends with an error at the first leak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000, help="in all, over the modes (100000)")
    parser.add_argument("--tenants", type=int, default=20)
    parser.add_argument("--users", type=int, default=20, help="of each tenant")
    parser.add_argument("--seed", type=int, default=1, help="what is chosen")
    parser.add_argument("--minutes", type=float, default=math.inf, help="in all: then it ends where it is")
    parser.add_argument("--modes", default=",".join(MODES), help="of identity, by commas")
    options = parser.parse_args()
    modes = [mode for mode in MODES if mode in options.modes.split(",")]
    each = max(1, options.operations // len(modes))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for mode in modes:
            began = time.monotonic()
            watch = _run(mode, each, options, _steps(progress, mode, each), options.minutes * 60 / len(modes))
            told = {"mode": mode, **_told(watch, time.monotonic() - began)}
            print(json.dumps(told, indent=1), flush=True)


def _steps(progress: Progress, mode: str, operations: int) -> Step:
    task = progress.add_task(mode, total=operations)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        progress.advance(task)
        if progress.disable and done % max(1, operations // _LINES) == 0:
            print(f"{mode}: {done} of {operations}", file=sys.stderr, flush=True)

    return step


def _run(mode: Mode, operations: int, options: argparse.Namespace, step: Step, seconds: float) -> Watch:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(
            fuzz(
                mode,
                Path(folder),
                operations=operations,
                tenants=options.tenants,
                users=options.users,
                seed=options.seed,
                step=step,
                seconds=seconds,
            )
        )


def _told(watch: Watch, seconds: float) -> dict[str, Any]:
    return {
        "operations": watch.counts["operations"],
        "seconds": round(seconds),
        "requests": sum(watch.statuses.values()),
        "counts": dict(sorted(watch.counts.items())),
        "time of another's over time of nothing": {
            what: {"pairs": pairs, "ratio": round(ratio, 2)} for what, (pairs, ratio) in watch.ratios().items()
        },
        "statuses": dict(sorted(watch.statuses.items())),
    }


if __name__ == "__main__":
    main()
