"""What the gate lets pass, put to a memory: ``python -m tests.evals.gate_memory --data gate.jsonl --memory FILE``.

A LoCoMo file: how many of the messages that pass although their kind needs no memory get something injected from its
first conversation. A file of lives (YAML): how many of all messages are searched for, and get something injected, for
each of its people.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from memproxy.evals import locomo
from memproxy.evals.cli import DEFAULT_CACHE, DEFAULT_RECIPE
from memproxy.evals.dataset import Question
from memproxy.evals.gate_verdicts import Judged, evaluate, load
from memproxy.evals.output import make_console, make_table, progress
from memproxy.evals.retrieval import Options, ingest, opened_memory
from memproxy.evals.throwaway import settings_for
from memproxy.evals.vector_cache import opened_embedder
from memproxy.settings import Settings
from tests.evals import lives
from tests.evals.probes import Probe, probed_memory


async def of_locomo(judged: Sequence[Judged], path: Path, options: Options) -> dict[str, Any]:
    """How many needless searches get something injected from a conversation's memory, by kind."""
    console = Console(stderr=True)
    dataset = locomo.load_dataset(path, pooled=False)
    dataset = dataset.of_users({dataset.sessions[0].user})
    needless = [one for one in judged if one.needless]
    counts: dict[str, Counter[str]] = {}
    async with opened_memory(dataset, options, console) as (memory, _):
        await ingest(memory, dataset, console)
        with progress(console, "messages", len(needless)) as step:
            for one in needless:
                question = Question(
                    id="",
                    user=dataset.sessions[0].user,
                    text=one.line.text,
                    group=one.line.kind,
                    asked_at=datetime.now(UTC),
                )
                found = await memory.ask(question, options.recipes[0])
                counts.setdefault(one.line.kind, Counter()).update(asked=1, injected=int(bool(found.injected)))
                step(1)
    return {kind: _injected(count) for kind, count in sorted(counts.items())}


async def of_lives(judged: Sequence[Judged], path: Path, options: Options) -> dict[str, Any]:
    """How many of the messages of each kind get something injected from the memories of each person, and how many are
    searched for.
    """
    people, counts = lives.load([path]), dict[str, Counter[str]]()
    async with (
        opened_embedder(options.model_path, options.cache) as embedder,
        probed_memory(settings_for(Settings(), "off"), embedder, options.recipes) as memory,
    ):
        for life in people:
            await memory.live(life.user, life.sessions)
        with progress(Console(stderr=True), "messages", len(judged) * len(people)) as step:
            for one, life in ((one, life) for one in judged for life in people):
                text = one.line.text
                probe = Probe(id=f"{life.user}?{text}", user=life.user, asked_at=datetime.now(UTC), ask=text)
                found = await memory.request(probe, options.recipes[0])
                counted = {"asked": 1, "searched": int(found.skipped is None), "injected": int(bool(found.lines))}
                counts.setdefault(one.line.kind, Counter()).update(counted)
                step(1)
    return {kind: _injected(count) for kind, count in sorted(counts.items())}


def _injected(count: Counter[str]) -> dict[str, Any]:
    return {**count, "rate": count["injected"] / count["asked"]}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--memory", type=Path, required=True)
    arguments.add_argument("--model-path", type=Path)
    arguments.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    given = arguments.parse_args()
    options = Options(
        recipes=[DEFAULT_RECIPE], lexical=given.model_path is None, model_path=given.model_path, cache=given.cache
    )
    judged = evaluate(load(given.data))
    of_people = given.memory.suffix in {".yaml", ".yml"}
    counts = asyncio.run((of_lives if of_people else of_locomo)(judged, given.memory, options))
    table = make_table("kind", "asked", "searched", "injected", title="injected from the memory")
    for kind, count in counts.items():
        searched = str(count.get("searched", count["asked"]))
        table.add_row(kind, str(count["asked"]), searched, f"{count['injected']} ({count['rate']:.3f})")
    make_console().print(table)


if __name__ == "__main__":
    main()
