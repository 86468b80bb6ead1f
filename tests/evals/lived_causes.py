"""Why questions of lives are not answered: ``python -m tests.evals.lived_causes REPORT.json [--each STATE]``.

``REPORT.json`` is what ``tests.evals.lives --json`` wrote. For each of the four states every needed memory that is in
no block of its question counts under one cause; ``--each 0`` prints the questions of the first state too (never of a
closed half).
"""

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from memproxy.core.telling import LEAST, telling

FIRST = 10
"""Places, best first, in which a memory counts as found."""


def cause(question: Mapping[str, Any], needed: Mapping[str, Any]) -> str | None:
    """Why this memory is not in the block of its question; None where it is."""
    if question["skipped"]:
        return f"gate: {question['skipped']}"
    if needed["rank"] is None:
        tells = any(telling(text) >= LEAST for text in needed["text"].split(" | "))
        return "no candidate" if tells else "no candidate: tells nothing"
    if needed["rejected"] == "score":
        return f"below the floor, {'in the first' if needed['rank'] <= FIRST else 'behind'} {FIRST}"
    reason: str | None = needed["rejected"]
    return reason


def causes(state: Mapping[str, Any]) -> Counter[str]:
    """How many needed memories are missing for which cause, and how many questions miss all or a part."""
    found: Counter[str] = Counter()
    for question in (one for one in state["each"] if one["needed"] and not one["answered"]):
        missing = [why for needed in question["needed"] if (why := cause(question, needed)) is not None]
        found.update(missing)
        found[f"questions without {'all' if len(missing) == len(question['needed']) else 'a part'}"] += 1
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("report", type=Path)
    arguments.add_argument("--each", type=int)
    given = arguments.parse_args()
    states = json.loads(given.report.read_text("utf-8"))["states"]
    counts = [causes(state) for state in states.values()]
    table = Table("cause", *states)
    for name in sorted(frozenset[str]().union(*counts)):
        table.add_row(name, *(str(one[name]) for one in counts))
    console = Console(soft_wrap=True)
    console.print(table)
    for question in [] if given.each is None else list(states.values())[given.each]["each"]:
        if question["needed"] and not question["answered"]:
            console.print(f"\n{question['id']}: {question['ask']}", markup=False)
            for needed in question["needed"]:
                why = cause(question, needed) or "given"
                console.print(f"  {why}, {needed['rank']}, {needed['score']}: {needed['text'][:160]}", markup=False)


if __name__ == "__main__":
    main()
