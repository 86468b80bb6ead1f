"""Whom "she", "his" and a name alone mean: somebody just named ("we had a baby, her name is Ida"), or known by name."""

import re

from memproxy.learn.rules.ledger import Ledger
from memproxy.learn.rules.lexicon import FEMALE, MALE
from memproxy.learn.rules.words import PEOPLE, PETS

_WHO = "|".join(sorted(map(re.escape, PEOPLE | PETS.keys() | {"boy", "girl", "nanny"}), key=len, reverse=True))
_ADJECTIVES = r"(?:(?:new|old|older|younger|little|big|baby|first|second|rescue|\w+[- ]year[- ]old) )*"
_NAMED = re.compile(
    rf"\b(?:my|our|(?:have|had|got|adopted|has|welcomed|expecting|rescued|raising|bought) an?) "
    rf"{_ADJECTIVES}(?P<who>{_WHO})\b"
    r"(?:,? (?:called |named )?(?P<name>(?-i:[A-Z])[a-z]+))?",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"(?P<own>his|her(?! (?:is|has|was|in|at|to)\b))\b (?P<rest>\S.*)|(?P<who>he|she) (?P<more>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_CALLED = re.compile(r"(?:its |the |his |her )?name(?:'s| is) (?P<name>(?-i:[A-Z])[a-z]+)", re.IGNORECASE)
_BORNE = re.compile(r"\b(?:allergic|intolerant|sensitive) to (?P<it>it|them|that|those)(?=$|[ ,.;!])", re.IGNORECASE)
_LAST_NOUN = re.compile(
    r"\b(?:without|with|no|any|some|contains?|has|have|of|avoid|eat|skip|like|the) (?P<x>(?!the\b|"
    r"it\b)[a-z-]{3,}(?: [a-z-]{3,})?)"
    r"\W*(?:(?:and|but|so|since|because|as)\W*)?$",
    re.IGNORECASE,
)
"""What "allergic to it" is about: the thing that the words before it end with."""

_ALONE = re.compile(r"(?P<name>[A-Z][a-z]+)(?P<rest>(?:'s)? .+)$", re.DOTALL)
_OF_SOMEBODY = re.compile(
    r"User(?:'s (?P<who>[\w -]+?)(?: is named)?| has an? (?P<pet>[\w ]+?) named) (?P<name>[A-Z][\w-]+)\b"
)


def resolved(text: str, before: str, ledger: Ledger) -> str:
    """The clause with the somebody in place of the pronoun or name that it begins with, else as it is."""
    if (called := _CALLED.match(text)) is not None:
        fresh = [one for one in _NAMED.finditer(before) if not one["name"]]
        return f"my {fresh[-1]['who'].lower()}'s name is {called['name']}" if fresh else text
    if (borne := _BORNE.search(text)) is not None and (
        named := _LAST_NOUN.search(before) or _LAST_NOUN.search(before.rpartition(",")[0])
    ) is not None:
        return f"{text[: borne.start('it')]}{named['x']}{text[borne.end('it') :]}"
    pronoun = _PRONOUN.match(text)
    if pronoun is None:
        return _by_name(text, ledger)
    female = (pronoun["own"] or pronoun["who"]).lower() in ("her", "she")
    wrong = MALE if female else FEMALE
    found = [one for one in _NAMED.finditer(before) if one["who"].lower() not in wrong]
    if not found:
        return text
    who = f"my {found[-1]['who'].lower()}{' ' + found[-1]['name'] if found[-1]['name'] else ''}"
    return f"{who}'s {pronoun['rest']}" if pronoun["own"] else f"{who} {pronoun['more']}"


def _by_name(text: str, ledger: Ledger) -> str:
    match = _ALONE.match(text)
    if match is None:
        return text
    for one in ledger.newest():
        known = _OF_SOMEBODY.match(one.statement.content)
        if known is not None and known["name"] == match["name"]:
            return f"my {known['who'] or known['pet']} {match['name']}{match['rest']}"
    return text
