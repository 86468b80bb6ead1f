"""What recall answers: the block or why there is none, and the candidates as a receipt has them."""

from typing import Any

from memproxy.core.protocol import RecallAnswer
from memproxy.recall.assemble import Block
from memproxy.recall.deadline import Deadline
from memproxy.recall.select import Judged, Judgements


def answer_without(deadline: Deadline, result: str, reason: str | None = None, *, query: str) -> RecallAnswer:
    """No block, and why."""
    return RecallAnswer(result=result, reason=reason, query=query, timings=deadline.timings(), notes=deadline.notes)


class Judgement(RecallAnswer, frozen=True, kw_only=True):
    """An answer that still has its candidates, so that a receipt can explain them after the answer is out."""

    judged: Judgements

    def explained(self, most: int) -> RecallAnswer:
        """The answer alone, with ``most`` of the candidates beside those that may be in the block (0: none at all)."""
        shown = {citation.memory_id for citation in self.citations}
        listed = self.judged.explained(most) if most else []
        fields = {name: getattr(self, name) for name in RecallAnswer.__struct_fields__}
        return RecallAnswer(**fields | {"candidates": [_explain(candidate, shown) for candidate in listed]})


def answer_with(
    block: Block, judged: Judgements, query: str, deadline: Deadline, *, floor: float, explained: int
) -> RecallAnswer:
    """The block with its lines, and ``explained`` of the candidates beside those that may be in it; 0: what became of
    them can be asked for later.
    """
    shown = {citation.memory_id for citation in block.citations}
    memories = [candidate.memory for candidate in judged.kept]
    answer = Judgement(
        result="injected" if block.text else "empty",
        context=block.text,
        tokens=block.tokens,
        citations=block.citations,
        timings=deadline.timings(),
        query=query,
        floor=floor,
        notes=deadline.notes,
        expiring={line.id: line.expires_at for line in memories if line.expires_at is not None and line.id in shown},
        judged=judged,
    )
    return answer.explained(explained) if explained else answer


def _explain(judged: Judged, shown: set[str]) -> dict[str, Any]:
    """One candidate of a receipt: its signals, and why it is not in the block (``budget``: no room was left)."""
    scored, memory = judged.scored, judged.scored.memory
    injected = judged.rejected is None and memory.id in shown
    return {
        "memory_id": memory.id,
        "kind": memory.kind.value,
        "score": round(scored.score, 4),
        "signals": {name: round(value, 4) for name, value in scored.signals.items()},
        "injected": injected,
        "rejected": None if injected else judged.rejected or "budget",
    }
