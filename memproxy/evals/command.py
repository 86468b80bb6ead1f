"""What `memproxy eval` does: reads a data set, makes or finds the memory to measure, prints and writes the figures."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from rich.console import Console

from memproxy.errors import ConfigError
from memproxy.evals import gate, lived, locomo, longmemeval, report
from memproxy.evals.dataset import Dataset
from memproxy.evals.local import local_memory
from memproxy.evals.progress import progress
from memproxy.evals.qa.models import Answering, reading
from memproxy.evals.qa.run import Reading, answer_all
from memproxy.evals.remote import RemoteMemory
from memproxy.evals.runner import ingest, made_report, run, texts_of
from memproxy.evals.subject import Subject
from memproxy.evals.unseen_chats import command as unseen
from memproxy.evals.unseen_chats.memory import chat_memory
from memproxy.evals.vectors import CachedEmbedder, VectorCache, until_ready
from memproxy.models.dimensions import DEFAULT as DIMENSION
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.no_embedder import NoEmbedder
from memproxy.ports import Embedder
from memproxy.settings import EmbeddingSettings, GateSettings, Settings
from memproxy.settings.home import home_dir
from memproxy.settings.loading import load_settings

LOADERS = {"locomo": locomo.load_dataset, "longmemeval": longmemeval.load}
HTTP_TIMEOUT_S = 120.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to measure: the memory (recipes of one in this process, or ``base_url``) and how much of the data."""

    recipes: Sequence[str]
    pooled: bool = False
    smoke: bool = False
    lexical: bool = False
    model_path: Path | None = None
    cache: Path
    base_url: str | None = None
    api_key: str | None = None
    answering: Answering | None = None


def retrieval(evaluation: str, data: Path, options: Options, json_out: Path | None) -> None:
    """Measure retrieval on a data set of `LOADERS`, print and write the figures.

    Raises:
        MemproxyError: the data, the recipes, the model or the running memproxy are not what they must be.
    """
    dataset = LOADERS[evaluation](data, pooled=options.pooled)
    if options.smoke:
        dataset = dataset.smoke()
    measured = asyncio.run(_measured(dataset, data.name, options))
    report.show(measured, report.make_console())
    if json_out is not None:
        report.write_json(json_out, measured)


def verdicts(
    data: Path, memory: Path | None, options: Options, json_out: Path | None, *, config: Path | None = None
) -> None:
    """Measure the gate (of a configuration, by default all of it), print and write the figures; with ``memory`` (a
    LoCoMo file) also what is injected from its first conversation into messages that pass and need no memory, or (a
    file of lives) what of all messages is searched for and injected for its people.

    Raises:
        MemproxyError: the data, the configuration or the model are not what they must be, or the figures cannot be
            written.
    """
    settings = Settings() if config is None else load_settings(config)
    judged = gate.evaluate(gate.load(data), skipped(settings.gate))
    injected = None
    if memory is not None and memory.suffix in {".yaml", ".yml"}:
        injected = asyncio.run(_given(judged, memory, options, settings))
    elif memory is not None:
        injected = asyncio.run(_injected(judged, memory, options))
    measured = gate.made_report(judged, data.name, injected)
    gate.show(measured, report.make_console())
    if json_out is not None:
        report.write_json(json_out, measured)


def skipped(settings: GateSettings) -> frozenset[str]:
    """The kinds of messages that a gate of these settings skips."""
    return frozenset[str](settings.skip) if settings.enabled else frozenset()


async def _given(judged: Sequence[gate.Judged], path: Path, options: Options, settings: Settings) -> dict[str, Any]:
    console, lives = Console(stderr=True), lived.load([path])
    about = unseen.Options(recipes=options.recipes, model_path=options.model_path, cache=options.cache)
    async with (
        unseen.opened_embedder(about) as embedder,
        chat_memory(settings, embedder, options.recipes, "off") as memory,
    ):
        for life in lives:
            await memory.take(life.chats)
        users = [life.chats.user for life in lives]
        with progress(console, "messages", len(judged) * len(users)) as step:
            return await gate.given(judged, memory, users, options.recipes[0], step)


async def _injected(judged: Sequence[gate.Judged], memory: Path, options: Options) -> dict[str, Any]:
    console = Console(stderr=True)
    dataset = locomo.load_dataset(memory, pooled=False)
    dataset = dataset.of_users({dataset.sessions[0].user})
    needless = [one for one in judged if one.needless]
    async with _subject(dataset, options, console) as (subject, _):
        await ingest(subject, dataset, console)
        with progress(console, "messages", len(needless)) as step:
            return await gate.injections(subject, needless, dataset.sessions[0].user, options.recipes[0], step)


async def _measured(dataset: Dataset, data: str, options: Options) -> dict[str, Any]:
    console = Console(stderr=True)
    async with _answerers(dataset, options) as answerers:
        async with _subject(dataset, options, console) as (subject, embedder):
            outcomes = await run(subject, dataset, options.recipes, console)
        answers = await answer_all(outcomes, answerers, console, total=dataset.total) if answerers else None
    about = {"data": data, "pooled": options.pooled, "smoke": options.smoke, "embedder": embedder}
    return made_report(dataset, outcomes, about | ({} if answers is None else {"qa": answers}))


@asynccontextmanager
async def _answerers(dataset: Dataset, options: Options) -> AsyncIterator[Reading | None]:
    """Who answers and judges, if that is asked for; opened first, so that a missing model is told at once."""
    if options.answering is None:
        yield None
        return
    async with reading(options.answering, options.cache / f"qa-{dataset.name}.jsonl") as found:
        yield found


@asynccontextmanager
async def _subject(dataset: Dataset, options: Options, console: Console) -> AsyncIterator[tuple[Subject, str]]:
    """The memory to measure and its embedder's name."""
    if options.base_url is not None:
        async with _remote(options.base_url, options.api_key) as remote:
            yield remote, f"of {options.base_url}"
        return
    async with _embedder(dataset, options, console) as embedder, local_memory(embedder, options.recipes) as local:
        yield local, embedder.name


@asynccontextmanager
async def _remote(base_url: str, api_key: str | None) -> AsyncIterator[Subject]:
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=HTTP_TIMEOUT_S) as http:
        remote = RemoteMemory(http)
        try:
            try:
                yield remote
            finally:
                await remote.forget()
        except httpx.TransportError as error:
            raise ConfigError(f"no answer from {base_url} ({error}); start it with: memproxy serve") from error


@asynccontextmanager
async def _embedder(dataset: Dataset, options: Options, console: Console) -> AsyncIterator[Embedder]:
    if options.lexical:
        yield NoEmbedder(DIMENSION)
        return
    vectors = VectorCache(options.cache.expanduser())
    embedder = CachedEmbedder(_model(options, threads=1), vectors)
    try:
        await embedder.start()
        await _fill(embedder, dataset, options, console)
        yield embedder
    finally:
        await embedder.close()
        vectors.close()


async def _fill(embedder: CachedEmbedder, dataset: Dataset, options: Options, console: Console) -> None:
    """Embed what is not in the cache, on all cores (queries are measured on one thread, as the product has it)."""
    missing = await embedder.missing(texts_of(dataset))
    if not missing:
        return
    bulk = _model(options, threads=os.cpu_count() or 1)
    try:
        await until_ready(bulk)
        with progress(console, f"embedding {len(missing)} turns", sum(map(len, missing))) as step:
            await embedder.fill(missing, bulk, step)
    finally:
        await bulk.close()


def _model(options: Options, *, threads: int) -> FastembedEmbedder:
    settings = EmbeddingSettings(model_path=options.model_path, threads=threads, token_vectors=True)
    return FastembedEmbedder(settings, home_dir() / "models")
