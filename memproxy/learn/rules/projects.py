"""Rules for the tools that the user works with, for decisions and projects."""

import re
from collections.abc import Iterable

import msgspec

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.kinds import is_product
from memproxy.learn.rules.model import (
    LESS_SURE,
    SURE,
    Clause,
    Groups,
    Rule,
    Template,
    i_rule,
    my_rule,
)
from memproxy.learn.rules.values import (
    bare,
    items,
    names_in,
    slug,
    third_person,
    trimmed,
)
from memproxy.learn.rules.words import (
    DAY_NAMES,
    TOOLS,
)

_NOT_USED = re.compile(
    r"(?:the (?:following|same|code|command|function|first|second|method)|it|this|that|these|an? (?:lot|different|"
    r"similar|for|while|loop|function|list|"
    r"regex|class|dictionary|variable|custom|new|few|mix)|your|my (?:\d|hands|phone|head|own)|to|for|chatgpt|you)\b",
    re.IGNORECASE,
)


def uses(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """A tool. Its slot is its version if one is said, what it is for, or the tool itself."""
    for value in items(groups["x"]):
        what = trimmed(value, "short") if value else None
        if what is None or _NOT_USED.match(what) or not is_tool(what):
            continue
        purpose = re.search(
            (
                r"\b(?:for|as) (?!about|over|almost|an? |the (?:last|past)|\d|two|three|four|five|six|many|some|"
                r"years|months|weeks|now|myself|free|it\b|this\b|that\b|all\b|everything)(?P<p>.+)"
            ),
            groups["x"],
        )
        stated = tool(what, trimmed(purpose["p"], "long") if purpose else None)
        if purpose is not None and purpose.group().startswith("as "):
            said = stated.content.replace(f"{third_person(what)} for ", f"{third_person(what)} as ", 1)
            stated = msgspec.structs.replace(stated, content=said)
        yield stated


def tool(what: str, purpose: str | None) -> Extracted:
    """The statement that the user uses a tool."""
    version = re.fullmatch(r"(?P<name>.+?)\s+v?(?P<number>\d[\w.]*)", what)
    if purpose:
        predicate = f"uses_for_{slug(re.sub(r'^(?:my|our|the|all) ', '', purpose))}"
    elif version:
        predicate = f"{slug(version['name'])}_version"
    else:
        predicate = "uses"
    return Extracted(
        content=f"User uses {third_person(what)}{f' for {third_person(purpose)}' if purpose else ''}.",
        subject="user",
        predicate=predicate,
        object=bare(third_person(what)),
        category="projects/tools",
        tags=("tools",),
        entities=tuple(names_in(what)) or (bare(what),),
        confidence=SURE,
        importance=0.6,
    )


def is_tool(value: str) -> bool:
    """Whether it is the name of something that somebody works with."""
    plain = re.sub(r"\s+v?\d[\w.]*$", "", bare(value))
    if plain.lower().split()[0].removesuffix("s") in DAY_NAMES:
        return False
    return (
        plain.lower() in TOOLS
        or is_product(plain)
        or any(part[:1].isupper() or re.match(r"[a-z]+\d", part) or part.lower() in TOOLS for part in plain.split())
    )


def team_uses(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """What the user's team or project uses."""
    for found in uses(groups, clause):
        content = found.content.replace("User uses", f"User's {groups['what'].lower()} uses", 1)
        yield msgspec.structs.replace(found, content=content)


_DECIDED = re.compile(
    r"(?:what|how|whether|if|between|on my own|my|our|her|him|them|his|their|you|some|a few|it|this|that"
    r"|to (?:ask|try|check|see|go ahead|tell|give (?:it|them)|treat|(?:get|do|use|buy) (?:it|this|that|one)))\b",
    re.IGNORECASE,
)


def decided(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """A decision. It has no slot of its own: what it is an answer to is rarely said."""
    what = trimmed(groups["x"], "whole")
    if what is None or _DECIDED.match(what):
        return
    third = third_person(what)
    verb = groups["verb"].lower()
    purpose = re.match(r"(?P<x>.+?) (?:for|as) (?P<what>(?:the|our|my|their) [\w' -]+)", what)
    if purpose is not None and verb != "decided":
        yield _choice(purpose["x"], purpose["what"])
        return
    said = {
        "going with": "is going with",
        "settled on": "settled on",
        "went with": "went with",
        "chose": "chose",
        "decided": "decided",
        "agreed": "agreed",
    }
    yield Extracted(
        content=f"User {said.get(verb, verb if verb.startswith('ended up') else 'chose')} {third}.",
        subject="user",
        predicate=f"decided_{slug(what)}"[:80],
        object=third,
        category="projects/decisions",
        tags=("decisions",),
        entities=tuple(names_in(what)),
        confidence=SURE,
        importance=0.7,
    )


def _choice(what: str, purpose: str) -> Extracted:
    """What was chosen for something: another choice for the same replaces it."""
    return Extracted(
        content=f"User chose {third_person(what)} for {third_person(purpose)}.",
        subject="user",
        predicate=f"chosen_for_{slug(re.sub(r'^(?:the|our|my) ', '', purpose))}"[:80],
        object=bare(third_person(what)),
        category="projects/decisions",
        tags=("decisions",),
        entities=tuple(names_in(what)),
        confidence=SURE,
        importance=0.7,
    )


_WRITTEN = Template(
    content="User's {what} is written in {x}.",
    predicate="{what_slug}_language",
    category="projects/tools",
    tags=("tools",),
)


def _decision(groups: Groups, clause: Clause) -> Groups:
    """The verb without its auxiliary, and "to"/"that" kept where the sentence needs it."""
    verb = groups["verb"].lower().removeprefix("have ").removeprefix("are ").removeprefix("am ")
    verb = {"chosen": "chose", "agreed": "agreed"}.get(verb, verb)
    joined = re.search(r"\b(?:decided|agreed) (that|to|on|against)\b", clause.text)
    said = groups["x"]
    return {"verb": verb, "x": f"{joined[1]} {said}" if joined and not said.startswith(joined[1]) else said}


RULES: tuple[Rule, ...] = (
    i_rule(
        r"(?:use|are using|am using|have been using|use only|only use|work with|develop with|are on|am on|run on|"
        r"are running on|are running|run|code in|program in|write in|write|develop in|host on|deploy to"
        r"|deploy on|deploy with|deploy via|test with|"
        r"build with|rely on|mainly code in) (?!(?:the |a )?(?:board|committee|team|council|ward|shift|phone|call|"
        r"jury|list|"
        r"panel|way|road|bus|train|fence|mend|verge|edge|side)\b)(?P<x>.+)",
        uses,
    ),
    my_rule(
        r"(?P<what>team|company|startup|project|side project|app|backend|frontend|website|site|server|codebase|"
        r"stack|api|service|department|pipeline|cluster) (?:uses|use|runs on|run on|is built with|is built on|is "
        r"hosted on|is on|is running on|relies on) (?P<x>.+)",
        team_uses,
    ),
    my_rule(
        r"(?P<what>(?:master's |phd |bachelor's |doctoral )?(?:thesis|dissertation|phd|research|book|novel|paper|"
        r"talk|blog|podcast|startup|master's|project|essay collection)) is (?P<how>on|about) (?P<x>.+)",
        Template(
            content="User's {what} is {how} {x}.",
            predicate="topic_of_{what_slug}",
            category="projects/projects",
            tags=("projects",),
        ),
    ),
    my_rule(
        r"(?:current |main )?(?:side projects?|projects|pet projects?)(?: rn| right now| currently| at the moment| "
        r"now| these days)?(?: is| are|:) (?P<x>.+)",
        Template(
            content="User has {x} as a project.",
            predicate="project_{x_slug}",
            many=True,
            category="projects/projects",
            tags=("projects",),
        ),
    ),
    my_rule(
        r"(?P<what>[\w -]{2,30}?) (?:is|are) (?:all )?(?:written|implemented|built|coded) in (?P<x>.+)",
        _WRITTEN,
    ),
    i_rule(
        r"(?P<verb>decided|have decided|settled on|have settled on|are going with|am going with|went with"
        r"|chose|picked(?! up| on| at)|opted for|"
        r"ended up (?:choosing|picking|going with|using|with|taking|buying)|have chosen|agreed|have "
        r"agreed)(?: that| to| on)? (?P<x>.+)",
        lambda groups, clause: decided(_decision(groups, clause), clause),
    ),
    i_rule(
        r"(?:am|are) (?:working on|building|developing|writing) (?P<x>(?:an?|my|our|the) .+)",
        Template(
            content="User is working on {x}.",
            predicate="project_{x_slug}",
            category="projects/projects",
            tags=("projects",),
            stop="long",
            confidence=LESS_SURE,
            check=lambda value: (
                re.match(
                    r"(?:an? |my |our |the )(?:new )?(?:script|function|query|test|essay|problem|code|email|letter|"
                    r"report|bug|presentation|list|class|paper|homework|assignment|cover letter|resume|speech|"
                    r"simple|small|question|prompt|document|regex)\b",
                    value,
                )
                is None
            ),
        ),
    ),
)
