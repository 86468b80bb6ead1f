"""Facts as they are written: one sentence about "User" in the third person, with what it tells of as its predicate.

A person says "I drive a Tesla", and what was learned of it reads "User drives a Tesla" with the predicate ``drives``.
So a fact is read as its user would say it, what it tells of is known by its predicate or its subject ("User's rent
is"), and whether it may take the place of an earlier one by where it says that something has changed.
"""

import re

from memproxy.core.memory import Kind, Memory
from memproxy.recall import changes

_OF_THE_USER = tuple(
    (re.compile(pattern), own)
    for pattern, own in (
        ("User's ", "my "),
        ("User is ", "i'm "),
        ("User has been ", "i'm "),
        ("User has ", "i have "),
        (r"User ((?:\w+ly|now|also|still|often|always) )?(\w+?)s ", r"i \1\2 "),
        ("User ", "i "),
    )
)
_ABOUT = re.compile(r"^User's (?:new |current )?([^.,;:]{1,40}?) (?:now )?(?:is|are|was|will be)\b")
_OWNS = re.compile(r"^(?:has|have|had|is|owns?|uses?|current|new)_")
_ENDS = re.compile(r"_(?:in|at|as|on|for|of|with|to|by|from|since|is)$")
_SUBJECT = re.compile(r"^User(?:'s (\S+)| (\S+))")

_BEGINNING = 120
_HEAD, _HEAD_OF_ITS = 5, 3
"""Words within which "User is a nurse" says what he is, and "User has bought a new car" and "User's new car is" that
something has changed: "User's car needs new tyres" says it of the tyres.
"""


def in_first_person(text: str) -> str:
    """What was learned of the user ("User works at a museum") as he would say it himself, roughly."""
    if not text.startswith("User"):
        return text
    for pattern, own in _OF_THE_USER:
        if (found := pattern.match(text)) is not None:
            return found.expand(own) + text[found.end() :]
    return text


def is_of_user(text: str) -> bool:
    """Whether it is written as a fact of the user."""
    return text.startswith(("User ", "User's "))


def labels(memory: Memory) -> list[str]:
    """What a fact tells of, as its user would ask for it ("my job title", "do i drive"); of a message nothing."""
    if memory.kind is Kind.TURN:
        return []
    found = [f"my {about[1].lower()}"] if (about := _ABOUT.match(memory.content)) else []
    whole = (memory.predicate or "").lower().replace(" ", "_")
    if whole:
        for name in {whole, _ENDS.sub("", whole)}:
            said = _OWNS.sub("", name).replace("_", " ")
            verb, _, rest = said.partition(" ")
            found += [f"my {said}", f"do i {verb.removesuffix('s')} {rest}".rstrip()]
    return found


def head(memory: Memory) -> str:
    """How a fact of the user begins, with what it says that he is, has or does; empty of any other, and of what it says
    of something that is his.
    """
    if memory.kind is Kind.TURN or not memory.content.startswith("User "):
        return ""
    said = in_first_person(memory.content[:_BEGINNING]).split()
    return " ".join(said[: _HEAD if said[0] == "i'm" else _HEAD_OF_ITS])


def is_about_user(memory: Memory) -> bool:
    """Whether a fact has the user as its subject, or none."""
    return (memory.subject or "user").lower().removeprefix("the ") == "user"


def of_whom(memory: Memory) -> str:
    """The words by which a fact says whom it is about, if that is not the user ("User's sister Ana")."""
    begins = memory.content.split(maxsplit=_HEAD_OF_ITS)[:_HEAD_OF_ITS] if memory.content.startswith("User's ") else []
    return " ".join((memory.subject or "", *begins))


def holds_beside(earlier: str, later: str) -> bool:
    """Whether a later fact about the user does not take the place of an earlier statement: it says of something else
    that it changed, or of what it is about something else.
    """
    if (subject := _SUBJECT.match(later)) is None or changes.asks_for_now(later) or changes.takes_a_place(later):
        return False
    if changes.tells_change(" ".join(later.split()[: _HEAD_OF_ITS if subject[1] else _HEAD])):
        return False
    before = _SUBJECT.match(earlier)
    return before is None or before.groups() != subject.groups()
