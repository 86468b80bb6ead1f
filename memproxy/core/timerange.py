"""Times named in a question ("in May 2023", "two weeks ago", "last Monday"), as intervals of days. English only: a
question in another language is ranked without. Dates that do not exist (30 February) name nothing. Everything is pure
and linear in the text's length, of which only the beginning is read.
"""

import calendar
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

import msgspec

_MOST_READ = 2000

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name} | {"sept": 9}
_DAYS = {name.lower(): number for number, name in enumerate(calendar.day_name)}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "couple": 2, "two": 2, "few": 3, "three": 3, "four": 4, "five": 5, "six": 6}
_NUMBERS |= {"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12}

_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_COUNT = rf"(?P<count>\d{{1,3}}|(?:a )?(?:couple|few)(?: of)?|{'|'.join(_NUMBERS)})"
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
_UNIT = r"(?P<unit>day|week|month|year)s?"
_DAY_NUMBER = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"


class Span(msgspec.Struct, frozen=True):
    """From ``start`` up to, not including, ``end``; aware, in UTC."""

    start: datetime
    end: datetime

    def days_away(self, when: datetime) -> float:
        """Days between ``when`` and the interval; 0 inside of it."""
        outside = max(self.start - when, when - self.end, timedelta())
        return outside.total_seconds() / 86_400


def spans(text: str, now: datetime) -> list[Span]:
    """The times that a question names, each once, relative ones against ``now`` (aware); at most one per mention."""
    if _MAY_NAME.search(text[:_MOST_READ].lower()) is None:
        return []
    return _named(text, now, _PATTERNS)


def spans_in_statement(text: str, said_at: datetime) -> list[Span]:
    """The times that a statement names, against the time it was made at: what is to come may be meant as well, so a day
    without a year is the nearest such day ("My wedding is on 20 June").
    """
    return _named(text, said_at, _STATEMENT_PATTERNS)


def _named(text: str, now: datetime, patterns: "Sequence[tuple[re.Pattern[str], Reader]]") -> list[Span]:
    rest, today = text[:_MOST_READ].lower(), now.astimezone(UTC).date()
    named_spans: list[Span] = []
    for pattern, read in patterns:
        matches = list(pattern.finditer(rest))
        if not matches:  # as of nearly all patterns in nearly all questions
            continue
        named_spans.extend(span for match in matches if (span := _read(read, match, today)) is not None)
        rest = pattern.sub(" ", rest)
    return list(dict.fromkeys(named_spans))


def asks_for_latest(text: str) -> bool:
    """Whether the question is for what is newest ("my latest", "currently", "most recently")."""
    return _LATEST.search(text[:_MOST_READ]) is not None


_LATEST = re.compile(
    r"\b(latest|newest|(most )?recent(ly)?|current(ly)?|these days|nowadays|right now)\b", re.IGNORECASE
)

Days = tuple[date, date]
Reader = Callable[[re.Match[str], date], Days | None]


def _read(read: Reader, match: re.Match[str], today: date) -> Span | None:
    try:
        days = read(match, today)
        return None if days is None else Span(*(datetime(day.year, day.month, day.day, tzinfo=UTC) for day in days))
    except (ValueError, OverflowError):  # a day that is not in the calendar, or before or beyond all of it
        return None


def _from(day: date, count: int = 1) -> Days:
    return day, day + timedelta(days=count)


def _iso(match: re.Match[str], _today: date) -> Days:
    return _from(date(int(match["year"]), int(match["number"]), int(match["day"])))


def _day_of_month(match: re.Match[str], today: date) -> Days:
    month, number = _MONTHS[match["month"]], int(match["day"])
    return _from(date(int(match["year"] or _latest_year(month, number, today)), month, number))


def _since(read: Reader) -> Reader:
    """From the day that is read until today."""

    def since(match: re.Match[str], today: date) -> Days | None:
        days = read(match, today)
        return days and (days[0], max(days[1], today + timedelta(days=1)))

    return since


def _from_to(match: re.Match[str], _today: date) -> Days | None:
    first = date(int(match["year"]), _MONTHS[match["month"]], int(match["day"]))
    last = date(int(match["to_year"]), _MONTHS[match["to_month"]], int(match["to_day"]))
    return (first, last + timedelta(days=1)) if first <= last else None


def _latest_year(month: int, number: int, today: date) -> int:
    """Without a year the last such day is meant: people ask about what was."""
    return today.year if (month, number) <= (today.month, today.day) else today.year - 1


def _nearest_day(match: re.Match[str], today: date) -> Days | None:
    month, number = _MONTHS[match["month"]], int(match["day"])
    years = [int(match["year"])] if match["year"] else range(today.year - 1, today.year + 2)
    days = [date(year, month, number) for year in years if number <= calendar.monthrange(year, month)[1]]
    return _from(min(days, key=lambda day: abs(day - today))) if days else None


def _month(match: re.Match[str], today: date) -> Days:
    month = _MONTHS[match["month"]]
    return _month_of(int(match["year"] or _latest_year(month, 1, today)), month)


def _month_of(year: int, month: int) -> Days:
    """A month of a year, as the calendar counts on: month 0 is December of the year before."""
    years, index = divmod(month - 1, 12)
    first = date(year + years, index + 1, 1)
    return _from(first, calendar.monthrange(first.year, first.month)[1])


def _year(match: re.Match[str], _today: date) -> Days:
    return _year_of(int(match["year"]))


def _year_of(year: int) -> Days:
    return date(year, 1, 1), date(year + 1, 1, 1)


def _named_day(match: re.Match[str], today: date) -> Days:
    word = match["word"]
    return _from(today - timedelta(days=0 if word in ("today", "tonight") else 2 if "day before" in word else 1))


def _weekday(match: re.Match[str], today: date) -> Days:
    return _from(today - timedelta(days=(today.weekday() - _DAYS[match["weekday"]] - 1) % 7 + 1))


def _ago(match: re.Match[str], today: date) -> Days:
    """A range as exact as the words: "two weeks ago" is a week, "3 months ago" a month."""
    slack = {"day": 0, "week": 3, "month": 15, "year": 180}[match["unit"]]
    day = today - timedelta(days=_UNITS[match["unit"]] * _count(match))
    return day - timedelta(days=slack), day + timedelta(days=slack + 1)


def _past(match: re.Match[str], today: date) -> Days:
    return today - timedelta(days=_UNITS[match["unit"]] * _count(match)), today + timedelta(days=1)


def _count(match: re.Match[str]) -> int:
    word = re.sub(r"^a (?=couple|few)| of$", "", match["count"])
    return int(word) if word.isdigit() else _NUMBERS[word]


def _calendar_unit(match: re.Match[str], today: date) -> Days:
    back = 0 if match["which"] == "this" else 1
    if match["unit"] == "weekend":
        return _from(today - timedelta(days=(today.weekday() - 5) % 7 + (7 if back and today.weekday() >= 5 else 0)), 2)
    return _unit_of(match["unit"], today, -back)


def _unit_of(unit: str, today: date, ahead: int) -> Days:
    """The calendar's week, month or year that is so many of them ahead of today's."""
    if unit == "week":
        return _from(today + timedelta(days=7 * ahead - today.weekday()), 7)
    return _month_of(today.year, today.month + ahead) if unit == "month" else _year_of(today.year + ahead)


_ISO = rf"{_YEAR}[-/](?P<number>\d{{1,2}})[-/](?P<day>\d{{1,2}})"
_DAY_AND_YEAR = rf"{_DAY_NUMBER}(?: of)? (?P<month>{_MONTH})\b\.?,? {_YEAR}"
_FROM_TO = re.compile(rf"\bfrom {_DAY_AND_YEAR} (?:to|until) {_DAY_AND_YEAR.replace('P<', 'P<to_')}\b")


def _in_future(match: re.Match[str], today: date) -> Days:
    ahead = _ago(match, today)
    shift = 2 * _UNITS[match["unit"]] * _count(match)
    return ahead[0] + timedelta(days=shift), ahead[1] + timedelta(days=shift)


def _next_unit(match: re.Match[str], today: date) -> Days:
    unit = match["unit"]
    if unit == "weekend":
        return _from(today + timedelta(days=(5 - today.weekday()) % 7), 2)
    if unit in _DAYS:
        return _from(today + timedelta(days=(_DAYS[unit] - today.weekday() - 1) % 7 + 1))
    return _unit_of(unit, today, 1)


def _tomorrow(_match: re.Match[str], today: date) -> Days:
    return _from(today + timedelta(days=1))


def _patterns() -> Iterator[tuple[re.Pattern[str], Reader]]:
    yield re.compile(rf"\bsince {_ISO}\b"), _since(_iso)
    yield re.compile(rf"\b{_ISO}\b"), _iso
    yield _FROM_TO, _from_to
    yield re.compile(rf"\bsince {_DAY_NUMBER}(?: of)? (?P<month>{_MONTH})\b\.?(?:,? {_YEAR})?"), _since(_day_of_month)
    yield re.compile(rf"\b{_DAY_NUMBER}(?: of)? (?P<month>{_MONTH})\b\.?(?:,? {_YEAR})?"), _day_of_month
    yield re.compile(rf"\b(?P<month>{_MONTH})\.? {_DAY_NUMBER}\b(?:,? {_YEAR})?"), _day_of_month
    yield re.compile(rf"\b(?P<month>{_MONTH})\.?,?(?: of)? {_YEAR}\b"), _month
    # "may" and "march" are months only where the sentence says so
    yield (
        re.compile(rf"\b(?:in|during|since|last|this|of) (?:early |mid |late )?(?P<month>{_MONTH})\b(?P<year>)"),
        _month,
    )
    yield re.compile(rf"\b{_COUNT} {_UNIT} (?:ago|back|earlier)\b"), _ago
    yield re.compile(rf"\b(?:past|last|previous) {_COUNT} {_UNIT}\b"), _past
    yield re.compile(r"\b(?P<which>last|this|previous|past) (?P<unit>weekend|week|month|year)\b"), _calendar_unit
    yield re.compile(rf"\b(?:last|on|this past) (?P<weekday>{'|'.join(_DAYS)})\b"), _weekday
    yield re.compile(r"\b(?P<word>(?:the )?day before yesterday|yesterday|last night|today|tonight)\b"), _named_day
    yield re.compile(rf"\b(?:in|during|since|of) {_YEAR}\b"), _year


def _statement_patterns() -> Iterator[tuple[re.Pattern[str], Reader]]:
    yield re.compile(rf"\bin {_COUNT} {_UNIT}\b"), _in_future
    yield re.compile(rf"\b(?:next|this coming) (?P<unit>weekend|week|month|year|{'|'.join(_DAYS)})\b"), _next_unit
    yield re.compile(r"\btomorrow\b"), _tomorrow
    for pattern, read in _PATTERNS:
        yield pattern, _nearest_day if read is _day_of_month else read


_PATTERNS = tuple(_patterns())
_MAY_NAME = re.compile(
    rf"\d|\b(?:{_MONTH}|ago|back|earlier|past|last|previous|this|on (?:{'|'.join(_DAYS)})|yesterday|today|tonight)\b"
)
"""Whatever a pattern finds also matches this; most questions do not, and are done with it."""
_STATEMENT_PATTERNS = tuple(_statement_patterns())
