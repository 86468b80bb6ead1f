"""Which of the found memories may be injected, and why the others may not."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.protocol import RecallLimits
from memproxy.core.turn import text_digest
from memproxy.recall.search import Scored
from memproxy.settings import Settings


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The recall limits of one request: the configured ones, as the request changes them.

    ``floor`` and ``min_confidence`` lie in [0, 1]; ``max_tokens`` bounds the whole block.
    """

    kinds: tuple[Kind, ...]
    limit: int
    floor: float
    max_tokens: int
    min_confidence: float
    min_trust: Trust

    @classmethod
    def of(cls, settings: Settings, asked: RecallLimits) -> "Limits":
        """A request narrows the configured kinds, never widens them; the numbers it names replace the configured."""
        recall = settings.recall
        kinds = [Kind(name) for name in recall.kinds if asked.memory_types is None or name in asked.memory_types]
        return cls(
            kinds=tuple(kinds),
            limit=recall.limit if asked.retrieval_limit is None else asked.retrieval_limit,
            floor=recall.similarity_threshold if asked.similarity_threshold is None else asked.similarity_threshold,
            max_tokens=recall.max_tokens if asked.max_tokens is None else asked.max_tokens,
            min_confidence=recall.min_confidence,
            min_trust=Trust(settings.learn.min_trust),
        )


class Judged(msgspec.Struct, frozen=True):
    """One candidate and why it is left out; ``rejected`` None means it may be injected."""

    scored: Scored
    rejected: str | None


def select(scored: Iterable[Scored], limits: Limits, *, present: frozenset[str], now: datetime) -> list[Judged]:
    """Judge all candidates, best first: the first ``limits.limit`` that nothing speaks against are kept."""
    seen = set(present)
    covered: set[str] = set()
    judged: list[Judged] = []
    kept = 0
    for one in scored:
        reason = _reason(one, limits, now) or _repetition(one.memory, seen, covered)
        if reason is None and kept >= limits.limit:
            reason = "limit"
        if reason is None:
            kept += 1
            seen.add(text_digest(one.memory.content))
            covered.update(() if one.memory.kind is Kind.TURN else one.memory.turn_ids)
        judged.append(Judged(one, reason))
    return judged


def _reason(scored: Scored, limits: Limits, now: datetime) -> str | None:
    memory = scored.memory
    checks = {
        "superseded": memory.superseded_by is not None or not memory.active,
        "quarantined": memory.quarantined,
        "expired": memory.expires_at is not None and memory.expires_at <= now,
        "ended": memory.kind is not Kind.TURN and memory.valid_to is not None and memory.valid_to <= now,
        "kind": memory.kind not in limits.kinds,
        "trust": memory.trust.level < limits.min_trust.level,
        "confidence": memory.confidence < limits.min_confidence,
        "score": scored.score < limits.floor,
    }
    return next((reason for reason, applies in checks.items() if applies), None)


def _repetition(memory: Memory, seen: set[str], covered: set[str]) -> str | None:
    """A turn whose fact ranked at least as well says nothing new; nor does what the request already contains."""
    if memory.kind is Kind.TURN and memory.id in covered:
        return "fact"
    return "present" if text_digest(memory.content) in seen else None
