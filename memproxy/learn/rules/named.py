"""Rules for named things with a value of a plain sort: when they are, how many, what colour, which one.

Asked when the special rules found nothing. "My" and "our" name something of the user's; "the" and bare nouns only where
the noun tells something lasting ("the standup", "prod db").
"""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.general import fact
from memproxy.learn.rules.lexicon import PASSING_NOUNS
from memproxy.learn.rules.model import LESS_SURE, Clause, Groups, Rule, any_rule
from memproxy.learn.rules.typed import COLOURS
from memproxy.learn.rules.values import is_name, items, names_in, slug, third_person, trimmed
from memproxy.learn.rules.words import PEOPLE

_MOST_WORDS = 5
_GATHERINGS = (
    r"stand-?up|off-?site|on-?site|meeting|meet-?up|sync|retro|retrospective|deadline|party|launch|release|demo|sprint|"
    r"review|interview|exam|finals?|wedding|flight|train|bus|ferry|class|course|lesson|practice|rehearsal|recital|"
    r"appointment|check-?up|surgery|reservation|booking|dinner|brunch|ceremony|funeral|concert|gig|show|match|game|"
    r"tournament|race|marathon|thesis|dissertation|paper|assignment|essay|report|proposal|presentation|lease|contract|"
    r"visa|passport|go-?live|kick-?off|workshop|webinar|conference|trip|vacation|holiday|nursery|school|daycare|"
    r"kindergarten|shop|gym|office|clinic|pharmacy|library|pool|restaurant|salon|book club|choir|curfew|check-?in|"
    r"check-?out|viewing|hearing|audition|delivery|closing|move"
)
_LASTING = (
    r"(?:prod |staging |dev |test |main |primary )?(?:db|database|server|backend|back end|frontend|front end|api|repo|"
    r"cluster|code ?base|stack|code ?name|client|customer|landlord|budget|rent|salary|team|company|wi-?fi|network|"
    r"mascot|router|boiler|heating|house|flat|apartment|car|van|bike|boat|dog|cat|puppy|kitten|baby|venue|caterer|"
    r"photographer|dress code|theme|guest list|head ?count|plan|project|product|app|brand|logo|kitchen|living room|"
    r"bedroom|bathroom|garden|roof|sofa|couch"
)
_THING = re.compile(rf"(?:.* )?(?:{_GATHERINGS}|{_LASTING}))s?(?: (?:for|with|of|in|at|to) .+)?$", re.IGNORECASE)
_HAPPENS = re.compile(rf"(?:.* )?(?:{_GATHERINGS})s?(?: (?:for|with|of|in|at|to) .+)?$", re.IGNORECASE)
_CLOCK = (
    r"(?:\d{1,2}[:.]\d\d(?: ?[ap]\.?m\b\.?)?|\d{1,2} ?[ap]\.?m\b\.?|noon|midnight|half past \w+|\d{1,2}(?![\d%$€£]))"
)
_TIME = re.compile(rf"(?:at|from|until|around|by) {_CLOCK}", re.IGNORECASE)
_COUNT = re.compile(
    r"(?:for |about |around )?(?:[$€£¥]\s?)?(?:\d[\d.,]*(?:k|m)?|two|three|four|five|six|seven|eight|nine|ten|eleven|"
    r"twelve|fifteen|twenty|thirty|forty|fifty)\b(?! (?:more|other|of (?:them|these|those)|times|questions?|errors?|"
    r"minutes? (?:late|away)|(?:open )?(?:bugs?|issues?|problems?)))",
    re.IGNORECASE,
)
_COLOUR = re.compile(rf"(?:(?:light|dark|bright|pale|deep|navy) )?(?:{COLOURS})(?: and (?:{COLOURS}))?$", re.IGNORECASE)
_FLOOR = re.compile(
    r"(?:on|in) the (?:\d{1,3}(?:st|nd|rd|th)|ground|top|first|second|third|fourth|fifth) floor", re.IGNORECASE
)
_GRADE = re.compile(
    r"in (?:(?:the )?\d{1,2}(?:st|nd|rd|th) grade|grade \d{1,2}|year \d{1,2}|kindergarten)", re.IGNORECASE
)
_NAME = re.compile(
    r"(?:called |named |on |with |running )?(?-i:[A-Z])[\w.+#&'’-]*(?: [\w.+#&'’-]+){0,4}$", re.IGNORECASE
)
_PRODUCT = re.compile(
    r"(?:on |running )?(?:postgres(?:ql)?|mysql|mariadb|sqlite|mongo(?:db)?|redis|ubuntu|debian|python|node|java|ruby|"
    r"php|go|rust|react|vue|angular|django|flask|rails|kubernetes|docker|aws|gcp|azure)\b(?: v?[\d.]+)?",
    re.IGNORECASE,
)
_NOT_NAMES = re.compile(r"(?:I|A|An|The|It|This|That|Not|In|On|At|OK|So|Very|What)\b")
_OPENS = re.compile(
    r"(?:it|this|that|there|he|she|they|you|what|who|which|where|when|how|why|I|we|here)\b", re.IGNORECASE
)
_PRESENT = {"was": "is", "were": "are", "will be": "is", "has": "has", "have": "have"}


def valued(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“The standup is at 9:30”, “our company has 40 employees”, “my car is red”."""
    owner = (groups.get("det") or "").lower()
    what, said = trimmed(groups["what"], "long"), trimmed(groups["x"], "long")
    if what is None or said is None or not _is_named(what, owner):
        return
    verb = groups["verb"].lower()
    question = _question(what, verb, said, clause)
    if question is None:
        return
    head = f"User's {third_person(what)}" if owner in ("my", "our") else f"The {what}" if owner else what
    shown = _dated(said, clause)
    yield Extracted(
        content=f"{head[0].upper()}{head[1:]} {_PRESENT.get(verb, verb)} {third_person(shown)}.",
        subject="user",
        predicate=question[:80],
        object=third_person(shown),
        category="user-profile/details",
        tags=("details",),
        entities=tuple(names_in(said)),
        confidence=LESS_SURE,
        valid_to=dates.until(groups["x"], clause.said_at),
    )


def _is_named(what: str, owner: str) -> bool:
    """Whether the thing is one that lasts or takes place, and so tells something."""
    said = what.split()
    if len(said) > _MOST_WORDS or _OPENS.match(what):
        return False
    if _THING.match(what) or re.match(r"[\w-]+(?:'s?|s) \w+$", what):
        return True
    return owner in ("my", "our") and said[-1].lower() not in PASSING_NOUNS


def _question(what: str, verb: str, said: str, clause: Clause) -> str | None:
    """The name of what is asked, by the sort of its answer; None when the answer is of no plain sort."""
    thing, last = slug(what), what.rsplit(maxsplit=1)[-1].lower()
    day = dates.find(said, clause.said_at)
    if day is not None and day.place <= 4 and day.end > clause.said_at.date() and _HAPPENS.match(what):
        return f"date_of_{thing}"
    if _TIME.match(said):
        return f"time_of_{thing}" if verb in ("is", "are") else f"time_{thing}_{verb}"
    if verb in ("has", "have"):
        counted = _COUNT.match(said)
        rest = said[counted.end() :] if counted else ""
        return f"number_{thing}_{slug(rest)}" if _is_counted(rest) else None
    return _of_sort(thing, last, verb, said, is_day=day is not None)


def _of_sort(thing: str, last: str, verb: str, said: str, *, is_day: bool) -> str | None:
    """The name of what a place, a colour, a number or a name answers."""
    if _FLOOR.match(said) or _GRADE.match(said):
        return f"{'floor' if _FLOOR.match(said) else 'grade'}_of_{thing}"
    if last in PEOPLE or verb not in ("is", "are", "runs"):
        return None
    if _COLOUR.match(said):
        return f"color_of_{thing}"
    if re.match(r"for \d", said) and _COUNT.match(said):
        return f"number_of_{thing}"
    named = _PRODUCT.match(said) or (_NAME.match(said) and not _NOT_NAMES.match(said) and not is_day)
    return thing if named else None


def _is_counted(rest: str) -> bool:
    noun = rest.strip().split(" ")
    return bool(noun[0]) and noun[-1].lower() not in PASSING_NOUNS


def _dated(said: str, clause: Clause) -> str:
    day = dates.find(said, clause.said_at)
    return said if day is None else f"{said[: day.place]}{day.noted}{said[day.place + len(day.text) :]}"


def shift(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I'm on day shift now”."""
    which = groups["x"].lower()
    yield fact(f"User is on the {which} shift.", "shift", f"{which} shift", "user-profile/work")


def reports(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“My direct reports are Hana, Luis and Oskar”: one statement for each."""
    for name in items(groups["x"]):
        if name is not None and is_name(name):
            yield fact(
                f"{name} is one of the user's {groups['who'].lower()}.",
                f"has_colleague_{slug(name)}",
                name,
                "user-profile/people",
            )


def has_none(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I don't have kids”."""
    what = groups["x"].lower()
    yield fact(f"User has no {what}.", f"number_of_{slug(what)}", "0", "user-profile/family")


def paired(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I'm in a relationship now with Sam”, “Lisa and I got married”."""
    name = trimmed(groups.get("x") or groups.get("y") or "", "name")
    status = "married" if groups.get("y") else "in a relationship"
    if name is None or not is_name(name):
        return
    joined = "to" if status == "married" else "with"
    yield fact(f"User is {status} {joined} {name}.", "marital_status", status, "user-profile/family")


def works_with(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I do all my design work in Sketch”."""
    what, tool = trimmed(groups["what"], "long"), trimmed(groups["x"], "short")
    if what is None or tool is None or not tool[:1].isupper():
        return
    yield fact(
        f"User does {third_person(what)} {groups['how'].lower()} {tool}.",
        f"tool_for_{slug(what)}",
        tool,
        "user-tools/tools",
    )


def in_grade(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“My daughter just started 4th grade”."""
    who = f"User's {groups['who']}" if groups.get("who") else "User"
    question = f"grade_of_{slug(groups['who'])}" if groups.get("who") else "school_grade"
    yield fact(f"{who} is in {groups['x']}.", question, f"in {groups['x']}", "user-profile/education")


_YEAR = (
    r"(?:(?:\d{1,2}(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|seventh|eighth) grade|kinder"
    r"garten|grade \d{1,2})"
)

RULES: tuple[Rule, ...] = (
    any_rule(
        rf"(?:I|we|(?:my|our) (?P<who>[\w-]+(?: [A-Z]\w+)?)) (?:(?:has|have|is|am|just|now|will|be) )*(?:start(?:s|ed|"
        rf"ing)?|began|"
        rf"enter(?:s|ed|ing)|going into|starting|in) (?:the )?(?P<x>{_YEAR})",
        in_grade,
    ),
    any_rule(
        r"(?:I|we) (?:am|are|work|am working|have been)(?: on)? (?:the |a )?(?P<x>day|night|early|late|morning|"
        r"evening|swing|"
        r"graveyard) shifts?\b",
        shift,
    ),
    any_rule(
        r"(?:my|our) (?P<who>(?:direct )?reports|co-?workers|colleagues|teammates|cofounders|co-founders|bandmates|"
        r"flatmates|roommates|housemates|bosses|managers) are (?:called |named )?(?P<x>.+)",
        reports,
    ),
    any_rule(
        r"(?:I|we) (?:am|are) (?:now )?in a relationship (?:now )?with (?P<x>.+)|(?P<y>(?-i:[A-Z])\w+) and I (?:got|"
        r"are|are "
        r"now) married\b",
        paired,
    ),
    any_rule(
        r"(?:I|we) (?:do not have|have no|do not have any) (?P<x>kids|children|pets|siblings|brothers or sisters)\b",
        has_none,
    ),
    any_rule(
        r"(?:I|we) (?:do|write|edit|manage|track|keep|build|make|run|plan|draft|record|mix|design|store) "
        r"(?P<what>(?:all |most |"
        r"much )?(?:of )?(?:my|our) .+?) (?P<how>in|with|on|using) (?P<x>.+)",
        works_with,
    ),
    any_rule(
        r"(?:(?P<det>my|our|the) )?(?P<what>[\w'’-]+(?: [\w'’-]+){0,5}?) (?:(?:got|has been|was|were) (?:scheduled|set|"
        r"booked) |)(?P<verb>is|are|will be|starts?|begins?|ends?|closes?|opens?|leaves?|departs?|arrives?|lands?|has|"
        r"have|runs)(?: (?:now|scheduled|set|planned|due|booked|currently))* (?P<x>.+)",
        valued,
    ),
)
