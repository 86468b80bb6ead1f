"""Corrections of what the user said in this conversation and no rule had read, and of values named wrong in any order.

"Also it's 150 words, not 200" after "he wants a 200 word abstract by Monday": the earlier clause with the right value
in it is the statement. Only where one earlier clause can be meant.
"""

import re

import msgspec

from memproxy.core.slots import value_name
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.frames import NUMBER_WORDS
from memproxy.learn.rules.general import fact
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.ledger import Ledger, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.typed import COLOURS, has_sort, is_ambiguous, replaced
from memproxy.learn.rules.values import MASK, names_in, slug, third_person, trimmed

_STOP = (
    r"(?=$|[,.;!?)]|\s(?:from|since|tonight|tonite|today|tomorrow|this|next|for now|anymore|any more|lol|haha|sorry|"
    r"please|"
    r"because|so|as|and|but|my (?:bad|mistake))\b)"
)
_NOT = re.compile(
    r"(?:,|\s)\s*(?:and\s+)?(?:not|instead of|rather than|in place of)\s+(?:the |a |an |on |in |at |with |for |to )*"
    rf"(?P<wrong>[\w$€£¥][\w$€£¥.:,'%+/-]*(?: [\w$€£¥.:'%+/-]+){{0,3}}?){_STOP}",
    re.IGNORECASE,
)
_NOT_FIRST = re.compile(
    r"(?:is|are|was|were|am|does|do)(?:n't| not) (?:the |a |an |on |in |at |with |for "
    r")*(?P<wrong>[\w$€£][\w$€£.:'%+/ -]{0,30}?)"
    r",? (?:but |it is |it's |that is |rather )+(?:the |a |an |on |in |at |with |for )*(?P<x>[\w$€£].{0,40}?)[.!]?$",
    re.IGNORECASE,
)
_VALUES = (
    re.compile(rf"\b(?:once|twice|thrice|(?:{NUMBER_WORDS}|\d+) times)\b", re.IGNORECASE),
    re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b", re.IGNORECASE),
    re.compile(r"\b\d{1,2}(?::\d\d)? ?[ap]m\b|\b\d{1,2}:\d\d\b", re.IGNORECASE),
    re.compile(
        r"(?:\d{1,2}(?:st|nd|rd|th)? )?\b(?:january|february|march|april|may|june|july|august|september|october|"
        r"november|"
        r"december)\b(?: \d{1,2}(?:st|nd|rd|th)?\b)?",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?=\w*\d)(?=\w*[a-z])[a-z\d]+(?:-[a-z\d]+)*\b", re.IGNORECASE),
    re.compile(r"[$€£¥]?\b\d[\d.,]*\d\b|[$€£¥]?\b\d\b"),
    re.compile(rf"\b(?:{NUMBER_WORDS})\b", re.IGNORECASE),
    re.compile(rf"\b(?:{COLOURS})\b", re.IGNORECASE),
)
_OWN = re.compile(r"\b(?:I|we|my|our|me|us)\b", re.IGNORECASE)
_ELSEWHERE = re.compile(r"(?:it|that|this|these|those|they|he|she|there|you|what|which|who)\b", re.IGNORECASE)
_FAR = 3
"""Turns back to what a value said alone can be about: the exchange before."""

_MOST_WORDS = 22


class _Meant(msgspec.Struct, frozen=True):
    new: str
    wrong: str | None


def swapped(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """“Rufus loads the kiln, not Imani”: the known statement that holds the wrong value, with the one of its sort."""
    meant = _named_wrong(clause.text)
    if meant is None or meant.wrong is None:
        return []
    for one in ledger.newest():
        if _holds(one.statement.content, meant.wrong) and not _holds(one.statement.content, meant.new):
            changed = with_value(one.statement, meant.wrong, meant.new)
            return [changed] if changed is not None else []
    return []


def recovered(clause: Clause, ledger: Ledger, place: int) -> list[Extracted]:
    """What was said earlier in this conversation, with the right value in it; nothing where that is not clear."""
    meant = _named_wrong(clause.text)
    corrects = clause.is_correction or _MAKE.match(clause.text) is not None
    if meant is None and corrects and has_sort(bare := _bare(clause.text), clause):
        meant = _Meant(bare, None)
    if meant is None:
        return []
    if meant.wrong is not None:
        return _by_wrong(meant, clause, ledger) or _own_words(clause)
    near = [(at, one) for at, one in ledger.told if place - at <= _FAR and _OWN.search(one.evidence)]
    counted = _by_unit(meant.new, [one for _, one in near if one.evidence != clause.evidence])
    if counted is not None:
        return [counted]
    near = [(at, one) for at, one in near if _OWN.search(one.text)]
    if put_right := _as_stated(meant.new, [one for _, one in near], clause, ledger):
        return put_right
    made = [
        msgspec.structs.replace(changed, intent=Intent.STATE, replaces=None)
        for at, one in near
        if (said := as_told(one)) is not None
        and (changed := replaced(said, meant.new, clause)) is not None
        and changed.content != said.content
    ]
    return made if len(made) == 1 else []


def _as_stated(new: str, near: list[Clause], clause: Clause, ledger: Ledger) -> list[Extracted]:
    """The one statement made of these clauses that has a value of the sort of the new one, with that."""
    said = {told.evidence: " ".join(one.text for one in near if one.evidence == told.evidence) for told in near}
    clear = [evidence for evidence, text in said.items() if not is_ambiguous(new, text, clause)]
    changed = [
        found
        for one in ledger.newest()
        if one.turn >= 0 and any(evidence in one.statement.evidence for evidence in clear)
        if (found := replaced(one.statement, new, clause)) is not None and found.content != one.statement.content
    ]
    return changed if len(changed) == 1 else []


_MAKE = re.compile(r"make (?:it|that) ", re.IGNORECASE)
_UNIT = re.compile(r"(?P<number>[$€£¥]?\d[\d.,:]*|[a-z]+)[ -]?(?P<unit>[a-z]{2,})\b", re.IGNORECASE)


def _by_unit(new: str, earlier: list[Clause]) -> Extracted | None:
    """“It's a 1500 mAh pack” for the only number of mAh that was said before."""
    said = _UNIT.match(new)
    if said is None or not (said["number"][:1].isdigit() or re.fullmatch(NUMBER_WORDS, said["number"], re.IGNORECASE)):
        return None
    held = [
        (one, found)
        for one in earlier
        for found in re.finditer(
            rf"(?:[$€£¥]?\d[\d.,:]*|\b(?:{NUMBER_WORDS}))(?=[ -]?{re.escape(said['unit'])}\b)", one.text, re.I
        )
        if found.group().casefold() != said["number"].casefold()
    ]
    if len(held) != 1:
        return None
    one, found = held[0]
    right = f"{one.text[: found.start()]}{said['number']}{one.text[found.end() :]}"
    return as_told(msgspec.structs.replace(one, text=right))


def _by_wrong(meant: _Meant, clause: Clause, ledger: Ledger) -> list[Extracted]:
    """The clause that held the wrong value; else the one that had said the right one, which somebody misread."""
    for _, one in reversed(ledger.told):
        if _holds(one.text, meant.wrong or "") and one.evidence != clause.evidence:
            right = re.sub(
                rf"\b{re.escape(meant.wrong or '')}(?!\w)", lambda _: meant.new, one.text, count=1, flags=re.I
            )
            said = as_told(msgspec.structs.replace(one, text=right))
            return [said] if said is not None and _holds(said.content, meant.new) else []
    for _, one in reversed(ledger.told):
        if _holds(one.text, meant.new) and _OWN.search(one.text):
            said = as_told(one)
            return [said] if said is not None and _holds(said.content, meant.new) else []
    return []


def _own_words(clause: Clause) -> list[Extracted]:
    """The clause itself without what it calls wrong, where it says the whole."""
    text = _NOT.sub("", clause.text, count=1)
    if _OWN.search(text) is None or re.search(r"\b(?:mean|meant|said)\b", text):
        return []
    said = as_told(msgspec.structs.replace(clause, text=text))
    return [said] if said is not None and len(said.content.split()) > 4 else []


def _bare(text: str) -> str:
    plain = re.sub(
        r"^(?:(?:it|that|this) (?:is|was|should be)|(?:I|we) (?:mean|meant|should have said)|make (?:it|that)|(?:it "
        r"is )?at)"
        r"(?: (?:an?|the|actually|at|on))* ",
        "",
        text.strip(" .!,"),
        flags=re.IGNORECASE,
    )
    return re.split(r",\s|\s(?:to go|in total|now|instead|by the way|btw)\b", plain)[0]


def _named_wrong(text: str) -> _Meant | None:
    """The right and the wrong value of a clause that names both, wherever they stand."""
    first = _NOT_FIRST.search(text)
    if first is not None:
        return _Meant(first["x"].strip(" .!"), first["wrong"].strip())
    found = _NOT.search(text)
    if found is None:
        return None
    wrong, rest = found["wrong"].strip(" .,"), text[: found.start()]
    new = _of_its_sort(wrong, rest)
    return _Meant(new, wrong) if new is not None and value_name(new) != value_name(wrong) else None


def _of_its_sort(wrong: str, text: str) -> str | None:
    """The only value in the text of the sort of the wrong one."""
    for sort in _VALUES:
        if sort.fullmatch(wrong):
            held = list(dict.fromkeys(one.group() for one in sort.finditer(text)))
            return held[-1] if len(held) == 1 else None
    if names_in(f"x {wrong}") == [wrong]:
        held = names_in(f"{text[:1].lower()}{text[1:]}") or names_in(text)
        return held[0] if len(held) == 1 else None
    return None


def _holds(text: str, value: str) -> bool:
    name = value_name(value)
    return bool(name) and f"_{name}_" in f"_{value_name(text)}_"


def as_told(clause: Clause) -> Extracted | None:
    """A clause of the user's in the third person; None where it points elsewhere or is too long to stand alone."""
    text = trimmed(clause.text, "whole")
    if text is None or MASK in text or _ELSEWHERE.match(text) or len(text.split()) > _MOST_WORDS:
        return None
    own = re.match(r"(?P<i>I|we) (?P<x>.+)|(?:my|our) (?P<y>.+)", text, re.IGNORECASE | re.DOTALL)
    if own is None:
        content = text[0].upper() + text[1:]
    elif own["i"]:
        content = f"User {third_verb(own['x'])}"
    else:
        content = f"User's {own['y']}"
    said = own["x"] or own["y"] if own is not None else text
    return fact(f"{third_person(content)}.", f"told_{slug(said)}", third_person(said))


_COUNTED = re.compile(
    rf"(?P<number>\d[\d.,]*|(?:{NUMBER_WORDS})(?:-(?:{NUMBER_WORDS}))?)(?P<of> (?:[\w-]+ "
    rf"){{0,2}}?)(?P<what>[a-z]{{3,}}s)\b",
    re.IGNORECASE,
)
_CHANGES_COUNT = re.compile(
    r"\b(?:down|up|back) to\b|\b(?:final|latest|new|total) (?:count|number|tally|headcount)\b|\b(?:only|now|left|"
    r"remaining|better|rather|instead|after all|actually|in total|"
    r"altogether|"
    r"make (?:it|that)|plan for)\b",
    re.IGNORECASE,
)
_PASSING_COUNT = frozenset(
    """
    minutes hours days weeks months years times words lines sentences questions errors tests examples steps percent
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)  # fmt: skip


def recounted(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """“I'm down to five hives” after “seven hives”: the one statement that counts the same things."""
    match = _COUNTED.search(clause.text)
    if match is None or not (clause.is_correction or _CHANGES_COUNT.search(clause.text)):
        return []
    what = match["what"].lower()
    if what in _PASSING_COUNT:
        return []
    held = [
        (one.statement, found)
        for one in ledger.newest()
        for found in _COUNTED.finditer(one.statement.content)
        if found["what"].lower() == what and one.statement.stance is None
    ]
    if len(held) != 1 or held[0][1]["number"].casefold() == match["number"].casefold():
        return []
    known, found = held[0]
    changed = with_value(known, f"{found['number']}{found['of']}{what}", f"{match['number']}{found['of']}{what}")
    return [msgspec.structs.replace(changed, object=match["number"])] if changed is not None else []


_GONE_OVER = re.compile(
    r"(?:I|we)(?: have)?(?: just| now| finally)? (?:gone over|went over|switched|changed|moved(?: over)?|converted|"
    r"turned) to "
    r"(?P<x>(?-i:[A-Z])[\w.+-]*(?: (?-i:[A-Z0-9])[\w.+-]*)*) (?:for|when|to) (?P<what>[\w' -]{4,60})",
    re.IGNORECASE,
)


def gone_over(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """“I've gone over to Xtol for developing film”: in the place of the name in what is known to be done so."""
    match = _GONE_OVER.match(clause.text)
    if match is None:
        return []
    about = terms(match["what"])
    held = [one.statement for one in ledger.newest() if len(about & one.told) * 2 > len(about)]
    named = [(one, names_in(one.content.partition(" ")[2])) for one in held]
    fitting = [(one, names[0]) for one, names in named if len(names) == 1]
    changed = with_value(fitting[0][0], fitting[0][1], match["x"]) if len(fitting) == 1 else None
    return [changed] if changed is not None else []
