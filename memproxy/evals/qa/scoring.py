"""Figures of answers: the judge's accuracy with its interval, and LoCoMo's token F1."""

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memproxy.evals.qa.log import Answered
from memproxy.evals.scoring import RESAMPLES, SEED, Figure, Outcome, figure

_ARTICLES = re.compile(r"\b(?:a|an|the|and)\b")
_MARKS = str.maketrans("", "", string.punctuation)


def token_f1(answer: str, right: str) -> float:
    """Harmonic mean of the precision and recall of an answer's words, as SQuAD and LoCoMo have it: case, punctuation
    and articles aside, every word as often as it occurs.
    """
    said, wanted = _tokens(answer), _tokens(right)
    shared = sum((Counter(said) & Counter(wanted)).values())
    if not shared:
        return float(not said and not wanted)
    precision, recall = shared / len(said), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def _tokens(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.casefold().translate(_MARKS)).split()


def figures(outcomes: Sequence[Outcome], lines: Mapping[str, Answered], total: str) -> dict[str, Any]:
    """By group: questions, how many the judge decided, accuracy with its 95 % interval, F1; and what it cost.

    ``failed`` were not answered, ``unjudged`` have a verdict that could not be read: neither counts as wrong, a second
    run asks them again.
    """
    groups = {total: [one for one in outcomes if one.question.scored]}
    for name in sorted({one.question.group for one in outcomes}):
        groups[name] = [one for one in outcomes if one.question.group == name]
    return {
        "groups": {name: _group(asked, lines) for name, asked in groups.items() if asked},
        "failed": sum(one.question.id not in lines for one in outcomes),
        "unjudged": sum(line.correct is None for line in lines.values()),
        "input_tokens": sum(line.input_tokens for line in lines.values()),
        "output_tokens": sum(line.output_tokens for line in lines.values()),
    }


def _group(asked: Sequence[Outcome], lines: Mapping[str, Answered]) -> dict[str, Any]:
    found = [line for one in asked if (line := lines.get(one.question.id)) is not None]
    judged = [float(line.correct) for line in found if line.correct is not None]
    overlap = [token_f1(line.answer, line.right_answer) for line in found]
    return {
        "questions": len(asked),
        "judged": len(judged),
        "accuracy": _mean(judged),
        "f1": _mean(overlap),
    }


def _mean(values: Sequence[float]) -> Figure:
    """With a bootstrap interval; all NaN where there is nothing."""
    known = np.array(values)
    if not known.size:
        return figure(math.nan, known)
    drawn = np.random.default_rng(SEED).integers(0, len(known), (RESAMPLES, len(known)))
    return figure(float(known.mean()), known[drawn].mean(axis=1))
