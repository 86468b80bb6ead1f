"""The memory that an extracted candidate would become."""

import uuid
from datetime import datetime

import msgspec

from memproxy.core.chain import RECONCILED_AT, SAID
from memproxy.core.memory import Memory, Relation
from memproxy.core.scope import Scope
from memproxy.core.slots import slot_name, stance_of
from memproxy.learn.candidates import Extracted, Grounded


def memory_of(grounded: Grounded, scope: Scope, *, now: datetime, extractor: str) -> Memory:
    """The memory that a candidate would become, under a new id. What says no beginning holds since it was said."""
    candidate, turn = grounded.candidate, grounded.turn
    begins = candidate.valid_from or turn.created_at
    memory = Memory(
        id=str(uuid.uuid4()),
        tenant=scope.tenant,
        user_id=scope.user,
        project_id=scope.project,
        agent_id=scope.agent,
        session_id=scope.session,
        kind=candidate.kind,
        content=candidate.content,
        category=candidate.category,
        tags=list(candidate.tags),
        entities=list(candidate.entities),
        subject=candidate.subject,
        predicate=candidate.predicate,
        object=candidate.object,
        aspect=candidate.aspect,
        stance=candidate.stance or stance_of(candidate.predicate),
        confidence=candidate.confidence,
        importance=candidate.importance,
        trust=turn.trust,
        quarantined=grounded.quarantined,
        source=turn.source,
        turn_ids=[turn.id],
        relations=_relations(candidate, begins),
        created_at=now,
        updated_at=now,
        valid_from=begins,
        valid_to=candidate.valid_to,
        metadata={SAID: turn.created_at.isoformat(), "extractor": extractor, RECONCILED_AT: now.isoformat()}
        | ({"evidence": candidate.evidence[0]} if candidate.evidence else {}),
    )
    return msgspec.structs.replace(memory, slot=slot_name(memory))


def _relations(candidate: Extracted, begins: datetime) -> list[Relation]:
    """Its edges: those it names, else its own triple; each holds as long as it does, unless it says otherwise."""
    named = list(candidate.relations)
    if not named and candidate.subject and candidate.predicate and candidate.object:
        named = [Relation(subject=candidate.subject, predicate=candidate.predicate, object=candidate.object)]
    return [
        msgspec.structs.replace(one, valid_from=one.valid_from or begins, valid_to=one.valid_to or candidate.valid_to)
        for one in named
    ]
