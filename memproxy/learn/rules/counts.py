"""How many there are: the size of a team, and a child that is the third one.

“A team of 7”, “11 people in my team” and “my team is 12 now” answer one question, however it is put.
"""

import re
from collections.abc import Iterable

import msgspec

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.exchange import exchange
from memproxy.learn.rules.frames import NUMBER_WORDS
from memproxy.learn.rules.ledger import Ledger
from memproxy.learn.rules.model import SURE, Clause, Groups, Rule, any_rule, i_rule, my_rule
from memproxy.learn.rules.values import third_person, trimmed

_NUMBER = rf"(?P<x>\d{{1,4}}|{NUMBER_WORDS})"
_GROUP = (
    r"(?P<group>team|department|crew|squad|band|choir|class|household|family|company|startup|start-up|office|group)"
)
_PEOPLE = (
    r"(?:people|persons?|members?|developers|devs|engineers|designers|nurses|musicians|players|singers|students|"
    r"employees|colleagues|reports)"
)
_LEADS = r"(?P<verb>lead|manage|run|head|supervise|coach|teach|am in|are in|work in|play in|sing in|am part of)"
_THIRD = {
    "am in": "is in",
    "are in": "is in",
    "am part of": "is part of",
    "teach": "teaches",
    "coach": "coaches",
    "work in": "works in",
    "play in": "plays in",
    "sing in": "sings in",
}


def size(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I lead a team of 7 at a startup”: how many they are, and what the user does there."""
    group = groups["group"].lower()
    yield Extracted(
        content=f"User's {group}{groups.get('at') or ''} has {groups['x'].lower()} people.",
        subject="user",
        predicate=f"{group}_size",
        object=groups["x"].lower(),
        category="user-profile/work",
        tags=("work", group),
        confidence=SURE,
        importance=0.5,
    )
    verb = groups.get("verb", "").lower()
    if not verb:
        return
    where = trimmed(groups.get("where") or "", "long")
    said = _THIRD.get(verb, f"{verb}s")
    yield Extracted(
        content=f"User {said} a {group}{f' {third_person(where)}' if where else ''}.",
        subject="user",
        predicate=f"{verb.split()[0]}_{group}",
        object=third_person(where or group),
        category="user-profile/work",
        tags=("work", group),
        confidence=SURE,
        importance=0.6,
    )


RULES: tuple[Rule, ...] = (
    i_rule(
        rf"{_LEADS} (?:an? |the )?(?:small |big |little |whole )?{_GROUP} of (?:about |around )?{_NUMBER}(?: "
        rf"{_PEOPLE})?\b"
        r"(?P<where> (?:at|in|for|of) .+)?",
        size,
    ),
    i_rule(rf"(?:am|are) (?:now )?an? {_GROUP} of (?:about |around )?{_NUMBER}\b(?P<at> at (?-i:[A-Z])[\w-]+)?", size),
    i_rule(
        rf"(?:am|are|have|have got|got) (?:now )?{_NUMBER} {_PEOPLE} (?:in|on) (?:my|our|the) {_GROUP}\b",
        size,
    ),
    my_rule(
        rf"{_GROUP} (?:is|are|has|counts|grew to|shrank to) (?:now |only )?{_NUMBER}(?: {_PEOPLE})?(?: strong| now)?$",
        size,
    ),
    any_rule(rf"there are (?:now )?{_NUMBER} (?:of us|{_PEOPLE}) (?:in|on) (?:my|our) {_GROUP}\b", size),
)

_PLACES = {"second": "two", "third": "three", "fourth": "four", "fifth": "five", "sixth": "six"}
_BORN = re.compile(
    r"(?:my|our|had (?:my|our)|I had (?:my|our)|we had (?:my|our)) (?P<which>second|third|fourth|fifth|sixth)(?: "
    r"(?:child|"
    r"kid|baby|son|daughter|boy|girl|one))?(?:,? [A-Z]\w+,?)? ?(?:(?:was|is|has been|has|just|finally) ?)*"
    r"(?:born|here|arrived|came|$|[,.!])",
    re.IGNORECASE,
)
_CHILDREN = re.compile(
    r"User has (?P<count>\d+|a|an|one|two|three|four|five) (?P<what>kids?|child(?:ren)?|sons?|daughters?|boys?|"
    r"girls?)\b",
    re.IGNORECASE,
)


_ADDED = re.compile(
    r"(?:I|we) (?:have )?(?:adopted|got|have|bought|rescued|took in) (?:an?|our|my) (?P<which>second|third|fourth|"
    r"fifth|sixth) "
    r"(?P<what>[a-z]+)\b(?!,? (?:(?:named|called) )?(?-i:[A-Z])\w)",
    re.IGNORECASE,
)


def added(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """“We adopted a third cat”: of what was counted there is one more."""
    match = _ADDED.match(clause.text)
    if match is None:
        return []
    count, what = _PLACES[match["which"].lower()], match["what"].lower()
    for one in ledger.newest():
        held = re.search(rf"\b(?P<count>\d+|an?|one|two|three|four|five) {re.escape(what)}s?\b", one.statement.content)
        if held is not None and held["count"] != count:
            changed = exchange(one.statement, held.group(), f"{count} {what}s", count)
            return [changed] if changed is not None else []
    return []


def born(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """“Our third was born on Sunday”: the count of children that is known is one more."""
    match = _BORN.match(clause.text)
    if match is None:
        return []
    count = _PLACES[match["which"].lower()]
    for one in ledger.newest():
        held = _CHILDREN.search(one.statement.content)
        if held is not None and held["count"].lower() != count:
            what = {"kid": "kids", "child": "children"}.get(held["what"].lower(), "children")
            what = held["what"].lower() if held["what"].lower() in ("kids", "children") else what
            changed = exchange(one.statement, f"{held['count']} {held['what']}", f"{count} {what}", count)
            return [changed] if changed is not None else []
    return [
        Extracted(
            content=f"User has {count} children.",
            subject="user",
            predicate="number_of_child",
            object=count,
            category="user-profile/family",
            tags=("people", "children"),
            confidence=SURE,
            importance=0.7,
        )
    ]


def with_birth(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """The count, evident in the clause's sentence."""
    return [
        msgspec.structs.replace(one, evidence=(clause.evidence,))
        for one in born(clause, ledger) or added(clause, ledger)
    ]
