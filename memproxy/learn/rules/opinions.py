"""Rules for what the user finds of things and people."""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.model import (
    LESS_SURE,
    Clause,
    Groups,
    Rule,
    any_rule,
    i_rule,
)
from memproxy.learn.rules.tastes import topic_of
from memproxy.learn.rules.values import (
    names_in,
    third_person,
    trimmed,
)

_GOOD = (
    "brilliant|handy|neat|elegant|underrated|intuitive|gorgeous|superb|comfy|comfortable|solid|super"
    "|great|excellent|amazing|fantastic|perfect|fine|good|wonderful|ideal|awesome|easy|"
    "easier|fun|lovely|delicious|reliable"
)

_BAD = (
    "clunky|bloated|ugly|laggy|buggy|exhausting|dull|bland|cheesy|gross|disgusting|unreadable"
    "|overpriced|flaky|cumbersome|pointless|"
    "(?:way |far |much )?too \\w+|a pain|a nightmare|terrible|awful|horrible|bad|annoying|useless"
    "|hard|boring|overrated|disappointing|clumsy|slow|"
    "confusing|frustrating|too expensive|overkill|unreliable|painful|tedious|ugly"
)

_OPINION = re.compile(
    rf"(?P<x>(?:(?:my|our) )?[\w+#' .-]{{2,40}}?) (?:is|are) (?:(?:really|so|just|pretty|quite|still|absolutely|"
    rf"simply|actually|very) )*(?P<how>{_GOOD}|{_BAD})(?: (?:for|at|with|when it comes to|in) (?P<aspect>.+))?",
    re.IGNORECASE,
)


_IS_GENERAL = re.compile(
    r"(?!(?:the|this|that|these|those|it|its|you|your|there|they|he|she|his|her|my|our|we|what|which|how|one|both|all|"
    r"some|any|most|no|an?|each|every|something|everything|things?)\b)[a-z][a-z-]+(?: [a-z][a-z-]+){0,2}s$"
)
"""Things in general ("async standups"), which are no part of what is worked on."""


def opinion(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """What the user finds of a named thing or person ("Henrik is terrible at giving feedback", "I find Rust hard")."""
    thing = trimmed(groups["x"], "long")
    aspect = trimmed(groups["aspect"], "long") if groups.get("aspect") else None
    if (
        thing is None
        or (groups.get("aspect") and aspect is None)
        or not ((names_in(thing) and thing.split()[-1][:1].isupper()) or (aspect is None and _IS_GENERAL.match(thing)))
    ):
        return
    how = groups["how"].lower()
    negative = re.fullmatch(_BAD, how) is not None
    joined = re.search(r" (for|at|with|in|when it comes to) ", groups.get("said", " for ")) if aspect else None
    said = f" {joined[1] if joined else 'for'} {third_person(aspect)}" if aspect else ""
    yield Extracted(
        content=f"User finds {third_person(thing)} {how}{said}.",
        subject="user",
        predicate="dislikes" if negative else "likes",
        object=thing.split()[-1] if thing.lower().startswith(("my ", "our ")) else thing,
        aspect=third_person(aspect) if aspect else None,
        stance="negative" if negative else "positive",
        category=topic_of(thing),
        tags=("opinions",),
        entities=tuple(names_in(thing)),
        confidence=LESS_SURE,
        importance=0.4,
    )


def stated_opinion(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“I think X is fine for Y”, “for Y I think X is fine”."""
    match = _OPINION.match(groups["said"])
    if match is not None:
        found = {name: text for name, text in match.groupdict().items() if text}
        where = {"aspect": groups["aspect"]} if groups.get("aspect") and not found.get("aspect") else {}
        yield from opinion({**found, **where, "said": match.group() if not where else " for "}, clause)


_VERDICT = re.compile(
    r"(?:an? )?(?:absolute |total |real |complete |pure )?(?P<how>torture|joke|dream|godsend"
    r"|nightmare|delight|disaster|lifesaver|masterpiece|abomination|blessing|"
    r"revelation|gem|scam|waste of (?:money|time|space)|mistake|disappointment|letdown|rip-?off|bargain|pain|"
    r"chore|eyesore|game[- ]changer|crime|cheating|fad|nonsense|rubbish|trash|garbage|overrated|underrated|pointless|"
    r"useless|cringe|genius|magic|the (?:worst|best)|a lie)\b",
    re.IGNORECASE,
)
_LIKED = frozenset(
    {
        "dream",
        "godsend",
        "delight",
        "lifesaver",
        "masterpiece",
        "blessing",
        "revelation",
        "gem",
        "game-changer",
        "game changer",
        "bargain",
        "underrated",
        "genius",
        "magic",
        "the best",
    }
)


def verdict(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“The saddle is torture”, “my new blender is a godsend”."""
    thing, found = trimmed(groups["x"], "long"), _VERDICT.match(groups["said"])
    own = re.search(r"\b(?:my|our)\b", clause.evidence, re.IGNORECASE) is not None
    if thing is None or found is None or (thing.lower().startswith("the ") and not own):
        return
    positive = found["how"].lower() in _LIKED
    yield Extracted(
        content=f"User finds {third_person(thing)} {found.group().strip().lower()}.",
        subject="user",
        predicate="likes" if positive else "dislikes",
        object=thing,
        stance="positive" if positive else "negative",
        category=topic_of(thing),
        tags=("opinions",),
        entities=tuple(names_in(thing)),
        confidence=LESS_SURE,
        importance=0.4,
    )


RULES: tuple[Rule, ...] = (
    any_rule(
        r"(?P<x>(?:my|our|the) [\w' -]{2,40}?|(?-i:[A-Z])[\w+#-]+|"
        r"(?!(?:these|those|they|things|guys|sometimes)\b)[a-z][a-z-]{2,}(?: [a-z][a-z-]+){0,2}s(?= are)) (?:is|"
        r"are|was) (?:such |just |still "
        r"|honestly )?(?P<said>.+)",
        verdict,
    ),
    i_rule(r"(?:think|believe|feel)(?: that)? (?P<said>.+)", stated_opinion),
    any_rule(
        r"(?:for|at|in) (?P<aspect>[\w ]{3,40}?),? I (?:think|find|feel|believe)(?: that)? (?P<said>.+)",
        stated_opinion,
    ),
    i_rule(
        rf"find (?P<x>.+?) (?:to be )?(?:(?:really|so|very|quite|too|rather) )*(?P<how>{_GOOD}|{_BAD})(?P<said> "
        rf"(?:for|at|with|in|to) (?P<aspect>.+))?",
        opinion,
    ),
    any_rule(
        r"(?P<said>(?:(?:my|our) (?:boss|manager|colleague|coworker|teacher|doctor|landlord|neighbou?r) "
        r")?(?-i:[A-Z])[\w+#-]+ (?:is|are) \w.* (?:at|with|for) .+)",
        stated_opinion,
    ),
)
