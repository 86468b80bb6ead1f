"""Probes: questions put to a throw-away memory as requests of new sessions, through the gate and recall."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core import gate
from memproxy.core.memory import Kind
from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.core.scope import Scope
from memproxy.core.turn import text_digest
from memproxy.errors import StoreUnavailable
from memproxy.evals.dataset import Session
from memproxy.evals.throwaway import TENANT, EvaluationMemory, throwaway_memory
from memproxy.ports import Embedder
from memproxy.settings import Settings

EXPLAINED = 60
"""Candidates that an answer tells of."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One question in a new session of its user, ``before`` being earlier user messages of that session.

    ``gold`` is all that a helpful assistant needs: of each set of turns one. Empty: nothing that was said helps.
    ``acceptable`` turns do no harm; ``never`` are those that mislead (superseded, somebody else's, merely similar).
    """

    id: str
    user: str
    asked_at: datetime
    ask: str
    language: str = "en"
    size: str = "everyday"
    group: str = "general"
    before: tuple[str, ...] = ()
    gold: tuple[frozenset[str], ...] = ()
    acceptable: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: ``turns`` are itself, or the turns that a fact was learned from (none for an episode)."""

    memory: str
    turns: frozenset[str]
    score: float
    rejected: str | None


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe got: ``lines`` injected, and all that was ``found``, best first. ``skipped`` says why the gate let
    nothing be searched, ``degraded`` why recall gave up.
    """

    lines: tuple[Line, ...] = ()
    found: tuple[Line, ...] = ()
    tokens: int = 0
    skipped: str | None = None
    degraded: str | None = None

    def covered(self, gold: Sequence[frozenset[str]]) -> int:
        """How many of the needed turns are injected."""
        turns = frozenset[str]().union(*(line.turns for line in self.lines))
        return sum(bool(part & turns) for part in gold)

    def place_of(self, part: frozenset[str], texts: Mapping[str, str]) -> dict[str, Any]:
        """The best of these turns: its place among all that was found, its score, and why it is not injected."""
        text = " | ".join(texts[turn] for turn in sorted(part))
        for rank, line in enumerate(self.found, start=1):
            if part & line.turns:
                return {"text": text, "rank": rank, "score": line.score, "rejected": line.rejected}
        return {"text": text, "rank": None, "score": None, "rejected": None}


class ProbedMemory:
    """A throw-away memory into which people's sessions go at their own times, and which answers probes."""

    def __init__(self, memory: EvaluationMemory, settings: Settings) -> None:
        self._memory = memory
        self._settings = settings
        self.worker = memory.worker
        self.sources: dict[str, frozenset[str]] = {}
        """The turns that each fact was learned from."""

    async def live(self, user: str, sessions: Sequence[Session]) -> None:
        """A person's sessions at their own times, learned from at their ends if that is switched on."""
        for session in sessions:
            self._memory.said_at.set(ended_at(session))
            await self._memory.ingest(session)
            if self._settings.learn.enabled:
                await self._memory.settle()
                if not await self._memory.learn(session.user, session.name):
                    raise StoreUnavailable("A session was not learned from; see the log.")
        await self._memory.settle()
        told = await self._memory.memories(user, [kind for kind in Kind if kind not in (Kind.TURN, Kind.EPISODIC)])
        self.sources |= {memory.id: frozenset(memory.turn_ids) for memory in told}

    async def request(self, probe: Probe, recipe: str) -> Given:
        """The probe as a request of a new session: the gate's verdict, then recall."""
        verdict = self._verdict(probe)
        if not verdict.reaches_memory:
            return Given(skipped=verdict.reason)
        self._memory.asked_at.set(probe.asked_at)
        said = [*probe.before, probe.ask]
        request = RecallRequest(
            request_id="evaluation",
            scope=Scope(tenant=TENANT, user=probe.user, session=probe.id),
            queries=said,
            nonce="0" * 12,
            present=[text_digest(text) for text in said],
            verdict=verdict.reason,
            only_if_told=verdict.asks_memory,
            first_turn=not probe.before,
            explain=True,
        )
        return self._given(await self._memory.recalls[recipe].recall(request, explained=EXPLAINED))

    def _verdict(self, probe: Probe) -> gate.Verdict:
        if not self._settings.gate.enabled:
            return gate.Verdict(searched=True, reason="gate_off")
        return gate.judge(probe.ask, frozenset[str](self._settings.gate.skip), follows=bool(probe.before))

    def _given(self, answer: RecallAnswer) -> Given:
        found = tuple(self._line(one) for one in answer.candidates)
        return Given(
            lines=tuple(line for line in found if line.rejected is None),
            found=found,
            tokens=answer.tokens,
            skipped=answer.reason if answer.result == "skipped" else None,
            degraded=answer.reason if answer.result == "degraded" else None,
        )

    def _line(self, one: Mapping[str, Any]) -> Line:
        memory = one["memory_id"]
        turns = frozenset({memory}) if one["kind"] == Kind.TURN.value else self.sources.get(memory, frozenset())
        return Line(memory=memory, turns=turns, score=one["score"], rejected=one["rejected"])


@asynccontextmanager
async def probed_memory(
    settings: Settings, embedder: Embedder, recipes: Sequence[str], **options: Any
) -> AsyncIterator[ProbedMemory]:
    """`throwaway_memory` with the same ``options``, prepared as the engine does before its first request."""
    async with throwaway_memory(settings, embedder, recipes, **options) as memory:
        for recall in memory.recalls.values():
            await recall.prepare()
        yield ProbedMemory(memory, settings)


def ended_at(session: Session) -> datetime:
    """When its last message was said."""
    return session.messages[-1].timestamp or session.date
