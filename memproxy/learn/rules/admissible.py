"""Whether a statement is one at all: of the speaker, of his real life, lasting, and complete.

The rules read a clause by its form; a form holds for a novel's hero, for tonight and for "the video" as well. What they
make of a clause is kept only where clause and statement pass these tests, whichever rule made it.
"""

import re

from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.words import FOOD, INSTRUMENTS

_IN_A_WORK = re.compile(
    r"\bin (?:this|that|the|his|her|their) (?:\w+ )?(?:scene|story|puzzle|song|film|movie|novel|poem|dream|sketch|"
    r"scenario|example|exercise|fairy tale|riddle|comic|episode|video|paragraph|draft|play|brand)(?=$|[.,;!?]| "
    r"(?:and|but|"
    r"so|I|he|she|they|is|are)\b)|\b(?:in|for|on) this one\b",
    re.IGNORECASE,
)
"""What holds in a work, or of the thing at hand, holds of no life."""

_FIGURATIVE = re.compile(
    r"\b(?:I|we)(?: am| are|['’]m|['’]re| feel) (?:basically|practically|virtually|pretty much|sort of|kind of|like|"
    r"officially the|the (?:king|queen|master|champion|worst|best)) (?:an?|the|[A-Z])",
    re.IGNORECASE,
)
"""Looked for in the sentence as written: of a clause such words are taken out."""

_ATTRIBUTED = re.compile(
    r",\s*(?:he|she|they|(?:my|our|the) \w+|[A-Z][a-z]+) (?:always )?(?:said|says|told (?:me|us|him|her)|tells me|"
    r"claims?|claimed|wrote|sings?|sang|shouted|replied)\W*$"
)
"""Behind a statement this says that somebody else made it."""

_MOMENTARY = re.compile(
    r"(?<!\bfrom )(?<!\bsince )(?<!\bof )(?<!\bstarting )\b(?:tonight|today|this (?:week|weekend|morning|evening|"
    r"afternoon|once)|just now|for a change|(?:just|only) this "
    r"time)\b",
    re.IGNORECASE,
)
_ONLY_NOW = re.compile(r"\b(?:just|only) (?:tonight|today|this (?:week|time|once)|for now)\b", re.IGNORECASE)
_HABITUAL = re.compile(
    r"User (?:does not|can't|never|always|usually|(?!was\b|has\b|wants\b|needs\b|plans\b|intends\b|is \d)[a-z]+s) "
)
"""A statement in the present: what somebody does, or is, in general."""

_DATED = re.compile(r"\d{4}-\d\d|\b(?:19|20)\d\d\b")
_EVENTS = ("events/", "plans/")
_BARE_DEFINITE = re.compile(r"User (?P<verb>[a-z]+s) (?:[a-z]+ )?the (?P<noun>[a-z-]+)\.$")
"""“The video”, “the map” and no more: something that both have before them, or that this talk is about."""

_ROLES = frozenset(
    """
    runs manages leads owns coaches hosts organises organizes maintains has is wants prefers likes loves hates dislikes
    enjoys takes uses avoids chairs heads directs conducts tends farms rents captains edits works lives
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
_NO_OBJECT = re.compile(
    r" (?:everyone|everybody|anyone|anybody|someone|somebody|whoever \w+|whatever \w+|half of it|"
    r"(?:all|some|most|none|half|one|part) of (?:it|them|this|that))(?: [a-z ]+)?\.$"
    r"|\b(?:their thoughts|their point|their words|their best|the idiot|the fool|the rules)\b"
)
_STATE_OF_THING = re.compile(
    r"User's (?P<thing>[\w' -]+?) (?:is|are) (?:(?:so|too|very|really|still|all|a bit|completely|totally|now) )*"
    r"(?:wet|stuck\b.*|(?:at )?\d+ ?(?:%|percent)|late|slow|down|broken|dead|empty|full|cold|hot|dirty|missing|"
    r"lost|gone|"
    r"ready|done|closed|shut|fine|ok|okay|wrong|here|back|dying|crashing|frozen|loud|burnt|sore|tired|sleepy|"
    r"killing them|running (?:late|low|out)|almost (?:done|ready|empty)|on (?:fire|the way|its way)|out of \w+|charged|"
    r"unreadable|a mess|in the (?:mail|post|way))\.$",
    re.IGNORECASE,
)
_OF_A_DELIVERY = re.compile(
    r"User's (?:order|tracking|ticket|case|reference|booking|confirmation|invoice|package|parcel|delivery|gate|queue|"
    r"seat)(?: number| code)? (?:is|are)\b",
    re.IGNORECASE,
)
_MEAL = re.compile(
    r"User (?:has|got|bought|ate) (?:an?|some|one|two|three|four|five|six|\d+) (?:[a-z]+ )?(?P<what>[a-z]+)\.$"
)
_ONCE = frozenset({"haircut", "letter", "sandwich", "mail", "message", "ticket", "refund", "receipt", "taxi", "call"})
_COUNTS_PEOPLE = re.compile(r"User (?:is|are) (?:\d+|[a-z]+) people\b")
_WHOLE = re.compile(r"User(?:'s)? \w+(?: \w+)?")
_VERB_TWICE = re.compile(
    r"User (?:can't stand|does not like|likes|loves|hates|dislikes|enjoys|prefers|is a fan of|eats|drinks|avoids) "
    r"(?:leave|let|text|give|tell|send|keep|make|stop|just|please|go|come|get|put|call) (?:them|their)\b"
)
"""A list that ran into an order ("text me or leave me alone")."""


_SAYING = re.compile(
    r"\bdrink and drive\b|\blive in (?:\w+ )?times\b|\b(?:some|any|no|every)(?:one|body) (?:on|in|at|of|from) "
    r"(?:my|our)\b|"
    r"\bin (?:line|a queue|traffic) (?:at|for|on)\b|\b\d+ tabs open\b|\bI once had\b|\bdying (?:of|to|for)\b|"
    r"\bkill for\b|\bwould kill\b|\bliving the dream\b",
    re.IGNORECASE,
)
"""Sayings, and people who are not named."""


def is_real(clause: Clause, sentence: str) -> bool:
    """Whether a clause speaks of the speaker's own life, and not of a work, of what somebody said, or in a figure."""
    return not (
        _IN_A_WORK.search(clause.text)
        or _FIGURATIVE.search(clause.evidence)
        or _ATTRIBUTED.search(sentence)
        or _SINGS.match(sentence)
        or _SAYING.search(sentence)
    )


_SINGS = re.compile(
    r"in (?:the|this|that|his|her) (?:song|film|movie|book|novel|story|poem|game|dream)\b", re.IGNORECASE
)


def is_admissible(stated: Extracted, clause: Clause, sentence: str) -> bool:
    """Whether a statement lasts and is complete; what takes back or corrects is always."""
    if stated.intent is not Intent.STATE:
        return True
    content = stated.content
    return not (
        _is_momentary(stated, clause, sentence)
        or _is_of_the_talk(content)
        or (_NO_OBJECT.search(content) and not content.startswith(("User does not", "User never", "User can't")))
        or _STATE_OF_THING.match(content)
        or _OF_A_DELIVERY.match(content)
        or _COUNTS_PEOPLE.match(content)
        or _VERB_TWICE.match(content)
        or _is_used_up(content)
    )


def _is_momentary(stated: Extracted, clause: Clause, sentence: str) -> bool:
    """Whether it tells as a habit what the sentence says of today."""
    if _MOMENTARY.search(sentence) is None:
        return False
    if stated.predicate in ("age", "birthday", "name", "runs_business", "job_title", "employer") or (
        stated.category or ""
    ).startswith(_EVENTS):
        return False
    if stated.valid_from or stated.valid_to or _DATED.search(stated.content):
        return False
    told = _MOMENTARY.search(clause.text) or _ONLY_NOW.search(sentence)
    return told is not None and _HABITUAL.match(stated.content) is not None


def _is_of_the_talk(content: str) -> bool:
    match = _BARE_DEFINITE.match(content)
    if match is None or match["verb"] in _ROLES or match["noun"] in INSTRUMENTS:
        return False
    return match["verb"] != "plays" or match["noun"] in _PLAYED


_PLAYED = frozenset(
    [
        "video",
        "game",
        "song",
        "record",
        "tape",
        "match",
        "level",
        "role",
        "part",
        "clip",
        "audio",
        "file",
        "sound",
        "music",
        "movie",
        "idiot",
        "fool",
    ]
)
"""What is played once; whatever else somebody "plays the" of is an instrument."""


def _is_used_up(content: str) -> bool:
    """Whether it is something had only to be eaten, sent or used once."""
    match = _MEAL.match(content)
    if match is None:
        return False
    noun = match["what"]
    return bool({noun, noun.removesuffix("s"), noun.removesuffix("es")} & (FOOD | _ONCE))
