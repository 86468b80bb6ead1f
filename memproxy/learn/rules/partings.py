"""Whom the user is no longer with ("Marta and I broke up")."""

import re
from collections.abc import Iterator

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.ledger import Ledger, forgotten, terms
from memproxy.learn.rules.model import Clause

_BROKE_UP = re.compile(
    r"(?:(?P<x>[A-Z]\w+) and I|(?:me and|I and) (?P<z>[A-Z]\w+)|we|I) (?:have )?(?:broke up|broken up|split up|"
    r"split|separated|are over|are done|are "
    r"through|are no longer together|called it quits|called off (?:the|our) (?:engagement|wedding)|got divorced|are "
    r"divorced)(?: with (?P<y>\w+(?: \w+)?))?",
    re.IGNORECASE,
)
_PARTNER = frozenset(
    {
        "partner",
        "wife",
        "husband",
        "girlfriend",
        "boyfriend",
        "marital_status",
        "fiance",
        "fiancee",
    }
)


_OF_PARTNER = re.compile(r"User's (?:boyfriend|girlfriend|partner)\b(?!.* is named )")
_COUPLE = frozenset(f"family_{word}" for word in _PARTNER) | frozenset({"dating"})


def parted(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """Whom the user broke up with ("Marta and I broke up"), in a sentence as a whole."""
    match = _BROKE_UP.search(clause.text)
    if match is not None:
        who = terms(match["x"] or match["y"] or match["z"] or "")
        yield from (forgotten(one.statement) for one in ledger.newest() if _OF_PARTNER.match(one.statement.content))
        held = [
            one.statement
            for one in ledger.newest()
            if (one.statement.predicate or "") in _PARTNER | _COUPLE
            or _PARTNER & set(one.statement.tags)
            or (one.statement.predicate or "").startswith(("dating_", "marry", "marries", "wedding", "date_of_wedding"))
        ]
        yield from (
            forgotten(one)
            for one in held
            if who <= terms(one.content)
            or not who
            or (one.predicate or "").startswith(("marry", "marries", "wedding", "date_of_wedding"))
            or one.predicate in _COUPLE
            or one.object in ("engaged", "married")
        )
