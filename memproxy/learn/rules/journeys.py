"""Rules for journeys, and for what lasts until a day."""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.model import (
    SURE,
    Clause,
    Groups,
    Rule,
    i_rule,
)
from memproxy.learn.rules.values import (
    names_in,
    slug,
    third_person,
    trimmed,
)

_GOING = {
    "fly": "flies",
    "am flying": "is flying",
    "are flying": "is flying",
    "travel": "travels",
    "am traveling": "is traveling",
    "am travelling": "is travelling",
    "are traveling": "is traveling",
    "are travelling": "is travelling",
    "go": "goes",
    "am going": "is going",
    "are going": "is going",
    "will be going": "is going",
    "will fly": "flies",
    "will travel": "travels",
    "will go": "goes",
    "leave": "leaves",
    "am leaving": "is leaving",
    "am moving": "is moving",
    "are moving": "is moving",
    "will be moving": "is moving",
    "will move": "is moving",
    "are leaving": "is leaving",
    "am driving": "is driving",
    "am off": "is off",
}


def travels(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """A journey with its day; without one it is not known whether it is a plan or a habit."""
    place = trimmed(groups["x"], "place")
    day = dates.find(clause.text, clause.said_at)
    if place is None or day is None or not place[:1].isupper() or day.end <= clause.said_at.date():
        return
    verb = _GOING.get(groups["verb"].lower())
    if verb is None:
        return
    kind = "move" if "mov" in verb else "trip"
    yield Extracted(
        content=f"User {verb} to {place} {day.noted}.",
        subject="user",
        predicate=f"{kind}_to_{slug(place)}",
        object=day.value,
        category="plans/travel",
        tags=("plans", "travel"),
        entities=tuple(names_in(place)),
        confidence=SURE,
        importance=0.7,
        valid_to=dates.until(clause.text, clause.said_at),
    )


def stays(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """What lasts until a day ("I am in Rome until Friday")."""
    end = dates.until(clause.text, clause.said_at)
    what = re.split(r"\s+(?:until|till|through)\b", groups["x"], maxsplit=1)[0].strip()
    day = re.search(r"\b(?:until|till|through)\s+(.+)", clause.text)
    if end is None or not what or day is None or len(what.split()) > 8 or end <= clause.said_at:
        return
    until = dates.find(day[1], clause.said_at)
    if until is None:
        return
    yield Extracted(
        content=f"User is {third_person(what)} until {re.sub(r'^(?:on|in|by) ', '', until.noted)}.",
        subject="user",
        predicate="away" if re.match(r"(?:in|on|at|out|away|off|visiting|staying)\b", what) else f"until_{slug(what)}",
        object=third_person(what),
        category="plans/dates",
        tags=("plans",),
        entities=tuple(names_in(what)),
        confidence=SURE,
        importance=0.6,
        valid_to=end,
    )


_TO = (
    r"(?:fly|am flying|are flying|travel|am travell?ing|are travell?ing|go|am going|are going|will "
    r"be going|will fly|will travel|will go|leave|am leaving|are leaving|am moving|are moving|will "
    r"be moving|will move|am driving|am off)"
)


RULES: tuple[Rule, ...] = (
    i_rule(rf"(?P<verb>{_TO})(?: back| home| over)? (?:to|for) (?P<x>.+)", travels),
    i_rule(
        r"(?:am|will be|are)(?: staying| traveling| travelling)? (?P<x>(?:in|on|at|out|away|off|visiting|"
        r"staying)\b.* (?:until|till|through) .+)",
        stays,
    ),
    i_rule(
        r"am (?P<x>(?:working|using|taking|staying|living|renting|covering|fasting|training|eating|avoiding)\b.* "
        r"(?:until|till) .+)",
        stays,
    ),
)
