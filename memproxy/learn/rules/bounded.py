"""What holds until a day: said once, with its end; and a thing whose date is told is told once.

A statement that drops the "until Friday" it was said with would hold for ever, which nobody said.
"""

import re
from collections.abc import Iterable

import msgspec

from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules import dates
from memproxy.learn.rules.model import Clause

_UNTIL = re.compile(r"\b(?:until|till|'til|through to|up to and including)\b(?! now\b)", re.IGNORECASE)

_PAST = re.compile(r"User (?:was|were|used to|worked|lived|had|[a-z]+ed)\b")
"""What is over needs no end."""


def bounded(found: Iterable[Extracted], clause: Clause) -> list[Extracted]:
    """The statements of a clause, each with the end that the clause says; without those that leave it out."""
    once = _once(list(found))
    if _UNTIL.search(clause.text) is None:
        return once
    end = dates.until(clause.text, clause.said_at)
    kept = [one for one in once if one.intent is not Intent.STATE or _says_end(one) or end is not None]
    away = [one for one in kept if one.predicate == "away"]
    if away:
        kept = [one for one in kept if one in away or not (one.predicate or "").startswith("date_of_")]
    return [
        one if one.valid_to is not None or end is None else msgspec.structs.replace(one, valid_to=end) for one in kept
    ]


def _says_end(one: Extracted) -> bool:
    return one.valid_to is not None or _UNTIL.search(one.content) is not None or _PAST.match(one.content) is not None


def _once(found: list[Extracted]) -> list[Extracted]:
    """Without "flight home: Sunday at 18:20 from Palermo" where the date of the flight home is told beside."""
    dated = {
        (one.predicate or "").removeprefix("date_of_") for one in found if (one.predicate or "").startswith("date_of_")
    }
    sized = {
        (one.predicate or "").rpartition("_")[0] for one in found if (one.predicate or "").endswith(("_size", "_count"))
    }
    kept = [one for one in found if one.predicate not in dated | sized]
    return [one for one in kept if not any(_is_more(other, one) or _says_all(other, one) for other in kept)]


_EMPTY = frozenset({"user", "is", "are", "has", "have", "the", "a", "an", "at", "on", "in", "starts", "of"})


def _says_all(other: Extracted, one: Extracted) -> bool:
    """Whether another says of the same time all that this one says ("shift is at 6", "shift starts at 6")."""
    if (
        other is one
        or not (one.predicate or "").startswith(("time_", "date_of_", "told_"))
        or one.subject != other.subject
    ):
        return False
    said, more = (frozenset(text.content.casefold().rstrip(".").split()) - _EMPTY for text in (one, other))
    return bool(said) and (said < more or (said == more and not (one.predicate or "").startswith("time_of_")))


def _is_more(other: Extracted, one: Extracted) -> bool:
    """Whether another statement of the same slot says all of one and more ("5 Rose Street, Bath")."""
    same = other is not one and (other.subject, other.predicate) == (one.subject, one.predicate)
    said = one.content.rstrip(".")
    return same and len(other.content) > len(one.content) and other.content.startswith(f"{said},")
