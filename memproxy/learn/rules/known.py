"""What was stated before: known memories, then what the turns of the window stated, in order.

Corrections and retractions find here what they are about.
"""

from collections.abc import Sequence

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.slots import has_many, predicate_name, same_value, singular, subject_name, value_name, words
from memproxy.core.text import GENERIC_WORDS, key_terms
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.statements import SURE

_NAMES_NOTHING = GENERIC_WORDS | frozenset(
    """
    user told said changed actually wrong mistake moved old monday tuesday wednesday thursday friday saturday sunday
    today live use stay anymore longer stop stopped
    """.split()  # noqa: SIM905
)


_SAME = {"allergic": "allergy", "intolerant": "intolerance", "favourite": "favorite", "bday": "birthday", "mum": "mom"}


class Known(msgspec.Struct, frozen=True):
    """A statement that can be changed; ``turn`` is the place of its turn in the window, -1 for what was known
    before, which is the fact ``memory``.
    """

    statement: Extracted
    turn: int
    memory: str | None = None

    @property
    def terms(self) -> frozenset[str]:
        """The words of its content and of its predicate."""
        return terms(f"{self.statement.content} {self.statement.predicate or ''}".replace("_", " "))

    @property
    def topic(self) -> frozenset[str]:
        """What it is about: its words without those of its value."""
        return terms(self.statement.content.replace("_", " ")) - terms(self.statement.object or "")


class Ledger:
    """Statements in order, the newest last."""

    def __init__(self, known: Sequence[Memory]) -> None:
        facts = sorted(
            (one for one in known if one.kind is not Kind.TURN and one.active), key=lambda one: one.created_at
        )
        self._held = [Known(_of_memory(memory), -1, memory.id) for memory in facts]
        self.place = 0
        """The place of the turn that is read."""

    def add(self, statement: Extracted, turn: int) -> None:
        """Note what a turn stated; what it takes back or replaces is known no more."""
        self._held = [one for one in self._held if not _ends(statement, one.statement)]
        if statement.intent is not Intent.FORGET:
            self._held.append(Known(statement, turn))

    def newest(self) -> list[Known]:
        """All, the newest first."""
        return self._held[::-1]

    def said_in(self, first: int, last: int) -> list[Extracted]:
        """What the turns of this conversation from ``first`` to ``last`` stated, the newest first."""
        return [one.statement for one in self.newest() if max(first, 0) <= one.turn <= last]

    def holding(self, value: str) -> Extracted | None:
        """The one statement whose value is or holds this one; the newest where they say it of one question."""
        wanted = value_name(value)
        found = [one.statement for one in self.newest() if wanted and _holds(one.statement.object, wanted)]
        return found[0] if found and all(one.predicate == found[0].predicate for one in found) else None

    def asked_by(self, topic: str) -> list[Extracted]:
        """What is known of the user that answers the question a topic names ("my full name")."""
        said = frozenset(words(topic))
        held = (one.statement for one in self.newest())
        return [
            one for one in held if one.subject == "user" and one.predicate and frozenset(words(one.predicate)) <= said
        ]

    def all_about(self, topic: str) -> list[Extracted]:
        """The statements that hold every term of a topic, the newest first."""
        wanted = terms(topic)
        return [one.statement for one in self.newest() if wanted and wanted <= one.terms]


def terms(text: str) -> frozenset[str]:
    """The words by which a statement can be meant, made singular."""
    found = (singular(term) for term in key_terms(text, 64))
    return frozenset(_SAME.get(term, term) for term in found) - _NAMES_NOTHING


def same_slot(one: Extracted, other: Extracted) -> bool:
    """Whether two statements answer one question, that has one answer at a time."""
    if not (one.subject and other.subject and one.predicate and other.predicate):
        return False
    first, second = predicate_name(one.predicate)[0], predicate_name(other.predicate)[0]
    return first == second and subject_name(one.subject) == subject_name(other.subject) and not has_many(first)


def taken_back(statement: Extracted) -> Extracted:
    """The retraction of a statement."""
    return msgspec.structs.replace(statement, intent=Intent.FORGET, confidence=SURE, evidence=(), relations=())


def put_aside(statement: Extracted) -> Extracted:
    """The retraction of a statement that holds with another value now."""
    return msgspec.structs.replace(taken_back(statement), replaces=statement.object)


def with_value(statement: Extracted, value: str) -> Extracted | None:
    """What puts another value in a statement's place: the table's own sentence of that value. A sentence that somebody
    else wrote (a model, the API) is not written anew: it is taken back, and the message says what holds. None where
    nothing changes.
    """
    old = statement.object or ""
    if same_value(value_name(old), value_name(value)):
        return None
    if not statement.evidence:
        return put_aside(statement)
    head, found, _ = statement.content.rpartition(f"{old}.")
    if not old or not found:
        return None
    return Extracted(
        content=f"{head}{value}.",
        intent=Intent.CORRECT,
        kind=statement.kind,
        subject=statement.subject,
        predicate=statement.predicate,
        object=value,
        replaces=old,
        category=statement.category,
        confidence=SURE,
        importance=statement.importance,
    )


def _holds(value: str | None, wanted: str) -> bool:
    return f"_{wanted}_" in f"_{value_name(value or '')}_"


def _ends(new: Extracted, old: Extracted) -> bool:
    """Whether a statement leaves nothing of another one: it answers the same, replaces it or takes it back."""
    same_value_ = value_name(new.object or "") == value_name(old.object or "")
    if new.intent is Intent.FORGET and not new.predicate:
        return terms(new.content) <= Known(old, 0).terms
    if new.predicate == old.predicate and new.subject == old.subject:
        replaced = new.replaces is not None and value_name(new.replaces) == value_name(old.object or "")
        return same_value_ or replaced or same_slot(new, old)
    return new.intent is not Intent.FORGET and same_slot(new, old)


def _of_memory(memory: Memory) -> Extracted:
    """A fact as the rules look at it; its ``evidence`` is kept where the table itself read it there."""
    own = str(memory.metadata.get("extractor", "")).startswith("rules/")
    evidence = memory.metadata.get("evidence")
    return Extracted(
        content=memory.content,
        kind=memory.kind,
        subject=memory.subject,
        predicate=memory.predicate,
        object=memory.object,
        aspect=memory.aspect,
        stance=memory.stance,
        category=memory.category,
        confidence=memory.confidence,
        importance=memory.importance,
        evidence=(evidence,) if own and isinstance(evidence, str) else (),
    )
