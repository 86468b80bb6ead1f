"""What `memproxy eval chats` does: reads the chats, runs the probes, prints and writes the figures."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

import memproxy
from memproxy.evals import report
from memproxy.evals.progress import progress
from memproxy.evals.unseen_chats import data
from memproxy.evals.unseen_chats.data import Chats
from memproxy.evals.unseen_chats.figures import Outcome, by_groups, told
from memproxy.evals.unseen_chats.memory import ChatMemory, Learn, chat_memory
from memproxy.evals.vectors import CachedEmbedder, VectorCache
from memproxy.models.dimensions import DEFAULT as DIMENSION
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.no_embedder import NoEmbedder
from memproxy.ports import Embedder
from memproxy.settings import EmbeddingSettings, Settings
from memproxy.settings.home import home_dir
from memproxy.settings.loading import load_settings

REPORT_VERSION = 1

_COLUMNS = {
    "any": "any",
    "all": "all",
    "precision": "precision",
    "precision_lenient": "lenient",
    "lines": "lines",
    "not_searched": "not searched",
    "median_rank": "rank",
    "first@1": "first@1",
    "all@8": "all@8",
    "needless": "needless",
    "needless_lenient": "lenient",
    "misled": "misled",
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to run: each recipe with each way of learning, otherwise as ``config`` has it (None: the defaults);
    ``model_path`` None: by words alone.
    """

    recipes: Sequence[str]
    learn: Sequence[Learn] = ("off", "verbatim")
    smoke: bool = False
    config: Path | None = None
    model_path: Path | None = None
    cache: Path


def chats(path: Path | None, options: Options, json_out: Path | None) -> None:
    """Measure what is injected into everyday questions (``path`` None: our own chats), print and write the figures.

    Raises:
        MemproxyError: the data, the configuration, the recipes or the model are not what they must be.
    """
    found = data.load(path)
    settings = Settings() if options.config is None else load_settings(options.config)
    found = data.smoke(found) if options.smoke else found
    made = asyncio.run(_measured(found, settings, options))
    made = {"data": path.name if path is not None else "built in", "smoke": options.smoke, **made}
    show(made, report.make_console())
    if json_out is not None:
        report.write_json(json_out, made)


async def _measured(found: Sequence[Chats], settings: Settings, options: Options) -> dict[str, Any]:
    console = Console(stderr=True)
    runs: dict[str, Any] = {}
    async with opened_embedder(options) as embedder:
        for learn in options.learn:
            async with chat_memory(settings, embedder, options.recipes, learn) as memory:
                outcomes = await _run(found, memory, options.recipes, learn, console)
            facts = memory.facts
            runs |= {f"{recipe}, learn {learn}": _report(found, those, facts) for recipe, those in outcomes.items()}
        name = embedder.name
    made = {
        "version": REPORT_VERSION,
        "memproxy": memproxy.__version__,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "evaluation": "chats",
        "embedder": name,
        "users": len(found),
        "turns": sum(one.turns for one in found),
        "probes": sum(len(one.probes) for one in found),
        "runs": runs,
    }
    return msgspec.json.decode(msgspec.json.encode(made), type=dict[str, Any])  # NaN becomes null


async def _run(
    found: Sequence[Chats], memory: ChatMemory, recipes: Sequence[str], learn: Learn, console: Console
) -> dict[str, list[Outcome]]:
    """The outcomes of every probe by recipe."""
    outcomes: dict[str, list[Outcome]] = {recipe: [] for recipe in recipes}
    with progress(console, f"chats (learn {learn})", sum(one.turns for one in found)) as step:
        for one in found:
            await memory.take(one)
            step(one.turns)
    with progress(console, "probes", len(recipes) * sum(len(one.probes) for one in found)) as step:
        for recipe in recipes:
            for probe in (probe for one in found for probe in one.probes):
                outcomes[recipe].append(Outcome(probe, await memory.ask(probe, recipe)))
                step(1)
    return outcomes


def _report(found: Sequence[Chats], outcomes: Sequence[Outcome], facts: int) -> dict[str, Any]:
    texts = {
        message.id or "": message.content for one in found for session in one.sessions for message in session.messages
    }
    return {
        "facts": facts,
        "degraded": sum(one.given.degraded is not None for one in outcomes),
        "groups": by_groups(outcomes),
        "probes": [told(one, texts) for one in outcomes],
    }


@asynccontextmanager
async def opened_embedder(options: Options) -> AsyncIterator[Embedder]:
    """The embedder of these options with its cache, closed afterwards."""
    if options.model_path is None:
        yield NoEmbedder(DIMENSION)
        return
    vectors = VectorCache(options.cache.expanduser())
    settings = EmbeddingSettings(model_path=options.model_path, token_vectors=True)
    embedder = CachedEmbedder(FastembedEmbedder(settings, home_dir() / "models"), vectors)
    try:
        await embedder.start()
        yield embedder
    finally:
        await embedder.close()
        vectors.close()


def show(made: Mapping[str, Any], console: Console) -> None:
    """Print the totals of all runs side by side, then each run by group, language and size of memory."""
    console.print(
        f"chats ({made['data']}): {made['users']} people, {made['turns']} turns, {made['probes']} probes; "
        f"embedder {made['embedder']}"
    )
    console.print(_totals(made["runs"]))
    for name, run in made["runs"].items():
        console.print(_groups(name, run))
        if run["degraded"]:
            console.print(f"recall gave up on {run['degraded']} probes")


def _totals(runs: Mapping[str, Any]) -> Table:
    table = report.make_table("figure", *runs, title="all probes, with 95 % intervals")
    for figure in _COLUMNS:
        table.add_row(figure, *(_cell(run["groups"]["all"][figure], interval=True) for run in runs.values()))
    return table


def _groups(name: str, run: Mapping[str, Any]) -> Table:
    table = report.make_table("probes", "n", "with gold", *_COLUMNS.values(), title=f"{name} ({run['facts']} facts)")
    for group, found in run["groups"].items():
        cells = (_cell(found[figure]) for figure in _COLUMNS)
        table.add_row(group, str(found["probes"]), str(found["answerable"]), *cells)
    return table


def _cell(found: Mapping[str, float | None] | float | None, *, interval: bool = False) -> str:
    if found is None:
        return "-"
    if not isinstance(found, Mapping):
        return f"{found:g}"
    if found["value"] is None:
        return "-"
    return f"{found['value']:.3f}" + (f" [{found['low']:.3f}, {found['high']:.3f}]" if interval else "")
