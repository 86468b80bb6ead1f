"""What a statement ends by saying the opposite, without a word of correction ("I eat fish" after "I eat no fish")."""

import re
from collections.abc import Iterator

from memproxy.core.slots import value_name
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.ledger import Ledger, forgotten, terms

_EATS = re.compile(r"(?:eat|eats|drink|drinks|smokes)(?:_(?P<x>\w+))?$")
_MEAT = re.compile(r"\b(?:meat|chicken|beef|pork|steak|bacon|burgers?|sausages?|ham|lamb|turkey)\b", re.IGNORECASE)
_FISH = re.compile(r"\b(?:fish|salmon|tuna|sushi|seafood|shrimp|prawns)\b", re.IGNORECASE)
_ANIMAL = re.compile(r"\b(?:dairy|milk|cheese|eggs?|butter|yog\w+|honey)\b", re.IGNORECASE)
_ALCOHOL = re.compile(r"(?:wine|beer|alcohol|whisk\w+|gin|cocktail|cider)\b", re.IGNORECASE)
_DIET = re.compile(r"\b(?:vegan|vegetarian|pescatarian)\b", re.IGNORECASE)
_COUPLE = frozenset(
    {"family_boyfriend", "family_girlfriend", "family_wife", "family_husband", "family_partner", "family_fiance"}
)
_CLOSENESS = {
    **dict.fromkeys(("boyfriend", "girlfriend"), 1),
    **dict.fromkeys(("fiance", "fiancé", "fiancee", "fiancée"), 2),
    **dict.fromkeys(("husband", "wife"), 3),
}
"""Whoever is a husband is no boyfriend any more."""

_PAIRED = frozenset({"boyfriend", "girlfriend", "wife", "husband", "partner"})


def opposed(stated: Extracted, ledger: Ledger) -> Iterator[Extracted]:
    """The retraction of each known statement that cannot hold beside this one."""
    if stated.intent is not Intent.STATE or not stated.predicate:
        return
    for one in ledger.newest():
        known = one.statement
        if (
            (known.subject == stated.subject or _of_former(stated, known))
            and known.predicate
            and known.content != stated.content
            and _denies(stated, known)
        ):
            yield forgotten(known)


def _denies(stated: Extracted, known: Extracted) -> bool:
    return (
        (stated.predicate == "avoids" and _is_eaten(known, stated.object or ""))
        or (known.predicate == "avoids" and _is_eaten(stated, known.object or ""))
        or (
            known.predicate == "smokes"
            and stated.predicate in ("quit_smoking", "avoids")
            and stated.object in ("smoking", "tobacco")
        )
        or (stated.predicate == "smokes" and known.predicate == "quit_smoking")
        or _breaks_diet(stated, known)
        or _breaks_diet(known, stated)
        or _is_closer(stated, known)
        or _of_former(stated, known)
        or _ends_single(stated, known)
        or _prefers_now(stated, known)
        or _is_all_there_is(stated, known)
        or _works_elsewhere(stated, known)
        or _has_come_to(stated, known)
        or (stated.content.startswith("User graduated") and known.content.startswith("User is a student"))
        or (_IN_CARE.search(stated.content) is not None and (known.predicate or "") in ("lives", "lives_with"))
        or (stated.content.endswith(" own room.") and " shares a room" in known.content)
        or bool(_BOUGHT_HOME.match(stated.content) and _RENTS.match(known.content))
    )


def _is_eaten(statement: Extracted, what: str) -> bool:
    match = _EATS.match(statement.predicate or "")
    if match is None:
        return False
    eaten = match["x"] or {"smokes": "tobacco", "drinks": "alcohol"}.get(statement.predicate or "", "")
    if what == "alcohol" and _ALCOHOL.match(eaten):
        return True
    return bool(eaten) and value_name(eaten.replace("_", " ")).rstrip("s") == value_name(what).rstrip("s")


def _breaks_diet(stated: Extracted, known: Extracted) -> bool:
    diet = _DIET.search(known.object or "")
    if diet is None or _EATS.match(stated.predicate or "") is None or "not" in stated.content.split():
        return False
    kind = diet.group().lower()
    eaten = stated.content
    return bool(
        _MEAT.search(eaten)
        or (kind != "pescatarian" and _FISH.search(eaten))
        or (kind == "vegan" and _ANIMAL.search(eaten))
    )


def _is_closer(stated: Extracted, known: Extracted) -> bool:
    """“My husband Mateo” after “my boyfriend Mateo”."""
    one, other = (part.predicate or "" for part in (stated, known))
    closer = _CLOSENESS.get(one.removeprefix("family_"), 0) > _CLOSENESS.get(other.removeprefix("family_"), 9)
    if not closer:
        return False
    return "family_" in other or value_name(stated.object or "") == value_name(known.object or "")


def _of_former(stated: Extracted, known: Extracted) -> bool:
    """“User's boyfriend Luca cooks” beside “User's husband is named Luca”."""
    closer, name = _CLOSENESS.get(stated.predicate or ""), stated.object or ""
    former = re.match(r"User's (?P<who>\w+) (?P<name>[A-Z]\w+)\b", known.content)
    if closer is None or former is None or former["name"] != name:
        return False
    return _CLOSENESS.get(former["who"], 9) < closer


def _ends_single(stated: Extracted, known: Extracted) -> bool:
    paired = stated.predicate in _COUPLE or stated.predicate in _PAIRED
    return paired and known.predicate == "marital_status" and known.object in ("single", "divorced", "separated")


_ONLY = re.compile(r"User only (?P<verb>drinks|eats|uses|takes|wears|plays) (?P<x>.+)\.$")
_ALL_OF_A_SORT = (
    frozenset({"coffee", "decaf", "espresso", "cappuccino", "latte", "tea", "matcha", "chai"}),
    frozenset({"beer", "wine", "cider", "spirit", "whisky", "alcohol"}),
    frozenset({"meat", "fish", "chicken", "pork", "beef"}),
)


def _is_all_there_is(stated: Extracted, known: Extracted) -> bool:
    """“I only drink decaf” after "four cups of coffee a day": what else of its sort was drunk is not any more."""
    only = _ONLY.match(stated.content)
    if only is None or not known.content.startswith(f"User {only['verb']} "):
        return False
    said, held = terms(only["x"]), terms(known.content)
    return any(sort & said and sort & held for sort in _ALL_OF_A_SORT)


_BOUGHT_HOME = re.compile(
    r"User bought (?:an?|their) (?:[\w-]+ ){0,2}(?:house|flat|apartment|home|cottage|bungalow|place) in "
)
_RENTS = re.compile(r"User (?:rents|is renting)\b(?! out\b)")
_IN_CARE = re.compile(r" (?:care|nursing|retirement) home\b")
_REMOTE = re.compile(r"User works (?:fully |entirely |completely |mostly )?(?:remote\w*|from home)\b")
_AT_OFFICE = re.compile(r"User works in the office ")


def _has_come_to(stated: Extracted, known: Extracted) -> bool:
    """“The rota app grew on me” of who was "not a fan of the new rota app at work"."""
    if not stated.content.startswith("User has come to ") or known.stance != "negative" or known.aspect:
        return False
    return bool(stated.object) and terms(stated.object or "") <= terms(known.object or "")


def _works_elsewhere(stated: Extracted, known: Extracted) -> bool:
    """“Three days a week in the office” of who worked remotely, and the other way round."""
    one, other = stated.content, known.content
    return bool((_AT_OFFICE.match(one) and _REMOTE.match(other)) or (_REMOTE.match(one) and _AT_OFFICE.match(other)))


def _prefers_now(stated: Extracted, known: Extracted) -> bool:
    over = re.search(r" prefers .+ over (?P<x>.+)\.$", stated.content)
    return over is not None and known.predicate == "prefers" and value_name(over["x"]) == value_name(known.object or "")
