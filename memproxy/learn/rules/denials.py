"""Denials of what is known of somebody near ("Mina isn't allergic to dogs", "my son quit the violin")."""

import re
from collections.abc import Callable, Iterable

import msgspec

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.ledger import Ledger, forgotten, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import trimmed

States = Callable[[Clause], list[Extracted]]
"""Reads a clause as a statement: what the rules find in it."""

_OF_OTHERS = re.compile(
    r"(?P<who>(?:my|our) [\w' -]{2,40}?) (?:(?P<is>is|are) (?:not|no longer)|(?P<does>does|do) not|no "
    r"longer) (?P<x>.+)",
    re.IGNORECASE,
)


_GONE = re.compile(
    r"(?:(?:my|our) )?(?P<who>(?:[\w-]+ ){0,2}(?-i:[A-Z])[\w-]+|(?:my|our) [\w-]+) (?:(?:does not|no longer) "
    r"(?:live|lives|share|"
    r"shares|work|works|stay|stays)(?: \w+)? with (?:me|us)|(?:has )?moved out|moved away|is no longer (?:my|our) "
    r"[\w-]+)",
    re.IGNORECASE,
)
"""Somebody who is no longer near."""

_NEAR_ONLY = re.compile(r"\b(?:flat|room|house)mates?|lodgers?|tenants?|roomies?|au pair|subtenants?\b", re.IGNORECASE)


def _of_somebody(who: str, ledger: Ledger) -> list[Extracted]:
    """What is known of a flatmate, a lodger: of those who are family the kinship stays."""
    name = who.rsplit(maxsplit=1)[-1]
    held = [one.statement for one in ledger.newest() if re.search(rf"\b{re.escape(name)}\b", one.statement.content)]
    return held if any(_NEAR_ONLY.search(one.content) for one in held) else []


def not_so_of_others(clause: Clause, ledger: Ledger, states: States) -> Iterable[Extracted]:
    """The denial of what is known of somebody near ("Mina isn't allergic to dogs")."""
    if (gone := _GONE.match(clause.text)) is not None:
        yield from (forgotten(one) for one in _of_somebody(gone["who"], ledger))
        return
    match = _OF_OTHERS.match(clause.text)
    if match is None:
        yield from _others_quit(clause, ledger)
        return
    said = re.sub(r"\s+(?:at all|anymore|after all|actually)\b", "", match["x"])
    verb = f"{match['is']} {said}" if match["is"] else third_verb(said) if match["does"] else said
    for one in states(msgspec.structs.replace(clause, text=f"{match['who']} {verb}")):
        held = [
            known.statement
            for known in ledger.newest()
            if known.statement.predicate == one.predicate
            and known.statement.subject == one.subject
            and one.subject != "user"
            and _starts_alike(known.statement.object or "", one.object or "")
        ]
        yield from (forgotten(known) for known in held[:1])


def _starts_alike(one: str, other: str) -> bool:
    first, second = one.casefold(), other.casefold()
    return bool(first and second) and (first.startswith(second) or second.startswith(first))


_OTHERS_QUIT = re.compile(
    r"(?:my|our) (?P<who>[\w' -]{2,40}?) (?:has |have )?(?:quit|stopped|gave up|given up|dropped|left"
    r"|sold) (?P<x>.+)",
    re.IGNORECASE,
)


def _others_quit(clause: Clause, ledger: Ledger) -> Iterable[Extracted]:
    """“My son quit the violin”."""
    match = _OTHERS_QUIT.match(clause.text)
    said = re.split(r" (?:over|last|during|after|because) ", match["x"])[0] if match else ""
    topic = trimmed(said, "short")
    if match is None or topic is None:
        return
    wanted = terms(topic)
    for one in ledger.newest():
        if (
            one.statement.subject != "user"
            and wanted
            and wanted <= terms(one.statement.content)
            and terms(match["who"]) <= terms(one.statement.content)
        ):
            yield forgotten(one.statement)
