"""When an event that a question goes by was ("two days before my birthday"): looked up among the user's memories, and
written into the question, which then names its time itself. When no memory tells it, the question stays as it is.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from memproxy.core import timerange
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.occasion import Days, Occasion, dated, days_of, occasion_of
from memproxy.core.scope import Scope
from memproxy.core.text import sentences, words
from memproxy.core.timerange import Span
from memproxy.ports import HybridQuery, LexicalEncoder, MemoryFilter, MemoryStore
from memproxy.recall.documents import dense_text

_FOUND = 30
"""Memories that are read to see when the event was."""

_ONE_DAY = timedelta(days=1)
_STEM = 4
_ALSO = {"moved": ("lives", "live", "living", "relocated"), "married": ("wedding",), "wedding": ("married",)}
"""Other words under which an event is remembered: "moved to Berlin" as "lives in Berlin"."""

_NOT_YET = frozenset(
    {"not", "never", "didn't", "don't", "won't", "want", "wants", "wanted", "will", "would", "if", "might", "may"}
    | {"plan", "plans", "planning", "going", "hope", "hoping"}
)
"""A sentence with one of these tells a plan or a wish: the day it was said is not that of the event."""


async def with_days(store: MemoryStore, lexical: LexicalEncoder, scope: Scope, query: str, now: datetime) -> str:
    """The question with the days of the event that it goes by; as it is when it goes by none, or nothing tells when
    that was.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    occasion = occasion_of(query)
    if occasion is None:
        return query
    where = MemoryFilter(active=True, quarantined=False, now=now)
    bm25 = lexical.encode_query(" ".join(_searched(occasion)))
    found = await store.search(scope, HybridQuery(bm25=bm25, limit=_FOUND, where=where))
    best = sorted(found, key=lambda one: (-(one.bm25 or 0.0), one.memory.id))
    event = days_told(occasion, [one.memory for one in best], now)
    days = None if event is None else days_of(occasion, event, now.astimezone(UTC).date())
    return query if days is None else dated(query, occasion, days, now.astimezone(UTC).date())


def _searched(occasion: Occasion) -> list[str]:
    return [word for term in occasion.terms for word in (term, *_ALSO.get(term, ()))]


def days_told(occasion: Occasion, memories: Sequence[Memory], now: datetime) -> Days | None:
    """When the event was, by these memories, the likeliest first: what names a day goes before what was merely said
    on one, the user's own words before others', facts before turns. None when none of them tells.
    """
    told = [(memory, days) for memory in memories if (days := _told(occasion, memory, now)) is not None]
    if not told:
        return None
    return min(told, key=lambda one: (not one[1][1], one[0].trust is not Trust.USER, one[0].kind is Kind.TURN))[1][0]


def _told(occasion: Occasion, memory: Memory, now: datetime) -> tuple[Days, bool] | None:
    """When the event was, and whether the memory names that day."""
    said = [sentence for sentence in sentences(dense_text(memory)) if _is_about(sentence, occasion)]
    if memory.superseded_by is not None or not said or said[0].endswith("?"):
        return None
    sentence = said[0]
    # what comes every year came last before the question, whenever it was told of
    named = timerange.spans(sentence, now) if occasion.recurs else timerange.told(sentence, memory.created_at)
    if named:
        return _days(named[0]), True
    if memory.kind is not Kind.TURN and memory.valid_from is not None:
        return _day(memory.valid_from), False
    if occasion.happened and memory.trust is Trust.USER and _NOT_YET.isdisjoint(words(sentence)):
        return _day(memory.created_at), False
    return None


def _is_about(sentence: str, occasion: Occasion) -> bool:
    """Whether a sentence has all words of the event, in any form."""
    found = {word[:_STEM] for word in words(sentence)}
    return all(any(form[:_STEM] in found for form in (term, *_ALSO.get(term, ()))) for term in occasion.terms)


def _days(span: Span) -> Days:
    return Days(span.start.date(), span.end.date())


def _day(when: datetime) -> Days:
    first = min(when.astimezone(UTC).date(), date.max - _ONE_DAY)
    return Days(first, first + _ONE_DAY)
