"""Rules for procedures and conventions: how something is done, whole and in order."""

import re
from collections.abc import Iterable

import msgspec

from memproxy.core.memory import Kind
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.model import SURE, Clause, Groups, Rule, any_rule
from memproxy.learn.rules.values import MASK, names_in, slug, third_person

_CONVENTION = re.compile(
    r"\b(?P<who>I|we) always (?P<x>(?:write|use|start|end|put|name|run|tag|squash|rebase|review|deploy|format|"
    r"indent|wrap|test|commit|branch|merge|label|keep|store|back up|prefix|document|pin|lint)\b.+)",
    re.IGNORECASE,
)


def convention(clause: Clause) -> list[Extracted]:
    """“We always write commit messages in the imperative”: how something is done, said without steps."""
    match = _CONVENTION.match(
        re.sub(
            r"^\W*(?:(?:and|also|so|but|btw|note that),? )*",
            "",
            clause.evidence,
            flags=re.IGNORECASE,
        )
    )
    if match is None or "?" in match["x"] or MASK in clause.text:
        return []
    said = match["x"].strip().rstrip(".!")
    return [
        Extracted(
            content=f"User always {third_person(third_verb(said))}.",
            kind=Kind.PROCEDURAL,
            subject="user",
            predicate=f"convention_{slug(said)}"[:60],
            object=third_person(said),
            category="procedures/conventions",
            tags=("procedure",),
            confidence=SURE,
            importance=0.6,
        )
    ]


def reaction(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“When I feel a migraine coming I take one sumatriptan, lie down in the dark and skip dinner”."""
    goal, steps = groups["goal"].strip(" ,"), groups["x"].strip().rstrip(".!")
    if (
        MASK in steps
        or _FAILS.search(steps)
        or len(goal.split()) > 10
        or len(re.findall(r",|\band\b|\bthen\b", steps)) < 2
    ):
        return
    yield Extracted(
        content=f"{groups['when'].capitalize()} they {third_person(goal)}, the user does this: {third_person(steps)}.",
        kind=Kind.PROCEDURAL,
        subject="user",
        predicate=f"routine_{slug(goal)}"[:60],
        object=third_person(steps),
        category="procedures/steps",
        tags=("procedure",),
        confidence=SURE,
        importance=0.7,
    )


_FAILS = re.compile(r"\b(?:errors?|exception|crash\w*|fails|freezes up|nothing happens|doesn't work)\b", re.IGNORECASE)
"""What goes wrong is no procedure."""


def procedure(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """How something is done, complete and in order: at least two steps."""
    goal, steps = groups["goal"].strip(), groups["x"].strip().rstrip(".!")
    if MASK in steps or _FAILS.search(steps) or len(goal.split()) > 10 or not _is_ordered(steps) or len(steps) < 12:
        return
    yield steps_of(goal, steps)


def recipe(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“My bread recipe: 500 g flour, 350 g water, 10 g salt”: a procedure by its parts."""
    goal, steps = re.sub(r"^(?:my|our|the) ", "", groups["goal"].strip()), groups["x"].strip().rstrip(".!")
    if (
        MASK in steps
        or _FAILS.search(steps)
        or len(re.findall(r",|\band\b|\bthen\b|→|->", steps)) < 2
        or len(steps) < 15
    ):
        return
    what = (
        f"User {third_verb(third_person(goal))} by "
        if steps.split()[0].endswith("ing")
        else f"{goal[0].upper()}{third_person(goal[1:])}: "
        if re.match(r"[a-z]+ing ", goal)
        else f"User's {third_person(goal)}: "
        if goal
        else "User's procedure: first "
    )
    yield Extracted(
        content=f"{what}{third_person(steps)}.",
        kind=Kind.PROCEDURAL,
        subject="user",
        predicate=f"how_to_{slug(goal or steps)}"[:60],
        object=third_person(steps),
        category="procedures/steps",
        tags=("procedure",),
        confidence=SURE,
        importance=0.7,
    )


def standing(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“Sundays I batch cook: rice on, vegetables in the oven, portion it all”."""
    when = groups["when"].strip().lower().removeprefix("on ")
    for one in recipe(groups, clause):
        yield msgspec.structs.replace(one, content=f"{one.content.rstrip('.')} ({when}).")


def _is_ordered(steps: str) -> bool:
    return (
        re.search(
            r"\b(?:then|after that|afterwards|finally|and (?:then )?(?:run|push|tag|restart|deploy|wait|check|open|"
            r"merge|click|add|call|send|build))\b|→|->|\b2[.)]|,\s*\w+.*,\s*(?:and|then)\b",
            steps,
            re.IGNORECASE,
        )
        is not None
    )


def steps_of(goal: str, steps: str) -> Extracted:
    """The statement of a procedure."""
    plain = third_person(goal)
    return Extracted(
        content=f"To {plain}: {third_person(steps)}.",
        kind=Kind.PROCEDURAL,
        subject="user",
        predicate=f"how_to_{slug(re.sub(r'^(?:the|my|our) ', '', goal))}",
        object=third_person(steps),
        category="procedures/steps",
        tags=("procedure",),
        entities=tuple(names_in(goal)),
        confidence=SURE,
        importance=0.7,
    )


_STEP_VERB = (
    r"(?:first|run|do|open|click|push|pull|tag|build|merge|bump|start|stop|check|update|log in|ssh|"
    r"call|go to|create|execute|we|I|you (?:need|have) to|you|install|type|use|copy|turn|press|boil|"
    r"mix|soak|always|`)"
)

_COORDINATED = re.compile(r",|\band\b|\bthen\b|;|→|->", re.IGNORECASE)


def occasion(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“For hotfixes we branch off the tag, cherry-pick the fix and bump the version”: at least three steps."""
    when, steps = groups["when"].strip(" ,"), groups["x"].strip().rstrip(".!")
    if (
        MASK in steps
        or "?" in steps
        or len(_COORDINATED.findall(steps)) < 2
        or len(steps.split()) < 8
        or _NO_STEPS.match(steps)
    ):
        return
    yield Extracted(
        content=f"{when[0].upper()}{third_person(when[1:])}, {_doer(groups['who'])} this way: {third_person(steps)}.",
        kind=Kind.PROCEDURAL,
        subject="user",
        predicate=f"how_to_{slug(re.sub(r'^(?:for|when|on|at|before|after|every|each) ', '', when))}"[:60],
        object=third_person(steps),
        category="procedures/steps",
        tags=("procedure",),
        entities=tuple(names_in(steps)),
        confidence=SURE,
        importance=0.7,
    )


_NO_STEPS = re.compile(
    r"(?:am|are|was|were|have|had|will|would|can|cannot|could|should|want|need|like|love|hate|think"
    r"|feel|do not|got|went|saw|get|see)\b",
    re.IGNORECASE,
)


def _doer(who: str) -> str:
    return "the user does it" if who.lower() in ("i", "we") else f"{who} does it"


RULES: tuple[Rule, ...] = (
    any_rule(
        r"(?P<when>(?:in|at|on) (?:my|our) [\w' ]{2,25}?),? (?P<who>(?:every|each|all) [\w' -]{3,30}?) "
        r"(?P<x>(?:goes|go|gets|is|are)"
        r" [^?]+\bthen\b[^?]+)",
        occasion,
    ),
    any_rule(
        r"(?P<goal>(?:[\w' -]{0,25})\b(?:bedtime|routine|ritual|warm-?up|workout|cool-?down|marinade"
        r"|dough|brine|recipe|setup|checklist)(?: (?:with|for) [\w' -]{3,25})?):\s+(?P<x>[^?]+,[^?]+)",
        recipe,
    ),
    any_rule(
        r"(?P<when>(?:for|when(?:ever)?|on|at|before|after|every|each|once)\b[^,:]{3,60}?),? (?P<who>I|we"
        r"|whoever[^,]{3,25}?(?= (?:opens|posts|pages|writes|"
        r"runs|takes|checks|calls|does))) (?:always |usually |first |just )?(?P<x>[a-z].+)",
        occasion,
    ),
    any_rule(
        rf"(?:to|in order to|whenever (?:I|we)|when (?:I|we)|every time (?:I|we)) (?P<goal>[^,:]{{3,70}}?)(?:,|"
        rf":)\s*(?P<x>{_STEP_VERB}\b.+)",
        procedure,
    ),
    any_rule(
        r"(?:to|in order to) (?P<goal>[a-z]+ [^,:]{2,60}?) (?P<x>(?:we|I|you) (?:first|always|just|need to|have to|"
        r"run|do|push|tag|open|start)\b.+)",
        procedure,
    ),
    any_rule(
        r"(?P<when>when|whenever|before|after|every time) I (?P<goal>[^,:]{3,60}?),? I (?:always )?(?P<x>(?:take|"
        r"drink|do|lie|go|run|put|make|set|turn|check|open|start|write|use|first|eat|stretch|call|clean|wash|mix|"
        r"soak|water|feed|pack)\b.+)",
        reaction,
    ),
    any_rule(
        r"(?:(?:my|our|the) )(?P<goal>[\w -]{3,50}?) (?:process|procedure|workflow|routine|checklist|steps?|"
        r"pipeline)(?: for [\w -]+?)?(?: is| are|:| goes)(?: like this| as follows)?:?\s*(?P<x>.+)",
        procedure,
    ),
    any_rule(
        r"(?:my|our) steps (?:for|to|when) (?P<goal>[\w' -]{3,50}?)(?: are)?:\s+(?:I |we )?(?P<x>[^?]+,[^?]+)", recipe
    ),
    any_rule(
        r"(?P<goal>(?:closing|opening|locking|setting|cleaning|starting|shutting|resetting|packing|preparing|deploying|"
        r"publishing|feeding|watering|backing|restarting|descaling|bleeding|winterising|"
        r"winterizing) [\w' -]{3,50}?):\s+"
        r"(?P<x>[^?]+,[^?]+,[^?]+)",
        recipe,
    ),
    any_rule(r"how (?:I|we) (?P<goal>[\w' -]{3,50}?):\s+(?P<x>[^?]+,[^?]+,[^?]+)", recipe),
    any_rule(
        r"(?:I|we) (?:always |usually |normally )?(?P<goal>[\w' -]{3,50}?)(?: always)? (?:the same way|like this|"
        r"this way|as follows|in this order|like so):\s+(?P<x>[^?]+,[^?]+)",
        recipe,
    ),
    any_rule(
        r"(?P<when>(?:on |every )?(?:mon|tues|wednes|thurs|fri|satur|sun)days?|every \w+|weekends|before \w+) (?P<who>I"
        r"|we) (?P<goal>[\w' -]{3,40}?):\s+(?P<x>[^?]+,[^?]+,[^?]+)",
        standing,
    ),
    any_rule(
        r"(?:the way|how) (?:I|we) (?P<goal>[\w -]{3,50}?) is(?: like this| as follows)?[:,]?\s*(?P<x>.+)",
        procedure,
    ),
    any_rule(
        r"(?:my|our|the) (?P<goal>(?:[\w -]{0,30})(?:recipe|method|trick|system|setup|ritual|drill"
        r"|approach|release|deploy|onboarding|backup|handover|ratio|blend)(?: (?:for|to|of|with) [\w "
        r"-]{3,30}?)?)"
        r"(?: is| goes|:)(?: like this| as follows)?:? (?P<x>[^?]+)",
        recipe,
    ),
    any_rule(r"(?:to|in order to) (?P<goal>[a-z]+ [^,:]{2,50}?),? (?:I|we) (?P<x>[a-z]+ [^?]+,[^?]+)", procedure),
    any_rule(
        r"(?:my|our) (?P<goal>[\w' -]{3,40}):\s+(?P<x>(?:feed|mix|soak|boil|bake|fold|knead|stir|add|take"
        r"|run|open|close|start|wake|stretch|rinse|wash|heat|cut|press|grind|pour|write|read|check|warm"
        r"|\d|first)\b[^?]+,[^?]+)",
        recipe,
    ),
    any_rule(
        r"(?:(?:I|we) )?(?P<goal>)first,? (?P<x>(?!of all|time|day|i want|i need|question"
        r"|question)[^?]+\bthen\b[^?]+)",
        recipe,
    ),
    any_rule(r"(?:I|we) (?P<goal>[\w -]{3,40}?) by (?P<x>[a-z]+ing [^?]+,[^?]+)", recipe),
    any_rule(
        r"before (?:every|each|any) (?P<goal>[\w -]{3,40}?),? (?:I|we) (?:always )?(?P<x>.+)",
        procedure,
    ),
)
"""Rules for whole sentences, whose commas belong to the steps."""
