"""Shows a run as tables and writes it as JSON."""

from datetime import datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.bench.figures import Report, Row, median
from tests.bench.instance import Starting

_CPU_COLUMNS = ("relay µs", "x bare", "engine µs")
CALL_COLUMNS = ("p50", "p99", "+p50", "+p99", "x bare", "per s", "x bare", *_CPU_COLUMNS)
STREAM_COLUMNS = ("first p50", "p99", "+p50", "+p99", "x bare", "whole p50", *_CPU_COLUMNS)


def write(report: Report, folder: Path) -> Path:
    """Write the JSON file, named by the date of the run; its path.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    date = datetime.fromisoformat(report.machine.date)
    path = folder / f"{date:%Y%m%dT%H%M%SZ}-{report.plan}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    return path


def show(report: Report, console: Console) -> None:
    machine = report.machine
    console.print(
        f"memproxy {machine.versions['memproxy']}, plan {report.plan}, {machine.date}, {machine.processor}, "
        f"{machine.processors} processors, {report.seconds:.0f} s",
        highlight=False,
    )
    for body_bytes, concurrency in dict.fromkeys((row.body_bytes, row.concurrency) for row in report.calls):
        rows = [row for row in report.calls if (row.body_bytes, row.concurrency) == (body_bytes, concurrency)]
        console.print(_situation(f"Requests of {body_bytes // 1000} KB, {concurrency} at once", CALL_COLUMNS, rows))
    for concurrency in dict.fromkeys(row.concurrency for row in report.streams):
        rows = [row for row in report.streams if row.concurrency == concurrency]
        console.print(_situation(f"Streams of 50 chunks 5 ms apart, {concurrency} at once", STREAM_COLUMNS, rows))
    console.print(_recall(report))
    console.print(_processes(report))
    for warning in report.warnings:
        console.print(f"[yellow]{escape(warning)}[/yellow]", highlight=False)


def _situation(title: str, columns: tuple[str, ...], rows: list[Row]) -> Table:
    table = _table(title, columns)
    for row in rows:
        streams = columns is STREAM_COLUMNS
        waited_for = row.first_byte if streams else row.total
        whole = [f"{row.total.p50_ms:.1f}"] if streams else [f"{row.per_second:,.0f}", _ratio(row.ratio_per_second)]
        table.add_row(
            row.target,
            f"{waited_for.p50_ms:.2f}",
            f"{waited_for.p99_ms:.2f}",
            f"{row.added_p50_ms:.2f}",
            f"{row.added_p99_ms:.2f}",
            _ratio(row.ratio_added_p50),
            *whole,
            _number(row.relay_cpu_us),
            _ratio(row.ratio_cpu),
            _number(row.engine_cpu_us),
        )
    return _with_notes(table, rows)


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table("ms", title=title, title_justify="left", caption_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _with_notes(table: Table, rows: list[Row]) -> Table:
    """Below the table: what became of requests where it was not what was meant, and how late they were indexed."""
    notes = []
    for row in rows:
        if row.expected is not None and row.expected < 1:
            shares = ", ".join(f"{share:.0%} {what}" for what, share in row.outcomes.items())
            notes.append(f"{row.target}: {shares}")
        if row.begun_degraded:
            notes.append(f"{row.target}: {row.begun_degraded} rounds began while memory was still away")
        if row.indexed_after_s is not None:
            notes.append(f"{row.target}: the last exchange was indexed {row.indexed_after_s:.2f} s after its answer")
    table.caption = escape("\n".join(notes)) or None
    return table


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    return f"{value:,.0f}" if value else ""


def _recall(report: Report) -> Table:
    table = Table(
        "memories", "users", "embedder", title="Search through the proxy, one at a time", title_justify="left"
    )
    for column in ("p50 ms", "p95 ms", "p99 ms", "turns in per s", "relay MB", "engine MB"):
        table.add_column(column, justify="right")
    for row in report.recall:
        search, residence = row.search, row.residence
        table.add_row(
            f"{row.memories:,}",
            f"{row.users:,}",
            row.embedder,
            *(f"{value:.2f}" for value in (search.p50_ms, search.p95_ms, search.p99_ms)),
            f"{row.turns_per_second:,.0f}",
            f"{residence.relay_mb:.0f}",
            f"{residence.engine_mb:.0f}",
        )
    return table


def _processes(report: Report) -> Table:
    table = Table("memory in MB", "relay", "engine", "supervisor", title="Processes", title_justify="left")
    for use in report.memory_use:
        for when, residence in (
            (f"at start ({use.instance})", use.at_start),
            (f"after {use.requests:,} requests", use.at_end),
        ):
            values = (residence.relay_mb, residence.engine_mb, residence.supervisor_mb)
            table.add_row(when, *(f"{value:.0f}" for value in values))
    table.add_section()
    table.add_row("start: first relayed answer", _seconds(report.starts, "first_answer_s"), "", "")
    table.add_row("start: memory ready", _seconds(report.starts, "memory_s"), "", "")
    return table


def _seconds(starts: list[Starting], name: str) -> str:
    return f"{median([getattr(each, name) for each in starts]):.2f} s"
