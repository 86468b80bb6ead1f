"""What an extraction reads and nominates, its JSON schema, and the memory that a candidate would become."""

import enum
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.facts import RECONCILED_AT, SAID
from memproxy.core.forget_all import is_all_forgotten
from memproxy.core.memory import Kind, Memory, Relation, noted_id
from memproxy.core.scope import Scope
from memproxy.core.slots import OFFERED_MANY, OFFERED_ONE, OTHER, slot_name, stance_of


class Intent(enum.StrEnum):
    """What the speaker does by saying it.

    ``state``: tells something. ``correct``: replaces what was said before ("no, it's 15,000 now"). ``forget``: takes
    back what is known ("forget what I told you about X"); then ``content`` names what is to be forgotten.
    ``forget_all``: takes back all that is known of the user; code reads that (`forget_everything`), no model says it.
    """

    STATE = "state"
    CORRECT = "correct"
    FORGET = "forget"
    FORGET_ALL = "forget_all"


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate, cleaned in form only; ``evidence`` are the quotes it rests on.

    ``stance`` is what somebody holds of an aspect (``positive``, ``negative``, ``mixed``, ``neutral``); ``replaces`` is
    the value or statement that a correction names as wrong, in the speaker's words; ``until`` is an end that was given
    in words ("next Friday"), for `grounding.with_end`.
    """

    content: str
    intent: Intent = Intent.STATE
    kind: Kind = Kind.SEMANTIC
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    aspect: str | None = None
    stance: str | None = None
    replaces: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    confidence: float = 0.8
    importance: float = 0.5
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    until: str | None = None
    evidence: tuple[str, ...] = ()


SHARED = ("content", "kind", "subject", "predicate", "object", "aspect", "category", "confidence", "importance")
"""Fields that a candidate and its memory have alike."""


class Grounded(msgspec.Struct, frozen=True):
    """A candidate and the turn it rests on, of the most trusted source. ``quarantined``: it is not injected until the
    user confirms it.
    """

    candidate: Extracted
    turn: Memory
    quarantined: bool = False


class Rejected(msgspec.Struct, frozen=True):
    """A candidate that is not stored, and why."""

    candidate: Extracted
    reason: str


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What one extraction reads: turns in order, which of them are new, and the related memories known already."""

    turns: Sequence[Memory]
    new_ids: frozenset[str]
    related: Sequence[Memory] = ()

    @property
    def newest(self) -> Memory:
        """The last of the new turns; all of them were said in its project and agent."""
        return next(turn for turn in reversed(self.turns) if turn.id in self.new_ids)


class Read(msgspec.Struct, frozen=True):
    """What one extraction came to."""

    grounded: list[Grounded]
    rejected: list[Rejected]


_UNQUOTED_ROLES = frozenset({"system", "developer"})


def is_read(turn: Memory) -> bool:
    """Whether the extractor sees this turn: said by the user or the assistant, not forgotten, and not empty."""
    if noted_id(turn.metadata, "role") in _UNQUOTED_ROLES or is_all_forgotten(turn.metadata):
        return False
    return bool(strip_blocks(turn.content).strip())


TEXT = {"type": "string"}
_MAYBE = {"type": ["string", "null"]}
TEXTS = {"type": "array", "items": TEXT}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}


def object_schema(properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an object with these properties and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_RELATION = object_schema(
    {"subject": TEXT, "predicate": TEXT, "object": TEXT, "valid_from": _MAYBE, "valid_to": _MAYBE},
    ["subject", "predicate", "object"],
)
_CANDIDATE = object_schema(
    {
        "intent": {"type": "string", "enum": ["state", "correct", "forget"]},
        "kind": {"type": "string", "enum": ["semantic", "procedural", "episodic"]},
        "content": TEXT,
        "subject": _MAYBE,
        "predicate": {"type": ["string", "null"], "enum": [*OFFERED_ONE, *OFFERED_MANY, OTHER, None]},
        "other_predicate": _MAYBE,
        "object": _MAYBE,
        "aspect": _MAYBE,
        "stance": {"type": ["string", "null"], "enum": ["positive", "negative", "mixed", "neutral", None]},
        "replaces": _MAYBE,
        "category": _MAYBE,
        "tags": TEXTS,
        "entities": TEXTS,
        "relations": {"type": "array", "items": _RELATION},
        "valid_from": _MAYBE,
        "valid_to": _MAYBE,
        "confidence": _SHARE,
        "importance": _SHARE,
        "evidence": TEXT,
    },
    ["content", "evidence"],
)

ANSWER_SCHEMA: dict[str, Any] = object_schema({"candidates": {"type": "array", "items": _CANDIDATE}}, ["candidates"])
"""One object with the list ``candidates``, each as `candidates.Extracted` (quotes as one text)."""


def memory_of(grounded: Grounded, scope: Scope, *, now: datetime, extractor: str) -> Memory:
    """The memory that a candidate would become, under a new id. Unless it says otherwise it holds since it was said.
    An episode does not end: models give the day on which it was over, and what happened then is asked for later.
    """
    candidate, turn = grounded.candidate, grounded.turn
    begins = candidate.valid_from or turn.created_at
    memory = Memory(
        id=str(uuid.uuid4()),
        tenant=scope.tenant,
        user_id=scope.user,
        project_id=scope.project,
        agent_id=scope.agent,
        session_id=scope.session,
        **{name: getattr(candidate, name) for name in SHARED},
        tags=list(candidate.tags),
        entities=list(candidate.entities),
        stance=candidate.stance or stance_of(candidate.predicate),
        trust=turn.trust,
        quarantined=grounded.quarantined,
        source=turn.source,
        turn_ids=[turn.id],
        relations=_relations(candidate, begins),
        created_at=now,
        updated_at=now,
        valid_from=begins,
        valid_to=None if candidate.kind is Kind.EPISODIC else candidate.valid_to,
        metadata={SAID: turn.created_at.isoformat(), "extractor": extractor, RECONCILED_AT: now.isoformat()}
        | ({"evidence": candidate.evidence[0]} if candidate.evidence else {}),
    )
    return msgspec.structs.replace(memory, slot=slot_name(memory))


def _relations(candidate: Extracted, begins: datetime) -> list[Relation]:
    """Its edges: those it names, else its own triple; each holds as long as it does, unless it says otherwise."""
    named = list(candidate.relations)
    if not named and candidate.subject and candidate.predicate and candidate.object:
        named = [Relation(subject=candidate.subject, predicate=candidate.predicate, object=candidate.object)]
    spans = [(edge.valid_from or begins, edge.valid_to or candidate.valid_to) for edge in named]
    pairs = zip(named, spans, strict=True)
    return [msgspec.structs.replace(edge, valid_from=begin, valid_to=end) for edge, (begin, end) in pairs]
