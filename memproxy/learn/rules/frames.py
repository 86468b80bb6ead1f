"""Statements that answer one question by their form alone: the same thing, the same verb, another value.

"My landlord is called Ms Adler" ends "my landlord is called Mr Ferreira" without any word of change, since a landlord
has one name; "my sister is a vet" does not end "my sister is tall".
"""

import re

import msgspec

from memproxy.core.slots import has_many, singular, value_name
from memproxy.learn.rules.ledger import terms
from memproxy.learn.rules.values import is_name, names_in

_OF_ONE = (
    "is called|is named|are called|is spelled|lives|opens|closes|costs|weighs|takes place|is held|runs on|leaves|"
    "departs|"
    "starts|begins|ends|finishes|flies at|measures|is moored|is parked|is based|is booked for|is due|lands|arrives|"
    "meets|"
    "sleeps|is written in|expires"
)
"""Verbs with one answer at a time, whatever follows."""

_THING = re.compile(
    rf"(?P<what>(?!User (?!'s))(?:The |User's )?[^,;:]{{2,60}}?) (?P<verb>{_OF_ONE}|is|are|has|goes|works|keeps|uses|"
    r"plays|teaches|drives)\b (?P<rest>.+?)\.?$"
)
_USER = re.compile(r"User (?P<verb>commutes|lives|banks|is a team of|sleeps)\b (?P<rest>.+?)\.?$")
_PLACED = re.compile(r"(?:in|at|on|near) ")
_DAYS = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days|weekdays|weekends?|mornings?|evenings?|summer|winter|term)\b",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b\d{1,2}(?:[:.]\d\d)? ?(?:[ap]\.?m\b\.?)?|\bnoon\b|\bmidnight\b|\bhalf past \w+", re.IGNORECASE)
NUMBER_WORDS = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|"
    "eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred"
)
_NUMBER = re.compile(rf"[$€£¥]?\d[\d.,:]*|\b(?:{NUMBER_WORDS})(?:-(?:{NUMBER_WORDS}))?\b", re.IGNORECASE)
_COLOURED = re.compile(
    r"(?:(?:light|dark|bright|pale|deep|navy|sage|sky) )?(?:red|orange|yellow|green|blue|purple|pink|brown|black|white|"
    r"gr[ae]y|beige|teal|silver|gold|charcoal|cream|turquoise|maroon|violet)$",
    re.IGNORECASE,
)


_NOW = re.compile(r"(?<=\w) now(?= [a-z]+ )", re.IGNORECASE)


def without_now(text: str) -> str:
    """“My course now starts on Tuesdays” without its "now", which is no part of what is asked."""
    return _NOW.sub("", text)


class _Parts(msgspec.Struct, frozen=True):
    what: frozenset[str]
    name: str | None
    verb: str
    rest: str


def same_question(new: str, old: str) -> bool:
    """Whether two statements give different answers to one question that has one answer at a time."""
    user, was = _USER.match(new), _USER.match(old)
    if user is not None and was is not None:
        return user["verb"] == was["verb"] and _differ(user["rest"], was["rest"]) and _users(user, was)
    one, other = _parts(new), _parts(old)
    if one is None or other is None or not _same_verb(one, other) or not _of_one_thing(one, other):
        return False
    return _differ(one.rest, other.rest) and _exclude(one, other)


def _users(new: re.Match[str], old: re.Match[str]) -> bool:
    if new["verb"] != "lives":
        return not (_DAYS.search(new["rest"]) and _DAYS.search(old["rest"]))
    return _PLACED.match(new["rest"]) is not None and _PLACED.match(old["rest"]) is not None


def _parts(content: str) -> _Parts | None:
    match = _THING.match(content)
    if match is None:
        return None
    what = match["what"].removeprefix("User's ").removeprefix("The ")
    names = names_in(f"x {what}")
    return _Parts(terms(what), names[-1] if names else None, match["verb"], match["rest"])


def _of_one_thing(one: _Parts, other: _Parts) -> bool:
    if one.name is not None and one.name == other.name:
        return True
    return bool(one.what) and one.what == other.what


_NAMING = frozenset({"is", "is called", "is named", "are called"})


def _same_verb(one: _Parts, other: _Parts) -> bool:
    """Whether both ask the same by their verb; "is" does where both give a name."""
    if one.verb == other.verb:
        return True
    return {one.verb, other.verb} <= _NAMING and _are_names(one, other)


def _untitled(rest: str) -> str:
    return re.sub(r"^(?:Mr|Ms|Mrs|Dr|Prof)\.? ", "", rest)


def _differ(new: str, old: str) -> bool:
    return value_name(new) != value_name(old)


def _exclude(one: _Parts, other: _Parts) -> bool:
    """Whether both answers cannot hold at once."""
    if at_other_times(one.rest, other.rest):
        return False
    if one.verb in ("is called", "is named", "are called") or one.verb != other.verb:
        return not _has_several(one)
    if one.verb in _OF_ONE.split("|"):
        return True
    return _other_value(one, other)


def _other_value(one: _Parts, other: _Parts) -> bool:
    """Whether what both are, or have, is a value of the same sort: a number of the same, a colour, a place, a name."""
    numbers = _NUMBER.findall(one.rest), _NUMBER.findall(other.rest)
    if all(numbers):
        return _around(one.rest)[:1] == _around(other.rest)[:1] and numbers[0] != numbers[1]
    if one.verb != "is":
        return False
    if _PLACED.match(one.rest) and one.rest.split()[0] == other.rest.split()[0]:
        return bool(names_in(one.rest)) and bool(names_in(other.rest))
    coloured = bool(_COLOURED.match(one.rest) and _COLOURED.match(other.rest))
    return coloured or (_are_names(one, other) and not _has_several(one))


def _are_names(one: _Parts, other: _Parts) -> bool:
    return is_name(_untitled(one.rest)) and is_name(_untitled(other.rest))


def _has_several(one: _Parts) -> bool:
    """Whether people have several of these ("friend", "sister")."""
    return any(has_many(singular(word)) for word in one.what)


def when_in(text: str) -> str:
    """On which days a clock time in the text holds ("at 8 on weekdays": weekdays); nothing where it says none."""
    day = _DAYS.search(text) if _CLOCK.search(text) else None
    return day.group().lower() if day is not None else ""


def at_other_times(new: str, old: str) -> bool:
    """Whether each says when it holds ("at 8 on weekdays", "at 10 on Sundays"), and not the same time."""
    one, other = (frozenset(day.lower() for day in _DAYS.findall(text)) for text in (new, old))
    clocks = all(_CLOCK.search(text) for text in (new, old))
    return clocks and bool(one and other) and one != other


def _around(rest: str) -> list[str]:
    """The words beside the numbers: what is counted or numbered."""
    return [word.strip(",.").lower() for word in _NUMBER.sub(" ", rest).split()]
