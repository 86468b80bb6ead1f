"""Rules for what the user likes and does not, prefers, has as favourite, eats and does not eat."""

import re
from collections.abc import Iterable
from typing import TypeGuard

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.model import (
    SURE,
    Clause,
    Groups,
    Rule,
    any_rule,
    i_rule,
)
from memproxy.learn.rules.values import (
    bare,
    items,
    names_in,
    slug,
    third_person,
    trimmed,
)
from memproxy.learn.rules.words import (
    CHANGING_MODES,
    FOOD,
    MEDIA,
    MUSIC,
    PEOPLE,
    PETS,
)

_VERBS = {
    "love": "loves",
    "like": "likes",
    "enjoy": "enjoys",
    "adore": "adores",
    "hate": "hates",
    "dislike": "dislikes",
    "detest": "detests",
    "loathe": "loathes",
}

PASSING_TASTE = re.compile(
    r"(?:to (?:think|say|know|see (?:how|what|if)|hear|be honest|point|clarify|add|ask|change|try|use this|keep|get|"
    r"have)\b"
    r"|(?:an?|the) (?:combination|mix|"
    r"option|idea|suggestion|answer|approach|version|explanation|design|draft|code|tone|format|"
    r"structure|plan|list|"
    r"recipe|title|summary|proposal|result|name|color scheme|first|second|last|new(?! [a-z-]+ [a-z]+)|example|look|"
    r"itinerary|one|joke|"
    r"direction|function|bug|error)\b"
    r"|\w+ (?:idea|suggestion|answer|option|approach|explanation|version)\b|(?:option|version|number|variant|plan) "
    r"\w+$|mondays?$|my life|life|being here"
    r"|when|it when|getting|having to|doing this|this|working with you|talking|chatting|hearing|asking|having|being)\b",
    re.IGNORECASE,
)


def topic_of(value: str) -> str:
    """The category of a taste."""
    said = set(re.findall(r"[\w-]+", value.lower()))
    said |= {word.removesuffix("s") for word in said}
    for name, known in (("food", FOOD), ("music", MUSIC), ("media", MEDIA)):
        if said & known:
            return f"user-preferences/{name}"
    return "user-preferences/general"


def feels(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """Likes and dislikes, one for each item. Stance and slot hold the polarity, so that a change of mind supersedes."""
    verb = groups["verb"].lower()
    verb = {"loved": "love", "hated": "hate"}.get(verb, verb)
    said = _VERBS.get(verb, verb)
    for place, value in enumerate(items(groups["x"])):
        if not _lasts(value) or (verb == "like" and not clause.is_correction and _is_here(value or "")):
            if place == 0:
                return  # what follows hangs on it ("the combination of honey and paprika")
            continue
        negative = verb in ("hate", "dislike", "detest", "loathe")
        yield taste(value, said, positive=not negative)


_KNOWN_TO_ALL = frozenset(
    {"sea", "ocean", "beach", "rain", "cold", "heat", "countryside", "outdoors", "snow", "sun", "dark"}
)


def _lasts(value: str | None) -> TypeGuard[str]:
    """Whether it is something to hold an opinion of beyond this conversation."""
    return value is not None and not (PASSING_TASTE.match(value) or _HERE.search(value) or _is_somebody(value))


_HERE = re.compile(r"\b(?:this|these|those|your|here|above)\b", re.IGNORECASE)


def _is_here(value: str) -> bool:
    """“I like the text”: something of this conversation, not of the user's life."""
    words = value.split()
    return words[0].lower() == "the" and value == value.lower() and words[-1] not in _KNOWN_TO_ALL and len(words) < 5


def _is_somebody(value: str) -> bool:
    """“I love my wife”, “my dog”: nothing that a memory is for."""
    found = re.match(r"(?:my|our) (\w+)", value, re.IGNORECASE)
    return found is not None and (
        found[1].lower() in PEOPLE
        or found[1].lower() in PETS
        or found[1].lower() in ("family", "kids", "parents", "children")
    )


def taste(value: str, said: str, *, positive: bool) -> Extracted:
    """What the user holds of something; ``said`` is the verb in the third person."""
    subject = third_person(value)
    return Extracted(
        content=f"User {said} {subject}.",
        subject="user",
        predicate="likes" if positive else "dislikes",
        object=bare(subject),
        stance="positive" if positive else "negative",
        category=topic_of(value),
        tags=("likes" if positive else "dislikes",),
        entities=tuple(names_in(value)),
        confidence=SURE,
        importance=0.6,
    )


def fond_of(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“A big fan of”, “cannot stand”: liking said in other words."""
    negative = bool(groups.get("no"))
    if re.match(r"(?:it|that|this|they|he|she|you|what|which)\b", groups["x"], re.IGNORECASE):
        return
    for value in items(groups["x"]):
        if _lasts(value):
            yield taste(value, groups["said"], positive=not negative)


def _said(pattern: str, said: str, *, no: bool = False) -> Rule:
    return i_rule(
        pattern,
        lambda groups, clause: fond_of({**groups, "said": said, "no": "no" if no else ""}, clause),
    )


def prefers(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """A preference; between two named things, or of a kind that one has one of, it has a slot of its own."""
    value, other = (
        trimmed(groups["x"], "long" if groups.get("over") is None else "whole"),
        None,
    )
    if groups.get("over") is not None:
        other = trimmed(groups["over"], "long")
        if other is None:
            return
    if value is not None and other is not None:
        value = re.sub(r"^to (?:have|get|take) ", "", value)
    if value is None or PASSING_TASTE.match(value):
        return
    if other is None and re.search(r" (?:over|rather than|instead of|than|to (?!\w+ing\b)(?:an? )?\w+s)\b", value):
        return
    value = re.sub(r"^(?:to (?:have|use|get) )", "", value)
    content = f"User prefers {third_person(value)}" + (f" over {third_person(other)}" if other else "")
    yield Extracted(
        content=f"{content}.",
        subject="user",
        predicate=_preference(value, other),
        object=bare(third_person(value)),
        category=topic_of(f"{value} {other or ''}"),
        tags=("preferences",),
        stance="positive",
        entities=tuple(names_in(value)),
        confidence=SURE,
        importance=0.7,
    )


def _preference(value: str, other: str | None) -> str:
    if other is not None:
        return f"preference_between_{'_and_'.join(sorted((slug(value), slug(other))))}"
    kind = next(
        (word for word in reversed(slug(value).split("_")) if word in CHANGING_MODES),
        None,
    )
    return f"preferred_{kind}" if kind else "prefers"


def favourite(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """The favourite of a kind."""
    what, value = trimmed(groups["what"], "long"), trimmed(groups["x"], "long")
    if what is None or value is None or re.match(r"(?:part|thing|one|of)\b", what):
        return
    value = re.sub(r"^(?:probably|definitely|currently|always|still|by far|either|now) ", "", value)
    plural = groups.get("are", "is").lower() == "are"
    yield Extracted(
        content=f"User's favorite {third_person(what)} {'are' if plural else 'is'} {third_person(value)}.",
        subject="user",
        predicate=f"favorite_{slug(what)}",
        object=bare(third_person(value)),
        category=topic_of(what),
        tags=("favorites",),
        stance="positive",
        entities=tuple(names_in(value)),
        confidence=SURE,
        importance=0.7,
    )


_CALMING = frozenset({"fascinates", "relaxes", "calms", "soothes"})


def moves(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Hamburg in winter depresses me”: what something does to the user."""
    value, verb = trimmed(groups["x"], "long"), groups["verb"].lower()
    if value is None or not _lasts(value) or _NO_THING.match(value):
        return
    subject = third_person(value)
    positive = verb in _CALMING
    yield Extracted(
        content=f"{subject[0].upper()}{subject[1:]} {verb} the user.",
        subject="user",
        predicate="likes" if positive else "dislikes",
        object=bare(subject),
        stance="positive" if positive else "negative",
        category=topic_of(value),
        tags=("opinions",),
        entities=tuple(names_in(value)),
        confidence=SURE,
        importance=0.5,
    )


_NO_THING = re.compile(r"(?:it|that|this|he|she|they|what|which|who|you|there|everything|nothing)\b", re.IGNORECASE)


def always(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“I always take a window seat”."""
    value, verb = trimmed(groups["x"], "long"), groups["verb"].lower()
    if re.search(rf"\balways {verb}\b", clause.evidence, re.IGNORECASE) is None:
        return  # "always" is no more in the clause
    if value is None or not _lasts(value) or re.match(r"(?:care|notes?|time|turns|it|part|place)\b", value):
        return
    yield Extracted(
        content=f"User always {third_verb(verb)} {third_person(value)}.",
        subject="user",
        predicate=f"always_{verb}s_{slug(value)}"[:80],
        object=bare(third_person(value)),
        category=topic_of(value),
        tags=("preferences",),
        confidence=SURE,
        importance=0.6,
    )


RULES: tuple[Rule, ...] = (
    i_rule(r"(?P<verb>love|like|enjoy|adore|hate|dislike|detest|loathe) (?P<x>.+)", feels),
    _said(
        r"(?:am|are) (?:a |an )?(?:huge |big |massive |total |great |lifelong |real |die-hard )?(?:fan|lover) of "
        r"(?P<x>.+)",
        "is a fan of",
    ),
    _said(
        r"(?:am|are) (?:into|fond of|crazy about|obsessed with|passionate about|keen on|addicted to|in love with|"
        r"big on) (?P<x>.+)",
        "likes",
    ),
    _said(r"have (?:a passion for|a soft spot for|a sweet tooth for) (?P<x>.+)", "likes"),
    _said(
        r"(?:have grown to like|have come to (?:like|enjoy)|(?:have )?c[oa]me (?:round|around) to|"
        r"started to (?:like|enjoy)) (?P<x>.+)",
        "likes",
    ),
    _said(
        r"(?:(?:fell|have fallen) in love with|have (?:grown|come|learned|learnt) to love|started to love) (?P<x>.+)",
        "has come to love",
    ),
    _said(r"cannot (?:stand|bear|tolerate|abide) (?P<x>.+)", "can't stand", no=True),
    _said(r"no longer (?:like|love|enjoy) (?P<x>.+)", "no longer likes", no=True),
    _said(r"(?:do|does) not (?:like|enjoy|love) (?P<x>.+)", "does not like", no=True),
    _said(
        r"am not (?:really |much of )?(?P<x>an? (?:tea|coffee|dog|cat|beach|mountain|morning|night|city|country|"
        r"sweets?|"
        r"chocolate|wine|beer) (?:person|girl|guy|drinker))",
        "is not",
        no=True,
    ),
    _said(
        r"am not (?:a |an )?(?:huge |big |great |much of a )?(?:fan of|fond of|into|keen on|crazy about) (?P<x>.+)",
        "is not a fan of",
        no=True,
    ),
    _said(
        r"(?:have gone off|got tired of|am tired of|am sick of|am fed up with|got sick of) (?P<x>.+)",
        "does not like",
        no=True,
    ),
    _said(
        r"(?:am (?:so |totally )?(?:done with|over)|have had enough of|had enough of) (?!it\b|this\b"
        r"|that\b|you\b|the (?:exam|exams|course|test|report))(?P<x>.+)",
        "is done with",
        no=True,
    ),
    _said(
        r"(?:never (?:liked|got into|cared for|got on with|got along with|warmed to|took to|saw the point of)|do "
        r"not (?:care for|get on with|get along with|get the "
        r"hype about)|cannot (?:be doing|deal|be bothered) with) (?P<x>.+)",
        "does not like",
        no=True,
    ),
    _said(
        r"(?:swear by|am partial to|am a sucker for|live for|cannot get enough of|cannot live without|am "
        r"really into|geek out (?:on|about|over)|am hooked on) (?P<x>.+)",
        "likes",
    ),
    _said(
        r"(?:am|have become|became|have turned into) (?:more of )?(?P<x>an? (?:tea|coffee|dog|cat|beach|mountain|"
        r"morning|night|city|country|dark "
        r"chocolate|red wine|white wine|window|aisle) (?:person|girl|guy|drinker|seat person))",
        "is",
    ),
    _said(
        r"(?:am|as) (?:an? )?(?:huge |big |massive |lifelong |die-hard )?(?P<x>[\w' -]{3,30}?) (?:fan"
        r"|nerd|enthusiast|addict|fanatic|buff|aficionado)\b",
        "is a fan of",
    ),
    any_rule(
        r"(?P<x>[\w' -]{2,40}?) (?:has |have )?(?:grew|grown|growing) on me\b",
        lambda groups, clause: fond_of({**groups, "said": "has come to like", "no": ""}, clause),
    ),
    any_rule(
        r"(?P<x>(?:my|our|the) [\w' -]{2,40}?) (?:is|are) (?:the best|the nicest|the tastiest)(?: "
        r"\w+){0,3} (?:I|we) (?:have )?(?:ever )?(?:had|eaten|seen|owned|tried|used|tasted|read|been to|met)\b",
        lambda groups, clause: fond_of({**groups, "said": "finds the best ever:", "no": ""}, clause),
    ),
    any_rule(
        r"(?P<x>[\w' -]{2,40}?) (?:annoys?|bores?|disgusts?|drives?) me(?: crazy| mad| nuts)?\b",
        lambda groups, clause: fond_of({**groups, "said": "is annoyed by", "no": "no"}, clause),
    ),
    any_rule(
        r"(?P<x>[\w' -]{2,40}?) (?:really |just |always )?(?P<verb>depresses|stresses|exhausts|frustrates|irritates|"
        r"infuriates|scares|terrifies|frightens|overwhelms|fascinates|relaxes|calms|soothes|intimidates) me"
        r"(?= (?:out|down|to death|a lot|so much)\b|$|[.,;!])",
        moves,
    ),
    any_rule(r"(?:I|we)(?: would|'d) (?:much )?rather (?:have )?(?P<x>.+?) than (?P<over>.+)", prefers),
    i_rule(
        r"(?P<verb>take|order|book|sit|buy|wear|carry) (?P<x>.+)",
        always,
    ),
    i_rule(
        r"(?:prefer|would rather have|always prefer|tend to prefer|favour) (?P<x>(?:to )?.+?) (?:over|to"
        r"|rather than|than|"
        r"instead of) (?P<over>.+)",
        prefers,
    ),
    i_rule(
        r"(?:prefer|always choose|always pick|always go for|tend to prefer) (?P<x>.+)",
        prefers,
    ),
    i_rule(r"(?:like|love|enjoy) (?P<x>.+?) (?:more|better) than (?P<over>.+)", prefers),
    any_rule(
        r"(?:my|our)(?: (?:all[- ]time|current|absolute|personal|new|top))* (?:favourite|fav|fave) (?P<what>.+?) "
        r"(?P<are>is|are|has to be|was|would be|which is|:|\() ?(?P<x>.+)",
        favourite,
    ),
    any_rule(
        r"(?P<x>[^,.;]{2,60}?) (?P<are>is|are) (?:my|our)(?: (?:all[- ]time|absolute|new))* (?:favourite|fav|fave) "
        r"(?P<what>.+)",
        favourite,
    ),
)
