"""A statement said as a correction, in the place of what it corrects: by its slot or by what it names as wrong."""

import re

import msgspec

from memproxy.core.slots import predicate_name
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.answers import ADDS, in_its_place, succeeded
from memproxy.learn.rules.apart import is_apart
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.ledger import Ledger, slot_of
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import slug

_NOT_THAT = re.compile(
    r"(?:, not | not (?=[A-Z\d$€£]))(?:in |on |at |for |the |an? )?(?P<wrong>[\w$€£][\w$€£,.' -]{0,40}?)"
    r"(?: anymore)?[.!]?$"
)


def as_correction(stated: Extracted, clause: Clause, ledger: Ledger) -> Extracted:
    """A statement said as a correction, of what its slot holds by another value or of what it names as wrong."""
    wrong = _NOT_THAT.search(clause.text)
    if (
        wrong is not None
        and wrong["wrong"][:1].isupper() == (stated.object or "")[:1].isupper()
        and stated.stance is None
    ):
        return msgspec.structs.replace(stated, intent=Intent.CORRECT, replaces=wrong["wrong"])
    stated = _renamed(stated, ledger) or stated
    old = ledger.same_slot(stated)
    if old is not None and ADDS.search(clause.evidence) is not None:
        return msgspec.structs.replace(stated, predicate=f"{stated.predicate}_{slug(stated.object or '')}"[:80])
    if old is None and clause.is_correction:
        old = _vaguer(stated, ledger)
    known = succeeded(stated, clause, ledger) if old is None else None
    if known is not None and not is_apart(stated, known, clause, ledger):
        new = in_its_place(stated, known)
        if slot_of(new) == slot_of(known):
            return new
        return msgspec.structs.replace(new, intent=Intent.CORRECT, replaces=known.object or known.content)
    old = old or _renewed(stated, clause, ledger)
    denies = old is not None and stated.stance is None and _affirms(old) is not _affirms(stated)
    if old is None or not clause.is_correction or denies:
        return stated
    return msgspec.structs.replace(stated, intent=Intent.CORRECT, replaces=old.object or old.content)


def _renamed(stated: Extracted, ledger: Ledger) -> Extracted | None:
    """“I go by Wojtek Nowak-Lind” of who is known as Wojtek Nowak: his name, with another last name."""
    said = (stated.object or "").split()
    if stated.predicate != "preferred_name" or len(said) < _FULL:
        return None
    for one in ledger.newest():
        known = one.statement
        held = (known.object or "").split()
        if known.predicate == "name" and known.subject == "user" and len(held) >= _FULL and held[0] == said[0]:
            return with_value(known, known.object or "", stated.object or "")
    return None


_FULL = 2
"""Words of a name that says the last name too."""


def _renewed(stated: Extracted, clause: Clause, ledger: Ledger) -> Extracted | None:
    """What “my new goal is ...” is in the place of: the only one of its kind that is known."""
    name = re.escape((stated.predicate or "?").rsplit("_", 1)[-1])
    is_new = re.search(rf"\b(?:my|our) new (?:\w+ )?{name}\b", clause.evidence, re.IGNORECASE)
    is_now = clause.is_correction and re.match(rf"(?:my|our) (?:\w+ )?{name} is\b", clause.text, re.IGNORECASE)
    if not (is_new or is_now):
        return None
    held = [
        one.statement
        for one in ledger.newest()
        if one.statement.predicate == stated.predicate and one.statement.subject == stated.subject
    ]
    return held[0] if len(held) == 1 and held[0].object != stated.object else None


def _affirms(statement: Extracted) -> bool:
    return predicate_name(statement.predicate or "")[1]


def _vaguer(stated: Extracted, ledger: Ledger) -> Extracted | None:
    """What a correction said without its context is about ("my budget is 15,000 now": the one for Hawaii)."""
    if stated.predicate != "budget":
        return None
    held = [one.statement for one in ledger.newest() if (one.statement.predicate or "").startswith("budget_for_")]
    return held[0] if held else None
