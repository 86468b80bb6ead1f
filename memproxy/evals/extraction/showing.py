"""The tables of an extraction run."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from memproxy.evals.extraction.figures import ALL
from memproxy.evals.report import make_table

_COLUMNS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "f1",
    "corrections": "corrected",
    "retractions": "retracted",
    "poisoned": "poisoned",
    "clean": "clean",
    "right": "all right",
}
_FAULTS = ("missing", "extra", "stale", "poison", "not_ended")


def show(made: Mapping[str, Any], console: Console, *, verbose: bool = False) -> None:
    """Print the figures: in all with intervals, then by type; with ``verbose`` what went wrong in each dialogue."""
    console.print(
        f"extraction ({made['data']}), mode {made['mode']}, split {made['split']}: {made['dialogues']} dialogues, "
        f"{made['sessions']} sessions, {made['turns']} turns; embedder {made['embedder']}"
    )
    total = made["groups"][ALL]
    table = make_table("figure", "value", "95 % interval", title="all dialogues")
    for name, figure in total.items():
        if isinstance(figure, dict) and "value" in figure:
            table.add_row(name, _number(figure["value"]), f"{_number(figure['low'])} to {_number(figure['high'])}")
    console.print(table)
    console.print(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in total["counts"].items()))
    groups = make_table("type", "n", *_COLUMNS.values(), title="by type")
    for name, figures in made["groups"].items():
        groups.add_row(name, str(figures["dialogues"]), *(_number(figures[one]["value"]) for one in _COLUMNS))
    console.print(groups)
    seconds = made["seconds_per_dialogue"]
    console.print(f"seconds per dialogue: mean {seconds['mean']:.3f}, p95 {seconds['p95']:.3f}")
    if made["unlearned_sessions"]:
        console.print(f"{made['unlearned_sessions']} sessions could not be learned from; the log says why")
    if verbose:
        _failures(made, console)


def _failures(made: Mapping[str, Any], console: Console) -> None:
    for failure in made["failures"]:
        console.print(f"\n{failure['id']} ({failure['split']})")
        for fault in _FAULTS:
            for text in failure[fault]:
                console.print(f"  {fault.replace('_', ' ')}: {escape(text)}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
