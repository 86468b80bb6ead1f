"""Fits the weights of `core.message_kinds`: ``python -m tests.fitting.message_kinds --shared ../shared``.

Lines are labelled ones of the project (``tests/evals/gate``, ``tests/evals/speech``) and of the gate's development
data, without those that have a first-person word: these have no kind. Prints what five-fold cross-validation says and
writes ``core/message_kinds.json``.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import memproxy
from memproxy.core.message_kinds import KINDS, Weights, features, kind_of, plain, speaks_of_self, words_of
from memproxy.evals.gate_verdicts import load

Array = NDArray[Any]

WEIGHTS = Path(memproxy.__file__).parent / "core" / "message_kinds.json"
LEAST = {"greeting": 0.6, "smalltalk": 0.75, "tool": 0.65, "fact": 0.82}
"""Above these shares a kind is believed: a memory that is not looked for costs more than a search."""

SCALE = 100
_RIDGE = 1.5
_SEEN = 2
_FREQUENT = 12
"""Lines that have a word which counts as frequent."""

_STEPS = 250
_FOLDS = 5
_NO_LESS = 0.08
"""Weights that are nearer to nothing are left out."""

_OWN_WEIGHS = 2.0
"""What costs a memory counts twice what costs a search."""

_PLEASANT = frozenset({"greeting", "smalltalk"})
_SPEECH = {"acknowledges": "greeting", "tells": "own"}
_GATE = {
    "greeting": "greeting",
    "small-talk-about-bot": "smalltalk",
    "tool": "tool",
    "general-fact": "fact",
    "personal-memory": "own",
    "personal-lookup": "own",
    "other-task": "own",
}


class Line(msgspec.Struct, frozen=True):
    """A labelled message; ``source`` says where it is from."""

    text: str
    kind: str
    source: str
    weight: float = 1.0


def labelled(tests: Path, shared: Path) -> list[Line]:
    """All lines that a kind is told of and that have no first-person word."""
    found = [
        Line(text, kind, "gate", _OWN_WEIGHS if kind == "own" else 1.0)
        for kind, text in _table(tests / "gate" / "train.tsv")
    ]
    speech = _table(tests / "speech" / "train.tsv")
    found += [Line(text, _SPEECH[kind], "speech") for kind, text in speech if kind in _SPEECH]
    for one in (*load(shared / "eval" / "gate_dev.jsonl"), *load(tests / "gate" / "everyday.jsonl")):
        if one.kind in _GATE and not one.earlier:
            found.append(Line(one.text, _GATE[one.kind], one.kind, 0.5 if one.kind == "other-task" else 1.0))
    return [line for line in found if line.text.strip() and not speaks_of_self(plain(line.text))]


def _table(path: Path) -> list[tuple[str, str]]:
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    return [(row[0], row[2]) for row in rows]


def frequent_words(lines: Sequence[Line]) -> frozenset[str]:
    """The words that many lines have."""
    counts = Counter(word for line in lines for word in set(words_of(plain(line.text))))
    return frozenset(word for word, count in counts.items() if count >= _FREQUENT and not word.isdecimal())


def pleasant_words(lines: Sequence[Line]) -> frozenset[str]:
    """The words that greetings and small talk consist of."""
    return frozenset(word for line in lines if line.kind in _PLEASANT for word in words_of(plain(line.text)))


def fit(lines: Sequence[Line], frequent: frozenset[str]) -> dict[str, list[int]]:
    """Weights by feature, as whole numbers of a `SCALE`-th: softmax regression with a ridge, by Adam."""
    rows = [set(features(plain(line.text), line.text, frequent)) for line in lines]
    counts = Counter(feature for row in rows for feature in row)
    names = ["bias", *sorted(feature for feature, count in counts.items() if count >= _SEEN)]
    number = {name: place for place, name in enumerate(names)}
    pairs = [(at, number[one]) for at, row in enumerate(rows) for one in (*row, "bias") if one in number]
    at, which = (np.array(column) for column in zip(*pairs, strict=True))
    labels = np.array([KINDS.index(line.kind) for line in lines])
    wanted = np.eye(len(KINDS))[labels]
    weights = np.array([line.weight for line in lines])[:, None]
    found = np.zeros((len(names), len(KINDS)))
    first, second = np.zeros_like(found), np.zeros_like(found)
    for step in range(1, _STEPS + 1):
        odds = _summed(found[which], at, len(lines))
        odds -= odds.max(axis=1, keepdims=True)
        chance = np.exp(odds)
        chance /= chance.sum(axis=1, keepdims=True)
        slope = _summed((weights * (chance - wanted))[at], which, len(names)) + _RIDGE * found
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        found -= 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    kept = np.abs(found).max(axis=1) >= _NO_LESS
    return {
        name: [round(weight * SCALE) for weight in row]
        for name, row, keep in zip(names, found.tolist(), kept, strict=True)
        if keep or name == "bias"
    }


def _summed(values: Array, into: Array, size: int) -> Array:
    return np.stack([np.bincount(into, column, size) for column in values.T], axis=1)


def told(lines: Sequence[Line], weights: Weights) -> list[str]:
    """The kind of each line, ``own`` where no other is sure enough."""
    return [kind_of(plain(line.text), line.text, weights) or "own" for line in lines]


def cross_validated(lines: Sequence[Line]) -> Counter[tuple[str, str, str]]:
    """How many of each source and kind are told to be of which kind by weights that have not seen them."""
    counts = Counter[tuple[str, str, str]]()
    for fold in range(_FOLDS):
        held = [line for place, line in enumerate(lines) if place % _FOLDS == fold]
        rest = [line for place, line in enumerate(lines) if place % _FOLDS != fold]
        for line, kind in zip(held, told(held, _weights(rest)), strict=True):
            counts[line.source, line.kind, kind] += 1
    return counts


def _weights(lines: Sequence[Line]) -> Weights:
    frequent = frequent_words(lines)
    return Weights(fit(lines, frequent), SCALE, frequent, pleasant_words(lines), LEAST)


def main() -> None:
    """Fit, tell and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--tests", type=Path, default=Path("tests/evals"))
    asked = parser.parse_args()
    lines = labelled(asked.tests, asked.shared)
    lines = [lines[place] for place in np.random.default_rng(7).permutation(len(lines))]
    console = Console(soft_wrap=True)
    for (source, kind, found), count in sorted(cross_validated(lines).items()):
        console.print(f"{source:24} {kind:10} told as {found:10} {count}")
    frequent = frequent_words(lines)
    weights = fit(lines, frequent)
    rows = ",\n".join(f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(row)}" for name, row in weights.items())
    head = json.dumps(
        {"scale": SCALE, "least": LEAST, "frequent": sorted(frequent), "pleasant": sorted(pleasant_words(lines))},
        ensure_ascii=False,
    )[:-1]
    WEIGHTS.write_text(f'{head}, "weights": {{\n{rows}\n}}}}\n', "utf-8")
    console.print(f"{len(lines)} lines, {len(weights)} weights")


if __name__ == "__main__":
    main()
