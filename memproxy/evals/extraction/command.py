"""What `memproxy eval extraction` does: reads the dialogues, runs them, prints and writes the figures."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich.console import Console

from memproxy.core.protocol import UpstreamAccess
from memproxy.errors import ConfigError
from memproxy.evals import report
from memproxy.evals.extraction import dialogues as data
from memproxy.evals.extraction.dialogues import Dialogue
from memproxy.evals.extraction.figures import made_report
from memproxy.evals.extraction.judging import Judged, judge
from memproxy.evals.extraction.running import learning_memory, run_all
from memproxy.evals.extraction.showing import show
from memproxy.evals.progress import progress
from memproxy.evals.vectors import until_ready
from memproxy.models.chat import OpenAIChatModel
from memproxy.models.dimensions import DEFAULT as DIMENSION
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.no_embedder import NoEmbedder
from memproxy.ports import ChatModel, Embedder
from memproxy.settings import EmbeddingSettings, Settings
from memproxy.settings.home import home_dir
from memproxy.settings.loading import load_settings

Mode = Literal["verbatim", "model"]

_NEVER = 10**6
"""Messages, and seconds, after which learning begins by itself: it begins at a session's end."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and how: the mode of learning, the configuration that names a model, the embedder's files."""

    mode: Mode = "verbatim"
    split: Literal["dev", "held_out", "unseen", "all"] = "all"
    smoke: bool = False
    verbose: bool = False
    config: Path | None = None
    model_path: Path | None = None


def extraction(path: Path | None, options: Options, json_out: Path | None) -> None:
    """Measure what is learned from dialogues (``path`` None: our own), print and write the figures.

    Raises:
        MemproxyError: the data, the configuration or the model are not what they must be.
    """
    found = chosen(data.load(path), options)
    settings, access = settings_of(options, os.environ)
    judged, embedder = asyncio.run(_measured(found, settings, access, options))
    about = {
        "data": path.name if path is not None else "built in",
        "mode": options.mode,
        "split": options.split,
        "smoke": options.smoke,
        "embedder": embedder,
        "model": access.model if access is not None else None,
    }
    made = made_report(judged, about)
    show(made, report.make_console(), verbose=options.verbose)
    if json_out is not None:
        report.write_json(json_out, made)


def chosen(found: Sequence[Dialogue], options: Options) -> list[Dialogue]:
    """The dialogues of the split; ten of them for a smoke test.

    Raises:
        ConfigError: none is left.
    """
    kept = [one for one in found if options.split in ("all", one.split)]
    if not kept:
        raise ConfigError(f"no dialogue belongs to the split {options.split}; leave --split out")
    return data.smoke(kept) if options.smoke else kept


def settings_of(options: Options, environ: Mapping[str, str]) -> tuple[Settings, UpstreamAccess | None]:
    """The settings to learn with, and how to reach the model in mode ``model``: as ``models.extract`` or the upstream
    of the configuration say, else by ``OPENAI_BASE_URL``, ``OPENAI_API_KEY`` and ``OPENAI_MODEL``.

    Raises:
        ConfigError: the configuration cannot be used, or no model is named.
    """
    settings = load_settings(options.config, environ=environ)
    fixed = {"enabled": True, "mode": options.mode, "every_turns": _NEVER, "idle_s": float(_NEVER)}
    settings = settings.model_copy(update={"learn": settings.learn.model_copy(update=fixed)})
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


async def measured(
    found: Sequence[Dialogue],
    settings: Settings,
    access: UpstreamAccess | None,
    *,
    embedder: Embedder,
    model: ChatModel,
    console: Console,
) -> list[Judged]:
    """Run the dialogues and judge what each left stored.

    Raises:
        MemproxyError: the model or the throw-away store failed.
    """
    async with learning_memory(settings, embedder, model, access) as learning:
        with progress(console, "dialogues", len(found)) as step:
            return [judge(run) for run in await run_all(learning, found, step)]


async def _measured(
    found: Sequence[Dialogue], settings: Settings, access: UpstreamAccess | None, options: Options
) -> tuple[list[Judged], str]:
    model = OpenAIChatModel(settings.models.extract)
    arguments: dict[str, Any] = {"model": model, "console": Console(stderr=True)}
    try:
        async with _embedder(options.model_path) as embedder:
            return await measured(found, settings, access, embedder=embedder, **arguments), embedder.name
    finally:
        await model.close()


@asynccontextmanager
async def _embedder(model_path: Path | None) -> AsyncIterator[Embedder]:
    """The model of these files; without any, neighbours are found by words alone."""
    if model_path is None:
        yield NoEmbedder(DIMENSION)
        return
    embedder = FastembedEmbedder(EmbeddingSettings(model_path=model_path), home_dir() / "models")
    try:
        await until_ready(embedder)
        yield embedder
    finally:
        await embedder.close()
