"""What a sentence about the user answers by its verb ("User works at Roche": the employer), by any name."""

import re

from memproxy.core.slots import predicate_name, value_name, words
from memproxy.learn.candidates import Extracted

_USER_FIRST = re.compile(r"(?:(?:the )?user(?:['’]s)?|i)\s+", re.IGNORECASE)
_NOW = r"(?:(?:now|currently|still|again|also|since \w+) ){0,4}"
_VERBS = (
    (re.compile(rf"{_NOW}(?:lives?|resides?|is {_NOW}(?:living|based)) {_NOW}in (?P<v>[A-Z].*)"), "lives_in"),
    (re.compile(rf"{_NOW}works? {_NOW}(?:at|for) (?P<v>[A-Z].*)"), "works_at"),
    (
        re.compile(r"(?:wants?|prefers?|would like) (?:answers|replies|responses) (?:to be )?in (?P<v>[A-Z].*)"),
        "answer_language",
    ),
    (re.compile(rf"{_NOW}(?:works?|is {_NOW}working) {_NOW}as (?:an? |the )?(?P<v>\w.*)"), "works_as"),
)
"""Verbs of the user's that have one answer at a time, whatever a model calls what they answer."""

_MOVED = re.compile(rf"{_NOW}(?:has )?(?:moved|relocated) to (?P<v>[A-Z].*)")
_PLACES = frozenset(
    """
    city town country home place location address residence live living move moved relocation relocated
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
"""Words of a predicate by which "moved to" tells where somebody lives, and not what he uses."""

_TRADE = frozenset({"job", "career", "occupation", "profession", "position", "job_title", "work"})
"""Predicates by which "is a nurse" tells what somebody works as; a role or title may be one beside that."""

_NAMED = {
    "lives_in": _PLACES | frozenset("in at live reside residing stay based located user area region where".split()),  # noqa: SIM905
    "works_at": frozenset(
        """
        work working at for by with employer employed company workplace employment job place organization organisation
        firm user name where
        """.split()  # noqa: SIM905 - a list of many quoted words reads worse
    ),
    "works_as": frozenset("work working as job role position career occupation profession title employed user".split()),  # noqa: SIM905
    "answer_language": frozenset(
        """
        answer answers reply replies response want prefer preferred preference language in user assistant chat
        conversation communication
        """.split()  # noqa: SIM905 - a list of many quoted words reads worse
    ),
}
"""Words by which a model calls what these verbs answer. Any other word of a predicate tells it from that: a summer
residence, a side job, the language of answers about code.
"""

_SOMETIMES = re.compile(
    r"\b(?:during|part[- ]time|part of|weekends?|weekdays?|weekly|nights?|mornings?|afternoons?|evenings?|\w+days"
    r"|summer|winter|spring|autumn|half|also|sometimes|occasionally|temporarily|when|while|for (?:the|a|an) |contractor"
    r"|freelance\w*|for \w+ (?:questions?|topics?|matters?)|about)\b",
    re.IGNORECASE,
)
"""What says that something holds at times, or beside something else."""
_IS_A = re.compile(rf"is {_NOW}an? (?P<v>\w.*)")


def by_verb(candidate: Extracted, predicate: str) -> str | None:
    """What a sentence about the user answers, by its verb; None where its predicate or sentence tells it from that."""
    said, value = _USER_FIRST.sub("", candidate.content, count=1), candidate.object or ""
    said = said[:1].lower() + said[1:]
    if _SOMETIMES.search(said) is not None:
        return None
    asked = set(words(predicate))
    for pattern, name in _VERBS:
        if (
            asked <= _NAMED[name]
            and (found := pattern.match(said))
            and value
            and value_name(found["v"]).startswith(value_name(value))
        ):
            return name
    if (found := _MOVED.match(said)) and value_name(found["v"]).startswith(value_name(value) or "-"):
        return "lives_in" if asked & _PLACES and asked <= _NAMED["lives_in"] | {"to"} else None
    found = _IS_A.match(said) if predicate_name(predicate)[0] in _TRADE else None
    return "works_as" if found and value and value_name(found["v"]).startswith(value_name(value)) else None
