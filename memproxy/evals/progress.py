"""How far a long step is: a bar on a terminal, elsewhere a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 10.0

Step = Callable[[int], None]
"""Called with how much more is done."""


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
