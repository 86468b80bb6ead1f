"""Until when a statement holds, where a model gave that in words ("next Friday") or left it in the sentence."""

import re
from datetime import datetime

import msgspec

from memproxy.core.memory import Kind
from memproxy.core.timerange import told
from memproxy.learn.candidates import Extracted, Intent

_LEAD = re.compile(r"^(?:until|till|til|by|through|end of|up to)\s+", re.IGNORECASE)
_DAY = re.compile(r"^(?:this |coming )?(mon|tues|wednes|thurs|fri|satur|sun)day\b", re.IGNORECASE)
_STAYS = re.compile(
    r"\b(?:is|are|am|stay\w*|living|lives?|working|works?|visit\w*|travel\w*)\b.{0,80}?\b(?:until|till|through) "
    r"(?P<end>[^.;]{3,40})",
    re.IGNORECASE,
)

_RECURS = re.compile(
    r"\b(?:from|between|every|each|always|usually|normally|seasons?|weekdays?|daily|weekly|monthly|yearly|annually)\b",
    re.IGNORECASE,
)
"""A sentence with one of these names days that come again ("from Monday until Friday"), and no end."""


def dated(candidate: Extracted, said: datetime) -> Extracted:
    """The candidate with the end of what it says as a time, counted from when it was ``said``; as it is where it gives
    none, or one that was over by then.
    """
    if candidate.valid_to is not None or candidate.kind is Kind.EPISODIC or candidate.intent is not Intent.STATE:
        return candidate
    stays = None if _RECURS.search(candidate.content) else _STAYS.search(candidate.content)
    for text in (candidate.until, stays["end"] if stays else None):
        end = moment_of(text, said) if text else None
        if end is not None and end > max(said, candidate.valid_from or said):
            return msgspec.structs.replace(candidate, valid_to=end)
    return candidate


def moment_of(text: str, said: datetime) -> datetime | None:
    """The end of the day (week, month, year) that words name, against when they were said; None for other words."""
    plain = _LEAD.sub("", text.strip())
    spans = told(_DAY.sub(r"next \1day", plain), said)
    return spans[0].end if spans else None
