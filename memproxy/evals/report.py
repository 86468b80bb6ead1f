"""Tables of what was measured, and the same as a JSON file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from memproxy.errors import ConfigError

_WIDTH = 140

_COUNTS = frozenset({"lines", "tokens"})
_BY_GROUP = {
    "turn_recall@5": "turn@5",
    "turn_recall@10": "turn@10",
    "session_recall_any@5": "any@5",
    "session_recall_all@5": "all@5",
    "session_recall_all@10": "all@10",
    "ndcg@10": "ndcg",
    "mrr": "mrr",
    "evidence_in_block": "in block",
    "block_precision": "precision",
    "tokens": "tokens",
}
"""Figures of the table by question type, with short headings: it must fit a terminal."""


def write_json(path: Path, report: Mapping[str, Any]) -> None:
    """The report as a file.

    Raises:
        ConfigError: it cannot be written there.
    """
    try:
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise ConfigError(f"--json {path} cannot be written ({error.strerror}); name another file") from error


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print it: the totals of all recipes side by side, then each recipe by question type, then the times."""
    console.print(
        f"{report['evaluation']} ({report['data']}{', pooled' if report['pooled'] else ''}): "
        f"{report['questions']} questions, {report['sessions']} sessions, {report['turns']} turns; "
        f"embedder {report['embedder']}"
    )
    console.print(_totals(report))
    for name, recipe in report["recipes"].items():
        console.print(_groups(name, recipe))
    console.print(_times(report))
    if "qa" in report:
        _show_answers(report["qa"], console)
    for name, recipe in report["recipes"].items():
        if recipe["degraded"]:
            console.print(f"{name}: recall gave up on {recipe['degraded']} questions; the times above tell why")


def make_console() -> Console:
    """Standard output; wide enough for the tables where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, _WIDTH))


def make_table(*columns: str, title: str) -> Table:
    """An empty table in the style of all reports."""
    return Table(*columns, title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)


def _totals(report: Mapping[str, Any]) -> Table:
    recipes = report["recipes"]
    table = make_table("figure", *recipes, title=f"{report['total']}, with 95 % intervals")
    totals = {name: recipe["groups"].get(report["total"], {}) for name, recipe in recipes.items()}
    for figure in next(iter(totals.values())):
        if figure != "questions":
            table.add_row(figure, *(_cell(report, name, figure, total[figure]) for name, total in totals.items()))
    if len(recipes) > 1:
        table.caption = "Beside a figure: how far it is above the first recipe; * where the interval excludes 0."
    return table


def _cell(report: Mapping[str, Any], recipe: str, figure: str, found: Mapping[str, Any]) -> str:
    text = f"{_number(figure, found['value'])} [{_number(figure, found['low'])}, {_number(figure, found['high'])}]"
    difference = report["differences"].get(recipe, {}).get(figure)
    if difference is None or difference["value"] is None:
        return text
    sure = "*" if difference["low"] > 0 or difference["high"] < 0 else ""
    return f"{text} {'+' if difference['value'] >= 0 else ''}{_number(figure, difference['value'])}{sure}"


def _groups(name: str, recipe: Mapping[str, Any]) -> Table:
    table = make_table("questions", "n", *_BY_GROUP.values(), title=f"recipe {name}")
    for group, figures in recipe["groups"].items():
        values = (_number(figure, figures[figure]["value"]) for figure in _BY_GROUP)
        table.add_row(group, str(figures["questions"]), *values)
    return table


def _times(report: Mapping[str, Any]) -> Table:
    table = make_table("recipe", "milliseconds", "p50", "p95", "p99", title="recall, from question to block")
    for name, recipe in report["recipes"].items():
        for what, times in recipe["latency_ms"].items():
            if times:
                table.add_row(name, what.replace("_", " "), *(f"{times[each]:.2f}" for each in ("p50", "p95", "p99")))
    return table


def _number(figure: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if figure in _COUNTS else f"{value:.3f}"


def _show_answers(answers: Mapping[str, Any], console: Console) -> None:
    for name, recipe in answers["recipes"].items():
        title = f"answers over recipe {name} (reader {answers['reader']}, judge {answers['judge']})"
        table = make_table("questions", "n", "judged", "accuracy", "token F1", title=title)
        for group, figures in recipe["groups"].items():
            values = (_with_interval(figures[figure]) for figure in ("accuracy", "f1"))
            table.add_row(group, str(figures["questions"]), str(figures["judged"]), *values)
        console.print(table)
        console.print(f"{recipe['input_tokens']} tokens in, {recipe['output_tokens']} out; log: {answers['log']}")
        if left := recipe["failed"] + recipe["unjudged"]:
            console.print(f"{left} questions have no verdict; the same command asks those again")


def _with_interval(figure: Mapping[str, float | None]) -> str:
    if figure["value"] is None:
        return "-"
    return f"{figure['value']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"
