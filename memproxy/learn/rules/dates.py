"""Days that a statement names ("next Friday", "on 13 October", "until the 20th"), against the day it was said.

Without a year the coming such day is meant, after a verb of the past the last one. What names no day in the calendar
names nothing. English.
"""

import calendar
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import msgspec

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name} | {"sept": 9}
_DAYS = {name.lower(): number for number, name in enumerate(calendar.day_name)}
_NUMBERS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
}
_NUMBERS |= {"nine": 9, "ten": 10, "twelve": 12, "couple of": 2, "a couple of": 2}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_WEEKDAY = rf"(?:{'|'.join(_DAYS)})"


class Day(msgspec.Struct, frozen=True):
    """A time that was named: from ``start`` up to, not including, ``end``; ``text`` as said, where it stands, and
    whether it only has a meaning on the day it was said.
    """

    start: date
    end: date
    text: str
    place: int
    is_relative: bool

    @property
    def noted(self) -> str:
        """As it reads in a statement: relative ones with the date they mean ("next Friday (2025-05-16)")."""
        if not self.is_relative:
            return self.text
        days = (self.end - self.start).days
        return f"{self.text} ({_iso(self.start, days)})"

    @property
    def value(self) -> str:
        """As an object: as said, or the date that is meant."""
        return _iso(self.start, (self.end - self.start).days) if self.is_relative else _PREPOSITION.sub("", self.text)


_PREPOSITION = re.compile(r"^(?:on|in|by|at)\s+(?:the\s+(?=\d))?", re.IGNORECASE)


def _iso(start: date, days: int) -> str:
    if days == 1:
        return start.isoformat()
    if start.day == 1 and days >= 365 and start.month == 1:
        return str(start.year)
    if start.day == 1 and 28 <= days <= 31:
        return f"{start:%Y-%m}"
    return f"{start.isoformat()} to {(start + timedelta(days=days - 1)).isoformat()}"


def midnight(day: date) -> datetime:
    """The beginning of a day, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


_NAMES_A_TIME = re.compile(
    r"\d|day|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|tomorrow|night|morning|evening|afternoon|week|month|year|"
    r"spring|summer|autumn|fall|winter|christmas|easter|end of|ago\b",
    re.IGNORECASE,
)
"""Without one of these no pattern below can match, which saves asking them all."""


def find(text: str, said_at: datetime, *, past: bool = False) -> Day | None:
    """The first time that the text names, None if it names none; ``past``: the last such day is meant."""
    if _NAMES_A_TIME.search(text) is None:
        return None
    today = said_at.astimezone(UTC).date()
    best: Day | None = None
    for pattern, read, is_relative in _PATTERNS:
        match = pattern.search(text)
        if match is None or (best is not None and match.start() >= best.place):
            continue
        try:
            start, end = read(match, today, past)
        except (ValueError, OverflowError):  # no such day in the calendar
            continue
        best = Day(start, end, match.group().strip(" ,."), match.start(), is_relative)
    return best


def until(text: str, said_at: datetime) -> datetime | None:
    """When what is said ends ("until Friday"): the end of that day."""
    found = re.search(r"\b(?:until|till|through|'til)\s+", text, re.IGNORECASE)
    day = find(text[found.end() :], said_at) if found else None
    return midnight(day.end) if day is not None and day.place <= 12 else None


def since(text: str, said_at: datetime) -> datetime | None:
    """Since when it holds ("since 2020", "in March 2021", "last year", "two years ago")."""
    day = find(text, said_at, past=True)
    return midnight(day.start) if day is not None and midnight(day.start) <= said_at else None


def _one_day(day: date) -> tuple[date, date]:
    return day, day + timedelta(days=1)


def _with_year(month: int, day: int, today: date, past: bool) -> date:
    found = date(today.year, month, day)
    if past:
        return found if found <= today else date(today.year - 1, month, day)
    return found if found >= today else date(today.year + 1, month, day)


def _iso_day(match: re.Match[str], _today: date, _past: bool) -> tuple[date, date]:
    return _one_day(date(int(match["year"]), int(match["number"]), int(match["day"])))


def _calendar_day(match: re.Match[str], today: date, past: bool) -> tuple[date, date]:
    month, day = _MONTHS[match["month"].lower()], int(match["day"])
    if match["year"]:
        return _one_day(date(int(match["year"]), month, day))
    return _one_day(_with_year(month, day, today, past))


def _dotted(match: re.Match[str], today: date, past: bool) -> tuple[date, date]:
    month, day = int(match["number"]), int(match["day"])
    return _one_day(date(int(match["year"]), month, day) if match["year"] else _with_year(month, day, today, past))


def _month(match: re.Match[str], today: date, past: bool) -> tuple[date, date]:
    month = _MONTHS[match["month"].lower()]
    away = 0
    if not match["year"]:
        away = -1 if past and month > today.month else 1 if not past and month < today.month else 0
    year = int(match["year"]) if match["year"] else today.year + away
    first = date(year, month, 1)
    return first, _later(first, 1)


def _later(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _weekday(match: re.Match[str], today: date, past: bool) -> tuple[date, date]:
    """“Friday” is the coming one, “next Friday” the one of next week, “last Friday” the one before."""
    wanted, which = _DAYS[match["weekday"].lower()], (match["which"] or "").lower()
    if which == "last" or (past and which != "next"):
        return _one_day(today - timedelta(days=(today.weekday() - wanted - 1) % 7 + 1))
    if which == "next":
        return _one_day(today + timedelta(days=7 - today.weekday() + wanted))
    return _one_day(today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1))


def _named(match: re.Match[str], today: date, _past: bool) -> tuple[date, date]:
    word = match["word"].lower()
    away = {
        "today": 0,
        "tonight": 0,
        "this morning": 0,
        "this evening": 0,
        "this afternoon": 0,
        "tomorrow": 1,
    }
    away |= {
        "the day after tomorrow": 2,
        "yesterday": -1,
        "last night": -1,
        "the day before yesterday": -2,
    }
    return _one_day(today + timedelta(days=away[word]))


def _ahead(match: re.Match[str], today: date, _past: bool) -> tuple[date, date]:
    count = int(match["count"]) if match["count"].isdigit() else _NUMBERS[match["count"].lower()]
    sign = -1 if match["ago"] else 1
    match match["unit"].lower():
        case "day":
            return _one_day(today + timedelta(days=sign * count))
        case "week":
            return _one_day(today + timedelta(days=sign * 7 * count))
        case "month":
            return _one_day(_later(today, sign * count))
        case _:
            first = date(today.year + sign * count, 1, 1)
            return first, date(first.year + 1, 1, 1)


def _unit(match: re.Match[str], today: date, _past: bool) -> tuple[date, date]:
    step = {"this": 0, "next": 1, "last": -1}[match["which"].lower()]
    match match["unit"].lower():
        case "weekend":
            saturday = today - timedelta(days=today.weekday() - 5) + timedelta(days=7 * step)
            return saturday, saturday + timedelta(days=2)
        case "week":
            monday = today - timedelta(days=today.weekday()) + timedelta(days=7 * step)
            return monday, monday + timedelta(days=7)
        case "month":
            first = _later(today.replace(day=1), step)
            return first, _later(first, 1)
        case _:
            return date(today.year + step, 1, 1), date(today.year + step + 1, 1, 1)


def _day_of_this_month(match: re.Match[str], today: date, past: bool) -> tuple[date, date]:
    day = today.replace(day=int(match["day"]))
    if day < today and not past:
        day = _later(day, 1)
    return _one_day(day if not (past and day > today) else _later(day, -1))


def _year(match: re.Match[str], _today: date, _past: bool) -> tuple[date, date]:
    year = int(match["year"])
    return date(year, 1, 1), date(year + 1, 1, 1)


Reader = Callable[[re.Match[str], date, bool], tuple[date, date]]


def _pattern(pattern: str, read: Reader, *, relative: bool = False) -> tuple[re.Pattern[str], Reader, bool]:
    return re.compile(pattern, re.IGNORECASE), read, relative


_AFTER_DAY = (
    rf"(?=\W*$|[.,;:!?)]| \(|(?: (?:the )?{_DAY})? (?:at|and|or|until|to|from|in|for|with|because|so|but|after|before|"
    r"morning|afternoon|evening|night|noon|I|we|if|as|then|\d)\b)"
)
"""A day of the week that is part of a name ("Sunday mass") names none."""

_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_PATTERNS = (
    _pattern(rf"\b{_YEAR}-(?P<number>\d{{1,2}})-(?P<day>\d{{1,2}})\b", _iso_day),
    _pattern(
        rf"\b(?:on |by )?(?:{_WEEKDAY},? )?(?:the )?{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?",
        _calendar_day,
    ),
    _pattern(
        rf"\b(?:on |by )?(?:{_WEEKDAY},? )?{_MONTH} {_DAY}\b(?:,? {_YEAR})?",
        _calendar_day,
    ),
    _pattern(rf"\b(?:on )?(?P<day>\d{{1,2}})\.(?P<number>\d{{1,2}})\.(?:{_YEAR})?", _dotted),
    _pattern(rf"\b(?:in |since |from |by )?{_MONTH},?(?: of)? {_YEAR}\b", _month),
    _pattern(
        rf"\b(?:in|since|by|from|for|this|next|around|until|of|to) (?:early |mid |late |mid-)?{_MONTH}(?P<year>)"
        r"(?! \d{1,2}(?:st|nd|rd|th)?\b)",
        _month,
    ),
    _pattern(
        rf"\b(?<!\ba )(?<!every )(?<!each )(?:on (?!a ))?(?:(?P<which>next|this|last|this coming|coming) )?"
        rf"(?P<weekday>{'|'.join(_DAYS)})\b{_AFTER_DAY}",
        _weekday,
        relative=True,
    ),
    _pattern(
        r"\b(?P<word>the day after tomorrow|tomorrow|the day before yesterday|yesterday|today|tonight|last night|"
        r"this (?:morning|evening|afternoon))\b",
        _named,
        relative=True,
    ),
    _pattern(
        rf"\bin {_COUNT} (?P<unit>day|week|month|year)s?(?:' time)?\b(?P<ago>)",
        _ahead,
        relative=True,
    ),
    _pattern(
        rf"\b{_COUNT} (?P<unit>day|week|month|year)s? (?P<ago>ago)\b",
        _ahead,
        relative=True,
    ),
    _pattern(
        r"\b(?P<which>this|next|last) (?P<unit>weekend|week|month|year)\b",
        _unit,
        relative=True,
    ),
    _pattern(
        r"\b(?:on |by )?the (?P<day>\d{1,2})(?:st|nd|rd|th)\b(?! (?:floor|grade|century|time|place|birthday|"
        r"anniversary|"
        r"edition|street|avenue|generation|version|attempt|year|grader|gen|ave|st)\b)",
        _day_of_this_month,
        relative=True,
    ),
    _pattern(rf"\b(?:in|since|by|from|of|for) (?:early |late |mid-)?{_YEAR}\b", _year),
)
