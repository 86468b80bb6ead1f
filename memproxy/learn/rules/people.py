"""Rules for who the user is: name, age, birthday, family and friends, pets, health."""

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
    is_given_name,
    is_name,
    trimmed,
)
from memproxy.learn.rules.words import (
    DEMONYMS,
    KIN,
    ONE_OF_A_KIND,
    PEOPLE,
    PLURAL_KIN,
)

_NAME = Template(
    content="User's name is {x}.",
    predicate="name",
    category="user-profile/name",
    stop="name",
    check=is_given_name,
    tags=("name",),
    importance=0.9,
)

_INTRODUCED = Template(
    content="User's name is {x}.",
    predicate="name",
    category="user-profile/name",
    stop="name",
    check=is_name,
    tags=("name",),
    importance=0.9,
    confidence=LESS_SURE,
)

_CALLED = Template(
    content="User wants to be called {x}.",
    predicate="preferred_name",
    category="user-preferences/name",
    stop="name",
    check=is_given_name,
    tags=("name",),
    importance=0.9,
)

NUMBER_WORDS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
}

COUNT = r"(?P<count>\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten)"

PERSON = (
    rf"(?P<who>(?:(?:older|younger|little|big|twin|eldest|youngest|oldest|late|elder|middle|old|new|"
    rf"step|best)\s+)?(?:{'|'.join(sorted(map(re.escape, PEOPLE), key=len, reverse=True))}))"
)

_AT_HOME = "|".join(
    sorted(
        map(re.escape, KIN | {"wife", "husband", "girlfriend", "boyfriend", "roommate", "flatmate"}),
        key=len,
        reverse=True,
    )
)
SIZE = (
    r"(?:(?:old|new|little|big|small|young|lovely|beloved|first|second|other|two|three|fluffy|rescue|"
    r"black|white|brown|grey|gray|orange|golden|cute|older|elderly)\s+)*"
)


def introduced(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“I am Sam”: a name only when nothing follows that makes it something else."""
    name, comma, _ = clause.text.rstrip(" .!").partition(", ")
    if comma:
        groups = {**groups, "x": re.sub(r"^.*?\bam ", "", name, flags=re.IGNORECASE)}
        if not is_name(groups["x"]):
            return
    if name.count(" ") <= 4 and re.search(r"\bam (?-i:[A-Z]{2,4})\b", clause.text) is None:
        yield from (found for found in _INTRODUCED(groups, clause) if (found.object or "").lower() not in DEMONYMS)


def age(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """The user's age in years."""
    years = int(groups["age"])
    if 5 <= years <= 110:
        yield Extracted(
            content=f"User is {years} years old.",
            subject="user",
            predicate="age",
            object=str(years),
            category="user-profile/age",
            tags=("age",),
            confidence=SURE,
            importance=0.6,
        )


def birthday(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """The day of birth; of the user, or of somebody of the user's (``who``)."""
    day = dates.find(groups["x"], clause.said_at, past=True)
    if day is not None and day.is_relative:
        day = dates.find(groups["x"], clause.said_at)
    if day is None or day.place > 14:
        return
    who = _who(groups)
    value = day.value if not day.is_relative else f"{day.start:%d %B}".lstrip("0")
    yield Extracted(
        content=f"{who[0]} birthday is {value}." if not groups.get("born") else f"{who[1]} was born {day.text}.",
        subject=who[2],
        predicate="birthday",
        object=value,
        category="user-profile/birthday",
        tags=("birthday",),
        confidence=SURE,
        importance=0.7,
    )


def _who(groups: Groups) -> tuple[str, str, str]:
    who = groups.get("who")
    if not who:
        return ("User's", "User", "user")
    return (f"User's {who.lower()}'s", f"User's {who.lower()}", f"user's {who.lower()}")


def person(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """Somebody's name ("my wife Clara", "my sister's name is Ana")."""
    name = trimmed(groups["x"], "name")
    if name is None or not (is_name(name) if groups.get("bare") is not None else is_given_name(name)):
        return
    yield named_person(groups["who"].lower(), name.removesuffix("'s"))


def named_person(who: str, name: str) -> Extracted:
    """Somebody of the user's, by name."""
    is_one = who in ONE_OF_A_KIND
    return Extracted(
        content=f"User's {who} is named {name}.",
        subject="user",
        predicate=who.replace(" ", "_") if is_one else f"has_{who.rsplit(maxsplit=1)[-1]}",
        object=name,
        category="user-profile/family" if who.rsplit(maxsplit=1)[-1] in KIN or is_one else "user-profile/people",
        tags=("people", who),
        entities=(name,),
        relations=(Relation(subject="user", predicate=f"has_{who.replace(' ', '_')}", object=name),),
        confidence=SURE,
        importance=0.7,
    )


def people(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """How many of a kind of relatives ("two kids", "a daughter")."""
    word = groups["who"].lower()
    kind = PLURAL_KIN.get(word, word)
    if kind in PEOPLE and (names := names_of(groups.get("x") or "")):
        yield from (named_person(kind, name) for name in names)
        if len(names) > 1 and kind in ("child", "kid"):
            yield _number(kind, groups["count"], word)
        return
    if kind in PEOPLE and kind not in (
        "doctor",
        "teacher",
        "coach",
        "accountant",
        "lawyer",
        "friend",
        "colleague",
    ):
        yield _number(kind, groups["count"], word)


def names_of(text: str) -> list[str]:
    """The proper names of a list."""
    found = [trimmed(part, "name") for part in re.split(r"\s*,\s*|\s+and\s+|\s*&\s*", text)]
    return [name for name in found if name is not None and is_name(name)]


def _number(kind: str, count: str, word: str) -> Extracted:
    number = NUMBER_WORDS.get(count.lower(), 1 if count.lower() in ("a", "an") else count)
    return Extracted(
        content=f"User has {count.lower()} {word}.",
        subject="user",
        predicate=f"number_of_{kind}",
        object=str(number),
        category="user-profile/family",
        tags=("family", kind),
        confidence=SURE,
        importance=0.6,
    )


_STATUS = Template(
    content="User is {x}.",
    predicate="marital_status",
    category="user-profile/family",
    importance=0.6,
    check=lambda value: value.lower() in {"married", "single", "divorced", "engaged", "widowed", "separated"},
)


RULES: tuple[Rule, ...] = (
    my_rule(r"(?:full |first |real |given )?name is (?:spelled |spelt )?(?P<x>.+)", _NAME),
    any_rule(r"the name is (?P<x>.+)", _INTRODUCED),
    any_rule(r"name(?:'s| is) (?P<x>.+)", _INTRODUCED),
    my_rule(r"(?:nickname is|friends call me) (?P<x>.+)", _CALLED),
    any_rule(
        r"(?:please |you can |you may |just |everyone |everybody |people |friends |they |do )*calls? me (?P<x>.+)",
        _CALLED,
    ),
    i_rule(r"(?:go|goes) by (?P<x>.+)", _CALLED),
    i_rule(r"(?:am|are) (?:called|named) (?P<x>.+)", _NAME),
    i_rule(
        r"(?:prefer|want|would like|like) (?:to be called|being called|to go by) (?P<x>.+)",
        _CALLED,
    ),
    i_rule(r"am (?P<x>.+)", introduced),
    any_rule(r"(?P<x>[A-Z]\w+) here\b(?=\s*$|[.,!])", _INTRODUCED),
    i_rule(
        r"(?:am|turned|will be|am turning) (?P<age>\d{1,3})(?=\s*$|[.,!;]| years?[ -]old\b|-years?-old\b| now\b| "
        r"this\b| last\b| today\b| next\b| yesterday\b| and\b| on \w+day\b)",
        age,
    ),
    my_rule(r"age is (?P<age>\d{1,3})\b", age),
    my_rule(r"birthday (?:is|falls) (?:on |in )?(?P<x>.+)", birthday),
    i_rule(r"was born (?P<born>)(?P<x>(?:on|in) .+)", birthday),
    any_rule(rf"(?:my|our) {PERSON}'s birthday is (?:on |in )?(?P<x>.+)", birthday),
    any_rule(
        rf"(?:my|our|with my|and my|me and my|this is my) {PERSON},? (?:is |are )?(?:called |named "
        rf")?(?P<bare>)(?P<x>[^\W\d_].*)",
        person,
    ),
    any_rule(
        rf"(?:my |our )?new {PERSON}(?: since \w+| now| here)?(?:: | is |, )(?:called |named "
        rf")?(?P<bare>)(?P<x>(?-i:[A-Z]).*)",
        person,
    ),
    any_rule(rf"(?:my|our) {PERSON}(?:'s name is| is called| is named) (?P<x>.+)", person),
    any_rule(
        rf"(?P<x>[^\W\d_][\w'-]+) is my {PERSON}(?P<bare>)(?=\s*$|[.,!;]| and\b| who\b)",
        person,
    ),
    i_rule(
        rf"(?:have|got) {COUNT} (?:(?:older|younger|little|big|grown|adult|small|young|"
        rf"teenage)\s+)*(?P<who>\w+(?:-in-law)?)\b(?:(?:,|:)? ?(?:called |named )?(?P<x>.+))?",
        people,
    ),
    i_rule(
        r"have an? (?:(?:older|younger|little|big|grown|baby|adult|teenage|twin|\w+[- ]year[- ]old)\s+)*"
        rf"(?P<who>{_AT_HOME})\b,? (?:called |named |whose name is )?(?P<count>)(?P<x>[^\W\d_].*)",
        lambda groups, clause: person({**groups, "bare": ""}, clause),
    ),
    i_rule(
        rf"(?P<count>)have (?P<article>an?) (?:(?:older|younger|little|big|baby|twin|\w+[- ]year[- "
        rf"]old)\s+)*(?P<who>{'|'.join(map(re.escape, sorted(KIN, key=len, reverse=True)))})(?=\s*$|[.,!;]| who\b| "
        rf"and\b)",
        lambda groups, clause: people({**groups, "count": groups["article"]}, clause),
    ),
    i_rule(
        r"(?:am|are|got) (?:happily |recently )?(?P<x>married|single|divorced|engaged|widowed|separated)(?=\s*$|"
        r"[.,!;]| with\b| and\b| now\b| to\b| for\b| again\b| since\b)",
        _STATUS,
    ),
    i_rule(
        r"am (?:married|engaged) to (?P<x>.+)",
        lambda groups, clause: person({**groups, "who": "partner", "bare": ""}, clause),
    ),
    i_rule(
        r"(?:named|called|have named) (?:the|our|my) (?:new )?(?:baby )?(?P<who>baby|daughter|son|girl|boy)(?: girl|"
        r" boy)? (?P<bare>)(?P<x>[A-Z].*)",
        person,
    ),
)
