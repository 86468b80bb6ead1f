"""Whom "she", "his" and a name alone mean: somebody just named ("we had a baby, her name is Ida"), or known by name."""

import re

from memproxy.learn.rules.ledger import Ledger
from memproxy.learn.rules.lexicon import FEMALE, MALE
from memproxy.learn.rules.unmarked import first_mentioned
from memproxy.learn.rules.values import names_in
from memproxy.learn.rules.words import PEOPLE, PETS

_WHO = "|".join(sorted(map(re.escape, PEOPLE | PETS.keys() | {"boy", "girl", "nanny"}), key=len, reverse=True))
_ADJECTIVES = r"(?:(?:new|old|older|younger|little|big|baby|first|second|rescue|\w+[- ]year[- ]old) )*"
_NAMED = re.compile(
    rf"(?:\b(?:my|our|(?:have|had|got|adopted|welcomed|expecting|rescued|raising|bought) an?) "
    rf"{_ADJECTIVES}|(?:^|[.!?;] |, )(?=(?:mum|mom|dad|grandma|grandpa|granny)\b))(?P<who>{_WHO})\b"
    r"(?:,? (?:called |named )?(?P<name>(?-i:[A-Z])[a-z]+))?",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"(?P<own>his|her(?! (?:is|has|was|in|at|to)\b))\b (?P<rest>\S.*)|(?P<who>he|she) (?P<more>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_CALLED = re.compile(r"(?:its |the |his |her )?name(?:'s| is) (?P<name>(?-i:[A-Z])[a-z]+)", re.IGNORECASE)
_SEEING = re.compile(r"\b(?:seeing|dating|met) (?:someone|somebody)\b", re.IGNORECASE)
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
    r"User(?:'s (?P<who>[\w -]+?)(?<! is)(?: is named)?| has an? (?P<pet>[\w ]+?) named) (?P<name>[A-Z][\w-]+)\b"
)


_THE_PET = re.compile(
    rf"the (?P<pet>{'|'.join(sorted(map(re.escape, PETS.keys() - {'chicken'}), key=len, reverse=True))})(?:'s "
    rf"name| is) ",
    re.IGNORECASE,
)
"""Where one is known, "the hamster" is the user's."""

_MOVED_HERE = re.compile(r"(?P<said>(?:I|we) (?:have )?(?:only |just |recently )?moved) here\b", re.IGNORECASE)
_PLACE = re.compile(r"\b(?:in|around|near|of) ((?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)*)(?=\W*[,.?!]|\s+and\b)", re.I)
"""“What's on in Ghent? I moved here in January”."""


def resolved(text: str, before: str, ledger: Ledger) -> str:
    """The clause with the somebody in place of the pronoun or name that it begins with, else as it is."""
    if (called := _CALLED.match(text)) is not None:
        if _SEEING.search(before[-80:]) is not None and re.match(r"(?:his|her)\b", text, re.IGNORECASE):
            who = "boyfriend" if text[:3].lower() == "his" else "girlfriend"
            return f"my {who}'s name is {called['name']}"
        fresh = [one for one in _NAMED.finditer(before) if not one["name"]]
        return f"my {fresh[-1]['who'].lower()}'s name is {called['name']}" if fresh else text
    if (borne := _BORNE.search(text)) is not None and (
        named := _LAST_NOUN.search(before) or _LAST_NOUN.search(before.rpartition(",")[0])
    ) is not None:
        return f"{text[: borne.start('it')]}{named['x']}{text[borne.end('it') :]}"
    if (here := _MOVED_HERE.match(text)) is not None and (places := _PLACE.findall(before)):
        return f"{here['said']} to {places[-1]}{text[here.end() :]}"
    pet = _THE_PET.match(text)
    if pet is not None and any(
        pet["pet"].lower() in one.told and (one.statement.subject or "user") == "user" for one in ledger.newest()
    ):
        return f"my {text[4:]}"
    mine = first_mentioned(text, before)
    return mine if mine != text else _by_pronoun(text, before, ledger)


def _by_pronoun(text: str, before: str, ledger: Ledger) -> str:
    pronoun = _PRONOUN.match(text)
    if pronoun is None:
        return _by_name(text, ledger)
    female = (pronoun["own"] or pronoun["who"]).lower() in ("her", "she")
    wrong = MALE if female else FEMALE
    found = [one for one in _NAMED.finditer(before) if one["who"].lower() not in wrong]
    changed = not found and _SAYS_CHANGE.search(text) is not None and not names_in(before)
    if changed and (only := _only_known(ledger, wrong)) is not None:
        return f"{only}'s {pronoun['rest']}" if pronoun["own"] else f"{only} {pronoun['more']}"
    if not found or _of_somebody_else(before[found[-1].end() :]):
        return text
    who = f"my {found[-1]['who'].lower()}{' ' + found[-1]['name'] if found[-1]['name'] else ''}"
    return f"{who}'s {pronoun['rest']}" if pronoun["own"] else f"{who} {pronoun['more']}"


def _of_somebody_else(since: str) -> bool:
    """Whether a question about somebody by name came between ("who is Taylor Swift? she lives in ...")."""
    return re.search(r"\bwho(?: is|'s|s)\b[^?]*(?-i:[A-Z])\w+[^?]*\?", since, re.IGNORECASE) is not None


def _only_known(ledger: Ledger, wrong: frozenset[str]) -> str | None:
    """The only one near the user whom "she" can be, of other days too ("She's at the village school now")."""
    known = {
        found["who"].lower().strip()
        for one in ledger.newest()
        if (found := _RELATED.match(one.statement.content)) is not None
    }
    if not known or len(known) > 1 or known & wrong:
        return None
    return f"my {next(iter(known))}"


_SAYS_CHANGE = re.compile(r"\b(?:now|no longer|anymore|these days)\b", re.IGNORECASE)
"""Without one of these "she" is rather somebody whom this conversation is about."""

_RELATED = re.compile(rf"User's (?P<who>{'|'.join(sorted(map(re.escape, PEOPLE), key=len, reverse=True))})\b")


def _by_name(text: str, ledger: Ledger) -> str:
    match = _ALONE.match(text)
    if match is None:
        return text
    for one in ledger.newest():
        known = _OF_SOMEBODY.match(one.statement.content)
        if known is not None and known["name"] == match["name"]:
            return f"my {known['who'] or known['pet']} {match['name']}{match['rest']}"
    return text
