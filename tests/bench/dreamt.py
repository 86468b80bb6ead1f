"""Measures what recall gives before and after a dream: `python -m tests.bench.dreamt --lives FILE…`.

People live through their weeks with a perfect extractor (`tests.evals.lives`), everything is asked, everybody dreams
by rules, and everything is asked again; with ``--twice`` every fact was saved once more. ``--chats FOLDER`` does the
same with everyday chats, ``--locomo FILE`` and ``--longmemeval FILE`` with conversations, all learned from by rules; of
LongMemEval the questions of each ``--group``.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from memproxy.core.memory import Kind
from memproxy.core.protocol import PlanBody, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.evals import locomo, longmemeval
from memproxy.evals.dataset import Dataset, Question
from memproxy.evals.throwaway import TENANT, EvaluationMemory, settings_for, throwaway_memory
from memproxy.evals.vector_cache import opened_embedder
from memproxy.ports import Embedder, JournalEntry, JournalKind
from memproxy.settings import DreamSettings, Settings
from tests.evals import everyday_chats
from tests.evals.lives import PerfectExtractor, ask_all, figures, load
from tests.evals.probes import ProbedMemory, probed_memory

RECIPE = "default"
SHOWN = ("questions", "answered", "without any", "empty", "stale lines", "irrelevant lines", "lines", "needless blocks")
MEASURES = ("turn recall@5", "turn recall@10", "needed turns in the block")
CHATS = ("any", "all", "precision", "lines", "needless", "misled")
PATIENCE_S = 600.0
AGAIN = timedelta(days=1)
ACCESS = UpstreamAccess(base_url="http://127.0.0.1:9/v1", model="scripted", api_key="scripted")


async def everybody_dreams(memory: EvaluationMemory | ProbedMemory, users: Iterable[str]) -> Counter[str]:
    """Dreams by rules; what they did."""
    done: Counter[str] = Counter()
    for user in users:
        owner = Scope(tenant=TENANT, user=user)
        begun = await memory.worker.dreams.begin(owner, "call")
        dream = await memory.worker.dreams.ended(owner, begun.id, PATIENCE_S)
        assert dream.state == "done", dream.error
        done.update(dream.counts)
    return done


async def save_again(memory: EvaluationMemory, people: ProbedMemory, user: str) -> None:
    """Store every fact of a user once more, as an agent saves what is known already; no word of it is another."""
    kinds = [Kind.SEMANTIC, Kind.PROCEDURAL]
    known = [one for one in await memory.memories(user, kinds) if one.active]
    again = [
        msgspec.structs.replace(
            one,
            id=f"mem_again_{place}_{one.id}",
            content=one.content.rstrip("."),
            slot=None,
            predicate=None,
            supersedes=None,
            created_at=one.created_at + AGAIN,
            updated_at=one.created_at + AGAIN,
        )
        for place, one in enumerate(known)
    ]
    if again:
        entry = JournalEntry(
            kind=JournalKind.PLAN,
            scope=Scope(tenant=TENANT, user=user),
            body=msgspec.json.encode(PlanBody(upserts=again)),
        )
        assert await memory.worker.applied(await memory.worker.submit(entry), PATIENCE_S)
    await people.live(user, [])


async def probed(memory: EvaluationMemory, settings: Settings) -> ProbedMemory:
    """The memory as people live with it."""
    for recall in memory.recalls.values():
        await recall.prepare()
    return ProbedMemory(memory, settings)


async def lives(paths: list[Path], embedder: Embedder, *, twice: bool) -> None:
    """Print the figures of lives before and after; ``twice``: every fact was saved once more."""
    people = load(paths)
    settings = settings_for(Settings(dream=DreamSettings(max_model_tokens=0)), "model")
    model = PerfectExtractor(people)
    async with throwaway_memory(settings, embedder, [RECIPE], model=model, access=ACCESS) as kept:
        memory = await probed(kept, settings)
        for life in people:
            await memory.live(life.user, life.sessions)
            if twice:
                await save_again(kept, memory, life.user)
        texts = {one.id or "": one.content for life in people for each in life.sessions for one in each.messages}
        for name in ("before", "after"):
            found: dict[str, Any] = figures(await ask_all(people, memory, lambda _: None, timedelta()), texts)
            print(f"lives, {name}: " + ", ".join(f"{key} {found[key]}" for key in SHOWN if key in found), flush=True)
            if name == "before":
                print(f"dreamt: {dict(await everybody_dreams(memory, [life.user for life in people]))}", flush=True)
                for life in people:
                    await memory.live(life.user, [])  # what a fact was learned from, as it is now


async def conversations(data: Dataset, embedder: Embedder, groups: Collection[str]) -> None:
    """Print what is found for questions about conversations, before and after."""
    scored = [one for one in data.questions if one.scored and one.gold_turns and (not groups or one.group in groups)]
    data = data.of_users({question.user for question in scored})
    settings = settings_for(Settings(), "verbatim")
    async with throwaway_memory(settings, embedder, [RECIPE]) as memory:
        people = await probed(memory, settings)
        users = sorted({session.user for session in data.sessions})
        for user in users:
            await people.live(user, [session for session in data.sessions if session.user == user])
        print(f"{data.name}: {len(scored)} questions, {len(people.sources)} facts by rules", flush=True)
        before = [await found_for(memory, people, question) for question in scored]
        print(f"dreamt: {dict(await everybody_dreams(memory, users))}", flush=True)
        for user in users:
            await people.live(user, [])
        after = [await found_for(memory, people, question) for question in scored]
    for group in ["all", *dict.fromkeys(sorted(question.group for question in scored))]:
        chosen = [place for place, question in enumerate(scored) if group in {"all", question.group}]
        for name, found in (("before", before), ("after", after)):
            told = ", ".join(f"{what} {sum(found[one][what] for one in chosen) / len(chosen):.4f}" for what in MEASURES)
            print(f"{data.name}, {group} ({len(chosen)}), {name}: {told}", flush=True)
        worse = [sum(after[one][what] < before[one][what] for one in chosen) for what in MEASURES]
        print(f"{data.name}, {group}: questions with less after: {dict(zip(MEASURES, worse, strict=True))}", flush=True)


async def found_for(memory: EvaluationMemory, people: ProbedMemory, question: Question) -> dict[str, float]:
    """Shares of the needed turns among the first that are found, and in the block, a fact counting as its turns."""
    found, needed = await memory.ask(question, RECIPE), question.gold_turns
    turns = [turn for turn, _ in found.turns]
    shown = frozenset[str]().union(*(people.sources.get(name, frozenset({name})) for name in found.injected))
    held = [frozenset(turns[:5]), frozenset(turns[:10]), shown]
    return {what: len(needed & one) / len(needed) for what, one in zip(MEASURES, held, strict=True)}


async def chats(path: Path, embedder: Embedder) -> None:
    """Print what everyday chats get, before and after."""
    found = everyday_chats.load(path)
    async with probed_memory(settings_for(Settings(), "verbatim"), embedder, [RECIPE]) as memory:
        for one in found:
            await memory.live(one.user, one.sessions)
        for name in ("before", "after"):
            probes = [probe for one in found for probe in one.probes]
            outcomes = [everyday_chats.Outcome(probe, await memory.request(probe, RECIPE)) for probe in probes]
            made = everyday_chats.figures(outcomes)
            shown = ", ".join(f"{key} {made[key].value:.4f}" for key in CHATS)
            print(f"chats, {name}: {len(probes)} probes, {len(memory.sources)} facts, {shown}", flush=True)
            if name == "before":
                print(f"dreamt: {dict(await everybody_dreams(memory, [one.user for one in found]))}", flush=True)
                for one in found:
                    await memory.live(one.user, [])


async def main(given: argparse.Namespace) -> None:
    async with opened_embedder(given.model_path, given.cache) as embedder:
        if given.lives:
            await lives(given.lives, embedder, twice=given.twice)
        if given.chats is not None:
            await chats(given.chats, embedder)
        if given.locomo is not None:
            await conversations(locomo.load_dataset(given.locomo, pooled=False), embedder, ())
        if given.longmemeval is not None:
            await conversations(longmemeval.load(given.longmemeval, pooled=False), embedder, given.group)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lives", type=Path, nargs="*", default=[])
    parser.add_argument("--twice", action="store_true", help="every fact of the lives was saved once more")
    parser.add_argument("--chats", type=Path)
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--longmemeval", type=Path)
    parser.add_argument("--group", nargs="*", default=["knowledge-update", "temporal-reasoning"])
    parser.add_argument("--model-path", type=Path)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "memproxy" / "eval")
    asyncio.run(main(parser.parse_args()))
