"""Corrections: which statement "no, it's 15,000 now" replaces; what an edit of a statement's words changes beside them.

A correction stands in its own words. What it names as wrong decides, word for word before anything else.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memproxy.core.chain import last_said_at, said_at
from memproxy.core.memory import Kind, Memory, Relation
from memproxy.core.reworded import terms
from memproxy.core.similar import Neighbour, affirms, changes, contains, names, topic
from memproxy.core.slots import has_many, numbers, predicate_name, same_value, slot_name, value_name
from memproxy.core.text import words

_PRONOUNS = frozenset({"it", "that", "this", "he", "she", "they", "its"})
_WHOLE = 4
"""Words of a sentence that stands by itself ("User gets up at 7")."""

_NEARLY = 0.8
"""Share of their words (Dice) that a statement and another form of it have in common."""

_MOST_OF_IT = 0.67
"""Share of the words of a statement called wrong that a known one must hold to be it."""


def named_by(replaces: str, known: Sequence[Memory]) -> Memory | None:
    """The statement that a correction names word for word, case, blanks and end marks aside; where none is that, the
    only one that says it in nearly the same words. None where it names a value alone.
    """
    exact = [memory for memory in known if says_exactly(memory, replaces)]
    if exact:
        return max(exact, key=last_said_at)
    said = terms(replaces)
    if len(words(replaces)) < _WHOLE or not said:
        return None
    near = [memory for memory in known if _says_nearly(memory, replaces, said)]
    return near[0] if len(near) == 1 else None


def says_exactly(memory: Memory, text: str) -> bool:
    """Whether a text is the memory's own sentence, case, blanks, end marks and "User" at its head aside."""
    return _plain(memory.content) == _plain(text)


def _plain(text: str) -> str:
    """A statement's words in lower case; that it is one about the user may be left out."""
    said = " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").casefold().split()).strip(" .!?…。！？\"'")
    return said.removeprefix("the ").removeprefix("user ")


def _says_nearly(memory: Memory, text: str, said: frozenset[str]) -> bool:
    return (
        2 * len(said & terms(memory.content)) >= _NEARLY * (len(said) + len(terms(memory.content)))
        and numbers(text) == numbers(memory.content)
        and names(text) == names(memory.content)
        and affirms(msgspec.structs.replace(memory, content=text)) == affirms(memory)
    )


def corrected(candidate: Memory, replaces: str | None, near: Sequence[Neighbour]) -> Memory | None:
    """The active memory that a correction is about, where its slot does not tell; None when none clearly is.

    What it names as wrong decides; else what it speaks of; else, when it speaks of nothing by itself ("it's 15,000
    now"), the last thing with such a value that was said in its conversation.
    """
    known = [one.memory for one in near if _may_be_corrected(candidate, one.memory)]
    if replaces:
        stated = [memory for memory in known if _states(memory, replaces)]
        return _closest(candidate, stated)
    if topic(candidate.content) - names(candidate.content):
        fitting = [memory for memory in known if changes(candidate, memory, corrects=True)]
        return _closest(candidate, fitting)
    here = [memory for memory in known if memory.session_id == candidate.session_id and _same_sort(candidate, memory)]
    return max(here, key=last_said_at, default=None)


def _may_be_corrected(candidate: Memory, known: Memory) -> bool:
    if not known.active or known.kind in (Kind.TURN, Kind.EPISODIC) or last_said_at(known) > said_at(candidate):
        return False
    if (known.project_id, known.agent_id) != (candidate.project_id, candidate.agent_id):
        return False
    if known.turn_ids and set(known.turn_ids) <= set(candidate.turn_ids):
        return False  # what one message says side by side holds side by side
    return not candidate.aspect or (known.aspect or "").casefold() == candidate.aspect.casefold()


def _states(memory: Memory, wrong: str) -> bool:
    """Whether it says what the correction calls wrong: its value, or most of its words."""
    if memory.object and same_value(value_name(memory.object), value_name(wrong)):
        return True
    about = topic(wrong) | names(wrong)
    if found := numbers(wrong):
        held = topic(memory.content) | names(memory.content)
        return found <= numbers(memory.content) and len(about & held) >= _MOST_OF_IT * len(about)
    return contains(memory.content, value_name(wrong)) or (bool(about) and about <= topic(memory.content))


def _closest(candidate: Memory, fitting: Sequence[Memory]) -> Memory | None:
    """The one that shares most of the candidate's topic; among equals the one of its conversation, said last."""
    about = topic(candidate.content)

    def fit(memory: Memory) -> tuple[int, bool, float]:
        shared = len(about & topic(memory.content))
        return (shared, memory.session_id == candidate.session_id, last_said_at(memory).timestamp())

    return max(fitting, key=fit, default=None)


def _same_sort(candidate: Memory, known: Memory) -> bool:
    """Whether a number corrects a statement with one number, or a name one with a name."""
    if numbers(candidate.content):
        return len(numbers(known.content)) == 1
    return bool(names(candidate.content)) and bool(known.object) and not numbers(known.object or "")


def stands_alone(candidate: Memory) -> bool:
    """Whether it can be understood without what was said before: it speaks of something, not only of a value."""
    about = topic(candidate.content) - topic(candidate.object or "")
    return bool(about) and _first_word(candidate.content) not in _PRONOUNS


def in_place_of(candidate: Memory, target: Memory) -> Memory:
    """The correction as what replaces a statement: its own words untouched, under the old one's names where it has none
    of its own (a bare value, "it's 15,000 now").
    """
    listed = has_many(predicate_name(target.predicate or "")[0])
    if (
        is_whole(candidate)
        or _turns(candidate, target)
        or slot_name(target) is None
        or (listed and not candidate.object)
    ):
        return candidate
    named = msgspec.structs.replace(
        candidate,
        kind=target.kind,
        subject=target.subject,
        predicate=target.predicate,
        aspect=target.aspect,
        category=candidate.category or target.category,
    )
    return msgspec.structs.replace(named, slot=slot_name(named))


def _turns(candidate: Memory, target: Memory) -> bool:
    """Whether it says otherwise about the same thing ("likes coffee", "hates coffee")."""
    slot, value = slot_name(candidate), value_name(candidate.object or "")
    return slot is not None and slot == slot_name(target) and value != "" and value == value_name(target.object or "")


def is_whole(candidate: Memory) -> bool:
    """Whether a correction says by itself of what it is: it has names, and a sentence of its own."""
    said = words(candidate.content)
    named = candidate.subject and candidate.predicate and candidate.object
    return bool(named) and len(said) >= _WHOLE and said[0] not in _PRONOUNS


def _first_word(text: str) -> str:
    found = re.match(r"\W*(\w+)", text)
    return found.group(1).casefold() if found else ""


def following(memory: Memory, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that follow when ``given`` ones of a statement are edited, as far as they are not given themselves: no
    object, relation or entity goes on saying what its words do not say any more.
    """
    if memory.kind is Kind.TURN:
        return {}
    fields: dict[str, Any] = {}
    content = given.get("content", memory.content)
    if "object" not in given and _is_gone(memory.object, memory.content, content):
        fields["object"] = _in_its_place(memory.object or "", memory.content, content)
    stated = {name: {**fields, **given}.get(name, getattr(memory, name)) for name in ("subject", "predicate", "object")}
    if "relations" not in given:
        relations = [one for old in memory.relations if (one := _restated(old, memory, stated)) is not None]
        fields |= {"relations": relations} if relations != memory.relations else {}
    if "entities" not in given:
        entities = [name for name in memory.entities if not _is_gone(name, memory.content, content)]
        new = stated["object"]
        if new and new not in entities and memory.object in memory.entities and memory.object not in entities:
            entities.append(new)
        fields |= {"entities": entities} if entities != memory.entities else {}
    return fields


def _is_gone(value: str | None, before: str, after: str) -> bool:
    """Whether an edit took a value out of the words."""
    name = value_name(value or "")
    return bool(name) and contains(before, name) and not contains(after, name)


def _in_its_place(value: str, before: str, after: str) -> str | None:
    """What the new words say where the old ones said a value; None where more than that has changed."""
    head, found, tail = before.partition(value)
    new = after[len(head) : len(after) - len(tail)].strip()
    return new if found and after.startswith(head) and after.endswith(tail) and new else None


def _restated(relation: Relation, memory: Memory, stated: Mapping[str, str | None]) -> Relation | None:
    """A relation of an edited statement, with what is stated now; None where that leaves one of its ends open."""
    changed: dict[str, str] = {}
    for name, new in stated.items():
        old = getattr(memory, name)
        if old is None or old == new or value_name(getattr(relation, name)) != value_name(old):
            continue
        if new is None:
            return None
        changed[name] = new
    return msgspec.structs.replace(relation, **changed) if changed else relation
