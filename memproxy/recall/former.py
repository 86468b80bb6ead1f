"""Former statements: a superseded statement is given where a question asks for the past, and marked as past; and where
what took its place begins later ("From 1 July my rent is 1,940"), until then.

Whether a question does ("what was my budget before?") is decided by a logistic regression over its words, their letters
and its beginning, not by a list (``python -m tests.fitting.past`` fits it). Then the likeliest facts bring those that
they replaced, as far as their histories go back.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files

import msgspec

from memproxy.core.facts import RETRACTED_BY, begins
from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.core.telling import Weights, odds_of, read_weights
from memproxy.ports import MemoryStore
from memproxy.recall.ranking import Scored

LEAST = 1.0
"""Least log odds of a question for the past (figures: docs/lab/dream.md)."""

PAST = "past"
"""The signal of a memory that held before; how many took its place since."""

FACTS = 4
"""Facts, the likeliest, whose histories are looked at."""

STEPS = 3
"""Statements of one history that are given."""

_READ = 300
"""Characters of a question; longer messages tell more than they ask."""


@cache
def shipped() -> Weights:
    """The weights that come with this version."""
    return read_weights(files("memproxy.recall").joinpath("data/past.json").read_text("utf-8"))


def asks_for_past(question: str) -> bool:
    """Whether a question asks for the past."""
    return len(question) <= _READ and odds_of(question, shipped()) >= LEAST


def likeliest_facts(scored: Sequence[Scored], floor: float) -> list[Scored]:
    """The likeliest facts above the floor, best first; those that they replaced may be given."""
    return [hit for hit in scored if hit.memory.kind is not Kind.TURN and hit.score >= floor][:FACTS]


async def with_former(
    store: MemoryStore, scope: Scope, scored: Sequence[Scored], facts: Sequence[Scored], holds_at: datetime | None
) -> list[Scored]:
    """Everything ``scored``, best first, and after each of the ``facts`` those that it replaced; with ``holds_at`` only
    the one that holds then.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    predecessors: dict[str, list[Scored]] = {fact.memory.id: [] for fact in facts}
    heads = {fact.memory.id: fact.memory for fact in facts}
    looked_up = {candidate.memory.id for candidate in scored}
    for step in range(1, STEPS + 1):
        stored = await store.get(scope, sorted(_unread_predecessors(heads.values(), looked_up)))
        looked_up |= stored.keys()
        heads = {name: stored[head.supersedes or ""] for name, head in heads.items() if head.supersedes in stored}
        for fact in facts:
            former = heads.get(fact.memory.id)
            if former is not None and _held(former, holds_at):
                signals = fact.signals | {PAST: float(step)}
                predecessors[fact.memory.id].append(msgspec.structs.replace(fact, memory=former, signals=signals))
        if not heads:
            break
    return [entry for candidate in scored for entry in (candidate, *predecessors.get(candidate.memory.id, ()))]


def _unread_predecessors(heads: Iterable[Memory], looked_up: set[str]) -> set[str]:
    return {head.supersedes for head in heads if head.supersedes is not None} - looked_up


def _held(memory: Memory, holds_at: datetime | None) -> bool:
    """Whether it held for a time; a memory that was taken back, or merged into an equal one, did not."""
    end = memory.valid_to
    if end is None or end == begins(memory) or memory.active or RETRACTED_BY in memory.metadata:
        return False
    return holds_at is None or begins(memory) <= holds_at < end
