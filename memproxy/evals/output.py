"""What every evaluation prints and writes: tables, a JSON file, and how far a long step is."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from memproxy.errors import ConfigError

_WIDTH = 140
_SECONDS_BETWEEN_LINES = 10.0

Step = Callable[[int], None]
"""Called with how much more is done."""


def write_json(path: Path, report: Mapping[str, Any]) -> None:
    """The report as a file.

    Raises:
        ConfigError: it cannot be written there.
    """
    try:
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise ConfigError(f"--json {path} cannot be written ({error.strerror}); name another file") from error


def make_console() -> Console:
    """Standard output; wide enough for the tables where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, _WIDTH))


def make_table(*columns: str, title: str) -> Table:
    """An empty table in the style of all reports."""
    return Table(*columns, title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)


@contextmanager
def progress(console: Console, title: str, total: int) -> Iterator[Step]:
    """Tell of a step that consists of ``total`` equal bits."""
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda done: bar.advance(task, done)
        return
    lines = _Lines(console, title, total)
    yield lines.step
    lines.end()


class _Lines:
    """Plain lines with the time that is left, for logs."""

    def __init__(self, console: Console, title: str, total: int) -> None:
        self._console = console
        self._title = title
        self._total = max(1, total)
        self._done = 0
        self._start = self._told = time.monotonic()

    def step(self, done: int) -> None:
        self._done += done
        now = time.monotonic()
        if now - self._told < _SECONDS_BETWEEN_LINES or not self._done:
            return
        self._told = now
        left = (now - self._start) * (self._total - self._done) / self._done
        self._console.print(f"{self._title}: {self._done / self._total:.0%}, {left:.0f} s left")

    def end(self) -> None:
        self._console.print(f"{self._title}: done in {time.monotonic() - self._start:.1f} s")
