"""`memproxy eval locomo` and `longmemeval`: which turns and sessions are found, and what would be injected.

The sessions of a data set go into a throw-away memory; every recipe is asked every question,
at the question's own date.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from memproxy.core.scope import Scope
from memproxy.core.turn import make_turns
from memproxy.evals import locomo, longmemeval, scoring
from memproxy.evals.answers import answer_all, reading, show_answers
from memproxy.evals.dataset import Dataset
from memproxy.evals.output import make_console, make_report, make_table, progress, rounded, with_interval, write_json
from memproxy.evals.scoring import Outcome, Sample, by_group
from memproxy.evals.throwaway import EvaluationMemory, settings_for, throwaway_memory
from memproxy.evals.vector_cache import CachedEmbedder, local_model, opened_model, until_ready
from memproxy.models.dimensions import DEFAULT as DIMENSION
from memproxy.models.embedding import NoEmbedder
from memproxy.ports import Embedder
from memproxy.recall.documents import dense_text
from memproxy.settings import Settings

LOADERS = {"locomo": locomo.load_dataset, "longmemeval": longmemeval.load}
_DIGITS = {"lines": 1, "tokens": 1}
"""Of figures that are counts; shares have three."""

_BY_GROUP = {
    "turn_recall@5": "turn@5",
    "turn_recall@10": "turn@10",
    "session_recall_any@5": "any@5",
    "session_recall_all@5": "all@5",
    "session_recall_all@10": "all@10",
    "ndcg@10": "ndcg",
    "mrr": "mrr",
    "evidence_in_block": "in block",
    "block_precision": "precision",
    "tokens": "tokens",
}
"""Figures of the table by question type, with short headings: it must fit a terminal."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to measure: the recipes, the embedder and how much of the data; ``qa`` asks the models of ``config``."""

    recipes: Sequence[str]
    pooled: bool = False
    smoke: bool = False
    lexical: bool = False
    model_path: Path | None = None
    cache: Path
    qa: bool = False
    config: Path | None = None


def measure_retrieval(evaluation: str, data: Path, options: Options, json_out: Path | None) -> None:
    """Measure retrieval on a data set of `LOADERS`, print and write the figures."""
    dataset = LOADERS[evaluation](data, pooled=options.pooled)
    if options.smoke:
        dataset = dataset.smoke()
    measured = asyncio.run(_measure(dataset, data.name, options))
    show(measured, make_console())
    write_json(json_out, measured)


async def _measure(dataset: Dataset, data: str, options: Options) -> dict[str, Any]:
    console = Console(stderr=True)
    about: dict[str, Any] = {"data": data, "pooled": options.pooled, "smoke": options.smoke}
    async with AsyncExitStack() as held:
        # opened first, so that a missing model is told at once
        answerers = await held.enter_async_context(reading(options.config)) if options.qa else None
        async with opened_memory(dataset, options, console) as (memory, about["embedder"]):
            outcomes = await run(memory, dataset, options.recipes, console)
        if answerers is not None:
            about["qa"] = await answer_all(outcomes, answerers, console, total=dataset.total)
    return _report(dataset, outcomes, about)


@asynccontextmanager
async def opened_memory(
    dataset: Dataset, options: Options, console: Console
) -> AsyncIterator[tuple[EvaluationMemory, str]]:
    """The memory to measure and its embedder's name."""
    async with AsyncExitStack() as held:
        embedder: Embedder = NoEmbedder(DIMENSION)
        if not options.lexical:
            cached = await held.enter_async_context(opened_model(options.model_path, options.cache, threads=1))
            await _fill(cached, dataset, options, console)
            embedder = cached
        memory = throwaway_memory(settings_for(Settings(), "off"), embedder, options.recipes)
        yield await held.enter_async_context(memory), embedder.name


async def _fill(embedder: CachedEmbedder, dataset: Dataset, options: Options, console: Console) -> None:
    """Embed what is not in the cache, on all cores (queries are measured on one thread, as the product has it)."""
    missing = await embedder.missing(texts_of(dataset))
    if not missing:
        return
    bulk = local_model(options.model_path, threads=os.cpu_count() or 1)
    try:
        await until_ready(bulk)
        with progress(console, f"embedding {len(missing)} turns", sum(map(len, missing))) as step:
            await embedder.fill(missing, bulk, step)
    finally:
        await bulk.close()


def texts_of(dataset: Dataset) -> list[str]:
    """What the embedder will be asked for when the sessions are indexed."""
    turns = (
        make_turns(Scope(tenant="", user=session.user, session=session.name), session.messages, now=session.date)
        for session in dataset.sessions
    )
    return [dense_text(turn) for group in turns for turn in group]


async def ingest(memory: EvaluationMemory, dataset: Dataset, console: Console) -> None:
    """Push all sessions and wait until they are searchable."""
    with progress(console, "sessions in", len(dataset.sessions)) as step:
        for session in dataset.by_turns():
            await memory.ingest(session)
            step(1)
        await memory.settle()


async def run(
    memory: EvaluationMemory, dataset: Dataset, recipes: Sequence[str], console: Console
) -> dict[str, list[Outcome]]:
    """The outcomes of every question, in the data set's order, by recipe."""
    await ingest(memory, dataset, console)
    outcomes: dict[str, list[Outcome]] = {recipe: [] for recipe in recipes}
    for recipe in recipes:
        with progress(console, f"questions ({recipe})", len(dataset.questions)) as step:
            for question in dataset.questions:
                outcomes[recipe].append(Outcome(question, await memory.ask(question, recipe)))
                step(1)
    return outcomes


def _report(dataset: Dataset, outcomes: dict[str, list[Outcome]], about: dict[str, Any]) -> dict[str, Any]:
    # how far each further recipe is above the first, over the scored questions, question by question
    samples = {recipe: Sample.of([row for row in group if row.question.scored]) for recipe, group in outcomes.items()}
    first, *further = samples
    figures = {
        **about,
        "total": dataset.total,
        "sessions": len(dataset.sessions),
        "turns": sum(len(session.messages) for session in dataset.sessions),
        "questions": len(dataset.questions),
        "recipes": {recipe: _recipe(dataset.total, group) for recipe, group in outcomes.items()},
        "differences": {recipe: samples[recipe].differences(samples[first]) for recipe in further},
    }
    return make_report(dataset.name, figures)


def _recipe(total: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    groups = by_group(outcomes, total)
    return {
        "groups": {name: {"questions": len(group), **Sample.of(group).figures()} for name, group in groups.items()},
        "latency_ms": scoring.latency(outcomes),
        "degraded": sum(outcome.found.degraded is not None for outcome in outcomes),
        "questions": [_question(outcome) for outcome in outcomes],
    }


def _question(outcome: Outcome) -> dict[str, Any]:
    """One question, for looking into: the rank of each gold turn (null: not found) and what would be injected."""
    question, result = outcome.question, outcome.found
    ranks = {turn: rank for rank, (turn, _) in enumerate(result.turns, start=1)}
    return {
        "id": question.id,
        "group": question.group,
        "text": question.text,
        "gold": {turn: ranks.get(turn) for turn in sorted(question.gold_turns)},
        "found": [turn for turn, _ in result.turns[:20]],
        "injected": result.injected,
        "tokens": result.tokens,
        "milliseconds": round(result.milliseconds, 3),
        "degraded": result.degraded,
    }


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print it: the totals of all recipes side by side, then each recipe by question type, then the times."""
    console.print(
        f"{report['evaluation']} ({report['data']}{', pooled' if report['pooled'] else ''}): "
        f"{report['questions']} questions, {report['sessions']} sessions, {report['turns']} turns; "
        f"embedder {report['embedder']}"
    )
    console.print(_totals(report))
    for name, recipe in report["recipes"].items():
        console.print(_groups(name, recipe))
    console.print(_times(report))
    if "qa" in report:
        show_answers(report["qa"], console)
    for name, recipe in report["recipes"].items():
        if recipe["degraded"]:
            console.print(f"{name}: recall gave up on {recipe['degraded']} questions; the times above tell why")


def _totals(report: Mapping[str, Any]) -> Table:
    recipes = report["recipes"]
    table = make_table("figure", *recipes, title=f"{report['total']}, with 95 % intervals")
    totals = {name: recipe["groups"].get(report["total"], {}) for name, recipe in recipes.items()}
    for figure in next(iter(totals.values())):
        if figure != "questions":
            table.add_row(figure, *(_cell(report, name, figure, total[figure]) for name, total in totals.items()))
    if len(recipes) > 1:
        table.caption = "Beside a figure: how far it is above the first recipe; * where the interval excludes 0."
    return table


def _cell(report: Mapping[str, Any], recipe: str, figure: str, interval: Mapping[str, Any]) -> str:
    digits = _DIGITS.get(figure, 3)
    text = with_interval(interval, digits)
    difference = report["differences"].get(recipe, {}).get(figure)
    if difference is None or difference["value"] is None:
        return text
    sure = "*" if difference["low"] > 0 or difference["high"] < 0 else ""
    return f"{text} {'+' if difference['value'] >= 0 else ''}{rounded(difference['value'], digits)}{sure}"


def _groups(name: str, recipe: Mapping[str, Any]) -> Table:
    table = make_table("questions", "n", *_BY_GROUP.values(), title=f"recipe {name}")
    for group, figures in recipe["groups"].items():
        values = (rounded(figures[figure]["value"], _DIGITS.get(figure, 3)) for figure in _BY_GROUP)
        table.add_row(group, str(figures["questions"]), *values)
    return table


def _times(report: Mapping[str, Any]) -> Table:
    table = make_table("recipe", "milliseconds", "p50", "p95", "p99", title="recall, from question to block")
    for name, recipe in report["recipes"].items():
        for step, times in recipe["latency_ms"].items():
            if times:
                table.add_row(name, step.replace("_", " "), *(f"{times[p]:.2f}" for p in ("p50", "p95", "p99")))
    return table
