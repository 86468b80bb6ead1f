"""What every evaluation prints and writes: tables, a JSON file, and how far a long step is."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

import memproxy
from memproxy.errors import ConfigError

REPORT_VERSION = 1

_WIDTH = 140
_SECONDS_BETWEEN_LINES = 10.0

Step = Callable[[int], None]
"""Called with how much more is done."""


def make_report(evaluation: str, figures: dict[str, Any]) -> dict[str, Any]:
    """Figures as JSON types (one that nothing defines is null), after what they were made by and when."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    head = {"version": REPORT_VERSION, "memproxy": memproxy.__version__, "at": at, "evaluation": evaluation}
    return msgspec.json.decode(msgspec.json.encode(head | figures), type=dict[str, Any])  # NaN becomes null


def rounded(value: float | None, digits: int = 3) -> str:
    """A figure in a table."""
    return "-" if value is None else f"{value:.{digits}f}"


def with_interval(figure: Mapping[str, float | None], digits: int = 3) -> str:
    """A figure in a table, with its interval."""
    if figure["value"] is None:
        return "-"
    return f"{rounded(figure['value'], digits)} [{rounded(figure['low'], digits)}, {rounded(figure['high'], digits)}]"


def write_json(path: Path | None, report: Mapping[str, Any]) -> None:
    """The report as a file, where one is named.

    Raises:
        ConfigError: it cannot be written there.
    """
    if path is None:
        return
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
    done_so_far, started = 0, time.monotonic()
    printed_at = started

    def step(done: int) -> None:
        nonlocal done_so_far, printed_at
        done_so_far += done
        now = time.monotonic()
        if now - printed_at >= _SECONDS_BETWEEN_LINES and done_so_far:
            printed_at = now
            seconds_left = (now - started) * (total - done_so_far) / done_so_far
            console.print(f"{title}: {done_so_far / max(1, total):.0%}, {seconds_left:.0f} s left")

    yield step
    console.print(f"{title}: done in {time.monotonic() - started:.1f} s")
