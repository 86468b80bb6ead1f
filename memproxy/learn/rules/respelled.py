"""A name that was written wrong: "it's spelled Caitlin", "Katya with a y", "with a ph: Stephen".

Who says that names the new spelling alone; the old one is the known name that sounds like it.
"""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

import msgspec

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.ledger import Known, Ledger, forgotten
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import names_in

_NAME = r"(?-i:[A-Z])[\w'’-]+"
_LETTERS = r"(?:an?|one|two|no|double) ['\"]?[a-z]{1,2}['\"]?(?:['’]?s)?\b"
_FORMS = (
    re.compile(rf"\b(?:spelled|spelt|written)(?: as| like| with {_LETTERS}[:,]?)? (?P<x>{_NAME})", re.IGNORECASE),
    re.compile(rf"(?P<x>{_NAME}),? (?:but |and )?with(?:out)? {_LETTERS}", re.IGNORECASE),
    re.compile(rf"\bwith(?:out)? {_LETTERS}[:,]? (?:so |as in )?(?P<x>{_NAME})$", re.IGNORECASE),
)
_SOUNDS = (
    ("ph", "f"),
    ("ck", "k"),
    ("gh", "g"),
    ("th", "t"),
    ("c", "k"),
    ("q", "k"),
    ("v", "f"),
    ("z", "s"),
    ("x", "ks"),
)
_LEAST_ALIKE = 0.6
_MOST_KNOWN = 24
"""Statements that are looked at, the newest."""


def respelled(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """The known statements that hold the name as it was written before, each with it as it is spelled."""
    match = next((found for form in _FORMS if (found := form.search(clause.text.strip(" .!"))) is not None), None)
    if match is None:
        return []
    known = ledger.newest()[:_MOST_KNOWN]
    old = _meant(match["x"], known)
    if old is None or re.search(rf"\b{re.escape(old)}\b(?! not\b)", clause.text.split(" not ")[0]):
        return []
    return [new for one in known for new in _with(one.statement, old, match["x"])]


def _meant(name: str, known: list[Known]) -> str | None:
    """The known name that is this one, spelled in another way: the nearest, of equals the one said last."""
    held = [other for one in known for other in _names(one.statement) if other != name]
    alike = [(_likeness(other, name), other) for other in held]
    best = max(alike, key=lambda one: one[0], default=(0.0, ""))
    return best[1] if best[0] >= _LEAST_ALIKE else None


def _names(stated: Extracted) -> list[str]:
    found = [word for name in names_in(stated.content.partition(" ")[2]) for word in name.split()]
    return [*found, *((stated.subject or "").split() if (stated.subject or "user")[0].isupper() else ())]


def _likeness(one: str, other: str) -> float:
    """How nearly both are one name: 1 where they sound the same."""
    first, second = _sound(one), _sound(other)
    if not first or first[0] != second[:1]:
        return 0.0
    return 1.0 if first == second else SequenceMatcher(None, one.casefold(), other.casefold()).ratio()


def _sound(name: str) -> str:
    """The consonants as they are heard, with the first letter whatever it is."""
    plain = name.casefold()
    for written, heard in _SOUNDS:
        plain = plain.replace(written, heard)
    rest = re.sub(r"[aeiouyhäöüáéíóúàèêâîôû'’-]", "", plain[1:])
    return re.sub(r"(.)\1+", r"\1", plain[:1] + rest)


def _with(stated: Extracted, old: str, new: str) -> Iterator[Extracted]:
    if re.search(rf"\b{re.escape(old)}\b", stated.content) is None:
        return
    if old in (stated.object or "") and old not in (stated.subject or "").split():
        changed = with_value(stated, old, new)
        yield from [changed] if changed is not None else []
        return
    yield forgotten(stated)  # the name is no value of it, so that nothing would be corrected by its value
    yield msgspec.structs.replace(
        stated,
        content=re.sub(rf"\b{re.escape(old)}\b", new, stated.content),
        subject=(stated.subject or "").replace(old, new) or None,
        predicate=(stated.predicate or "").replace(old.casefold(), new.casefold()) or None,
        entities=tuple(new if name == old else name for name in stated.entities),
        relations=(),
    )
