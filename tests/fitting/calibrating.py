"""``python -m tests.fitting.calibrating``: fits all weights of the default recipe and prints them.

A column is fitted where it has a weight in ``memproxy/recall/data/weights.json``; a new one begins with 0 there.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from memproxy.recall.recipes import BIAS, DEFAULT, VECTORS, Weights
from tests.fitting import calibration, levels, lived_situations
from tests.fitting import situations as chats
from tests.fitting.calibration import HELD, SET_BY_HAND, Situations

_KINDS = (("hybrid", VECTORS), ("late", DEFAULT), ("lexical", VECTORS))


def main(
    lives: Annotated[list[Path], typer.Argument(help="Files of lives (docs/evaluation.md).")],
    shared: Annotated[Path, typer.Option(help="Folder with eval/ and models/.")] = Path("../shared"),
    order: Annotated[
        bool,
        typer.Option(help="Fit the order, too. Levels are those of the shipped order: take it over, then run again."),
    ] = False,
    every: Annotated[int, typer.Option(help="Take one of so many of LoCoMo's questions: all take half an hour.")] = 1,
) -> None:
    """Print the fitted models, and what a floor of 0.3 does with them in each situation."""
    console = Console()
    workshop = calibration.Workshop(shared / "models" / "all-MiniLM-L6-v2")
    everybody = calibration.people(workshop, shared / "eval" / "locomo_dev.json")
    fitted: dict[str, Weights] = {}
    for kind, recipe in _KINDS:
        dense = kind != "lexical"
        examples = calibration.situations(workshop, everybody, recipe, dense=dense, every=every)
        if order:
            by_hand = (BIAS, *SET_BY_HAND, *HELD[kind])
            columns = [column for column in levels.ORDER[kind] if column not in by_hand]
            kept = {name: weight for name, weight in levels.ORDER[kind].items() if name in SET_BY_HAND}
            console.print(f"{kind}, order: {calibration.fit(examples, columns, kind) | kept}")
        examples |= chats.situations(workshop, everybody, recipe, dense=dense, held_out=False, large=every == 1)
        examples |= lived_situations.situations(workshop, lives, recipe, dense=dense)
        fitted[kind] = levels.fit(examples, kind)
        console.print(f"{kind}, level: {fitted[kind]}")
        models = {name: fitted[name] for name in (("hybrid", "late") if kind == "late" else (kind,))}
        _show(console, examples, models, "")
        if order:
            held_out = chats.situations(workshop, everybody, recipe, dense=dense, held_out=True)
            _show(console, held_out, models, ", held out")


def _show(console: Console, examples: Situations, models: Mapping[str, Weights], which: str) -> None:
    for situation, group in examples.items():
        found = levels.quality(group, lambda example: levels.told(example, models))
        figures = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
        console.print(f"  {situation}{which}: {figures}")


if __name__ == "__main__":
    typer.run(main)
