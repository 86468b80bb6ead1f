"""What recall answers: the block or why there is none, what it did without, the candidates as a receipt has them."""

import logging
from typing import Any

from memproxy.core.memory import Memory
from memproxy.core.protocol import RecallAnswer
from memproxy.errors import ModelError, ModelRefused
from memproxy.metrics import metrics
from memproxy.recall.assemble import Block
from memproxy.recall.course import Course
from memproxy.recall.rewrite import trouble
from memproxy.recall.select import Judged, Judgements

log = logging.getLogger(__name__)


def note(course: Course, stage: str, error: ModelError) -> None:
    """Recall went on without a model: in the receipt, in the metrics, and in the log. That a tenant's way to its model
    is not known yet is no failure.
    """
    course.notes.append(f"{stage}: {trouble(error)}")
    if not isinstance(error, ModelRefused):
        metrics().internal_errors.labels(where=f"recall.{stage}").inc()
        log.warning("recall goes on without its %s model: %s", stage, error.message)


def without(course: Course, result: str, reason: str | None = None, *, query: str) -> RecallAnswer:
    """No block, and why."""
    timings, notes = course.timings(), course.notes
    return RecallAnswer(result=result, reason=reason, query=query, timings=timings, notes=notes)


class Judgement(RecallAnswer, frozen=True, kw_only=True):
    """An answer that still knows its candidates: what a receipt tells of them can be made when the answer is out."""

    judged: Judgements

    def explained(self, most: int) -> RecallAnswer:
        """The answer alone, with ``most`` of the candidates beside those that may be in the block (0: none at all)."""
        shown = {citation.memory_id for citation in self.citations}
        told = self.judged.told(most) if most else []
        fields = {name: getattr(self, name) for name in RecallAnswer.__struct_fields__}
        return RecallAnswer(**fields | {"candidates": [_explain(one, one.scored.memory, shown) for one in told]})


def answered(block: Block, judged: Judgements, query: str, course: Course, *, explained: int) -> RecallAnswer:
    """The block with its lines, and ``explained`` of the candidates beside those that may be in it; 0: what became of
    them can be asked for later.
    """
    shown = {citation.memory_id for citation in block.citations}
    kept = [one.memory for one in judged.kept]
    answer = Judgement(
        result="injected" if block.text else "empty",
        context=block.text,
        tokens=block.tokens,
        citations=block.citations,
        timings=course.timings(),
        query=query,
        notes=course.notes,
        expiring={one.id: one.expires_at for one in kept if one.expires_at is not None and one.id in shown},
        judged=judged,
    )
    return answer.explained(explained) if explained else answer


def _explain(judged: Judged, memory: Memory, shown: set[str]) -> dict[str, Any]:
    """One candidate of a receipt: its signals, and why it is not in the block (``budget``: no room was left)."""
    injected = judged.rejected is None and memory.id in shown
    return {
        "memory_id": memory.id,
        "kind": memory.kind.value,
        "score": round(judged.scored.score, 4),
        "signals": {name: round(value, 4) for name, value in judged.scored.signals.items()},
        "injected": injected,
        "rejected": None if injected else judged.rejected or "budget",
    }
