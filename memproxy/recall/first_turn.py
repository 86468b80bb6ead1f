"""The facts that a session begins with, whatever is asked: the user's most important ones."""

from datetime import datetime

from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.ports import MemoryFilter, MemoryStore
from memproxy.recall.search import Scored
from memproxy.recall.select import Limits
from memproxy.recall.tiers import STABLE_KINDS

STABLE = "stable"
"""The signal of a memory that is there because it is stable, not because it fits; its score is 0."""

_PAGE = 200
_MOST_PAGES = 5
"""Of a user with more facts the newest thousand are looked at: older ones that still matter were said again."""


async def stable_facts(store: MemoryStore, scope: Scope, limits: Limits, count: int, now: datetime) -> list[Scored]:
    """The ``count`` most important facts, the most confident of those equally important first, then the newest.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    kinds = tuple(kind for kind in limits.kinds if kind in STABLE_KINDS)
    if not kinds:
        return []
    where = MemoryFilter(kinds=kinds, active=True, quarantined=False, now=now)
    facts: list[Memory] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await store.page(scope, where, limit=_PAGE, cursor=cursor)
        facts += [fact for fact in page.memories if _holds(fact, limits, now)]
        cursor = page.next_cursor
        if cursor is None:
            break
    best = sorted(facts, key=lambda fact: (-fact.importance, -fact.confidence))[:count]  # stable: the newest first
    return [Scored(memory=fact, score=0.0, signals={STABLE: 1.0}) for fact in best]


def _holds(fact: Memory, limits: Limits, now: datetime) -> bool:
    """Whether it is worth saying unasked: it holds now, and is sure and trusted enough."""
    return (
        (fact.valid_to is None or fact.valid_to > now)
        and fact.superseded_by is None
        and fact.confidence >= limits.min_confidence
        and fact.trust.level >= limits.min_trust.level
    )
