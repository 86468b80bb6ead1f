"""How long memories are kept, and which go first when there are too many: pure functions over their fields."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.memory_feedback import feedback_of

EXPIRED = "expired"
OVER_LIMIT = "limit"  # why a memory is pruned; the activity and a metric say it
MIDDLE_IMPORTANCE = 0.5  # of a memory about which nothing is known: neither lifts nor lowers its score


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What counts in the score of pruning, each about a number in [0, 1]. ``half_life_h``: hours since a memory was
    written or recalled that halve its recency; ``most_retrievals``: more do not count; ``turn_confidence``: turns have
    none of their own.
    """

    confidence: float = 0.40
    recency: float = 0.35
    retrievals: float = 0.25
    importance: float = 0.20
    feedback: float = 0.20
    half_life_h: float = 24.0
    most_retrievals: int = 10
    turn_confidence: float = 0.5


PRUNING = Weights()


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one tenant. ``ttl``: how long a memory without ``expires_at`` of its own is kept, from when it was
    learned or said; ``most``: memories of one user. None is without a bound.
    """

    ttl: timedelta | None = None
    most: int | None = None


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is to go: why, and its score."""

    memory: Memory
    reason: str
    score: float


def score(memory: Memory, weights: Weights = PRUNING, *, now: datetime) -> float:
    """How much a memory is worth keeping, by weights, its importance and what people said: the lowest go first."""
    confidence = weights.turn_confidence if memory.kind is Kind.TURN else memory.confidence
    last = max(memory.updated_at, memory.last_accessed_at or memory.updated_at)
    recency = 0.5 ** (max(0.0, (now - last).total_seconds() / 3600) / weights.half_life_h)
    retrievals = min(memory.access_count, weights.most_retrievals) / weights.most_retrievals
    feedback = feedback_of(memory)
    against = feedback.wrong + feedback.correction
    return float(
        weights.confidence * confidence
        + weights.recency * recency
        + weights.retrievals * retrievals
        + weights.importance * (memory.importance - MIDDLE_IMPORTANCE)
        + weights.feedback * ((feedback.helpful - against) / (feedback.helpful + against + 1))
    )


def is_history(memory: Memory) -> bool:
    """Whether it is superseded, ended or taken back: such memories go first."""
    return not memory.active or memory.superseded_by is not None


def is_expired(memory: Memory, now: datetime) -> bool:
    """Whether its time is over."""
    return memory.expires_at is not None and memory.expires_at <= now


def due(memories: Iterable[Memory], policy: Policy, *, now: datetime) -> list[Due]:
    """What has expired, and what is over the limit: history first, then by score, of equal ones the older."""
    scored = [(memory, score(memory, now=now)) for memory in memories]
    gone = [Due(memory=memory, reason=EXPIRED, score=worth) for memory, worth in scored if is_expired(memory, now)]
    unexpired = [pair for pair in scored if not is_expired(pair[0], now)]
    over = len(unexpired) - policy.most if policy.most is not None else 0
    if over <= 0:
        return gone
    unexpired.sort(key=lambda pair: (not is_history(pair[0]), pair[1], pair[0].created_at, pair[0].id))
    return gone + [Due(memory=memory, reason=OVER_LIMIT, score=worth) for memory, worth in unexpired[:over]]


def batches(gone: Sequence[Due], most: int) -> list[list[Due]]:
    """Batches of at most ``most`` with one reason and, for turns, one session, in their order."""
    groups: dict[tuple[str, str | None, bool], list[Due]] = {}
    for due in gone:
        turn = due.memory.kind is Kind.TURN and due.memory.session_id is not None
        groups.setdefault((due.reason, due.memory.session_id if turn else None, turn), []).append(due)
    return [group[start : start + most] for group in groups.values() for start in range(0, len(group), most)]
