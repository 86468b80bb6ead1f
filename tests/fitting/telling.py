"""Fits the weights of `core.telling` on labelled parts of messages and writes them where the package has them.

    python -m tests.fitting.telling --shared ../shared [--write]

The labelled parts are those of ``tests/evals/speech``, a line being ``label<TAB>language<TAB>text``. Beside them stand
the lines of the gate's development data that only ask, each of which counts a fifth of a labelled part. Both are one
class but for what ``tells``.
"""

import argparse
import base64
import json
import math
from array import array
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memproxy.core import telling
from memproxy.core.text import sentences
from memproxy.evals.gate_verdicts import load

Array = NDArray[np.float64]

SIZE = 1 << 15
RIDGE = 3e-5
STEPS = 400
OF_OTHERS = 0.2
"""What a line of the gate's data counts."""

ASKING = frozenset({"general-fact", "tool", "greeting", "personal-memory", "small-talk-about-bot"})
"""Kinds of such lines that tell nothing."""

OF_LANGUAGES = 0.5
"""What a part in one of the other languages counts: by 1 English, which most of the rest is, loses more."""

OF_MESSAGES = 0.25
"""What a part of a whole message counts."""

OF_ASKING = 0.5
"""How much less that of a message that asks, which may tell something beside."""

ROUNDS = 3
"""After two the weights hardly change."""

TELLS = 0.45
"""The share of parts that tell, in chats: labelled sets have as many of each as their author wrote."""

_RATE, _FIRST, _SECOND = 0.1, 0.9, 0.999
_FINEST = 127


class Parts:
    """Labelled parts as a sparse table: a row for each, divided by the root of how many features it has."""

    def __init__(self, labels: Sequence[float], texts: Sequence[str], weights: Sequence[float]) -> None:
        self.labels = np.array(labels)
        self.weights = np.array(weights)
        rows, columns, values = [], [], []
        for row, text in enumerate(texts):
            places = sorted(telling.features(text, SIZE))
            rows += [row] * (len(places) + 1)
            columns += [*places, SIZE]
            values += [1 / math.sqrt(max(1, len(places)))] * len(places) + [1.0]
        self._rows, self._columns, self._values = np.array(rows), np.array(columns), np.array(values)

    def odds(self, found: Array) -> Array:
        """The log odds of each part."""
        odds: Array = np.bincount(self._rows, self._values * found[self._columns], minlength=len(self.labels)).astype(
            np.float64
        )
        return odds

    def slope(self, found: Array) -> Array:
        """Of the mean loss."""
        wrong = self.weights * (1 / (1 + np.exp(-self.odds(found))) - self.labels) / self.weights.sum()
        slope: Array = np.bincount(self._columns, self._values * wrong[self._rows], minlength=SIZE + 1).astype(
            np.float64
        )
        return slope


def fit(parts: Parts) -> Array:
    """The weights, by Adam (Kingma and Ba, 2015); the last is the bias, as if `TELLS` of the parts told."""
    found = np.zeros(SIZE + 1)
    first, second = np.zeros(SIZE + 1), np.zeros(SIZE + 1)
    for step in range(1, STEPS + 1):
        slope = parts.slope(found) + RIDGE * found
        first = _FIRST * first + (1 - _FIRST) * slope
        second = _SECOND * second + (1 - _SECOND) * slope**2
        found -= _RATE * (first / (1 - _FIRST**step)) / (np.sqrt(second / (1 - _SECOND**step)) + 1e-8)
    tells = parts.weights[parts.labels > 0].sum() / parts.weights.sum()
    found[SIZE] += math.log(TELLS / (1 - TELLS)) - math.log(tells / (1 - tells))
    return found


def rounded(found: Array) -> tuple[bytes, float]:
    """One byte for each weight, and what one step of it is."""
    scale = float(np.abs(found).max()) / _FINEST
    return np.round(found / scale).astype(np.int8).tobytes(), scale


def read(path: Path) -> tuple[list[float], list[str]]:
    """Labels (1: tells) and texts."""
    lines = [line.split("\t", 2) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [float(label == "tells") for label, _, _ in lines], [text for _, _, text in lines]


def of_message(label: float, text: str, weights: telling.Weights) -> list[tuple[float, str, float]]:
    """The labelled parts of a whole message, and what each counts."""
    parts = [one for part in sentences(text) for one in (part, *telling.clauses(part))]
    if label:
        return [(label, max(parts, key=lambda part: telling.telling(part, weights)), OF_MESSAGES)] if parts else []
    return [(label, part, OF_MESSAGES * OF_ASKING / math.sqrt(len(parts))) for part in parts]


def figures(labels: Sequence[float], odds: Sequence[float]) -> dict[str, float]:
    """The area under the curve, and at `telling.LEAST` the part of what tells that is kept and of the rest that is."""
    told = np.array([value for value, label in zip(odds, labels, strict=True) if label])
    rest = np.array([value for value, label in zip(odds, labels, strict=True) if not label])
    above = (told[:, None] > rest[None, :]).mean() + 0.5 * (told[:, None] == rest[None, :]).mean()
    return {
        "area": round(float(above), 3),
        "telling kept": round(float((told >= telling.LEAST).mean()), 3),
        "others kept": round(float((rest >= telling.LEAST).mean()), 3),
    }


def main() -> None:
    """Fit, print the figures of the held parts, and write the weights if asked to."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--shared", type=Path, default=Path("../shared"))
    arguments.add_argument("--speech", type=Path, default=Path("tests/evals/speech"))
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    parts = (read(given.speech / name) for name in ("train.tsv", "instructions.tsv"))
    labels, texts = (list(chain(*part)) for part in zip(*parts, strict=True))
    others = [one.text for one in load(given.shared / "eval" / "gate_dev.jsonl") if one.kind in ASKING]
    known = [(label, text, 1.0) for label, text in zip(labels, texts, strict=True)]
    known += [(0.0, text, OF_OTHERS) for text in others]
    known += [(label, text, OF_LANGUAGES) for label, text in zip(*read(given.speech / "languages.tsv"), strict=True)]
    messages = list(zip(*read(given.speech / "messages.tsv"), strict=True))
    packed, scale = rounded(fit(Parts(*zip(*known, strict=True))))
    for _ in range(1, ROUNDS):
        found = telling.Weights(array("b", packed), scale)
        told = [*known, *chain.from_iterable(of_message(label, text, found) for label, text in messages)]
        packed, scale = rounded(fit(Parts(*zip(*told, strict=True))))
    if given.write:
        target = Path(telling.__file__).parent / "telling.json"
        encoded = base64.b64encode(packed).decode()
        target.write_text(json.dumps({"scale": round(scale, 6), "weights": encoded}) + "\n", "utf-8")
        telling.shipped.cache_clear()
    for name in ("test_held.tsv", "languages_held.tsv"):
        held, said = read(given.speech / name)
        print(name, figures(held, [telling.telling(text) for text in said]))


if __name__ == "__main__":
    main()
