"""The same slot, a new value: what is meant when a message says hardly more than the value.

Whatever the words around it ("43 it is", "I can go up to 1200", "they've pushed it to Thursday 2 pm", "let's say
eight"): when nothing but light words and words of the known statement itself stand beside the only value, it is in
the place of the one of its sort there. Light words name no thing, so nothing else can be meant.
"""

import re
from collections.abc import Iterable

import msgspec

from memproxy.core.slots import value_name
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.frames import NUMBER_WORDS
from memproxy.learn.rules.ledger import Ledger, terms
from memproxy.learn.rules.model import SURE, Clause
from memproxy.learn.rules.spheres import is_of, spheres_of, unsaid
from memproxy.learn.rules.tastes import topic_of
from memproxy.learn.rules.typed import is_ambiguous, replaced
from memproxy.learn.rules.values import is_name, names_in, third_person, trimmed

_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_VALUE = re.compile(
    rf"(?:{_DAY}|(?:the )?\d{{1,2}}(?:st|nd|rd|th)(?: of)?(?: {_MONTH})?|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?|"
    rf"\d{{1,2}} {_MONTH})(?:,? (?:at )?(?:\d{{1,2}}(?:[:.]\d\d)? ?(?:[ap]\.?m)?|noon|midnight))?"
    r"|\d{1,2}[:.]\d\d(?: ?[ap]m)?|\d{1,2} ?[ap]m|[$€£¥]\s?\d[\d.,]*k?|"
    r"\d[\d.,]*\d?k?(?: ?(?:euros?|dollars|pounds|francs|bucks|mg|kg|kilos|cm|km|minutes|hours|people|guests|%|€))?"
    rf"|\b(?:{NUMBER_WORDS})\b|\bnoon\b|\bmidnight\b",
    re.IGNORECASE,
)
_LIGHT = frozenset(
    """
    i we they he she it that this is are am was were be been being will would can could may might should have has had
    do did go goes went going get got make made makes let us me say said says call set put need needs take takes took
    stretch settle settled turned turns ended tried change changed changes moved move pushed push postponed shifted
    bumped brought forward back up down out over to for at on in by of from till until about around more like rather
    instead now then just only actually really probably maybe ok okay max maximum tops most least least's the a an no
    not wait sorry oops typo correction right so well better best please thanks shop store too also even fine good
    after all yes yeah hm hmm argh ugh lol haha scales scale it'll they'll asked asks want wants by put puts me on
    late early shift
    today airline doctor vet school office landlord boss client club leave leaves
    start starts begin begins land lands meet meets them it's its there one final answer date time price total
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
_CHANGE = re.compile(
    r"\b(?:it is(?:$|[,.! ]+(?:then|now)?$)|now|then|instead|actually|rather|up to|as (?:low|high) as|make (?:it|that)|"
    r"let us say|push(?:ed)?|moved|chang(?:ed|es?)|postponed|shifted|bumped|put (?:it )?back|brought|settled|ended up|"
    r"turned out|went (?:up|down)|stretch|after all|down to|back to|scales say|put me on|wants? it)\b",
    re.IGNORECASE,
)
_NOT_A_VALUE = re.compile(
    r"\b(?:more|minutes?|seconds?|times?|questions?|of (?:them|these|those)|left|ago|later|"
    r"(?:for|to|at) the (?:airport|station|port|harbou?r))\b",
    re.IGNORECASE,
)


_FROM_THEN = re.compile(
    r" (?:from|as of|since|starting) (?:next \w+|january|february|march|april|may|june|july|august|september|"
    r"october|november|"
    r"december|(?:mon|tues|wednes|thurs|fri|satur|sun)day|now on)$",
    re.IGNORECASE,
)


def meant(clause: Clause, ledger: Ledger, place: int) -> list[Extracted]:
    """The known statement with the one value that the clause says; nothing where the clause names anything else."""
    text = _FROM_THEN.sub("", clause.text.strip(" .!,"))
    changes = clause.is_correction or _CHANGE.search(text) is not None or text != clause.text.strip(" .!,")
    if len(text) > 80 or not changes or _NOT_A_VALUE.search(text):
        return []
    found = list(_VALUE.finditer(text))
    if len(found) != 1:
        return []
    rest = f"{text[: found[0].start()]} {text[found[0].end() :]}"
    named = terms(" ".join(word for word in re.findall(r"[a-z']+", rest.lower()) if word not in _LIGHT))
    value = found[0].group()
    implied = spheres_of(clause.evidence)
    near = [one for one in ledger.pointed_at(place, clause.evidence, is_name=False) if named <= one.told]
    of_old = [one for one in ledger.newest() if one.turn < 0 and named and named <= one.told]
    of_sphere = [one for one in ledger.newest() if is_of(one, implied) and not unsaid(named, one)]
    if not (near or of_old) and len(of_sphere) != 1:
        return []
    for one in near or of_old or of_sphere:
        if one.turn == place:
            continue
        changed = replaced(one.statement, value, clause)
        if changed is not None and changed.content != one.statement.content:
            return (
                []
                if is_ambiguous(value, f"{one.statement.content} {' '.join(one.statement.evidence)}", clause)
                else [changed]
            )
    return []


_SWITCHED = re.compile(
    r"(?:I|we)(?: have| just| finally| recently)* (?:(?:closed|left|cancelled|quit) [\w' -]{3,40}? and (?=went|"
    r"moved|switched|changed))?"
    r"(?:switched|changed|went|moved|gone over|went over|moved over|defected)(?: "
    r"over)? "
    r"to (?P<x>(?-i:[A-Z])[\w&.+-]*(?: (?-i:[A-Z])[\w&.+-]*){0,2})(?=$|[,.;!]| (?:last|this|in|because|since|now|"
    r"instead|"
    r"and|so|a)\b)",
    re.IGNORECASE,
)
_PROVIDED = re.compile(
    r"User(?:'s (?P<what>bank|provider|carrier|insurer|insurance|energy provider|internet provider|phone provider|gym|"
    r"supermarket|dentist|broker|airline|host|hosting|vet|doctor|pharmacy|[\w ]*(?:provider|company|operator|shop|"
    r"app|tool))"
    r" is | (?:banks|is insured) (?:with|at) )(?:with |at )?(?P<name>(?-i:[A-Z])[\w&.+ -]*?)\.$",
    re.IGNORECASE,
)


def switched(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """“I finally switched to ING”: in the place of the one provider of something that is known by name."""
    match = _SWITCHED.match(clause.text)
    if match is None:
        return []
    held = [
        (one.statement, found["name"])
        for one in ledger.newest()
        if (found := _PROVIDED.match(one.statement.content)) is not None
    ]
    changed = with_value(held[0][0], held[0][1], match["x"].rstrip(".-")) if len(held) == 1 else None
    return [changed] if changed is not None else []


_JUDGED = re.compile(
    r"(?:my|our|the|that) (?P<x>[\w' -]{2,40}?) (?:is|are|was|were|turned out(?: to be)?)(?: (?:really|so|just|"
    r"pretty|quite|"
    r"an? |absolute|total|complete|big|huge|such an?))* ?(?P<how>waste of (?:money|time|space)|mistake|"
    r"disappointment|letdown|"
    r"rip-?off|useless|terrible|awful|horrible|bad idea|pain|nightmare|disaster|annoying|boring|overrated|"
    r"pointless|joke|"
    r"godsend|lifesaver|great|brilliant|fantastic|amazing|wonderful|excellent|perfect|bargain|joy|not (?:good|"
    r"great|worth it|"
    r"for me))\b",
    re.IGNORECASE,
)
_PRAISE = frozenset(
    "godsend lifesaver great brilliant fantastic amazing wonderful excellent perfect bargain joy".split()  # noqa: SIM905
)


def judged(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """“The standing desk was a waste of money”: what is now held of something that was liked or not before."""
    match = _JUDGED.match(clause.text)
    thing = trimmed(match["x"], "long") if match is not None else None
    if match is None or thing is None:
        return []
    about = terms(thing)
    for one in ledger.newest():
        known = one.statement
        if known.stance is None or known.aspect or not about or not about <= terms(known.object or ""):
            continue
        how = match["how"].lower()
        positive = how in _PRAISE
        return [
            Extracted(
                content=f"User finds the {third_person(thing)} {_said(how)}.",
                subject="user",
                predicate="likes" if positive else "dislikes",
                object=known.object,
                stance="positive" if positive else "negative",
                category=topic_of(thing),
                tags=("opinions",),
                entities=known.entities,
                confidence=SURE,
                intent=Intent.CORRECT,
                replaces=known.content,
            )
        ]
    return []


def _said(how: str) -> str:
    nouns = ("waste", "mistake", "disappoint", "letdown", "rip", "bad idea", "pain", "nightmare", "disaster", "joke")
    return f"a {how}" if how.startswith((*nouns, "godsend", "lifesaver", "bargain", "joy")) else how


def respelled_elsewhere(corrected: Iterable[Extracted], ledger: Ledger) -> list[Extracted]:
    """Other statements that hold a name which a correction spelled anew ("Marc with a c"): they hold the new one."""
    found = []
    for one in corrected:
        old, new = one.replaces or "", one.object or ""
        if one.intent is not Intent.CORRECT or not _is_spelling(old, new):
            continue
        for known in ledger.newest():
            said = known.statement
            same = said.predicate == one.predicate and said.subject == one.subject
            if not same and old in names_in(said.content.partition(" ")[2]) and new not in said.content:
                changed = with_value(msgspec.structs.replace(said, object=said.content), old, new)
                if changed is not None:
                    found.append(msgspec.structs.replace(changed, valid_from=said.valid_from, valid_to=said.valid_to))
    return found


def _is_spelling(old: str, new: str) -> bool:
    """Whether both are one name, spelled in two ways."""
    if not (is_name(old) and is_name(new)) or value_name(old) == value_name(new) or " " in old + new:
        return False
    return old[:1] == new[:1] and abs(len(old) - len(new)) <= 2 and len(set(old.lower()) ^ set(new.lower())) <= 3
