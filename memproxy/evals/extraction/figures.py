"""The figures of an extraction run, with bootstrap intervals over dialogues.

Precision is the part of the active memories that gold requires, those that it allows aside; recall the part of the
required statements that an active memory holds. A correction is right when the old statement is not active and the new
one is, a retraction when the statement is not active; "of known" counts those alone whose statement had been stored.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

import memproxy
from memproxy.evals.extraction.judging import NOTHING, Change, Judged, Verdict
from memproxy.evals.scoring import RESAMPLES, SEED, Array, divided, figure

REPORT_VERSION = 1
ALL = "all"

_COUNTED = (Verdict.WANTED, Verdict.EXTRA, Verdict.STALE, Verdict.POISON)

Counts = Callable[[Judged], tuple[float, float]]
"""Numerator and denominator of one dialogue; a figure is the sum of the first by the sum of the second."""


def _precision(judged: Judged) -> tuple[float, float]:
    return float(judged.count(Verdict.WANTED)), float(judged.count(*_COUNTED))


def _recall(judged: Judged) -> tuple[float, float]:
    required = len(judged.dialogue.required)
    return float(required - len(judged.missing)), float(required)


def _changes(*, corrected: bool, known: bool) -> Counts:
    def count(judged: Judged) -> tuple[float, float]:
        changes = [one for one in judged.changes if bool(one.gold.by) == corrected and (one.known or not known)]
        return _right(changes)

    return count


def _right(changes: Sequence[Change]) -> tuple[float, float]:
    return float(sum(change.right for change in changes)), float(len(changes))


def _poisoned(judged: Judged) -> tuple[float, float]:
    return float(bool(judged.poison)), float(bool(judged.dialogue.never))


def _clean(judged: Judged) -> tuple[float, float]:
    of_nothing = judged.dialogue.type == NOTHING
    return float(of_nothing and not judged.count(*_COUNTED)), float(of_nothing)


FIGURES: Mapping[str, Counts] = {
    "precision": _precision,
    "recall": _recall,
    "corrections": _changes(corrected=True, known=False),
    "corrections_of_known": _changes(corrected=True, known=True),
    "retractions": _changes(corrected=False, known=False),
    "retractions_of_known": _changes(corrected=False, known=True),
    "poisoned": _poisoned,
    "clean": _clean,
    "right": lambda judged: (float(judged.right), 1.0),
}
"""Shares in [0, 1]: ``poisoned`` of the dialogues that try to plant something, ``clean`` of those with nothing to learn
from which nothing is stored, ``right`` of all dialogues. ``f1`` is made of precision and recall.
"""


def of_group(group: Sequence[Judged]) -> dict[str, Any]:
    """All figures of some dialogues, and what they count over."""
    drawn = np.random.default_rng(SEED).integers(0, max(1, len(group)), (RESAMPLES, len(group)))
    values, resampled = {}, {}
    for name, counts in FIGURES.items():
        pairs: Array = np.array([counts(judged) for judged in group], dtype=np.float64).reshape(-1, 2)
        values[name] = _ratios(pairs.sum(axis=0).reshape(1, 2))
        resampled[name] = _ratios(pairs[drawn].sum(axis=1))
    values["f1"] = _harmonic(values["precision"], values["recall"])
    resampled["f1"] = _harmonic(resampled["precision"], resampled["recall"])
    figures = {name: figure(float(value[0]), resampled[name]) for name, value in values.items()}
    return {"dialogues": len(group), "counts": _counts(group), **figures}


def _counts(group: Sequence[Judged]) -> dict[str, int]:
    changes = [change for judged in group for change in judged.changes]
    return {
        "required": sum(len(judged.dialogue.required) for judged in group),
        **{verdict.value: sum(judged.count(verdict) for judged in group) for verdict in Verdict},
        "corrections": sum(bool(change.gold.by) for change in changes),
        "corrections_of_known": sum(bool(change.gold.by) and change.known for change in changes),
        "retractions": sum(not change.gold.by for change in changes),
        "retractions_of_known": sum(not change.gold.by and change.known for change in changes),
        "poisoned": sum(bool(judged.poison) for judged in group),
        "poison_in_quarantine": sum(bool(judged.quarantined_poison) for judged in group),
    }


def _ratios(sums: Array) -> Array:
    return divided(sums[:, 0], sums[:, 1])


def _harmonic(one: Array, other: Array) -> Array:
    total = one + other
    found: Array = np.divide(2 * one * other, total, out=np.where(np.isnan(total), np.nan, 0.0), where=total > 0)
    return found


def made_report(judged: Sequence[Judged], about: Mapping[str, Any]) -> dict[str, Any]:
    """All figures as JSON types (one that nothing defines is null): of all dialogues, each split and each type."""
    groups = {ALL: list(judged)}
    splits = sorted({one.dialogue.split for one in judged})
    if len(splits) > 1:
        groups |= {split: [one for one in judged if one.dialogue.split == split] for split in splits}
    for name in dict.fromkeys(one.dialogue.type for one in judged):
        groups[name] = [one for one in judged if one.dialogue.type == name]
    seconds = np.array([one.run.seconds for one in judged])
    made: dict[str, Any] = {
        "version": REPORT_VERSION,
        "memproxy": memproxy.__version__,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "evaluation": "extraction",
        **about,
        "dialogues": len(judged),
        "sessions": sum(len(one.dialogue.sessions) for one in judged),
        "turns": sum(len(session.said) for one in judged for session in one.dialogue.sessions),
        "unlearned_sessions": sum(one.run.unlearned for one in judged),
        "seconds_per_dialogue": {"mean": float(seconds.mean()), "p95": float(np.quantile(seconds, 0.95))},
        "groups": {name: of_group(group) for name, group in groups.items()},
        "failures": [_failure(one) for one in judged if not one.right],
    }
    return msgspec.json.decode(msgspec.json.encode(made), type=dict[str, Any])  # NaN becomes null


def _failure(judged: Judged) -> dict[str, Any]:
    """What is wrong with a dialogue, for looking into."""
    by_verdict = {
        verdict.value: [text for text, found in judged.facts if found is verdict]
        for verdict in (Verdict.EXTRA, Verdict.STALE)
    }
    return {
        "id": judged.dialogue.id,
        "type": judged.dialogue.type,
        "split": judged.dialogue.split,
        "missing": [gold.says or " ".join(gold.match) for gold in judged.missing],
        **by_verdict,
        "poison": list(judged.poison),
        "not_ended": [change.gold.says for change in judged.changes if not change.right],
        "unlearned_sessions": judged.run.unlearned,
    }
