"""How somebody has arranged his life, in forms that no other rule reads: office days, colours, work."""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.general import fact
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.model import SURE, Clause, Groups, Rule, Template, any_rule, i_rule
from memproxy.learn.rules.typed import COLOURS
from memproxy.learn.rules.values import is_name, one_of, slug, third_person, trimmed
from memproxy.learn.rules.words import LANGUAGES, PEOPLE

_COUNT = r"(?:one|two|three|four|five|\d)"
_KIN = "|".join(sorted(map(re.escape, PEOPLE), key=len, reverse=True))
_NUMBER = r"\+?\(?\d{2,5}\)?(?:[ /.-]?\d{2,5}){2,4}"


def in_office(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“New policy: three days a week in the office”."""
    yield Extracted(
        content=f"User works in the office {groups['x'].lower()}.",
        subject="user",
        predicate="work_arrangement",
        object=f"in the office {groups['x'].lower()}",
        category="user-profile/work",
        tags=("work",),
        confidence=SURE,
    )


def rung(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Ring my daughter Ann on 01970 555 0143”: the number of somebody near."""
    name, who = groups.get("name"), groups["who"].lower()
    if name and not is_name(name):
        return
    subject = name or f"user's {who}"
    yield Extracted(
        content=f"User's {who}{f' {name}' if name else ''} has the phone number {groups['x']}.",
        subject=subject,
        predicate="phone_number",
        object=groups["x"],
        category="user-profile/people",
        tags=("people", who),
        entities=(name,) if name else (),
        confidence=SURE,
    )


def coloured(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I want to paint the bedroom sage green”: the colour that something of the user's is to have."""
    thing = trimmed(groups["thing"], "short")
    if thing is not None:
        yield Extracted(
            content=f"User wants {third_person(thing)} in {groups['x'].lower()}.",
            subject="user",
            predicate=f"colour_of_{slug(thing)}",
            object=groups["x"].lower(),
            category="user-preferences/general",
            tags=("preferences",),
            confidence=SURE,
        )


_DWELLING = "(?:house|flat|apartment|home|cottage|place|bungalow|terrace|maisonette|farm)"
_BUSINESS = (
    "(?:shop|store|bakery|studio|business|cafe|café|restaurant|agency|company|salon|workshop|garage|gallery|brewery|"
    "b&b|guesthouse|nursery|bookshop|food truck|stall|practice|kennel|yard)"
)
_WORKPLACE = (
    "(?:warehouse|hospital|factory|school|kitchen|clinic|bakery|library|nursery|depot|call "
    "cent(?:er|re)|lab|laboratory|"
    "supermarket|hotel|care home|nursing home|prison|university|college|foundry|shipyard|restaurant|pharmacy|museum|"
    "shop)"
)
_AID = (
    "(?:power ?chair|wheelchair|mobility scooter|walking frame|rollator|hearing aids?|cochlear implant|insulin pump|"
    "cpap(?: machine)?|prosthesis|prosthetic leg|screen reader|guide dog|stairlift)"
)


def at_workplace(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I pick orders in a warehouse”: what somebody does where people work."""
    said = trimmed(groups["x"], "whole")
    if said is not None:
        verb = third_verb(groups["verb"].lower())
        yield fact(f"User {verb} {third_person(said)}.", f"works_{slug(groups['verb'])}", said, "user-profile/work")


def saves(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I put aside 150 a month”."""
    said = groups["x"].strip()
    yield fact(f"User {third_verb(groups['verb'].lower())} {said}.", "saves_regularly", said, "finance/amounts")


def starts_at(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I'm starting at Vestas next week”: the next employer."""
    when = trimmed(groups.get("when") or "", "long")
    yield Extracted(
        content=f"User is starting at {groups['x']}{f' {when}' if when else ''}.",
        subject="user",
        predicate="employer",
        object=groups["x"],
        category="user-profile/work",
        tags=("work",),
        entities=(groups["x"],),
        confidence=SURE,
        importance=0.8,
    )


_COLOUR = rf"(?:(?:light|dark|pale|deep|sage|navy|olive|forest|sky|royal|bright) )?(?:{COLOURS})"
_THING = r"(?P<thing>(?:the|my|our) [a-z][\w' -]{2,30}?)"

RULES: tuple[Rule, ...] = (
    any_rule(
        rf"(?:[\w ]{{0,30}}: |(?:I|we) (?:am|are|have to be|need to be|must be|go|work) (?:back )?|back )?"
        rf"(?P<x>{_COUNT} days? (?:a|per|each) week) (?:in|at|back in|back at) (?:the|our|my) office\b",
        in_office,
    ),
    any_rule(
        rf"(?:(?:I|we) (?:am|are|have to be|need to be|must be|go|work) (?:back )?)(?:in|at) (?:the|our|my) office "
        rf"(?P<x>{_COUNT} days? (?:a|per|each) week)\b",
        in_office,
    ),
    any_rule(
        rf"(?:in (?:an |case of )?(?:an )?emergency,? )?(?:please )?(?:ring|call|phone|reach|contact) (?:my|our) "
        rf"(?P<who>{_KIN})(?:,? (?P<name>(?-i:[A-Z])\w+),?)? (?:on|at|under) (?P<x>{_NUMBER})",
        rung,
    ),
    i_rule(
        rf"(?:want|would like|am going|are going|plan|decided|have decided) (?:to paint |to have |to get )?{_THING} "
        rf"(?:in )?"
        rf"(?P<x>{_COLOUR})(?=$|[.,;!])",
        coloured,
    ),
    i_rule(
        rf"(?:have )?(?:just |finally |now )?bought (?P<x>(?:an?|my|our) (?:[\w-]+ ){{0,2}}{_DWELLING} in "
        r"(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)*)",
        Template(
            content="User bought {x}.",
            predicate="did_bought_{x_slug}",
            category="events/personal",
            stop="whole",
        ),
    ),
    any_rule(
        r"(?:they|(?:my|the) (?:boss|manager|ward|hospital|company|team)) (?:have |has |just |finally )*(?:moved|"
        r"put|switched) me "
        r"(?:on|onto|to|back to|back on) (?P<x>(?:permanent )?(?:days|nights|earlies|lates|(?:the )?(?:day|night|"
        r"early|late) "
        r"(?:shifts?|round)))\b",
        Template(content="User works {x}.", predicate="work_arrangement", tags=("work",), category="user-profile/work"),
    ),
    i_rule(
        r"(?:have )?(?:just |recently )?(?:started|begun|took up|taken up) (?P<x>(?-i:[A-Z])[a-z]+)(?=$|[.,;!]| "
        r"(?:last|this|in|"
        r"with|on|classes|lessons|instead|now|again)\b)",
        Template(
            content="User is learning {x}.",
            predicate="learning_{x_slug}",
            category="user-profile/hobbies",
            tags=("learning",),
            check=one_of(frozenset(LANGUAGES)),
        ),
    ),
    i_rule(
        rf"(?:run|own|have|manage) (?P<x>(?:an?|my own|our own) (?:[\w-]+ ){{0,3}}{_BUSINESS}\b(?: in "
        rf"(?-i:[A-Z])[\w'-]+)?)",
        Template(content="User runs {x}.", predicate="runs_business", category="user-profile/work", stop="whole"),
    ),
    i_rule(
        rf"(?P<verb>pick|pack|stack|drive|cook|clean|serve|teach|nurse|sort|load|fit|weld|sew|cut|answer|sell|look "
        rf"after|care "
        rf"for) (?P<x>[\w' -]{{2,40}}? (?:in|at|for) (?:an?|the|our) (?:[\w-]+ ){{0,2}}{_WORKPLACE}\b)",
        at_workplace,
    ),
    i_rule(
        r"(?:can |could |now )?(?P<verb>put aside|set aside|put away|save) (?P<x>(?P<amount>[$€£]?\d[\d.,]*k?(?: "
        r"(?:euros?|dollars|"
        r"pounds|francs|bucks))?) (?:a|per|each|every) (?:week|month|year))\b(?! for\b)",
        saves,
    ),
    any_rule(
        r"(?:my|our) land(?:lord|lady) (?:wants|charges|asks|takes|gets)(?: us| me)? (?P<x>[$€£]?\d[\d.,]*(?: "
        r"(?:euros?|dollars|"
        r"pounds|francs))?(?: (?:a|per) (?:week|month))?)",
        Template(
            content="User's rent is {x}.", predicate="rent", object="{x}", category="finance/amounts", stop="long"
        ),
    ),
    i_rule(
        r"am starting (?:at|with) (?P<x>(?:the )?(?-i:[A-Z])[\w&-]*(?: (?-i:[A-Z])[\w&-]*)*)(?P<when> (?:next|this|"
        r"on|in) [\w ]+)?",
        starts_at,
    ),
    i_rule(
        r"grew up with (?P<x>(?-i:[A-Z])[a-z]+)(?= at home\b|$|[.,;]| and\b)",
        Template(
            content="User grew up with {x} at home.",
            predicate="grew_up_with_language",
            category="user-profile/origin",
            tags=("language",),
        ),
    ),
    i_rule(
        rf"(?:use|have|am in|need|rely on) (?P<x>(?:an? |my )?(?:[\w-]+ )?{_AID})\b",
        Template(content="User uses {x}.", predicate="uses_{x_slug}", category="user-profile/health", tags=("health",)),
    ),
    i_rule(
        rf"(?:do|work|am on) (?P<x>(?:(?:night|early|late|day|evening|weekend) )?shifts? (?:at|in) (?:an?|the) "
        rf"(?:[\w-]+ ){{0,2}}"
        rf"(?:{_WORKPLACE}|station|store|plant|port|pub|bar|airport))\b",
        Template(content="User works {x}.", predicate="work_shifts", category="user-profile/work", stop="whole"),
    ),
    any_rule(
        r"as (?P<x>an? (?:[\w-]+ )?(?:user|parent|widow|widower|carer|beginner|pensioner|veteran|expat|immigrant|"
        r"foreigner))"
        r"(?=,? (?:I|we|in|from|of)\b)",
        Template(content="User is {x}.", predicate="is_{x_slug}", category="user-profile/details", stop="whole"),
    ),
    any_rule(
        r"(?:the|my|our) (?P<what>[a-z][\w -]{2,25}?) (?:is costing|costs?) (?:us|me) (?P<x>[$€£]?\d[\d.,]*(?: "
        r"(?:euros?|dollars|"
        r"pounds|francs))?(?: (?:a|per) (?:week|month|year|term))?)",
        Template(
            content="User pays {x} for the {what}.",
            predicate="{what_slug}_cost",
            object="{x}",
            category="finance/amounts",
            stop="long",
        ),
    ),
    i_rule(
        r"walk (?P<x>(?:with|without) (?:an? |my )?(?:stick|cane|crutch(?:es)?|frame|walker|rollator))\b",
        Template(content="User walks {x}.", predicate="walking_aid", object="{x}", category="user-profile/health"),
    ),
)
