"""What a plan that was asked for from outside did, told in the words of learning's outcomes."""

from memproxy.core.protocol import PlanBody
from memproxy.core.receipt import Outcome

MOST_TOLD = 100
"""Outcomes noted of one plan: an import of thousands is not thousands of events."""


def written(asked: PlanBody, plan: PlanBody) -> list[Outcome]:
    """One outcome for each memory that the plan stored, edited or deleted (``reason`` is how it came: ``api`` or
    ``import``; of what was pruned ``expired`` or ``limit``), and one for a deletion by scope (``reason`` is the scope).
    What went with a message, as ``plan`` has it, is told like the message.
    """
    told = [
        Outcome(result="stored", reason=memory.source.value, memory_id=memory.id, kind=memory.kind.value)
        for memory in asked.upserts
    ]
    told += [Outcome(result="edited", reason="api", memory_id=name) for name in asked.changes]
    told += [Outcome(result="deleted", reason=asked.deleted_by, memory_id=name) for name in asked.deletes]
    if (gone := asked.delete_where) is not None:
        told += [Outcome(result="deleted", reason=asked.deleted_by, memory_id=name) for name in gone.ids]
        scopes = {"session": gone.session_ids, "project": gone.project_ids, "agent": gone.agent_ids}
        reason = next((name for name, ids in scopes.items() if ids), "user")
        told += [] if gone.ids else [Outcome(result="deleted", reason=reason)]
        along = [name for name in plan.deletes if name not in asked.deletes] if gone.ids else []
        told += [Outcome(result="deleted", reason=asked.deleted_by, memory_id=name) for name in along]
    if asked.undo_session is not None:
        told.append(Outcome(result="deleted", reason="session"))
    return [*asked.outcomes, *told][:MOST_TOLD]
