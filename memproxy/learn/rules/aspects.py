"""Opinions of a part of a thing ("I love TypeScript, but its generics annoy me"): one thing, several aspects."""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.ledger import Ledger
from memproxy.learn.rules.model import SURE, Clause
from memproxy.learn.rules.tastes import topic_of
from memproxy.learn.rules.values import names_in, trimmed

_ON_ME = re.compile(
    r"(?:its|their|the) (?P<x>[\w' -]{2,40}?) (?P<does>(?:really |still |always )?(?:annoys?|bothers?|frustrates?|"
    r"irritates?|confuses?|drives?)) me\b",
    re.IGNORECASE,
)
_I_HOLD = re.compile(
    r"I (?P<does>love|like|enjoy|hate|dislike|cannot stand|do not like) (?:its|their) (?P<x>.+)",
    re.IGNORECASE,
)
_FINE_FOR = re.compile(
    r"(?:it|that|they) (?:is|are) (?P<does>great|good|fine|perfect|ideal|excellent|nice|ok|okay|bad|terrible|awful|"
    r"horrible|useless|overkill|too \w+) (?:for|when it comes to) (?P<x>.+)",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"annoy|bother|frustrat|irritat|confus|drive|hate|dislike|cannot|not|bad|terrible|awful|horrible|useless|"
    r"overkill|too ",
    re.IGNORECASE,
)


def aspects(clause: Clause, ledger: Ledger) -> Iterable[Extracted]:
    """What a clause holds of an aspect of the thing that was liked or disliked last."""
    match = _ON_ME.match(clause.text) or _I_HOLD.match(clause.text) or _FINE_FOR.match(clause.text)
    aspect = trimmed(match["x"], "long") if match else None
    thing = next(
        (one.statement.object for one in ledger.newest() if one.turn >= 0 and one.statement.stance),
        None,
    )
    if match is None or aspect is None or thing is None:
        return
    negative = _NEGATIVE.search(match["does"]) is not None
    yield Extracted(
        content=_content(match, thing, aspect),
        subject="user",
        predicate="dislikes" if negative else "likes",
        object=thing,
        aspect=aspect,
        stance="negative" if negative else "positive",
        category=topic_of(thing),
        tags=("dislikes" if negative else "likes",),
        entities=tuple(names_in(thing)),
        confidence=SURE,
    )


def _content(match: re.Match[str], thing: str, aspect: str) -> str:
    does = match["does"].lower()
    if match.re is _FINE_FOR:
        return f"User finds {thing} {does} for {aspect}."
    if match.re is _ON_ME:
        return f"User is annoyed by the {aspect} of {thing}."
    said = {"cannot stand": "can't stand", "do not like": "does not like"}.get(does, f"{does}s")
    return f"User {said} the {aspect} of {thing}."
