"""Rules for pets, and for names beside “my dog” or “my wife” anywhere in a sentence."""

import re
from collections.abc import Iterable

from memproxy.core.memory import Relation
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.model import (
    LESS_SURE,
    SURE,
    Clause,
    Groups,
    Rule,
    any_rule,
    i_rule,
)
from memproxy.learn.rules.people import (
    COUNT,
    NUMBER_WORDS,
    PERSON,
    SIZE,
    named_person,
    names_of,
)
from memproxy.learn.rules.values import (
    bare,
    is_name,
    trimmed,
)
from memproxy.learn.rules.words import (
    PETS,
)

_PET = rf"(?P<pet>{'|'.join(sorted(map(re.escape, PETS), key=len, reverse=True))})"


_ALONE = (
    r"(?=\s*$|[,.;!?]| (?:called|named|whose|and|who|that|from|last|this|yesterday|in|at|with|for|but|because|since|"
    r"when|now|too|a|two|three)\b| (?-i:[A-Z]))"
)
"""What may follow a pet, so that "a new dog bed" is none."""


def pet(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """A pet, with its name if it is said."""
    said = groups["pet"].lower()
    kind = PETS[said]
    name = trimmed(groups.get("x") or "", "name")
    if name is not None and is_name(name):
        yield named_pet(kind, said, name.removesuffix("'s"))
    elif groups.get("owned"):
        article = "an" if said[0] in "aeiou" else "a"
        yield Extracted(
            content=f"User has {article} {said}.",
            subject="user",
            predicate=f"has_{kind}",
            object=said,
            category="user-profile/pets",
            tags=("pets", kind),
            confidence=SURE,
            importance=0.6,
        )


def named_pet(kind: str, said: str, name: str, confidence: float = SURE) -> Extracted:
    """A pet of that name."""
    return Extracted(
        content=f"User has a {said} named {name}.",
        subject="user",
        predicate=f"has_{kind}",
        object=name,
        category="user-profile/pets",
        tags=("pets", kind),
        entities=(name,),
        relations=(Relation(subject="user", predicate=f"has_{kind}", object=name),),
        confidence=confidence,
        importance=0.7,
    )


def pets(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """Several pets ("two cats named Tom and Kit", "three dogs")."""
    said = groups["pet"].lower()
    kind = PETS[said]
    named = names_of(groups.get("x") or "")
    if named:
        yield from (named_pet(kind, said, name) for name in named)
    else:
        yield Extracted(
            content=f"User has {groups['count'].lower()} {said}s.",
            subject="user",
            predicate=f"number_of_{kind}",
            object=str(NUMBER_WORDS.get(groups["count"].lower(), groups["count"])),
            category="user-profile/pets",
            tags=("pets", kind),
            confidence=SURE,
            importance=0.6,
        )


def walked(groups: Groups, _clause: Clause | None) -> Iterable[Extracted]:
    """“Walking Biscuit this morning”: a pet, most likely."""
    name = trimmed(groups["x"], "name")
    if name is not None and is_name(name) and len(name.split()) == 1:
        kind = "dog" if "walk" in groups.get("how", "walk").lower() else "pet"
        yield named_pet(kind, kind, name, 0.6)


def pet_detail(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """What a pet is: breed or age."""
    what = trimmed(re.split(r" (?:called|named) ", groups["what"])[0], "long")
    said = groups["pet"].lower()
    if what is None or not re.match(
        r"an? |\d+ (?:years|months) old|(?:one|two|three|four|five|six|seven|eight|nine|ten) ",
        what,
    ):
        return
    name = groups.get("x")
    if name and not is_name(name):
        return
    who = f"User's {said} {name}" if name else f"User's {said}"
    aged = what[0].isdigit()
    yield Extracted(
        content=f"{who} is {what}.",
        subject=name or f"user's {said}",
        predicate="age" if aged else "breed",
        object=bare(what),
        category="user-profile/pets",
        tags=("pets", PETS[said]),
        confidence=SURE,
        entities=(name,) if name else (),
    )


_INNER = re.compile(
    rf"\b(?:my|our) (?:{SIZE}{_PET}|{PERSON}),? (?:(?:called|named) )?(?P<x>(?-i:[A-ZÀ-ÖØ-Þ])[\w-]+)(?P<next>'s\b|"
    rf"\s+(?-i:[A-Z])[\w-]+)?",
    re.IGNORECASE,
)


def mentioned(text: str) -> Iterable[Extracted]:
    """Names beside "my dog", "my wife" anywhere in a sentence, in a question too ("a cake for my son Leo?")."""
    for match in _INNER.finditer(text):
        name = match["x"]
        if not is_name(name) or (match["next"] and match["next"] != "'s"):
            continue
        if match["pet"]:
            yield named_pet(PETS[match["pet"].lower()], match["pet"].lower(), name)
        else:
            yield named_person(match["who"].lower(), name)
    for match in _WALKED.finditer(text):
        yield from walked({"x": match["x"]}, None)
    for match in _IMPLIED.finditer(text):
        article = "an" if match["x"][0] in "aeiou" else "a"
        yield Extracted(
            content=f"User has {article} {match['x'].lower()}.",
            subject="user",
            predicate="owns",
            object=match["x"].lower(),
            category="possessions/things",
            tags=("possessions",),
            confidence=LESS_SURE,
        )


_WALKED = re.compile(
    r"\b(?:while|I was|I am|am|was|been|after|before|from|went|keep|love|enjoy) (?:out )?walking "
    r"(?P<x>(?-i:[A-Z])[\w-]+)(?= this\b| today\b| last\b| yesterday\b|[,.!?]|$| in\b| and\b| every\b| when\b| "
    r"at\b)",
    re.IGNORECASE,
)

_IMPLIED = re.compile(
    r"\b(?:in|on|at|from|with|for|of) (?:my|our) (?P<x>allotment|greenhouse|sailboat|campervan|motorhome|kayak|"
    r"telescope|3d printer|vineyard|farm|houseboat|beehives?|caravan|darkroom|chicken coop)\b",
    re.IGNORECASE,
)


RULES: tuple[Rule, ...] = (
    any_rule(
        rf"(?:my|our|with my|and my|with our|and our) {SIZE}{_PET},? (?:is )?(?:called |named )?(?P<x>[^\W\d_].*)",
        pet,
    ),
    any_rule(
        rf"(?:my|our) {SIZE}{_PET}(?:'s name is| is called| is named| goes by) (?P<x>.+)",
        pet,
    ),
    i_rule(
        rf"(?:have|own|got|adopted|have adopted|rescued|bought) (?P<owned>an?) {SIZE}(?:[\w-]+ )?{_PET}(?: "
        rf"pup| puppy| kitten| mix| cross)?\b{_ALONE}(?:,? "
        rf"(?:called|named|whose name is) |,? )?(?P<x>[^\W\d_].*)?",
        pet,
    ),
    i_rule(
        rf"(?:have|own|got|adopted) {COUNT} {SIZE}{_PET}s\b(?:,? (?:called|named)|:|,)? ?(?P<x>.*)",
        pets,
    ),
    any_rule(
        rf"(?:my|our) {_PET}s are (?:called |named )?(?P<x>[A-Z].*)(?P<count>)",
        lambda groups, clause: [one for one in pets({**groups, "count": "several"}, clause) if one.entities],
    ),
    any_rule(rf"(?P<x>[^\W\d_][\w'-]+) is (?:my|our) {SIZE}(?:[\w-]+ )?{_PET}\b", pet),
    any_rule(rf"(?:my|our) {_PET},? (?:(?P<x>[A-Z][\w'-]+),? )?is (?P<what>.+)", pet_detail),
    any_rule(
        r"(?:I (?:am |was |have been |went |go )?)?(?:out )?(?:walking|walked) (?P<x>[A-Z].+)",
        walked,
    ),
    any_rule(
        r"(?:I )?(?:took|am taking|have to take|need to take|take) (?P<x>[A-Z]\w+) to the (?:vet|groomer|dog park)\b",
        walked,
    ),
    any_rule(
        r"(?:I )?(?:am |was )?(?:taking|walking) (?P<x>[A-Z]\w+) (?:for a walk|to the vet|to the dog park|on a "
        r"leash)\b",
        walked,
    ),
    i_rule(
        rf"(?:named|called|have named) (?:the|our|my) (?:new )?(?:baby |little )?{_PET} (?P<x>[A-Z].*)",
        pet,
    ),
)
