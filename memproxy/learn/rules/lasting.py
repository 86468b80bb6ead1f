"""What lasts or counts, in forms of its own: how many are kept, what was done for years, how old somebody is.

Asked after the special rules; each statement is the clause in the third person.
"""

import re
from collections.abc import Iterable

from memproxy.core.slots import singular
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.frames import NUMBER_WORDS
from memproxy.learn.rules.general import fact, said_of
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.kinds import kind_of
from memproxy.learn.rules.lexicon import PASSING_NOUNS
from memproxy.learn.rules.model import Clause, Groups, Rule, any_rule, i_rule
from memproxy.learn.rules.values import is_name, items, slug, third_person, trimmed

_NUMBER = rf"(?:\d[\d,.]*|(?:{NUMBER_WORDS})(?:-(?:{NUMBER_WORDS}))?)"
_SPAN = rf"for (?:over |about |almost |nearly |more than )?(?:{_NUMBER}|many|several) (?:years?|decades?|seasons?)"


def counted(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“We run fourteen hives behind the chapel”: how many of something are kept."""
    said = said_of(groups["x"])
    noun = groups["what"].lower()
    if said is None or singular(noun) in PASSING_NOUNS or noun in PASSING_NOUNS or not noun.endswith("s"):
        return
    verb = groups["verb"].lower()
    yield fact(
        f"User {third_verb(verb)} {third_person(said)}.",
        f"number_of_{slug(noun)}",
        groups["count"].lower(),
        "possessions/things",
    )


def was_once(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I was a lighthouse keeper for twenty-two years”."""
    yield fact(
        f"User was {third_person(groups['x'])} {groups['span']}.",
        f"was_{slug(groups['x'])}",
        third_person(f"{groups['x']} {groups['span']}"),
        "user-profile/work",
    )


def done_times(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I have given blood 97 times”."""
    said = trimmed(groups["x"], "long")
    if said is not None:
        yield fact(
            f"User has {third_person(said)}.", f"times_{slug(groups['what'])}", groups["count"], "user-profile/details"
        )


def aged(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Ines is 9 and plays handball”: of somebody called by name."""
    name, age = groups["name"], groups["x"]
    if is_name(name) and kind_of(name) is None and name.lower() not in _NO_PEOPLE:
        yield Extracted(
            content=f"{name} is {age}.",
            subject=name,
            predicate="age",
            object=age,
            category="user-profile/people",
            tags=("people",),
            entities=(name,),
            confidence=0.7,
        )


_NO_PEOPLE = frozenset(
    """
    python node java ruby version step page room line chapter section level unit number rule part week day year grade
    option answer question item task bug issue ticket port php go rust
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)


def kept_at(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I keep the orchid house at 18 degrees at night”."""
    said = said_of(f"{groups['what']} {groups['x']}")
    if said is not None:
        yield fact(
            f"User {third_verb(groups['verb'].lower())} {third_person(said)}.",
            f"{groups['verb'].lower()}_{slug(groups['what'])}",
            third_person(groups["x"]),
        )


_BARE = re.compile(
    r"(?!(?:an?|the|this|that|these|those|some|any|my|our|your|his|her|it|its|them|him|me|you|no|not|all|both|"
    r"each|every|"
    r"so|well|fine|ok|better|too|now|then|here|there|just|what|how|which|as|to|for|with|on|in|at|by|up|out|off|"
    r"over|down|"
    r"about|from|into|like|more|most|much|many|few|sure|sense|use|mistakes?|typos?|errors?|things?|stuff|"
    r"something|anything|"
    r"nothing|everything|one|time|progress|do|changes|calls?|requests?|tests?|lots?|money)\b)"
    r"(?P<what>[\w-]+(?: [\w-]+){0,3})$",
    re.IGNORECASE,
)


def practised(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I fly FPV drones”, “I do trampolining”: what is done, named without an article, is done in general."""
    said = trimmed(groups["x"], "short")
    bare = _BARE.match(said) if said is not None else None
    if said is None or bare is None or {singular(word) for word in said.lower().split()} & PASSING_NOUNS:
        return
    last = said.split()[-1].lower()
    verb, whole = groups["verb"].lower(), said_of(groups["x"])
    if not last.endswith(("s", "ing", "o", "e")) or last.endswith(("ss", "us")) or whole is None:
        return
    if verb == "keep" and said.lower().endswith("ing"):
        return  # "I keep forgetting" is a habit of the moment
    yield fact(
        f"User {third_verb(verb)} {third_person(whole)}.",
        f"{verb}_{slug(said)}",
        third_person(whole),
        "user-profile/routine",
    )


_SUFFERED = (
    r"(?:migraines?|cluster headaches|panic attacks|nosebleeds|hay fever|vertigo|seizures|heartburn|motion sickness|"
    r"travel sickness|cold sores|cramps|night sweats|acid reflux|seasick|carsick|airsick|(?:motion|travel|car) sick)"
)


def suffered(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I get migraine with aura”."""
    said = trimmed(groups["x"], "long")
    if said is not None:
        yield fact(
            f"User gets {third_person(said)}.",
            f"gets_{slug(groups['what'])}",
            third_person(said),
            "user-profile/health",
        )


def due(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“Need to hand back the rental cello by 31 October”: what has to be done by a day."""
    day = dates.find(groups["when"], clause.said_at)
    said = trimmed(groups["x"], "whole")
    if day is None or said is None or day.end <= clause.said_at.date():
        return
    yield Extracted(
        content=f"User has to {third_person(said)} {day.noted}.",
        subject="user",
        predicate=f"has_to_{slug(said)}"[:80],
        object=day.value,
        category="plans/plans",
        tags=("plans",),
        confidence=0.7,
        valid_to=dates.until(groups["when"], clause.said_at),
    )


def wants_none(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I don't want mocks in my Go code”: of what is the user's own."""
    said = said_of(groups["x"])
    if said is not None:
        yield fact(
            f"User does not want {third_person(said)}.",
            f"not_{slug(said)}",
            third_person(said),
            "user-preferences/general",
        )


def studies(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I take Paleography and Syriac II this semester”: one statement for each course."""
    for name in items(groups["x"]):
        if name is not None and name[:1].isupper():
            yield fact(f"User takes {name}.", f"takes_course_{slug(name)}", name, "user-profile/education")


def put_aside(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I set aside 200 francs a month for lessons”."""
    said, purpose = said_of(groups["x"]), trimmed(groups["for"], "short")
    if said is not None and purpose is not None:
        yield fact(
            f"User {third_verb(groups['verb'].lower())} {third_person(said)}.",
            f"money_for_{slug(purpose)}",
            groups["amount"].strip(),
            "finance/amounts",
        )


def always_wants(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I always want the short version first, never the long one”."""
    said = said_of(groups["x"])
    if said is not None:
        yield fact(
            f"User {groups['how'].lower()} wants {third_person(said)}.",
            f"wants_{slug(said)}",
            third_person(said),
            "user-preferences/general",
        )


RULES: tuple[Rule, ...] = (
    i_rule(
        r"(?P<verb>set aside|put aside|put away|save|budget|allow) (?P<x>(?P<amount>[$€£]?\d[\d.,]*k?(?: (?:euros?|"
        r"dollars|"
        r"pounds|francs|bucks))?)\b.{0,25}? for (?P<for>.+))",
        put_aside,
    ),
    i_rule(r"(?P<how>always|only) want (?P<x>(?!to\b|you\b|it\b|this\b|that\b)[a-z].+)", always_wants),
    i_rule(r"do not want (?P<x>(?!to\b|you\b|it\b|this\b|that\b|any of\b)[\w' -]{2,30}? in (?:my|our) .+)", wants_none),
    i_rule(
        r"(?:am taking|take) (?P<x>(?-i:[A-Z]).+?) (?:this|next) (?:semester|term|year|trimester|quarter)\b", studies
    ),
    i_rule(
        rf"(?P<verb>run|keep|manage|look after|operate|tend|breed|rent out) (?P<x>(?P<count>{_NUMBER}) (?:[\w-]+ "
        rf"){{0,2}}?"
        r"(?P<what>[a-z]+s)\b.*)",
        counted,
    ),
    i_rule(
        rf"(?:was|have been) (?P<x>(?:an?|the) [\w' -]{{3,50}}?(?: (?:in|at|on) [\w' -]{{2,30}}?)?) "
        rf"(?P<span>{_SPAN})\b",
        was_once,
    ),
    i_rule(
        rf"have (?P<x>(?P<what>(?:given|donated|run|climbed|visited|crossed|won|moved|hiked|sailed|done|finished|"
        rf"read|seen) "
        rf"[\w' -]{{2,30}}?) (?P<count>{_NUMBER}) times)",
        done_times,
    ),
    any_rule(
        r"(?P<name>(?-i:[A-Z])[a-z]{2,}) is (?P<x>\d{1,2})(?: years old)?(?=$|[.,;!]| and (?:plays|goes|has|likes|"
        r"loves))",
        aged,
    ),
    i_rule(
        r"(?P<verb>keep|set|store|hold|heat|cap) (?P<what>(?:the|my|our) [\w' -]{2,40}?) (?P<x>(?:at|to|below|"
        r"above) [$€£]?\d.+)",
        kept_at,
    ),
    i_rule(rf"get (?P<x>(?:bad |terrible |awful )?(?P<what>{_SUFFERED})\b.*)", suffered),
    i_rule(
        r"(?P<verb>fly|do|keep|make|ride|race|shoot|bowl|restore|repair|build|judge|hunt|collect|trap|carve|press|"
        r"bind|trade|"
        r"import|repair|tune|groom|board|train|drive) (?P<x>.+)",
        practised,
    ),
    any_rule(
        r"(?:(?:I|we) )?(?:need|have) to (?P<x>(?!(?:be|get|know|have|say|go|do|see|find|figure|finish|write|submit|"
        r"send)\b)"
        r"[a-z]+ .{3,60}?) (?P<when>(?:by|before|on) .+)",
        due,
    ),
)
