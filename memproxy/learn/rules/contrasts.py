"""What is put right against what it is not: "he isn't a poodle but a labradoodle", "Anna? no, Hanna".

The statement that holds the wrong value, about the same thing where the clause names one, with the right value in it.
Read before any denial: "is not a poodle" alone would take back what the clause goes on to correct.
"""

import re

import msgspec

from memproxy.core.slots import value_name
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.ledger import Ledger, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import trimmed

_JOIN = r"(?:called |named |spelled |in |on |at |from |with |to |for )?(?:an? |the )?"
_RIGHT = r"(?P<x>(?!to\b|because\b|when\b|if\b|that\b)[\w$€£][\w$€£.:,'&+-]*(?: [\w$€£.:'&+-]+){0,4}?)"
_NOT_BUT = re.compile(
    rf"(?P<what>(?:(?:my|our|the|his|her|their) )?[\w' -]{{1,40}}?) (?:is|are|was|were|am) (?:not|never) "
    rf"(?:actually |really )?"
    r"(?!sure\b|certain\b|convinced\b|that\b)"
    rf"{_JOIN}"
    rf"(?P<wrong>[\w$€£][^,;.!?]{{0,38}}?)(?: at all| after all| any ?more)?,? "
    rf"(?:but(?: rather)?|(?:it|he|she|they|that) (?:is|are)|more of|rather) (?:actually |really |now |more )?{_JOIN}"
    rf"{_RIGHT}(?: actually| really| instead| now)?[.!]?$",
    re.IGNORECASE,
)
_TOLD_BY = re.compile(r"^(?:the|my|our) \w+ (?:says?|said|told (?:me|us)|thinks?|found out) (?:that )?", re.IGNORECASE)
_NO_LONGER_BUT = re.compile(
    r"(?:it is |now )?(?:no longer|not|no more) (?P<wrong>[\w$€£][^,;.!?]{1,30}?)(?: any ?more)?,? but (?:rather |"
    r"now )?"
    r"(?P<x>[\w$€£][\w$€£' -]{1,30}?)(?=$|[.,;!]| (?:in|on|at|for|with|every|since|from|now|instead)\b)",
    re.IGNORECASE,
)
_NOT_FAVOURITE = re.compile(
    r"(?P<wrong>[\w' -]{2,40}?) (?:is|are) (?:not|no longer) (?:my|our) (?P<what>favou?rite)(?: [\w ]{2,20}?)?"
    r"(?: anymore| now)?, (?:it|that) is (?P<x>[\w][\w' -]{1,40}?)(?: now)?[.!]?$",
    re.IGNORECASE,
)
_NO_THING = re.compile(r"(?:I|we|it|that|this|he|she|they|there|you|what|name)$", re.IGNORECASE)


def contrasted(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """The known statement with the right value; nothing where no known one holds the wrong value."""
    text = _TOLD_BY.sub("", clause.text)
    if exchanged := _left_for(text, ledger):
        return exchanged
    match = _NOT_BUT.match(text)
    if (other := _NOT_FAVOURITE.match(text)) is not None:
        match = other
    if match is None:
        return _no_longer_but(text, ledger)
    wrong, new = trimmed(match["wrong"], "long"), trimmed(match["x"], "long")
    if wrong is None or new is None or value_name(wrong) == value_name(new):
        return []
    named = frozenset[str]() if _NO_THING.match(match["what"].strip()) else terms(match["what"])
    held = [
        one.statement
        for one in ledger.newest()
        if f"_{value_name(wrong)}_" in f"_{one.name}_" and (not named or named & one.told)
    ]
    for known in held[:1]:
        changed = with_value(known, wrong, new)
        if changed is not None:
            return [msgspec.structs.replace(changed, content=with_articles(changed.content, new))]
    return []


_LEFT_FOR = re.compile(
    r"(?!(?:I|we|it|that|this)\b)(?P<who>(?:(?:my|our) )?[\w' -]{2,40}?) (?:has |have |just |finally |is )*(?:left|"
    r"leaving|swapped|traded|ditched|"
    r"dropped|quit|changed from|switched from|moved from|went from|gone from) (?P<wrong>[\w$€£][^,;.!?]{1,30}?) "
    r"(?:for|to) "
    r"(?P<x>[\w$€£][\w$€£&' -]{1,30}?)(?=$|[.,;!]| (?:in|on|at|last|this|since|from|now|instead|and|because)\b)",
    re.IGNORECASE,
)


def _left_for(text: str, ledger: Ledger) -> list[Extracted]:
    """“Lea has left Bosch for Siemens”: what is known of her that holds the old one."""
    match = _LEFT_FOR.match(text)
    wrong, new = (trimmed(match[part], "short") if match is not None else None for part in ("wrong", "x"))
    if match is None or wrong is None or new is None or wrong[:1].isupper() is not new[:1].isupper():
        return []
    who = terms(match["who"])
    held = [
        one.statement
        for one in ledger.newest()
        if who and who <= one.told and f"_{value_name(wrong)}_" in f"_{one.name}_"
    ]
    changed = with_value(held[0], wrong, new) if len(held) == 1 and held[0].stance is None else None
    return [changed] if changed is not None else []


def _no_longer_but(text: str, ledger: Ledger) -> list[Extracted]:
    """“No longer tea but coffee in the mornings”, where one known statement speaks of tea."""
    match = _NO_LONGER_BUT.match(text)
    wrong, new = (trimmed(match[part], "short") if match is not None else None for part in ("wrong", "x"))
    if wrong is None or new is None or len(wrong.split()) > _FEW:
        return []
    held = [one.statement for one in ledger.newest() if f"_{value_name(wrong)}_" in f"_{one.name}_"]
    changed = with_value(held[0], wrong, new) if len(held) == 1 and held[0].stance is None else None
    if changed is None:
        return []
    value = new if changed.object == held[0].object else changed.object
    return [msgspec.structs.replace(changed, object=value)]


_FEW = 3
"""Words that a value said without any sentence around it has at most."""


def with_articles(content: str, new: str) -> str:
    """The text with "a" or "an" before a value as the value wants it."""
    article = "an" if new[:1].lower() in "aeio" else "a"
    return re.sub(rf"\ban? (?={re.escape(new)})", f"{article} ", content, count=1, flags=re.IGNORECASE)
