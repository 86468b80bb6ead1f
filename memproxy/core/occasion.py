"""Times that a question tells by an event of the asker's own life: "two days before my birthday", "the week after my
wedding", "since I moved to Berlin".

Only what the question says is read here; when the event was is looked up among the memories (`recall.occasions`), and
`dated` writes the question with the days in place of the phrase, as `core.timerange` and the search by words know them.
English only; everything is pure, and linear in the text's length, of which only the beginning is read.
"""

import calendar
import re
from datetime import date, timedelta

import msgspec

from memproxy.core.text import GENERIC_WORDS, key_terms
from memproxy.core.timerange import COUNT, READ_CHARACTERS, count_of

NEAR_DAYS = 30
""" "After my wedding" without a number: so many days."""

_SLACK = {"day": 0, "week": 3, "month": 15, "year": 180}
_LENGTHS = {"day": 1, "week": 7, "month": 30, "year": 365}
"""Days, as `timerange` counts them: "two weeks before" is as exact as "two weeks ago"."""

_MOST_WORDS = 8
_ENDS = frozenset(
    {"what", "who", "whom", "where", "when", "which", "how", "why", "did", "do", "does", "and", "but", "or"}
)
"""Words that begin something else than the event."""

_EVENT = (
    r"(?P<event>(?:(?:my|our|the|his|her|their|i|we|he|she|they)|[a-z][\w-]{1,30}['’]s)"
    rf"(?: [\w'’-]{{1,30}}){{1,{_MOST_WORDS}}})"
)
_PATTERNS = (
    re.compile(rf"\b{COUNT} (?P<unit>day|week|month|year)s? (?P<way>before|after|prior to) {_EVENT}", re.IGNORECASE),
    re.compile(
        rf"\b(?:in |on |during )?the (?P<unit>day|night|evening|morning|weekend|week|month|year)(?P<count>)"
        rf" (?P<way>before|after) {_EVENT}",
        re.IGNORECASE,
    ),
    re.compile(rf"\b(?P<way>since|before|after|during) (?P<unit>)(?P<count>){_EVENT}", re.IGNORECASE),
    re.compile(
        r"\b(?P<way>on|at) (?P<unit>)(?P<count>)"
        r"(?P<event>(?:my|our|[a-z][\w-]{1,30}['’]s)(?: [\w-]{1,30})? (?:birthday|anniversary|wedding|graduation))\b",
        re.IGNORECASE,
    ),
)
_SUBJECTS = frozenset({"i", "we", "he", "she", "they"})
_RECURRING = frozenset({"birthday", "anniversary"})


class Days(msgspec.Struct, frozen=True):
    """From ``first`` up to, not including, ``end``."""

    first: date
    end: date


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """A time told by an event: the question's words for it (``text``), the event's own, and how they lie to each other.

    ``count`` is 0 where none is told ("the week after my wedding"), ``unit`` empty ("after my wedding").
    """

    text: str
    event: str
    way: str
    count: int
    unit: str

    @property
    def terms(self) -> list[str]:
        """The words that a memory of the event must have."""
        return [term for term in key_terms(self.event) if term not in GENERIC_WORDS]

    @property
    def happened(self) -> bool:
        """Whether the event is told as a sentence ("I moved to Berlin"): who said so said it about when it was."""
        return self.event.split(" ", 1)[0].lower() in _SUBJECTS

    @property
    def recurs(self) -> bool:
        """Whether it comes every year: the last one is meant."""
        return not _RECURRING.isdisjoint(self.terms)


def occasion_of(text: str) -> Occasion | None:
    """The first time of a question that goes by an event; None when there is none."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text[:READ_CHARACTERS]):
            occasion = _read(match)
            if occasion is not None and occasion.terms:
                return occasion
    return None


def _read(match: re.Match[str]) -> Occasion | None:
    event: list[str] = []
    for word in match["event"].split(" "):
        if word.lower() in _ENDS:
            break
        event.append(word)
    if len(event) < 2:
        return None
    event_text = " ".join(event)
    start = match.group()[: match.start("event") - match.start()]
    unit, way = match["unit"].lower(), match["way"].lower().split(" ")[0].replace("prior", "before")
    count = count_of(match["count"].lower()) if match["count"] else 0
    return Occasion(text=start + event_text, event=event_text, way=way, count=count, unit=unit)


def days_of(occasion: Occasion, event: Days, today: date) -> Days | None:
    """The days that the question means, given those of the event; None when they lie outside of the calendar."""
    try:
        return _days(occasion, event, today)
    except OverflowError:
        return None


def _days(occasion: Occasion, event: Days, today: date) -> Days:
    match occasion.way, occasion.unit:
        case "since", _:
            return Days(event.first, max(event.end, today + timedelta(days=1)))
        case (("during" | "on" | "at"), _):
            return event
        case way, "":
            return _beside(way, event, NEAR_DAYS)
        case way, "weekend":
            return _weekend(way, event)
        case way, ("week" | "month" | "year") as unit if not occasion.count:
            return _beside(way, event, _LENGTHS[unit])
        case way, unit:
            known = unit if unit in _LENGTHS else "day"  # "the night before"
            return _apart(way, event, max(1, occasion.count) * _LENGTHS[known], _SLACK[known])


def _beside(way: str, event: Days, length: int) -> Days:
    if way == "after":
        return Days(event.end, event.end + timedelta(days=length))
    return Days(event.first - timedelta(days=length), event.first)


def _apart(way: str, event: Days, distance: int, slack: int) -> Days:
    last = event.end - timedelta(days=1)
    day = last + timedelta(days=distance) if way == "after" else event.first - timedelta(days=distance)
    return Days(day - timedelta(days=slack), day + timedelta(days=slack + 1))


def _weekend(way: str, event: Days) -> Days:
    if way == "after":
        saturday = event.end + timedelta(days=(5 - event.end.weekday()) % 7)
    else:
        before = event.first - timedelta(days=2)
        saturday = before - timedelta(days=(before.weekday() - 5) % 7)
    return Days(saturday, saturday + timedelta(days=2))


def dated(text: str, occasion: Occasion, days: Days, today: date) -> str:
    """The question with these days: in place of a phrase that says how far from the event they lie, or that everything
    since is meant, because the event is not what is asked for; else behind the event, which what is asked about may
    have to do with ("after my surgery").
    """
    # in figures, which no memory is searched by: everything since is meant, and nothing more what was said on that day
    said = f"since {days.first.isoformat()}" if days.end > today else _range(days)
    if occasion.unit or occasion.way == "since":
        return text.replace(occasion.text, said, 1)
    return text.replace(occasion.text, f"{occasion.text} ({said})", 1)


def _range(days: Days) -> str:
    last = days.end - timedelta(days=1)
    return f"on {_day(days.first)}" if last <= days.first else f"from {_day(days.first)} to {_day(last)}"


def _day(day: date) -> str:
    return f"{day.day} {calendar.month_name[day.month]} {day.year}"
