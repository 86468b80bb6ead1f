"""Predicates that are the same but for what they measure, and for their prepositions: whether they ask the same."""

import re

from memproxy.core.predicates import PREPOSITIONS
from memproxy.core.slots import words

_WHAT_IS_MEASURED = {
    **dict.fromkeys(("date", "day", "time"), "when"),
    **dict.fromkeys(("amount", "value"), "amount"),
    **dict.fromkeys(("number", "no"), "number"),
    **{name: name for name in ("address", "size", "count", "level")},
}
"""Of what sort an answer is, by a word of its predicate: a flight's number is not its time."""

_MOMENT = re.compile(r"\D{0,12}\d{1,2}(?:[:.]\d\d)? ?(?:[ap]\.?m\.?|h|uhr|o'clock)?\.?", re.IGNORECASE)
_PLAIN_NUMBER = re.compile(r"[#\d\s()+/-]+")


def asked_alike(predicates: tuple[str, str], values: tuple[str, str], sort: str) -> bool:
    """Whether they ask the same ("wedding", "wedding_date"), or two things ("flight_number", "flight_time"; "lives_in",
    "lives_on"). ``sort`` is that of both values, as `questions.sort_of` names it.
    """
    first, second = (words(predicate) for predicate in predicates)
    if sort == "name" and _preposition(first) != _preposition(second):
        return False
    one, other = _measured(first), _measured(second)
    if one == other:
        return True
    if one and other:
        return False
    measured = one | other
    if measured == {"when"}:
        return sort != "number" or all(_MOMENT.fullmatch(value) for value in values)
    if measured == {"number"}:
        return sort == "name" or all(_PLAIN_NUMBER.fullmatch(value) for value in values)
    return measured == {"amount"}


def _measured(said: list[str]) -> set[str]:
    return {_WHAT_IS_MEASURED[word] for word in said if word in _WHAT_IS_MEASURED}


def _preposition(said: list[str]) -> str | None:
    return said[-1] if said and said[-1] in PREPOSITIONS else None
