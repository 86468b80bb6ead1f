"""One evaluation: push the sessions, ask the questions of every recipe, count."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console

import memproxy
from memproxy.core.scope import Scope
from memproxy.core.turn import make_turns
from memproxy.evals import scoring
from memproxy.evals.dataset import Dataset
from memproxy.evals.progress import progress
from memproxy.evals.scoring import Outcome, Sample
from memproxy.evals.subject import Subject
from memproxy.recall.documents import dense_text

REPORT_VERSION = 1


def texts_of(dataset: Dataset) -> list[str]:
    """What the embedder will be asked for when the sessions are indexed."""
    turns = (
        make_turns(Scope(tenant="", user=session.user, session=session.name), session.messages, now=session.date)
        for session in dataset.sessions
    )
    return [dense_text(turn) for some in turns for turn in some]


async def ingest(subject: Subject, dataset: Dataset, console: Console) -> None:
    """Push all sessions and wait until they are searchable."""
    with progress(console, "sessions in", len(dataset.sessions)) as step:
        for session in dataset.by_turns():
            await subject.ingest(session)
            step(1)
        await subject.settle()


async def run(subject: Subject, dataset: Dataset, recipes: Sequence[str], console: Console) -> dict[str, list[Outcome]]:
    """The outcomes of every question, in the data set's order, by recipe."""
    await ingest(subject, dataset, console)
    outcomes: dict[str, list[Outcome]] = {recipe: [] for recipe in recipes}
    for recipe in recipes:
        with progress(console, f"questions ({recipe})", len(dataset.questions)) as step:
            for question in dataset.questions:
                outcomes[recipe].append(Outcome(question, await subject.ask(question, recipe)))
                step(1)
    return outcomes


def made_report(dataset: Dataset, outcomes: dict[str, list[Outcome]], about: dict[str, Any]) -> dict[str, Any]:
    """All figures as JSON types; a figure that no question defines is null."""
    made: dict[str, Any] = {
        "version": REPORT_VERSION,
        "memproxy": memproxy.__version__,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "evaluation": dataset.name,
        **about,
        "total": dataset.total,
        "sessions": len(dataset.sessions),
        "turns": sum(len(session.messages) for session in dataset.sessions),
        "questions": len(dataset.questions),
        "recipes": {recipe: _recipe(dataset.total, found) for recipe, found in outcomes.items()},
        "differences": _differences(outcomes),
    }
    return msgspec.json.decode(msgspec.json.encode(made), type=dict[str, Any])  # NaN becomes null


def _recipe(total: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    groups = {total: [one for one in outcomes if one.question.scored]}
    for name in sorted({one.question.group for one in outcomes}):
        groups[name] = [one for one in outcomes if one.question.group == name]
    return {
        "groups": {
            name: {"questions": len(group), **Sample(group).figures()} for name, group in groups.items() if group
        },
        "latency_ms": scoring.latency(outcomes),
        "degraded": sum(one.found.degraded is not None for one in outcomes),
        "questions": [_question(one) for one in outcomes],
    }


def _question(outcome: Outcome) -> dict[str, Any]:
    """One question, for looking into: the rank of each gold turn (null: not found) and what would be injected."""
    question, found = outcome.question, outcome.found
    ranks = {turn: rank for rank, (turn, _) in enumerate(found.turns, start=1)}
    return {
        "id": question.id,
        "group": question.group,
        "text": question.text,
        "gold": {turn: ranks.get(turn) for turn in sorted(question.gold_turns)},
        "found": [turn for turn, _ in found.turns[:20]],
        "injected": found.injected,
        "tokens": found.tokens,
        "milliseconds": round(found.milliseconds, 3),
        "degraded": found.degraded,
    }


def _differences(outcomes: dict[str, list[Outcome]]) -> dict[str, Any]:
    """How far each further recipe is above the first, over the scored questions, question by question."""
    samples = {recipe: Sample([one for one in found if one.question.scored]) for recipe, found in outcomes.items()}
    first = next(iter(samples.values()))
    return {recipe: sample.differences(first) for recipe, sample in list(samples.items())[1:]}
