"""A known statement with one value exchanged for another: complete by itself, in the slot of the old one."""

import re

import msgspec

from memproxy.core.slots import has_many, predicate_name, value_name
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.model import SURE
from memproxy.learn.rules.values import bare


def with_value(known: Extracted, wrong: str, new: str) -> Extracted | None:
    """The known statement with one value exchanged for another, wherever it stands."""
    plain = wrong.strip(" .!")
    place = known.content.casefold().find(plain.casefold())
    if place < 0 or ((known.subject or "user") != "user" and plain == known.subject):
        return None
    title = new.split(maxsplit=1)[0] if " " in new else ""
    if title and known.content[:place].endswith(f" {title} "):
        new = new.removeprefix(f"{title} ")  # "Mr Petrova" for the name in "Mr Petrov"
    old = known.content[place : place + len(plain)]
    if old[:1].isdigit() and place and known.content[place - 1] in "$€£¥" and new[:1].isdigit():
        old, new = known.content[place - 1] + old, known.content[place - 1] + new
    value = re.sub(re.escape(plain), lambda _match: new, known.object or new, flags=re.IGNORECASE)
    if value == known.object:
        value = (
            new  # the place in what is told by its month ("is moving to Leipzig": October): another value all the same
        )
    return exchange(known, old, new, value)


def exchange(known: Extracted, old: str, new: str, value: str) -> Extracted | None:
    """The statement with ``new`` in the place of ``old``, and ``value`` as its object; None when nothing changes."""
    if value_name(old) == value_name(new) or old not in known.content:
        return None
    content = known.content.replace(old, new, 1)
    listed = has_many(predicate_name(known.predicate or "")[0])
    return msgspec.structs.replace(
        known,
        content=content if content.endswith(".") or not known.content.endswith(".") else f"{content}.",
        intent=Intent.CORRECT,
        object=bare(value),
        replaces=known.object if listed or known.object else old,
        entities=tuple(dict.fromkeys(new if name == old else name for name in known.entities)),
        relations=tuple(
            msgspec.structs.replace(relation, object=bare(value)) if relation.object == known.object else relation
            for relation in known.relations
        ),
        confidence=SURE,
        valid_from=None,
        valid_to=None,
        evidence=(),
    )
