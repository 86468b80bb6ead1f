"""A name that was written wrong: "it's spelled Caitlin", "Katya with a y", "with a ph: Stephen", "it's J-o-h-n".

Who says that names the new spelling alone; the old one is the known name that sounds like it. Of several words each is
compared with the one in its place: a name of which one word alone was put right would be nobody's.
"""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

import msgspec

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.ledger import Known, Ledger, forgotten
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import names_in, slug

_NAME = r"(?-i:[A-Z])[\w'’-]+"
_LETTERS = r"(?:an?|one|two|no|double) ['\"]?[a-z]{1,2}['\"]?(?:['’]?s)?\b"
_LETTER_BY_LETTER = r"[^\W\d_](?:[-–‐][^\W\d_]){1,20}(?![\w–‐-])"
_WORD = rf"(?:{_LETTER_BY_LETTER}|{_NAME})"
_FULL_NAME = rf"{_WORD}(?: (?:(?:de|da|von|van|der|la) )?{_WORD}){{0,3}}"
_FORMS = (
    re.compile(rf"\b(?:spelled|spelt|written)(?: as| like| with {_LETTERS}[:,]?)? (?P<x>{_FULL_NAME})", re.IGNORECASE),
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
_LEAST_ALIKE_OF_SEVERAL = 0.4
"""Of each word beside others that are more alike ("Ann Lee": "Anne Leigh")."""

_MOST_KNOWN = 24
"""Statements that are looked at, the newest."""


def respelled(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """The known statements that hold the name as it was written before, each with it as it is spelled."""
    match = next((found for form in _FORMS if (found := form.search(clause.text.strip(" .!"))) is not None), None)
    if match is None:
        return []
    known = ledger.newest()[:_MOST_KNOWN]
    name = " ".join(_joined(word) for word in match["x"].split())
    pair = _meant(name, [one for one in known if not _OWN_NAME.match(clause.text) or one.statement.predicate == "name"])
    if pair is None or re.search(rf"\b{re.escape(pair[0])}\b(?! not\b)", clause.text.split(" not ")[0]):
        return []
    return [new for one in known for new in _with(one.statement, *pair)]


_OWN_NAME = re.compile(r"my (?:(?:first|last|full|given|family) name|surname|name) is\b", re.IGNORECASE)
"""Then nobody else's name is meant, however alike it is."""


_SPELLED_NAME = re.compile(rf"(?P<whose>.+ name is) (?:spelled|spelt|written)(?: as| like)? (?P<x>{_FULL_NAME})", re.I)


def plainly(clause: Clause) -> Clause:
    """“Her name is spelled Anne Leigh”, of nobody whose name is known: as a clause that tells the name."""
    match = _SPELLED_NAME.match(clause.text)
    if match is None:
        return clause
    name = " ".join(_joined(word) for word in match["x"].split())
    return msgspec.structs.replace(clause, text=f"{match['whose']} {name}{clause.text[match.end() :]}")


def _joined(word: str) -> str:
    """The name that is said letter by letter ("S-m-i-t-h"); any other word as it is."""
    return re.sub(r"[-–‐]", "", word).capitalize() if re.fullmatch(_LETTER_BY_LETTER, word) else word


def _meant(name: str, known: list[Known]) -> tuple[str, str] | None:
    """The known name that is this one, spelled in another way, and what takes its place: the nearest, of equals the one
    said last.
    """
    held = [pair for one in known for other in _names(one.statement) for pair in _in_place(other.split(), name.split())]
    alike = [(_likeness(*pair), pair) for pair in held if pair[0] != pair[1]]
    best = max(alike, key=lambda one: one[0], default=(0.0, ("", "")))
    return best[1] if best[0] >= _LEAST_ALIKE else None


def _in_place(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """The words of a known name that a name as long would take the place of; all of it where the new one is longer
    ("Jon": "John Smith").
    """
    if len(old) < len(new):
        if _likeness(" ".join(old), " ".join(new[: len(old)])) >= _LEAST_ALIKE:
            yield " ".join(old), " ".join(new)
        return
    for begin in range(len(old) - len(new) + 1):
        yield " ".join(old[begin : begin + len(new)]), " ".join(new)


def _names(stated: Extracted) -> list[str]:
    found = names_in(stated.content.partition(" ")[2])
    return [*found, *([stated.subject] if stated.subject and stated.subject[0].isupper() else ())]


def _likeness(one: str, other: str) -> float:
    """How nearly both are one name: the mean of its words, 1 where they sound the same; 0 where one is another name."""
    alike = [_likeness_of_words(*pair) for pair in zip(one.split(), other.split(), strict=False)]
    return sum(alike) / len(alike) if min(alike) >= _LEAST_ALIKE_OF_SEVERAL else 0.0


def _likeness_of_words(one: str, other: str) -> float:
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
    if old in (stated.object or "") and old not in (stated.subject or ""):
        changed = with_value(stated, old, new)
        yield from [changed] if changed is not None else []
        return
    yield forgotten(stated)  # the name is no value of it, so that nothing would be corrected by its value
    yield msgspec.structs.replace(
        stated,
        content=re.sub(rf"\b{re.escape(old)}\b", new, stated.content),
        subject=(stated.subject or "").replace(old, new) or None,
        predicate=(stated.predicate or "").replace(slug(old), slug(new)) or None,
        entities=tuple(new if name == old else name for name in stated.entities),
        relations=(),
    )
