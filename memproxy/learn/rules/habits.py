"""Rules for what the user does regularly, and for what happened to the user."""

import re
from collections.abc import Iterable

from memproxy.core.memory import Kind
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.model import (
    LESS_SURE,
    SURE,
    Clause,
    Groups,
    Rule,
    Template,
    i_rule,
)
from memproxy.learn.rules.values import (
    names_in,
    slug,
    third_person,
    trimmed,
)

_REGULARLY = (
    r"every (?:other |second |single )?(?:day|week|month|year|morning|evening|night|weekend|monday|"
    r"tuesday|wednesday|thursday|friday|saturday|sunday|spring|summer|autumn|fall|winter)\b|(?:once|"
    r"twice|(?:two|three|four|five) times) (?:a|per) (?:day|week|month|year)|on (?:mon|tues|wednes|"
    r"thurs|fri|satur|sun)days|each (?:morning|evening|night|week|month)"
)

_WHEN = re.compile(
    rf"\s+(?:(?:only |mostly |always |about )?(?:{_REGULARLY})|(?:on|in|at|with|for|from|since|to|by"
    rf"|about|around|until|near|"
    r"without|after|before)\b)",
    re.IGNORECASE,
)
"""Where the answer begins to how, when and where something is done."""

_NO_HABIT = re.compile(
    r"(?:eat|drink|smoke|used|get|see|have|think|wonder|try|am|need|want|hope|run into|hit|got"
    r"|getting|seeing|having|trying|forget|"
    r"forgetting|wondering|thinking|learn|need to|looking|look)\b",
    re.IGNORECASE,
)


def habit(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """What is done every week, in whatever words ("I am taking my dad to the clinic every Tuesday")."""
    said = trimmed(groups["x"], "whole")
    if (
        said is None
        or _NO_HABIT.match(said)
        or re.match(r"\w+ (?:on |with |at )?(?:it|this|that|them|these|you)\b", said)
        or len(said.split()) < 3
    ):
        return
    does = f"is {said}" if groups.get("being") else third_verb(said)
    when = _WHEN.search(said)
    what, answer = (said[: when.start()], said[when.start() :].strip()) if when else (said, said)
    yield Extracted(
        content=f"User {third_person(does)}.",
        subject="user",
        predicate=f"routine_{slug(what)}"[:80],
        object=third_person(answer),
        category="user-profile/routine",
        tags=("routine",),
        entities=tuple(names_in(said)),
        confidence=LESS_SURE,
    )


def only(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I only drink oat milk”."""
    said = trimmed(groups["x"], "long")
    if (
        said is None
        or re.match(r"\w+ (?:it|this|that|them|one)\b", said)
        or (said.split()[0] == "use" and not names_in(said))
    ):
        return
    yield Extracted(
        content=f"User only {third_person(third_verb(said))}.",
        subject="user",
        predicate=f"only_{slug(said.split()[0])}",
        object=third_person(said),
        category="user-preferences/general",
        tags=("preferences",),
        confidence=SURE,
    )


PAST = frozenset(
    """
    went took got did had was were made began ran ate drank taught saw wore misunderstood understood found lost told
    gave bought brought thought caught sold kept left met built spent felt held grew knew threw flew drove rode wrote
    broke chose spoke woke stole froze rose fell sang swam rang sank stuck won hung sat stood slept wept swept paid laid
    said heard led fed bred became overcame came forgot forgave lent bent dealt meant learnt burnt dreamt shot sought
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
"""Past forms that are no present of another verb."""


def third_verb(said: str) -> str:
    """The words with their first verb in the third person."""
    first, _, rest = said.partition(" ")
    if first.lower() in ("only", "also", "still", "mostly", "mainly", "usually", "now") and rest:
        return f"{first} {third_verb(rest)}"
    if first.endswith("ed") or first.lower() in PAST:
        return said
    irregular = {"go": "goes", "do": "does", "have": "has", "am": "is", "are": "is"}
    if first.endswith(("s", "sh", "ch", "x", "z")):
        third = f"{first}es"
    elif first.endswith("y") and first[-2:-1] not in "aeiou":
        third = f"{first[:-1]}ies"
    else:
        third = f"{first}s"
    return f"{irregular.get(first.lower(), third)} {rest}".strip()


def routine(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """Something done regularly."""
    verb, said = groups["verb"].lower(), groups["x"]
    when = trimmed(said.partition(", ")[0] if said.startswith("at ") else said, "whole")
    if when is None:
        return
    yield Extracted(
        content=f"User {third_verb(verb)} {third_person(when)}.",
        subject="user",
        predicate=f"routine_{slug(verb)}",
        object=third_person(when),
        category="user-profile/routine",
        tags=("routine",),
        confidence=SURE,
    )


_DONE = re.compile(
    r"(?:visited|went to|attended|celebrated) [A-Z\d]|(?:visited|attended|celebrated|went to) (?:my|our|an?|the) |"
    r"ran (?:a|my|the) (?:\w+ ){0,2}(?:marathon|race|10k|5k)|broke my|sprained my|fractured my|"
    r"(?:passed|failed) (?:my|the|an?) .*\b(?:exam|exams|driving test|test|bar|certification)|graduated|won |"
    r"climbed |defended my |published |got promoted(?! to)|gave birth|proposed|finished (?:my|the) (?:degree|"
    r"phd|thesis|"
    r"marathon|novel|book|masters?)"
)

_NOT_DONE = re.compile(
    r"\b(?:office|store|shop|website|page|link|meeting|bathroom|docs|documentation|tests|url|bed|sleep|work|repo|"
    r"commit|package|branch|doctor)\b",
    re.IGNORECASE,
)


def happened(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """Something of note that happened, with its day where one is said."""
    what = trimmed(groups["x"], "whole")
    if what is None or _DONE.match(what) is None or _NOT_DONE.search(what):
        return
    day = dates.find(groups["x"], clause.said_at, past=True)
    if day is not None and dates.midnight(day.start) > clause.said_at:
        return
    noted = (
        what
        if day is None or day.text not in groups["x"]
        else groups["x"].rstrip(" .!").replace(day.text, day.noted, 1)
    )
    yield Extracted(
        content=f"User {third_person(noted)}.",
        kind=Kind.EPISODIC,
        subject="user",
        predicate=slug(what.split()[0]),
        object=third_person(what),
        category="events/personal",
        tags=("event",),
        entities=tuple(names_in(what)),
        confidence=SURE,
        importance=0.5,
        valid_from=dates.midnight(day.start) if day is not None else None,
    )


RULES: tuple[Rule, ...] = (
    i_rule(
        r"(?P<x>cycle|walk|bike|run|drive|carpool|skate|scoot) to (?:work|school|uni|campus|the office)\b",
        Template(
            content="User commutes: {x} to work.",
            predicate="commute",
            object="{x}",
            category="user-profile/routine",
        ),
    ),
    i_rule(
        r"(?:have )?(?P<x>(?:visited|went|attended|celebrated|ran|broke|sprained|fractured|passed|failed|graduated|"
        r"won|climbed|defended|published|got promoted|gave birth|finished) ?.*)",
        happened,
    ),
    i_rule(
        r"(?P<verb>run|swim|meditate|work out|go to the gym|go running|jog|cycle|bike to work|cycle to work|journal|"
        r"do yoga|go swimming|go climbing|go hiking|go for a run|wake up|get up|go to bed|have dinner|eat dinner|"
        r"eat lunch|do pilates|lift weights) (?P<x>(?:every|each|at \d+|around \d+|on (?:mon|tues|wednes|thurs|fri|"
        r"satur|sun)days?|twice|once|three times|four times|five times|\w+ times|in the (?:morning|evening)|before|"
        r"after|daily|most)\b.*)",
        routine,
    ),
    i_rule(
        rf"(?:am|are) (?P<being>)(?P<x>[a-z]+ing .*\b(?:{_REGULARLY})\b.*)",
        lambda groups, clause: habit({**groups, "being": "being"}, clause),
    ),
    i_rule(
        rf"(?P<x>(?!am |are |do not |cannot |will |have )[a-z]+ .*\b(?:{_REGULARLY})\b.*)",
        habit,
    ),
    i_rule(r"only (?P<x>(?:eat|drink|use|wear|read|fly|buy|watch|listen to|play) .+)", only),
    i_rule(
        r"(?:commute|get to work|go to work|travel to work) (?P<x>by .+)",
        Template(
            content="User commutes {x}.",
            predicate="commute",
            object="{x}",
            category="user-profile/routine",
            check=lambda value: len(value.split()) < 5,
        ),
    ),
    i_rule(
        r"(?:take|ride) (?P<x>the (?:train|bus|tram|subway|metro|underground|tube|ferry|bike|s-bahn|u-bahn)) to "
        r"(?:work|school|"
        r"the office|university|uni)\b",
        Template(
            content="User takes {x} to work.",
            predicate="commute",
            category="user-profile/routine",
        ),
    ),
    i_rule(
        r"am (?:an? )?(?:active |proud |founding )?member of (?P<x>.+)",
        Template(
            content="User is a member of {x}.",
            predicate="member_of",
            category="user-profile/groups",
            tags=("groups",),
        ),
    ),
    i_rule(
        r"(?:volunteer|am volunteering|have volunteered) (?:at|for|with) (?P<x>.+)",
        Template(
            content="User volunteers at {x}.",
            predicate="volunteers_at",
            category="user-profile/groups",
            tags=("groups",),
        ),
    ),
)
