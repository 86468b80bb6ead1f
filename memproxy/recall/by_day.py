"""The answer to "What did I do last weekend?": what was said then, or is true of then, whatever its words.

Only where the question names a time and nothing else: then no word and no vector of it tells one memory from another.
"""

from collections.abc import Sequence
from datetime import datetime

from memproxy.core import timerange
from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.core.text import GENERIC_WORDS, key_terms
from memproxy.core.timerange import Span
from memproxy.ports import MemoryFilter, MemoryStore
from memproxy.recall.search import Scored

BY_DAY = "by_day"
"""The signal of a memory that is there for its day."""

_TERMS = 8
_PAGE = 200
_MOST_PAGES = 5
"""Of a longer past the newest thousand memories are looked at."""

_SCORE, _STEP = 0.9, 1e-3


def asks_by_day(query: str, spans: Sequence[Span], now: datetime) -> bool:
    """Whether a query that names some times asks for nothing more than what was then."""
    terms = key_terms(query, _TERMS)
    return bool(spans) and all(term in GENERIC_WORDS or _is_time(term, now) for term in terms)


def _is_time(term: str, now: datetime) -> bool:
    return term.isdigit() or any(timerange.spans(f"{before} {term}", now) for before in ("last", "in", "on"))


async def of_days(store: MemoryStore, scope: Scope, where: MemoryFilter, spans: Sequence[Span]) -> list[Scored]:
    """What is of these times, the newest first.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    found: list[Memory] = []
    cursor: str | None = None
    earliest = min(span.start for span in spans)
    for _ in range(_MOST_PAGES):
        page = await store.page(scope, where, limit=_PAGE, cursor=cursor)
        found += [one for one in page.memories if any(span.days_away(_when(one)) == 0 for span in spans)]
        cursor = page.next_cursor
        if cursor is None or page.memories[-1].created_at < earliest:
            break
    return [
        Scored(memory=memory, score=_SCORE - _STEP * number, signals={BY_DAY: 1.0})
        for number, memory in enumerate(found)
    ]


def _when(memory: Memory) -> datetime:
    return memory.valid_from or memory.created_at
