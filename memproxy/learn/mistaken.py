"""What a model takes for a fact of the user's and is none: a greeting, a question, what somebody else does."""

import re

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Trust
from memproxy.core.slots import words
from memproxy.core.text import sentences
from memproxy.learn.candidates import Grounded, Intent
from memproxy.learn.guard import is_about_user
from memproxy.learn.idle_turns import is_pleasantry

_OTHERS = (
    r"(?:grand)?(?:mother|father|mom|mum|dad|parent|son|daughter|child)s?|kids?|children|sister|brother|sibling|friend"
    r"|colleague|coworker|co-worker|boss|manager|neighbou?r|husband|wife|partner|girlfriend|boyfriend|fianc[eé]e?"
    r"|cousin|uncle|aunt|niece|nephew|roommate|flatmate|housemate|landlord|in-law|teammate|classmate|ex"
)
_OTHER = re.compile(rf"\b(?:{_OTHERS})s?\b", re.IGNORECASE)
_OTHER_DOES = re.compile(
    rf"\b(?:my|our)\s+(?:[\w-]+\s+){{0,2}}?(?:{_OTHERS})s?\b(?:\s+(?-i:[A-Z])[\w-]+)?(?!\s*(?:,|and)\s+(?:me|I)\b)"
    r"(?P<does>(?:\s+(?!(?:i|we|me|us|my|our)\b)[\w'’]+){1,8})",
    re.IGNORECASE,
)
_OF_OTHERS = re.compile(
    rf"\b(?:my|our)\s+(?:[\w-]+\s+){{0,2}}?(?:{_OTHERS})s?(?:\s+(?-i:[A-Z])[\w-]+)?['’]s\s+(?P<of>[\w -]{{2,60}})",
    re.IGNORECASE,
)
"""What is somebody of the user's ("my wife's favorite film")."""

_HELPERS = frozenset({"is", "are", "was", "were", "has", "have", "had", "been", "got", "gets", "get"})
_PASSED_OVER = frozenset(
    {"also", "just", "now", "currently", "still", "really", "always", "often", "usually", "recently"}
)
_WHO = re.compile(r"(?:(?:the )?user(?:['’]s)?|i|my)\s+", re.IGNORECASE)
_SPOKE = re.compile(
    r"(?:the )?user (?:(?:has |is )?(?:greet\w*|thank\w*|ask(?:s|ed|ing)?|inquir\w+|wonder\w*)\b"
    r"|(?:has )?sa(?:id|ys?) (?:hi|hello|hey|good \w+|thanks|thank you|goodbye|bye)\b"
    r"|(?:wants?|would like) to (?:know|learn about)\b|request(?:s|ed) (?:information|help|advice|a list)\b)",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\W*(?:(?:and|so|ok(?:ay)?|please|hey|hi)\W+)*(?:what|how|why|when|where|who|which|can|could|would|will|should|is|are"
    r"|do|does|did|any|tell me|explain|show me|give me|help me|list|hi|hello|hey|good|thank\w*)\b",
    re.IGNORECASE,
)
_STANDING = re.compile(
    r"\b(?:always|never|whenever|(?:every|each) time|from now on|in future|before|after|when|if|any ?time)\b",
    re.IGNORECASE,
)
"""A request with one of these, and no question mark, is how the user wants it each time."""

_SHARED = re.compile(
    r"\b(?:too|also|as well|both|all of us|(?:i|we) all|same|alike|likewise|neither|nor|either|together|mine|ours"
    r"|i and (?:my|our)|so (?:do|am|are|have|did|can|will|would|was|were) (?:i|we)|(?:like|as|with) (?:me|us)"
    r"|(?:just|much) like|i (?:have|do|am|did) (?:it|that|so))\b",
    re.IGNORECASE,
)
"""What says that something is true of the user as well as of somebody of the user's."""

_FIRST_PERSON = re.compile(r"\b(?:i|me|we|us|my|our)\b", re.IGNORECASE)
_TELLS_SPEAKING = re.compile(r"\b(?:ask|said|say|thank|greet|wonder|inquir|request)\w*", re.IGNORECASE)
_CLAUSE = re.compile(r"[.!?;,]\s+|\n", re.IGNORECASE)


def mistaken(found: Grounded, *, asked: bool = False) -> str | None:
    """Why a grounded candidate is no fact of the user's, or None.

    ``asked``: its message answers a question, so that a mere "yes" says something.
    ``pleasantry``: it rests on greetings and thanks alone. ``question``: it tells no more than that the user said or
    asked something. ``other``: it says of the user what the message says of somebody of the user's.
    """
    candidate = found.candidate
    if candidate.intent in (Intent.FORGET, Intent.FORGET_ALL) or found.turn.trust is not Trust.USER:
        return None
    if not asked and candidate.evidence and all(is_pleasantry(quote) for quote in candidate.evidence):
        return "pleasantry"
    if _SPOKE.match(candidate.content) and all(_only_speaks(quote) for quote in candidate.evidence):
        return "question"
    return "other" if _is_of_another(found) else None


def _only_speaks(quote: str) -> bool:
    if _TELLS_SPEAKING.search(quote) is not None or _ASKS.match(quote) is None:
        return False
    return "?" in quote or _STANDING.search(quote) is None


def _is_of_another(found: Grounded) -> bool:
    candidate = found.candidate
    if not is_about_user(candidate) or _OTHER.search(f"{candidate.content} {candidate.predicate or ''}"):
        return False
    value = (candidate.object or "").casefold()
    said = sentences(strip_blocks(found.turn.content))
    if any(
        _SHARED.search(part) for place, one in enumerate(said) if value in one.casefold() for part in said[place:][:2]
    ):
        return False
    clauses = [part for sentence in said for part in _CLAUSE.split(sentence)]
    holding = [clause for clause in clauses if value and value in clause.casefold()]
    verbs, of = _verbs(candidate.content), _attribute(candidate.content)
    return bool(holding) and all(_does(clause, value, verbs) or _has(clause, value, of) for clause in holding)


_ATTRIBUTE = re.compile(
    r"(?:the )?user['’]s (?P<of>[^.;]{2,60}?) (?:is|are|was moved to|was changed to)\b", re.IGNORECASE
)


def _attribute(content: str) -> frozenset[str]:
    """The words of X in "User's X is Y"."""
    found = _ATTRIBUTE.match(content)
    return frozenset(words(found["of"])) if found else frozenset()


def _verbs(content: str) -> frozenset[str]:
    """The verb of a statement about the user, with the one that it helps."""
    said = [word for word in words(_WHO.sub("", content, count=1)) if word not in _PASSED_OVER]
    return frozenset(said[:2] if said[:1] and said[0] in _HELPERS and said[1:2] not in (["a"], ["an"]) else said[:1])


def _does(clause: str, value: str, verbs: frozenset[str]) -> bool:
    """Whether a clause says that somebody of the user's does just that."""
    found = _OTHER_DOES.search(clause)
    return found is not None and value in found["does"].casefold() and bool(verbs & set(words(found["does"])))


def _has(clause: str, value: str, of: frozenset[str]) -> bool:
    """Whether a clause says of something of somebody of the user's what a statement says of the user's own; what it
    goes on to say of the user ("and my name is Tom") is not of somebody else.
    """
    found = _OF_OTHERS.search(clause)
    if found is None or not of:
        return False
    own = _FIRST_PERSON.search(clause, found.start("of"))
    told = clause[found.start("of") : min(own.start() if own else found.end(), found.end())]
    return of <= set(words(told)) and (own is None or clause.casefold().find(value) < own.start())
