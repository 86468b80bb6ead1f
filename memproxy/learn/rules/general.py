"""What the user says of himself in words that no special rule reads: lasting verbs, habits, states, what he cannot.

Asked only when every other rule found nothing. The statement is the clause itself in the third person, so that it says
no more than was said; its slot is the verb and its first noun, its value what stands behind them.
"""

import re
from collections.abc import Iterable

from memproxy.core.slots import singular
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.lexicon import (
    HABIT_VERBS,
    LASTING_DOING,
    LASTING_VERBS,
    OWN_VERBS,
    PASSING_NOUNS,
    PASSING_VERBS,
)
from memproxy.learn.rules.model import LESS_SURE, Clause, Groups, Rule, any_rule, i_rule
from memproxy.learn.rules.values import bare, items, names_in, slug, third_person, trimmed
from memproxy.learn.rules.words import PEOPLE

_TURN = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
OFTEN = (
    rf"(?:every (?:other |second |single |last |first |third |few )?(?:day|week|month|year|morning|evening|afternoon|"
    rf"night|weekend|spring|summer|autumn|fall|winter|{_TURN})\w*|(?:once|twice|thrice|(?:\d+|two|three|four|five|six|"
    rf"several) times) (?:a|per|every|each) (?:day|week|month|year)|(?:on )?(?:mon|tues|wednes|thurs"
    rf"|fri|satur|sun)days\b|"
    rf"each (?:morning|evening|night|day|week|month|year|spring|summer|autumn|winter)|at weekends|on "
    rf"weekends|on weekdays|"
    rf"\d[\d.,]*(?: ?(?:k|€|euros?|dollars|pounds|bucks|francs|quid|kr|chf|usd|gbp))? (?:a|per) (?:day|week|month|"
    rf"year)|"
    rf"(?:mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun)(?:[,/ ]+(?:and )?(?:mon|tue|tues|wed|thu|thur"
    rf"|thurs|fri|sat|sun))+|day to day|daily|weekly|\d+ (?:hours|minutes|km|miles|days) (?:a|per) "
    rf"(?:day|week|month)|"
    rf"for a living|full[- ]time|part[- ]time|by hand|these days|nowadays|year[- ]round)"
)
OFTEN_SAID = re.compile(rf"\b{OFTEN}(?!\w)", re.IGNORECASE)
_TAIL = re.compile(
    rf"\s+(?:(?:only |mostly |always )?{OFTEN}|(?:on|in|at|with|for|from|since|to|by|about|around|until|near|without|"
    r"under|over|against|as)\b)",
    re.IGNORECASE,
)
_VERB = re.compile(r"(?P<verb>[a-z]+(?:-[a-z]+)?)(?P<x>(?: .*)?)$", re.IGNORECASE | re.DOTALL)
_PASSING = re.compile(
    r"(?:\W*(?:(?:on|with|at|for|to|in|about) (?:it|this|that|them|these|those)\b|devil's|to (?:say"
    r"|see|ask|know|get|be|do|make)|it|this|that|these|those|you|your|an? (?:error|question|look|"
    r"break|minute|moment|chance|guess)|the (?:error|following|same|code|problem|issue|docs|question"
    r"|answer|page|file))\b|"
    r".*\b(?:if i|you|your|this (?:error|bug|code|file)|right now|today|tonight|tomorrow|yesterday|this (?:morning|"
    r"evening|afternoon|week|weekend)|just now|at the moment|so far|for example)\b)",
    re.IGNORECASE,
)
_LISTED = re.compile(r",[^,]{1,40}(?:,| and | or )", re.IGNORECASE)


def said_of(text: str) -> str | None:
    """Up to the end of what is said; the commas of a list do not end it."""
    whole = trimmed(text, "list" if _LISTED.search(text) else "long")
    return whole if whole is not None and not _PASSING.match(whole) else None


def fact(content: str, predicate: str, value: str, category: str = "user-profile/details") -> Extracted:
    """The statement of the user in these words."""
    return Extracted(
        content=content,
        subject="user",
        predicate=predicate[:80],
        object=value,
        category=category,
        tags=("details",),
        entities=tuple(names_in(value)),
        confidence=LESS_SURE,
    )


def does(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“We sell refurbished espresso machines”, “I freeze code on Fridays”: what is done for long or often."""
    match = _VERB.match(groups["x"])
    if match is None:
        return
    verb, said = match["verb"].lower(), match["x"].strip(" .!")
    often = OFTEN_SAID.search(said) is not None
    lasts = verb in LASTING_VERBS | OWN_VERBS or (verb not in PASSING_VERBS | HABIT_VERBS and _is_present(verb))
    if not ((often and verb in HABIT_VERBS) or (lasts and said)):
        return
    value = said_of(said)
    if value is None or (often and len(value.split()) < 2 and OFTEN_SAID.search(value) is None):
        return
    head, tail = how_parted(value)
    content = f"User {third_person(third_verb(f'{verb} {value}'))}."
    yield fact(content, f"{verb}_{slug(head)}".strip("_"), third_person(tail or bare(value)), "user-profile/routine")


def _is_present(verb: str) -> bool:
    """Whether it can be a verb of the present: no adverb, no past form."""
    return len(verb) > 2 and not verb.endswith(("ly", "ed", "ing", "self", "ught", "s"))


def how_parted(value: str) -> tuple[str, str]:
    """What it is done with, and how, where or when: the first is the question, the second its answer."""
    tail = _TAIL.search(f" {value}")
    if tail is None:
        return value, ""
    return value[: max(0, tail.start() - 1)].strip(), value[
        max(0, tail.start() - 1) :
    ].strip() if tail.start() else value


def is_doing(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I am restoring a canoe”."""
    match = _VERB.match(groups["x"])
    value = said_of(match["x"]) if match is not None else None
    if match is None or value is None:
        return
    verb = match["verb"].lower()
    if re.search(r"\b(?:\w*error|exception|bug|warning|crash|timeout|traceback|\w*Exception)\b", value):
        return
    long = _LONG.search(value) is not None and not _PASSING_DOING.match(verb)
    if verb not in LASTING_DOING and not long:
        return
    said = f"has been {verb}" if long else f"is {verb}"
    yield fact(
        f"User {said} {third_person(value)}.", f"{verb}_{slug(how_parted(value)[0] or value)}", third_person(value)
    )


_HAD = re.compile(
    r"(?:(?:an?|some|two|three|four|five|six|seven|eight|nine|ten|\d{1,2}|my own|no|the) (?=\w)"
    r"|(?-i:[A-Z]))",
    re.IGNORECASE,
)
_COUNT = re.compile(r"(two|three|four|five|six|seven|eight|nine|ten|\d{1,3}) (?=[a-z])", re.IGNORECASE)
_HEAD_ENDS = re.compile(
    r"\s+(?:in|on|at|with|for|from|of|to|that|which|who|called|named|about|since|by|near|and|so"
    r"|because|due|coming|left|now|here|down|up|open|pending|running|ready|online)\b|[,(:]",
    re.IGNORECASE,
)


def _is_passing(head: str) -> bool:
    said = head.lower().split()
    return bool(PASSING_NOUNS & {*said, *map(singular, said)})


def has(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I have a steam deck and an old canoe”: things, and whatever else is no matter of the moment."""
    for value in items(groups["x"]):
        if value is None or not _HAD.match(value) or _PASSING.match(value):
            return
        head = _HEAD_ENDS.split(bare(value), maxsplit=1)[0].strip()
        last = head.split()[-1].lower() if head else ""
        if last in PEOPLE:
            yield fact(
                f"User has {third_person(value)}.", f"family_{last.replace('-', '_')}", last, "user-profile/family"
            )
            continue
        if (
            not head
            or (_is_passing(head) and not OFTEN_SAID.search(value))
            or last.endswith(("ness", "ment"))
            or len(head.split()) > 5
        ):
            return
        if value.lower().startswith("the ") and not names_in(value):
            return
        if (count := _COUNT.match(value)) is not None and last.endswith("s") and not last.endswith("ss"):
            yield fact(
                f"User has {third_person(value)}.",
                f"number_of_{slug(head[count.end() :])}",
                count[1].lower(),
                "possessions/things",
            )
            continue
        plain = re.sub(r"^(?:some|no|the) ", "", bare(value), flags=re.IGNORECASE)
        no = value.lower().startswith("no ")
        yield fact(
            f"User has {third_person(value)}.",
            f"not_owns_{slug(plain)}" if no else "owns",
            third_person(plain),
            "possessions/things",
        )


_LIFE = (
    r"(?:closed on (?:an?|our|my)|put an offer on (?:an?|the)|moved in|moved out|moved into|signed up "
    r"(?:for|to)|enrolled (?:in|at)|inherited|adopted|had "
    r"(?:my|an?|our) (?:\w+ )?"
    r"(?:surgery|operation|baby|stroke|miscarriage|transplant|heart attack|c-section|son|daughter"
    r"|accident|concussion)|took up|"
    r"got (?:engaged|divorced|laid off|fired|promoted|a promotion|a (?:new )?job|tenure|accepted|into "
    r"(?-i:[A-Z])|my (?:licen[sc]e|degree|visa|green card|"
    r"citizenship|diploma|black belt|braces))|lost my (?:job|dad|mum|mom|father|mother|husband|wife"
    r"|licen[sc]e)|was (?:laid off|made redundant|promoted|"
    r"fired|hired|accepted|elected|knighted)|opened (?:an?|my|our) |launched (?:an?|my|our) |founded "
    r"|planted |retired |"
    r"qualified as|trained as|served in|emigrated|immigrated|converted to|came out|was raised|was "
    r"adopted|ran for|hiked the|"
    r"cut out|cut back on|tore my|dislocated my|pulled my|injured my|twisted my|bought (?:an?|my|our) "
    r"(?:own |first |new )*(?:house|flat|apartment|home|"
    r"place|farm|cottage|cabin))"
)


def life(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I signed up for a half marathon”, “we got engaged”: a step in somebody's life."""
    said = said_of(groups["x"])
    if said is not None:
        yield fact(f"User {third_person(said)}.", f"did_{slug(said)}", third_person(said), "events/personal")


def when_done(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“After bell practice on Wednesdays we all end up in the pub”: a habit, said after its occasion."""
    lead, said = groups["lead"].strip(" ,"), trimmed(groups["x"], "whole")
    if (
        said is None
        or OFTEN_SAID.search(clause.text) is None
        or re.match(r"(?:am|are|was|were|have|had|will|would|can|cannot|do not)\b", said)
    ):
        return
    yield fact(
        f"{lead[0].upper()}{third_person(lead[1:])} the user {third_person(third_verb(said))}.",
        f"habit_{slug(lead)}",
        third_person(said),
        "user-profile/routine",
    )


_LONG = re.compile(
    r"(?P<how>for (?:over |about |almost |more than |nearly |around )?(?:\d+|an?|two|three|four|five|six|seven|eight|"
    r"nine|ten|twelve|fifteen|twenty|thirty|forty|many|several) (?:years?|months?|weeks?|decades?)|since .+)",
    re.IGNORECASE,
)


_PASSING_DOING = re.compile(
    r"(?:trying|wondering|thinking|looking|waiting|meaning|asking|debugging|getting|going|being|staring|sitting|"
    r"working|using|having|leaving|travel+ing|flying|visiting|staying)$"
)


def has_long(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I have been playing for 22 years”, “I have been sober since May”: what lasts, by how long."""
    said = trimmed(groups["x"], "long")
    since = _LONG.search(said) if said is not None else None
    if (
        said is None
        or since is None
        or re.match(
            r"(?:trying|wondering|thinking|looking|waiting|struggling|stuck|meaning|told|asked|asking"
            r"|debugging|getting|"
            r"having (?:trouble|issues|problems)|here|busy|awake|up|"
            r"at (?:it|this)|it|this|that|using (?:it|this|that))\b",
            said,
            re.IGNORECASE,
        )
    ):
        return
    what = said[: since.start()].strip() or said
    yield fact(
        f"User has {groups['aux']} {third_person(said)}.", f"has_{groups['aux']}_{slug(what)}", third_person(said)
    )


RULES: tuple[Rule, ...] = (
    i_rule(r"(?:only )?have (?:only )?(?P<x>(?:an?|my) .+ (?:and|but no) (?:an?|no) .+)", has),
    i_rule(r"have (?P<aux>been) (?P<x>.+)", has_long),
    i_rule(r"(?:am|are) (?P<x>[a-z]+(?:-[a-z]+)?ing .+)", is_doing),
    i_rule(r"(?:have|got) (?!been\b|to\b|not\b|had\b)(?P<x>.+)", has),
    i_rule(rf"(?:have )?(?P<x>{_LIFE}\b.*)", life),
    any_rule(
        r"(?P<lead>(?:after|before|on|every|at|most|during|in|once|twice|each) [^,]{3,60}?),? (?:I|we) "
        r"(?:(?:all|always|usually|both|often|mostly) )*(?P<x>[a-z].+)",
        when_done,
    ),
    i_rule(r"(?:all |mainly |mostly |both )?(?P<x>(?!am |are |was |have |will |would |do |cannot )[a-z].*)", does),
)
