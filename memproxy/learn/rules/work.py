"""Rules for the user's work and study."""

import re
from collections.abc import Iterable

import msgspec

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
    last_words,
    names_in,
    trimmed,
)
from memproxy.learn.rules.words import (
    OCCUPATIONS,
    WEAK_OCCUPATIONS,
)

_SUFFIXES = (
    "ologist",
    "ographer",
    "engineer",
    "developer",
    "manager",
    "analyst",
    "therapist",
    "teacher",
    "officer",
    "practitioner",
    "scientist",
)


def is_occupation(value: str) -> bool:
    """Whether it ends in a trade."""
    word = last_words(value, OCCUPATIONS)
    return (word is not None and word not in WEAK_OCCUPATIONS) or value.lower().endswith(_SUFFIXES)


_WORK = "user-profile/work"

_JOB = Template(
    content="User works as {x}.",
    predicate="job_title",
    tags=("work", "job"),
    importance=0.8,
    category=_WORK,
    check=lambda value: not value.lower().startswith(("a team", "expected", "intended", "if")),
)

_EMPLOYER = Template(
    content="User works at {x}.",
    predicate="employer",
    tags=("work", "employer"),
    importance=0.8,
    relation="works_at",
    category=_WORK,
    check=lambda value: (
        re.match(
            r"(?:home|night|the moment|least|it|weekends?|all|a (?:different|new)|my own|myself|hours|days?|free|me|"
            r"noon|the (?:office|weekend|time)|[\d:]+|two|three|four|five|ten)\b",
            value,
            re.IGNORECASE,
        )
        is None
    ),
)

_ROLE = Template(
    content="User is {x}.",
    predicate="job_title",
    tags=("work", "job"),
    importance=0.8,
    check=is_occupation,
    category=_WORK,
)


_ONE_OF_ITS_KIND = re.compile(
    r"(?:an?|the|my|c[eftmpi]o|ciso|head|chair|president|editor-in-chief|vp|partner|captain|principal)\b", re.IGNORECASE
)


def _promoted(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“I got promoted to senior developer”, with its article."""
    said = groups["x"]
    if not _ONE_OF_ITS_KIND.match(said):
        said = f"{'an' if said[:1].lower() in 'aeiou' else 'a'} {said}"
    yield from _ROLE({**groups, "x": said}, clause)


_NOT_PRACTISED = re.compile(
    r"\b(?:retired|former|ex|trainee|aspiring|student|qualified|certified|licensed|trained|unemployed|would-be|future|"
    r"amateur|hobby|terrible|bad|good|great|better|lousy|frustrated|failed|born|mother|father|mum|mom|dad)\b",
    re.IGNORECASE,
)
"""With these a trade is named that is no job."""


def job(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """A trade, and the employer that may follow ("a nurse at Charité")."""
    where = re.search(
        r"^[\w\s-]+? (?P<where>(?:(?:in|at) an? [\w-]+(?: [\w-]+)? )?(?:in|near|from) (?-i:[A-Z])[\w-]+(?: "
        r"(?-i:[A-Z])[\w-]+)*)",
        groups["x"],
        re.IGNORECASE,
    )
    for found in _JOB(groups, clause) if groups.get("as") else _ROLE(groups, clause):
        content = f"{found.content[:-1]} {where['where']}." if where else found.content
        if not groups.get("as") and _NOT_PRACTISED.search(content) is None:
            content = content.replace("User is a", "User works as a", 1)  # as it is asked for: "what do I do for work?"
        yield msgspec.structs.replace(found, content=content)
        rest = re.search(r"\b(?:at|for) (?P<x>.+)", groups["x"])
        if rest is not None and (employer := trimmed(rest["x"], "short")) and employer[0].isupper():
            yield from _EMPLOYER({"x": rest["x"]}, clause)


def role_beside_name(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“I am Bertalan, co-founder of Mycelia Pack”."""
    yield from role_at({"x": groups["x"], "of": groups["of"], "where": groups["where"]}, clause)


def role_at(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“The CTO of Acme”: a trade and the employer."""
    title = trimmed(groups["x"], "short")
    if title is not None and re.search(
        r"\b(?:c[eftmpi]o|ciso|founder|co-?founder|head|lead|director|owner|president|manager|vp|principal|editor|"
        r"chair\w*)\b",
        title,
        re.IGNORECASE,
    ):
        where = trimmed(groups["where"], "short")
        if where is None:
            return
        yield Extracted(
            content=f"User is the {title} {groups['of'].lower()} {where}.",
            subject="user",
            predicate="job_title",
            object=title if where[:1].isupper() else f"{title} {groups['of'].lower()} {where}",
            tags=("work", "job"),
            entities=tuple(names_in(where)),
            confidence=SURE,
            importance=0.8,
            category=_WORK,
        )
        if where[0].isupper() and groups["of"].lower() == "of":
            yield from (
                msgspec.structs.replace(found, confidence=LESS_SURE) for found in _EMPLOYER({"x": where}, clause)
            )


def started_at(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """A new employer, since the day that is said."""
    since = dates.since(clause.text, clause.said_at)
    yield from (
        msgspec.structs.replace(found, valid_from=since)
        for found in _EMPLOYER(groups, clause)
        if found.content.removeprefix("User works at ")[:1].isupper()
    )


_STUDY = Template(
    content="User studies {x}.",
    predicate="studies",
    tags=("study",),
    importance=0.6,
    stop="short",
    category="user-profile/education",
    check=lambda value: (
        re.match(
            r"(?:hard|a lot|for|together|all|alone|every|with|the (?:docs|code|problem))\b",
            value,
        )
        is None
    ),
)


RULES: tuple[Rule, ...] = (
    i_rule(
        r"am (?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)?, (?:the |an? )?(?P<x>[\w -]{3,40}?) (?P<of>of|at) "
        r"(?P<where>(?-i:[A-Z]).+)",
        role_beside_name,
    ),
    i_rule(r"(?:earn|make|get paid) [$€£]?\d\S* (?:\w+ ){0,3}?as (?P<x>an? .+)", job),
    i_rule(
        r"(?:work|am working|have been working|have worked|work full[- ]time|work part[- ]time|started working|"
        r"started|freelance) (?P<as>as) (?P<x>.+)",
        job,
    ),
    i_rule(r"am (?P<x>an? .+)", job),
    any_rule(r"as (?P<x>an? .+)", job),
    any_rule(
        r"(?:my|our) (?:job|occupation|profession|job title|day job|title|role) is (?:as |being |that of "
        r")?(?P<as>)(?P<x>.+)",
        lambda groups, clause: [found for found in _JOB(groups, clause) if is_occupation(found.object or "")],
    ),
    i_rule(
        r"(?:am|are|was made|became|got promoted to|was promoted to|have been promoted to) (?:the |now the "
        r")?(?P<x>[\w\s-]{2,40}?) (?P<of>of|at|for) (?P<where>.+)",
        role_at,
    ),
    i_rule(
        r"(?:became|got promoted to|was promoted to|have been promoted to|am training to be|am studying to be|"
        r"retrained as|am training as) (?P<x>.+)",
        _promoted,
    ),
    i_rule(
        r"(?:work|am working|have been working|have worked|am employed)(?: as [\w\s-]+?| \w+| night shifts| part[- "
        r"]time| full[- ]time)? (?:at|for) (?P<x>.+)",
        _EMPLOYER,
    ),
    i_rule(
        r"(?:work|am working|have been working|have worked) in (?P<x>.+)",
        Template(
            content="User works in {x}.",
            predicate="works_in",
            tags=("work",),
            confidence=SURE,
            stop="short",
            category=_WORK,
            check=lambda value: (
                re.match(
                    r"(?:an? |the (?:morning|evening|office|same)|shifts|sprints|progress|my|pairs|python|excel)",
                    value,
                    re.IGNORECASE,
                )
                is None
            ),
        ),
    ),
    i_rule(
        r"(?:have )?(?:joined|started (?:a|my) (?:new )?job (?:at|with)|got hired (?:at|by)|was hired by|moved over "
        r"to work (?:at|for)|started at|started working (?:at|for)|got a (?:new )?job (?:at|with)|start a "
        r"new job at|have a "
        r"new job at|have started at|have joined|switched jobs to|now work (?:at|for)) (?P<x>.+)",
        started_at,
    ),
    my_rule(
        r"(?:employer|company|new employer|new job) is (?:at |with |called )?(?P<x>[A-Z].*)",
        started_at,
    ),
    i_rule(
        r"work (?P<x>from home|remotely|night shifts|nights|part[- ]time|freelance|shifts|the night shift|in shifts|"
        r"four days a week|weekends)\b(?! (?:on|until|till|when|twice|once|some|sometimes|tomorrow|today|this|"
        r"next|every|now "
        r"and then)\b)",
        Template(
            content="User works {x}.",
            predicate="work_arrangement",
            tags=("work",),
            stop="long",
            category=_WORK,
        ),
    ),
    i_rule(
        r"(?:am|are) (?P<x>retired|unemployed|self-employed|semi-retired|on parental leave|on maternity leave|on "
        r"sabbatical|between jobs)\b",
        Template(
            content="User is {x}.",
            predicate="employment_status",
            tags=("work",),
            stop="long",
            category=_WORK,
        ),
    ),
    i_rule(
        r"(?:teach) (?P<x>.+)",
        Template(
            content="User teaches {x}.",
            predicate="teaches",
            tags=("work",),
            category=_WORK,
        ),
    ),
    i_rule(
        r"(?:run|own|founded|started|co-founded|opened) (?P<x>(?:my|our|an?) (?:[\w-]+ ){0,3}?"
        r"(?:company|business|startup|bakery|workshop|garage|guesthouse|guest house|b&b|hostel|nursery|gallery|school|"
        r"clinic|practice|club|choir|group|kennel|brewery|pub|salon|stall|food truck|kindergarten|daycare|"
        r"cafe|café|restaurant|shop|store|agency|studio|blog|podcast|farm|"
        r"bookshop|bookstore|hotel|bar|salon|newsletter|youtube channel|channel|charity)\b.*)",
        Template(
            content="User runs {x}.",
            predicate="runs",
            tags=("work",),
            importance=0.7,
            category=_WORK,
        ),
    ),
    i_rule(
        r"(?:study|am studying|major in|am majoring in|studied|am doing (?:a|my) (?:phd|master's|masters|bachelor's|"
        r"degree|mba) in) (?P<x>.+)",
        _STUDY,
    ),
    i_rule(
        r"am (?:doing|finishing|starting|pursuing|writing|working on) (?:a|my) (?P<x>(?:phd|master's|masters|"
        r"doctorate|bachelor's|mba)\b.*)",
        Template(
            content="User is doing a {x}.",
            predicate="degree",
            tags=("study",),
            stop="long",
            category="user-profile/education",
            importance=0.6,
        ),
    ),
    i_rule(
        r"(?:graduated|got (?:my|a) (?:degree|phd|master's)|have a (?:degree|phd|master's)) (?:from|in) (?P<x>.+)",
        Template(
            content="User graduated from {x}.",
            predicate="graduated_from",
            tags=("study",),
            category="user-profile/education",
            stop="place",
            check=lambda value: value[0].isupper(),
        ),
    ),
)
