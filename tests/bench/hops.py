"""LoCoMo with and without hops over relations: ``python -m tests.bench.hops locomo.json --model-path FOLDER``.

What LoCoMo's authors noted of each session (``observation``) are the facts, as of an extractor that misses nothing.
Each names a subject, the speaker, and where it can an object: the first name behind him, with the words between as
the predicate. That is more than a model would give: whatever may be followed, is.
"""

import argparse
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory, Source, Trust
from memproxy.core.protocol import PlanBody
from memproxy.core.scope import Scope
from memproxy.evals import locomo
from memproxy.evals.dataset import Question, Session, read_json
from memproxy.evals.throwaway import TENANT, EvaluationMemory, settings_for, throwaway_memory
from memproxy.evals.vector_cache import opened_embedder
from memproxy.ports import JournalEntry, JournalKind
from memproxy.recall.links import phrase_of, resolve
from memproxy.recall.recipes import DEFAULT
from memproxy.settings import Settings
from tests.evals.probes import ProbedMemory

RECIPES = (DEFAULT, msgspec.structs.replace(DEFAULT, name="without hops", hops=False))
MEASURES = ("turn recall@10", "needed turns in the block", "lines")
AT_ONCE = 50
PATIENCE_S = 600.0
_NAME = re.compile(r"(?:[A-Z][\w.'-]*)(?: [A-Z][\w.'-]*)*")


def facts_of(sample: dict[str, Any], sessions: dict[str, Session]) -> Iterator[Memory]:
    """The observations of a conversation as facts."""
    user = locomo.name_of(sample)
    for name, noted in sample["observation"].items():
        at = sessions[f"{user}/{name.removesuffix('_observation')}"].date
        rows = ((speaker, *row) for speaker, some in noted.items() for row in some)
        for number, (speaker, text, evidence) in enumerate(rows):
            behind = text.removeprefix(speaker)
            target = _NAME.search(behind)
            yield Memory(
                id=f"mem_{user}_{name}_{number}",
                tenant=TENANT,
                user_id=user,
                kind=Kind.SEMANTIC,
                content=text,
                subject=speaker,
                predicate=(behind[: target.start()] if target else behind)[:100].strip(" '"),
                object=target.group() if target else None,
                confidence=0.9,
                trust=Trust.USER,
                source=Source.CONVERSATION,
                turn_ids=sorted(locomo.evidence_of(evidence if isinstance(evidence, list) else [evidence], sample)),
                created_at=at,
                updated_at=at,
                valid_from=at,
            )


async def stored(memory: EvaluationMemory, facts: list[Memory]) -> None:
    """Write the facts of one user."""
    scope = Scope(tenant=TENANT, user=facts[0].user_id)
    for start in range(0, len(facts), AT_ONCE):
        body = msgspec.json.encode(PlanBody(upserts=facts[start : start + AT_ONCE]))
        number = await memory.worker.submit(JournalEntry(kind=JournalKind.PLAN, scope=scope, body=body))
        assert await memory.worker.applied(number, PATIENCE_S)


async def measure(memory: EvaluationMemory, people: ProbedMemory, question: Question, recipe: str) -> tuple[float, ...]:
    """The figures of one question; a fact counts as the turns that it was noted from."""
    found, needed = await memory.ask(question, recipe), question.gold_turns
    turns = frozenset(turn for turn, _ in found.turns[:10])
    shown = frozenset[str]().union(*(people.sources.get(name, frozenset({name})) for name in found.injected))
    return len(needed & turns) / len(needed), len(needed & shown) / len(needed), float(len(found.injected))


async def main(given: argparse.Namespace) -> None:
    """Print the figures of all questions, and of each category."""
    data, raw = locomo.load_dataset(given.data, pooled=False), read_json(given.data)
    sessions = {session.name: session for session in data.sessions}
    scored = [question for question in data.questions if question.scored and question.gold_turns]
    async with (
        opened_embedder(given.model_path, given.cache) as embedder,
        throwaway_memory(settings_for(Settings(), "off"), embedder, RECIPES) as memory,
    ):
        for recall in memory.recalls.values():
            await recall.prepare()
        people = ProbedMemory(memory, settings_for(Settings(), "off"))
        facts: dict[str, list[Memory]] = {}
        for sample in raw:
            user = locomo.name_of(sample)
            await people.live(user, [session for session in data.sessions if session.user == user])
            facts[user] = list(facts_of(sample, sessions))
            await stored(memory, facts[user])
            await people.live(user, [])
        got = {one.name: [await measure(memory, people, question, one.name) for question in scored] for one in RECIPES}
    named = sum(fact.object is not None for some in facts.values() for fact in some)
    print(f"{sum(map(len, facts.values()))} facts, {named} with an object")
    phrases = {one.id: phrase for one in scored if (phrase := phrase_of(one.text)) is not None}
    led = [one.id for one in scored if one.id in phrases and resolve(phrases[one.id], facts[one.user]) is not None]
    print(f"{len(phrases)} of {len(scored)} questions go by a relation, of {len(led)} one fact says whom it means")
    for group in ("all", *sorted({question.group for question in scored})):
        chosen = [place for place, question in enumerate(scored) if group in {"all", question.group}]
        for name, figures in got.items():
            means = (sum(figures[one][which] for one in chosen) / len(chosen) for which in range(len(MEASURES)))
            told = ", ".join(f"{what} {mean:.4f}" for what, mean in zip(MEASURES, means, strict=True))
            print(f"{group} ({len(chosen)}), {name}: {told}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model-path", type=Path)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "memproxy" / "eval")
    asyncio.run(main(parser.parse_args()))
