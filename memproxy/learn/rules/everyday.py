"""Rules for what people tell first and plainly, in small letters too: tools, studies, rent, hair, whom they married.

"My editor is vim" names its value in small letters, which other rules refuse; here the value is known by its kind.
"""

import re
from collections.abc import Iterable

import msgspec

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.kinds import STUDIES, kind_of
from memproxy.learn.rules.model import SURE, Clause, Groups, Rule, Template, any_rule, i_rule, my_rule
from memproxy.learn.rules.money import budget
from memproxy.learn.rules.pets import named_pet
from memproxy.learn.rules.plans import dated_event
from memproxy.learn.rules.projects import tool
from memproxy.learn.rules.tastes import taste
from memproxy.learn.rules.values import slug, trimmed
from memproxy.learn.rules.words import LANGUAGES, PETS

_TOOL_NOUN = (
    r"(?P<what>(?:code |text )?editor|ide|shell|database|db|operating system|os|distro|(?:main |programming )?language|"
    r"browser|terminal|search engine|package manager|email client|note app|music app|framework|cloud provider|"
    r"messenger)"
)


def named_tool(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“My editor is vim”: a product of a known kind, however it is written."""
    value = trimmed(groups["x"], "short")
    if value is None or kind_of(value) is None or len(value.split()) > 3:
        return
    what = re.sub(r"^(?:main|code|text) ", "", groups["what"].lower())
    content = f"User's {groups.get('main') or ''}{groups['what'].lower()} is {value}."
    yield _named_value(content, slug(what), value, "projects/tools", importance=0.6)


def _named_value(content: str, predicate: str, value: str, category: str, *, importance: float) -> Extracted:
    """A sure statement of the user whose value is a name."""
    return Extracted(
        content=content,
        subject="user",
        predicate=predicate,
        object=value,
        category=category,
        tags=(category.partition("/")[2],),
        entities=(value,),
        confidence=SURE,
        importance=importance,
    )


def used_for(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I take notes in Notion”, “I use fish as my shell”: a tool for what it is used for."""
    value = trimmed(groups["x"], "short")
    if value is None or kind_of(value) is None:
        return
    if (purpose := groups.get("purpose")) is None:
        yield tool(value, "notes")
    elif value.islower():  # what has a capital is read by the rule for tools
        stated = tool(value, purpose)
        yield msgspec.structs.replace(stated, content=f"User uses {value} as their {purpose}.")


def _is_study(value: str) -> bool:
    return value.lower() in STUDIES


_STUDIES = Template(
    content="User studies {x}.",
    predicate="studies",
    tags=("study",),
    importance=0.6,
    category="user-profile/education",
)
_KNOWN_STUDY = Template(
    content="User studies {x}.",
    predicate="studies",
    tags=("study",),
    importance=0.6,
    category="user-profile/education",
    check=_is_study,
)
_SCHOOLS = (
    r"(?:Harvard|Yale|Princeton|Stanford|MIT|Oxford|Cambridge|UCLA|UCL|Berkeley|Columbia|Cornell|Brown|Dartmouth|Duke|"
    r"NYU|LSE|ETH|TUM|Caltech|Georgetown|Purdue|Imperial)\b"
)
_SCHOOL = Template(
    content="User goes to {x}.",
    predicate="school",
    tags=("study",),
    importance=0.6,
    stop="place",
    category="user-profile/education",
    check=lambda value: (
        re.match(_SCHOOLS, value) is not None
        or re.search(r"\b(?:University|College|High|School|Uni|Academy|Institute)\b", value) is not None
    ),
)
_RENT = Template(
    content="User's rent is {x}.",
    predicate="rent",
    object="{x}",
    category="user-profile/details",
    tags=("amounts",),
    stop="long",
    importance=0.6,
)
_STATUS = Template(
    content="User is {x}.",
    predicate="marital_status",
    category="user-profile/family",
    tags=("family",),
    importance=0.7,
)
_HAIR = (
    r"(?P<x>(?:(?:very |quite |really )?(?:long|short|curly|straight|wavy|thick|thin|blonde?|brown|black|red|gr[ae]y|"
    r"white|ginger|dark|fair|frizzy|shoulder-length|no|pink|blue|green|purple)(?:,? (?:and )?)?){1,3}) ?hair\b"
)
_EMPLOYER = Template(
    content="User works at {x}.",
    predicate="employer",
    tags=("work", "employer"),
    importance=0.8,
    category="user-profile/work",
)


def of_language(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Portuguese is my mother tongue”."""
    value = groups["x"].strip()
    if value.lower() in LANGUAGES:
        content = f"User's mother tongue is {value}."
        yield _named_value(content, "mother_tongue", value, "user-profile/languages", importance=0.7)


def due(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“The report is due on 3 May”: a day until which something is to be done."""
    what, day = trimmed(groups["what"], "whole"), dates.find(groups["x"], clause.said_at)
    if what is None or day is None or day.place > 4 or len(what.split()) > 5:
        return
    found = dated_event(what if groups["whose"].lower() != "the" else f"the {what}", "", day)
    content = found.content.replace(" is ", " is due ", 1)
    yield msgspec.structs.replace(found, content=content)


_TITLED = Template(
    content="User's {who} is named {x}.",
    predicate="{who_slug}",
    object="{x}",
    category="user-profile/people",
    tags=("people",),
    stop="long",
    importance=0.6,
)


def wed(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“We got married in 2012”, with its year."""
    for found in _STATUS({"x": groups["x"]}, clause):
        when = (groups.get("when") or "").rstrip(" .!")
        yield msgspec.structs.replace(found, content=f"User got {groups['x'].lower()}{when}.") if when else found


_MONEY = r"[$€£]?\d[\d.,]*k?(?: (?:euros?|dollars|pounds|francs|bucks))?"

RULES: tuple[Rule, ...] = (
    my_rule(rf"(?P<main>\w+ )?{_TOOL_NOUN} (?:is|are)(?: now)? (?P<x>[\w.+#-].*)", named_tool),
    i_rule(r"(?:take|keep|write|make) (?:all )?(?:my |our )?(?:\w+ )?notes (?:in|with|on) (?P<x>.+)", used_for),
    i_rule(
        r"use (?P<x>[\w.+#-]+(?: [\w.+#-]+)?) (?:as|for) (?:my |our |a |the )?(?P<purpose>shell|editor|browser|notes|"
        r"database|terminal|search engine|ide)\b",
        used_for,
    ),
    i_rule(
        r"(?:use|am using|am on) (?P<x>dark|light) mode\b",
        Template(
            content="User uses {x} mode.",
            predicate="color_mode",
            category="user-preferences/general",
            tags=("preferences",),
        ),
    ),
    i_rule(
        r"(?:am doing|do|am in) an apprenticeship (?:as|to become) (?P<x>an? [\w -]+)",
        Template(
            content="User is an apprentice, training as {x}.",
            predicate="job_title",
            category="user-profile/work",
            tags=("work", "job"),
            importance=0.8,
        ),
    ),
    i_rule(
        r"eat (?:very |only )?(?P<x>little (?:salt|sugar|meat|bread|fat|dairy|carbs)|less (?:salt|sugar|fat))\b",
        Template(content="User eats {x}.", predicate="eats_{x_slug}", category="user-preferences/food", tags=("food",)),
    ),
    i_rule(
        r"can only (?P<x>(?:sleep|work|eat|drink|concentrate|study|read|fall asleep|relax) (?!if\b|when\b|until\b).+)",
        Template(
            content="User can only {x}.",
            predicate="can_only_{x_slug}",
            category="user-preferences/general",
            tags=("preferences",),
            stop="long",
        ),
    ),
    i_rule(
        r"am (?:an? )?(?:heavy |light |social |occasional |chain )?(?P<x>smoker)\b",
        Template(
            content="User is a {x}.",
            predicate="smokes",
            object="yes",
            category="user-profile/health",
            tags=("health",),
        ),
    ),
    my_rule(
        r"(?P<pet>dog|cat|horse|pony|rabbit|puppy|kitten) is an? (?P<breed>[\w -]{3,30}?) (?:called|named) "
        r"(?P<x>(?-i:[A-Z])\w+)",
        lambda groups, _clause: [named_pet(PETS[groups["pet"].lower()], groups["breed"].lower(), groups["x"])],
    ),
    my_rule(r"(?:college |university )?major is (?P<x>[\w ]+)", _STUDIES),
    i_rule(r"(?:switched to|changed to|am switching to) (?P<x>[\w ]+)", _KNOWN_STUDY),
    i_rule(r"(?:go to|attend|am at|transferred to|study at) (?P<x>(?-i:[A-Z]).+)", _SCHOOL),
    i_rule(rf"pay (?P<x>{_MONEY}(?: (?:a|per) month)?)(?: (?:in|for|of))?(?: (?:the|our|my))? rent\b", _RENT),
    i_rule(
        r"(?:have|got) (?P<who>)" + _HAIR,
        Template(
            content="User has {x} hair.",
            predicate="hair",
            category="user-profile/details",
            tags=("details",),
        ),
    ),
    i_rule(
        r"(?:got|have got|finally got|have been) (?P<x>married|divorced|engaged)(?=\s*$|[.,!]| (?:last|this|in|"
        r"on|to|at|yesterday|two|a)\b)"
        r"(?P<when> (?:in (?:\w+ )?(?:19|20)\d\d|on \d.*|in (?-i:[A-Z])[a-z]+)(?=$|[.,!]))?",
        wed,
    ),
    i_rule(
        r"(?:am|work as) an? [\w -]{3,40}? (?:at|for) (?P<x>an? (?:[\w-]+ )?(?:company|startup|bank|school|hospital|"
        r"agency|law firm|university|hotel|restaurant|bakery|library|museum|factory|shop|store|clinic|nursery))\b",
        _EMPLOYER,
    ),
    any_rule(r"(?P<x>[A-Z][a-z]+) is (?:my|our) (?:mother tongue|native language|first language)\b", of_language),
    any_rule(
        r"(?P<whose>my|our|the) (?P<what>[\w' -]{2,40}?) (?:is|are) due (?P<x>(?:on |by |in |next |this )?.+)", due
    ),
    any_rule(
        r"(?P<x>[a-z][\w -]{2,30}?) tastes? (?:like|of) (?:soap|dirt|mud|metal|cardboard|feet|socks|perfume) to me\b",
        lambda groups, _clause: [taste(groups["x"], "does not like", positive=False)],
    ),
    my_rule(
        r"(?P<who>landlord|landlady|doctor|dentist|boss|manager|vet|gp|therapist|teacher|lawyer|accountant|supervisor) "
        r"is (?:called |named )?(?P<x>(?:Mr|Mrs|Ms|Miss|Dr|Prof)\b\.? (?-i:[A-Z])[\w'-]+)",
        _TITLED,
    ),
    my_rule(r"(?:mother tongue|native language|first language) is (?P<x>[A-Z]\w+)", of_language),
    any_rule(
        rf"the budget(?: for (?P<what>(?:the |our |my )?[\w' -]{{2,30}}?))? is (?P<x>{_MONEY})(?=\s*$|[.,!]| now\b)",
        budget,
    ),
)
