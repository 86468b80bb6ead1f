"""What is known so far while a window is read: known memories, then what its turns stated, in order.

Corrections and retractions ("no, it's 15,000 now", "I no longer have a dog") find here what they are about.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.slots import (
    has_many,
    predicate_name,
    same_value,
    singular,
    subject_name,
    value_name,
)
from memproxy.core.slots import words as slot_words
from memproxy.core.text import key_terms
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.kinds import product
from memproxy.learn.rules.model import SURE, Clause

_MOST_ENDED = 8
_JUST_SAID = 2
"""Turns back to what was said before the answer that a correction follows."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that can be corrected; ``turn`` is the place of its turn, -1 for what was known before.

    Its slot, its text made comparable and its terms are kept with it: every clause is compared with them.
    """

    statement: Extracted
    turn: int
    slot: tuple[str, ...] | None
    name: str
    told: frozenset[str]

    @property
    def is_owned(self) -> bool:
        """Whether it says that something is the user's, or used."""
        return (self.statement.predicate or "") in _OWNED

    @classmethod
    def of(cls, statement: Extracted, turn: int) -> "Known":
        """The statement as it is told in a turn."""
        asked = "" if (statement.predicate or "").startswith("told_") else statement.predicate or ""
        told = terms(f"{statement.content} {asked}".replace("_", " ")) | _kinds(statement)
        return cls(
            statement=statement, turn=turn, slot=slot_of(statement), name=value_name(statement.content), told=told
        )


_THINGS = {"phone": ("phone",), "tablet": ("tablet",), "computer": ("laptop", "computer"), "car": ("car",)}
_OWNED = frozenset({"owns", "drives", "car", "phone", "laptop", "tablet", "computer"})


def _kinds(statement: Extracted) -> frozenset[str]:
    """What a thing is called by its sort: "the car" is the VW Polo that somebody has."""
    if (statement.predicate or "") not in _OWNED or not statement.object:
        return frozenset()
    return frozenset(_THINGS.get(product(statement.object) or "", ()))


class Ledger:
    """Statements in order, the newest last."""

    def __init__(self, known: Sequence[Memory]) -> None:
        facts = [memory for memory in known if memory.kind is not Kind.TURN and memory.active]
        facts.sort(key=lambda memory: memory.created_at)
        self._held = [Known.of(_of_memory(memory), -1) for memory in facts]
        self.heard: list[frozenset[str]] = []
        """The terms of each sentence that was read, in order: what was spoken of, whether a rule read it or not."""
        self.told: list[tuple[int, Clause]] = []
        """The clauses that the user said in this conversation, each with the place of its turn."""
        self.ended: list[Extracted] = []
        """What this conversation took back, the newest last: "the new one is on 24 March" is of that."""
        self.answered = ""
        """What the assistant said last."""

    def add(self, statement: Extracted, turn: int) -> None:
        """Note what a turn stated; what it takes back or replaces is known no more."""
        if statement.intent is Intent.FORGET:
            gone = [one for one in self._held if _is_about(one.statement, statement)]
            self._held = [one for one in self._held if one not in gone]
            self.ended = [*self.ended, *(one.statement for one in gone)][-_MOST_ENDED:]
            return
        if any(one.statement.content == statement.content and one.turn == turn for one in self._held):
            return
        new = Known.of(statement, turn)
        self._held = [one for one in self._held if not _replaces(new, one)]
        self._held.append(new)

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is known or was said, so that nothing can be changed."""
        return not (self._held or self.told)

    @property
    def home(self) -> str | None:
        """Where the user is known to live, in the words of the statement."""
        return next((one.statement.content for one in self.newest() if one.statement.predicate == "lives_in"), None)

    def newest(self) -> list[Known]:
        """All, the newest first."""
        return self._held[::-1]

    def pointed_at(self, turn: int, sentence: str, *, is_name: bool) -> list[Known]:
        """What "it" can mean in a turn: what this conversation stated, the newest first, as long as it is spoken of: in
        the exchange before, or by a word of the answer before; of other days only what the sentence itself names ("my
        email changed, it's ann@new.example now"). A value that is
        but a name fits nearly everything, so what it takes the place of was just said: "No, it's Canberra" after
        "Sydney." is not about a dog that was named before.
        """
        newest = self.newest()
        if is_name:
            return [one for one in newest if one.turn >= 0 and turn - one.turn <= _JUST_SAID]
        spoken_of = terms(self.answered)
        near = [one for one in newest if one.turn >= 0 and (turn - one.turn <= _JUST_SAID or one.told & spoken_of)]
        named = frozenset(term for term in terms(sentence) if term.isalpha()) - NAMES_NOTHING
        return near or [one for one in newest if one.turn < 0 and one.told & named]

    def same_slot(self, statement: Extracted) -> Extracted | None:
        """What holds the slot of this statement with another value."""
        wanted = slot_of(statement)
        for one in self.newest():
            if wanted is not None and one.slot == wanted:
                return one.statement if not _same(one.statement, statement) else None
        return None

    def about(self, topic: str, *, least: int = 1) -> Extracted | None:
        """The statement that shares most of a topic's terms: at least half of them; the newest of equals."""
        wanted = terms(topic)
        best: tuple[float, Extracted] | None = None
        for one in self.newest():
            shared = len(wanted & one.told)
            if shared >= least and shared * 2 >= len(wanted) and (best is None or shared > best[0]):
                best = (shared, one.statement)
        return best[1] if best else None

    def all_about(self, topic: str) -> list[Extracted]:
        """The statements that hold every term of a topic."""
        wanted = terms(topic)
        return [one.statement for one in self.newest() if wanted and wanted <= one.told]

    def holding(self, value: str) -> Extracted | None:
        """The newest statement that holds a value."""
        wanted = value_name(value)
        for one in self.newest():
            if wanted and f"_{wanted}_" in f"_{one.name}_":
                return one.statement
        return None


NAMES_NOTHING = frozenset(
    """
    changed actually now instead sorry wrong mistake moved new old day time week month year monday tuesday wednesday
    thursday friday saturday sunday january february march april may june july august september october november
    december one two three four five six seven eight nine ten go get got make like have live work meant mean
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
"""Terms by which no statement is meant."""

_SAME_TOPIC = {
    "vacation": "trip",
    "holiday": "trip",
    "journey": "trip",
    "puppy": "dog",
    "kitten": "cat",
    "favourite": "favorite",
    "flat": "apartment",
    "stay": "live",
    "allergic": "allergy",
    "intolerant": "intolerance",
    "drive": "car",
    "employer": "job",
    "bday": "birthday",
    "major": "study",
    "degree": "study",
    "cell": "phone",
    "mobile": "phone",
    "married": "wedding",
    "marrying": "wedding",
    "pup": "dog",
    "kitty": "cat",
    "medication": "medicine",
    "meds": "medicine",
    "bicycle": "bike",
    "tv": "television",
    "wage": "salary",
    "income": "salary",
    "earn": "salary",
    "mum": "mother",
    "mom": "mother",
    "dad": "father",
}


def terms(text: str) -> frozenset[str]:
    """The terms of a topic, made comparable."""
    found = (singular(term) for term in key_terms(text, 64))
    plain = (_SAME_TOPIC.get(term, term) for term in found)
    return frozenset(re.sub(r"ing$", "", term) if len(term) > 5 else term for term in plain) - {"user", "told", "said"}


def _of_memory(memory: Memory) -> Extracted:
    return Extracted(
        content=memory.content,
        kind=memory.kind,
        subject=memory.subject,
        predicate=memory.predicate,
        object=memory.object,
        aspect=memory.aspect,
        stance=memory.stance,
        category=memory.category,
        tags=tuple(memory.tags),
        entities=tuple(memory.entities),
        confidence=memory.confidence,
        importance=memory.importance,
    )


def slot_of(statement: Extracted) -> tuple[str, ...] | None:
    """The slot as reconciliation names it (`core.slots.slot_name`), project and agent aside."""
    if not statement.subject or not statement.predicate:
        return None
    predicate, _ = predicate_name(statement.predicate)
    parts = (
        subject_name(statement.subject),
        predicate,
        "_".join(slot_words(statement.aspect or "")),
    )
    return (*parts, value_name(statement.object or statement.content)) if has_many(predicate) else parts


def _affirms(statement: Extracted) -> bool:
    return predicate_name(statement.predicate or "")[1]


def _same(one: Extracted, other: Extracted) -> bool:
    return _affirms(one) == _affirms(other) and same_value(
        value_name(one.object or one.content), value_name(other.object or other.content)
    )


def _replaces(new: Known, old: Known) -> bool:
    if new.slot is not None and new.slot == old.slot:
        return True
    said, held = new.statement, old.statement
    if said.intent is not Intent.CORRECT or not said.replaces or said.subject != held.subject:
        return False
    same = said.predicate == held.predicate or (_slug_less(said) == _slug_less(held) and said.kind is held.kind)
    return same and value_name(said.replaces) == value_name(held.object or "")


def _slug_less(statement: Extracted) -> str:
    """The predicate without the value that some hold ("is_on_keto" of "on keto")."""
    value = value_name(statement.object or "")
    return (statement.predicate or "").replace(value, "") if value else statement.predicate or ""


def _is_about(old: Extracted, forgotten: Extracted) -> bool:
    if forgotten.predicate and old.predicate and forgotten.subject and old.subject:
        if predicate_name(old.predicate)[0] != predicate_name(forgotten.predicate)[0]:
            return False
        return not forgotten.object or value_name(old.object or "") == value_name(forgotten.object)
    return terms(forgotten.content) <= terms(old.content)


def unique(statements: Iterable[Extracted]) -> list[Extracted]:
    """Each statement once."""
    found: dict[tuple[str, str, str], Extracted] = {}
    for one in statements:
        asked = (one.predicate or "") if one.intent is Intent.FORGET else ""
        found.setdefault((one.intent.value, one.content.casefold(), asked), one)
    return list(found.values())


def forgotten(statement: Extracted) -> Extracted:
    """The retraction of a statement."""
    return msgspec.structs.replace(
        statement,
        intent=Intent.FORGET,
        confidence=SURE,
        evidence=(),
        valid_from=None,
        valid_to=None,
        relations=(),
    )
