"""``make eval``: the quality figures of all evaluations in one table, with all of their JSON in one file beside it.

    python -m tests.evals.overview --data ../shared/eval [--model-path DIR] [--lives tests/evals/lived] [--quick]

Each evaluation is a command of its own (`memproxy eval NAME`, `tests.evals.lives`, `tests.evals.everyday_chats`), run
here one after the other with what there is: files that are missing are named and passed over. ``--quick`` asks ten
questions of the large sets.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memproxy.evals.output import make_console, make_table, write_json

OUT = Path("bench-results")

_MODULES = {"chats": ["tests.evals.everyday_chats"], "lived": ["tests.evals.lives"]}
_BLOCK = ("evidence_in_block", "block_precision", "tokens")
_RANKED = {
    "locomo": ("turn_recall@5", "turn_recall@10", "session_recall_any@5"),
    "longmemeval": ("turn_recall@10", "session_recall_any@5", "session_recall_all@5"),
}
_CHATS = ("any", "all", "precision", "needless", "misled")
_EXTRACTION = ("precision", "recall", "corrections", "retractions", "poisoned", "clean")
_LIVED = ("answered", "without any", "empty", "stale lines", "irrelevant lines", "needless blocks")


def main() -> None:
    """Run what there is data for, print the table, write the JSON; fails when a command does."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--model-path", type=Path)
    arguments.add_argument("--lives", type=Path, default=Path("tests/evals/lived"))
    arguments.add_argument("--quick", action="store_true")
    given = arguments.parse_args()
    embedder = ["--model-path", str(given.model_path)] if given.model_path else []
    table = make_table("evaluation", "figure", "value", title="Quality of memory")
    found: dict[str, Any] = {}
    for name, words in _commands(given.data, given.lives, quick=given.quick):
        made = _run([*words, *embedder])
        found[name] = made
        for figure, value in _figures(words[0], made):
            table.add_row(name, figure, value)
    OUT.mkdir(exist_ok=True)
    path = OUT / f"eval-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    write_json(path, found)
    make_console().print(table)
    print(f"all figures: {path}")


def _commands(data: Path, lives: Path, *, quick: bool) -> Iterator[tuple[str, list[str]]]:
    smoke = ["--smoke"] if quick else []
    for name, path, words in (
        ("locomo", data / "locomo_dev.json", smoke),
        ("longmemeval", data / "longmemeval_s_dev.json.gz", smoke),
        ("gate", data / "gate_dev.jsonl", []),
        *((f"lived: {file.stem}", file, []) for file in sorted(lives.glob("*_open.yaml"))),
    ):
        if path.exists():
            yield name, [name.split(":")[0], "--data", str(path), *words]
        else:
            print(f"{name}: there is no {path}; name its folder with MEMPROXY_EVAL_DATA", file=sys.stderr)
    yield "chats", ["chats", *smoke]
    yield "extraction", ["extraction", "--data", "tests/evals/dialogues", *smoke]


def _run(words: Sequence[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "figures.json")
        module = _MODULES.get(words[0], ["memproxy", "eval", words[0]])
        command = [sys.executable, "-m", *module, *words[1:], "--json", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        made: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return made


def _figures(name: str, made: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if name in _RANKED:
        yield from _values(made["recipes"]["default"]["groups"][made["total"]], (*_RANKED[name], *_BLOCK))
    elif name == "lived":
        for state, values in made["states"].items():
            yield state, ", ".join(f"{figure} {values[figure]}" for figure in _LIVED) + f" of {values['questions']}"
    elif name == "chats":
        for run, found in made["runs"].items():
            yield from ((f"{run}: {figure}", value) for figure, value in _values(found["groups"]["all"], _CHATS))
    elif name == "extraction":
        yield from _values(made["groups"]["all"], _EXTRACTION)
    else:
        for kind, rates in made["kinds"].items():
            yield f"{kind} searched", f"{rates['all']['searched']} of {rates['all']['lines']}"


def _values(group: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        one = group[name]
        if one["value"] is not None:
            yield name, f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


if __name__ == "__main__":
    main()
