"""Fits how likely a candidate is right in its order (`recall.scores`), on LoCoMo and on our own chats."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.recall.candidate_table import Array
from memproxy.recall.recipes import BIAS, DEFAULT, Weights
from memproxy.recall.scores import features, free, in_order, weighted
from memproxy.recall.stages import Columns
from tests.fitting import logistic
from tests.fitting.calibration import Example, Situations

ORDER: Mapping[str, Weights] = {"hybrid": DEFAULT.hybrid, "late": DEFAULT.late or {}, "lexical": DEFAULT.lexical}
LEVEL: Mapping[str, Weights] = {
    "hybrid": DEFAULT.hybrid_level,
    "late": DEFAULT.late_level,
    "lexical": DEFAULT.lexical_level,
}

LIVED = ("lived", "unseen chats")
"""How the names of their situations begin."""

LIVED_WEIGHT = 4.0
"""What a situation of lives or of unseen chats counts."""

SITUATION_WEIGHT = {"turns": 10.0, "turns and facts": 5.0}
"""What others count; those that are not named weigh 1."""

RIGHT = 1.5
"""What a right candidate weighs beside a wrong one: with it a score of 0.6 is where both are as likely."""

SPARSE = 2.5
"""The same where the evidence is sparse: what else would help counts as wrong in LoCoMo."""

LOOKED_AT = 8
"""Candidates of each question, best first: as many as a block has."""

MOST = 8
"""As many as a block has."""


class Seen(msgspec.Struct):
    """The candidates of one question that a kind of weights is for: their order and what the level sees of them."""

    members: NDArray[np.bool_]
    order: Array
    columns: Columns


def seen(example: Example, kind: str) -> Seen | None:
    """None where there are none of that kind: turns only are compared token by token."""
    columns, count = example.columns, len(example.labels)
    members: NDArray[np.bool_] = columns["turn"] > 0 if kind == "late" else np.ones(count, dtype=np.bool_)
    if not members.any():
        return None
    if kind == "late":
        columns = columns | {"by_vector": free(ORDER["hybrid"], columns, weighted(columns, ORDER["hybrid"], count))}
    order = weighted(columns, ORDER[kind], count)
    return Seen(members, order, features(example.asked, columns, order, free(ORDER[kind], columns, order), members))


def fit(examples: Situations, kind: str) -> dict[str, float]:
    """The weights ``level`` of one kind (``hybrid``, ``late``, ``lexical``)."""
    names = [name for name in LEVEL[kind] if name != BIAS]
    rows, labels, weights = [], [], []
    for situation, group in examples.items():
        known = [(example, found) for example in group if (found := seen(example, kind)) is not None]
        is_lived = situation.startswith(LIVED)
        right = RIGHT if is_lived else SPARSE
        for example, found in known:
            places = np.flatnonzero(found.members)
            places = places[np.argsort(-found.order[places], kind="stable")][:LOOKED_AT]
            rows.append(np.stack([found.columns[name][places] for name in names], axis=1))
            labels.append(example.labels[places])
            share = 1000 * (LIVED_WEIGHT if is_lived else SITUATION_WEIGHT.get(situation, 1.0)) / len(known)
            weights.append(np.where(labels[-1] > 0, right, 1.0) * share)
    fitted = logistic.fit(np.concatenate(rows), np.concatenate(labels), np.concatenate(weights))
    return {name: round(float(value), 3) for name, value in zip((BIAS, *names), fitted, strict=True)}


def told(example: Example, models: Mapping[str, Weights]) -> Array:
    """Log odds of all candidates by the levels in ``models``, the last that is for a candidate counting."""
    odds = np.full(len(example.labels), -np.inf)
    for kind, model in models.items():
        found = seen(example, kind)
        if found is not None:
            level = in_order(weighted(found.columns, model, len(odds)), found.order, found.members)
            odds = np.where(found.members, level, odds)
    return odds


def quality(group: Sequence[Example], odds_of: Callable[[Example], Array], floor: float = 0.3) -> dict[str, float]:
    """At the floor: memories given per question, the part of them that is right, the part of the
    questions whose right ones are all given, and of those without any to which something is given.
    """
    given = right = 0.0
    whole, needless = [], []
    for example in group:
        kept = example.labels[given_of(odds_of(example), floor)]
        given, right = given + len(kept), right + kept.sum()
        if example.wanted:
            whole.append(kept.sum() >= example.wanted)
        else:
            needless.append(len(kept) > 0)
    return {
        "per question": given / len(group),
        "precision": right / max(1.0, given),
        "all given": float(np.mean(whole)) if whole else float("nan"),
        "needless": float(np.mean(needless)) if needless else float("nan"),
    }


def given_of(odds: Array, floor: float) -> list[int]:
    """The places that would be injected."""
    kept: list[int] = []
    for place in np.argsort(-odds, kind="stable")[:MOST].tolist():
        if odds[place] < np.log(floor / (1 - floor)):
            break
        kept.append(place)
    return kept
