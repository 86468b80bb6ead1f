"""Memories that are given without a search: those of the days that a question names, and a session's first facts."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from memproxy.core import timerange
from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.core.text import GENERIC_WORDS, key_terms
from memproxy.ports import MemoryFilter, MemoryStore
from memproxy.recall.query import Query
from memproxy.recall.ranking import Scored
from memproxy.recall.select import Limits

STABLE_KINDS = frozenset({Kind.SEMANTIC, Kind.PROCEDURAL, Kind.REFLECTIVE})
"""Kinds that hold until they are replaced: facts, ways of doing, insights."""

STABLE = "stable"
"""The signal of a memory that is given because it is stable, not because it fits; its score is 0."""

BY_DAY = "by_day"
"""The signal of a memory that is given for its day."""

_TERMS = 8
_PAGE = 200
_MOST_PAGES = 5
"""Of a longer past the newest thousand memories are looked at: older ones that still matter were said again."""

_SCORE, _STEP = 0.9, 1e-3


def asks_by_day(query: Query) -> bool:
    """Whether a query asks only for what happened at the times that it names ("What did I do last weekend?"): then
    neither its words nor its vector tell one memory from another.
    """
    terms = key_terms(query.text, _TERMS)
    return bool(query.spans) and all(term in GENERIC_WORDS or _is_time(term, query.now) for term in terms)


def _is_time(term: str, now: datetime) -> bool:
    return term.isdigit() or any(timerange.spans(f"{preposition} {term}", now) for preposition in ("last", "in", "on"))


async def of_days(store: MemoryStore, scope: Scope, where: MemoryFilter, query: Query) -> list[Scored]:
    """What was said at the times that the query names, or is true of them, the newest first.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    memories: list[Memory] = []
    earliest = min(span.start for span in query.spans)
    async for page in pages(store, scope, where):
        memories += [
            item
            for item in page
            if any(span.days_away(item.valid_from or item.created_at) == 0 for span in query.spans)
        ]
        if page and page[-1].created_at < earliest:
            break
    return [
        Scored(memory=memory, score=_SCORE - _STEP * number, signals={BY_DAY: 1.0})
        for number, memory in enumerate(memories)
    ]


async def stable_facts(store: MemoryStore, scope: Scope, limits: Limits, count: int, now: datetime) -> list[Scored]:
    """The ``count`` most important facts, the most confident of those equally important first, then the newest.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    kinds = tuple(kind for kind in limits.kinds if kind in STABLE_KINDS)
    if not kinds or not count:
        return []
    where = MemoryFilter(kinds=kinds, active=True, quarantined=False, now=now)
    facts = [fact async for page in pages(store, scope, where) for fact in page if holds(fact, limits, now)]
    return most_important(facts, count)


def most_important(facts: Sequence[Memory], count: int) -> list[Scored]:
    """The ``count`` most important of these facts, newest first, as `stable_facts`."""
    best = sorted(facts, key=lambda fact: (-fact.importance, -fact.confidence))[:count]  # stable: the newest first
    return [Scored(memory=fact, score=0.0, signals={STABLE: 1.0}) for fact in best]


def holds(fact: Memory, limits: Limits, now: datetime) -> bool:
    """Whether it is worth saying unasked: it holds now, and is sure and trusted enough."""
    return (
        (fact.valid_to is None or fact.valid_to > now)
        and fact.superseded_by is None
        and fact.confidence >= limits.min_confidence
        and fact.trust.level >= limits.min_trust.level
    )


async def pages(store: MemoryStore, scope: Scope, where: MemoryFilter) -> AsyncIterator[list[Memory]]:
    """The newest memories that match, as many as are looked at."""
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await store.page(scope, where, limit=_PAGE, cursor=cursor)
        yield page.memories
        cursor = page.next_cursor
        if cursor is None:
            return
