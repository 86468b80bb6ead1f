"""Plain corrections: what was stated before gets another value, in the table's own sentence for it; what somebody else
worded is taken back and not worded anew.

A value is put right by naming the wrong one ("Lyon, not Paris"), by naming its question ("the deadline is now 3 May"),
or alone, where just one thing of its kind was said before ("no, it's 15k"). Where none of these is clear nothing
changes.
"""

import re
from datetime import datetime

import msgspec

from memproxy.core.slots import predicate_name, same_value, value_name
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.known import Ledger, put_aside, terms, with_value
from memproxy.learn.rules.said import Clause
from memproxy.learn.rules.statements import is_value, stated
from memproxy.learn.rules.table import COUNT, VALUES

_JUST_SAID = 2
"""Turns back to what the user said before the answer that a correction follows."""

_OLD = r"(?P<old>[^,;:!?]{1,50}?)"
_NEW = r"(?P<new>[^,;:!?]{1,50}?)"
_END = r"(?=\Z|[,;:!?]| (?:because|since|but|so|and|for|i|we)\b)"
_IT = r"(?:it|that|they|this|he|she|the \w{2,20}|my \w{2,20}|our \w{2,20})"
_IS = r"(?: is| are| was|'s)"
_PAIRS = (
    rf"{_IT}{_IS} {_NEW},? (?:and )?not {_OLD}{_END}",
    rf"{_IT}{_IS} not {_OLD}(?:[,;:]| but)(?: (?:but|it is|that is|they are|its))? {_NEW}{_END}",
    rf"(?:i meant|i mean|make (?:it|that)|make|read) {_NEW},? (?:and )?not {_OLD}{_END}",
    (
        rf"(?:i said|i wrote|i told you|it said) {_OLD},?(?: (?:but|and))?(?: i)? (?:meant"
        rf"|mean)(?: to say)? {_NEW}{_END}"
    ),
    rf"not {_OLD}(?:,| but)(?: (?:but|it is|i meant|i mean))? {_NEW}{_END}",
    rf"{_NEW},? (?:and )?not {_OLD}{_END}",
    (
        rf"(?:i|we) (?:have )?(?:switched|changed|moved|went|gone|migrated|upgraded)(?: over| jobs?| (?:my"
        rf"|our) \w{{2,20}})? from {_OLD} to {_NEW}{_END}"
    ),
    (
        rf"(?:i|we) (?:have )?(?:swapped|traded|replaced|exchanged)(?: in)? (?:my |our |the )?{_OLD} (?:for|with"
        rf"|by) (?:an? |the )?{_NEW}{_END}"
    ),
    (
        rf"(?:i|we) (?:have )?(?:left|quit) {_OLD} (?:for|and (?:now )?(?:work|joined|started)(?: at"
        rf"| for)?) {_NEW}{_END}"
    ),
    rf"{_IT}{_IS} (?:now )?{_NEW} instead of {_OLD}{_END}",
    rf"(?:i|we) (?:now )?(?:use|drive|have) (?:an? )?{_NEW} instead of (?:an? |the |my )?{_OLD}{_END}",
)  # fmt: skip
PAIRS = tuple(re.compile(rf"\A(?:{one})", re.IGNORECASE) for one in _PAIRS)
"""What names the wrong value and the right one."""

_CHANGED = (
    r"(?:is|are|will be|was|has been|have been|went up|goes up|rose|dropped|moved|has moved|changed|has changed"
    r"|got moved"
    r"|has gone up|went down|slipped|increased|has increased|grew)(?: (?:now|moved|changed|pushed|postponed|set"
    r"|raised"
    r"|increased|rescheduled|shifted|put back|brought forward|extended|lowered|cut|reduced|delayed|bumped"
    r"|renamed|called"
    r"|back|up)){0,2}(?: (?:to|on|at|until|by|for))?(?: now)?"
)
_TOPIC = r"(?P<topic>[\w'-]{2,20}(?: [\w'-]{2,20}){0,3}?)"
_SUBJECTS = (
    rf"(?:(?:the|my|our) )?(?:new )?{_TOPIC} {_CHANGED} (?:an? |the )?(?P<new>\S.{{0,60}})",
    (
        rf"(?:about|on|re|regarding|for) (?:(?:the|my|our) )?{_TOPIC}[:,] (?:no,? )?(?:it is |that is "
        rf"|make it )?(?:now )?(?P<new>\S.{{0,60}})"
    ),
)
SUBJECTS = tuple(re.compile(rf"\A(?:{one})", re.IGNORECASE) for one in _SUBJECTS)
"""What names a question and its new answer."""

ALONE = re.compile(
    r"\A(?:(?:(?:it|that|they|this)(?: is| are| was|'s) (?:now |really )?|i meant |i mean |make (?:it|that) "
    r"|should be "
    r"|it should be )(?:on |at |in |an? )?)(?P<new>\S.{0,60})",
    re.IGNORECASE,
)
COUNTED = re.compile(rf"\A(?P<new>{COUNT}) (?P<topic>[\w-]{{2,20}})(?=\Z|[,;])", re.IGNORECASE)
_TYPES = {kind: VALUES[kind].split("(?=\\Z")[0] + r"(?!\w)" for kind in ("AMOUNT", "DATE", "NUMBER")} | {
    "NAME": VALUES["NAME"]
}
_STARTS = re.compile(r"(?:\A|(?<=\s))(?=[\w$€£¥])")
_KINDS = {kind: re.compile(rf"\A{pattern}", re.IGNORECASE) for kind, pattern in _TYPES.items()}


def changed(clause: Clause, ledger: Ledger, place: int) -> list[Extracted]:
    """What a clause puts right of what is known."""
    return _by_pair(clause.text, ledger) or _by_subject(clause, ledger) or _by_value(clause, ledger, place)


_CONTRAST = re.compile(
    r"\A(?P<told>.{3,120}?),? (?:and )?(?:not|instead of|rather than) (?P<old>[^,;:!?]{1,50})\Z", re.IGNORECASE
)


def speaks_of_a_change(clause: Clause) -> bool:
    """Whether a clause is worded like one that puts a value right: whether `changed` could, whatever is known."""
    if clause.corrects:
        return True
    pairs = (one.match(clause.text) for one in PAIRS)
    if any(match is not None and is_value(_bare(match["old"])) and is_value(_bare(match["new"])) for match in pairs):
        return True
    alone = ALONE.match(clause.text)
    if alone is not None and (new := typed(alone["new"])) is not None and new[0] != "NAME":
        return True
    asked = [one.match(clause.text) for one in SUBJECTS] if clause.text[:4].lower() == "the " else []
    return any(match is not None and typed(match["new"]) is not None for match in asked)


def put_right(clause: Clause, ledger: Ledger, said_at: datetime) -> list[Extracted]:
    """What a whole statement puts right by the value that it denies ("I'm allergic to cashews, not almonds")."""
    match = _CONTRAST.match(clause.text)
    meant = stated(match["told"], said_at) if match is not None else []
    if match is None or len(meant) != 1:
        return []
    target = ledger.holding(_bare(match["old"]))
    if target is None or target.predicate != meant[0].predicate:
        return meant
    made = with_value(target, meant[0].object or "")
    return [made] if made else meant


def _by_pair(text: str, ledger: Ledger) -> list[Extracted]:
    for pattern in PAIRS:
        match = pattern.match(text)
        if match is None:
            continue
        old, new = _bare(match["old"]), _bare(match["new"])
        target = ledger.holding(old) if is_value(old) and is_value(new) else None
        whole = target is not None and same_value(value_name(target.object or ""), value_name(old))
        if target is not None and whole and (made := with_value(target, new)):
            return [made]
    return []


def _by_subject(clause: Clause, ledger: Ledger) -> list[Extracted]:
    for pattern in SUBJECTS:
        if (match := pattern.match(clause.text)) is not None and (new := typed(match["new"])) is not None:
            wanted = terms(match["topic"])
            known = [one.statement for one in ledger.newest() if wanted and wanted <= one.terms]
            fitting = [one for one in known if _fits(one.object, new)]
            asked = {(one.subject, predicate_name(one.predicate or one.content)[0]) for one in fitting}
            if len(asked) == 1 and (made := with_value(fitting[0], new[1])):
                return [made]
    return []


def _by_value(clause: Clause, ledger: Ledger, place: int) -> list[Extracted]:
    if clause.corrects and (counted := COUNTED.match(clause.text)) is not None:
        number = f"number_of_{counted['topic']}"
        held = [one.statement for one in ledger.newest() if one.statement.predicate == number]
        if not held or not held[0].evidence:
            return [put_aside(held[0])] if held else []
        return [msgspec.structs.replace(held[0], content=f"User has {counted[0]}.", object=counted["new"])]
    match = ALONE.match(clause.text)
    new = typed(match["new"]) if match is not None else None
    if new is None or (new[0] == "NAME" and not clause.corrects):
        return []
    near = [one for one in ledger.said_in(place - _JUST_SAID, place) if _fits(one.object, new)]
    made = with_value(near[0], new[1]) if len(near) == 1 else None
    return [made] if made else []


_DOSED = re.compile(r"\d ?(?P<unit>mg|mcg|iu|ml)\b", re.IGNORECASE)
_ASKED_ABOUT = frozenset({"budget", "dose"})
"""What a new value need not name beside what it is for ("I can spend 1,900 on the tiles")."""


def another_value(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """Another value of the kind of a known one, in a clause that holds all that the known one is about."""
    said = terms(clause.text)
    fitting = []
    for one in ledger.newest():
        about = one.topic - _ASKED_ABOUT
        unit = _unit(one.statement.object or "")
        is_dose = unit is not None and unit == _unit(clause.text)
        if (about and about <= said) or (clause.corrects and about & said) or is_dose:
            fitting += [one] if typed(one.statement.object or "") else []
    if len(fitting) != 1:
        return []
    target = fitting[0].statement
    if not target.evidence:
        return []  # what somebody else worded may be about more than its words share with these
    found = [typed(clause.text[place.end() :]) for place in _STARTS.finditer(clause.text)]
    allowed = [new for new in found if new is not None and (new[0] != "NAME" or clause.corrects)]
    values = [value for kind, value in allowed if _fits(target.object, (kind, value))]
    made = with_value(target, values[0]) if len(set(values)) == 1 else None
    return [made] if made else []


def _unit(text: str) -> str | None:
    """The unit of a dose, by which it is known where one alone is told."""
    found = _DOSED.search(text)
    return found["unit"].lower() if found else None


def typed(text: str) -> tuple[str, str] | None:
    """The kind and words of the value at the beginning of a text: an amount, a day or time, a number or a name."""
    for kind, pattern in _KINDS.items():
        if (match := pattern.match(text)) is not None and is_value(match["x"]):
            return kind, match["x"]
    return None


def _fits(old: str | None, new: tuple[str, str]) -> bool:
    """Whether a value may stand where the old one stands: it is of its kind; a bare number may be an amount."""
    held = typed(old or "")
    return held is not None and (held[0] == new[0] or {held[0], new[0]} == {"AMOUNT", "NUMBER"})


def _bare(text: str) -> str:
    return re.sub(r"^(?:at|on|in|an?|the|my|our|to|for) ", "", text.strip(" .!,'\""), flags=re.IGNORECASE)
