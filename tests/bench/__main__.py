"""The command: ``python -m tests.bench [--quick | --full] [--model-path FOLDER]``."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from memproxy.errors import MemproxyError
from tests.bench import report as reports
from tests.bench.figures import Report
from tests.bench.plan import FULL, QUICK, STANDARD, Plan, scaled
from tests.bench.suite import run_suite

_BAR = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))


class Told:
    """Tells how far the run is: a bar on a terminal, elsewhere a line per part."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(*_BAR, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("starting")
        self._part = ""

    def __enter__(self) -> "Told":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, steps: int) -> None:
        """So many steps will come."""
        self._progress.update(self._task, total=steps)

    def step(self, what: str) -> None:
        """The next step begins, and with it the last one is over."""
        self._progress.update(self._task, advance=1, description=what)
        part = what.partition(":")[0]
        if part != self._part and not self._console.is_terminal:
            self._console.print(part)
        self._part = part


async def _run(plan: Plan, model_path: Path | None, told: Told, *, pinned: bool) -> Report:
    """The run, within its time; SIGTERM ends it as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None, "in a coroutine"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with asyncio.timeout(plan.limit_s):
        return await run_suite(plan, model_path=model_path, pinned=pinned, begin=told.begin, step=told.step)


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke test of under a minute.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Also 100,000 memories, and longer rounds.")] = False,
    model_path: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an ONNX embedding model; without one recall goes by words only.",
            exists=True,
            file_okay=False,
            resolve_path=True,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the JSON file.")] = Path("bench-results"),
    pin: Annotated[bool, typer.Option(help="Give the relay under test a processor of its own.")] = True,
    scale: Annotated[
        float, typer.Option(min=0.001, max=1, help="Multiply all counts and times, for a test of the benchmark itself.")
    ] = 1.0,
) -> None:
    """Measure memproxy on this machine, offline: against the upstream itself, a bare relay and nginx."""
    if quick and full:
        raise typer.BadParameter("--quick and --full exclude each other")
    plan = scaled(QUICK if quick else FULL if full else STANDARD, scale)
    console = Console(stderr=True)
    try:
        with Told(console) as told:
            report = asyncio.run(_run(plan, model_path, told, pinned=pin))
        path = reports.write(report, out)
    except MemproxyError as error:
        console.print(f"bench: {error.message}", markup=False)
        raise typer.Exit(1) from error
    except OSError as error:
        console.print(f"bench: {error}. Choose another folder with --out, or look at what is said above.", markup=False)
        raise typer.Exit(1) from error
    except TimeoutError as error:
        console.print(f"bench: not done in {plan.limit_s:.0f} s, given up. Try --quick, or an idle machine.")
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("bench: stopped; nothing was written.")
        raise typer.Exit(130) from None
    reports.show(report, Console(width=None if sys.stdout.isatty() else 160))
    console.print(f"written: {path}", highlight=False)


if __name__ == "__main__":
    typer.run(main)
