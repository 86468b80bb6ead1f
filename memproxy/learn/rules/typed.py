"""A new value in the place of the old one of its sort: times, days, amounts, colours, addresses, names.

Which value of a known statement is meant by "it's at 11 now" or "make that 25" is told by its sort alone: a time of the
day replaces a time of the day, an amount an amount, a name a name.
"""

import re
from collections.abc import Callable

import msgspec

from memproxy.core.slots import numbers, value_name
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.exchange import exchange
from memproxy.learn.rules.model import LESS_SURE, Clause
from memproxy.learn.rules.money import AMOUNT
from memproxy.learn.rules.values import bare, is_name, names_in, trimmed

_AMOUNT = re.compile(AMOUNT, re.IGNORECASE)
_NUMBER = re.compile(r"[$€£¥]?\s?\d[\d,.]*\d|[$€£¥]?\s?\d")
_COUNTS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_WORD_NUMBERS = {word: str(number) for number, word in enumerate(_COUNTS, 1)}
_COUNT_WORD = re.compile(rf"(?:{'|'.join(_WORD_NUMBERS)})\b", re.IGNORECASE)
COLOURS = (
    "red|orange|yellow|green|blue|purple|violet|pink|brown|black|white|gr[ae]y|beige|teal|turquoise|navy|maroon|"
    "burgundy|gold|silver|cream|mint|sage|lavender|lilac|indigo|magenta|cyan|crimson|olive|charcoal|coral|mustard|ivory|terracotta|peach|apricot|anthracite|plum"
)
_COLOUR = re.compile(rf"\b(?:(?:light|dark|bright|pale|deep|navy|forest|sky|royal) )?(?:{COLOURS})\b", re.IGNORECASE)
_ADDRESS = re.compile(r"[\w.+-]{1,60}@[\w-]{1,60}(?:\.[\w-]{1,60})+")
_WEEKDAYS = re.compile(
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?(?:, | and | or |, and )?){1,7}(?<![ ,])\b", re.IGNORECASE
)
_EVERY = re.compile(
    r"\b(?:on )?(?:every|each) (?:(?:other|second|third|fourth|first|last|two|three|four|six|\d+) )?"
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|days?|weeks?|months?|years?|mornings?|evenings?|weekends?)\b",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"\b\d{1,3}(?:st|nd|rd|th)\b", re.IGNORECASE)
_OF_MONTH = re.compile(
    r"\d(?:st|nd|rd|th)(?: of)? (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* (?:the )?\d{1,2}(?:st|nd|rd|th)",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?<![\d$€£.])\d{1,2}[:.h]\d\d(?!\d)(?: ?[ap]\.?m\b\.?)?|\b\d{1,2} ?[ap]\.?m\b\.?|\bnoon\b|\bmidnight\b|"
    r"(?<=\bat )\d{1,2}\b(?! ?(?:%|(?!(?:on|in|every|each|and|to|sharp|for|from|with|the)\b)\w*[a-z]))|\bhalf past "
    r"\w+\b|\bquarter (?:past|to) \w+\b",
    re.IGNORECASE,
)
_WORD_CLOCK = re.compile(
    rf"(?:at )?(?P<x>(?:half past |quarter (?:past|to) )?(?:{'|'.join(_COUNTS)})(?: o'?clock)?)(?=$|[,.;]| (?:in|on|"
    rf"sharp|now)\b)",
    re.IGNORECASE,
)
_HELD_WORD_CLOCK = re.compile(
    rf"(?<=\bat )(?:half past |quarter (?:past|to) )?(?:{'|'.join(_COUNTS)})(?: o'?clock)?(?=$|[,.;]| (?:in|on|"
    rf"sharp|every)\b)",
    re.IGNORECASE,
)
_SAID_CLOCK = re.compile(rf"(?:at |from |by )?(?P<clock>{_CLOCK.pattern}|\d{{1,2}}\b(?!\w))", re.IGNORECASE)
_NOTED = re.compile(r" \(\d{4}(?:-\d\d)?(?:-\d\d)?(?: to \d{4}-\d\d-\d\d)?\)")
_UNIT = re.compile(
    r"\d\s?(kg|cm|km|miles|lbs?|pounds|years?|hours?|minutes?|am|pm|%|people|guests|mg|weeks?|days?|months?)\b",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"(?:[\s,]+(?:now|instead|please|sorry|lol|haha|typo|oops|whoops|actually|my (?:bad|mistake)|i (?:just "
    r")?(?:checked|"
    r"misread|mistyped)|not sure why))+$",
    re.IGNORECASE,
)
_THEN_CLOCK = re.compile(r"[ ,]+(?:at )?(?P<clock>\d\S*(?: ?[ap]\.?m)?|noon|midnight)", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b(?!-)")
_PREPOSITION = re.compile(r"^(?:on|in|by|at) (?:the (?=\d))?")


def replaced(known: Extracted, said: str, clause: Clause, wrong: str | None = None) -> Extracted | None:
    """The known statement with the new value in the place of the one of its sort; None when it has none such."""
    new = trimmed(said, "long")
    if new is None:
        return None
    new = _NOISE.sub("", new)
    for replace in _REPLACE:
        found = replace(known, new, clause)
        if found is not None:
            if wrong and value_name(wrong) not in value_name(known.content):
                return msgspec.structs.replace(found, confidence=LESS_SURE)
            return found
    return None


_PHONE = re.compile(r"\+?\(?\d{2,5}\)?(?:[ /.-]?\d{2,5}){2,4}(?!\d)")
_FREQUENCY = re.compile(rf"\b(?:once|twice|thrice|(?:{'|'.join(_COUNTS)}|\d{{1,2}}) times)\b", re.IGNORECASE)
_PERIOD = re.compile(rf"{_FREQUENCY.pattern}(?= (?:a|an|per|every|each) )", re.IGNORECASE)
_SORTS = (_ADDRESS, _PHONE, _FREQUENCY, _CLOCK, _WEEKDAYS, _ORDINAL, _COLOUR, _NUMBER)


def is_ambiguous(new: str, told: str, clause: Clause) -> bool:
    """Whether a text holds several values of the sort of a new one, so that either could be meant by it."""
    for sort in _SORTS:
        if sort.match(re.sub(r"^(?:the|on|at|in|to) ", "", new)) is not None:
            held = {value_name(found.group()) for found in sort.finditer(told)}
            return len(held - {value_name(new)}) > 1
    if is_name(new) and day_in(new, clause) is None:
        names = set(names_in(f"{told[:1].lower()}{told[1:]}")) - {"I", new}
        return len([name for name in names if dates.find(f"in {name}", clause.said_at) is None]) > 1
    return day_in(new, clause) is not None and len(_NAMED_DAY.findall(told)) > 1


_NAMED_DAY = re.compile(
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b", re.IGNORECASE
)


_ROAD = re.compile(
    r"\s+(?!(?:january|february|march|april|may|june|july|august|september|october|november|december|mon|tues|wednes|"
    r"thurs|fri|satur|sun))(?P<name>(?-i:[A-Z])[a-z]+)",
    re.IGNORECASE,
)


def has_sort(text: str, clause: Clause) -> bool:
    """Whether the text begins with a value that tells its sort by its form (not a name)."""
    forms: tuple[Callable[[str], object], ...] = (
        _ADDRESS.match,
        _PHONE.match,
        _EVERY.match,
        _FREQUENCY.match,
        _SAID_CLOCK.match,
        _WEEKDAYS.match,
        _ORDINAL.match,
        _AMOUNT.match,
        _COLOUR.match,
    )
    plain = re.sub(r"^the (?=\d)", "", text, flags=re.IGNORECASE)
    return any(form(plain) for form in forms) or day_in(text, clause) is not None


def _swap(known: Extracted, old: str, new: str) -> Extracted | None:
    """One text for another, in the object too where it has it."""
    value = (known.object or new).replace(old, new) if old in (known.object or old) else new
    return exchange(known, old, new, value)


def _by_address(known: Extracted, new: str, _clause: Clause) -> Extracted | None:
    said, held = _ADDRESS.match(new), _ADDRESS.search(known.content)
    return _swap(known, held.group(), said.group()) if said and held else None


def _by_phone(known: Extracted, new: str, _clause: Clause) -> Extracted | None:
    """A number to ring for one, digits in groups."""
    said, held = _PHONE.match(new), _PHONE.findall(known.content)
    return _swap(known, held[0].strip(), said.group()) if said and len(held) == 1 else None


def _by_every(known: Extracted, new: str, _clause: Clause) -> Extracted | None:
    """One turn for another ("every third Wednesday" for "every second Wednesday")."""
    said, held = _EVERY.match(new), _EVERY.findall(known.content)
    return _swap(known, held[0], said.group()) if said and len(held) == 1 else None


def _by_frequency(known: Extracted, new: str, _clause: Clause) -> Extracted | None:
    """How often for how often ("four times" for "three times a week")."""
    said, held = _FREQUENCY.match(new), _PERIOD.findall(known.content)
    return _swap(known, held[0], said.group()) if said and len(held) == 1 else None


def _by_clock(known: Extracted, new: str, clause: Clause) -> Extracted | None:
    """A time of the day for one; "11" too, where the statement has a time and no other number."""
    words, held_words = _WORD_CLOCK.match(new), _HELD_WORD_CLOCK.search(known.content)
    if words is not None and held_words is not None:
        return _swap(known, held_words.group(), words["x"])
    said, held = _SAID_CLOCK.match(new), _CLOCK.search(_NOTED.sub(lambda m: " " * len(m.group()), known.content))
    if said is None or held is None or len(new) > len(said.group()) + 12 or _day(new, clause) is not None:
        return None
    return _swap(known, held.group(), _like(held.group(), said["clock"]))


def _like(old: str, new: str) -> str:
    """“9” for “9 am” keeps its half of the day."""
    half = re.search(r" ?[ap]\.?m\.?$", old, re.IGNORECASE)
    return new + half.group() if half and re.fullmatch(r"\d{1,2}(?:[:.]\d\d)?", new) else new


def _by_weekdays(known: Extracted, new: str, _clause: Clause) -> Extracted | None:
    """“Tuesdays and Thursdays” for “Mondays and Wednesdays”."""
    plain = re.sub(r"^(?:on |to )", "", new)
    said, held = _WEEKDAYS.match(plain), _WEEKDAYS.search(known.content)
    if said is None or held is None or not re.search(r"days\b", held.group(), re.IGNORECASE):
        return None
    return _swap(known, held.group(), said.group()) if len(plain) <= len(said.group()) + 12 else None


def _by_date(known: Extracted, new: str, clause: Clause) -> Extracted | None:
    """A day for a day, a month for the month of one."""
    day, old = _day(new, clause), known_day(known, clause)
    if old is None or day is None:
        return None
    noted = _PREPOSITION.sub("", day.noted)
    clock = re.search(r" at (?:\d[\d:.]*(?<!\.)(?: ?[ap]\.?m)?|noon|midnight)(?=\.?$)", known.content, re.IGNORECASE)
    said_clock = _THEN_CLOCK.match(new[day.place + len(day.text) :])
    kept = clock.group() if clock and "date_of" in (known.predicate or "") else ""
    found = exchange(known, old, noted, day.value + kept)
    if found is None or not clock or not said_clock:
        return found
    after = f" at {said_clock['clock']}"
    return msgspec.structs.replace(
        found, content=found.content.replace(clock.group(), after, 1), object=(day.value + after)
    )


def day_in(text: str, clause: Clause) -> dates.Day | None:
    """A day said alone ("March", "the 20th", "next Friday", "Wednesday at 3")."""
    day = dates.find(text, clause.said_at)
    if day is None and re.match(r"(?:early |mid |late |end of )?[A-Z][a-z]+$", text):
        day = dates.find(f"in {text}", clause.said_at)
    return day if day is not None and day.place <= 4 else None


def _day(text: str, clause: Clause) -> dates.Day | None:
    day = day_in(text, clause)
    return day if day is not None and len(day.text) + 12 >= len(text) else None


def known_day(known: Extracted, clause: Clause) -> str | None:
    """The words of the known statement that name its day, the date in brackets too."""
    day = dates.find(known.content, clause.said_at)
    if day is None:
        return None
    text = _PREPOSITION.sub("", day.text)
    begin = known.content.find(text)
    noted = _NOTED.match(known.content, begin + len(text))
    return text + (noted.group() if noted else "")


def _by_ordinal(known: Extracted, new: str, clause: Clause) -> Extracted | None:
    """“10th” for “9th”."""
    said = re.match(rf"(?:the )?(?P<x>{_ORDINAL.pattern})", new, re.IGNORECASE)
    held = _ORDINAL.findall(known.content)
    if said is None or len(held) != 1:
        return None
    if known_day(known, clause) is not None and not (len(new) < 12 and _OF_MONTH.search(known.content)):
        return None  # but "the 25th" for "the 24th of December"
    return _swap(known, held[0], said["x"])


def _by_number(known: Extracted, new: str, clause: Clause) -> Extracted | None:
    """An amount for an amount; a currency or unit that is not said again stays."""
    counted = _COUNT_WORD.match(new)
    plain = _WORD_NUMBERS[counted.group().lower()] + new[counted.end() :] if counted else new
    amount = _AMOUNT.match(plain)
    told, day = _NOTED.sub("", known.content), known_day(known, clause)
    if amount is None or _is_other_unit(known.content, plain):
        return None
    if day is not None:
        if not _is_no_day(amount.group()):
            return None
        told = told.replace(_NOTED.sub("", day), " ")
    held = [found.group() for found in _NUMBER.finditer(told)]
    if not held and counted:
        return _by_counted(known, counted.group())
    said = amount.group().strip().rstrip(".,")
    if plain[amount.end() : amount.end() + 1].isalpha():
        said = re.sub(r"\s?[a-z]+$", "", said, flags=re.IGNORECASE)  # "80 kg" is no 80 thousand
    if len(held) != 1 or len(plain) > len(said) + 25 or not numbers(said):
        return None
    road = _ROAD.match(plain, len(amount.group().rstrip()))
    if road is not None and road["name"] not in known.content:
        return None  # "14 Oak Road" is no other number of "12 Elm Street"
    return _amount_for(known, held[0].strip(), said)


def _is_no_day(amount: str) -> bool:
    """Whether it can be no day of a month, nor a year: beside a date it is of what else is counted there."""
    found = numbers(amount)
    return len(found) == 1 and not any(float(one) < _DAYS_OF_MONTH or 1900 <= float(one) < 2100 for one in found)


_DAYS_OF_MONTH = 32


def _by_year(known: Extracted, new: str, _clause: Clause) -> Extracted | None:
    """“2021” for “in 2012”."""
    said, held = _YEAR.fullmatch(new), _YEAR.findall(_NOTED.sub("", known.content))
    if said is None or len(held) != 1 or held[0] == new:
        return None
    value = known.object or ""
    return exchange(known, held[0], new, value.replace(held[0], new) if held[0] in value else new)


def _by_counted(known: Extracted, new: str) -> Extracted | None:
    """“three” for “two”."""
    held = re.findall(rf"\b{_COUNT_WORD.pattern}", known.content, re.IGNORECASE)
    return exchange(known, held[0], new, _WORD_NUMBERS[new.lower()]) if len(held) == 1 else None


def _amount_for(known: Extracted, old: str, said: str) -> Extracted | None:
    if old[0] in "$€£¥" and said[0].isdigit() and not re.search(r"[€$£¥a-z]", said, re.IGNORECASE):
        said = old[0] + said
    if re.search(r"[a-z€£$]$", said, re.IGNORECASE) and (
        rest := re.search(
            rf"{re.escape(old)}\s?(?:k|dollars|euros?|pounds|usd|eur|kg|cm|km)\b", known.content, re.IGNORECASE
        )
    ):
        old = rest.group()
    value = (known.object or "").replace(old, said) if known.object and old in known.object else said
    return exchange(known, old, said, value)


def _is_other_unit(known: str, new: str) -> bool:
    one, other = _UNIT.search(known), _UNIT.search(new)
    return other is not None and (one is None or one[1].lower().rstrip("s") != other[1].lower().rstrip("s"))


def _by_colour(known: Extracted, new: str, _clause: Clause) -> Extracted | None:
    said, held = _COLOUR.match(bare(new)), _COLOUR.search(known.content)
    return _swap(known, held.group(), said.group()) if said and held else None


_CALLED = re.compile(r"\bis (?:named|called) ")


def _by_name(known: Extracted, new: str, clause: Clause) -> Extracted | None:
    """A name for a name, when it is plainly a correction."""
    plain = re.sub(r"\s+with an? .*$|\s*\(.*$", "", new).rstrip(" .!")
    if _CALLED.search(known.content) and re.search(rf"\b(?:in|at|from|to|with|for) {re.escape(plain)}\b", clause.text):
        return None  # "she is at Schiller now" gives nobody another name
    if is_name(plain) and (found := _only_name(known, plain, clause)) is not None:
        return found
    if is_name(plain) and re.match(r"I (?:meant|mean)\b", clause.text) and (other := _name_within(known, plain)):
        return other
    if not is_name(plain) or not known.object or not (known.object[:1].isupper() or known.predicate == "name"):
        return None
    if numbers(known.object) or _day(plain, clause) is not None or known.object not in known.content:
        return None
    return exchange(known, known.object, plain, plain)


def _name_within(known: Extracted, new: str) -> Extracted | None:
    """The only name in what is told of somebody ("Casimir makes the best Riesling"), where another is meant."""
    held = names_in(f"x {known.object or ''}")
    return _swap(known, held[0], new) if len(held) == 1 and held[0] != known.object else None


def _only_name(known: Extracted, new: str, clause: Clause) -> Extracted | None:
    """The one name in a statement kept in the user's words ("is flying with Delta")."""
    held = names_in(known.content.partition(" ")[2])
    held = [name for name in held if dates.find(f"in {name}", clause.said_at) is None]
    told = (known.predicate or "").startswith(("told_", "trip_to_", "planning_", "booked_"))
    if not told or len(held) != 1 or _day(new, clause) is not None:
        return None
    return _swap(known, held[0], new) if dates.find(held[0], clause.said_at) is None else None


_REPLACE = (
    _by_address,
    _by_phone,
    _by_every,
    _by_frequency,
    _by_clock,
    _by_weekdays,
    _by_ordinal,
    _by_year,
    _by_date,
    _by_number,
    _by_colour,
    _by_name,
)
"""A value of each sort for one of its own, in the order in which they are tried."""
