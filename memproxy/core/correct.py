"""Corrections: which statement "no, it's 15,000 now" replaces, and what it then says as a whole; what an edit of a
statement's words changes beside them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memproxy.core.chain import last_said_at, said_at
from memproxy.core.memory import Kind, Memory, Relation
from memproxy.core.similar import Neighbour, changes, contains, names, topic
from memproxy.core.slots import has_many, numbers, predicate_name, same_value, slot_name, value_name

_AMOUNT = re.compile(r"[$€£¥]?\s?\d[\d,]*(?:\.\d+)?(?:\s?[kKmM]\b)?")
SAID_AS = "said_as"
"""In ``metadata``: the content as it was extracted, of a correction that was completed."""

_PRONOUNS = frozenset({"it", "that", "this", "he", "she", "they"})


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
    return not candidate.aspect or (known.aspect or "").casefold() == candidate.aspect.casefold()


def _states(memory: Memory, wrong: str) -> bool:
    """Whether it says what the correction calls wrong: its value, or most of its words."""
    if memory.object and same_value(value_name(memory.object), value_name(wrong)):
        return True
    if found := numbers(wrong):
        return found <= numbers(memory.content)
    about = topic(wrong) | names(wrong)
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
    """The correction as it stands in the place of what it replaces: with its slot, and saying the whole thing."""
    if _turns(candidate, target):
        return candidate
    content = completed(candidate, target)
    value = _value(candidate)
    listed = has_many(predicate_name(target.predicate or "")[0])
    replaced = msgspec.structs.replace(
        candidate,
        content=content,
        kind=target.kind,
        subject=target.subject,
        predicate=target.predicate,
        object=value or candidate.object,
        aspect=target.aspect,
        category=candidate.category or target.category,
        entities=list(dict.fromkeys([*candidate.entities, *(target.entities if content != candidate.content else ())])),
        tags=list(dict.fromkeys([*candidate.tags, *target.tags])),
        metadata=candidate.metadata | ({SAID_AS: candidate.content} if content != candidate.content else {}),
    )
    return msgspec.structs.replace(replaced, slot=slot_name(replaced) if listed or target.slot else target.slot)


def _turns(candidate: Memory, target: Memory) -> bool:
    """Whether it says otherwise about the same thing ("likes coffee", "does not like coffee"): there is no value to put
    in the old one's place, and the old one's words would say the opposite.
    """
    slot, value = slot_name(candidate), value_name(candidate.object or "")
    return slot is not None and slot == slot_name(target) and value != "" and value == value_name(target.object or "")


def completed(candidate: Memory, target: Memory) -> str:
    """The candidate's content if it says what it is about; else the target's with the new value in the old one's
    place ("budget for the Hawaii vacation is $10,000", "it's 15,000 now": "... is $15,000").
    """
    said = topic(candidate.content) - names(candidate.content) - topic(candidate.object or "")
    about = topic(target.content) - names(candidate.content) - topic(target.object or "")
    if said and _first_word(candidate.content) not in _PRONOUNS and len(said & about) * 2 >= len(about):
        return candidate.content
    old, new = _old_words(target), _value(candidate)
    if old is None or new is None:
        return candidate.content if said & about else f"{target.content} (corrected: {candidate.content})"
    if new[:1].isdigit() and not old[:1].isdigit() and (kept := re.match(r"[$€£¥]\s?", old)):
        new = kept.group() + new
    return target.content.replace(old, new, 1)


def _first_word(text: str) -> str:
    found = re.match(r"\W*(\w+)", text)
    return found.group(1).casefold() if found else ""


def _old_words(target: Memory) -> str | None:
    """The value as the target's content writes it."""
    if target.object and target.object in target.content:
        return target.object
    amounts = _AMOUNT.findall(target.content)
    return str(amounts[0]).strip() if len(amounts) == 1 else None


def _value(candidate: Memory) -> str | None:
    """The new value in the speaker's words."""
    if candidate.object:
        return candidate.object
    amounts = _AMOUNT.findall(candidate.content)
    if len(amounts) == 1:
        return str(amounts[0]).strip()
    said = [word.strip(".,;:!?\"'") for word in candidate.content.split()[1:]]
    named = [word for word in said if word[:1].isupper()]
    return " ".join(named) or None


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
