"""Questions that go by days ("What did I do last weekend?"): what was said on them has none of their words.

"We climbed Helvellyn today" is found by its date alone, and where nothing but the days is asked for, being said on one
of them is all that a memory needs.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from memproxy.core import timerange
from memproxy.core.text import GENERIC_WORDS, STOPWORDS, words
from memproxy.core.timerange import Span
from memproxy.ports import Beside, LexicalEncoder
from memproxy.recall.asking import has_one
from memproxy.recall.documents import date_in_words

if TYPE_CHECKING:
    from memproxy.recall.query import Query

MOST_FOUND = 20
"""So many are searched for beside the usual candidates."""

MOST_DAYS = 10
"""Of a longer time the days are not searched for one by one: nearly everything was said on one of them."""

_READ = 300
_SATURDAY = 5

_WEEKEND = re.compile(r"\bweekend\b|\bweek-end\b|\bwochenende\b|\bfin de semana\b")
_PAST = re.compile(
    r"\b(?:did|was|were|had|went|happened|spent|habe|haben|hatten?|war|waren|ist|hice|hicimos|fui|fuimos|estuv\w+|pas[óé]"
    r"|pasamos|ai|avons|a|suis|sommes|étai\w+)\b|'ai\b"
)
_IN_ENGLISH = tuple(
    (re.compile(rf"\b(?:{pattern})\b"), english)
    for pattern, english in (
        ("vorgestern|anteayer|antes de ayer|avant-hier", "the day before yesterday"),
        ("gestern|ayer|hier", "yesterday"),
        ("letzte woche|la semana pasada|la semaine dernière", "last week"),
        ("letzten monat|el mes pasado|le mois dernier", "last month"),
        ("letztes jahr|el año pasado|l'an dernier|l'année dernière", "last year"),
    )
)
"""Times in German, Spanish and French, and what they are in the language that `core.timerange` reads."""

_IN_EACH = (
    *("gestern", "ayer", "hier", "woche", "semana", "semaine", "monat", "pasado", "mois", "jahr", "derni"),
    *("weekend", "week-end"),
)
"""Parts one of which is in whatever `_WEEKEND` or `_IN_ENGLISH` find: to look for these takes a tenth of the time."""

_SAY_NO_MORE = frozenset(
    """
    do did doing done go going went gone be been being am is are was were have had get got happen happened happening
    spend spent like up out day days evening morning night weekend week yesterday today tonight ago last past previous
    before this monday tuesday wednesday thursday friday saturday sunday january february march april may june july
    august september october november december please tell again exactly
    was habe haben hatte hatten ich wir war waren bin sind am an letzten letztes letzte letzter wochenende woche gestern
    vorgestern heute gemacht getan unternommen passiert gewesen los mein meine unser wie wo das dem der die denn so
    qué que hice hicimos hacer hecho pasó pasado fui fuimos estuve estuvimos dónde cómo el la los las de fin semana
    ayer anteayer mi me nos nosotros yo
    qu est ce j ai avons on a fait suis sommes allé allés passé passée quoi où comment le les du hier soir week end
    dernier dernière semaine je nous mon notre c était
    """.split()  # noqa: SIM905
)
"""Words of a question that ask for nothing but what was on its days."""


def asked_days(text: str, now: datetime) -> list[Span]:
    """The times that a query names, as `timerange.spans`; also in German, Spanish and French, and a weekend that is
    past.
    """
    found = timerange.spans(text, now)
    if found:
        return found
    low = text[:_READ].lower().replace("’", "'")
    if not has_one(_IN_EACH, low):
        return []
    english = [name for pattern, name in _IN_ENGLISH if pattern.search(low)][:1]
    if not english and _WEEKEND.search(low) and _PAST.search(low):
        english = ["this weekend" if now.astimezone(UTC).weekday() >= _SATURDAY else "last weekend"]
    return timerange.spans(english[0], now) if english else []


def days_alone(text: str) -> bool:
    """Whether a query that names a time asks for nothing more than what was then."""
    said = words(text[:_READ].lower().replace("’", "'"))
    plain = {part for word in said for part in word.replace("'", "-").split("-")}
    return all(word in _SAY_NO_MORE or word in STOPWORDS or word in GENERIC_WORDS or word.isdigit() for word in plain)


def asks_for_days(text: str, now: datetime) -> bool:
    """Whether a query asks for all that was on some days."""
    return days_alone(text) and bool(asked_days(text, now))


def asks_for_past(text: str) -> bool:
    """Whether a query asks for what was."""
    return _PAST.search(text[:_READ].lower().replace("’", "'")) is not None


def beside(query: "Query", lexical: LexicalEncoder) -> tuple[Beside, ...]:
    """What to search for beside a query of the user's own that goes by some days: these in words, as they stand in what
    is searched of a memory.
    """
    if not query.asking.of_self and not days_alone(query.text):
        return ()
    texts = [text for span in query.spans if (text := _in_words(span))]
    return (Beside(bm25=lexical.encode_query(" ".join(texts)), limit=MOST_FOUND),) if texts else ()


def _in_words(span: Span) -> str:
    days = (span.end - span.start).days
    if days > MOST_DAYS:
        return ""
    return " ".join(date_in_words(span.start + timedelta(days=number)) for number in range(days))
