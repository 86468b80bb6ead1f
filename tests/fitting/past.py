"""Fits the weights of `recall.former` on labelled questions.

    python -m tests.fitting.past --shared ../shared [--write]

A line of ``data/past/questions.txt`` is a question: ``+`` asks for what held before, ``-`` does not. Beside them
stand the questions of LoCoMo and LongMemEval and the gate's lines (the development parts), of which hardly any does.
Prints what five-fold cross-validation says.
"""

import argparse
import base64
import gzip
import json
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import memproxy
from memproxy.core.telling import Weights, odds_of
from memproxy.evals.gate_verdicts import load
from memproxy.recall.former import LEAST
from tests.fitting.telling import Parts, fit, rounded

WEIGHTS = Path(memproxy.__file__).parent / "recall" / "data" / "past.json"
DATA = Path(__file__).parent / "data" / "past" / "questions.txt"
FOLDS = 5
OF_OTHERS = 0.1
"""What a question of somebody else's data counts."""


def labelled() -> tuple[list[float], list[str]]:
    """Labels (1: asks for what held before) and questions."""
    lines = [line for line in DATA.read_text("utf-8").splitlines() if line[:2] in {"+ ", "- "}]
    return [float(line[0] == "+") for line in lines], [line[2:] for line in lines]


def others(shared: Path) -> list[str]:
    """Questions that ask for what holds, or for what once happened."""
    locomo = json.loads((shared / "eval" / "locomo_dev.json").read_text("utf-8"))
    longmem = json.loads(gzip.decompress((shared / "eval" / "longmemeval_s_dev.json.gz").read_bytes()))
    asked = [str(one["question"]) for talk in locomo for one in talk["qa"]] + [str(one["question"]) for one in longmem]
    return [*asked, *(one.text for one in load(shared / "eval" / "gate_dev.jsonl"))]


def fitted(labels: Sequence[float], texts: Sequence[str], weights: Sequence[float]) -> Weights:
    """Rounded weights."""
    packed, scale = rounded(fit(Parts(labels, texts, weights)))
    return Weights(array("b", packed), scale)


def main() -> None:
    """Fit, print the figures of questions that were not fitted on, and write the weights if asked to."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--shared", type=Path, default=Path("../shared"))
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    own, said = labelled()
    rest = others(given.shared)
    labels, texts = np.array([*own, *[0.0] * len(rest)]), [*said, *rest]
    weights = np.array([1.0] * len(own) + [OF_OTHERS] * len(rest))
    odds, fold = np.zeros(len(texts)), np.random.default_rng(7).integers(FOLDS, size=len(texts))
    for one in range(FOLDS):
        use = np.flatnonzero(fold != one)
        found = fitted(labels[use].tolist(), [texts[at] for at in use], weights[use].tolist())
        for at in np.flatnonzero(fold == one):
            odds[at] = odds_of(texts[at], found)
    past, present, elsewhere = (
        odds[: len(own)][labels[: len(own)] > 0],
        odds[: len(own)][labels[: len(own)] == 0],
        odds[len(own) :],
    )
    for least in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        shares = [round(float((some >= least).mean()), 4) for some in (past, present, elsewhere)]
        print(f"at {least}: of before {shares[0]}, of now {shares[1]}, of others {shares[2]}")
    for at in np.argsort(-odds):
        if not labels[at] and odds[at] >= LEAST:
            print(f"  {odds[at]:.1f} {texts[at]}")
    if given.write:
        packed, scale = rounded(fit(Parts(labels.tolist(), texts, weights.tolist())))
        written = {"scale": round(scale, 6), "weights": base64.b64encode(packed).decode()}
        WEIGHTS.write_text(json.dumps(written) + "\n", "utf-8")


if __name__ == "__main__":
    main()
