"""`memproxy eval extraction`: what is stored after dialogues of known content, by rules or by a model.

Precision is the part of the active memories that gold requires, those that it allows aside; recall the part of the
required statements that an active memory holds. A correction is right when the old statement is not active and the new
one is, a retraction when the statement is not active; "of known" counts those alone whose statement had been stored.
Intervals resample the dialogues.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from rich.console import Console
from rich.markup import escape

from memproxy.core.memory import FACTS
from memproxy.core.protocol import UpstreamAccess
from memproxy.errors import ConfigError, ModelError
from memproxy.evals import dialogues as data
from memproxy.evals.dataset import Session, for_smoke
from memproxy.evals.dialogues import NOTHING, Dialogue, Judged, Run, Verdict, judge
from memproxy.evals.output import make_console, make_report, make_table, progress, rounded, write_json
from memproxy.evals.scoring import Sample, figure
from memproxy.evals.throwaway import EvaluationMemory, settings_for, throwaway_memory
from memproxy.evals.vector_cache import opened_embedder
from memproxy.ports import ChatModel, Embedder
from memproxy.settings import Settings
from memproxy.settings.loading import load_settings

Mode = Literal["verbatim", "model"]

ALL = "all"
_COUNTED = (Verdict.WANTED, Verdict.EXTRA, Verdict.STALE, Verdict.POISON)
_APART = timedelta(minutes=5)
_FAILURES = 3
"""Dialogues in a row that could not be learned from: the model is not there, and going on would take hours."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and how: the mode of learning, the configuration that names a model, the embedder's files (None: by
    words alone).
    """

    mode: Mode = "verbatim"
    smoke: bool = False
    verbose: bool = False
    config: Path | None = None
    model_path: Path | None = None
    cache: Path


def measure_extraction(path: Path, options: Options, json_out: Path | None) -> None:
    """Measure what is learned from dialogues, print and write the figures."""
    dialogues = data.load(path)
    dialogues = for_smoke(dialogues) if options.smoke else dialogues
    settings, access = settings_of(options, os.environ)
    judged, embedder = asyncio.run(_measure(dialogues, settings, access, options))
    about = {
        "data": path.name,
        "mode": options.mode,
        "smoke": options.smoke,
        "embedder": embedder,
        "model": access.model if access is not None else None,
    }
    report = made_report(judged, about)
    show(report, make_console(), verbose=options.verbose)
    write_json(json_out, report)


def settings_of(options: Options, environ: Mapping[str, str]) -> tuple[Settings, UpstreamAccess | None]:
    """The settings to learn with, and how to reach the model in mode ``model``: as ``models.extract`` or the upstream
    of the configuration say, else by ``OPENAI_BASE_URL``, ``OPENAI_API_KEY`` and ``OPENAI_MODEL``.

    Raises:
        ConfigError: the configuration cannot be used, or no model is named.
    """
    settings = load_settings(options.config, environ=environ)
    settings = settings_for(settings, options.mode)
    if options.mode == "verbatim":
        return settings, None
    model = settings.models.extract.model or environ.get("OPENAI_MODEL", "")
    if not model:
        raise ConfigError(
            "--mode model needs a model: name it in models.extract.model of --config, or in OPENAI_MODEL "
            "(with OPENAI_API_KEY and, for another provider, OPENAI_BASE_URL)"
        )
    key = environ.get("OPENAI_API_KEY") or None
    return settings, UpstreamAccess(base_url=settings.upstream.base_url, model=model, api_key=key)


async def _measure(
    dialogues: Sequence[Dialogue], settings: Settings, access: UpstreamAccess | None, options: Options
) -> tuple[list[Judged], str]:
    console = Console(stderr=True)
    async with opened_embedder(options.model_path, options.cache) as embedder:
        return await run_all(dialogues, settings, access, embedder=embedder, console=console), embedder.name


async def run_all(
    dialogues: Sequence[Dialogue],
    settings: Settings,
    access: UpstreamAccess | None,
    *,
    embedder: Embedder,
    model: ChatModel | None = None,
    console: Console,
) -> list[Judged]:
    """Run the dialogues one after the other, and judge what each left stored."""
    judged, failed = [], 0
    async with throwaway_memory(settings, embedder, (), model=model, access=access) as memory:
        with progress(console, "dialogues", len(dialogues)) as step:
            for dialogue in dialogues:
                run = await _run(dialogue, memory)
                failed = failed + 1 if run.unlearned else 0
                if failed >= _FAILURES:
                    raise ModelError(
                        f"{failed} dialogues in a row could not be learned from; see the log for the model's errors"
                    )
                judged.append(judge(run))
                step(1)
                await asyncio.sleep(0)  # the progress bar and Ctrl-C get their turn
    return judged


async def _run(dialogue: Dialogue, memory: EvaluationMemory) -> Run:
    """Push its sessions one after the other; what is stored after each.

    Imported sessions may be older than those before them: time does not go back for them.
    """
    began = time.perf_counter()
    after, unlearned = [], 0
    now = dialogue.sessions[0].at
    for number, session in enumerate(dialogue.sessions):
        now = max(now + _APART, session.at)
        name = f"session-{number}"
        pushed = Session(user=dialogue.id, name=name, date=session.at, messages=session.messages)
        await memory.ingest_at(pushed, now)
        unlearned += not await memory.learn(dialogue.id, name)
        after.append(await memory.memories(dialogue.id, FACTS))
    return Run(dialogue=dialogue, after=after, seconds=time.perf_counter() - began, unlearned=unlearned)


Counts = Callable[[Judged], tuple[float, float]]
"""Numerator and denominator of one dialogue; a figure is the sum of the first by the sum of the second."""


def _recall(judged: Judged) -> tuple[float, float]:
    required = len(judged.dialogue.required)
    return float(required - len(judged.missing)), float(required)


def _changes(*, corrected: bool, only_known: bool) -> Counts:
    def count(judged: Judged) -> tuple[float, float]:
        changes = [c for c in judged.changes if bool(c.gold.by) == corrected and (c.known or not only_known)]
        return float(sum(change.right for change in changes)), float(len(changes))

    return count


def _clean(judged: Judged) -> tuple[float, float]:
    of_nothing = judged.dialogue.type == NOTHING
    return float(of_nothing and not judged.count(*_COUNTED)), float(of_nothing)


FIGURES: Mapping[str, Counts] = {
    "precision": lambda judged: (float(judged.count(Verdict.WANTED)), float(judged.count(*_COUNTED))),
    "recall": _recall,
    "corrections": _changes(corrected=True, only_known=False),
    "corrections_of_known": _changes(corrected=True, only_known=True),
    "retractions": _changes(corrected=False, only_known=False),
    "retractions_of_known": _changes(corrected=False, only_known=True),
    "poisoned": lambda judged: (float(bool(judged.poison)), float(bool(judged.dialogue.never))),
    "clean": _clean,
    "right": lambda judged: (float(judged.right), 1.0),
}
"""Shares in [0, 1]: ``poisoned`` of the dialogues that try to plant something, ``clean`` of those with nothing to learn
from which nothing is stored, ``right`` of all dialogues. ``f1`` is made of precision and recall.
"""


def of_group(group: Sequence[Judged]) -> dict[str, Any]:
    """All figures of some dialogues, and what they count over."""
    sample = Sample({name: [counts(judged) for judged in group] for name, counts in FIGURES.items()})
    precision, recall = sample.values("precision"), sample.values("recall")
    total = precision + recall
    harmonic = np.divide(2 * precision * recall, total, out=np.where(np.isnan(total), np.nan, 0.0), where=total > 0)
    changes = [change for judged in group for change in judged.changes]
    counts = {
        "required": sum(len(judged.dialogue.required) for judged in group),
        **{verdict.value: sum(judged.count(verdict) for judged in group) for verdict in Verdict},
        "corrections": sum(bool(change.gold.by) for change in changes),
        "corrections_of_known": sum(bool(change.gold.by) and change.known for change in changes),
        "retractions": sum(not change.gold.by for change in changes),
        "retractions_of_known": sum(not change.gold.by and change.known for change in changes),
        "poisoned": sum(bool(judged.poison) for judged in group),
        "poison_in_quarantine": sum(bool(judged.quarantined_poison) for judged in group),
    }
    return {"dialogues": len(group), "counts": counts, **sample.figures(), "f1": figure(harmonic)}


def made_report(judged: Sequence[Judged], about: Mapping[str, Any]) -> dict[str, Any]:
    """All figures as JSON types (one that nothing defines is null): of all dialogues and of each type."""
    groups = {ALL: list(judged)}
    for name in dict.fromkeys(item.dialogue.type for item in judged):
        groups[name] = [item for item in judged if item.dialogue.type == name]
    seconds = np.array([item.run.seconds for item in judged])
    figures = {
        **about,
        "dialogues": len(judged),
        "sessions": sum(len(item.dialogue.sessions) for item in judged),
        "turns": sum(len(session.said) for item in judged for session in item.dialogue.sessions),
        "unlearned_sessions": sum(item.run.unlearned for item in judged),
        "seconds_per_dialogue": {"mean": float(seconds.mean()), "p95": float(np.quantile(seconds, 0.95))},
        "groups": {name: of_group(group) for name, group in groups.items()},
        "failures": [_failure(item) for item in judged if not item.right],
    }
    return make_report("extraction", figures)


def _failure(judged: Judged) -> dict[str, Any]:
    """What is wrong with a dialogue, for looking into."""
    by_verdict = {
        verdict.value: [text for text, kind in judged.facts if kind is verdict]
        for verdict in (Verdict.EXTRA, Verdict.STALE)
    }
    return {
        "id": judged.dialogue.id,
        "type": judged.dialogue.type,
        "missing": [gold.says or " ".join(gold.match) for gold in judged.missing],
        **by_verdict,
        "poison": list(judged.poison),
        "not_ended": [change.gold.says for change in judged.changes if not change.right],
        "unlearned_sessions": judged.run.unlearned,
    }


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


def show(report: Mapping[str, Any], console: Console, *, verbose: bool = False) -> None:
    """Print the figures: in all with intervals, then by type; with ``verbose`` what went wrong in each dialogue."""
    console.print(
        f"extraction ({report['data']}), mode {report['mode']}: {report['dialogues']} dialogues, "
        f"{report['sessions']} sessions, {report['turns']} turns; embedder {report['embedder']}"
    )
    total = report["groups"][ALL]
    table = make_table("figure", "value", "95 % interval", title="all dialogues")
    for name, value in total.items():
        if isinstance(value, dict) and "value" in value:
            table.add_row(name, rounded(value["value"]), f"{rounded(value['low'])} to {rounded(value['high'])}")
    console.print(table)
    console.print(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in total["counts"].items()))
    groups = make_table("type", "n", *_COLUMNS.values(), title="by type")
    for name, figures in report["groups"].items():
        groups.add_row(name, str(figures["dialogues"]), *(rounded(figures[value]["value"]) for value in _COLUMNS))
    console.print(groups)
    seconds = report["seconds_per_dialogue"]
    console.print(f"seconds per dialogue: mean {seconds['mean']:.3f}, p95 {seconds['p95']:.3f}")
    if report["unlearned_sessions"]:
        console.print(f"{report['unlearned_sessions']} sessions could not be learned from; the log says why")
    for failure in report["failures"] if verbose else ():
        console.print(f"\n{failure['id']}")
        for fault in _FAULTS:
            for text in failure[fault]:
                console.print(f"  {fault.replace('_', ' ')}: {escape(text)}")
