"""Rules for where the user lives and comes from."""

import re
from collections.abc import Iterable

from memproxy.core.memory import Relation
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.model import (
    LESS_SURE,
    SURE,
    Clause,
    Groups,
    Rule,
    Template,
    any_rule,
    i_rule,
    my_rule,
)
from memproxy.learn.rules.values import (
    bare,
    names_in,
    trimmed,
)
from memproxy.learn.rules.words import (
    DAY_NAMES,
    MONTH_NAMES,
)

_NO_PLACE = re.compile(
    r"(?:an? )?(?:house|apartment|flat|studio|condo|dorm|van|bubble|fear|hope|world|country|pain|peace|bungalow|"
    r"shared|small apartment|"
    r"small house|different|mess|tent|team|meeting|hurry|rush|trouble|love|charge|town|position|contact|touch|front|"
    r"process|"
    r"middle|need|bed|time|sales|case|fact|general|favou?r|agreement|class|doubt|danger|good|bad|shock|two-bedroom|"
    r"room|way|\w+ times|times|"
    r"hospital|office|queue|traffic|canary|past|future|moment|same|area|(?:the )?(?:city|countryside|"
    r"suburbs|same \w+|neighbou?rhood|region|middle)|neighbou?rhood|my|our|person|search)\b"
    r"|\d+(?:-|\s)(?:bed|room|story)",
    re.IGNORECASE,
)


def is_place(value: str) -> bool:
    """Whether it can be where somebody lives: not a kind of dwelling, a state of mind or a day."""
    first = value.split(maxsplit=1)[0].lower().strip(",.")
    return not _NO_PLACE.match(value) and first not in DAY_NAMES | MONTH_NAMES and not value[0].isdigit()


def is_named_place(value: str) -> bool:
    """A place said with a capital, where other words could stand too ("I am in Rome now")."""
    return value[0].isupper() and is_place(value)


def lives(groups: Groups, clause: Clause, *, check: str = "place") -> Iterable[Extracted]:
    """Where the user lives, and since when if that is said."""
    where = re.sub(
        r"^(?:an? |my |our |the )?(?:\w+ )?(?:house|flat|apartment|studio|condo|cottage|bungalow|houseboat|village|"
        r"town|suburb|farm) in (?=[A-Z])",
        "",
        groups["x"],
    )
    place = trimmed(where, "place")
    if place is None or not (is_named_place if check == "named" else is_place)(place):
        return
    yield Extracted(
        content=f"User lives {groups.get('how') or 'in'} {place}.",
        subject="user",
        predicate="lives_in",
        object=bare(place),
        category="user-profile/residence",
        tags=("residence",),
        entities=tuple(names_in(place)) or (place,),
        relations=(Relation(subject="user", predicate="lives_in", object=bare(place)),),
        confidence=SURE,
        importance=0.8,
        valid_from=dates.since(groups["x"], clause.said_at),
        valid_to=dates.until(groups["x"], clause.said_at),
    )


_PASSING_STAY = re.compile(
    r"\b(?:until|till|meeting|trip|holiday|vacation|visiting|today|tonight|tomorrow|for (?:a|the|two|three|work|"
    r"business)|this week)\b",
    re.IGNORECASE,
)


def moved_from(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """Where the user lived before."""
    place = trimmed(groups["x"], "place")
    if place is None or not is_named_place(place) or " to " in groups["x"]:
        return
    day = dates.find(groups["x"], clause.said_at, past=True)
    yield Extracted(
        content=f"User moved from {place}{f' {day.noted}' if day else ''}.",
        subject="user",
        predicate="moved_from",
        object=place,
        category="user-profile/residence",
        entities=tuple(names_in(place)),
        confidence=SURE,
    )


def now_in(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“I am in Rome now”: lives there, when it is said as a change."""
    here = trimmed(groups["x"], "place")
    if (
        not clause.is_correction
        and not _PASSING_STAY.search(clause.text)
        and here is not None
        and is_named_place(here)
        and len(here) > 2
        and not here.isupper()
    ):
        yield Extracted(
            content=f"User is in {here}.",
            subject="user",
            predicate="is_in",
            object=here,
            category="user-profile/residence",
            entities=tuple(names_in(here)),
            confidence=LESS_SURE,
        )
    elif clause.is_correction and not re.search(
        r"\b(?:meeting|trip|holiday|vacation|visiting|until|for (?:a|the|two|three))\b",
        clause.text,
    ):
        yield from lives(groups, clause, check="named")


RULES: tuple[Rule, ...] = (
    i_rule(
        r"(?:live|am living|are living|reside|have lived|have been living|am based|are based|am located|am "
        r"residing)(?: \w+)? (?:in|on|(?P<how>near|outside)) (?P<x>.+)",
        lives,
    ),
    i_rule(
        r"(?:live|am living|are living|reside|am based|have lived|have been living|am located) (?:here )?(?:in|"
        r"(?P<how>near)) (?P<x>.+)",
        lives,
    ),
    i_rule(
        r"(?:moved|have moved|relocated|have relocated)(?: (?:back|over|out|house|home|here))?(?: from [\w ]+?)? to "
        r"(?P<x>.+)",
        lives,
    ),
    any_rule(
        r"(?:based|living|located) in (?P<x>[A-Z].+)",
        lambda groups, clause: lives(groups, clause, check="named"),
    ),
    any_rule(
        r"(?:my|our) (?:home|hometown|place of residence|city|home city) is (?:in )?(?P<x>[A-Z].+)",
        lambda groups, clause: lives(groups, clause, check="named"),
    ),
    i_rule(r"(?:am|are) (?:living )?in (?P<x>[A-Z].+)", now_in),
    i_rule(
        r"(?:moved|have moved|relocated|came)(?: here| over)? from (?P<x>.+)",
        moved_from,
    ),
    i_rule(
        r"live at (?P<x>\d.+)",
        Template(
            content="User's address is {x}.",
            predicate="address",
            category="user-profile/residence",
            stop="whole",
            tags=("residence",),
            importance=0.7,
        ),
    ),
    any_rule(
        r"there are (?P<x>two|three|four|five|six|seven|eight|\d) of us(?: at home| in (?:the|our) (?:house|family|"
        r"household))\b",
        Template(
            content="There are {x} people in the user's household.",
            predicate="household_size",
            category="user-profile/family",
        ),
    ),
    my_rule(
        r"(?:home |postal |street |mailing |new )?address is (?P<x>.+)",
        Template(
            content="User's address is {x}.",
            predicate="address",
            category="user-profile/residence",
            stop="whole",
            tags=("residence",),
            importance=0.7,
        ),
    ),
    my_rule(
        r"time ?zone is (?P<x>.+)",
        Template(
            content="User's timezone is {x}.",
            predicate="timezone",
            category="user-preferences/timezone",
            tags=("timezone",),
            importance=0.7,
        ),
    ),
    i_rule(
        r"am (?:in|on) (?:the )?(?P<x>[\w/+:-]+(?: \w+)?) time ?zone\b",
        Template(
            content="User's timezone is {x}.",
            predicate="timezone",
            category="user-preferences/timezone",
            tags=("timezone",),
            importance=0.7,
        ),
    ),
    i_rule(
        r"(?:am originally|am|come|are) from (?P<x>.+)",
        Template(
            content="User is from {x}.",
            predicate="from",
            category="user-profile/origin",
            stop="place",
            check=is_named_place,
            importance=0.6,
        ),
    ),
    i_rule(
        r"grew up in (?P<x>.+)",
        Template(
            content="User grew up in {x}.",
            predicate="grew_up_in",
            category="user-profile/origin",
            stop="place",
            check=is_place,
            importance=0.6,
        ),
    ),
    i_rule(
        r"was born (?:and raised )?in (?P<x>[^\W\d].+)",
        Template(
            content="User was born in {x}.",
            predicate="born_in",
            category="user-profile/origin",
            stop="place",
            check=is_named_place,
            importance=0.6,
        ),
    ),
)
